"""Lanes that a warp's call counts on, and that take no part in it.

CUDA's rules (Programming Guide, "Warp Shuffle Functions" and "Warp Vote Functions"):
all lanes of the mask that have not exited make the same call, and what a shuffle reads
from a lane that does not is undefined. So two things are findings: a lane of the mask
that came to the kernel's end another way, and a shuffle that reads a lane which is not
there. The words are those of kernels/simt/watch/absent.cpp.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...report.model import Finding
from ...report.places import Index, unflatten, write_index
from .places import Place
from .warp import WARP, write_lanes

ANOTHER_WAY = "came to the kernel's end another way"


@dataclass(frozen=True)
class Call:
    """A call in which lanes of a warp meet.

    threads: those that meet, in their order, by their numbers in the block. mask: the
    call's. sources: the lane that each lane reads; empty if the call is no shuffle.
    ended: threads of the block that came to the kernel's end and did not return
    before. block: how many threads the block has.
    """

    threads: list[int]
    mask: int
    sources: Mapping[int, int]
    ended: Collection[int]
    block: int

    @property
    def first(self) -> int:
        """The number of the warp's lane 0."""
        return self.threads[0] // WARP * WARP

    def is_there(self, lane: int) -> bool:
        return self.first + lane in self.threads

    def has_ended(self, lane: int) -> bool:
        return self.first + lane in self.ended

    def is_named(self, lane: int) -> bool:
        return bool(self.mask >> lane & 1)


def describe_absent(call: Call) -> tuple[int, str] | None:
    """What is wrong with the call, and the number of the thread to name; or None."""
    for lane, source in call.sources.items():
        if _is_misled(call, lane, source):
            return call.first + lane, (
                f"lane {lane} reads lane {source}, which takes no part: "
                f"{_describe_reason(call, source)}"
            )
    missing = [
        lane
        for lane in range(WARP)
        if call.is_named(lane) and not call.is_there(lane) and call.has_ended(lane)
    ]
    if not missing:
        return None
    take, they = ("takes", "it") if len(missing) == 1 else ("take", "they")
    return call.threads[0], (
        f"the mask 0x{call.mask:08x} names {write_lanes(missing)}, which {take} "
        "no part: "
        f"{they} {ANOTHER_WAY}"
    )


def make_finding(
    place: Place, thread: int, text: str, at: Index, grid: Index, sides: Index
) -> Finding:
    """The Finding for a sentence about a thread, by its number in the block `at`.

    grid, sides: of the launch, in blocks, and of a block, in threads.
    """
    who = unflatten(thread, sides)
    where = f"thread {write_index(who, sides)}"
    if grid != (1, 1, 1):
        where += f" of block {write_index(at, grid)}"
    return Finding(
        "absent-lane",
        f"{where}: {text}",
        *(place.file, place.line, place.column),
        block=at,
        thread=who,
    )


def _is_misled(call: Call, lane: int, source: int) -> bool:
    """Whether a lane's answer is wrong by what it reads.

    In a sum over the first 8 lanes by steps of 4, 2 and 1 the last ones read past the
    group, and nobody uses what they add up; but the group's own end is read by all.
    """
    if call.is_there(source):
        return False
    if call.is_named(source) and call.has_ended(source):
        return True
    return call.first + lane == call.threads[0 if source > lane else -1]


def _describe_reason(call: Call, lane: int) -> str:
    if call.first + lane >= call.block:
        return f"the block has {call.block} threads"
    if not call.is_named(lane):
        return f"the mask 0x{call.mask:08x} does not name it"
    return f"it {ANOTHER_WAY}" if call.has_ended(lane) else "it has returned"
