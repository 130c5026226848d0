"""What no kernel can exceed by much, for the race: of peaks.py, by precision."""

from __future__ import annotations

from typing import Any

from ...mnist.trainer import checked_device
from ...timing.peaks import ceilings, peaks
from ...timing.results import stamp_row
from .row import Row


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
