"""Which puzzles there are, in groups, and the lesson of each group."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .puzzle import Puzzle

GROUPS = {
    "threads": ("map", "zip", "guards", "map2d", "broadcast"),
    "grids": (
        "blocks",
        "blocks2d",
        "grid_stride",
        "image_filter_numpy",
        "image_filter",
    ),
    "tiles": ("shared", "pooling", "conv1d"),
    "counting": ("divergence", "matmul_nt", "matmul_budget"),
    "sums": ("dot", "prefix_sum", "axis_sum", "argmax", "softmax"),
    "memory": ("coalescing", "transpose", "fusion", "quantise"),
    "execution": (
        *("warp_sum", "histogram", "histogram_private"),
        *("scan_blocks", "scan_add", "compact"),
    ),
}

LESSONS = {  # the lesson that teaches what a group needs, and has its puzzles
    "threads": "01a_kernels_in_python.ipynb",
    "grids": "01b_warps.ipynb",
    "tiles": "02a_shared_memory.ipynb",
    "counting": "02b_counting.ipynb",
    "sums": "02c_sums.ipynb",
    "memory": "07a_memory.ipynb",
    "execution": "07b_execution.ipynb",
}


def number_of(notebook: str) -> str:
    """01a, of 01a_kernels_in_python.ipynb."""
    return notebook.partition("_")[0]


GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


def load(name: str) -> Puzzle:
    """The puzzle of this name; KeyError with the names there are."""
    if name not in GROUP_OF:
        raise KeyError(describe_unknown(name))
    return importlib.import_module(f".{GROUP_OF[name]}.{name}", __package__).puzzle


def describe_unknown(name: str) -> str:
    """Return the message for a name that no puzzle has."""
    near = difflib.get_close_matches(name, GROUP_OF, 1)
    meant = f" (is it {near[0]}?)" if near else ""
    return f"no puzzle {name!r}{meant}; there are {', '.join(GROUP_OF)}"
