"""Does a wrong answer fit the reference with other inputs, or rounded ones?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np

from ...base.arrays import find_wrong, widen_floats
from .scene import Arrays, WrongOutput


def other_inputs(s: WrongOutput) -> str | None:
    """Does `got` fit a reference whose inputs lack or repeat something?"""
    if s.again is None or not s.inputs:
        return None
    for text, inputs in itertools.chain(
        _swap_inputs(s),
        _turn_inputs(s),
        _reverse_inputs(s),
        _terms_missing(s),
        _every_second(s),
        _shift_inputs(s),
    ):
        try:
            other = s.again(inputs)
        except Exception:  # the reference does not take these: no guess
            continue
        if find_wrong(s.want, other, s.bound).any() and s.fits(other):
            return text
    return None


def _swap_inputs(s: WrongOutput) -> Iterator[tuple[str, Arrays]]:
    for a, b in itertools.combinations(s.inputs, 2):
        if s.inputs[a].shape == s.inputs[b].shape:
            yield (
                f"{a} and {b} swapped",
                s.inputs | {a: s.inputs[b], b: s.inputs[a]},
            )
    for a in s.inputs:
        for b in s.inputs:
            if a != b and s.inputs[a].shape == s.inputs[b].shape:
                yield f"{a} read where {b} is due", s.inputs | {b: s.inputs[a]}


def _turn_inputs(s: WrongOutput) -> Iterator[tuple[str, Arrays]]:
    for name, value in s.inputs.items():
        if value.ndim == 2 and min(value.shape) > 1:
            text = f"{name} read along the wrong axis: rows for columns"
            turned = np.ascontiguousarray(value.T).reshape(value.shape)
            yield text, s.inputs | {name: turned}
            turned = np.ascontiguousarray(value.reshape(value.shape[::-1]).T)
            yield text, s.inputs | {name: turned}


def _reverse_inputs(s: WrongOutput) -> Iterator[tuple[str, Arrays]]:
    for name, value in s.inputs.items():
        if value.ndim and value.shape[-1] > 1:
            turned = np.ascontiguousarray(value[..., ::-1])
            what = name if value.ndim == 1 else f"each row of {name}"
            yield f"{what} read from its end to its start", s.inputs | {name: turned}
        if value.ndim == 2 and value.shape[0] > 1:
            turned = np.ascontiguousarray(value[::-1])
            text = f"the rows of {name} read from the last to the first"
            yield text, s.inputs | {name: turned}


def _terms_missing(s: WrongOutput) -> Iterator[tuple[str, Arrays]]:
    """Along each dimension that the output has not: a sum runs there."""
    if s.want.dtype.kind in "iu" and all(
        a.dtype.kind == "f" for a in s.inputs.values()
    ):
        return  # places or counts, no sums of these
    lengths: dict[str, int] = {}
    for name, dims in s.axes.items():
        lengths |= {d: n for d, n in zip(dims, s.inputs[name].shape)}
    for dim in [d for d in lengths if d and d not in s.output]:
        n = lengths[dim]

        def kept(start: int, stop: int, dim: str = dim) -> Arrays:
            return s.inputs | {
                name: _keep_range(s.inputs[name], dims.index(dim), start, stop)
                for name, dims in s.axes.items()
                if dim in dims
            }

        if n > 1:
            yield (
                f"a sum over {dim} without its last term: < where <= is due, or {dim} "
                f"- 1 terms",
                kept(0, n - 1),
            )
            yield f"a sum over {dim} without its first term", kept(1, n)
            yield (
                f"only the last term of the sum over {dim}: = where += is due",
                kept(n - 1, n),
            )
            yield (
                f"only the first term of the sum over {dim}: it ends too early",
                kept(0, 1),
            )
        tiles = {64, 32, 16, 8, 4} | set(s.block or ())
        for tile in sorted((t for t in tiles if 1 < t < n), reverse=True):
            last = (n - 1) // tile * tile
            full = "" if n % tile == 0 else ", which is not full"
            yield (
                f"a sum over {dim} that lacks its last tile of {tile}{full}",
                kept(0, last),
            )
            yield (
                f"only the last tile of {tile} of the sum over {dim}: a missing +=",
                kept(last, n),
            )
            yield (
                f"only the first tile of {tile} of the sum over {dim}",
                kept(0, tile),
            )


def _every_second(s: WrongOutput) -> Iterator[tuple[str, Arrays]]:
    """What is left of a sum by a tree without its last or its first round."""
    for name, dims in s.axes.items():
        if s.inputs[name].shape[-1:] > (2,) and dims[-1] not in s.output:
            for first, which in ((1, "even"), (0, "odd")):
                made = s.inputs[name].copy()
                made[..., first::2] = 0
                yield (
                    f"every second number of {name} left out, only those in {which} "
                    f"places are there: is a round of the sum, or a step, missing?",
                    s.inputs | {name: made},
                )


def _shift_inputs(s: WrongOutput) -> Iterator[tuple[str, Arrays]]:
    for name, value in s.inputs.items():
        if value.ndim and value.size > 3:
            for step, side in ((1, "before"), (-1, "after")):
                moved = np.roll(value, step, axis=-1)
                yield (
                    f"{name} read one element too far {side}",
                    s.inputs | {name: moved},
                )


def _keep_range(value: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    """value with zeros outside of [start, stop) along an axis."""
    made = np.zeros_like(value)
    at = [slice(None)] * value.ndim
    at[axis] = slice(start, stop)
    made[tuple(at)] = value[tuple(at)]
    return made


# ---- precision ------------------------------------------------------------------


def guess_precision(s: WrongOutput) -> str | None:
    """Small errors everywhere: what rounding of the inputs explains them?"""
    if s.got.dtype.kind != "f" or not np.isfinite(widen_floats(s.got)).all():
        return None
    error = np.abs(widen_floats(s.got) - widen_floats(s.want))
    scale = float(np.abs(widen_floats(s.want)).max()) or 1.0
    relative = float(error.max()) / scale
    if not 0 < relative < 0.05:
        return None
    over = float((error[s.bad] / np.maximum(s.bound[s.bad], 1e-300)).max())
    if s.again is not None:
        for name, rounded in _ROUNDED.items():
            made = {
                key: rounded(value) if value.dtype.kind == "f" else value
                for key, value in s.inputs.items()
            }
            if not find_wrong(s.got, s.again(made), 8 * s.bound).any():
                return f"inputs rounded to {name}: are tensor cores or casts in use?"
    if s.bad.sum() == 1 and relative > 2.0**-8:
        return None  # one wrong number says nothing of its digits
    if relative > 2.0**-14:
        digits = int(-np.log2(relative))
        return (
            f"low precision inside: the result agrees to about {digits} bits, float32 "
            f"has 24 (TF32 and float16 have 11, bfloat16 8)"
        )
    if over < 64:
        return (
            f"more roundings than the bound allows ({over:.3g} times it): if the sum "
            f"does have more terms, say so with terms="
        )
    return None


def _round_bits(kept: int) -> Callable[[np.ndarray], np.ndarray]:
    """Rounds float32 values to `kept` bits of mantissa, towards zero or nearest."""

    def rounded(values: np.ndarray, nearest: bool = True) -> np.ndarray:
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        drop = np.uint64(24 - kept)
        half = (np.uint64(1) << drop) // np.uint64(2) if nearest else np.uint64(0)
        low = (bits + half) >> drop << drop
        return low.astype(np.uint32).view(np.float32).astype(values.dtype)

    return rounded


def _cut(kept: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: _round_bits(kept)(values, False)  # type: ignore[call-arg]


_ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32 or float16": _round_bits(11),
    "TF32, cut off": _cut(11),
    "bfloat16": _round_bits(8),
    "bfloat16, cut off": _cut(8),
}
