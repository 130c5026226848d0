"""What led to a fault, or to a write where none may be: guesses."""

from __future__ import annotations

import math

from ..base.arrays import name_element
from ..base.errors import Mismatch
from ..report.cures import IN_PLACE, UPDATE
from .problem import Trial

NO_GUARD = (
    "looks like a missing guard, or one that lets too many through: the grid has more "
    "threads than there are elements, and those beyond the last must do nothing"
)

TOO_FAR = (
    "looks like a missing guard, or an index that goes too far: work it out for this "
    "thread"
)


PATTERNS = {  # of both sides of a race, where they belong together
    UPDATE: "looks like an update that threads make of one place at once: each reads "
    "the same old number, and one result undoes the other. A barrier alone would not "
    "help",
    IN_PLACE: "looks like a thread that overwrites what another has still to read: "
    "read into a variable, wait at a barrier that all threads reach, and then write "
    "(with several blocks: into a second array)",
}
NO_COMMON_BARRIER = (
    "looks like a block that overwrites what another has still to read: no barrier "
    "holds for all blocks, so write into a second array"
)


def of_fault(error: Mismatch | None, trial: Trial) -> str:
    """A guess at what led to a fault, or to a write where none may be."""
    text, kind = str(error), error.kind if error else ""
    if "input" in text and "overwritten" in text:
        return "looks like a store into the wrong array: inputs must stay as they are"
    ours = trial.inputs | trial.starts
    if error and error.pattern:
        apart = error.pattern == IN_PLACE and error.thread is None
        return NO_COMMON_BARRIER if apart else PATTERNS[error.pattern]
    array, index = (error.array, error.index) if error else (None, None)
    if kind == "bounds" and array is not None and array not in ours:
        if trial.shape is not None and not trial.shape.plain:
            return (  # the block was asked for
                f"looks like an index that leaves {array} at one end: work it out for "
                f"the first thread and for the last"
            )
        return (
            f"looks like a block that {array} is not made for: the kernel counts on "
            f"the size of its block; if it may, say block="
        )
    own = _own_element(error, trial)
    if kind == "bounds" and own is not None and _describe_beyond(trial, own):
        if _is_covered(trial, own):
            return TOO_FAR
        ends = array if index == own and array in ours else None
        return NO_GUARD + (
            _describe_beyond(trial, own, ends) or _describe_beyond(trial, own)
        )
    if "before its start" in text or (index and min(index) < 0):
        return "looks like an index that begins too early: - 1 at the first element"
    past = "past" in text or "out of bounds" in text or kind == "bounds"
    if past and trial.shape is not None:
        if own is None or _describe_beyond(trial, own):
            if own is None and not trial.shape.plain:
                return TOO_FAR
            return NO_GUARD + (_describe_beyond(trial, own) if own else "")
        at = name_element(next(iter(trial.starts)), own)
        return (
            f"looks like a wrong index rather than a missing guard: with a thread for "
            f"each element, this one has {at} (or does this index need a guard of its "
            f"own?)"
        )
    return ""


def _own_element(error: Mismatch | None, trial: Trial) -> tuple[int, ...] | None:
    """The element of the first output that the thread of a fault has, in a launch
    with a thread for each element; it may lie beyond the last. None: not known."""
    cause, shape = getattr(error, "__cause__", None), trial.shape
    block, thread = (getattr(cause, name, None) for name in ("block", "thread"))
    if shape is None or block is None or thread is None:
        return None
    if not shape.plain and _one_for_each_block(trial):
        return None
    lengths = next(iter(trial.starts.values())).shape[::-1]
    every = [g * b for g, b in zip(shape.grid, shape.block)]
    if not 1 <= len(lengths) <= 3 or any(n > k for n, k in zip(lengths, every)):
        return None
    if any(k > 1 for k in every[len(lengths) :]):
        return None
    places = [b * s + t for s, b, t in zip(shape.block, block, thread)]
    return tuple(places[: len(lengths)][::-1])


def _one_for_each_block(trial: Trial) -> bool:
    """Whether the first output has as many elements as the launch has blocks."""
    blocks = math.prod(trial.shape.grid)  # type: ignore[union-attr]
    threads = math.prod(trial.shape.block)  # type: ignore[union-attr]
    return threads > 1 and next(iter(trial.starts.values())).size == blocks > 1


def _is_covered(trial: Trial, own: tuple[int, ...]) -> bool:
    """Whether an input has an element for this thread, though the output has none."""
    flat = [a for a in trial.inputs.values() if a.ndim == len(own) == 1]
    return any(own[0] < array.size for array in flat)


def _describe_beyond(
    trial: Trial, own: tuple[int, ...], array: str | None = None
) -> str:
    """Where an element lies that is beyond the last of an array (of the first output);
    "" if it is not."""
    lengths = (trial.inputs | trial.starts)[array or next(iter(trial.starts))].shape
    names = {1: ["element"], 2: ["row", "column"]}.get(
        len(own), ["plane", "row", "column"]
    )
    for name, at, length in zip(names, own, lengths):
        if at >= length:
            return f" (this thread's {name} would be {at}, the last is {length - 1})"
    return ""
