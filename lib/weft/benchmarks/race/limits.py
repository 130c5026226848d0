"""What binds a step: its sections beside the least time that each could take.

    for part in find_limits(row, roof, launch_us): ...

Three floors: the products at the machine's peak rate of multiply-adds, the bytes at
the rate of its copy, and the launch of a kernel that does nothing. The first two can
overlap, the launch cannot. What is left is waiting: latencies in a row, a last wave of
blocks, instructions that are no products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...mnist.trainer import checked_device
from ...timing.peaks import ceilings, peaks
from ...timing.results import stamp_row
from .row import Row
from .work import count_work

OUTSIDE = "batch"  # a run's arguments, and sums that the step before makes otherwise


@dataclass(frozen=True)
class Part:
    """Microseconds of one section of a step."""

    section: str
    us: float
    products: float  # at the roof; 0 where there are none, or they are not counted
    bytes: float
    launch: float

    @property
    def waiting(self) -> float:
        """What none of the floors explains."""
        return max(0.0, self.us - max(self.products, self.bytes) - self.launch)

    @property
    def binds(self) -> str:
        """The largest of the four."""
        names = ("products", "bytes", "launch", "waiting")
        return max(names, key=lambda name: getattr(self, name))


def find_limits(row: Row, roof: Row, launch_us: float) -> list[Part]:
    """A Part for each section of a step's row; roof: a row "roof" of its precision.

    A clock between two sections costs time, so that they take longer together than the
    step: they are scaled to add up to it. A fused step that is timed so stands alone,
    and sums over its patches are made in "batch", which is left out: in a run the step
    before makes them. (Rows up to commit 97f84da have them in conv1's section.)
    launch_us: of a kernel in a chain.
    """
    layers = {name: us for name, us in row["layers_us"].items() if name != OUTSIDE}
    scale = row["us"] / sum(layers.values())
    parts = []
    for section, us in layers.items():
        done = count_work(section, [*layers], row["batch"], row["precision"])
        flops, bytes_ = (done.flops, done.bytes) if done else (0.0, 0.0)
        at_roof = flops / roof["tflops"] / 1e6, bytes_ / roof["gbs"] / 1e3
        parts.append(Part(section, us * scale, *at_roof, launch_us))
    return parts


def sum_parts(parts: Sequence[Part]) -> Part:
    """The sections as one: what binds the step."""
    keys = ("us", "products", "bytes", "launch")
    return Part("step", *[sum(getattr(part, key) for part in parts) for key in keys])


def find_roof(precision: str, device: str, **_: Any) -> list[Row]:
    """One row: tflops of multiply-adds in that precision, gbs read and written.

    None where that precision has no multiply-adds of its own, on a CPU bf16.
    """
    where = checked_device(device)
    found = peaks(str(where))
    best = ceilings(found)
    if precision not in best:
        return []
    copy = next(row for row in found if row["rung"] == "copy")
    return [{
        **copy,
        **{"op": "mnist", "measure": "roof", "rung": "peaks", "layout": None},
        **{"precision": precision, "batch": None},
        **{"tflops": best[precision], "gbs": best["gbs"], **stamp_row()},
    }]  # fmt: skip
