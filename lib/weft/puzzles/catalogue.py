"""List the puzzles in groups, and make their stubs for the reader.

make_stub() removes the answer from an exercise or puzzle. The answer is between two
marks, in Python and in C:

    def double(x):                          /* y = 2 x. Two lines. */
        \"\"\"2 x. One line.\"\"\"                __global__ void twice(float *y) {
        ### BEGIN SOLUTION                      // BEGIN SOLUTION
        return 2 * x                            y[threadIdx.x] *= 2;
        ### END SOLUTION                        // END SOLUTION
                                            }
"""

from __future__ import annotations

import difflib
import importlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from .puzzle import Puzzle


HIDDEN = re.compile(
    r"^(?P<indent> *)(?:###|//) BEGIN SOLUTION\n(?P<answer>.*?)"
    r"^ *(?:###|//) END SOLUTION(?:\n|\Z)",
    re.MULTILINE | re.DOTALL,
)


# Tags of cells with answers that test an exercise's check.
WITHHELD = frozenset({"mistakes", "spellings"})


class LessonError(Exception):
    """An error in the source of a lesson; the message names its place and cause."""


def make_stub(answer: str) -> str:
    """Return an answer's stub; raise LessonError if the two marks are missing."""
    if HIDDEN.search(answer) is None:
        raise LessonError(f"no BEGIN and END SOLUTION in:\n{answer}")
    if answer.startswith("%%cuda"):
        placeholder = r"\g<indent>// not solved yet\n"
    elif answer.startswith("%%"):
        placeholder = "#error not solved yet\n"
    else:
        placeholder = r"\g<indent>raise NotImplementedError\n"
    return HIDDEN.sub(placeholder, answer).rstrip("\n")


def is_withheld(cell: NotebookNode) -> bool:
    """Return whether the reader's notebook leaves out a cell of the source."""
    return not WITHHELD.isdisjoint(cell.metadata.get("tags", []))


def remove_marks(answer: str) -> str:
    """Return an answer without its two marks, as readers would write it."""
    return HIDDEN.sub(r"\g<answer>", answer).rstrip("\n")


GROUPS = {
    "threads": ("map", "zip", "guards", "map2d", "broadcast"),
    "grids": (
        *("blocks", "blocks2d", "grid_stride"),
        *("image_filter_numpy", "image_filter"),
    ),
    "tiles": ("shared", "pooling", "conv1d"),
    "counting": ("divergence", "matmul_nt", "matmul_budget"),
    "sums": ("dot", "prefix_sum", "axis_sum", "argmax", "softmax"),
    "memory": ("coalescing", "transpose", "fusion", "quantise"),
    "execution": (
        *("warp_sum", "histogram", "histogram_private"),
        *("scan_blocks", "scan_add", "compact"),
    ),
    "bandwidth": ("wide_loads", "last_block", "same_bits"),
    "rows": ("merge_softmax", "warp_a_row", "top_two"),
    "scan": ("stable_compaction", "the_hang", "segmented_scan"),
    "sort": ("aggregated_atomics", "stable_partition", "order_of_floats"),
}

# For each group, the lesson that teaches its prerequisites and contains its puzzles.
LESSONS = {
    "threads": "01a_kernels_in_python.ipynb",
    "grids": "01b_warps.ipynb",
    "tiles": "02a_shared_memory.ipynb",
    "counting": "02b_counting.ipynb",
    "sums": "02c_sums.ipynb",
    "memory": "07a_memory.ipynb",
    "execution": "07b_execution.ipynb",
    "bandwidth": "09a_bytes.ipynb",
    "rows": "09b_rows.ipynb",
    "scan": "09c_scan.ipynb",
    "sort": "09d_sort.ipynb",
}


def number_of(notebook: str) -> str:
    """Return a notebook's number, such as "01a" of 01a_kernels_in_python.ipynb."""
    return notebook.partition("_")[0]


GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


def load(name: str) -> Puzzle:
    """Return the puzzle of this name; raise KeyError if there is none."""
    if name not in GROUP_OF:
        raise KeyError(describe_unknown(name))
    group = importlib.import_module(f".{GROUP_OF[name]}", __package__)
    return getattr(group, name.upper())


def describe_unknown(name: str) -> str:
    """Return the error message for a name that is not a puzzle."""
    near = difflib.get_close_matches(name, GROUP_OF, 1)
    meant = f" (is it {near[0]}?)" if near else ""
    return f"no puzzle {name!r}{meant}; there are {', '.join(GROUP_OF)}"
