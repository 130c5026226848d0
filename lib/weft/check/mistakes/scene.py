"""One wrong output and all that is known about it, its blocks' spacing included.

Do blocks begin as far apart as they are long? Told from what several runs wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.arrays import find_wrong, name_element, widen_floats

Arrays = dict[str, np.ndarray]


@dataclass
class Scene:
    """One wrong output and all that is known about it.

    got, want: of one shape. bound: what an error may be, broadcast to it. block: the
    launch's (x, y, z), None for a plain function. unwritten: where the output still
    holds `start`, its poison; None if that cannot be told. again: the reference with
    other inputs, for this output. axes: for each input the name of its dimensions.
    output: the names of the output's. grid: the launch's, where the caller gave it.
    """

    name: str
    got: np.ndarray
    want: np.ndarray
    bound: np.ndarray
    block: tuple[int, int, int] | None = None
    unwritten: np.ndarray | None = None
    start: np.generic | None = None
    inputs: Arrays = field(default_factory=dict)
    again: Callable[[Arrays], np.ndarray] | None = None
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    grid: tuple[int, int, int] | None = None

    @property
    def bad(self) -> np.ndarray:
        """Which elements are wrong."""
        return find_wrong(self.got, self.want, self.bound)

    def fits(self, other: np.ndarray, slack: float = 4.0) -> bool:
        """Whether `got` is `other` everywhere, which is not what was wanted."""
        if other.shape != self.got.shape:
            return False
        room = slack * self.bound + 1e-6 * np.abs(widen_floats(other))
        room = 0.0 if self.got.dtype.kind in "biu" else room
        return not find_wrong(self.got, other, room).any()

    @property
    def tells(self) -> bool:
        """Whether there are enough different values that chance cannot fit."""
        return self.want.size >= 4 and np.unique(self.want).size >= 3


def tolerance_of(s: Scene) -> np.ndarray:
    """What two results may differ by and still count as one."""
    return 4 * s.bound + 1e-6 * np.abs(widen_floats(s.want))


def is_summed(s: Scene) -> bool:
    """Whether an input has a dimension that the output lacks, or has no names."""
    return any(not d or d not in s.output for dims in s.axes.values() for d in dims)


@dataclass(frozen=True)
class Launched:
    """A run of blocks along x: how many, of how many threads; which elements of the
    output, counted flat, it wrote. A run that was right wrote them all."""

    blocks: int
    threads: int
    written: np.ndarray


def guess_spacing(
    name: str, shape: Sequence[int], first: Launched, runs: Sequence[Launched]
) -> str:
    """A literal, or another number, where blockDim.x is due, as a sentence; "" if not.

    name, shape: of the output; first: the run that is told, one of `runs`, which all
    have to fit: their blocks begin so many elements apart, whatever their threads.
    """
    wrong = [run for run in runs if not run.written.all()]
    if len({run.written.size for run in wrong}) < 2:
        return ""  # one size could be anything
    step = _step(max(wrong, key=lambda run: run.written.size))
    overlap = step < first.threads  # as a missing end does, where there is no more
    if overlap and not any(r.written.all() and r.blocks > 1 for r in runs):
        return ""
    is_right = step == first.threads  # then it is the blocks that are too few
    if step and not is_right and _is_spaced(runs, [step] * len(runs)):
        return f"looks like {_describe_literal(name, tuple(shape), first, step)}"
    if _is_spaced(runs, [run.blocks for run in runs]) and not is_right:
        return (
            "looks like gridDim.x where blockDim.x is due: blocks begin as many "
            "elements apart as there are blocks"
        )
    return ""


def _step(run: Launched) -> int:
    """How far apart the blocks of a run would begin that left such gaps; 0: unknown."""
    missing = int(np.argmin(run.written))
    if missing == run.threads:  # a gap behind each block
        behind = np.flatnonzero(run.written[missing:])
        return missing + int(behind[0]) if behind.size else 0
    step, rest = divmod(missing - run.threads, max(1, run.blocks - 1))
    return step if step > 0 and not rest else 0  # blocks that overlap, and end early


def _is_spaced(runs: Sequence[Launched], steps: Sequence[int]) -> bool:
    """Whether each run wrote what blocks that begin so far apart write."""
    return all(
        np.array_equal(run.written, _list_reached(run, step))
        for run, step in zip(runs, steps)
    )


def _list_reached(run: Launched, step: int) -> np.ndarray:
    index = np.add.outer(step * np.arange(run.blocks), np.arange(run.threads))
    reached = np.zeros(run.written.size, bool)
    reached[index[index < reached.size]] = True
    return reached


def _describe_literal(
    name: str, shape: tuple[int, ...], run: Launched, step: int
) -> str:
    if step == 1:
        return (
            "blockIdx.x without blockDim.x: each block begins one element behind the "
            "one before it"
        )

    def at(flat: int) -> str:
        return name_element(name, tuple(map(int, np.unravel_index(flat, shape))))

    missing = at(int(np.argmin(run.written)))
    what = f"no thread writes {missing}"
    if step < run.threads:
        what = f"two threads write {at(step)} and none {missing}"
    return (
        f"a literal {step} where blockDim.x is due: with blocks of {run.threads}, "
        f"{what}; it counts on blocks of {step}"
    )
