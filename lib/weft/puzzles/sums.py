"""The puzzles of lesson 02c: one result from many numbers.

dot, prefix_sum, axis_sum    sums
argmax, softmax              more than one pass over a row
"""

import math

import numpy as np
from numpy import float32, int32

from weft import cuda

from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_dot(a, b):
    return a @ b


def dot_product(out, a, b, n):
    """out[0] = a[0] * b[0] + a[1] * b[1] + ... One block of 8. About eight lines."""
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    if i < n:
        s[i] = a[i] * b[i]
    cuda.syncthreads()
    if i == 0:
        acc = float32(0)
        for j in range(n):
            acc += s[j]
        out[0] = acc
    ### END SOLUTION


DOT = Puzzle(
    text=(
        "`out[0]` is [the sum of the products](glossary.ipynb#dot-product) `a[i] * "
        "b[i]`. There is one block of 8 threads, and `n` is at most 8. Each thread may "
        "read one number of `a` and one of `b`, and `out` is written once."
    ),
    spec=spec_dot,
    answer=dot_product,
    checks=dict(
        outputs={"out": "1"},
        inputs={"a": "n", "b": "n"},
        sizes=every_size([8, 1, 2, 3, 4, 5, 7], most=8),
        launch=lambda n: (1, 8),
        terms=lambda n: n,
    ),
    drawn=dict(n=8),
    launch=(1, 8),
    hints=[
        "Every thread can compute its product alone, and store it where the others can "
        "read it.",
        "The sum needs all of the products: what must have happened before any thread "
        "adds the first two?",
        "With eight numbers, a single thread may add them up in a local variable that "
        "starts as `float32(0)`. It stores the sum in `out` at the end.",
    ],
    better=(
        "Each number is read once, and `out` is written once. With so few products, "
        "one barrier is enough if one thread adds them; a tree has more barriers."
    ),
    limits={
        "reads.a": lambda n: n,
        "reads.b": lambda n: n,
        "writes.out": 1,
        "lanes.a": 8,
        "atomics": 0,
    },
    budget={"barriers": 4},  # the barriers that the lesson's tree needs
)


def spec_prefix_sum(a):
    padded = np.pad(a, (0, -len(a) % 8))
    return padded.reshape(-1, 8).sum(axis=1)


def sum_blocks(out, a, n):
    """out[block] = the sum of the block's numbers. Blocks of 8. About eleven lines."""
    s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 8 + t
    ### BEGIN SOLUTION
    acc = a[i] if i < n else float32(0)
    s[t] = acc
    half = 4
    while half > 0:
        cuda.syncthreads()
        if t < half:
            acc += s[t + half]
            s[t] = acc
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = acc
    ### END SOLUTION


PREFIX_SUM = Puzzle(
    text=(
        "Each block of 8 threads adds up its 8 numbers of `a` and stores the sum in "
        "`out`, one number for each block. The last block may have fewer numbers. "
        "Halve the work from round to round: 8 numbers become 4 sums, then 2, then 1. "
        "(The name comes from GPU-Puzzles: this is the first half of a [prefix "
        "sum](glossary.ipynb#scan).)"
    ),
    spec=spec_prefix_sum,
    answer=sum_blocks,
    checks=dict(
        outputs={"out": "cdiv(n, 8)"},
        inputs={"a": "n"},
        sizes=every_size([15, 8, 1, 2, 3, 7, 9, 16, 23], 203),
        launch=blocks_of(8),
        terms=8,
    ),
    drawn=dict(n=15),
    launch=(2, 8),
    hints=[
        "Store the numbers in `s`. Past the end of `a`, store a zero, which changes no "
        "sum.",
        "In the first round, threads 0 to 3 each add the number four places further on "
        "to their own. In the second, threads 0 and 1 add the number two places "
        "further on. What comes next?",
        "A round may begin only when every thread has finished the previous one. So "
        "the barrier is in the loop, and not below an `if` that only some threads "
        "enter.",
    ],
    better=(
        "8 numbers take three rounds, with a barrier before each and none after the "
        "last. A thread keeps its sum in a variable, and others read it from `s`."
    ),
    scored=dict(n=16),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,
        # 4, 2 and 1 threads of a tree read together; a single thread has 1 lane.
        "shared_read_lanes": 2,
    },
)


def spec_axis_sum(a):
    return a.sum(axis=1)


def sum_rows(out, a, cols):
    """out[row] = the sum of row `row` of a. Blocks of 8. About eleven lines."""
    s = cuda.shared.array(8, float32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    acc = a[row * cols + col] if col < cols else float32(0)
    s[col] = acc
    half = 4
    while half > 0:
        cuda.syncthreads()
        if col < half:
            acc += s[col + half]
            s[col] = acc
        half //= 2
    if col == 0:
        out[row] = acc
    ### END SOLUTION


AXIS_SUM = Puzzle(
    text=(
        "`a` has `rows` rows of `cols` numbers, and `out[row]` is the sum of row "
        "`row`. Each row has a block of 8 threads, and `cols` is at most 8."
    ),
    spec=spec_axis_sum,
    answer=sum_rows,
    checks=dict(
        outputs={"out": "rows"},
        inputs={"a": ("rows", "cols")},
        sizes=every_size(
            [(4, 6), (1, 1), (3, 8), (8, 3), (5, 1), (1, 5), (2, 7)], most=(16, 8)
        ),
        launch=lambda rows: (rows, 8),
        terms=8,
    ),
    drawn=dict(rows=4, cols=6),
    launch=(4, 8),
    scored=dict(rows=4, cols=8),
    hints=[
        "This is the previous puzzle, but each block's numbers begin elsewhere, and "
        "there are `cols` of them. At which index of the flat array does row 1 begin?",
        "A thread without a number (`col` not below `cols`) contributes a zero. The "
        "next row begins right after the end of a row, so a read there would not be "
        "reported as an error.",
    ],
    better=(
        "Each number is read once. 8 numbers take three rounds, with a barrier before "
        "each. A thread keeps its sum in a variable, and others read it from `s`."
    ),
    limits={"reads.a": lambda rows, cols: rows * cols, "lanes.a": 8},
)


def spec_argmax(a):
    return a.argmax(axis=1)


def argmax_rows(out, a, cols):
    """out[row] = column of the row's largest number. Blocks of 32. Sixteen lines."""
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, int32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    most = a[row * cols + col] if col < cols else float32(-np.inf)
    place = col
    s[col] = most
    at[col] = place
    half = 16
    while half > 0:
        cuda.syncthreads()
        if col < half:
            other, other_place = s[col + half], at[col + half]
            if other > most or (other == most and other_place < place):
                most, place = other, other_place
            s[col] = most
            at[col] = place
        half //= 2
    if col == 0:
        out[row] = place
    ### END SOLUTION


def numbers(rng, shape):
    """Return numbers with few distinct values, so that many are equal.

    Some rows are all negative. With enough rows, some contain fractions, and some
    contain numbers far from zero.
    """
    values = rng.integers(-3, 4, shape) - 4 * rng.integers(0, 2, (shape[0], 1))
    if shape[0] < 3:
        return values
    return values * rng.choice([1, 0.25, 1e30], (shape[0], 1))


ARGMAX = Puzzle(
    text=(
        "`out[row]` is [the column](glossary.ipynb#argmax) of the largest number in "
        "row `row`. If that number occurs more than once, the first column counts. "
        "Each row has a block of 32 threads, and `cols` is at most 32."
    ),
    spec=spec_argmax,
    answer=argmax_rows,
    checks=dict(
        outputs={"out": "int32[rows]"},
        inputs={"a": ("rows", "cols")},
        sizes=every_size(
            [(2, 12), (1, 1), (8, 31), (9, 32), (5, 2), (3, 5), (4, 17)], most=(8, 32)
        ),
        launch=lambda rows: (rows, 32),
        data={"a": numbers},
    ),
    drawn=dict(rows=2, cols=12),
    launch=(2, 32),
    scored=dict(rows=4, cols=32, launch=(4, 32)),
    hints=[
        "This is a tree like that of a sum, but instead of adding two numbers it keeps "
        "the larger one, with its column in `at`.",
        "Beyond the end of a row, use a number that never wins, not even against "
        "negative numbers: `-np.inf`.",
        "If both numbers are equal, compare their columns and keep the smaller one. In "
        "a tree, the left number of a pair need not come first in the row.",
    ],
    better=(
        "Each number of `a` is read once, and numbers and columns go through the tree "
        "together. 32 numbers take five rounds, with a barrier before each."
    ),
    limits={"reads.a": lambda rows, cols: rows * cols, "lanes.a": 32},
)


def spec_softmax(a):
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_rows(out, a, cols):
    """out (rows,cols) = softmax of each row of a. Blocks of 8. About eleven lines."""
    s = cuda.shared.array(8, float32)
    col = cuda.threadIdx.x
    row = cuda.blockIdx.x
    ### BEGIN SOLUTION
    mine = a[row * cols + col] if col < cols else float32(0)
    s[col] = mine
    cuda.syncthreads()
    if col < cols:
        most = mine
        for j in range(cols):
            most = max(most, s[j])
        total = float32(0)
        for j in range(cols):
            total += math.exp(s[j] - most)
        out[row * cols + col] = math.exp(mine - most) / total
    ### END SOLUTION


def softmax_numbers(rng, shape):
    """Return rows near 0, far above 0 (exp() gives inf) and far below 0 (it gives 0).

    In every third row, one number is far above all others: the last one, or a random
    one.
    """
    rows, cols = shape
    x = 3 * rng.standard_normal(shape) + rng.choice([0, 500, -500], (rows, 1))
    for row in range(2, rows, 3):
        x[row, rng.choice([cols - 1, rng.integers(cols)])] += 200
    return x


def bound(a, want):
    """Return the error bound of each output.

    It adds the errors of a difference d, its exp, the sum and the quotient. exp is
    accurate to 4 units of 2^-24 (2 in the last place).
    """
    unit, out = 2.0**-24, want["out"]
    # The difference is rounded, so the relative error of its exp is d units.
    d = a.max(axis=1, keepdims=True) - a
    mean = (out * d).sum(axis=1, keepdims=True)  # the same error, averaged over the sum
    return 1.01 * unit * out * (d + mean + 4 + 4 + a.shape[1] + 1) + 1e-37


SOFTMAX = Puzzle(
    text=(
        "Each number of a row becomes its `math.exp`, [divided by the "
        "sum](glossary.ipynb#softmax) of the row's `exp`s. First subtract the row's "
        "largest number from all of them: `exp(500)` is too large for a float32. Each "
        "row has a block of 8 threads, and `cols` is at most 8."
    ),
    spec=spec_softmax,
    answer=softmax_rows,
    checks=dict(
        outputs={"out": ("rows", "cols")},
        inputs={"a": ("rows", "cols")},
        sizes=every_size(
            [(2, 6), (1, 1), (7, 8), (6, 3), (5, 2), (6, 5), (3, 7)], most=(16, 8)
        ),
        launch=lambda rows: (rows, 8),
        data={"a": softmax_numbers},
        bound=bound,
    ),
    drawn=dict(rows=2, cols=6),
    launch=(2, 8),
    hints=[
        "There are three steps: the row's largest number, the sum of `math.exp(number "
        "- largest)`, and the quotient. The first two need the whole row, which is in "
        "`s`.",
        "With at most 8 numbers, each thread may go through all of `s` by itself. If "
        "no thread overwrites them, one barrier is enough.",
        "With trees, an element of `s` may be reused only after all threads have read "
        "it. What does `s[0]` contain after the first tree?",
    ],
    better=(
        "Each number of `a` is read once, and a thread keeps its own. If every thread "
        "adds up by itself, one barrier is enough; trees need one for each round."
    ),
    scored=dict(rows=4, cols=8, launch=(4, 8)),
    limits={"reads.a": lambda rows, cols: rows * cols, "lanes.a": 8},
    budget={"barriers": 9},  # the barriers that two trees need
)
