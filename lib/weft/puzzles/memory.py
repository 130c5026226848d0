"""The puzzles of lesson 07a: how a kernel accesses memory.

coalescing     a repair: the distribution of numbers over threads
transpose      access along rows on both sides, and a tile without bank conflicts
fusion         a repair: a second pass that reads the numbers of the first again
quantise       float32 to int8 and back, with a scale for each row
"""

import math

import numpy as np
from numpy import float32

from weft import cuda

from ..check.cases import divide_up
from .instance import blocks_of, cover, every_size
from .puzzle import Puzzle


def spec_coalescing(a):
    return 2 * a


def stretches(out, a, n, each):
    # The result is right, but each thread processes a stretch of its own.
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, n)):
        out[i] = 2 * a[i]


def side_by_side(out, a, n, each):
    ### BEGIN SOLUTION
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = 2 * a[i]
    ### END SOLUTION


COALESCING = Puzzle(
    text=(
        "`out` must be twice `a`, and each thread handles `each` numbers; the grid may "
        "have an extra block. This kernel is right, but a "
        "[request](glossary.ipynb#request) of its [warps](glossary.ipynb#warp) touches "
        "many [sectors](glossary.ipynb#sector). Distribute the numbers so that a "
        "request for 32 floats takes 4 sectors."
    ),
    spec=spec_coalescing,
    answer=side_by_side,
    start=stretches,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        terms=0,  # Doubling a float is exact.
        launch=[
            lambda n, each: cover(divide_up(n, each), 32),
            lambda n, each: cover(divide_up(n, each), 64),
            lambda n, each: cover(divide_up(n, each), 32, 1),
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


def spec_transpose(a):
    return a.T


def transpose_tiles(out, a, rows, cols):
    x = cuda.threadIdx.x
    y = cuda.threadIdx.y
    ### BEGIN SOLUTION
    tile = cuda.shared.array((32, 33), float32)
    row = cuda.blockIdx.y * 32 + y
    col = cuda.blockIdx.x * 32 + x
    if row < rows and col < cols:
        tile[y, x] = a[row * cols + col]
    cuda.syncthreads()
    row = cuda.blockIdx.x * 32 + y
    col = cuda.blockIdx.y * 32 + x
    if row < cols and col < rows:
        out[row * rows + col] = tile[x, y]
    ### END SOLUTION


TRANSPOSE = Puzzle(
    text=(
        "`out` (cols,rows) is the [transpose](glossary.ipynb#transpose) of `a` "
        "(rows,cols). A block of 32x32 threads moves a tile of 32x32 numbers. Read and "
        "write along rows, with 4 sectors per request, and avoid [bank "
        "conflicts](glossary.ipynb#bank-conflict) in the tile."
    ),
    spec=spec_transpose,
    answer=transpose_tiles,
    checks=dict(
        outputs={"out": ("cols", "rows")},
        inputs={"a": ("rows", "cols")},
        launch=lambda rows, cols: cover((cols, rows), (32, 32)),
        terms=0,  # each number is copied bit by bit
        sizes=every_size([(1, 1), (2, 3), (31, 33), (32, 32), (40, 5), (33, 37)]),
    ),
    drawn=dict(rows=32, cols=32),
    launch=((1, 1), (32, 32)),
    hints=[
        "A warp is a row of threads: y is fixed, and x runs from 0 to 31. It must run "
        "along a row of `a` when it reads, and along a row of `out` when it writes.",
        "So a thread writes a different number than it read, and the block needs a "
        "barrier in between. Which tile of `out` does the block write, and which "
        "thread writes which number?",
        "Either the writes or the reads of the shared tile go down a column. If its "
        "rows are 32 long, these 32 numbers are in one bank. What if the rows are a "
        "little longer?",
    ],
    better=(
        "Each thread reads one number and writes one. There is one barrier, and the "
        "rows of the tile are 33 long, so that a column uses every bank."
    ),
    limits={
        "sectors_per_request.a": 4,
        "sectors_per_request.out": 4,
        "bank_conflicts": 0,
    },
)


def spec_fusion(x, a, b):
    y = np.maximum(a * x + b, 0)
    return y, [y[i : i + 8].sum() for i in range(0, len(y), 8)]


def in_two_passes(y, sums, x, a, b, n):
    i = cuda.grid(1)
    if i < n:  # The first pass computes y.
        y[i] = max(a * x[i] + b, float32(0))
    cuda.syncthreads()
    if i % 8 == 0:  # The second pass sums each 8 elements.
        for k in range(i, min(i + 8, n)):
            sums[i // 8] = y[k] + (sums[i // 8] if k > i else float32(0))


def in_one_pass(y, sums, x, a, b, n):
    ### BEGIN SOLUTION
    y_s = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = max(a * x[i] + b, float32(0))
        y[i] = v
    y_s[t] = v
    cuda.syncthreads()
    if t == 0 and i < n:
        total = float32(0)
        for k in range(8):
            total += y_s[k]
        sums[cuda.blockIdx.x] = total
    ### END SOLUTION


def number(rng):
    """Return a value for the kernel: a multiple of a quarter, never 0."""
    return float(rng.choice([-2, -1.5, -0.75, 0.5, 1.25, 2]))


FUSION = Puzzle(
    text=(
        "Two kernels became one: `y` is relu(a * x + b), and `sums` contains the sum "
        "of each 8 elements of `y`. Blocks have 8 threads, and the grid may have two "
        "more blocks than needed. The kernel is right, but its second half reads "
        "numbers again: read each `x` once, never read `y`, and write each number once."
    ),
    spec=spec_fusion,
    answer=in_one_pass,
    start=in_two_passes,
    checks=dict(
        outputs={"y": "n", "sums": "cdiv(n, 8)"},
        inputs={"x": "n"},
        values={"a": number, "b": number},
        launch=[blocks_of(8), blocks_of(8, 2)],
        sizes=every_size([1, 2, 3, 7, 8, 9, 16, 53], 203),
    ),
    drawn=dict(n=14),
    launch=(2, 8),
    hints=[
        "A thread already has its number when it writes `y`. Where can it store the "
        "number so that the others of its block can read it cheaply?",
        "In shared memory, followed by a barrier. What should a thread past the end "
        "store there, so that it does not change the sum?",
        "Each iteration of the last loop reads and writes `sums`. Add up in a local "
        "variable instead, and store it once.",
    ],
    better=(
        "The numbers reach the sum through shared memory: `x` is read once, and `y` "
        "and `sums` are only written."
    ),
    scored=dict(n=16),
    limits={
        "reads.x": lambda n: n,
        "lanes.x": 8,  # A single thread must not read all numbers.
        "reads.y": 0,
        "reads.sums": 0,
        "writes.y": lambda n: n,
        "writes.sums": lambda n: divide_up(n, 8),
    },
)


def spec_quantise(x):
    scale = np.abs(x).max(axis=1, keepdims=True) / 127
    scale[scale == 0] = 1
    q = np.floor(x / scale + 0.5)  # halves go up
    return q.astype(np.int8), scale.ravel(), q * scale


def quantise_rows(q, scale, back, x, cols):
    first = cuda.blockIdx.x * cols  # start of the row
    t = cuda.threadIdx.x
    largest = cuda.shared.array(8, float32)
    ### BEGIN SOLUTION
    mine = float32(0)
    for col in range(t, cols, 8):
        mine = max(mine, abs(x[first + col]))
    largest[t] = mine
    cuda.syncthreads()
    for k in range(8):
        mine = max(mine, largest[k])
    step = float32(1)
    if mine > 0:
        step = mine / float32(127)
    if t == 0:
        scale[cuda.blockIdx.x] = step
    for col in range(t, cols, 8):
        rounded = math.floor(x[first + col] / step + float32(0.5))
        q[first + col] = rounded
        back[first + col] = float32(rounded) * step
    ### END SOLUTION


def rows_of_many_kinds(rng, shape):
    """Return rows of random numbers, of tiny ones, of halves, and of zeros.

    In the first row, the number of largest magnitude is negative. In a row of halves,
    the largest magnitude is 127, so that the scale is 1 and x / scale is exact.
    """
    rows, cols = shape
    x = 10 * rng.standard_normal(shape)
    x[0] *= -np.sign(x[0, np.abs(x[0]).argmax()])
    x[3::3] *= 1e-13
    for row in range(1, rows, 3):
        x[row] = rng.integers(-127, 127, cols) + 0.5
        x[row, rng.integers(cols)] = rng.choice([-127, 127])
    x[2::3] = 0
    return x


def bound(x, want):
    """Return the allowed errors: none in q, except where either integer may be right.

    The answer rounds three times in float32: in the division by 127, in the division by
    the scale, and in the addition of 0.5. These roundings change a number up to 127.5
    by less than 4 * 2^-24 of its value. If x / scale is that close to a half, either
    integer is right, and `back` may differ by one scale. If the scale is 1, the answer
    rounds nothing.
    """
    unit = 2.0**-24
    scale = want["scale"][:, None]
    exact = x / scale + 0.5
    near = np.abs(exact - np.round(exact)) <= 4 * unit * 127.5
    near &= scale != 1
    return {
        "q": near.astype(float),
        "scale": 2 * unit * want["scale"],
        "back": 4 * unit * np.abs(want["back"]) + near * scale * (1 + 4 * unit),
    }


QUANTISE = Puzzle(
    text=(
        "Each row has one block of 8 threads, and `scale` is the row's largest "
        "magnitude / 127 (1 if all numbers are zero). `q` is x / scale rounded to "
        "int8, with halves rounded up. `back` is q * scale, which is at most half a "
        "scale away from x."
    ),
    spec=spec_quantise,
    answer=quantise_rows,
    checks=dict(
        outputs={
            "q": "int8[rows, cols]",
            "scale": "float32[rows]",
            "back": "float32[rows, cols]",
        },
        inputs={"x": ("rows", "cols")},
        data={"x": rows_of_many_kinds},
        bound=bound,
        launch=lambda rows: (rows, 8),
        sizes=every_size(
            [(1, 1), (2, 3), (3, 7), (5, 8), (4, 9), (6, 37)], most=(8, 16)
        ),
    ),
    drawn=dict(rows=2, cols=8),
    launch=(2, 8),
    hints=[
        "Begin with the magnitudes: `abs`. A row may be longer than the block, so each "
        "thread reads every eighth number of it.",
        "Then the block has 8 candidates in `largest`. After a barrier, every thread "
        "can find the largest of them for itself.",
        "`math.floor(v + 0.5)` rounds halves up, even for negative numbers. Is a clip "
        "needed with this scale?",
    ],
    better=(
        "Each thread keeps the largest of its own numbers and stores it in shared "
        "memory. After one barrier, every thread finds the block's largest. No clip is "
        "needed: x / scale never leaves -127 to 127."
    ),
    limits={
        "lanes.x": 8,  # A single thread must not read all numbers.
        "writes.scale": lambda rows: rows,  # one thread per row writes
    },
    budget={"barriers": 4},  # the barriers that a tree of sums needs
)
