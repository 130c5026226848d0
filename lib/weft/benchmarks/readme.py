"""Write blocks of README.md and docs/results.md: `python -m weft.benchmarks.readme`.

Each block is enclosed by two marks, <!-- NAME: made by ... --> and <!-- /NAME -->. A
function in PAGES writes it from the committed rows in notebooks/results/. A test
compares both files with these blocks and finds measured numbers outside them. The
command also draws PICTURES and saves them next to the results.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from ..base.paths import ROOT
from ..base.style import save
from . import fill_lines, sentences, write_duration, write_machine, write_table
from .matmul.comparison import (
    SIZE,
    Row,
    committed_results,
    compare_fastest,
    fastest_row,
    matmul_table,
    select_size,
)
from .matmul.plot import ladder_plot
from .matmul.roofline import plot_roofline
from .race.plot_batches import plot_batches
from .race.plot_ladder import plot_ladder


def summarize_results() -> str:
    """Return a Markdown table that compares our results with the fastest peers'."""
    heads = ["what", "where", "ours", "the fastest peer", "ratio"]
    rows = [*_race_lines(), *_processor_lines(), *_matmul_lines()]
    return f"{write_table(heads, 'llrrr', rows)}\n\n{_describe_ratios()}"


def _describe_ratios() -> str:
    """Explain the ratios, and list the speeds of the products under a long load."""
    text = (
        "A ratio above 1 means that ours is faster. Each kernel is checked before it "
    )
    return fill_lines(f"{text}is timed. {sentences.summarize_sustained()}")


def _race_lines() -> list[list[str]]:
    """Compare a training step of 64 images in each precision on a GPU."""
    results = sentences.load_newest("race", "cuda")
    steps = sentences.select(results["rows"], measure="step", batch=sentences.BATCH)
    kinds = dict.fromkeys(row["precision"] for row in steps)
    return [_compare_steps(sentences.select(steps, precision=k)) for k in kinds]


def _processor_lines() -> list[list[str]]:
    """Compare the same step on a processor."""
    return [_compare_steps(sentences.load_newest("mnist", "cpu")["rows"])]


def _compare_steps(rows: list[Row]) -> list[str]:
    """Return the table cells that compare our fastest training step with PyTorch's."""
    ours, theirs = (sentences.fastest_row(rows, impl) for impl in ("weft", "torch"))
    name = f"training step, {ours['batch']} images, {ours['precision']}"
    times = [write_duration(row["us"]) for row in (ours, theirs)]
    ratio = f"{theirs['us'] / ours['us']:.2f}"
    return [name, ours["device"], times[0], f"{times[1]}, PyTorch", ratio]


def _matmul_lines() -> list[list[str]]:
    """Compare our fastest rung with cuBLAS at m = k = n = 4096 in each precision."""
    results = committed_results()[0]
    rows = [row for row in results["rows"] if row["op"] == "matmul" and row.get("us")]
    device = results["machine"]["device"]
    lines = []
    for line in compare_fastest(rows):
        ours = [r for r in select_size(rows, SIZE) if r["rung"] == line["ours"]]
        if line["target"] == "cuda" and line["size"] == str(SIZE[0]) and ours:
            name = f"matrix product, {line['size']}, {line['precision']}"
            speed, ratio = fastest_row(ours)["tflops"], line["ratio"]
            times = f"{speed:.3g} TFLOP/s", f"{speed / ratio:.3g}, cuBLAS"
            lines.append([name, device, *times, f"{ratio:.2f}"])
    return lines


# Ops whose time is that of their memory traffic, not of their arithmetic.
MOVERS = (
    *("reduce", "softmax", "layernorm", "rmsnorm", "scan", "compact", "histogram"),
    *("sort", "topk"),
)


def describe_movers() -> str:
    """Compare our fastest rung of each of MOVERS with PyTorch and CUB."""
    all_results = {op: sentences.load_newest(op, "cuda") for op in MOVERS}
    lines = [_compare_mover(results["rows"]) for results in all_results.values()]
    heads = ["op", "elements", "rung", "time", "PyTorch", "ratio", "CUB", "ratio"]
    machines = {write_machine(one): None for one in all_results.values()}
    days = {one["machine"]["date"]: None for one in all_results.values()}
    return (
        write_table(heads, "lrlrrrrr", lines)
        + "\n\n"
        + fill_lines(
            "A row has the largest size of its op. Of shapes with equal sizes, it has "
            "the squarest. PyTorch is the faster one of eager and compiled. A ratio "
            "above 1 means that ours is faster ("
            f"{'; '.join(machines)}, {min(days)} to {max(days)})."
        )
    )


def _compare_mover(rows: Sequence[Row]) -> list[str]:
    """Return the table cells of an op: our fastest rung, PyTorch and CUB."""
    shape = max(map(_shape_of, rows), key=lambda sizes: (math.prod(sizes), min(sizes)))
    rows = [row for row in rows if _shape_of(row) == shape and row["us"]]
    ours = sentences.fastest_row(rows, "weft")
    cells = [ours["op"], " x ".join(f"{n:,}" for n in shape), ours["rung"]]
    cells.append(write_duration(ours["us"]))
    for peer in ("torch", "cub"):
        times = [row["us"] for row in rows if row["impl"] == peer]
        ratio = f"{min(times) / ours['us']:.2f}" if times else "–"
        cells += [write_duration(min(times)) if times else "–", ratio]
    return cells


def _shape_of(row: Row) -> tuple[int, ...]:
    return (row["rows"], row["cols"]) if row.get("cols") else (row["count"],)


README = ROOT / "README.md"
RESULTS_PAGE = ROOT / "docs" / "results.md"
COMMAND = "python -m weft.benchmarks.readme"
PAGES: dict[Path, dict[str, Callable[[], str]]] = {}
PAGES[README] = {"summary": summarize_results}
PAGES[RESULTS_PAGE] = {
    "race opponent": sentences.describe_opponent,
    "race": sentences.describe_race,
    "cold start": sentences.describe_cold_start,
    "race on a processor": sentences.describe_processor_race,
    "matmul": matmul_table,
    "sustained": sentences.describe_sustained,
    "movers": describe_movers,
    "edit and launch": sentences.describe_edits,
    "counters": sentences.describe_counters,
    "watching": sentences.describe_watching,
    "simulator": sentences.describe_simulator,
    "suite": sentences.describe_suite,
}
PICTURES: dict[str, Callable[[], Figure]] = {
    "matmul_ladder_nvidia_h200": lambda: ladder_plot([], size=str(SIZE[0])),
    "matmul_roofline_nvidia_h200": lambda: plot_roofline([], size=str(SIZE[0])),
    "race_nvidia_h100": lambda: plot_batches(
        [], [sentences.load_newest("race", "cuda")]
    ),
    "race_ladder_nvidia_h100": lambda: plot_ladder(
        [], [sentences.load_newest("race", "cuda")]
    ),
}


def block_marks(name: str) -> tuple[str, str]:
    """Return the lines before and after a block."""
    return f"<!-- {name}: made by {COMMAND} -->", f"<!-- /{name} -->"


def replace_block(text: str, name: str, block: str) -> str:
    """Replace a block between its marks; raise ValueError if a mark is missing."""
    first, last = block_marks(name)
    before, has_begin, remainder = text.partition(first)
    _, has_end, after = remainder.partition(last)
    if not has_begin or not has_end:
        raise ValueError(f"no {first} ... {last} in the text")
    return f"{before}{first}\n{block}\n{last}{after}"


def renew_blocks(text: str, page: Path) -> str:
    """Return the text of a page with all of its blocks updated."""
    for name, make_block in PAGES[page].items():
        text = replace_block(text, name, make_block())
    return text


def write_pages() -> None:
    """Update the pages and the pictures."""
    for page in PAGES:
        page.write_text(renew_blocks(page.read_text(), page))
    for name, draw in PICTURES.items():
        save(draw(), sentences.RESULTS / f"{name}.svg")


if __name__ == "__main__":
    write_pages()
