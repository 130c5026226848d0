"""The language of kernels, with Numba's names: `from weft import cuda`.

These names work only inside a kernel. A runner executes the kernel once per thread:
sim(kernel)[grid, block](...), and likewise numba_jit and cuda_c. Outside a kernel, the
names raise an ArgumentError that explains this. A kernel may also use numbers, NumPy's
types (float32, int32 ...) and the functions of math. Of Python's own functions, it may
use range, min, max, abs, len, int, float, bool and print. Inside a kernel, `numba.cuda`
means the same as this module.
"""

from __future__ import annotations

import functools
from typing import Any, NoReturn

from .base.errors import ArgumentError

warpsize = 32  # number of threads in a warp


def outside(name: str) -> NoReturn:
    """Raise ArgumentError for a name that is used outside a kernel."""
    raise ArgumentError(
        f"cuda.{name} works inside a kernel: sim(kernel)[grid, block](...) runs one"
    )


def _inside(item: Any) -> Any:
    """Return a function with the same signature and docstring that calls outside().

    The functions of a class are replaced by such functions, as static methods.
    """
    if isinstance(item, type):
        for name, function in list(vars(item).items()):
            if not name.startswith("_"):
                setattr(item, name, staticmethod(_inside(function)))
        return item
    path = item.__qualname__

    @functools.wraps(item)
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        outside(path)

    return refuse


class _Value:
    """A value that a thread reads by its name."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self.__doc__ = text

    def __repr__(self) -> str:
        return f"<cuda.{self._name}, inside a kernel>"


class Vector(_Value):
    """Three integers, .x .y .z, that a thread reads by this name."""

    x = property(lambda self: outside(f"{self._name}.x"))
    y = property(lambda self: outside(f"{self._name}.y"))
    z = property(lambda self: outside(f"{self._name}.z"))


class Number(_Value):
    """An integer that a thread reads by this name."""

    def _refuse(self, *_: Any) -> NoReturn:
        outside(self._name)

    __index__ = __int__ = __float__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __mod__ = __and__ = __or__ = __xor__ = __lt__ = __gt__ = _refuse
    __lshift__ = __rshift__ = __rlshift__ = __truediv__ = __le__ = __ge__ = _refuse


# ---- position in the grid ----------------------------------------------------

threadIdx = Vector("threadIdx", "Index of this thread in its block.")
blockIdx = Vector("blockIdx", "Index of this thread's block in the grid.")
blockDim = Vector("blockDim", "Number of threads in a block.")
gridDim = Vector("gridDim", "Number of blocks in the grid.")
laneid = Number("laneid", "Index of this thread in its warp, 0 to 31.")


@_inside
def grid(ndim: int) -> Any:
    """Return this thread's position in the grid: an int for 1, a tuple for 2 or 3."""


@_inside
def gridsize(ndim: int) -> Any:
    """Return the number of threads in the grid: an int for 1, a tuple for 2 or 3."""


# ---- memory ------------------------------------------------------------------


@_inside
class shared:
    """Memory that the threads of a block share."""

    def array(shape: Any, dtype: Any) -> Any:
        """Return an uninitialised array that the block shares. shape: a constant.

        With shape 0, the launch sets the size: [grid, block, stream, bytes]. All arrays
        with shape 0 in a kernel begin at the same address.
        """


@_inside
class local:
    """Memory that belongs to one thread."""

    def array(shape: Any, dtype: Any) -> Any:
        """Return an uninitialised array of this thread. shape: a constant."""


@_inside
class const:
    """Read-only memory."""

    def array_like(array: Any) -> Any:
        """Return a NumPy array from outside the kernel, in read-only memory."""


@_inside
class atomic:
    """Indivisible updates of array[index]; each returns the old value."""

    def add(array: Any, index: Any, value: Any) -> Any:
        """Store old + value."""

    def sub(array: Any, index: Any, value: Any) -> Any:
        """Store old - value."""

    def min(array: Any, index: Any, value: Any) -> Any:
        """Store the smaller of old and value, or NaN if either is NaN."""

    def max(array: Any, index: Any, value: Any) -> Any:
        """Store the larger of old and value, or NaN if either is NaN."""

    def nanmin(array: Any, index: Any, value: Any) -> Any:
        """Store the smaller of old and value; ignore a NaN."""

    def nanmax(array: Any, index: Any, value: Any) -> Any:
        """Store the larger of old and value; ignore a NaN."""

    def and_(array: Any, index: Any, value: Any) -> Any:
        """Store old & value."""

    def or_(array: Any, index: Any, value: Any) -> Any:
        """Store old | value."""

    def xor(array: Any, index: Any, value: Any) -> Any:
        """Store old ^ value."""

    def exch(array: Any, index: Any, value: Any) -> Any:
        """Store value."""

    def inc(array: Any, index: Any, value: Any) -> Any:
        """Store old + 1, or 0 if old >= value."""

    def dec(array: Any, index: Any, value: Any) -> Any:
        """Store old - 1, or value if old is 0 or old > value."""

    def cas(array: Any, index: Any, old: Any, value: Any) -> Any:
        """Store value if array[index] is `old`; leave it unchanged otherwise."""

    def compare_and_swap(array: Any, old: Any, value: Any) -> Any:
        """Apply cas() to element 0."""


# ---- barriers and fences -----------------------------------------------------


@_inside
def syncthreads() -> None:
    """Wait until all threads of the block have arrived."""


@_inside
def syncthreads_count(predicate: Any) -> int:
    """Wait for the block; return the number of threads with a true `predicate`."""


@_inside
def syncthreads_and(predicate: Any) -> int:
    """Wait for the block; return whether `predicate` is true for all its threads."""


@_inside
def syncthreads_or(predicate: Any) -> int:
    """Wait for the block; return whether `predicate` is true for any thread."""


@_inside
def syncwarp(mask: int = 0xFFFFFFFF) -> None:
    """Wait until all lanes of the warp that `mask` contains have arrived."""


@_inside
def threadfence() -> None:
    """Make this thread's writes visible to the grid before its later writes."""


@_inside
def threadfence_block() -> None:
    """Make this thread's writes visible to its block before its later writes."""


@_inside
def threadfence_system() -> None:
    """Make this thread's writes visible to grid and host before its later writes."""


@_inside
def nanosleep(ns: int) -> None:
    """Pause this thread for about `ns` nanoseconds."""


# ---- within a warp -----------------------------------------------------------


@_inside
def shfl_sync(mask: int, value: Any, lane: int) -> Any:
    """Return the value of lane `lane` % 32."""


@_inside
def shfl_up_sync(mask: int, value: Any, delta: int) -> Any:
    """Return the value of the lane `delta` below, or this lane's if there is none."""


@_inside
def shfl_down_sync(mask: int, value: Any, delta: int) -> Any:
    """Return the value of the lane `delta` above, or this lane's if there is none."""


@_inside
def shfl_xor_sync(mask: int, value: Any, bits: int) -> Any:
    """Return the value of the lane whose index is this lane's index ^ `bits`."""


@_inside
def all_sync(mask: int, predicate: Any) -> bool:
    """Return whether `predicate` is true for every lane in `mask`."""


@_inside
def any_sync(mask: int, predicate: Any) -> bool:
    """Return whether `predicate` is true for any lane in `mask`."""


@_inside
def eq_sync(mask: int, value: Any) -> bool:
    """Return whether `value` is true for every lane in `mask`, or false for all."""


@_inside
def ballot_sync(mask: int, predicate: Any) -> int:
    """Return a mask of the lanes in `mask` for which `predicate` is true."""


@_inside
def match_any_sync(mask: int, value: Any) -> int:
    """Return a mask of the lanes that have the same value as this one."""


@_inside
def match_all_sync(mask: int, value: Any) -> tuple[int, bool]:
    """Return (mask, True) if all lanes in `mask` have equal values, else (0, False)."""


@_inside
def activemask() -> int:
    """Return a mask of the warp's currently active lanes."""


@_inside
def lanemask_lt() -> int:
    """Return a mask of the lanes below this one."""


# ---- numbers -----------------------------------------------------------------


@_inside
def popc(x: int) -> int:
    """Return the number of 1 bits in x."""


@_inside
def clz(x: int) -> int:
    """Return the number of 0 bits above the highest 1 bit of x."""


@_inside
def ffs(x: int) -> int:
    """Return the position of the lowest 1 bit of x, counted from 1; 0 for x = 0."""


@_inside
def brev(x: int) -> int:
    """Return x with its bits in reverse order."""


@_inside
def fma(a: Any, b: Any, c: Any) -> Any:
    """Return a * b + c, rounded once."""


@_inside
def cbrt(a: Any) -> Any:
    """Return the cube root of a."""


@_inside
def selp(condition: Any, a: Any, b: Any) -> Any:
    """Return a if condition else b, after computing both."""
