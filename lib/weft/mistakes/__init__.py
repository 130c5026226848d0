"""What kind of mistake a wrong answer looks like, guessed from the numbers alone.

Each guess is one sentence that begins with "looks like". It is made only where the
numbers fit it everywhere, and it stays a guess: two mistakes can look the same.

    scene               a wrong output, and all that is known about it
    values              guesses from the output alone
    inputs              ... from what other inputs would give
    indices, wholes     ... of an output that holds places, or whole numbers
    where               ... from which region is wrong
    runs                which sizes and blocks go wrong
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import indices, inputs, values, where, wholes
from .runs import pattern
from .scene import Scene

__all__ = ["Scene", "guess", "pattern"]


def guess(scene: Scene) -> str:
    """The first guess that fits, as a sentence; "" if none does."""
    if not scene.want.size or not scene.bad.any():
        return ""
    with np.errstate(all="ignore"):
        for look in _LOOKS:
            found = look(scene)
            if found:
                return f"looks like {found}"
    return ""


_LOOKS: list[Callable[[Scene], str | None]] = [
    values.never_written,
    values.undefined,
    values.filled,
    values.accumulated_on_start,
    indices.indices,
    values.transposed,
    values.by_block,
    wholes.rounding,
    wholes.counted,
    values.scaled,
    inputs.precision,
    values.whole_numbers,
    values.byte_overflow,
    inputs.other_inputs,
    values.shifted,
    values.offset,
    where.place,
    values.permuted,
]
