"""What the matmul ladder has to reach, and whether it did: lines of a table.

The ratios are the opponent's time over that of our fastest rung, in one run, each in
the layout of a and b, and the opponent in the race, in which it is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
CUBLAS = ("cublas",)


@dataclass(frozen=True)
class Goal:
    """A precision at a size, m x k x n: what is asked for, and what is hoped for."""

    precision: str
    size: tuple[int, int, int]
    must: float
    goal: float


def _cubes(
    precision: str, sides: Sequence[int], must: float, goal: float
) -> list[Goal]:
    return [Goal(precision, (side,) * 3, must, goal) for side in sides]


GOALS = [
    *_cubes("fp32", (1024,), 1.08, 1.2),
    *_cubes("fp32", (2048, 4096, 8192), 1.02, 1.08),
    Goal("fp32", (5120, 256, 5120), 1.12, 1.25),
    *_cubes("3xtf32", (4096, 8192), 2.3, 2.8),
    *_cubes("tf32", (4096, 8192), 0.96, 1.02),
    *_cubes("bf16", (4096, 8192), 0.97, 1.02),
    Goal("fp32", (50000, 784, 10), 1.0, 1.0),
]
# The geometric mean over these cubes, strict fp32.
MEAN = (1000, 1023, 1024, 2047, 2048, 3000, 4095, 4096, 4097, 6000, 8191, 8192)
MEAN_MUST, MEAN_GOAL = 0.97, 1.03
# Of cuBLAS (batches: of torch.bmm) at any size, by precision.
WORST = dict.fromkeys(("fp32", "3xtf32", "tf32", "bf16", "fp16"), 0.5)


def goals(rows: Sequence[Row]) -> list[Row]:
    """A line for each goal that the rows tell something of; none for a CPU's."""
    timed = [r for r in rows if r["op"] == "matmul" and r.get("us")]
    timed = [r for r in timed if r["target"] == "cuda"]
    single = [r for r in timed if r.get("batch", 1) == 1]
    worst = [line for kind in WORST for line in _worst(timed, kind)]
    return [*_of_sizes(single), *_mean(single), *worst]


def beside_fastest(rows: Sequence[Row]) -> None:
    """Set vs_cublas and vs_torch: the peer's time over the row's.

    The peer's is its fastest in any race of these rows at that size, since heat slows
    cuBLAS's fp32 by up to 4 % where many kernels take turns. 3xtf32 stands beside fp32.
    """
    timed = [row for row in rows if row["op"] == "matmul" and row.get("us")]
    fastest: dict[tuple, float] = {}
    for row in timed:
        key = (row["impl"], _size(row), row["precision"], row["cache"])
        fastest[key] = min(row["us"], fastest.get(key, row["us"]))
    for row in timed:
        against = "fp32" if row["race"] == "3xtf32" else row["race"]
        for peer in ("cublas", "torch"):
            us = fastest.get((peer, _size(row), against, row["cache"]))
            row[f"vs_{peer}"] = us / row["us"] if us else None


def best(rows: Iterable[Row], impls: Sequence[str] = ("weft",)) -> Row | None:
    """The fastest row of these impls."""
    those = [row for row in rows if row["impl"] in impls and row.get("us")]
    return min(those, key=lambda row: row["us"], default=None)


def _of_sizes(rows: Sequence[Row]) -> Iterator[Row]:
    for goal in GOALS:
        there = [
            row
            for row in rows
            if _size(row) == (1, *goal.size) and row["race"] == goal.precision
        ]
        ours, peer = best(there), best(there, CUBLAS)
        if ours is None or ours.get("vs_cublas") is None:
            continue
        line = _line(goal.precision, _text(ours), ours["vs_cublas"], ours, peer)
        line |= _met(ours["vs_cublas"], goal.must, goal.goal)
        if goal.precision == "3xtf32" and peer:
            worse = ours["error_rms"] > peer["error_rms"]
            line["error"] = "larger than cuBLAS fp32's" if worse else "no larger"
            line["met"] = "no" if worse else line["met"]
        yield line


def _mean(rows: Sequence[Row]) -> Iterator[Row]:
    """Over the sizes that are there; it counts once all are."""
    wanted = {(1, s, s, s) for s in MEAN}
    found = [r for r in _ours(rows, "fp32") if _size(r) in wanted]
    if len(found) < 2:
        return
    mean = math.exp(sum(math.log(r["vs_cublas"]) for r in found) / len(found))
    name = f"geometric mean of {len(found)} of {len(MEAN)}"
    line = _line("fp32", name, mean, None) | _met(mean, MEAN_MUST, MEAN_GOAL)
    yield line if len(found) == len(MEAN) else line | {"met": "not all sizes"}


def _worst(rows: Sequence[Row], precision: str) -> Iterator[Row]:
    """The size with the lowest ratio: one line."""
    found = list(_ours(rows, precision))
    row = min(found, key=_ratio, default=None)
    if row is None:
        return
    name = f"worst of {len(found)}: {_text(row)}"
    line = _line(precision, name, _ratio(row), row)
    yield line | _met(_ratio(row), WORST[precision], WORST[precision])


def _ours(rows: Sequence[Row], precision: str) -> Iterator[Row]:
    """Our fastest row of each size, where an opponent ran too."""
    there = [row for row in rows if row["race"] == precision]
    for size in dict.fromkeys(map(_size, there)):
        ours = best(row for row in there if _size(row) == size)
        if ours and _ratio(ours):
            yield ours


def _ratio(row: Row) -> float | None:
    """Beside cuBLAS; a batch beside torch.bmm, which calls it."""
    return row.get("vs_torch" if row.get("batch", 1) > 1 else "vs_cublas")


def _line(
    precision: str, size: str, ratio: float, ours: Row | None, peer: Row | None = None
) -> Row:
    """layout: ours, and the one in which cuBLAS is fastest."""
    layouts = [row["layout"] for row in (ours, peer) if row]
    return {
        **{"precision": precision, "size": size, "vs cuBLAS": ratio},
        **{"ours": ours["rung"] if ours else None},
        "layout": ", cuBLAS ".join(layouts) or None,
        **{"TFLOP/s": ours["tflops"] if ours else None, "error": None},
    }


def _met(ratio: float, must: float, goal: float) -> Row:
    met = "goal" if ratio >= goal else "must" if ratio >= must else "no"
    return {"must": must, "goal": goal, "met": met}


def _size(row: Row) -> tuple[int, int, int, int]:
    return row.get("batch", 1), row["m"], row["k"], row["n"]


def _text(row: Row) -> str:
    batch, *sizes = _size(row)
    many = f"{batch}of" if batch > 1 else ""
    return many + (str(sizes[0]) if len({*sizes}) == 1 else "x".join(map(str, sizes)))
