"""What a wrong output looks like that holds places: where in a row something stands."""

from __future__ import annotations

import math

import numpy as np

from .scene import Scene


def guess_indices(s: Scene) -> str | None:
    """Of an argmax or its like: what was stored, or won, instead."""
    name = _find_rows(s)
    return _of_rows(s, name, s.inputs[name]) if name else None


def guess_padding(s: Scene) -> str | None:
    """Of an argmax or its like: places that no row has, which shows a padding that
    wins. What else goes wrong is a choice among equals."""
    name = _find_rows(s)
    if not name:
        return None
    x, bad, got = s.inputs[name], s.bad, s.got.astype(np.int64)
    length, there = x.shape[-1], _take_numbers(x, s.want)
    least = (there == x.min(axis=-1)).all()
    if not (least or (there == x.max(axis=-1)).all()) or _other_places(s, x)[bad].all():
        return None
    most = max(4 * length, math.prod(s.block or (1,)))  # as places may be padded to
    beyond = (got >= length) & (got < most)
    if not (bad & beyond).any() or not (beyond | _find_equal(s, x))[bad].all():
        return None
    return (
        f"a place behind the end of the row: what stands there must lose against every "
        f"number of {name}, also against a {'positive' if least else 'negative'} one"
    )


def _find_rows(s: Scene) -> str:
    """The input in whose rows the output's numbers are places; "" if none is."""
    if s.want.dtype.kind not in "iu" or not s.output:
        return ""
    for name, dims in s.axes.items():
        x = s.inputs[name]
        if dims[:-1] == s.output and x.shape[:-1] == s.want.shape and x.size:
            inside = s.want.min() >= 0 and s.want.max() < x.shape[-1]
            return name if inside else ""
    return ""


def _flatten_places(s: Scene, x: np.ndarray) -> np.ndarray:
    """The places that are due, counted through the whole array."""
    return np.arange(s.want.size).reshape(s.want.shape) * x.shape[-1] + s.want


def _other_places(s: Scene, x: np.ndarray) -> np.ndarray:
    """Where a place in the flat array, or the number itself, stands."""
    numbers = _take_numbers(x, s.want).astype(np.int64)
    return (s.got == _flatten_places(s, x)) | (s.got == numbers)


def _find_equal(s: Scene, x: np.ndarray) -> np.ndarray:
    """Where the place is one of the row, and the number there the one that is due."""
    got = s.got.astype(np.int64)
    inside = (got >= 0) & (got < x.shape[-1])
    return inside & (
        _take_numbers(x, np.where(inside, got, 0)) == _take_numbers(x, s.want)
    )


def _of_rows(s: Scene, name: str, x: np.ndarray) -> str | None:
    bad, got = s.bad, s.got.astype(np.int64)
    if (got == _flatten_places(s, x))[bad].all():
        return "a place in the flat array, where the place in its row is due"
    there = _take_numbers(x, s.want)
    if (got == there.astype(np.int64))[bad].all() and (bad.sum() > 1 or got.size < 3):
        return "the number itself, where its place is due"
    if not ((got >= 0) & (got < x.shape[-1]))[bad].all():
        return None
    if _find_equal(s, x)[bad].all():
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


def _take_numbers(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Of each row the number at its place."""
    at = places.astype(np.int64)[..., None]
    return np.take_along_axis(x, at, axis=-1)[..., 0]
