"""Axis sum: a block for each row."""

from numpy import float32

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a.sum(axis=1)


def sum_rows(out, a, cols):
    """out[row] = the sum of row `row` of a. Blocks of 8. About eleven lines."""
    s = cuda.shared.array(8, float32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    acc = a[row * cols + col] if col < cols else float32(0)
    s[col] = acc
    half = 4
    while half > 0:
        cuda.syncthreads()
        if col < half:
            acc += s[col + half]
            s[col] = acc
        half //= 2
    if col == 0:
        out[row] = acc
    ### END SOLUTION


puzzle = Puzzle(
    title="Axis sum",
    text=(
        "`a` has `rows` rows of `cols` numbers, and `out[row]` is the sum of row "
        "`row`. Each row has a block of 8 threads, and `cols` is at most 8."
    ),
    spec=spec,
    answer=sum_rows,
    checks=dict(
        outputs={"out": "rows"},
        inputs={"a": ("rows", "cols")},
        sizes=every_size(
            [
                dict(rows=r, cols=c)
                for r, c in [(4, 6), (1, 1), (3, 8), (8, 3), (5, 1), (1, 5), (2, 7)]
            ],
            most=(16, 8),
        ),
        launch=lambda rows: (rows, 8),
        terms=8,
    ),
    drawn=dict(rows=4, cols=6),
    launch=(4, 8),
    scored=dict(rows=4, cols=8),
    hints=[
        "This is the previous puzzle, but each block's numbers begin elsewhere, and "
        "there are `cols` of them. At which index of the flat array does row 1 begin?",
        "A thread without a number (`col` not below `cols`) contributes a zero. The "
        "next row begins right after the end of a row, so a read there would not be "
        "reported as an error.",
    ],
    better=(
        "Each number is read once. 8 numbers take three rounds, with a barrier before "
        "each. A thread keeps its sum in a variable, and others read it in `s`."
    ),
    limits={"reads.a": lambda rows, cols: rows * cols, "lanes.a": 8},
)
