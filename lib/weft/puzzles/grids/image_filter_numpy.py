"""An image filter, first in NumPy."""

import sys

import numpy as np

from ...base.errors import Mismatch
from ..puzzle import Puzzle
from ..sizes import every_size

SMALL, LARGE = (4, 5), (16, 20)  # pictures whose Python steps are counted


def spec(x):
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")  # every border pixel once more, outside of it
    means = [around[r : r + 3, c : c + 3].mean() for r, c in np.ndindex(x.shape)]
    return np.reshape(means, (height, width))


def blur_numpy(x):
    """The mean around each pixel of x; no loop over pixels. Four lines."""
    ### BEGIN SOLUTION
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")
    moved = [around[r : r + height, c : c + width] for r, c in np.ndindex(3, 3)]
    return sum(moved) / 9
    ### END SOLUTION


class WholePictures(Puzzle):
    """A puzzle whose answer may not loop over the pixels, as its reference does."""

    def _checked(self, given, device):
        verdict = super()._checked(given, device)
        few, many = (steps(given.subject, np.ones(shape)) for shape in (SMALL, LARGE))
        pixels = np.prod(LARGE) - np.prod(SMALL)
        if many - few > 4 * pixels:  # a loop over the rows has less
            raise Mismatch(
                f"{given.name}: the numbers are right, but it takes {few} steps of "
                f"Python for a picture of {SMALL[0]}x{SMALL[1]} and {many} for one of "
                f"{LARGE[0]}x{LARGE[1]}: it loops over the pixels. Here NumPy shall do "
                f"that, in operations on whole pictures",
                kind="limit",
            )
        return verdict


def steps(function, *args):
    """How many instructions of Python a call takes, those of NumPy's own included."""
    count = 0

    def watch(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return watch

    function(*args)  # what happens only once is not counted
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return count


puzzle = WholePictures(
    title="Image filter in NumPy",
    text="[Blur](glossary.ipynb#filter) a picture: each pixel becomes the mean of the "
    "3x3 pixels around it, and beyond the border the nearest pixel counts once more. "
    "A function of NumPy, no kernel yet: no loop over pixels, but sums of whole "
    "pictures.",
    spec=spec,
    answer=blur_numpy,
    checks=dict(
        inputs={"x": ("height", "width")},
        sizes=every_size([(1, 1), (1, 4), (5, 1), (2, 2), (5, 6), (7, 3)], (31, 43)),
        terms=20,
    ),
    drawn=dict(height=5, width=6),
    launch=None,
    hints=[
        "What is the picture of all the neighbours on the right? It is `x` itself, "
        "moved one column to the left.",
        "A mean of 3x3 pixels takes nine such pictures, each moved by another "
        "-1, 0 or 1 in both directions, and the middle one is `x`.",
        "A picture that is one pixel larger on every side has all nine as slices of "
        '`height` rows and `width` columns. `np.pad` with `mode="edge"` makes it.',
    ],
    better="Nine slices of one padded picture, and a sum.",
)
