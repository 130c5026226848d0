"""Blocks of README.md and docs/results.md: `python -m weft.benchmarks.readme`.

Each block is between two marks, <!-- NAME: made by ... --> and <!-- /NAME -->, and one
of PAGES' functions writes it from notebooks/results/. A test holds both files to these
blocks and finds measured numbers outside of them. The command also draws PICTURES
beside the results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from ..base.paths import ROOT
from ..base.style import save
from . import sentences
from .matmul.plot import ladder_plot
from .matmul.readme import SIZE, matmul_table
from .matmul.roofline import plot_roofline
from .race.plot_batches import plot_batches
from .race.plot_ladder import plot_ladder
from .summary import summarize_results

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
    "edit and launch": sentences.describe_edits,
    "counters": sentences.describe_counters,
    "watching": sentences.describe_watching,
    "simulator": sentences.describe_simulator,
}
PICTURES: dict[str, Callable[[], Figure]] = {
    "matmul_ladder_nvidia_h200": lambda: ladder_plot([], size=str(SIZE[0])),
    "matmul_roofline_nvidia_h200": lambda: plot_roofline([], size=str(SIZE[0])),
    "race_nvidia_h200": lambda: plot_batches(
        [], [sentences.load_newest("race", "cuda")]
    ),
    "race_ladder_nvidia_h200": lambda: plot_ladder(
        [], [sentences.load_newest("race", "cuda")]
    ),
}


def block_marks(name: str) -> tuple[str, str]:
    """The lines before and after a block."""
    return f"<!-- {name}: made by {COMMAND} -->", f"<!-- /{name} -->"


def replace_block(text: str, name: str, block: str) -> str:
    """The text with this block between its marks; ValueError without them."""
    begin, end = block_marks(name)
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"no {begin} ... {end} in the text")
    return f"{before}{begin}\n{block}\n{end}{after}"


def renew_blocks(text: str, page: Path) -> str:
    """Return the text of a page with each of its blocks up to date."""
    for name, make_block in PAGES[page].items():
        text = replace_block(text, name, make_block())
    return text


def write_pages() -> None:
    """Bring the pages and the pictures up to date."""
    for page in PAGES:
        page.write_text(renew_blocks(page.read_text(), page))
    for name, draw in PICTURES.items():
        save(draw(), sentences.RESULTS / f"{name}.svg")


if __name__ == "__main__":
    write_pages()
