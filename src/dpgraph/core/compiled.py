"""Loops compiled to machine code by numba, for inputs so large that array operations of numpy are too slow.

numba costs a process about 0.7 s (its import, and its types at the first call) even where the machine code is at hand.
So a module of compiled loops is imported where one is called, and only for inputs of at least `WORTH` numbers.

Machine code is kept by numba next to the sources, or in the user's cache folder where those are read-only; where
both are read-only, each process compiles for itself. A file's name holds a hash of source, processor and versions:
processes that start together, on whatever machines share the folder, write equal files, and none reads code of another
source or processor. Loops run on one thread and in the order that is written, so their results are the same everywhere;
for sums of float numbers a loop may ask for the processor's own order.
"""

import hashlib
import inspect
import pickle
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

WORTH = 1 << 18

_SCALARS = {
    "i4": "int32", "i8": "int64", "u2": "uint16", "u4": "uint32", "u8": "uint64", "f4": "float32", "f8": "float64",
}  # fmt: skip
VECTORS = frozenset({"reassoc", "contract"})  # sums in vectors; infinite numbers and NaN stay what they are


class Compiled:
    """A function of contiguous arrays and numbers of the types of `signature`; raises TypeError for other types.

    `signature` has a word per argument: `i8` a number; `i8[]` an array, read or written; `i8[!]` one that is only read.
    """

    def __init__(self, function: Callable[..., Any], signature: str, in_vectors: bool = False) -> None:
        self.function, self.signature, self.in_vectors = function, signature, in_vectors
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        return self.machine_code(*arguments)

    @cached_property
    def machine_code(self) -> Callable[..., Any]:
        import llvmlite
        import numba
        from llvmlite import binding as llvm

        source = Path(inspect.getfile(self.function)).read_bytes()
        machine = (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
        versions = (numba.__version__, llvmlite.__version__)
        name = hashlib.sha256(repr((source, self.signature, self.in_vectors, machine, versions)).encode()).hexdigest()[
            :16
        ]
        self.function.__qualname__ = f"{self.function.__name__}_{name}"  # numba makes the names of files of it
        try:
            return self._dispatcher(cache=True)
        except (OSError, EOFError, pickle.UnpicklingError):  # a disk that is full, a file that is broken
            return self._dispatcher(cache=False)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            return self._dispatcher(cache=False)

    def _dispatcher(self, cache: bool) -> Callable[..., Any]:
        import numba

        options = set(VECTORS) if self.in_vectors else False
        result: Callable[..., Any] = numba.njit(cache=cache, nogil=True, fastmath=options)(self.function)
        result.compile(tuple(_type(word) for word in self.signature.split()))  # type: ignore[attr-defined]
        result.disable_compile()  # type: ignore[attr-defined]
        return result


def compiled(signature: str, in_vectors: bool = False) -> Callable[[Callable[..., Any]], Compiled]:
    """Return the function as a `Compiled`, which is compiled or loaded at its first call.

    The function calls none of another module: numba does not see that those changed. `in_vectors` lets sums of float
    numbers be added up in the vectors of the processor, so that they are rounded as its vectors are long.
    """
    return lambda function: Compiled(function, signature, in_vectors)


def _type(word: str) -> Any:
    from numba.core import types

    name, _, array = word.partition("[")
    scalar = getattr(types, _SCALARS[name])
    return types.Array(scalar, 1, "C", readonly=array.startswith("!")) if array else scalar
