"""README.md's blocks that come from results: `python -m weft.benchmarks.readme`.

Each block is between two marks, <!-- NAME: made by ... --> and <!-- /NAME -->, and one
of BLOCKS writes it from notebooks/results/. A test holds README.md to these blocks and
finds measured numbers outside of them. The command also draws PICTURES beside the
results.
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
from .matmul.roofline import roofline
from .race.plot_batches import plot_batches
from .race.plot_ladder import plot_ladder

README = ROOT / "README.md"
COMMAND = "python -m weft.benchmarks.readme"
BLOCKS: dict[str, Callable[[], str]] = {
    "race opponent": sentences.race_opponent,
    "race": sentences.race,
    "cold start": sentences.cold_start,
    "race on a processor": sentences.processor_race,
    "matmul": matmul_table,
    "edit and launch": sentences.edit_and_launch,
    "counters": sentences.counters,
    "watching": sentences.watching,
    "simulator": sentences.simulator,
}
PICTURES: dict[str, Callable[[], Figure]] = {
    "matmul_ladder_nvidia_h200": lambda: ladder_plot([], size=str(SIZE[0])),
    "matmul_roofline_nvidia_h200": lambda: roofline([], size=str(SIZE[0])),
    "race_nvidia_h200": lambda: plot_batches([], [sentences.newest("race", "cuda")]),
    "race_ladder_nvidia_h200": lambda: plot_ladder(
        [], [sentences.newest("race", "cuda")]
    ),
}


def marks(name: str) -> tuple[str, str]:
    """The lines before and after a block."""
    return f"<!-- {name}: made by {COMMAND} -->", f"<!-- /{name} -->"


def replace_block(text: str, name: str, block: str) -> str:
    """The text with this block between its marks; ValueError without them."""
    begin, end = marks(name)
    before, has_begin, rest = text.partition(begin)
    _, has_end, after = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"no {begin} ... {end} in the text")
    return f"{before}{begin}\n{block}\n{end}{after}"


def generate(text: str) -> str:
    """README's text with every block up to date."""
    for name, make_block in BLOCKS.items():
        text = replace_block(text, name, make_block())
    return text


def write(path: Path = README) -> None:
    """Bring the file and the pictures up to date."""
    path.write_text(generate(path.read_text()))
    for name, draw in PICTURES.items():
        save(draw(), sentences.RESULTS / f"{name}.svg")


if __name__ == "__main__":
    write()
