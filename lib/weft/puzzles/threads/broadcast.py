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
    text="`a` is a column of `height` numbers, `b` a row of `width`. Each place of "
    "`out` takes [the sum of the two](glossary.ipynb#broadcast) that are in its row "
    "and its column; the one block has threads to spare.",
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
        "All of a row of `out` uses the same number of `a`. What do the places of a "
        "column share?",
        "`a` and `b` lie flat in memory, and each has one direction only. So one index "
        "is enough for `a`, and another one for `b`.",
        "The guard, and the place in `out`, are those of the puzzle before.",
    ],
    better="Two reads and one write for each place: one number of `a`, one of `b`.",
    limits={
        "writes.out": lambda height, width: 2 * height * width,
        "rounds.out": 3,
    },
)
