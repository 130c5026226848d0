"""Guesses at the mistake behind a wrong answer, from the numbers alone.

Each guess is one sentence that begins with "looks like". All numbers must fit it. The
sentence remains a guess, since two mistakes can look the same.

    scene   a wrong output with all known facts about it, and which runs fail
    values  guesses from the output alone
    inputs  guesses from a fault, and from the results of other inputs
    where   guesses from the wrong region, and from positions within a row
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import inputs, values, where
from .scene import Launched, WrongOutput, describe_pattern, guess_spacing

__all__ = [
    "Launched",
    "WrongOutput",
    "describe_pattern",
    "describe_proof",
    "guess",
    "guess_spacing",
]

Look = Callable[[WrongOutput], str | None]


def guess(scene: WrongOutput) -> str:
    """Return the first guess that fits, as a sentence; "" if no guess fits."""
    return _first_guess(scene, _LOOKS)


def describe_proof(scene: WrongOutput) -> str:
    """Return a mistake that even a few numbers prove, as a sentence; "" if none."""
    return _first_guess(scene, _PROOFS)


def _first_guess(scene: WrongOutput, looks: list[Look]) -> str:
    if not scene.want.size or not scene.bad.any():
        return ""
    with np.errstate(all="ignore"):
        for look in looks:
            text = look(scene)
            if text:
                return f"looks like {text}"
    return ""


_PROOFS: list[Look] = [where.guess_padding]
_LOOKS: list[Look] = [
    values.never_written,
    values.guess_undefined,
    values.guess_filled,
    values.accumulated_on_start,
    where.guess_padding,
    where.guess_indices,
    values.guess_transposed,
    values.by_block,
    values.guess_rounding,
    values.guess_counts,
    values.guess_scaled,
    inputs.guess_precision,
    values.whole_numbers,
    values.byte_overflow,
    values.guess_flipped,
    inputs.other_inputs,
    values.guess_shifted,
    values.guess_offset,
    where.place,
    values.guess_permuted,
]
