"""Grid stride: fewer threads than numbers."""

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a * a


def square_all(out, a, n):
    """out (n): the squares of a (n). Four or five lines."""
    ### BEGIN SOLUTION
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    threads = cuda.gridDim.x * cuda.blockDim.x
    for i in range(first, n, threads):
        number = a[i]
        out[i] = number * number
    ### END SOLUTION


puzzle = Puzzle(
    title="Grid stride",
    text=(
        "Square each of the `n` numbers of `a`. However large `n` is, there are only a "
        "few threads in a few blocks. They share the numbers evenly, and each number "
        "is processed once."
    ),
    spec=spec,
    answer=square_all,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([1, 2, 3, 5, 6, 7, 12, 15, 31, 100], 1009),
        launch=[
            lambda n: (2, 3),
            lambda n: (3, 2),
            lambda n: (1, 5),
            lambda n: (4, 1),
            lambda n: (2, 32),
        ],
    ),
    drawn=dict(n=15),
    launch=(2, 3),
    hints=[
        "Two blocks of three threads are six threads in all. Let thread 0 of block 0 "
        "take the numbers 0, 6 and 12. Which ones should its neighbor take?",
        "A thread begins at the number that it would have if there were enough "
        "threads. Its step is the number of threads in the whole grid.",
        "`cuda.gridDim.x` is the number of blocks. `range` takes a start, an end and a "
        "step. With `n` as its end, no other guard is needed.",
    ],
    better=(
        "In each round adjacent threads take adjacent numbers. A number that is used "
        "twice is read once, into a local variable."
    ),
    limits={
        "writes.out": lambda n: n,  # two threads per number are twice the work
        "rounds.out": lambda n, threads: divide_up(
            n, threads
        ),  # the same for all threads
    },
)
