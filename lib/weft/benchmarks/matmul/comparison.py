"""Compare rows of `weft bench matmul`: ratios to cuBLAS, and series for the charts.

A ratio is the opponent's time divided by our fastest rung's time in the same run. On a
GPU, the opponent is cuBLAS in its fastest race; on a CPU, it is torch.mm with an equal
number of threads.

compare_fastest(rows)   lines of a table that compares our fastest rungs with cuBLAS
committed_results()     the results in notebooks/results
series_of(rows)         the rows to show together, for each machine
matmul_table()          the tables of docs/results.md
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ...base.paths import ROOT
from ...base.style import describe_dates
from ...timing import read_json
from ...timing.results import ResultFile, Row
from .. import write_digits, write_table

CUBLAS = ("cublas",)
# In these precisions each side uses its best layout of a and b, since tensor cores may
# require b stored (n,k). In others, a rung is compared with cuBLAS in the same layout.
BETTER = ("tf32", "3xtf32")
Size = tuple[int, int, int]
PRECISIONS = ("fp32", "3xtf32", "tf32", "bf16", "fp16")


def _make_cubes(precision: str, *sides: int) -> list[tuple[str, Size, str]]:
    return [(precision, (side,) * 3, "cuda") for side in sides]


# Precision, size (m x k x n) and target of each line of the summary.
SUMMARY = [
    *_make_cubes("fp32", 1024, 2048, 4096, 8192),
    ("fp32", (5120, 256, 5120), "cuda"),
    *_make_cubes("3xtf32", 4096, 8192),
    *_make_cubes("tf32", 4096, 8192),
    *_make_cubes("bf16", 4096, 8192),
    *((kind, (50000, 784, 10), "cuda") for kind in PRECISIONS),
    *(("fp32", (side,) * 3, "cpu") for side in (1024, 2048)),
]
# The geometric mean covers these cubes in strict fp32.
MEAN = (1000, 1023, 1024, 2047, 2048, 3000, 4095, 4096, 4097, 6000, 8191, 8192)


def compare_fastest(rows: Sequence[Row]) -> list[Row]:
    """Return the lines of the summary, in three groups.

    The first group has a line for each measured size in SUMMARY. The second has a line
    for the geometric mean if it can be computed. The third has one for each precision's
    lowest ratio. A line's `cold` is the ratio with inputs that are in no cache, if it
    was measured.
    """
    timed = [r for r in rows if r["op"] == "matmul" and r.get("us")]
    cold = [r for r in timed if is_cold(r)]
    timed = [r for r in timed if not is_cold(r)] or timed
    gpus = [r for r in timed if r["target"] == "cuda"]
    worst = [line for kind in PRECISIONS for line in _find_worst(gpus, kind)]
    return [*_compare_sizes(timed, cold), *_compute_means(gpus), *worst]


def beside_fastest(rows: Sequence[Row]) -> None:
    """Set vs_cublas and vs_torch: the peer's time divided by the row's, in one run.

    The peer's time is its fastest in any race of that size. When many kernels take
    turns, heat slows cuBLAS's fp32 by up to 4 %. 3xtf32 is compared with fp32. cuBLAS
    uses the row's layout or, in the precisions of BETTER, its fastest one.
    """
    timed = [row for row in rows if row["op"] == "matmul" and row.get("us")]
    fastest: dict[tuple, float] = {}
    for row in timed:
        for layout in (row["layout"], "any"):
            key = (row["impl"], layout, *_make_key(row, row["precision"]))
            fastest[key] = min(row["us"], fastest.get(key, row["us"]))
    for row in timed:
        kind = "fp32" if row["race"] == "3xtf32" else row["race"]
        layout = "any" if row["race"] in BETTER else row["layout"]
        for peer, storage in (("cublas", layout), ("torch", "any")):
            us = fastest.get((peer, storage, *_make_key(row, kind)))
            row[f"vs_{peer}"] = us / row["us"] if us else None


def run_of(row: Row) -> str | None:
    """Return the name of a row's run: its start or, for older rows, the commit."""
    return row.get("run") or row.get("commit")


def is_cold(row: Row) -> bool:
    """Return whether a row's inputs were in no cache."""
    return (row.get("cache") or "").startswith("cold")


def is_usual(row: Row) -> bool:
    """Return whether a is (m,k) and b is (k,n), or the precision is in BETTER."""
    return row["layout"] == "nn" or row["race"] in BETTER


def fastest_row(rows: Iterable[Row], impls: Sequence[str] = ("weft",)) -> Row | None:
    """Return the fastest timed row of `impls`, or None."""
    candidates = [row for row in rows if row["impl"] in impls and row.get("us")]
    return min(candidates, key=lambda row: row["us"], default=None)


def _compare_sizes(rows: Sequence[Row], cold: Sequence[Row]) -> Iterator[Row]:
    for precision, size, target in SUMMARY:
        work = precision, size, target
        matches = _select_rows(rows, *work)
        for threads in dict.fromkeys(row.get("threads") for row in matches):
            same_threads = [row for row in matches if row.get("threads") == threads]
            ours, peer = fastest_row(same_threads), fastest_row(same_threads, CUBLAS)
            if ours is None or ratio_of(ours) is None:
                continue
            line = _make_line(precision, _size_text(ours), ratio_of(ours), ours, peer)
            cold_rows = _select_rows(cold, *work)
            cold_row = fastest_row(r for r in cold_rows if r.get("threads") == threads)
            line["cold"] = ratio_of(cold_row) if cold_row else None
            if precision == "3xtf32" and peer:
                worse = ours["error_rms"] > peer["error_rms"]
                line["error"] = "larger than cuBLAS fp32's" if worse else "no larger"
            yield line


def _select_rows(
    rows: Iterable[Row], precision: str, size: Size, target: str
) -> list[Row]:
    """Return the rows for a line of the summary, including the opponents'."""
    wanted = (1, *size), precision, target
    rows = [r for r in rows if (_size_of(r), r["race"], r["target"]) == wanted]
    return [row for row in rows if is_usual(row)]


def _compute_means(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the mean over MEAN's sizes, if the rows contain at least two of them."""
    sizes = {(1, s, s, s) for s in MEAN}
    usual = [row for row in rows if _size_of(row) in sizes and is_usual(row)]
    fastest = [*_find_our_fastest(usual, "fp32")]
    if len(fastest) < 2:
        return
    mean = math.exp(sum(math.log(r["vs_cublas"]) for r in fastest) / len(fastest))
    name = f"geometric mean of {len(fastest)} of {len(MEAN)}"
    yield _make_line("fp32", name, mean, None)


def _find_worst(rows: Sequence[Row], precision: str) -> Iterator[Row]:
    """Yield a line for the size and layout with the lowest ratio, if there is one."""
    fastest = list(_find_our_fastest(rows, precision))
    if row := min(fastest, key=ratio_of, default=None):
        layout = "" if row["layout"] == "nn" else f" {row['layout']}"
        name = f"worst of {len(fastest)}: {_size_text(row)}{layout}"
        yield _make_line(precision, name, ratio_of(row), row)


def _find_our_fastest(rows: Sequence[Row], precision: str) -> Iterator[Row]:
    """Yield our fastest row of each size and layout, if an opponent also ran."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        if row["race"] == precision:
            groups.setdefault((_size_of(row), row["layout"]), []).append(row)
    for group in groups.values():
        ours = fastest_row(group)
        if ours and ratio_of(ours):
            yield ours


def ratio_of(row: Row) -> float | None:
    """Return the ratio to cuBLAS; for a batch, to torch.bmm; on a CPU, to torch.mm."""
    beside_torch = row.get("batch", 1) > 1 or row["target"] == "cpu"
    return row.get("vs_torch" if beside_torch else "vs_cublas")


def _make_line(
    precision: str, size: str, ratio: float, ours: Row | None, peer: Row | None = None
) -> Row:
    """Make a line of the table, with the layouts of our row and the peer's row."""
    layouts = [row["layout"] for row in (ours, peer) if row]
    ours = ours or {}
    on_cpu = ours.get("target") == "cpu"
    return {
        **{"precision": precision, "size": size, "target": "cpu" if on_cpu else "cuda"},
        **{"threads": ours.get("threads") if on_cpu else None},
        **{"beside": "torch.mm" if on_cpu else "cuBLAS", "ratio": ratio, "cold": None},
        **{"ours": ours.get("rung"), "layout": ", cuBLAS ".join(layouts) or None},
        **{"TFLOP/s": ours.get("tflops"), "error": None},
    }


def _make_key(row: Row, precision: str) -> tuple:
    """Return the properties that a row and its opponents share."""
    return run_of(row), row.get("threads"), _size_of(row), precision, is_cold(row)


def _size_of(row: Row) -> tuple[int, int, int, int]:
    return row.get("batch", 1), row["m"], row["k"], row["n"]


def _size_text(row: Row) -> str:
    batch, *sizes = _size_of(row)
    many = f"{batch}of" if batch > 1 else ""
    return many + (str(sizes[0]) if len({*sizes}) == 1 else "x".join(map(str, sizes)))


PLOTTED = ("fp32", "3xtf32", "fp16", "bf16", "tf32")
OURSELVES = ("weft", "numba", "mine")
PEERS = {"cublas": "cuBLAS", "torch": "torch.mm", "triton": "Triton"}
RESULTS = ROOT / "notebooks" / "results"


def committed_results() -> list[ResultFile]:
    """Load notebooks/results/matmul_*.json, GPUs' results first."""
    files = [read_json(path) for path in sorted(RESULTS.glob("matmul_*.json"))]
    files = [results for results in files if select_timed(results["rows"])]
    return sorted(files, key=lambda results: results["rows"][0]["target"] == "cpu")


def select_timed(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of timed products, except batches and transposed operands.

    In the precisions of BETTER, all layouts are included.
    """
    return [
        row
        for row in rows
        if row["op"] == "matmul" and row.get("us") and "race" in row
        if row.get("batch", 1) == 1 and is_usual(row)
    ]


def series_of(
    rows: Sequence[Row], committed: Iterable[ResultFile] | None
) -> list[tuple[dict | None, list[Row]]]:
    """Return a list of (machine, its rows); this machine is first, as None.

    Other machines' CPU results are included only if this machine's are for a CPU.
    """
    files = committed_results() if committed is None else committed
    series = [(None, rows), *((file["machine"], file["rows"]) for file in files)]
    series = [(machine, _select_alike(select_timed(part))) for machine, part in series]
    series = [(machine, part) for machine, part in series if part]
    if series and any(row["target"] == "cpu" for row in series[0][1]):
        return series
    return [(machine, part) for machine, part in series if part[0]["target"] != "cpu"]


def _select_alike(rows: Sequence[Row]) -> list[Row]:
    """Return the warm rows, if any, else all; on a CPU, those with the most threads."""
    warm = [row for row in rows if not is_cold(row)] or rows
    max_threads = max((row.get("threads") or 0 for row in warm), default=0)
    return [row for row in warm if (row.get("threads") or max_threads) == max_threads]


def select_size(rows: Iterable[Row], size: Size | None) -> list[Row]:
    """Return the rows of one size."""
    return [row for row in rows if (row["m"], row["k"], row["n"]) == size]


def size_of(text: str) -> Size:
    """Return m, k, n of "4096" or "5120x256x5120"."""
    # Imported lazily: README's tables do not need PyTorch.
    from .calls import Size as Parsed

    size = Parsed.of(text)
    return size.m, size.k, size.n


def size_text(size: Size) -> str:
    """Write a size: m = k = n = 4096, or m x k x n."""
    if len({*size}) == 1:
        return f"m = k = n = {size[0]}"
    return " × ".join(map(str, size))


def peer_name(rows: Sequence[Row]) -> str:
    """Return the name of these rows' opponent."""
    return PEERS["cublas" if any(r["impl"] == "cublas" for r in rows) else "torch"]


def find_opponent(rows: Iterable[Row], precision: str) -> Row | None:
    """Return the row that represents 100 % for a precision; see beside_fastest()."""
    peer_precision = "fp32" if precision == "3xtf32" else precision
    candidates = [row for row in rows if row["precision"] == peer_precision]
    if precision not in BETTER:
        candidates = [row for row in candidates if row["layout"] == "nn"]
    return fastest_row(candidates, ("cublas",)) or fastest_row(candidates, ("torch",))


def find_fullest_size(series: Sequence[tuple]) -> Size | None:
    """Return the size with the most of our rungs; among equals, the largest."""
    counts: dict[Size, int] = {}
    for row in series[0][1] if series else []:
        size = row["m"], row["k"], row["n"]
        counts[size] = counts.get(size, 0) + (row["impl"] in OURSELVES)
    return max(counts, key=lambda s: (counts[s], math.prod(s)), default=None)


# ---- tables of docs/results.md -------------------------------------------------------


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
    return f"({'; '.join(filter(None, (worst, unknown)))})"


def _write_runs(rows: list[Row]) -> str:
    """Write the number of runs that measured the rows, and when each run began."""
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
