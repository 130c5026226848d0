"""Guesses about outputs of whole numbers: roundings and counts."""

from __future__ import annotations

import numpy as np

from ...base.arrays import widen_floats
from .scene import Scene


def guess_rounding(s: Scene) -> str | None:
    """Signed whole numbers made of floats, off by 1 here and there."""
    whole = s.got.dtype.kind == s.want.dtype.kind == "i"
    floats = any(a.dtype.kind == "f" for a in s.inputs.values())
    if not whole or not floats or s.want.min() >= 0 or s.bad.sum() < 2:
        return None
    off = (widen_floats(s.got) - widen_floats(s.want))[s.bad]
    everywhere = s.bad.all() and (off == off[0]).all()  # then 1 is added
    if everywhere or (np.abs(off) != 1).any():
        return None
    return (
        "another rounding: what is wrong is off by 1 only. Is it cut off, or are "
        "halves (x.5) sent to the other side?"
    )


def guess_counts(s: Scene) -> str | None:
    """Counts of the elements of an input: too few of them, or too many."""
    if s.got.dtype.kind not in "iu" or s.want.dtype.kind not in "iu":
        return None
    due, there = int(s.want.sum()), int(widen_floats(s.got).sum())
    counts = s.want.min() >= 0 and s.want.size > 2
    sizes = {a.size for a in s.inputs.values() if a.dtype.kind in "iu"}
    if not counts or due not in sizes or there == due:
        return None
    if there < due:
        return f"a count that leaves some out: {there} in all, for {due} elements"
    return f"a count of too many: {there} in all, for {due} elements"
