"""Blocks: a number from the block's and the thread's."""

from weft import cuda

from ...check.cases import cdiv
from ..puzzle import Puzzle


def spec(a):
    return a + 10


def add_ten_blocks(out, a, n):
    """out (n) = a (n) + 10, by many blocks. Three lines."""
    ### BEGIN SOLUTION
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10
    ### END SOLUTION


puzzle = Puzzle(
    title="Blocks",
    text="Add 10 to each of the `n` numbers of `a`, now by blocks of a few threads "
    "each. Together they have threads enough, and often a few too many.",
    spec=spec,
    answer=add_ten_blocks,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=[1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 97],
        launch=[
            lambda n: (cdiv(n, 4), 4),
            lambda n: (cdiv(n, 3) + 1, 3),
            lambda n: (cdiv(n, 32), 32),
        ],
    ),
    drawn=dict(n=9),
    launch=(3, 4),
    hints=[
        "In each block there is a thread 0. Which number should that of block 1 take, "
        "when a block has four threads?",
        "`cuda.blockIdx.x` says which block it is, and `cuda.blockDim.x` how many "
        "threads each has: how many stand in the blocks before this one?",
        "And 3 blocks of 4 threads are 12, for 9 numbers: what do the last three do?",
    ],
    better="Each number is read once and written once, by the one thread that has it.",
    scored=dict(n=16, launch=(2, 8)),
    limits={
        "writes.out": lambda n: 2 * n,  # not all of it by each thread
        "rounds.out": 3,  # nor by one
    },
)
