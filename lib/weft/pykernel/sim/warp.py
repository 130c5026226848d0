"""What lanes of a warp tell one another where they meet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

WARP = 32
FULL = 0xFFFFFFFF


def exchange_values(
    operation: str, values: dict[int, Any], arguments: dict[int, Any], mask: int
) -> dict[int, Any]:
    """What each lane that has come gets, by lane.

    values, arguments: of those lanes: what each brings, and which lane it asks for.
    A shuffle from a lane that is not among them gives a lane's own value.
    """
    if operation in _LANES:
        asked = shuffle_sources(operation, arguments)
        return {
            lane: values.get(asked.get(lane, lane), value)
            for lane, value in values.items()
        }
    if operation == "match_any_sync":
        return {
            lane: make_mask(o for o, other in values.items() if other == value)
            for lane, value in values.items()
        }
    return dict.fromkeys(values, _count_votes(operation, values))


def shuffle_sources(operation: str, arguments: dict[int, Any]) -> dict[int, int]:
    """The lane that each lane of a shuffle reads, but for those that read past the
    warp and keep their own value; empty for what is no shuffle."""
    find = _LANES.get(operation)
    if find is None:
        return {}
    asked = {lane: find(lane, int(by)) for lane, by in arguments.items()}
    return {lane: at for lane, at in asked.items() if 0 <= at < WARP}


def _count_votes(operation: str, values: dict[int, Any]) -> Any:
    """What a vote tells every lane."""
    truths = [bool(value) for value in values.values()]
    if operation == "all_sync":
        return all(truths)
    if operation == "any_sync":
        return any(truths)
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
    return None  # syncwarp


_LANES = {
    "shfl_sync": lambda lane, asked: asked % WARP,
    "shfl_up_sync": lambda lane, asked: lane - asked,
    "shfl_down_sync": lambda lane, asked: lane + asked,
    "shfl_xor_sync": lambda lane, asked: lane ^ asked,
}


def make_mask(lanes: Iterable[int]) -> int:
    """A bit for each lane."""
    found = 0
    for lane in lanes:
        found |= 1 << lane
    return found


def write_lanes(lanes: Iterable[int]) -> str:
    """lane 3; lanes 0-15 and 20"""
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
