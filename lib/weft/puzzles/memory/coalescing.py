"""Coalescing: neighbouring threads on neighbouring numbers. A repair."""

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return 2 * a


def stretches(out, a, n, each):
    # Right, but each thread processes a stretch of its own.
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
        "`out` must be twice `a`, and each thread handles `each` numbers; there may be "
        "a block more than needed. This kernel is right, but a "
        "[request](glossary.ipynb#request) of its [warps](glossary.ipynb#warp) touches "
        "many [sectors](glossary.ipynb#sector). Distribute the numbers so that a "
        "request for 32 floats takes 4 sectors."
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
        "In the first iteration of the loop, which numbers do lanes 0, 1 and 2 need? "
        "How far apart are they?",
        "They should be adjacent in every iteration. So where does a thread go after "
        "its first number, if all threads advance together?",
    ],
    better=(
        "On a processor, each core works best on a stretch of its own. On a GPU, the "
        "lanes of a warp should take 32 adjacent numbers in each iteration and advance "
        "together."
    ),
    scored=dict(n=256, each=4, launch=(2, 32)),
    limits={
        "reads.a": lambda n: n,
        "sectors_per_request.a": 4,
        "sectors_per_request.out": 4,
    },
)
