"""Write the matmul tables of docs/results.md for weft.benchmarks.readme."""

from __future__ import annotations

from typing import Any

from ...timing.results import Row
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
    lines = ["Every rung at m = k = n = 4096:", ""]
    lines += ["| rung | idea | precision | TFLOP/s | of cuBLAS | error |"]
    lines += ["|---|---|---|---:|---:|---:|"]
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
    machine = files[0]["machine"]
    text = (
        f"{machine['device']}, driver {machine['driver']}, CUDA "
        f"{machine['toolkit']}, PyTorch {machine['torch']}, "
        f"{_write_dates(rows)}. Medians "
        f"{_write_spread(rows)}, warm caches (each call multiplies the same a and b), "
        f"{_write_runs(select_timed(source))} of {RUN}. Ratios are within a run; "
        "3xtf32 is compared with "
        "cuBLAS in fp32, each in its fastest layout. Error: relative root mean square, "
        "against float64."
    )
    plain = [line for results in files[1:] for line in _write_processor(results)]
    return "\n".join(
        [*lines, "", text, *_write_ratios(source), *_write_transposed(source), *plain]
    )


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


def _write_dates(rows: list[Row]) -> str:
    dates = sorted({row["date"] for row in rows})
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def _write_spread(rows: list[Row]) -> str:
    """Write the worst spread of the medians, and how many have no known spread."""
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
    suffix = f" ({', '.join(texts)})" * bool(texts)
    return (
        f"measured in turn in {'one run' if len(runs) == 1 else f'{len(runs)} runs'}"
        f"{suffix}"
    )


def _write_ratios(rows: list[Row]) -> list[str]:
    """Write a table of ratios to cuBLAS at selected sizes, or nothing without rows."""
    gpus = [line for line in compare_fastest(rows) if line["target"] == "cuda"]
    if not gpus:
        return []
    lines = [
        "",
        "Speed of the fastest rung divided by cuBLAS's. Cold: a and b are in no cache. "
        "Worst of N: the lowest ratio of N sizes and layouts.",
        "",
        "| precision | m x k x n | times cuBLAS | cold |",
    ]
    lines += ["|---|---|---:|---:|"]
    for line in gpus:
        cold = _write_three_digits(line["cold"]) if line["cold"] else "–"
        cells = [
            line["precision"],
            line["size"],
            _write_three_digits(line["ratio"]),
            cold,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _write_transposed(rows: list[Row]) -> list[str]:
    """Write ratios to cuBLAS for transposed operands and batches, if there are any."""
    ratios: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["op"] != "matmul" or row["impl"] != "weft" or is_cold(row):
            continue
        count = row.get("batch", 1)
        ratio = ratio_of(row)
        fits = row["m"] == row["k"] == row["n"] and (count > 1 or row["layout"] != "nn")
        if ratio and fits:
            name = f"{count} of {row['m']}" if count > 1 else f"{row['m']}"
            name += f" {row['layout']}" * (row["layout"] != "nn")
            group = ratios.setdefault(row["race"], {})
            group[name] = max(ratio, group.get(name, 0.0))
    names = sorted({name for group in ratios.values() for name in group}, key=_sort_key)
    if not names:
        return []
    lines = ["", "The same for a or b stored transposed, and for batches of products:"]
    lines += ["", f"| times cuBLAS | {' | '.join(names)} |"]
    lines += ["|---" + "|---:" * len(names) + "|"]
    for kind, group in ratios.items():
        cells = [
            _write_three_digits(group[name]) if name in group else "–" for name in names
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    text = "nt: b is stored as (n,k); tn: a is stored as (k,m). cuBLAS uses the same "
    text += (
        "layout, but its fastest one in tf32 and 3xtf32. Batches are compared with "
        "torch.bmm."
    )
    return [*lines, "", text]


def _sort_key(name: str) -> tuple[bool, int, str]:
    """Return a column's sort key, for the order "1023 nt", "4096 nt", "64 of 256"."""
    return " of " in name, int(name.split()[0]), name


def _write_three_digits(value: float) -> str:
    """Write a value with three digits, including final zeros: 1.20, 73.0, 108."""
    return f"{value:#.3g}".rstrip(".")


def _write_processor(results: dict[str, Any]) -> list[str]:
    """Compare a processor's fastest rung in plain C with NumPy and torch.mm."""
    rows = select_timed(results["rows"])
    comparisons = [line for line in compare_fastest(rows) if line["target"] == "cpu"]
    if not comparisons:
        return []
    lines = ["", "Plain C on a processor, NumPy and torch.mm, in GFLOP/s:", ""]
    lines += ["| m = k = n | threads | rung | ours | NumPy | torch.mm | factor |"]
    lines += ["|---|---:|---|---:|---:|---:|---:|"]
    for line in comparisons:
        threads, size = line["threads"], size_of(line["size"])
        group = [r for r in select_size(rows, size) if r.get("threads") == threads]
        racers = [fastest_row(group, (impl,)) for impl in ("weft", "numpy", "torch")]
        speeds = [
            _write_three_digits(1e3 * row["tflops"]) if row else "–" for row in racers
        ]
        factor = fastest_row(group, ("numpy", "torch"))["us"] / racers[0]["us"]
        cells = [
            line["size"],
            threads,
            line["ours"],
            *speeds,
            _write_three_digits(factor),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    machine = results["machine"]
    text = (
        "Factor: our speed divided by the faster opponent's. fp32, equal numbers of "
        f"threads, {machine['device']}, PyTorch {machine['torch']}, "
        f"{_write_dates(rows)}, "
    )
    return [*lines, "", f"{text}{_write_runs(rows)} of `python -m weft bench matmul`."]


def _write_line(name: str, row: Row) -> str:
    speed, ratio = _write_three_digits(row["tflops"]), row.get("vs_cublas")
    share = f"{_write_three_digits(100 * ratio)} %" if ratio else "–"
    error = f"{row['error_rms']:.1e}" if row.get("error_rms") else "–"
    idea = row.get("idea") or ""
    name += " (Numba)" if row["impl"] == "numba" else ""
    name += LAYOUT_TEXTS.get(row["layout"], "")
    return f"| {name} | {idea} | {row['precision']} | {speed} | {share} | {error} |"
