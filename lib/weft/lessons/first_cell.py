"""The first code cell of every notebook, and its program for Colab and Kaggle.

Colab and Kaggle open a notebook without the lab. There, the cell fetches the lab and
runs this file, which requires only Python and installs the missing packages. Elsewhere,
a notebook kernel without the lab is the wrong one, and the cell names the right one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# The folder is not called weft, since `import weft` would then import the folder.
# IPython shows a UsageError as one line.
GITHUB = "https://github.com/weft-lab/weft"
FIRST = f"""\
import importlib.util, os, IPython
if not importlib.util.find_spec("weft"):  # this kernel has no lab
    if not {{"COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"}} & {{*os.environ}}:
        raise IPython.core.error.UsageError("choose the kernel Weft, which `make` adds")
    !test -d lab || git clone --depth 1 {GITHUB} lab
    %run lab/lib/weft/lessons/first_cell.py"""


def is_first(cell: Any) -> bool:
    """Return whether a cell fetches the lab."""
    return cell.cell_type == "code" and GITHUB in cell.source


def main() -> None:
    """Install the lab in this Python, and change to the folder of its notebooks."""
    print("Weft: installing what this machine lacks. This takes a few minutes.")
    command = [sys.executable, "-u", str(ROOT / "lib/weft/commands/environment.py")]
    with subprocess.Popen(
        command,
        env=os.environ | {"PYTHON": sys.executable},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "already satisfied" not in line:
                print(line, end="", flush=True)
    if running.returncode:
        print("Weft: this did not work. Run this cell again.", file=sys.stderr)
        return
    os.chdir(ROOT / "notebooks")
    sys.path[:0] = [str(ROOT / "lib"), str(ROOT)]
    print("Weft: ready.")


if __name__ == "__main__":
    main()
