"""Arrays in a kernel, the arguments of a launch, and logged accesses.

ArrayView is an array that a kernel uses, convert_argument() prepares arguments, and
Accesses handles arrays that are known only at run time.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import torch

from ...base.errors import ArgumentError
from ..language import explain_unfit, refuse_unfit
from . import numbers
from .layout import SITES, AccessPlace
from .numbers import cast
from .schedule import Stop

HALF = ": n / 2 is a float, n // 2 a whole number"  # suffix of messages about indices
POISON = 0xA5  # value of each byte of unwritten integers


class ArrayView:
    """An array, or a part of an array, in a kernel. Accesses to it are logged.

    raw: the memory.
    array: number of the whole array among the launch's arrays.
    start: row-major number, in the whole array, of the view's first element.
    steps: for each index, the change of this number if the index grows by 1.
    inner: whether the view is a part of an array.
    """

    __slots__ = ("array", "inner", "name", "raw", "start", "steps")

    def __init__(
        self,
        raw: np.ndarray,
        array: int,
        name: str,
        start: int = 0,
        steps: tuple[int, ...] | None = None,
    ) -> None:
        self.raw, self.array, self.name, self.start = raw, array, name, start
        self.steps = row_major(raw.shape) if steps is None else steps
        self.inner = steps is not None

    shape = property(lambda self: self.raw.shape)
    dtype = property(lambda self: self.raw.dtype)
    ndim = property(lambda self: self.raw.ndim)
    size = property(lambda self: self.raw.size)
    itemsize = property(lambda self: self.raw.itemsize)
    nbytes = property(lambda self: self.raw.nbytes)

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Any:
        loop = f"for i in range(len({self.name}))"
        raise TypeError(f"a thread reads {self.name} by its indices: {loop}")

    def __getitem__(self, index: Any) -> Any:
        """Return an element for a debugger's prompt, without logging the access."""
        return self.raw[index]

    def __getattr__(self, name: str) -> Any:
        if name[:2] == "__":  # Python looks for a special method
            raise AttributeError(name)
        raise AttributeError(
            f"{self.name}.{name} works on a whole array: one thread handles one "
            f"element, {self.name}[i]; write a loop if it handles several"
        )

    def _refuse_number(self, *_: Any) -> NoReturn:
        if self.inner:  # the kernel uses a row where it needs an element
            raise TypeError(
                f"{self.name} has more dimensions than the kernel uses indices: write "
                f"{self.name}[row, col], or pass {self.name}.ravel(), which is flat"
            )
        raise TypeError(
            f"{self.name} is an array, not a number: one thread handles one element, "
            f"{self.name}[i], with i = cuda.grid(1)"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse_number
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = _refuse_number
    __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _refuse_number
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse_number
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse_number
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __invert__ = _refuse_number
    __bool__ = __int__ = __float__ = __index__ = __array__ = _refuse_number

    def __eq__(self, other: Any) -> bool:
        return self._refuse_number()

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.name}: {self.raw!r}"

    def find(self, index: Any, place: Any) -> tuple[tuple[int, ...], int] | ArrayView:
        """Return (the index in raw, the element), or the ArrayView of a part.

        Raises Stop for an index out of bounds, and TypeError for an invalid index.
        """
        parts = index if type(index) is tuple else (index,)
        if len(parts) > len(self.steps):
            raise TypeError(
                f"{self.name} has {self.ndim} dimensions, but the kernel uses "
                f"{len(parts)} indices"
            )
        start, steps, key = self.start, [], []
        for axis, (side, step) in enumerate(zip(self.raw.shape, self.steps)):
            part = parts[axis] if axis < len(parts) else slice(None)
            if type(part) is slice:
                first, _, stride = part.indices(side)
                start += first * step
                steps.append(step * stride)
                key.append(part)
                continue
            number = convert_index(part, self.name)
            if not 0 <= number < side:
                raise self.outside(parts, place)
            start += number * step
            key.append(number)
        if not steps:
            return tuple(key), start
        raw = self.raw[tuple(key)]
        return ArrayView(raw, self.array, self.name, start, tuple(steps))

    def outside(self, parts: tuple[Any, ...], place: Any) -> Stop:
        """Return the Stop for a thread that is about to access a missing element."""
        index = tuple(int(p) if type(p) is not slice else 0 for p in parts)
        return Stop("bounds", has(self.name, self.shape), place, self.name, index)


def convert_index(value: Any, name: str) -> int:
    """Return an index as an int; raise TypeError, with a reason, for other values."""
    if type(value) is int:
        return value
    try:
        return value.__index__() + 0
    except (AttributeError, TypeError):
        hint = HALF if isinstance(value, (float, np.floating)) else ""
        raise TypeError(
            f"an index of {name} is a whole number, not {value!r} of type "
            f"{type(value).__name__}{hint}"
        ) from None


def has(name: str, shape: tuple[int, ...]) -> str:
    """Return "x has 12 elements" or "a has shape (4, 5)", for example."""
    if len(shape) == 1:
        return f"{name} has {shape[0]} element{'s' * (shape[0] != 1)}"
    return f"{name} has shape {shape}"


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return, for each axis, the distance between neighbours in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def poison(raw: np.ndarray) -> None:
    """Fill unwritten memory with NaN, or with POISON bytes in integer arrays."""
    if raw.dtype.kind in "fc":
        raw.fill(math.nan)
    elif raw.size and raw.flags.c_contiguous:
        raw.reshape(-1).view(np.uint8).fill(POISON)


# ---- arguments ---------------------------------------------------------------


def convert_argument(
    kernel: str, name: str, value: Any
) -> tuple[Any, Callable[[], Any]]:
    """Return the kernel's value for an argument, and a function to call afterwards.

    Arrays become NumPy arrays of the same memory. Arrays on a GPU are copied to the
    host, and the function copies them back. NumPy's integers become ints. An unsuitable
    value raises ArgumentError.
    """
    if isinstance(value, np.ndarray):
        return _check_array(kernel, name, value), _do_nothing
    if isinstance(value, (bool, int, float, complex, tuple)):
        return value, _do_nothing
    if isinstance(value, np.generic) and value.dtype.kind in "biufcV":
        return value.item() if value.dtype.kind in "biu" else value, _do_nothing
    if isinstance(value, torch.Tensor):
        return _convert_tensor(kernel, name, value)
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return _convert_tensor(kernel, name, torch.as_tensor(value, device="cuda"))
        if hasattr(value, "__array_interface__"):
            return _check_array(kernel, name, np.asarray(value)), _do_nothing
        if hasattr(value, "__dlpack__"):
            return _convert_tensor(kernel, name, torch.from_dlpack(value))
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentError(f"{kernel}: {name}: {error}") from None
    raise ArgumentError(f"{kernel}: {name} {explain_unfit(value, name)}")


def _do_nothing() -> None:
    pass


def _check_array(kernel: str, name: str, array: np.ndarray) -> np.ndarray:
    refuse_unfit(kernel, name, array)
    plain = np.asarray(array)
    if plain.dtype.fields is not None:  # np.record makes fields attributes: x[i].re
        plain = plain.view(np.dtype((np.record, plain.dtype)))
    return plain


def _convert_tensor(
    kernel: str, name: str, tensor: torch.Tensor
) -> tuple[np.ndarray, Callable[[], Any]]:
    refuse_unfit(kernel, name, tensor)
    on_host = tensor if tensor.device.type == "cpu" else tensor.cpu()
    try:
        array = on_host.numpy()
    except (TypeError, RuntimeError) as error:
        raise ArgumentError(f"{kernel}: {name}: {error}") from None
    if on_host is tensor:
        return array, _do_nothing
    return array, functools.partial(tensor.copy_, on_host)


CASTS = {f".cast_{kind.__name__}": cast(np.dtype(kind)) for kind in numbers.TYPES}


class Accesses:
    """The functions that rewritten code calls for some accesses: get, put, ...

    log: the launch's log; None without checks.
    """

    def __init__(self, places: list[AccessPlace]) -> None:
        self.places = places
        self.log: Any = None

    def get(self, array: Any, index: Any, number: int) -> Any:
        """Return array[index], and log the read."""
        place = self.places[number]
        if type(array) is not ArrayView:
            _refuse_number(array, place)
            return array[index]
        access = array.find(index, place)
        if type(access) is ArrayView:
            return access
        return array.raw[self._note(place, array, access)]

    def put(self, value: Any, array: Any, index: Any, number: int) -> None:
        """Store `value` in array[index], and log the write."""
        place = self.places[number]
        if type(array) is not ArrayView:
            _refuse_number(array, place)
            if isinstance(array, tuple):
                name = place.text.partition("[")[0]
                raise TypeError(f"{name} is a tuple, which is read-only: {place.text}")
            array[index] = value
            return
        access = array.find(index, place)
        if type(access) is ArrayView:
            raise TypeError(f"{array.name} is written element by element: {place.text}")
        if array.raw.dtype.kind in "iu":
            value = CASTS[f".cast_{array.raw.dtype.name}"](value)
        key = self._note(place, array, access)
        self.log.values.append(value)
        array.raw[key] = value

    def put_field(
        self, value: Any, array: Any, index: Any, number: int, field: str
    ) -> None:
        """Store `value` in array[index].field; log it as a write of the element."""
        if type(array) is not ArrayView:
            array[index][field] = value
            return
        place = self.places[number]
        access = array.find(index, place)
        if type(access) is ArrayView:
            raise TypeError(f"only an element has fields: {place.text}")
        key = self._note(place, array, access)
        self.log.values.append(field)  # so that writes of two fields count as different
        array.raw[key][field] = value

    def atomic(
        self, name: str, array: Any, index: Any, value: Any, new: Any, number: int
    ) -> Any:
        """Perform an atomic update, and log it."""
        place = self.places[number]
        if type(array) is not ArrayView:
            raise TypeError(f"cuda.atomic.{name} takes an array, not {array!r:.40}")
        access = array.find(index, place)
        if type(access) is ArrayView:
            raise TypeError(f"cuda.atomic.{name} takes one index per dimension")
        key = self._note(place, array, access)
        return numbers.update(array.raw, key, name, value, new, CASTS)

    def atomic_plain(
        self, name: str, array: Any, index: Any, value: Any, new: Any, number: int
    ) -> Any:
        """Perform an atomic update without logging it."""
        return numbers.update(array, index, name, value, new, CASTS)

    def _note(self, place: AccessPlace, array: ArrayView, access: Any) -> Any:
        """Log an access from find(), and return its index in array.raw."""
        key, element = access
        site = self.log.site(place, array.array)
        self.log.entries.append(element * SITES + site)
        return key


def _refuse_number(array: Any, place: AccessPlace) -> None:
    """Raise TypeError for x[i] where x is a number."""
    if isinstance(array, (int, float, complex, np.number)):
        name = place.text.partition("[")[0]
        raise TypeError(
            f"{name} is a number, {array!r}, not an array, in {place.text}: look at "
            f"the order of the arguments"
        )
