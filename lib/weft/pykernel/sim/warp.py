"""Meetings of threads: exchanges between lanes, and threads missing at a barrier.

The module describes a barrier that not all threads reach, and computes the exchanges of
a warp's lanes. It also finds absent lanes on which a call depends.

The rules are in CUDA's Programming Guide, "Warp Shuffle Functions" and "Warp Vote
Functions". All lanes of the mask that have not exited must make the same call. A
shuffle that reads any other lane returns an undefined value. Two faults are therefore
findings. A lane of the mask reached the kernel's end by another path, or a shuffle
reads an absent lane. kernels/simt/watch/absent.cpp has the same messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...report.model import Finding
from ...report.places import Index, unflatten, write_index
from .layout import AccessPlace


def make_barrier_finding(
    places: Sequence[AccessPlace],
    waiting: Mapping[int, Sequence[int]],
    gone: Sequence[int],
    at: int,
    grid: Index,
    block: Index,
) -> Finding:
    """Return the Finding for a barrier that opens without some of its threads.

    waiting: the threads that wait at each place, by the place's number in `places`.
    gone: the threads that have reached the kernel's end.
    at: number of the block.
    """
    main = max(waiting, key=lambda place: len(waiting[place]))
    place, waiters = places[main], sorted(waiting[main])
    where = unflatten(at, grid)
    clauses, missing = [], []
    for place_number, numbers in waiting.items():
        if place_number != main:
            there = f"at that of line {places[place_number].line}"
            clauses.append(f"{_name_threads(numbers, block)} {_wait(numbers)} {there}")
            missing += numbers
    if gone:
        verb = "has" if len(gone) == 1 else "have"
        clauses.append(
            f"{_name_threads(gone, block)} {verb} come to the kernel's end without it"
        )
        missing = list(gone)
    text = (
        f"{_name_threads(waiters, block)} of block {write_index(where, grid)} "
        f"{_wait(waiters)} at the barrier of line {place.line}, but "
        f"{' and '.join(clauses)}"
    )
    return Finding(
        "barrier",
        text,
        *(place.file, place.line, place.column),
        block=where,
        thread=unflatten(missing[0], block),
        other=unflatten(waiters[0], block),
    )


def _name_threads(numbers: Sequence[int], block: tuple[int, int, int]) -> str:
    shown = [write_index(unflatten(n, block), block) for n in sorted(numbers)[:3]]
    if len(numbers) == 1:
        return f"thread {shown[0]}"
    if len(numbers) <= 3:
        return f"threads {', '.join(shown[:-1])} and {shown[-1]}"
    return f"{len(numbers)} threads ({', '.join(shown)} ...)"


def _wait(numbers: Sequence[int]) -> str:
    return "waits" if len(numbers) == 1 else "wait"


WARP = 32
FULL = 0xFFFFFFFF


def exchange_values(
    operation: str, values: dict[int, Any], arguments: dict[int, Any]
) -> dict[int, Any]:
    """Return the result for each lane that has arrived, by lane.

    values: the value of each lane.
    arguments: for each lane, the argument that selects the source.

    A shuffle from a lane that has not arrived returns the reader's own value.
    """
    if operation in _LANES:
        sources = shuffle_sources(operation, arguments)
        return {
            lane: values.get(sources.get(lane, lane), value)
            for lane, value in values.items()
        }
    if operation == "match_any_sync":
        return {
            lane: make_mask(o for o, other in values.items() if other == value)
            for lane, value in values.items()
        }
    return dict.fromkeys(values, _count_votes(operation, values))


def shuffle_sources(operation: str, arguments: dict[int, Any]) -> dict[int, int]:
    """Return the lane that each lane of a shuffle reads.

    Lanes that would read past the warp keep their own values, and are omitted. The
    result is empty if the operation is not a shuffle.
    """
    find = _LANES.get(operation)
    if find is None:
        return {}
    sources = {lane: find(lane, int(by)) for lane, by in arguments.items()}
    return {lane: at for lane, at in sources.items() if 0 <= at < WARP}


def _count_votes(operation: str, values: dict[int, Any]) -> Any:
    """Return the result of a vote, which is the same for every lane."""
    truths = [bool(value) for value in values.values()]
    if operation in ("all_sync", "any_sync"):
        return all(truths) if operation == "all_sync" else any(truths)
    if operation == "eq_sync":
        return all(truths) or not any(truths)
    if operation == "ballot_sync":
        return make_mask(lane for lane, value in values.items() if value)
    if operation == "match_all_sync":
        first = next(iter(values.values()))
        same = all(value == first for value in values.values())
        return (make_mask(values), True) if same else (0, False)
    if operation == "activemask":
        return make_mask(values)
    return None  # a syncwarp has no result


_LANES = {
    "shfl_sync": lambda lane, by: by % WARP,
    "shfl_up_sync": lambda lane, by: lane - by,
    "shfl_down_sync": lambda lane, by: lane + by,
    "shfl_xor_sync": lambda lane, by: lane ^ by,
}


def make_mask(lanes: Iterable[int]) -> int:
    """Return a mask with a bit for each lane."""
    return sum(1 << lane for lane in set(lanes))


def write_lanes(lanes: Iterable[int]) -> str:
    """Return the name of one or several lanes: "lane 3", "lanes 0-15 and 20"."""
    every = sorted(lanes)
    runs: list[list[int]] = []
    for lane in every:
        if runs and runs[-1][1] == lane - 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    text = " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)
    return f"lane{'s' * (len(every) != 1)} {text}"


ANOTHER_WAY = "came to the kernel's end another way"


@dataclass(frozen=True)
class Call:
    """A call at which lanes of a warp meet.

    threads: ascending numbers, in the block, of the threads that meet.
    mask: the argument of the call that names the lanes.
    sources: the lane that each lane reads; empty if the call is not a shuffle.
    ended: threads of the block that reached the kernel's end without an early return.
    block: the number of threads in the block.
    """

    threads: list[int]
    mask: int
    sources: Mapping[int, int]
    ended: Collection[int]
    block: int

    @property
    def first(self) -> int:
        """The number of the thread in lane 0 of the warp."""
        return self.threads[0] // WARP * WARP

    def is_there(self, lane: int) -> bool:
        return self.first + lane in self.threads

    def has_ended(self, lane: int) -> bool:
        return self.first + lane in self.ended

    def is_named(self, lane: int) -> bool:
        return bool(self.mask >> lane & 1)


def describe_absent(call: Call) -> tuple[int, str] | None:
    """Return a thread and its problem with the call; None if the call is valid."""
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
    verb, pronoun = ("takes", "it") if len(missing) == 1 else ("take", "they")
    return call.threads[0], (
        f"the mask 0x{call.mask:08x} names {write_lanes(missing)}, which {verb} no "
        f"part: {pronoun} {ANOTHER_WAY}"
    )


def make_finding(
    place: AccessPlace, thread: int, text: str, at: Index, grid: Index, sides: Index
) -> Finding:
    """Return the Finding for a sentence, `text`, about a thread.

    thread: number of the thread in the block.
    at: index of the block.
    grid: shape of the launch, in blocks.
    sides: shape of the block, in threads.
    """
    thread_index = unflatten(thread, sides)
    where = f"thread {write_index(thread_index, sides)}"
    if grid != (1, 1, 1):
        where += f" of block {write_index(at, grid)}"
    return Finding(
        "absent-lane",
        f"{where}: {text}",
        *(place.file, place.line, place.column),
        block=at,
        thread=thread_index,
    )


def _is_misled(call: Call, lane: int, source: int) -> bool:
    """Return whether a lane's result is wrong because of the lane that it reads.

    Consider a sum over the first 8 lanes in steps of 4, 2 and 1. The last lanes read
    past the group, but their sums are unused. The sum in the group's first lane,
    however, depends on every lane that this lane reads.
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
