"""Write the matmul tables of docs/results.md for weft.benchmarks.readme."""

from __future__ import annotations

from typing import Any

from ...base.style import describe_dates
from ...timing.results import Row
from ..phrases import write_digits, write_table
from .comparison import (
    OURSELVES,
    PLOTTED,
    committed_results,
    compare_fastest,
    fastest_row,
    find_opponent,
    is_cold,
    ratio_of,
    run_of,
    select_size,
    select_timed,
    size_of,
)

SIZE = (4096, 4096, 4096)
RUN = "`python -m weft bench matmul --device cuda --set all --numba`"

# The text after a name if a and b are not stored as (m,k) and (k,n).
LAYOUT_TEXTS = {"nt": ", b stored (n,k)", "tn": ", a stored (k,m)"}


def matmul_table(committed: list[dict[str, Any]] | None = None) -> str:
    """Write every rung at m = k = n = 4096 in Markdown, with the card and the date.

    committed: results from bench.read_json(), a GPU's before processors'; None: those
    in notebooks/results. Without results, the text explains how to measure.
    """
    files = committed_results() if committed is None else committed
    source = files[0]["rows"] if files else []
    rows = [row for row in select_size(select_timed(source), SIZE) if not is_cold(row)]
    if not rows:
        return f"The ladder has not been measured yet: {RUN}."
    lines = []
    for kind in PLOTTED:
        ours = [r for r in rows if r["precision"] == kind and r["impl"] in OURSELVES]
        names = _list_layouts(ours)
        for name in names:
            candidates = (r for r in ours if (r["rung"], r["layout"]) == name)
            lines.append(_write_line(name[0], fastest_row(candidates, OURSELVES)))
        peer = find_opponent(rows, kind)
        # 3xtf32 is compared with fp32's opponent.
        if peer and peer["impl"] == "cublas" and names and kind != "3xtf32":
            lines.append(_write_line("*cuBLAS*", peer | {"vs_cublas": 1.0}))
    heads = ["rung", "idea", "precision", "TFLOP/s", "of cuBLAS", "error"]
    table = write_table(heads, "lllrrr", lines)
    machine = files[0]["machine"]
    text = (
        f"{machine['device']}, driver {machine['driver']}, CUDA "
        f"{machine['toolkit']}, PyTorch {machine['torch']}, "
        f"{describe_dates(rows)}. Medians "
        f"{_write_spread(rows)}, warm caches (each call multiplies the same a and b), "
        f"{_write_runs(select_timed(source))} of {RUN}. Ratios are within a run; "
        "3xtf32 is compared with "
        "cuBLAS in fp32, each in its fastest layout. Error: relative root mean square, "
        "against float64."
    )
    parts = ["Every rung at m = k = n = 4096:", table, text]
    parts += [*_write_ratios(source), *_write_transposed(source)]
    parts += [part for results in files[1:] for part in _write_processor(results)]
    return "\n\n".join(parts)


def _list_layouts(rows: list[Row]) -> list[tuple[str, str]]:
    """Return (rung, layout): the usual layout of each rung, and any faster one."""
    fastest: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: -row["tflops"]):
        fastest.setdefault((row["rung"], row["layout"]), row)
    usual = {
        rung: row["tflops"] for (rung, form), row in fastest.items() if form == "nn"
    }
    names = dict.fromkeys((row["rung"], row["layout"]) for row in rows)
    return [
        name
        for name in names
        if name[1] == "nn" or fastest[name]["tflops"] > usual.get(name[0], 0.0)
    ]


def _write_spread(rows: list[Row]) -> str:
    """Write the worst spread of the medians, and the number without a known spread."""
    spreads = [row["spread"] for row in rows if row.get("spread")]
    worst = f"known to {100 * max(spreads):.2g} % or better" if spreads else ""
    few = len(rows) - len(spreads)
    unknown = f"{few} of {len(rows)} have too few samples for this" if few else ""
    return f"({', '.join(filter(None, (worst, unknown)))})"


def _write_runs(rows: list[Row]) -> str:
    """Write the number of the rows' runs and their starts."""
    runs = sorted({run_of(row) or "" for row in rows})
    starts = {row["run"] for row in rows if row.get("run")}
    texts = [
        f"{run[:10]} {run[11:16]} UTC" if run in starts else f"commit {run}"
        for run in filter(None, runs)
    ]
    count = "one run" if len(runs) == 1 else f"{len(runs)} runs"
    return f"measured in turn in {count}" + f" ({', '.join(texts)})" * bool(texts)


def _write_ratios(rows: list[Row]) -> list[str]:
    """Write a table of ratios to cuBLAS at selected sizes, or nothing without rows."""
    gpus = [line for line in compare_fastest(rows) if line["target"] == "cuda"]
    if not gpus:
        return []
    text = "Speed of the fastest rung divided by cuBLAS's. Cold: a and b are in no "
    text += "cache. Worst of N: the lowest ratio of N sizes and layouts."
    lines = []
    for line in gpus:
        ratios = (_write_ratio(line[key]) for key in ("ratio", "cold"))
        lines.append([line["precision"], line["size"], *ratios])
    heads = ["precision", "m x k x n", "times cuBLAS", "cold"]
    return [text, write_table(heads, "llrr", lines)]


def _write_transposed(rows: list[Row]) -> list[str]:
    """Write ratios to cuBLAS for transposed operands and batches, if there are any."""
    ratios: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["op"] != "matmul" or row["impl"] != "weft" or is_cold(row):
            continue
        count, turned = row.get("batch", 1), row["layout"] != "nn"
        ratio, is_cube = ratio_of(row), row["m"] == row["k"] == row["n"]
        if ratio and is_cube and (count > 1 or turned):
            name = f"{count} of {row['m']}" if count > 1 else f"{row['m']}"
            name += f" {row['layout']}" * turned
            group = ratios.setdefault(row["race"], {})
            group[name] = max(ratio, group.get(name, 0.0))
    names = sorted({name for group in ratios.values() for name in group}, key=_sort_key)
    if not names:
        return []
    lines = [
        [kind, *(_write_ratio(group.get(name)) for name in names)]
        for kind, group in ratios.items()
    ]
    table = write_table(["times cuBLAS", *names], "l" + "r" * len(names), lines)
    text = "nt: b is stored as (n,k); tn: a is stored as (k,m). cuBLAS uses the same "
    text += "layout, but its fastest one in tf32 and 3xtf32. "
    text += "Batches are compared with torch.bmm."
    head = "The same for a or b stored transposed, and for batches of products:"
    return [head, table, text]


def _sort_key(name: str) -> tuple[bool, int, str]:
    """Return a column's sort key, for the order "1023 nt", "4096 nt", "64 of 256"."""
    return " of " in name, int(name.split()[0]), name


def _write_ratio(value: float | None) -> str:
    return write_digits(value) if value else "–"


def _write_processor(results: dict[str, Any]) -> list[str]:
    """Compare a processor's fastest rung in plain C with NumPy and torch.mm."""
    rows = select_timed(results["rows"])
    comparisons = [line for line in compare_fastest(rows) if line["target"] == "cpu"]
    if not comparisons:
        return []
    lines = []
    for line in comparisons:
        threads, size = line["threads"], size_of(line["size"])
        group = [r for r in select_size(rows, size) if r.get("threads") == threads]
        racers = [fastest_row(group, (impl,)) for impl in ("weft", "numpy", "torch")]
        speeds = [write_digits(1e3 * r["tflops"]) if r else "–" for r in racers]
        factor = fastest_row(group, ("numpy", "torch"))["us"] / racers[0]["us"]
        cells = [line["size"], threads, line["ours"], *speeds, write_digits(factor)]
        lines.append(cells)
    heads = ["m = k = n", "threads", "rung", "ours", "NumPy", "torch.mm", "factor"]
    machine = results["machine"]
    text = (
        "Factor: our speed divided by the faster opponent's. fp32, equal numbers of "
        f"threads, {machine['device']}, PyTorch {machine['torch']}, "
        f"{describe_dates(rows)}, {_write_runs(rows)} of `python -m weft bench matmul`."
    )
    head = "Plain C on a processor, NumPy and torch.mm, in GFLOP/s:"
    return [head, write_table(heads, "lrlrrrr", lines), text]


def _write_line(name: str, row: Row) -> list[str]:
    speed, ratio = write_digits(row["tflops"]), row.get("vs_cublas")
    share = f"{write_digits(100 * ratio)} %" if ratio else "–"
    error = f"{row['error_rms']:.1e}" if row.get("error_rms") else "–"
    name += " (Numba)" if row["impl"] == "numba" else ""
    name += LAYOUT_TEXTS.get(row["layout"], "")
    return [name, row.get("idea") or "", row["precision"], speed, share, error]
