"""One wrong output, and all that is known about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...base.arrays import find_wrong, widen_floats

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
