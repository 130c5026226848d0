"""From which size on one machine is ahead of another: where two lines cross."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


def lowest_times(rows: Iterable[Mapping[str, Any]], target: str) -> dict[int, float]:
    """Map each size to the microseconds of our fastest rung on a target.

    rows: of ops.py.

    The lowest sample of each counts, not the median: other work on the machine only
    adds time.
    """
    lowest: dict[int, float] = {}
    for row in rows:
        if (row["target"], row["impl"]) == (target, "weft"):
            count, time = row["count"], row["us_low"]
            lowest[count] = min(time, lowest.get(count, time))
    return lowest


def find_crossing(
    slower: Mapping[int, float], faster: Mapping[int, float]
) -> float | None:
    """The size from which on `faster` needs less time than `slower`, or None.

    Between two measured sizes the lines are straight on logarithmic axes. None: it is
    not ahead at the largest size. The smallest common size: it always is.
    """
    sizes = sorted(set(slower) & set(faster))
    lead = [math.log(slower[size] / faster[size]) for size in sizes]
    if not sizes or lead[-1] <= 0:
        return None
    behind = max((at for at, value in enumerate(lead) if value <= 0), default=None)
    if behind is None:
        return sizes[0]
    low, high = math.log(sizes[behind]), math.log(sizes[behind + 1])
    share = -lead[behind] / (lead[behind + 1] - lead[behind])
    return math.exp(low + share * (high - low))
