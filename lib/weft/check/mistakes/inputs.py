"""Guesses from a fault, or from the answers that other inputs would give.

of_fault() explains faults and forbidden writes, such as a missing guard. The other
functions test whether a wrong answer fits the reference with modified or rounded
inputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...base.arrays import find_wrong, name_element, widen_floats
from ...base.errors import Mismatch
from ...report.cures import IN_PLACE, UPDATE
from ..problem import Trial
from .scene import Arrays, WrongOutput

NO_GUARD = (
    "looks like a missing guard, or one that lets too many through: the grid has more "
    "threads than there are elements, and the surplus threads must do nothing"
)

TOO_FAR = (
    "looks like a missing guard, or an index that goes too far: compute it for this "
    "thread"
)


# Advice for two common races, by the pattern of their accesses.
PATTERNS = {
    UPDATE: "looks like threads that update one element at once: each reads the same "
    "old number, and one result overwrites the other. A barrier alone would not help",
    IN_PLACE: "looks like a thread that overwrites an element that another must still "
    "read: read into a variable, wait at a barrier that all threads reach, and then "
    "write (with several blocks: into a second array)",
}
NO_COMMON_BARRIER = (
    "looks like a block that overwrites an element that another must still read: no "
    "barrier holds for all blocks, so write into a second array"
)


def of_fault(error: Mismatch | None, trial: Trial) -> str:
    """Guess the cause of a fault, or of a write where none is allowed."""
    text, kind = str(error), error.kind if error else ""
    if "input" in text and "overwritten" in text:
        return "looks like a store into the wrong array: inputs must stay as they are"
    ours = trial.inputs | trial.starts
    if error and error.pattern:
        between_blocks = error.pattern == IN_PLACE and error.thread is None
        return NO_COMMON_BARRIER if between_blocks else PATTERNS[error.pattern]
    array, index = (error.array, error.index) if error else (None, None)
    if kind == "bounds" and array is not None and array not in ours:
        # The caller chose this launch shape.
        if trial.shape is not None and not trial.shape.plain:
            cure = "compute it for the first thread and for the last"
            return f"looks like an index that leaves {array} at one end: {cure}"
        cause = "the kernel depends on the size of its block"
        cure = "if that is intended, give block="
        return f"looks like a block that does not fit {array}: {cause}; {cure}"
    element = _own_element(error, trial)
    if kind == "bounds" and element is not None and _describe_beyond(trial, element):
        if _is_covered(trial, element):
            return TOO_FAR
        ends = array if index == element and array in ours else None
        beyond = _describe_beyond(trial, element, ends)
        return NO_GUARD + (beyond or _describe_beyond(trial, element))
    if "before its start" in text or (index and min(index) < 0):
        return "looks like an index that begins too early: i - 1 at the first element?"
    is_past = "past" in text or "out of bounds" in text or kind == "bounds"
    if is_past and trial.shape is not None:
        if element is None or _describe_beyond(trial, element):
            if element is None and not trial.shape.plain:
                return TOO_FAR
            return NO_GUARD + (_describe_beyond(trial, element) if element else "")
        at = name_element(next(iter(trial.starts)), element)
        return (
            f"looks like a wrong index rather than a missing guard: with a thread for "
            f"each element, this thread has {at} (or does this index need a guard of "
            f"its own?)"
        )
    return ""


def _own_element(error: Mismatch | None, trial: Trial) -> tuple[int, ...] | None:
    """Return the faulting thread's element of the first output, even past its end.
    The result is None if it is unknown, or if threads do not have one element each."""
    cause, shape = getattr(error, "__cause__", None), trial.shape
    block, thread = (getattr(cause, name, None) for name in ("block", "thread"))
    if shape is None or block is None or thread is None:
        return None
    if not shape.plain and _one_for_each_block(trial):
        return None
    lengths = next(iter(trial.starts.values())).shape[::-1]
    totals = [g * b for g, b in zip(shape.grid, shape.block)]
    if not 1 <= len(lengths) <= 3 or any(n > k for n, k in zip(lengths, totals)):
        return None
    if any(k > 1 for k in totals[len(lengths) :]):
        return None
    places = [b * s + t for s, b, t in zip(shape.block, block, thread)]
    return tuple(places[: len(lengths)][::-1])


def _one_for_each_block(trial: Trial) -> bool:
    """Return whether the first output has as many elements as the launch has blocks."""
    blocks = math.prod(trial.shape.grid)  # type: ignore[union-attr]
    threads = math.prod(trial.shape.block)  # type: ignore[union-attr]
    return threads > 1 and next(iter(trial.starts.values())).size == blocks > 1


def _is_covered(trial: Trial, element: tuple[int, ...]) -> bool:
    """Return whether an input, but not the output, has an element for this thread."""
    flat = [a for a in trial.inputs.values() if a.ndim == len(element) == 1]
    return any(element[0] < array.size for array in flat)


def _describe_beyond(trial: Trial, element: tuple, array: str | None = None) -> str:
    """Describe an index beyond an array (by default the first output), or return ""."""
    lengths = (trial.inputs | trial.starts)[array or next(iter(trial.starts))].shape
    is_flat = len(element) == 1
    names = ["element"] if is_flat else ["plane", "row", "column"][-len(element) :]
    for name, at, length in zip(names, element, lengths):
        if at >= length:
            return f" (this thread's {name} would be {at}; the last is {length - 1})"
    return ""


def other_inputs(s: WrongOutput) -> str | None:
    """Test whether `got` fits a reference whose inputs lack or repeat something."""
    if s.again is None or not s.inputs:
        return None
    makers = [_swap_inputs, _turn_inputs, _reverse_inputs]
    makers += [_drop_terms, _every_second, _shift_inputs]
    for text, changed in itertools.chain(*(make(s) for make in makers)):
        try:
            result = s.again(s.inputs | changed)
        # The reference does not accept these inputs, so there is no guess.
        except Exception:
            continue
        if find_wrong(s.want, result, s.bound).any() and s.fits(result):
            return text
    return None


Changed = Iterator[tuple[str, Arrays]]  # a guess, and the inputs that test it


def _swap_inputs(s: WrongOutput) -> Changed:
    for a, b in itertools.combinations(s.inputs, 2):
        if s.inputs[a].shape == s.inputs[b].shape:
            yield f"{a} and {b} swapped", {a: s.inputs[b], b: s.inputs[a]}
    for a, b in itertools.permutations(s.inputs, 2):
        if s.inputs[a].shape == s.inputs[b].shape:
            yield f"{a} read where {b} is needed", {b: s.inputs[a]}


def _turn_inputs(s: WrongOutput) -> Changed:
    for name, value in s.inputs.items():
        if value.ndim == 2 and min(value.shape) > 1:
            text = f"{name} read along the wrong axis: rows instead of columns"
            yield text, {name: np.ascontiguousarray(value.T).reshape(value.shape)}
            yield text, {name: np.ascontiguousarray(value.reshape(value.shape[::-1]).T)}


def _reverse_inputs(s: WrongOutput) -> Changed:
    for name, value in s.inputs.items():
        if value.ndim and value.shape[-1] > 1:
            turned = np.ascontiguousarray(value[..., ::-1])
            subject = name if value.ndim == 1 else f"each row of {name}"
            yield f"{subject} read from its end to its start", {name: turned}
        if value.ndim == 2 and value.shape[0] > 1:
            text = f"the rows of {name} read from the last to the first"
            yield text, {name: np.ascontiguousarray(value[::-1])}


def _drop_terms(s: WrongOutput) -> Changed:
    """Yield inputs without some terms of a sum, along dimensions the output lacks."""
    floats = all(a.dtype.kind == "f" for a in s.inputs.values())
    if s.want.dtype.kind in "iu" and floats:
        return  # The output contains positions or counts, not sums.
    lengths: dict[str, int] = {}
    for name, dims in s.axes.items():
        lengths |= {d: n for d, n in zip(dims, s.inputs[name].shape)}
    for dim in [d for d in lengths if d and d not in s.output]:
        axes = {name: dims.index(dim) for name, dims in s.axes.items() if dim in dims}
        for text, start, stop in _list_ranges(dim, lengths[dim], s.block or ()):
            kept = {n: _keep_range(s.inputs[n], axes[n], start, stop) for n in axes}
            yield text, kept


Range = tuple[str, int, int]  # a guess, and the terms that such a sum would contain


def _list_ranges(dim: str, n: int, block: Sequence[int]) -> Iterator[Range]:
    """Yield the possible mistakes in a sum of n terms along `dim`."""
    if n > 1:
        lacking, only = f"a sum over {dim} without its", f"term of the sum over {dim}"
        cause = f"< where <= is needed, or {dim} - 1 terms"
        yield f"{lacking} last term: {cause}", 0, n - 1
        yield f"{lacking} first term", 1, n
        yield f"only the last {only}: = where += is needed", n - 1, n
        yield f"only the first {only}: it ends too early", 0, 1
    tiles = {64, 32, 16, 8, 4} | set(block)
    for tile in sorted((t for t in tiles if 1 < t < n), reverse=True):
        last, full = (n - 1) // tile * tile, ", which is not full" * (n % tile > 0)
        only = f"tile of {tile} of the sum over {dim}"
        yield f"a sum over {dim} that lacks its last tile of {tile}{full}", 0, last
        yield f"only the last {only}: a missing +=", last, n
        yield f"only the first {only}", 0, tile


def _every_second(s: WrongOutput) -> Changed:
    """Yield inputs that mimic a tree sum without its last or its first round."""
    for name, dims in s.axes.items():
        if s.inputs[name].shape[-1:] > (2,) and dims[-1] not in s.output:
            for first, parity in ((1, "even"), (0, "odd")):
                value = s.inputs[name].copy()
                value[..., first::2] = 0
                text = f"every second number of {name} (only those in {parity} places)"
                cause = "is a round of the sum, or a step, missing?"
                yield f"a result without {text}: {cause}", {name: value}


def _shift_inputs(s: WrongOutput) -> Changed:
    for name, value in s.inputs.items():
        if value.ndim and value.size > 3:
            for step, side in ((1, "before"), (-1, "after")):
                rolled = np.roll(value, step, axis=-1)
                yield f"{name} read one element too far {side}", {name: rolled}


def _keep_range(value: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    """Return value with zeros outside [start, stop) along an axis."""
    result = np.zeros_like(value)
    at = [slice(None)] * value.ndim
    at[axis] = slice(start, stop)
    result[tuple(at)] = value[tuple(at)]
    return result


# ---- precision ------------------------------------------------------------------


def guess_precision(s: WrongOutput) -> str | None:
    """Guess which rounding, of the inputs or within the sum, explains small errors."""
    if s.got.dtype.kind != "f" or not np.isfinite(widen_floats(s.got)).all():
        return None
    error = np.abs(widen_floats(s.got) - widen_floats(s.want))
    scale = float(np.abs(widen_floats(s.want)).max()) or 1.0
    relative = float(error.max()) / scale
    if not 0 < relative < 0.05:
        return None
    excess = float((error[s.bad] / np.maximum(s.bound[s.bad], 1e-300)).max())
    if s.again is not None:
        floats = {key: x for key, x in s.inputs.items() if x.dtype.kind == "f"}
        for name, rounding in _ROUNDINGS.items():
            rounded = {key: _round_bits(x, *rounding) for key, x in floats.items()}
            result = s.again(s.inputs | rounded)
            if not find_wrong(s.got, result, 8 * s.bound).any():
                return f"inputs rounded to {name}: are tensor cores or casts in use?"
    if s.bad.sum() == 1 and relative > 2.0**-8:
        return None  # One wrong number reveals nothing about its precision.
    if relative > 2.0**-14:
        digits = int(-np.log2(relative))
        known = "float32 has 24 (TF32 and float16 have 11, bfloat16 8)"
        agreement = f"the result agrees to about {digits} bits; {known}"
        return f"low precision inside: {agreement}"
    if excess < 64:
        cure = "if the sum has more terms, give their number with terms="
        size = f"the error is {excess:.3g} times as large"
        return f"more roundings than the bound allows ({size}): {cure}"
    return None


def _round_bits(values: np.ndarray, width: int, nearest: bool) -> np.ndarray:
    """Round or truncate float32 to `width` bits."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
    drop = np.uint64(24 - width)
    half = (np.uint64(1) << drop) // np.uint64(2) if nearest else np.uint64(0)
    low = (bits + half) >> drop << drop
    return low.astype(np.uint32).view(np.float32).astype(values.dtype)


_ROUNDINGS = {  # bits, and whether to round to nearest
    **{"TF32 or float16": (11, True), "TF32 by truncation": (11, False)},
    **{"bfloat16": (8, True), "bfloat16 by truncation": (8, False)},
}
