"""Shared: a copy through the memory that a block shares."""

from numpy import float32

from weft import cuda

from ...check.cases import divide_up
from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
    return a * a * a


def cube_shared(out, a, n):
    """out[i] = the cube of a[i], through s. Blocks of 4. Three or four lines."""
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    ### BEGIN SOLUTION
    if i < n:
        s[t] = a[i]
        number = s[t]
        out[i] = number * number * number
    ### END SOLUTION


puzzle = Puzzle(
    title="Shared",
    text=(
        "Store the cube of each of the `n` numbers of `a`. Each block of 4 threads "
        "first stores its numbers in `s`, its [shared "
        "memory](glossary.ipynb#shared-memory), and reads them from there. There may "
        "be a block more than needed. (A cube does not really need `s`; the next "
        "puzzles do.)"
    ),
    spec=spec,
    answer=cube_shared,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([8, 1, 2, 3, 4, 5, 7, 13], 203),
        launch=[lambda n: (divide_up(n, 4), 4), lambda n: (divide_up(n, 4) + 1, 4)],
    ),
    drawn=dict(n=8),
    launch=(2, 4),
    hints=[
        "`a` is one array for all blocks. `s` is a separate array in each block, with "
        "4 elements. Which of them is indexed by `i`, and which by `t`?",
        "The last block may have fewer than 4 numbers: only threads with `i` below `n` "
        "have something to store.",
        "For each read of `s`, ask which thread wrote that number. A barrier is needed "
        "if it was another thread.",
    ],
    better=(
        "A thread that reads from `s` only the number that it stored there itself need "
        "not wait for anybody. It reads that number once."
    ),
    limits={
        "reads.a": lambda n: n,
        "shared_writes": (lambda n: n, None),
        "shared_reads": (lambda n: n, None),  # not from a variable
    },
    budget={"shared_turns": 8},  # of three reads after a barrier
)
