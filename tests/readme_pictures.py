"""README's other pictures: a puzzle's goal, a fault, and the cloth of a solved group.

python tests/readme_pictures.py draws all of them and writes docs/NAME.svg.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT)]

import numpy as np  # noqa: E402

from weft import cuda, show  # noqa: E402
from weft.base.style import set_ground  # noqa: E402
from weft.puzzles import GROUPS, load  # noqa: E402
from weft.puzzles.progress import weave_gamp  # noqa: E402

COMMAND = "python tests/readme_pictures.py"


KERNEL = """\
def scale(y, x, n):
    i = cuda.grid(1)
    if i <= n:
        y[i] = x[i] * float32(0.5)
"""


def draw_goal() -> str:
    """Draw the goal of a puzzle, with the inputs of one element."""
    return load("conv1d").goal().svg()


def draw_fault() -> str:
    """Draw a launch of README's kernel with a wrong comparison."""
    y, x = np.zeros((2, 20), np.float32)
    # As in a notebook, lines are counted from the kernel's cell.
    linecache.cache["cell"] = len(KERNEL), None, KERNEL.splitlines(True), "cell"
    names = {"cuda": cuda, "float32": np.float32}
    exec(compile(KERNEL, "cell", "exec"), names)
    return show(names["scale"])[1, 24](y, x, 20).svg()


def draw_silk() -> str:
    """Draw the cloth that the reader gets for the first group of puzzles."""
    return weave_gamp(GROUPS["threads"]).svg()


PICTURES = {"goal": draw_goal, "fault": draw_fault, "silk": draw_silk}


def draw(name: str) -> str:
    """Return the SVG of a picture; every picture but the silk gets a background."""
    svg = PICTURES[name]()
    return (svg if name == "silk" else set_ground(svg)) + "\n"


def find(name: str) -> Path:
    """Return the path of a picture."""
    return ROOT / "docs" / f"{name}.svg"


if __name__ == "__main__":
    for name in PICTURES:
        find(name).write_text(draw(name), encoding="utf-8")
