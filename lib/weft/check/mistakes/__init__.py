"""What kind of mistake a wrong answer looks like, guessed from the numbers alone.

Each guess is one sentence that begins with "looks like". It is made only where the
numbers fit it everywhere, and it stays a guess: two mistakes can look the same.

    scene               a wrong output, and all that is known about it
    values              guesses from the output alone
    inputs              ... from what other inputs would give
    indices, wholes     ... of an output that holds places, or whole numbers
    where               ... from which region is wrong
    runs                which sizes and blocks go wrong
    spacing             how far apart blocks begin
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import indices, inputs, values, where, wholes
from .runs import pattern
from .scene import Scene
from .spacing import Launched, spacing

__all__ = ["Launched", "Scene", "guess", "pattern", "proof", "spacing"]

Look = Callable[[Scene], str | None]


def guess(scene: Scene) -> str:
    """The first guess that fits, as a sentence; "" if none does."""
    return _first(scene, _LOOKS)


def proof(scene: Scene) -> str:
    """What the numbers prove, however few they are, as a sentence; "" if nothing."""
    return _first(scene, _PROOFS)


def _first(scene: Scene, looks: list[Look]) -> str:
    if not scene.want.size or not scene.bad.any():
        return ""
    with np.errstate(all="ignore"):
        for look in looks:
            found = look(scene)
            if found:
                return f"looks like {found}"
    return ""


_PROOFS: list[Look] = [indices.behind]
_LOOKS: list[Look] = [
    values.never_written,
    values.undefined,
    values.filled,
    values.accumulated_on_start,
    indices.behind,
    indices.indices,
    values.transposed,
    values.by_block,
    wholes.rounding,
    wholes.counted,
    values.scaled,
    inputs.precision,
    values.whole_numbers,
    values.byte_overflow,
    values.flipped,
    inputs.other_inputs,
    values.shifted,
    values.offset,
    where.place,
    values.permuted,
]
