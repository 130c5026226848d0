"""The first code cell of every notebook, and what it runs on Colab and Kaggle.

There a notebook is opened alone: the cell fetches the lab, and this file, which is run
as it is and needs only Python, installs what the machine lacks. Elsewhere nothing is
fetched. A kernel without the lab is the wrong one, so the cell names the right one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
# Into a folder that is not called weft: `import weft` would find it there, empty.
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
    """Whether a cell fetches the lab."""
    return cell.cell_type == "code" and GITHUB in cell.source


def main() -> None:
    """Make the lab ready in this Python, and go to the folder of its notebooks."""
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
