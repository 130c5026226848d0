"""An image filter, first in NumPy."""

import sys

import numpy as np

from ...base.errors import Mismatch
from ..puzzle import Puzzle
from ..sizes import every_size

SMALL, LARGE = (4, 5), (16, 20)  # pictures whose Python steps are counted


def spec(x):
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")  # repeats every border pixel outside
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
    """The number of Python instructions of a call, including those of NumPy."""
    count = 0

    def watch(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return watch

    function(*args)  # one-time work is not counted
    before = sys.gettrace()
    sys.settrace(watch)
    try:
        function(*args)
    finally:
        sys.settrace(before)
    return count


puzzle = WholePictures(
    title="Image filter in NumPy",
    text=(
        "[Blur](glossary.ipynb#filter) a picture: each pixel becomes the mean of the "
        "3x3 pixels around it. Beyond the border, the nearest pixel counts again. "
        "Write a NumPy function, not yet a kernel: it adds whole pictures and has no "
        "loop over pixels."
    ),
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
        "Which picture contains every pixel's right-hand neighbor? It is `x` itself, "
        "shifted one column to the left.",
        "A mean of 3x3 pixels needs nine such pictures, shifted by -1, 0 or 1 in both "
        "directions; the middle one is `x`.",
        "A picture that is one pixel larger on every side contains all nine as slices "
        'of `height` rows and `width` columns. `np.pad` with `mode="edge"` creates it.',
    ],
    better="Nine slices of one padded picture, and a sum.",
)
