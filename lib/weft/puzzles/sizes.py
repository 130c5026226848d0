"""Choose the sizes at which answers are tried: every small one, and a few large ones.

An answer that is wrong at one size alone is wrong, so no small size is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ..base.errors import ArgumentError

SMALL = 16  # each length up to this is tried


def every_size(own: Sequence[Any], *large: Any, most: Any = SMALL) -> list[Any]:
    """Return `own` in order, then sizes with every length of each side, then `large`.

    own, large: numbers, or tuples or dicts with a number for each side. own comes
    first, since the reader gets the first size that is wrong. most: the longest side, a
    number or one for each side. Raises ArgumentError for a size of another kind than
    the first.
    """
    if not own:
        raise ArgumentError("every_size([]): there must be one size at least")
    first = own[0]
    lengths = len(first) if isinstance(first, (dict, tuple)) else 1
    limits = most if isinstance(most, tuple) else (most,) * lengths
    if len(limits) != lengths:
        raise ArgumentError(f"most={most!r}: {lengths} sides have as many lengths")
    rows = [_order_sides(size, first) for size in own]
    rows += [*_list_small(limits), *(_order_sides(size, first) for size in large)]
    return [_convert_size(first, row) for row in dict.fromkeys(rows)]


def _list_small(limits: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """List rows in which each side takes every length from 1 to its limit.

    Each side has its own stride through the lengths, so that short ones meet long ones.
    """
    strides = [_choose_stride(limit, turn) for turn, limit in enumerate(limits)]
    for i in range(max(limits)):
        yield tuple(
            (i * stride + turn) % limit + 1
            for turn, (stride, limit) in enumerate(zip(strides, limits))
        )


def _choose_stride(limit: int, turn: int) -> int:
    """Choose a stride that skips no length: it shares no divisor with `limit`."""
    first = 2 * turn + 1
    return next(s for s in range(first, first + limit + 1) if math.gcd(s, limit) == 1)


def _order_sides(size: Any, first: Any) -> tuple[int, ...]:
    """Return a size's numbers in the order of the first size's."""
    if type(size) is not type(first):
        raise ArgumentError(f"sizes: {size!r} is of another kind than {first!r}")
    if isinstance(first, dict):
        if set(size) != set(first):
            raise ArgumentError(f"sizes: {size!r} has other sides than {first!r}")
        return tuple(size[name] for name in first)
    row = size if isinstance(size, tuple) else (size,)
    if isinstance(first, tuple) and len(row) != len(first):
        raise ArgumentError(f"sizes: {size!r} has {len(row)} sides, not {len(first)}")
    return row


def _convert_size(first: Any, row: tuple[int, ...]) -> Any:
    """Return the numbers of a size in the form of the first size."""
    if isinstance(first, dict):
        return dict(zip(first, row))
    return row if isinstance(first, tuple) else row[0]
