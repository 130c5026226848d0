"""Zip: two inputs, element by element."""

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
    return a + b


def add_pairs(out, a, b):
    """out (n) = a (n) + b (n). One line."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    out[i] = a[i] + b[i]
    ### END SOLUTION


puzzle = Puzzle(
    title="Zip",
    text=(
        "Add `a` and `b` element by element and store the sums in `out`. There is one "
        "block, with a thread for each element."
    ),
    spec=spec,
    answer=add_pairs,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "b": "n"},
        sizes=every_size([1, 2, 3, 4, 7, 31, 32, 33, 100], 1000),
        launch=[lambda n: (1, n)],
    ),
    drawn=dict(n=4),
    launch=(1, 4),
    hints=[
        "Which number of `a`, and which of `b`, does thread 2 need? Where does its "
        "result go?",
        "This is the previous puzzle with a second array in place of the 10.",
    ],
    better=(
        "Each thread needs two reads and one write. Keep a result that takes several "
        "steps in a local variable, and store it once."
    ),
    limits={
        "writes.out": lambda n: 2 * n,  # not all of them by each thread
        "rounds.out": 3,  # nor all by one: a store and then `+=` are three
    },
)
