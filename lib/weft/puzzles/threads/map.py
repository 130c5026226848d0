"""Map: each thread handles one number."""

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a + 10


def add_ten(out, a):
    """out (n) = a (n) + 10. One line."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    out[i] = a[i] + 10
    ### END SOLUTION


puzzle = Puzzle(
    title="Map",
    text="Add 10 to [each number](glossary.ipynb#map) of `a` and store the result in "
    "`out`. There is one [block](glossary.ipynb#block), with a "
    "[thread](glossary.ipynb#thread) for each number.",
    spec=spec,
    answer=add_ten,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([1, 2, 3, 4, 7, 31, 32, 33, 100], 1000),
        launch=[lambda n: (1, n)],
    ),
    drawn=dict(n=4),
    launch=(1, 4),
    hints=[
        "All four threads run the same line. Only `i` differs from one to the next: 0, "
        "1, 2 and 3.",
        "No loop is needed: the threads replace the loop. Each reads one number and "
        "stores one at the same place.",
    ],
    better="A thread needs one read and one write, since it handles one number only.",
    limits={
        "writes.out": lambda n: 2 * n,  # not all of them by each thread
        "rounds.out": 3,  # nor all by one: a store and then `+=` are three
    },
)
