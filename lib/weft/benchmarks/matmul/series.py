"""Rows of `weft bench matmul` as the pictures and README take them.

committed_results()     what came with the lab
series_of(rows)         for each machine the rows that stand beside each other
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from ...base.paths import ROOT
from ...timing import read_json
from .goals import BETTER, fastest_row, is_cold, is_usual

Row = dict[str, Any]
Found = dict[str, Any]  # as bench.read_json() has it: "machine" and "rows"
Size = tuple[int, int, int]

PRECISIONS = ("fp32", "3xtf32", "fp16", "bf16", "tf32")
OURSELVES = ("weft", "numba", "mine")
PEERS = {"cublas": "cuBLAS", "torch": "torch.mm"}
RESULTS = ROOT / "notebooks" / "results"


def committed_results() -> list[Found]:
    """What came with the lab: notebooks/results/matmul_*.json, those of GPUs first."""
    found = [read_json(path) for path in sorted(RESULTS.glob("matmul_*.json"))]
    found = [results for results in found if select_timed(results["rows"])]
    return sorted(found, key=lambda results: results["rows"][0]["target"] == "cpu")


def select_timed(rows: Iterable[Row]) -> list[Row]:
    """The rows of products that were timed; no batches, none transposed.

    But where the better layout counts (goals.BETTER) all are there.
    """
    return [
        row
        for row in rows
        if row["op"] == "matmul" and row.get("us") and "race" in row
        if row.get("batch", 1) == 1 and is_usual(row)
    ]


def series_of(
    rows: Sequence[Row], committed: Iterable[Found] | None
) -> list[tuple[dict | None, list[Row]]]:
    """(machine, its rows), this machine's first: it is None.

    What a processor did elsewhere stands beside processors alone.
    """
    others = committed_results() if committed is None else committed
    every = [(None, _select_alike(select_timed(rows)))]
    every += [
        (found["machine"], _select_alike(select_timed(found["rows"])))
        for found in others
    ]
    every = [(machine, found) for machine, found in every if found]
    first = {row["target"] for row in every[0][1]} if every else set()
    return [
        (machine, found)
        for machine, found in every
        if "cpu" in first or found[0]["target"] != "cpu"
    ]


def _select_alike(rows: Sequence[Row]) -> list[Row]:
    """The warm ones, if there are some, and on a processor those of most threads."""
    there = [row for row in rows if not is_cold(row)] or rows
    most = max((row.get("threads") or 0 for row in there), default=0)
    return [row for row in there if (row.get("threads") or most) == most]


def select_size(rows: Iterable[Row], size: Size | None) -> list[Row]:
    """The rows of one size."""
    return [row for row in rows if (row["m"], row["k"], row["n"]) == size]


def size_of(text: str) -> Size:
    """m, k, n of "4096" or "5120x256x5120"."""
    # README's tables do without PyTorch.
    from .calls import Size as Parsed

    size = Parsed.of(text)
    return size.m, size.k, size.n


def size_text(size: Size) -> str:
    """How a size is written: m = k = n = 4096, or m x k x n."""
    if len({*size}) == 1:
        return f"m = k = n = {size[0]}"
    return " × ".join(map(str, size))


def peer_name(rows: Sequence[Row]) -> str:
    """Whom these rows are compared with."""
    return PEERS["cublas" if any(r["impl"] == "cublas" for r in rows) else "torch"]


def find_opponent(rows: Iterable[Row], precision: str) -> Row | None:
    """The row at which a precision's rungs have 100 %: see beside_fastest()."""
    against = "fp32" if precision == "3xtf32" else precision
    those = [
        row
        for row in rows
        if row["precision"] == against
        and (row["layout"] == "nn" or precision in BETTER)
    ]
    return fastest_row(those, ("cublas",)) or fastest_row(those, ("torch",))


def find_fullest_size(series: Sequence[tuple]) -> Size | None:
    """The size with most of our rungs; of several the largest."""
    first = series[0][1] if series else []
    counts: dict[Size, int] = {}
    for row in first:
        size = row["m"], row["k"], row["n"]
        counts[size] = counts.get(size, 0) + (row["impl"] in OURSELVES)
    return max(counts, key=lambda s: (counts[s], math.prod(s)), default=None)
