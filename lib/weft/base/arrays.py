"""The basis of every check: arrays between guard zones, poison, and comparisons.

check/ uses this module for the reader's kernels, and ops/check.py for the ops' rungs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .errors import Mismatch

GUARD = 256  # guard elements before and after every array
ORDERS = ("forward", "reverse", "shuffled")  # the thread orders, numbered as in simt.h
BFLOAT16_GUARD = 0x461C  # the bfloat16 number 9984
# Signalling NaNs with a distinctive pattern. An element that still has this pattern was
# never written. Any operation on it makes the NaN quiet, which changes the pattern.
_NAN_BITS = {np.float16: 0x7D2D, np.float32: 0x7FAADEAD, np.float64: 0x7FF4DEADBEEFCAFE}


def poison(dtype: Any, turn: int = 0) -> np.generic:
    """Return the value that fills an output of a NumPy dtype before a launch.

    It is NaN or, for integers, an unusual number far from any answer. A bool or a byte
    can be right by chance, so its value changes with `turn`. Two launches then reveal
    an element that was not written.
    """
    dtype = np.dtype(dtype)
    if dtype.type in _NAN_BITS:
        bits = np.dtype(f"u{dtype.itemsize}").type(_NAN_BITS[dtype.type])
        return bits.view(dtype.type)
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind == "b":
        return np.bool_(turn % 2 == 0)
    if dtype.itemsize == 1:
        return dtype.type((85, 43, 117)[turn % 3])
    info = np.iinfo(dtype)
    return dtype.type((info.min or info.max // 2) + 12345 + 2 * turn)


def find_unwritten(values: np.ndarray, start: np.generic) -> np.ndarray:
    """Return a mask of the elements that still have the bits of the poison `start`."""
    kind = f"u{values.dtype.itemsize}"
    if values.dtype.kind == "c":
        return np.isnan(values)
    bits = np.ascontiguousarray(values).view(kind).reshape(values.shape)
    return bits == np.array(start, values.dtype).view(kind)


def guard_value(dtype: Any) -> np.generic:
    """Return the fill value of guard zones. Unlike NaN, it changes by an addition."""
    dtype = np.dtype(dtype)
    return dtype.type(1e4 + 1 / 64) if dtype.kind in "fc" else poison(dtype)


class Guarded:
    """A copy of an array between two guard zones, on the host or on a GPU.

    array: a NumPy array or a torch tensor of any shape. bfloat16, which NumPy lacks, is
    stored as its bits. device: a torch device; the host by default.
    shift: offset of the array's start from a multiple of 256 bytes, in elements.
    """

    def __init__(
        self, array: Any, device: torch.device | None = None, shift: int = 0
    ) -> None:
        self._bfloat16 = getattr(array, "dtype", None) == torch.bfloat16
        host = np.asarray(array.view(torch.int16) if self._bfloat16 else array)
        self.shape, self.dtype = host.shape, host.dtype
        value = BFLOAT16_GUARD if self._bfloat16 else guard_value(host.dtype)
        self._guard = np.full(GUARD + shift, value, host.dtype)
        front, back = self._guard, self._guard[:GUARD]
        self._before = np.concatenate([front, host.ravel(), back])
        self.inside = slice(len(front), len(front) + host.size)
        self._host = _aligned_copy(self._before)
        self._tensor = None
        if device is not None:
            self._tensor = torch.from_numpy(self._host).to(device)

    @property
    def tensor(self) -> torch.Tensor:
        """The flat elements between the guards: the memory that a kernel receives."""
        if self._tensor is None:
            self._tensor = torch.from_numpy(self._host)
        flat = self._tensor[self.inside]
        return flat.view(torch.bfloat16) if self._bfloat16 else flat

    @property
    def array(self) -> np.ndarray:
        """The same memory as a NumPy array of the original shape; on the host only."""
        return self._host[self.inside].reshape(self.shape)

    def _now(self) -> np.ndarray:
        return self._host if self._tensor is None else self._tensor.cpu().numpy()

    def values(self) -> np.ndarray:
        """Copy the current elements between the guards to the host."""
        return self._now()[self.inside].reshape(self.shape).copy()

    def verify_guards(self, name: str) -> None:
        """Raise Mismatch if an element before or past the array was written."""
        current, first = self._now(), self.inside.start
        count = self.inside.stop - first
        for zone, start, side in (
            (current[:first], -first, "before its start"),
            (current[self.inside.stop :], count, "past its end"),
        ):
            positions = np.flatnonzero(zone != self._guard[: zone.size])
            if positions.size:
                index = start + int(positions[0 if start >= 0 else -1])
                raise Mismatch(
                    f"{name}[{index}] was written: that is {side}",
                    **{"array": name, "index": (index,), "total": count},
                )

    def verify_untouched(self, name: str) -> None:
        """Raise Mismatch if the array or one of its guard zones was changed."""
        self.verify_guards(name)
        current, original = self._now(), self._before
        mask = (current != original) & ~((current != current) & (original != original))
        if mask.any():
            index = int(np.argmax(mask)) - self.inside.start
            position = tuple(map(int, np.unravel_index(index, self.shape)))
            raise Mismatch(
                f"the input {name} was overwritten at element {index}",
                **{"array": name, "index": position, "wrong": int(mask.sum())},
                **{"got": current[self.inside][index].item()},
                **{"want": original[self.inside][index].item()},
            )


def _aligned_copy(array: np.ndarray, alignment: int = 256) -> np.ndarray:
    """Copy a flat array to an address that is a multiple of `alignment`."""
    buffer = np.empty(array.nbytes + alignment, np.uint8)
    start = -buffer.ctypes.data % alignment
    copy = buffer[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def find_wrong(got: np.ndarray, want: np.ndarray, bound: Any) -> np.ndarray:
    """Return a mask of the wrong elements: |got - want| > bound in float64.

    NaN is right only where want is NaN. got and want have the same shape; bound is
    broadcast to it. If bound is 0 everywhere, integers and bools are compared exactly.
    """
    exact = got.dtype.kind in "biu" and want.dtype.kind in "biu"
    if exact and not np.any(bound):
        return got != want
    with np.errstate(all="ignore"):
        got64, want64 = widen_floats(got), widen_floats(want)
        # `<=` is false for NaN, so an unexpected NaN in `got` is wrong.
        near = np.abs(got64 - want64) <= bound
        return ~(near | (np.isnan(got64) & np.isnan(want64)) | (got64 == want64))


def compare(name: str, got: Any, want: Any, bound: Any) -> float:
    """Raise Mismatch unless |got - want| <= bound everywhere.

    got and want: arrays or tensors of one shape; where want is NaN, got must be NaN.
    Returns the largest ratio of error to bound (0 where the error is 0).
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise Mismatch(f"{name} has shape {got.shape}, expected {want.shape}")
    bound = np.broadcast_to(np.asarray(bound, np.float64), want.shape)
    bad = find_wrong(got, want, bound)
    if bad.any():
        raise describe_mismatch(name, got, want, bound, bad)
    with np.errstate(all="ignore"):
        error = np.abs(widen_floats(got) - widen_floats(want))
        ratio = np.where(error > 0, error / bound, 0.0)
    return float(np.nan_to_num(ratio, nan=0.0).max()) if ratio.size else 0.0


def describe_mismatch(
    name: str, got: np.ndarray, want: np.ndarray, bound: np.ndarray, bad: np.ndarray
) -> Mismatch:
    """Return the Mismatch for the first element of `bad`, with both arrays' values."""
    index = tuple(map(int, np.unravel_index(np.argmax(bad), bad.shape)))
    value, expected = got[index], want[index]
    within = f" within {bound[index]:.2g}" if bound[index] else ""
    return Mismatch(
        f"{name_element(name, index)} is {number(value)}, expected {number(expected)}"
        f"{within}; {int(bad.sum())} of {bad.size} elements are wrong",
        **{"array": name, "index": index, "got": value.item(), "want": expected.item()},
        **{"wrong": int(bad.sum()), "total": bad.size},
    )


def name_element(name: str, at: tuple[int, ...]) -> str:
    """Return "c[1, 2]", or the name alone for an array without dimensions."""
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def number(value: Any) -> str:
    """Format an element for a message."""
    value = value.item() if hasattr(value, "item") else value
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def shorten_shape(shape: Sequence[int]) -> str:
    """Format a grid or block without trailing ones: (16, 1, 1) becomes 16."""
    sides = list(shape)
    while len(sides) > 1 and sides[-1] == 1:
        sides.pop()
    return str(sides[0]) if len(sides) == 1 else f"({', '.join(map(str, sides))})"


def widen_floats(array: np.ndarray) -> np.ndarray:
    """Convert an array to float64; return complex numbers unchanged."""
    return array if array.dtype.kind == "c" else array.astype(np.float64)
