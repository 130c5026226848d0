"""What a wrong output looks like that holds places: where in a row something stands."""

from __future__ import annotations

import numpy as np

from .scene import Scene


def indices(s: Scene) -> str | None:
    """Of an argmax or its like: what was stored, or won, instead."""
    if s.want.dtype.kind not in "iu" or not s.output:
        return None
    for name, dims in s.axes.items():
        x = s.inputs[name]
        if dims[:-1] == s.output and x.shape[:-1] == s.want.shape and x.size:
            return _of_rows(s, name, x)
    return None


def _of_rows(s: Scene, name: str, x: np.ndarray) -> str | None:
    length = x.shape[-1]
    if s.want.min() < 0 or s.want.max() >= length:
        return None  # no places in a row
    bad, got = s.bad, s.got.astype(np.int64)
    flat = np.arange(s.want.size).reshape(s.want.shape) * length + s.want
    if (got == flat)[bad].all():
        return "a place in the flat array, where the place in its row is due"
    there = _taken(x, s.want)
    if (got == there.astype(np.int64))[bad].all() and (bad.sum() > 1 or got.size < 3):
        return "the number itself, where its place is due"
    if ((got >= length) & (got < 4 * length))[bad].all():
        return (
            f"a place behind the end of the row: what stands there must lose against "
            f"every number of {name}, also against a negative one"
        )
    inside = (got >= 0) & (got < length)
    if not inside[bad].all():
        return None
    equal = _taken(x, np.where(inside, got, 0)) == there
    if equal[bad].all():
        which = "the first" if (got > s.want)[bad].all() else "another"
        return (
            f"a wrong choice among equals: {name} has the same number at both places, "
            f"and {which} of them is due"
        )
    negative = (x < 0).all(axis=-1)
    if negative[bad].all() and not got[bad | negative].any():
        return (
            "a comparison that begins with 0: wrong are rows whose numbers are all "
            "negative"
        )
    return None


def _taken(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Of each row the number at its place."""
    at = places.astype(np.int64)[..., None]
    return np.take_along_axis(x, at, axis=-1)[..., 0]
