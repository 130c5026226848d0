"""What the matmul ladder has to reach, and whether it did: lines of a table.

The ratios are the opponent's time over that of our fastest rung, in one run: on a GPU
cuBLAS, in the race in which it is fastest, on a CPU torch.mm with as many threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
CUBLAS = ("cublas",)
# Here the layout of a and b that is best for each side counts, since a tensor core may
# want b stored (n,k). In other precisions each stands beside the same of cuBLAS.
BETTER = ("tf32", "3xtf32")


@dataclass(frozen=True)
class Goal:
    """A precision at a size, m x k x n: what is asked for, and what is hoped for."""

    precision: str
    size: tuple[int, int, int]
    must: float
    goal: float
    target: str = "cuda"


def _make_cubes(
    precision: str, sides: Sequence[int], must: float, goal: float
) -> list[Goal]:
    return [Goal(precision, (side,) * 3, must, goal) for side in sides]


PRECISIONS = ("fp32", "3xtf32", "tf32", "bf16", "fp16")
GOALS = [
    *_make_cubes("fp32", (1024,), 1.08, 1.2),
    *_make_cubes("fp32", (2048, 4096, 8192), 1.02, 1.08),
    Goal("fp32", (5120, 256, 5120), 1.12, 1.25),
    *_make_cubes("3xtf32", (4096, 8192), 2.3, 2.8),
    *_make_cubes("tf32", (4096, 8192), 0.96, 1.02),
    *_make_cubes("bf16", (4096, 8192), 0.97, 1.02),
    *(Goal(kind, (50000, 784, 10), 1.0, 1.0) for kind in PRECISIONS),
    *(Goal("fp32", (side,) * 3, 0.6, 1.0, "cpu") for side in (1024, 2048)),
]
# The geometric mean over these cubes, strict fp32.
MEAN = (1000, 1023, 1024, 2047, 2048, 3000, 4095, 4096, 4097, 6000, 8191, 8192)
MEAN_MUST, MEAN_GOAL = 0.97, 1.03
# Of cuBLAS (batches: of torch.bmm) at any size and in any layout.
WORST = 0.5


def compare_goals(rows: Sequence[Row]) -> list[Row]:
    """A line for each goal that the rows tell something of.

    cold: the same ratio where the inputs are in no cache, if that was timed, too.
    """
    timed = [r for r in rows if r["op"] == "matmul" and r.get("us")]
    cold = [r for r in timed if is_cold(r)]
    timed = [r for r in timed if not is_cold(r)] or timed
    gpus = [r for r in timed if r["target"] == "cuda"]
    worst = [line for kind in PRECISIONS for line in _worst_ratios(gpus, kind)]
    return [*_of_sizes(timed, cold), *_geometric_means(gpus), *worst]


def beside_fastest(rows: Sequence[Row]) -> None:
    """Set vs_cublas and vs_torch: the peer's time over the row's, within a run.

    The peer's is its fastest in any race of that size, since heat slows cuBLAS's fp32
    by up to 4 % where many kernels take turns. 3xtf32 stands beside fp32, and cuBLAS
    has the row's layout, or where the better one counts that in which it is fastest.
    """
    timed = [row for row in rows if row["op"] == "matmul" and row.get("us")]
    fastest: dict[tuple, float] = {}
    for row in timed:
        for layout in (row["layout"], "any"):
            key = (row["impl"], layout, *_circumstances_of(row, row["precision"]))
            fastest[key] = min(row["us"], fastest.get(key, row["us"]))
    for row in timed:
        against = "fp32" if row["race"] == "3xtf32" else row["race"]
        layout = "any" if row["race"] in BETTER else row["layout"]
        for peer, lying in (("cublas", layout), ("torch", "any")):
            us = fastest.get((peer, lying, *_circumstances_of(row, against)))
            row[f"vs_{peer}"] = us / row["us"] if us else None


def run_of(row: Row) -> str | None:
    """The run that a row is of: when it began; of older rows the commit."""
    return row.get("run") or row.get("commit")


def is_cold(row: Row) -> bool:
    """Whether its inputs were in no cache."""
    return (row.get("cache") or "").startswith("cold")


def is_usual(row: Row) -> bool:
    """Whether a and b lie as (m,k) and (k,n), or somehow where the better counts."""
    return row["layout"] == "nn" or row["race"] in BETTER


def fastest_row(rows: Iterable[Row], impls: Sequence[str] = ("weft",)) -> Row | None:
    """The fastest row of these impls."""
    those = [row for row in rows if row["impl"] in impls and row.get("us")]
    return min(those, key=lambda row: row["us"], default=None)


def _of_sizes(rows: Sequence[Row], cold: Sequence[Row]) -> Iterator[Row]:
    for goal in GOALS:
        every = _select_rows(rows, goal)
        for threads in dict.fromkeys(row.get("threads") for row in every):
            there = [row for row in every if row.get("threads") == threads]
            ours, peer = fastest_row(there), fastest_row(there, CUBLAS)
            if ours is None or ratio_of(ours) is None:
                continue
            line = _make_line(
                goal.precision, _size_text(ours), ratio_of(ours), ours, peer
            )
            also = fastest_row(
                r for r in _select_rows(cold, goal) if r.get("threads") == threads
            )
            line["cold"] = ratio_of(also) if also else None
            line |= _met(ratio_of(ours), goal.must, goal.goal)
            if goal.precision == "3xtf32" and peer:
                worse = ours["error_rms"] > peer["error_rms"]
                line["error"] = "larger than cuBLAS fp32's" if worse else "no larger"
                line["met"] = "no" if worse else line["met"]
            yield line


def _select_rows(rows: Iterable[Row], goal: Goal) -> list[Row]:
    """Those that a goal is about, and their opponents."""
    return [
        row
        for row in rows
        if _size_of(row) == (1, *goal.size)
        and (row["race"], row["target"]) == (goal.precision, goal.target)
        and is_usual(row)
    ]


def _geometric_means(rows: Sequence[Row]) -> Iterator[Row]:
    """Over the sizes that are there; it counts once all are."""
    wanted = {(1, s, s, s) for s in MEAN}
    usual = [row for row in rows if _size_of(row) in wanted and is_usual(row)]
    found = [*_fastest_of_ours(usual, "fp32")]
    if len(found) < 2:
        return
    mean = math.exp(sum(math.log(r["vs_cublas"]) for r in found) / len(found))
    name = f"geometric mean of {len(found)} of {len(MEAN)}"
    line = _make_line("fp32", name, mean, None) | _met(mean, MEAN_MUST, MEAN_GOAL)
    yield line if len(found) == len(MEAN) else line | {"met": "not all sizes"}


def _worst_ratios(rows: Sequence[Row], precision: str) -> Iterator[Row]:
    """The size and layout with the lowest ratio: one line."""
    found = list(_fastest_of_ours(rows, precision))
    row = min(found, key=ratio_of, default=None)
    if row is None:
        return
    lying = "" if row["layout"] == "nn" else f" {row['layout']}"
    name = f"worst of {len(found)}: {_size_text(row)}{lying}"
    yield _make_line(precision, name, ratio_of(row), row) | _met(
        ratio_of(row), WORST, WORST
    )


def _fastest_of_ours(rows: Sequence[Row], precision: str) -> Iterator[Row]:
    """Our fastest row of each size and layout, where an opponent ran too."""
    found: dict[tuple, list[Row]] = {}
    for row in rows:
        if row["race"] == precision:
            found.setdefault((_size_of(row), row["layout"]), []).append(row)
    for there in found.values():
        ours = fastest_row(there)
        if ours and ratio_of(ours):
            yield ours


def ratio_of(row: Row) -> float | None:
    """Beside cuBLAS; a batch beside torch.bmm, which calls it; on a CPU torch.mm."""
    beside_torch = row.get("batch", 1) > 1 or row["target"] == "cpu"
    return row.get("vs_torch" if beside_torch else "vs_cublas")


def _make_line(
    precision: str, size: str, ratio: float, ours: Row | None, peer: Row | None = None
) -> Row:
    """layout: ours, and the one in which cuBLAS is fastest."""
    layouts = [row["layout"] for row in (ours, peer) if row]
    on_cpu = ours is not None and ours["target"] == "cpu"
    return {
        **{"precision": precision, "size": size, "target": "cpu" if on_cpu else "cuda"},
        **{"threads": ours.get("threads") if on_cpu else None},
        **{"beside": "torch.mm" if on_cpu else "cuBLAS", "ratio": ratio, "cold": None},
        **{"ours": ours["rung"] if ours else None},
        "layout": ", cuBLAS ".join(layouts) or None,
        **{"TFLOP/s": ours["tflops"] if ours else None, "error": None},
    }


def _met(ratio: float, must: float, goal: float) -> Row:
    met = "goal" if ratio >= goal else "must" if ratio >= must else "no"
    return {"must": must, "goal": goal, "met": met}


def _circumstances_of(row: Row, precision: str) -> tuple:
    """What a row and its opponents have in common."""
    return run_of(row), row.get("threads"), _size_of(row), precision, is_cold(row)


def _size_of(row: Row) -> tuple[int, int, int, int]:
    return row.get("batch", 1), row["m"], row["k"], row["n"]


def _size_text(row: Row) -> str:
    batch, *sizes = _size_of(row)
    many = f"{batch}of" if batch > 1 else ""
    return many + (str(sizes[0]) if len({*sizes}) == 1 else "x".join(map(str, sizes)))
