"""Verify the configuration of a launch: kernel[grid, block, shared, stream]."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Number
from typing import Any

from ..base.errors import ArgumentError
from ..base.text import shorten_repr

MAX_THREADS = 1024  # threads per block
MAX_SHARED = 227 << 10  # bytes of dynamic shared memory on sm_90
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_REFUSED = " (a GPU returns cudaErrorInvalidConfiguration)"


@dataclass(frozen=True)
class LaunchConfig:
    """The shape of a launch, within CUDA's limits. stream: the value as passed."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int = 0
    stream: Any = None


def parse(kernel: str, key: Any) -> LaunchConfig:
    """Return the LaunchConfig for kernel[key].

    grid, block: an int, up to three ints, or an object with x, y and z. shared: bytes
    of dynamic shared memory. Raises ArgumentError for an invalid or excessive value.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if not 2 <= len(parts) <= 4:
        raise ArgumentError(
            f"{kernel}[...] takes grid and block, optionally bytes of shared memory "
            f"and a stream, e.g. {kernel}[blocks, 256](...); got {len(parts)}"
        )
    grid = _parse_dimension(kernel, "grid", parts[0], _GRID)
    block = _parse_dimension(kernel, "block", parts[1], _BLOCK)
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        text = f"{threads} threads, but at most {MAX_THREADS} are possible{_REFUSED}"
        raise ArgumentError(f"{kernel}: a block of {block} has {text}")
    shared = _convert_whole(kernel, "shared", parts[2]) if len(parts) > 2 else 0
    if not 0 <= shared <= MAX_SHARED:
        expected = f"0 to {MAX_SHARED} (227 KB) (a GPU returns cudaErrorInvalidValue)"
        raise ArgumentError(f"{kernel}: shared={shared} bytes, expected {expected}")
    return LaunchConfig(grid, block, shared, parts[3] if len(parts) > 3 else None)


def is_whole(key: Any) -> bool:
    """Return whether a key that equals a valid one contains only integers.

    It may contain floats, because 4.0 equals 4 even as the key of a dictionary.
    """
    parts = (part if type(part) is tuple else (part,) for part in key[:3])
    numbers = (n for part in parts for n in part if isinstance(n, Number))
    return all(hasattr(n, "__index__") for n in numbers)


def _parse_dimension(
    kernel: str, argument: str, value: Any, limits: tuple[int, int, int]
) -> tuple[int, int, int]:
    if all(hasattr(value, axis) for axis in "xyz"):
        value = (value.x, value.y, value.z)
    is_one = hasattr(value, "__index__") or not isinstance(value, Iterable)
    sides = [value] if is_one or isinstance(value, str) else list(value)
    if not 1 <= len(sides) <= 3:
        text = f"{shorten_repr(value)} has {len(sides)} dimensions, expected 1 to 3"
        raise ArgumentError(f"{kernel}: {argument} {text}")
    x, y, z = (*(_convert_whole(kernel, argument, side) for side in sides), 1, 1)[:3]
    for axis, side, limit in zip("xyz", (x, y, z), limits):
        if not 1 <= side <= limit:
            fault = f"is too large: {axis} is at most {limit}"
            if side < 1:
                fault = "is empty: every side must be at least 1"
            raise ArgumentError(f"{kernel}: {argument} {(x, y, z)} {fault}{_REFUSED}")
    return x, y, z


def _convert_whole(kernel: str, argument: str, value: Any) -> int:
    if hasattr(value, "__index__"):
        try:
            return operator.index(value)
        except Exception:  # another library's __index__ may raise any exception
            pass
    text = f"{argument} takes whole numbers, but got {shorten_repr(value)}"
    if isinstance(value, float):
        text += " (n / 2 is a float, n // 2 is a whole number; cdiv(n, 2) rounds up)"
    raise ArgumentError(f"{kernel}: {text}")
