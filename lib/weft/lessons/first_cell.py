"""The first code cell of every notebook.

Colab and Kaggle open a notebook without the lab. There, the cell downloads the lab and
calls prepare_notebook() of commands/environment.py. Elsewhere, a notebook kernel
without the lab is the wrong one, and the cell names the right one.

The cell downloads the version to which its notebook belongs, so that a copy of the
notebook continues to work. RELEASE records the version. It is a tag, or a commit before
the notebook's own, since a notebook cannot contain the name of its own commit.
"""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # older notebooks run this file
    script = Path(__file__).parents[1] / "commands" / "environment.py"
    runpy.run_path(str(script))["prepare_notebook"]()
    raise SystemExit

from ..base.paths import GITHUB, ROOT
from ..puzzles.catalogue import LessonError

RELEASE = ROOT / "notebooks" / "sources" / "release.txt"
SCRIPT = "lib/weft/commands/environment.py"
NO_DOWNLOAD = (
    "Weft: no download. On Kaggle, turn on Settings > Internet. Run this cell again."
)
NO_LAB = (
    "this kernel has no lab: choose the kernel Weft. If there is none, run in a "
    f"terminal: git clone {GITHUB} && make -C weft"
)


def read_release() -> str:
    """Return the tag or the commit that the first cell downloads."""
    return RELEASE.read_text(encoding="utf-8").strip()


def name_release(ref: str) -> str:
    """Return the name by which GitHub offers a version: a tag, or a commit's full name.

    Raises LessonError if git does not find `ref`, or if `ref` is not an ancestor of
    HEAD.
    """
    is_tag = not _run_git("show-ref", "--verify", "--quiet", f"refs/tags/{ref}")[0]
    failed, commit = _run_git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    if failed:
        raise LessonError(f"git finds no tag or commit {ref!r}")
    if _run_git("merge-base", "--is-ancestor", commit, "HEAD")[0]:
        raise LessonError(f"{ref} is not in the history of the current commit")
    return ref if is_tag else commit


def _run_git(*words: str) -> tuple[int, str]:
    """Run git in the checkout; return its exit status and its output."""
    process = subprocess.run(
        ["git", "-C", str(ROOT), *words], text=True, capture_output=True
    )
    return process.returncode, process.stdout.strip()


def write_cell(release: str) -> str:
    """Return the cell that downloads a release, a tag or a commit, on Colab and Kaggle.

    The cell can be interrupted anywhere and run again: the folder gets its name only
    after everything in it is complete. IPython shows a UsageError as one line.
    """
    # Python would import a folder called weft instead of the package.
    folder = f"weft-{release[:12]}"
    download = (
        "rm -rf weft-part; mkdir weft-part"
        f" && curl -fsSL {GITHUB}/archive/{release}.tar.gz -o weft.tgz"
        " && tar xzf weft.tgz -C weft-part --strip-components 1"
        f" && mv weft-part {folder}"
    )
    error = f'IPython.core.error.UsageError("{NO_LAB}")'
    script = f'os.path.expanduser("~/{folder}/{SCRIPT}")'
    return f"""\
import importlib.util, os, runpy, IPython  # On Colab and Kaggle, this cell gets the lab
if {{"COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"}} & {{*os.environ}}:
    !cd; test -d {folder} || ({download}) || echo "{NO_DOWNLOAD}"
    runpy.run_path({script})["prepare_notebook"]()
elif not importlib.util.find_spec("weft"): raise {error}"""


FIRST = write_cell(read_release())


def is_first(cell: Any) -> bool:
    """Return whether a cell fetches the lab."""
    return cell.cell_type == "code" and GITHUB in cell.source
