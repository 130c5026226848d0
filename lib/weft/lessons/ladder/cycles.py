"""Where a product's cycles go, by ncu: rows of `bench tensor --rungs ncu`.

For each of four schedulers of a multiprocessor a cycle is one of four things: it starts
a multiply-add, starts another instruction, has warps and none that is ready, or has no
block at all.
"""

from __future__ import annotations

import math
from typing import Any

from ...benchmarks.tensor.limits import STALLS

Row = dict[str, Any]


def cycles_of(row: Row) -> dict[str, float]:
    """Per cent of all cycles, 100 in all; of a row of ncu whose product is in fp32."""
    running = row["active"] / row["elapsed"]
    added, started = row["fma_pipe"] * running, row["issue"] * running
    return {
        "multiply-adds": added,
        "other instructions": started - added,
        "none ready": 100 * running - started,
        "no block": 100 * (1 - running),
    }


def stalls_of(row: Row) -> dict[str, float]:
    """Per cent of a warp's time for each thing it waits for, the longest first.

    By ncu's words, limits.STALLS has ours. Without the time in which it was ready and
    another warp was chosen. {} for a row of before these were counted.
    """
    whole = row.get("warp_cycles") or math.nan
    found = {name: 100 * (row.get(f"stall_{name}") or 0) / whole for name in STALLS}
    found = {name: share for name, share in found.items() if share > 0}
    return dict(sorted(found.items(), key=lambda one: -one[1]))
