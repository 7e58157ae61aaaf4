"""Norms of a first layer's gradients, and sums over the rows of a node, as compiled loops: one pass over the rows.

Row i of root v, `ptr[v] <= i < ptr[v + 1]`, holds the gradient `above[source[i]]` for what the layer gave, and the
layer's output `output[index[i]]`; both are flat, `width` numbers a row.
"""

from __future__ import annotations

import numpy as np

from dpgraph.compiled import compiled


def norms(  # type: ignore[no-untyped-def]
    kind, width, ptr, index, source, output, above, first, products, rows, squared, scales
):
    """Writes each root's squared norm sum_ij p_ij (g_i . g_j), and its scale (sum_i sqrt(p_ii) ||g_i||)^2.

    The products p of a root's w rows are `products[first[v] + i w + j]`. `rows` has memory for one root.
    """
    one, zero = rows.dtype.type(1), rows.dtype.type(0)
    for v in range(len(first)):
        begin, size, place = ptr[v], ptr[v + 1] - ptr[v], first[v]
        total, scale = zero, zero
        for i in range(size):
            states = output[index[begin + i] * width : (index[begin + i] + 1) * width]
            gradients = above[source[begin + i] * width : (source[begin + i] + 1) * width]
            row = rows[i * width : (i + 1) * width]
            if kind == 1:
                for k in range(width):
                    row[k] = gradients[k] * (one - states[k] * states[k])
            elif kind == 2:
                for k in range(width):
                    row[k] = zero if states[k] <= zero else gradients[k]
            else:
                for k in range(width):
                    row[k] = gradients[k]
            length = zero
            for k in range(width):
                length += row[k] * row[k]
            own = products[place + i * size + i] * length
            total += own
            scale += np.sqrt(own)
            for j in range(i):
                other = rows[j * width : (j + 1) * width]
                dot = zero
                for k in range(width):
                    dot += row[k] * other[k]
                total += (one + one) * products[place + i * size + j] * dot
        squared[v] = zero if total < zero else total
        scales[v] = scale * scale


def add_rows(width, ptr, index, source, factors, above, sums):  # type: ignore[no-untyped-def]
    """Adds each row's `above`, times its root's factor, to `sums[index]`; rows of a root of factor 0 are not read."""
    for v in range(len(factors)):
        factor = factors[v]
        if factor == 0:
            continue
        for i in range(ptr[v], ptr[v + 1]):
            gradients = above[source[i] * width : (source[i] + 1) * width]
            total = sums[index[i] * width : (index[i] + 1) * width]
            for k in range(width):
                total[k] += factor * gradients[k]


def _both(function, signature):  # type: ignore[no-untyped-def]
    return {name: compiled(signature.replace("f", name), in_vectors=True)(function) for name in ("f4", "f8")}


NORMS = _both(norms, "i8 i8 i8[!] i8[!] i8[!] f[!] f[!] i8[!] f[!] f[] f[] f[]")
ADD_ROWS = _both(add_rows, "i8 i8[!] i8[!] i8[!] f[!] f[!] f[]")
