"""Guards: more threads than numbers."""

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a / 2


def halve_guarded(out, a, n):
    """out (n) = a (n) / 2. Two lines."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    if i < n:
        out[i] = a[i] / 2
    ### END SOLUTION


puzzle = Puzzle(
    title="Guards",
    text=(
        "Halve each of the `n` numbers of `a`. This time the block has more threads "
        "than there are numbers. The extra threads must not touch the arrays."
    ),
    spec=spec,
    answer=halve_guarded,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([1, 2, 3, 4, 7, 31, 32, 33], 1000),
        launch=[
            lambda n: (1, n + 4),
            lambda n: (1, n + 1),
            lambda n: (1, max(n, 64)),
            lambda n: (1, n),
        ],
    ),
    drawn=dict(n=4),
    launch=(1, 8),
    hints=[
        "Thread 5 has `i` = 5. Is there a number 5 in `a`?",
        "Let a thread compare its `i` with `n` before it accesses anything. The last "
        "number of `a` is number `n` - 1.",
    ],
    better="Only the threads that have a number read and write, once each.",
    scored=dict(n=4, launch=(1, 16)),
    limits={
        "writes.out": lambda n: 2 * n,  # no thread repeats another one's work
        "rounds.out": 3,  # nor does one do all: a store and then `+=` are three
    },
)
