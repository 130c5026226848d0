"""Coalescing: neighbouring threads on neighbouring numbers. A repair."""

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return 2 * a


def stretches(out, a, n, each):
    # Right, but each thread walks along a stretch of its own.
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, n)):
        out[i] = 2 * a[i]


def side_by_side(out, a, n, each):
    ### BEGIN SOLUTION
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = 2 * a[i]
    ### END SOLUTION


puzzle = Puzzle(
    title="Coalescing",
    text=(
        "`out` is to be twice `a`, and each thread has `each` numbers to do. This "
        "kernel is right, but a [request](glossary.ipynb#request) of its "
        "[warps](glossary.ipynb#warp) touches many [sectors](glossary.ipynb#sector). "
        "Share the numbers out so that a request for 32 floats takes 4, "
        "also where there is a block to spare."
    ),
    spec=spec,
    answer=side_by_side,
    start=stretches,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        terms=0,  # twice a float is a float
        launch=[
            lambda n, each: (divide_up(n, 32 * each), 32),
            lambda n, each: (divide_up(n, 64 * each), 64),
            lambda n, each: (divide_up(n, 32 * each) + 1, 32),
        ],
        sizes=every_size(
            [
                *[(1, 4), (2, 1), (3, 4), (31, 2), (32, 4), (33, 4)],
                *[(127, 4), (128, 3), (129, 4), (160, 6), (509, 4)],
            ],
            (1009, 5),
            most=(16, 8),
        ),
    ),
    drawn=dict(n=128, each=4),
    launch=(1, 32),
    hints=[
        "In the first turn of the loop, which numbers do lanes 0, 1 and 2 want? How "
        "far apart do they lie?",
        "They should be next to each other, in every turn. So where does a thread go "
        "after its first number, if all move on together?",
    ],
    better=(
        "A core of a processor likes a stretch of its own; the lanes of a warp like to "
        "stand side by side and move on together, with 32 neighbours in each turn."
    ),
    scored=dict(n=256, each=4, launch=(2, 32)),
    limits={
        "reads.a": lambda n: n,
        "sectors_per_request.a": 4,
        "sectors_per_request.out": 4,
    },
)
