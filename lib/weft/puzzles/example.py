"""The puzzle that lesson 03 uses as its example; it is in no group."""

from weft import cuda

from .puzzle import Puzzle


def spec(a):
    return -a


def negate(out, a):
    """out (n) = -a (n). One line."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    out[i] = -a[i]
    ### END SOLUTION


puzzle = Puzzle(
    name="example",
    title="Negate",
    text=(
        "Store each number of `a` in `out` with the opposite sign. There is one block, "
        "with a thread for each number."
    ),
    spec=spec,
    answer=negate,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=[1, 2, 3, 4, 7, 31, 32, 33],
        launch=[lambda n: (1, n)],
    ),
    drawn=dict(n=4),
    launch=(1, 4),
    hints=[
        "Every thread runs the same line, each with a different `i`.",
        "It reads one number and stores one at the same place.",
    ],
    better="One read and one write for each thread.",
)
