"""Paths of the package, of its checkout, and of the kernels."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
LIB = PACKAGE.parent  # the PYTHONPATH of child processes
ROOT = next(
    (above for above in PACKAGE.parents if (above / "kernels" / "weft.h").is_file()),
    LIB.parent,
)
KERNELS = ROOT / "kernels"
COMMON = KERNELS / "common"  # headers for ops and cells
SIMT = KERNELS / "simt"  # the runtime of CUDA C on the CPU
RESULTS = ROOT / "notebooks" / "results"
MNIST = PACKAGE / "mnist" / "files"
SITE = "https://weft-lab.github.io/weft"  # the lessons and reports as web pages
GITHUB = "https://github.com/weft-lab/weft"
# The notebooks in Colab, whose links lead to Colab and to the site.
COLAB = (
    "https://colab.research.google.com/github/weft-lab/weft/blob/main/notebooks/colab"
)


def link_notebook(name: str, cell: str = "") -> str:
    """Return the address of a lesson's notebook, for a link in an output.

    cell: the id of a cell. Colab shows outputs without other files, so there the
    address is absolute. JupyterLab finds cells, but not headings, in a notebook that a
    link opens.
    """
    if "COLAB_RELEASE_TAG" in os.environ:
        return f"{COLAB}/{name}" + (f"#scrollTo={cell}" if cell else "")
    return name + (f"#cell-id={cell}" if cell else "")
