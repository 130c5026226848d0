"""README.md's blocks that come from results: `python -m weft.bench.readme`.

Each block is between two marks, <!-- NAME: made by ... --> and <!-- /NAME -->, and one
of BLOCKS writes it from notebooks/results/. A test holds README.md to these blocks and
finds measured numbers outside of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..build import ROOT
from . import sentences
from .matmul.readme import draw_pictures, matmul_table

README = ROOT / "README.md"
COMMAND = "python -m weft.bench.readme"
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
    """Bring the file and the ladder's two pictures up to date."""
    path.write_text(generate(path.read_text()))
    draw_pictures()


if __name__ == "__main__":
    write()
