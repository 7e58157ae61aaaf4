"""Passes over the rows of a batch as compiled loops, where array operations would each read and write all of them.

Row i of root v, `ptr[v] <= i < ptr[v + 1]`, holds the gradient `above[source[i]]` for what the layer gave, and the
layer's output `output[index[i]]`; both are flat, `width` numbers a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dpgraph.core.compiled import compiled

AHEAD = 2  # rows that are prefetched, because they lie anywhere in memory
LINE = 64  # bytes that come at once
UNDERFLOW = 2.0**-60  # that of `precision`: machine code that is kept knows no other module


@intrinsic  # type: ignore[misc]
def _prefetch(context: Any, array: Any, place: Any) -> Any:
    """Ask for the numbers around array[place], and go on: no number depends on it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        held = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        read, keep, data = number(0), number(3), number(1)
        builder.call(function, [builder.bitcast(builder.gep(held, [arguments[1]]), byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(array, place), code


# tanh x = x p(x^2) / q(x^2) where |x| <= BOUND, beyond which a float32 of it is 1 to four unit roundoffs: coefficients,
# of the highest power first, of Eigen's `generic_fast_tanh_float`, whose relative error is below 3 10^-7
BOUND = np.float32(7.90531110763549805)
P6, P5, P4, P3, P2, P1, P0 = np.array(
    [-2.76076847742355e-16, 2.00018790482477e-13, -8.60467152213735e-11, 5.12229709037114e-8, 1.48572235717979e-5,
     6.37261928875436e-4, 4.89352455891786e-3],
    dtype=np.float32,
)  # fmt: skip
Q3, Q2, Q1, Q0 = np.array(
    [1.19825839466702e-6, 1.18534705686654e-4, 2.26843463243900e-3, 4.89352518554385e-3], dtype=np.float32
)


def finish(kind, bias, values):  # type: ignore[no-untyped-def]
    """Add the bias to each row of float32 numbers and apply the activation, in place; NaN stays NaN."""
    width, zero = len(bias), np.float32(0)
    for i in range(len(values) // width):
        row = values[i * width : (i + 1) * width]
        if kind == 1:
            for k in range(width):
                x = row[k] + bias[k]
                x = BOUND if x > BOUND else x
                x = -BOUND if x < -BOUND else x
                s = x * x
                p = (((((P6 * s + P5) * s + P4) * s + P3) * s + P2) * s + P1) * s + P0
                q = ((Q3 * s + Q2) * s + Q1) * s + Q0
                row[k] = np.true_divide(x * p, q)  # `/` would look for zeros, one number at a time
        elif kind == 2:
            for k in range(width):
                x = row[k] + bias[k]
                row[k] = zero if x < zero else x
        else:
            for k in range(width):
                row[k] += bias[k]


def pull(kind, width, gradients, output, below, squares):  # type: ignore[no-untyped-def]
    """Write the gradients of an activation's input to `below`, and their rows' squared lengths to `squares`.

    `output` is the activation's output, `gradients` are its gradients. Squared lengths are summed in float64.
    """
    one, zero = below.dtype.type(1), below.dtype.type(0)
    for i in range(len(squares)):
        given, states = gradients[i * width : (i + 1) * width], output[i * width : (i + 1) * width]
        row, square = below[i * width : (i + 1) * width], 0.0
        if kind == 1:
            for k in range(width):
                x = np.float64(given[k] * (one - states[k] * states[k]))
                row[k] = x
                square += x * x
        elif kind == 2:
            for k in range(width):
                x = np.float64(zero if states[k] <= zero else given[k])
                row[k] = x
                square += x * x
        else:
            for k in range(width):
                x = np.float64(given[k])
                row[k] = x
                square += x * x
        squares[i] = square


def weigh(width, factors, rows, weighted, total):  # type: ignore[no-untyped-def]
    """Write each row times its factor to `weighted`, and add these up in `total`, in float64."""
    for i in range(len(factors)):
        factor, row, result = factors[i], rows[i * width : (i + 1) * width], weighted[i * width : (i + 1) * width]
        for k in range(width):
            x = factor * row[k]
            result[k] = x
            total[k] += x


def pull_sums(kind, width, ptr, source, above, output, below, total):  # type: ignore[no-untyped-def]
    """Write `pull` of the sums of `above[source[e]]`, ptr[i] <= e < ptr[i + 1], for each row i of `output`.

    Add the rows up in `total`. Sums are in float64: which batches come here depends on records and lists, and elsewhere
    sums over many roots are not added up one after the other.
    """
    one, zero = below.dtype.type(1), below.dtype.type(0)
    last, line = len(source) - 1, LINE // below.itemsize
    sums = np.empty(width, dtype=np.float64)
    for i in range(len(ptr) - 1):
        row, states = below[i * width : (i + 1) * width], output[i * width : (i + 1) * width]
        for k in range(width):
            sums[k] = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            coming = source[min(e + AHEAD, last)] * width
            for k in range(0, width, line):
                _prefetch(above, coming + k)  # type: ignore[call-arg]
            given = above[source[e] * width : (source[e] + 1) * width]
            for k in range(width):
                sums[k] += given[k]
        if kind == 1:
            for k in range(width):
                row[k] = sums[k] * (one - states[k] * states[k])
        elif kind == 2:
            for k in range(width):
                row[k] = zero if states[k] <= zero else sums[k]
        else:
            for k in range(width):
                row[k] = sums[k]
        for k in range(width):
            total[k] += row[k]


def norms(  # type: ignore[no-untyped-def]
    kind, width, ptr, index, source, output, above, first, products, rows, squared, scales
):
    """Write each root's squared norm sum_ij p_ij (g_i . g_j), and its scale (sum_i sqrt(p_ii) ||g_i||)^2.

    The scale is enlarged as by `precision.with_underflow`; p_ii is at least 1, so that no gradient counts there. Sums
    are in float64, as those of `precision.inner_products`.

    The products p of a root's w rows are `products[first[v] + i w + j]`. `rows` has memory for one root.
    """
    one, zero = rows.dtype.type(1), rows.dtype.type(0)
    last, line = len(index) - 1, LINE // rows.itemsize
    for v in range(len(first)):
        begin, size, place = ptr[v], ptr[v + 1] - ptr[v], first[v]
        total, scale, longest = 0.0, 0.0, zero
        for i in range(size):
            coming = index[min(begin + i + AHEAD, last)] * width
            for k in range(0, width, line):
                _prefetch(output, coming + k)  # type: ignore[call-arg]
            states = output[index[begin + i] * width : (index[begin + i] + 1) * width]
            gradients = above[source[begin + i] * width : (source[begin + i] + 1) * width]
            row = rows[i * width : (i + 1) * width]
            length = 0.0
            if kind == 1:
                for k in range(width):
                    x = np.float64(gradients[k] * (one - states[k] * states[k]))
                    row[k] = x
                    length += x * x
            elif kind == 2:
                for k in range(width):
                    x = np.float64(zero if states[k] <= zero else gradients[k])
                    row[k] = x
                    length += x * x
            else:
                for k in range(width):
                    x = np.float64(gradients[k])
                    row[k] = x
                    length += x * x
            reach = products[place + i * size + i]
            longest = reach if reach > longest else longest
            own = reach * length
            total += own
            scale += np.sqrt(own)
            for j in range(i):
                other = rows[j * width : (j + 1) * width]
                dot = 0.0
                for k in range(width):
                    dot += row[k] * other[k]
                total += 2.0 * products[place + i * size + j] * dot
        squared[v] = 0.0 if total < 0.0 else total
        scales[v] = scale * scale + UNDERFLOW * longest


def add_rows(width, ptr, index, source, factors, above, sums):  # type: ignore[no-untyped-def]
    """Add each row's `above`, times its root's factor, to `sums[index]` in float64; a root of factor 0 is not read."""
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
    return {
        name: compiled(signature.replace("f", name).replace("D", "f8"), in_vectors=True)(function)
        for name in ("f4", "f8")
    }


NORMS = _both(norms, "i8 i8 i8[!] i8[!] i8[!] f[!] f[!] i8[!] f[!] f[] f[] f[]")
ADD_ROWS = _both(add_rows, "i8 i8[!] i8[!] i8[!] f[!] f[!] D[]")
FINISH = compiled("i8 f4[!] f4[]", in_vectors=True)(finish)
PULL = _both(pull, "i8 i8 f[!] f[!] f[] f[]")
WEIGH = _both(weigh, "i8 f[!] f[!] f[] D[]")
PULL_SUMS = _both(pull_sums, "i8 i8 i8[!] i8[!] f[!] f[!] f[] D[]")
