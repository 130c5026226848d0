"""Broadcast: a column and a row make a table."""

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
    return a + b  # a has one column, b one row


def add_outer(out, a, b, height, width):
    """out (height,width) = a (height,1) + b (1,width). About two lines."""
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    ### BEGIN SOLUTION
    if row < height and col < width:
        out[row * width + col] = a[row] + b[col]
    ### END SOLUTION


puzzle = Puzzle(
    title="Broadcast",
    text=(
        "`a` is a column of `height` numbers, `b` a row of `width` numbers. Each "
        "element of `out` is [the sum of the two](glossary.ipynb#broadcast) numbers in "
        "its row and its column. The one block has more threads than needed."
    ),
    spec=spec,
    answer=add_outer,
    checks=dict(
        outputs={"out": ("height", "width")},
        inputs={"a": ("height", 1), "b": (1, "width")},
        sizes=every_size(
            [(1, 1), (2, 2), (1, 5), (5, 1), (3, 4), (4, 3), (7, 11), (13, 6)], (25, 30)
        ),
        launch=[
            lambda height, width: (1, (width + 1, height + 1)),
            lambda height, width: (1, (width + 3, height)),
            lambda height, width: (1, (width, height + 2)),
        ],
    ),
    drawn=dict(height=2, width=2),
    launch=(1, (3, 3)),
    hints=[
        "All elements in a row of `out` use the same number of `a`. What do the "
        "elements in a column share?",
        "`a` and `b` are flat, and each has one dimension only. So one index is enough "
        "for `a`, and another one for `b`.",
        "The guard, and the index in `out`, are those of the previous puzzle.",
    ],
    better="Two reads and one write for each element: one number of `a`, one of `b`.",
    limits={
        "writes.out": lambda height, width: 2 * height * width,
        "rounds.out": 3,
    },
)
