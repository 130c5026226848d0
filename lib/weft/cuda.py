"""The language of a kernel, in Numba's spelling: `from weft import cuda`.

These names mean something inside a kernel, which a runner starts once for each
thread: sim(kernel)[grid, block](...), numba_jit and cuda_c the same way. Anywhere
else they raise one error that says so. Beside them a kernel may use numbers, NumPy's
types (float32, int32 ...), range, min, max, abs, len, int, float, bool, print and
the functions of math. `numba.cuda` in a kernel means the same as this module.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn

from .base.errors import ArgumentError

warpsize = 32  # threads that run together: a warp


def outside(name: str) -> NoReturn:
    """Raise the error for a name that is used outside of a kernel."""
    raise ArgumentError(
        f"cuda.{name} exists inside a kernel: sim(kernel)[grid, block](...) runs one"
    )


def _inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of kernels: it keeps its signature and its text, and raises."""
    name = function.__qualname__

    @functools.wraps(function)
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        outside(name)

    return refuse


class Vector:
    """Three whole numbers .x .y .z that a thread finds under this name."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self.__doc__ = text

    x = property(lambda self: outside(f"{self._name}.x"))
    y = property(lambda self: outside(f"{self._name}.y"))
    z = property(lambda self: outside(f"{self._name}.z"))

    def __repr__(self) -> str:
        return f"<cuda.{self._name}, inside a kernel>"


class Number:
    """A whole number that a thread finds under this name."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self.__doc__ = text

    def __index__(self) -> int:
        outside(self._name)

    __int__ = __float__ = __index__

    def _refuse(self, *_: Any) -> NoReturn:
        outside(self._name)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = __lt__ = __gt__ = _refuse
    __lshift__ = __rshift__ = __rlshift__ = __truediv__ = __le__ = __ge__ = _refuse

    def __repr__(self) -> str:
        return f"<cuda.{self._name}, inside a kernel>"


# ---- who am I ----------------------------------------------------------------

threadIdx = Vector("threadIdx", "Which thread of its block this is.")
blockIdx = Vector("blockIdx", "Which block of the grid this thread's is.")
blockDim = Vector("blockDim", "How many threads a block has.")
gridDim = Vector("gridDim", "How many blocks the grid has.")
laneid = Number("laneid", "Which thread of its warp this is, 0 to 31.")


@_inside
def grid(ndim: int) -> Any:
    """This thread among all of the grid: an int for 1, a tuple (x, y) or (x, y, z)."""


@_inside
def gridsize(ndim: int) -> Any:
    """How many threads the grid has: an int for 1, a tuple for 2 or 3."""


# ---- memory ------------------------------------------------------------------


class shared:
    """Memory that the threads of a block have in common."""

    @staticmethod
    @_inside
    def array(shape: Any, dtype: Any) -> Any:
        """An array of a block, with nothing in it yet. shape: constant.

        Shape 0: as long as the bytes that the launch gives, [grid, block, stream,
        bytes]; all such arrays of a kernel begin at the same place.
        """


class local:
    """Memory of one thread."""

    @staticmethod
    @_inside
    def array(shape: Any, dtype: Any) -> Any:
        """An array of this thread, with nothing in it yet. shape: constant."""


class const:
    """Memory that no thread writes."""

    @staticmethod
    @_inside
    def array_like(array: Any) -> Any:
        """A NumPy array from outside of the kernel, to be read."""


class atomic:
    """array[index] changed in one step, whoever else does so; gives the old value."""

    @staticmethod
    @_inside
    def add(array: Any, index: Any, value: Any) -> Any:
        """old + value"""

    @staticmethod
    @_inside
    def sub(array: Any, index: Any, value: Any) -> Any:
        """old - value"""

    @staticmethod
    @_inside
    def min(array: Any, index: Any, value: Any) -> Any:
        """The smaller of old and value; NaN if one of them is."""

    @staticmethod
    @_inside
    def max(array: Any, index: Any, value: Any) -> Any:
        """The larger of old and value; NaN if one of them is."""

    @staticmethod
    @_inside
    def nanmin(array: Any, index: Any, value: Any) -> Any:
        """The smaller of old and value; a NaN gives way."""

    @staticmethod
    @_inside
    def nanmax(array: Any, index: Any, value: Any) -> Any:
        """The larger of old and value; a NaN gives way."""

    @staticmethod
    @_inside
    def and_(array: Any, index: Any, value: Any) -> Any:
        """old & value"""

    @staticmethod
    @_inside
    def or_(array: Any, index: Any, value: Any) -> Any:
        """old | value"""

    @staticmethod
    @_inside
    def xor(array: Any, index: Any, value: Any) -> Any:
        """old ^ value"""

    @staticmethod
    @_inside
    def exch(array: Any, index: Any, value: Any) -> Any:
        """value"""

    @staticmethod
    @_inside
    def inc(array: Any, index: Any, value: Any) -> Any:
        """old + 1, and 0 after value"""

    @staticmethod
    @_inside
    def dec(array: Any, index: Any, value: Any) -> Any:
        """old - 1, and value after 0 (or where old is above value)"""

    @staticmethod
    @_inside
    def cas(array: Any, index: Any, old: Any, value: Any) -> Any:
        """value if it is `old`, else what it is."""

    @staticmethod
    @_inside
    def compare_and_swap(array: Any, old: Any, value: Any) -> Any:
        """cas() of element 0."""


# ---- waiting -----------------------------------------------------------------


@_inside
def syncthreads() -> None:
    """Wait until all threads of the block are here."""


@_inside
def syncthreads_count(predicate: Any) -> int:
    """Wait for the block; for how many of its threads `predicate` is true."""


@_inside
def syncthreads_and(predicate: Any) -> int:
    """Wait for the block; whether `predicate` is true for all."""


@_inside
def syncthreads_or(predicate: Any) -> int:
    """Wait for the block; whether `predicate` is true for any."""


@_inside
def syncwarp(mask: int = 0xFFFFFFFF) -> None:
    """Wait until the lanes of the warp that `mask` names are here."""


@_inside
def threadfence() -> None:
    """What this thread wrote is seen by the grid before what it writes next."""


@_inside
def threadfence_block() -> None:
    """What this thread wrote is seen by its block before what it writes next."""


@_inside
def threadfence_system() -> None:
    """What this thread wrote is seen by the host too, before what it writes next."""


@_inside
def nanosleep(ns: int) -> None:
    """Let others run for about so long."""


# ---- within a warp -----------------------------------------------------------


@_inside
def shfl_sync(mask: int, value: Any, lane: int) -> Any:
    """The value of lane `lane` (modulo 32)."""


@_inside
def shfl_up_sync(mask: int, value: Any, delta: int) -> Any:
    """The value of the lane `delta` below; its own where there is none."""


@_inside
def shfl_down_sync(mask: int, value: Any, delta: int) -> Any:
    """The value of the lane `delta` above; its own where there is none."""


@_inside
def shfl_xor_sync(mask: int, value: Any, bits: int) -> Any:
    """The value of the lane whose number differs in `bits`."""


@_inside
def all_sync(mask: int, predicate: Any) -> bool:
    """Whether `predicate` is true for every lane that `mask` names."""


@_inside
def any_sync(mask: int, predicate: Any) -> bool:
    """Whether `predicate` is true for any lane that `mask` names."""


@_inside
def eq_sync(mask: int, value: Any) -> bool:
    """Whether `value` is the same for every lane that `mask` names (true or false)."""


@_inside
def ballot_sync(mask: int, predicate: Any) -> int:
    """A bit for each lane for which `predicate` is true."""


@_inside
def match_any_sync(mask: int, value: Any) -> int:
    """A bit for each lane that has the same value as this one."""


@_inside
def match_all_sync(mask: int, value: Any) -> tuple[int, bool]:
    """(mask, True) if all lanes have the same value, else (0, False)."""


@_inside
def activemask() -> int:
    """A bit for each lane of the warp that is here now."""


@_inside
def lanemask_lt() -> int:
    """A bit for each lane below this one."""


# ---- numbers -----------------------------------------------------------------


@_inside
def popc(x: int) -> int:
    """How many bits of x are set."""


@_inside
def clz(x: int) -> int:
    """How many zeros stand before the highest bit of x that is set."""


@_inside
def ffs(x: int) -> int:
    """The number of the lowest bit of x that is set, from 1; 0 if none is."""


@_inside
def brev(x: int) -> int:
    """x with its bits in reverse."""


@_inside
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""


@_inside
def cbrt(a: Any) -> Any:
    """The cube root of a."""


@_inside
def selp(condition: Any, a: Any, b: Any) -> Any:
    """a if condition else b, both computed."""
