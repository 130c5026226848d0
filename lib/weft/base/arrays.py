"""The basis of every check: arrays between guard zones, poison, one comparison.

check/ uses it for the reader's kernels, ops/check.py for the rungs of the ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .errors import Mismatch

GUARD = 256  # elements before and after every array
ORDERS = ("forward", "reverse", "shuffled")  # of threads; simt.h defines their numbers
# Signalling NaNs with a distinctive pattern. An element that still holds it was not
# written: any operation on one makes it quiet, which changes the pattern.
BFLOAT16_GUARD = 0x461C  # the bits of 9984
_NAN_BITS = {np.float16: 0x7D2D, np.float32: 0x7FAADEAD, np.float64: 0x7FF4DEADBEEFCAFE}


def poison(dtype: Any, turn: int = 0) -> np.generic:
    """Return the value that an output of this NumPy dtype holds before a launch.

    It is NaN, or an odd number far from any answer. A bool or a byte could be right by
    chance, so each `turn` gives a different one: two launches reveal it.
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
    """Return a bool array: where `values` still has the bits of its poison `start`."""
    kind = f"u{values.dtype.itemsize}"
    if values.dtype.kind == "c":
        return np.isnan(values)
    whole = np.ascontiguousarray(values).view(kind).reshape(values.shape)
    return whole == np.array(start, values.dtype).view(kind)


def guard_value(dtype: Any) -> np.generic:
    """Return the guard zones' value: a number, so that adding to it is detected."""
    dtype = np.dtype(dtype)
    return dtype.type(1e4 + 1 / 64) if dtype.kind in "fc" else poison(dtype)


class Guarded:
    """A copy of an array between two guard zones, on the host or on a GPU.

    array: a NumPy array or a torch tensor of any shape. bfloat16, which NumPy lacks, is
    kept as its bits. device: a torch device; the host by default.
    shift: number of elements from a multiple of 256 bytes to the array's start.
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
        """Return a copy, on the host, of the current elements between the guards."""
        return self._now()[self.inside].reshape(self.shape).copy()

    def verify_guards(self, name: str) -> None:
        """Raise Mismatch if an element before or past the array was written."""
        now, first = self._now(), self.inside.start
        count = self.inside.stop - first
        for zone, start, side in (
            (now[:first], -first, "before its start"),
            (now[self.inside.stop :], count, "past its end"),
        ):
            touched = np.flatnonzero(zone != self._guard[: zone.size])
            if touched.size:
                index = start + int(touched[0 if start >= 0 else -1])
                raise Mismatch(
                    f"{name}[{index}] was written: that is {side}",
                    **{"array": name, "index": (index,), "total": count},
                )

    def verify_untouched(self, name: str) -> None:
        """Raise Mismatch if the array or one of its guard zones was changed."""
        self.verify_guards(name)
        now, then = self._now(), self._before
        changed = (now != then) & ~((now != now) & (then != then))
        if changed.any():
            index = int(np.argmax(changed)) - self.inside.start
            at = tuple(map(int, np.unravel_index(index, self.shape)))
            raise Mismatch(
                f"the input {name} was overwritten at element {index}",
                **{"array": name, "index": at, "wrong": int(changed.sum())},
                **{"got": now[self.inside][index].item()},
                **{"want": then[self.inside][index].item()},
            )


def _aligned_copy(array: np.ndarray, by: int = 256) -> np.ndarray:
    """Copy a flat array to an address that is a multiple of `by`."""
    room = np.empty(array.nbytes + by, np.uint8)
    start = -room.ctypes.data % by
    copy = room[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def find_wrong(got: np.ndarray, want: np.ndarray, bound: Any) -> np.ndarray:
    """Return where |got - want| > bound, in float64; NaN is right only where wanted.

    got and want have one shape, to which bound broadcasts. Integers and bools are
    compared exactly where the bound is 0.
    """
    exact = got.dtype.kind in "biu" and want.dtype.kind in "biu"
    if exact and not np.any(bound):
        return got != want
    with np.errstate(all="ignore"):
        got64, want64 = widen_floats(got), widen_floats(want)
        # With this form of the test, an unexpected NaN in `got` is wrong.
        near = np.abs(got64 - want64) <= bound
        return ~(near | (np.isnan(got64) & np.isnan(want64)) | (got64 == want64))


def compare(name: str, got: Any, want: Any, bound: Any) -> float:
    """Raise Mismatch unless |got - want| <= bound everywhere.

    got and want: arrays or tensors of one shape; where want is NaN, got must be NaN.
    Returns the largest error over bound (0 where both are 0).
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise Mismatch(f"{name} has shape {got.shape}, want {want.shape}")
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
    """Return the Mismatch for the first element of `bad`, with both of its values."""
    at = tuple(map(int, np.unravel_index(np.argmax(bad), bad.shape)))
    within = f" within {bound[at]:.2g}" if bound[at] else ""
    return Mismatch(
        f"{name_element(name, at)} is {number(got[at])}, want "
        f"{number(want[at])}{within}; "
        f"{int(bad.sum())} of {bad.size} elements are wrong",
        **{"array": name, "index": at, "got": got[at].item(), "want": want[at].item()},
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
    """Format a grid or a block for a message: 16 for (16, 1, 1), (16, 4) for 2D."""
    kept = list(shape)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return str(kept[0]) if len(kept) == 1 else f"({', '.join(map(str, kept))})"


def widen_floats(array: np.ndarray) -> np.ndarray:
    """Convert to float64; leave complex numbers as they are."""
    return array if array.dtype.kind == "c" else array.astype(np.float64)
