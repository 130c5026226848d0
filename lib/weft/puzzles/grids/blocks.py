"""Blocks: an index from the numbers of block and thread."""

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
    return a - b


def subtract_blocks(out, a, b, n):
    """out (n) = a (n) - b (n), by many blocks. Three lines."""
    ### BEGIN SOLUTION
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]
    ### END SOLUTION


puzzle = Puzzle(
    title="Blocks",
    text=(
        "Subtract `b` from `a` element by element, now with many blocks of a few "
        "threads each. Together the blocks have a thread for each of the `n` elements, "
        "and often more."
    ),
    spec=spec,
    answer=subtract_blocks,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "b": "n"},
        sizes=every_size([1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 97], 1009),
        launch=[
            lambda n: (divide_up(n, 4), 4),
            lambda n: (divide_up(n, 3) + 1, 3),
            lambda n: (divide_up(n, 32), 32),
        ],
    ),
    drawn=dict(n=9),
    launch=(3, 4),
    hints=[
        "In each block there is a thread 0. Which number should that of block 1 take, "
        "if a block has four threads?",
        "`cuda.blockIdx.x` is the number of the block, and `cuda.blockDim.x` is the "
        "number of threads in each block. How many threads do the blocks before this "
        "one have?",
        "3 blocks of 4 threads are 12 threads, for 9 numbers: what should the last "
        "three do?",
    ],
    better="Each element is computed once, by its own thread: two reads and one write.",
    scored=dict(n=16, launch=(2, 8)),
    limits={
        "writes.out": lambda n: 2 * n,  # not all of them by each thread
        "rounds.out": 3,  # nor all by one
    },
)
