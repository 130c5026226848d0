"""Draw the diagram of docs/architecture.md: the imports between weft's folders.

`python tests/architecture.py` writes the file.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT / "tests")]

from import_graph import FLOORS, floor_of, imports  # noqa: E402

COMMAND = "python tests/architecture.py"
DIAGRAM = ROOT / "docs" / "architecture.svg"
ROW, LEFT, WIDE = 34, 118, 26  # height of a row, width of the names and of a column
WHAT = {
    "base": "paths, errors, devices, caches, colours",
    "csource": "the one reader of CUDA C",
    "report": "faults and costs, on the lines of a source",
    "toolchain": "compilers, libraries, cache keys",
    "timing": "timers, and the rows of measurements",
    "cells": "CUDA C from a string: load_cuda(), %%cuda",
    "programs": "whole CUDA programs on the CPU",
    "cuda": "the names that Python kernels are written in",
    "pykernel": "simulator, Numba, translation to CUDA C",
    "ops": "kernels/ for torch, checked",
    "check": "the reader's kernel against a reference",
    "see": "machine code, pictures, timelines",
    "mnist": "the CNN, in C, NumPy, Python, PyTorch",
    "tune": "the fastest compile-time constants",
    "puzzles": "what a reader solves",
    "benchmarks": "how fast all of it is",
    "lessons": "the course",
    "commands": "python -m weft COMMAND",
}
STYLE = """\
<style>
text { font: 13px system-ui, sans-serif; fill: #444 }
.name { font-weight: 600; fill: #0072B2 }
circle { fill: #0072B2 }
line { stroke: #999; stroke-width: .6 }
.small { font-size: 11px }
@media (prefers-color-scheme: dark) {
  text { fill: #bbb }
  .name, circle { fill: #56B4E9 }
  line { stroke: #666 }
}
</style>"""


def count_imports() -> Counter[tuple[str, str]]:
    """Count the imports for each (importing folder, imported folder)."""
    pairs = ((floor_of(link.source), floor_of(link.target)) for link in imports())
    return Counter((a, b) for a, b in pairs if a != b and {a, b} <= {*FLOORS})


def draw() -> str:
    """Return the SVG: a row for each folder, a column for each imported folder.

    The upper rows import the lower ones. A dot's area grows with the number of imports.
    """
    counts = count_imports()
    rows = [*reversed(FLOORS)]
    matrix = LEFT + WIDE * len(FLOORS)
    high = ROW * (len(rows) + 1) + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {matrix + 330} {high}" '
        'role="img" aria-label="Which folder imports which">',
        STYLE,
    ]
    for at, folder in enumerate(FLOORS):
        x = LEFT + WIDE * at + WIDE / 2
        parts.append(
            f'<text class="small" transform="translate({x + 4:g} 74) rotate(-60)">'
            f"{folder}</text>"
        )
    for number, folder in enumerate(rows):
        y = 100 + ROW * number
        parts.append(f'<line x1="8" y1="{y + 17}" x2="{matrix + 320}" y2="{y + 17}"/>')
        parts.append(f'<text class="name" x="8" y="{y + 4}">{folder}</text>')
        parts.append(
            f'<text class="small" x="{matrix + 12}" y="{y + 4}">{WHAT[folder]}</text>'
        )
        for at, other in enumerate(FLOORS):
            if number_of := counts[folder, other]:
                radius = min(2 + 0.8 * number_of**0.5, 11)
                x = LEFT + WIDE * at + WIDE / 2
                title = f"{folder} imports {other}: {number_of} times"
                parts.append(
                    f'<circle cx="{x:g}" cy="{y}" r="{radius:.1f}">'
                    f"<title>{title}</title></circle>"
                )
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    DIAGRAM.write_text(draw())
