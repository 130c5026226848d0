"""The puzzles of lesson 01b: many blocks.

blocks, blocks2d    more numbers than a block has threads
grid_stride         fewer threads than numbers
image_filter_numpy, image_filter
                    a picture: first a NumPy function, then the kernel
"""

import sys

import numpy as np
from numpy import float32

from weft import cuda

from ..base.errors import Mismatch
from ..check.cases import divide_up
from .instance import blocks_of, cover, every_size
from .puzzle import Puzzle


def spec_blocks(a, b):
    return a - b


def subtract_blocks(out, a, b, n):
    """out (n) = a (n) - b (n), by many blocks. Three lines."""
    ### BEGIN SOLUTION
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]
    ### END SOLUTION


BLOCKS = Puzzle(
    text=(
        "Subtract `b` from `a` element by element, now with many blocks of a few "
        "threads each. Together the blocks have a thread for each of the `n` elements, "
        "and often more."
    ),
    spec=spec_blocks,
    answer=subtract_blocks,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "b": "n"},
        sizes=every_size([1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 97], 1009),
        launch=[blocks_of(4), blocks_of(3, 1), blocks_of(32)],
    ),
    drawn=dict(n=9),
    launch=(3, 4),
    hints=[
        "Each block has a thread 0. Which number should thread 0 of block 1 take, if a "
        "block has four threads?",
        "`cuda.blockIdx.x` is the number of the block, and `cuda.blockDim.x` is the "
        "number of threads in each block. How many threads do the blocks before this "
        "one have?",
        "3 blocks of 4 threads are 12 threads, for 9 numbers: what should the last "
        "three do?",
    ],
    better="Each element is computed once, by its own thread: two reads and one write.",
    scored=dict(n=16, launch=(2, 8)),
    limits={
        "writes.out": lambda n: 2 * n,  # exceeded if every thread writes everything
        "rounds.out": 3,  # A single thread must not do all the work.
    },
)


def spec_blocks2d(a):
    return a + np.arange(a.shape[1])  # 0 for the first column, then 1, 2, ...


def add_column_numbers(out, a, height, width):
    """out (height,width) = a (height,width) + the column. About five lines."""
    ### BEGIN SOLUTION
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height and col < width:
        i = row * width + col
        out[i] = a[i] + col
    ### END SOLUTION


BLOCKS2D = Puzzle(
    title="Blocks 2D",
    text=(
        "Add to each number of `a` the number of its column; `a` has `height` rows of "
        "`width` numbers. Blocks are arranged in rows and columns. They extend beyond "
        "the array on the right and at the bottom, and some are completely outside."
    ),
    spec=spec_blocks2d,
    answer=add_column_numbers,
    checks=dict(
        outputs={"out": ("height", "width")},
        inputs={"a": ("height", "width")},
        sizes=every_size(
            [(1, 1), (2, 2), (1, 7), (7, 1), (3, 4), (5, 5), (6, 9), (11, 7)], (37, 50)
        ),
        launch=[
            lambda height, width: cover((width, height), (3, 3)),
            lambda height, width: cover((width, height), (4, 2)),
            lambda height, width: cover((width, height), (2, 5), 1),
        ],
    ),
    drawn=dict(height=5, width=5),
    launch=((2, 2), (3, 3)),
    hints=[
        "This is the previous puzzle, once for each dimension: compute a column and a "
        "row.",
        "`x` runs along a row, so it gives the column. `y` has a `blockIdx`, a "
        "`blockDim` and a `threadIdx` of its own.",
        "The rest is as in Map 2D: a guard with two parts, and one index in the flat "
        "array.",
    ],
    better="Each number is read once and written once, by its own thread.",
    scored=dict(height=5, width=2, launch=((2, 2), (4, 3))),
    limits={
        "writes.out": lambda height, width: height * width,
        "rounds.out": 2,  # half of the blocks have no work
    },
)


def spec_grid_stride(a):
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


GRID_STRIDE = Puzzle(
    text=(
        "Square each of the `n` numbers of `a`. However large `n` is, there are only a "
        "few threads in a few blocks. They share the numbers evenly, and each number "
        "is processed once."
    ),
    spec=spec_grid_stride,
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
        "writes.out": lambda n: n,  # Two threads per number would do twice the work.
        # Every thread must do the same number of rounds.
        "rounds.out": lambda n, threads: divide_up(n, threads),
    },
)


SMALL, LARGE = (4, 5), (16, 20)  # shapes of pictures whose Python steps are counted


def spec_image_filter_numpy(x):
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")  # repeats every border pixel outside
    means = [around[r : r + 3, c : c + 3].mean() for r, c in np.ndindex(x.shape)]
    return np.reshape(means, (height, width))


def blur_numpy(x):
    """Return the mean around each pixel of x. No loop over pixels. Four lines."""
    ### BEGIN SOLUTION
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")
    shifted = [around[r : r + height, c : c + width] for r, c in np.ndindex(3, 3)]
    return sum(shifted) / 9
    ### END SOLUTION


class WholePictures(Puzzle):
    """A puzzle whose answer must not loop over pixels, although its reference does."""

    def _run_check(self, answer, device):
        verdict = super()._run_check(answer, device)
        few, many = (steps(answer.subject, np.ones(shape)) for shape in (SMALL, LARGE))
        pixels = np.prod(LARGE) - np.prod(SMALL)
        if many - few > 4 * pixels:  # A loop over the rows takes fewer steps.
            raise Mismatch(
                f"{answer.name}: the numbers are right, but it takes {few} steps of "
                f"Python for a picture of {SMALL[0]}x{SMALL[1]} and {many} for one of "
                f"{LARGE[0]}x{LARGE[1]}: it loops over the pixels. Let NumPy do that, "
                f"in operations on whole pictures",
                kind="limit",
            )
        return verdict


def steps(function, *args):
    """Return the number of Python instructions in a call, including NumPy's."""
    count = 0

    def watch(frame, event, _):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return watch

    function(*args)  # The first call does one-time work, which is not counted.
    previous = sys.gettrace()
    sys.settrace(watch)
    try:
        function(*args)
    finally:
        sys.settrace(previous)
    return count


IMAGE_FILTER_NUMPY = WholePictures(
    title="Image filter in NumPy",
    text=(
        "[Blur](glossary.ipynb#filter) a picture: each pixel becomes the mean of the "
        "3x3 pixels around it. Outside the picture, the nearest pixel counts again. "
        "Write a NumPy function, not yet a kernel: it adds whole pictures and has no "
        "loop over pixels."
    ),
    spec=spec_image_filter_numpy,
    answer=blur_numpy,
    checks=dict(
        inputs={"x": ("height", "width")},
        sizes=every_size([(1, 1), (1, 4), (5, 1), (2, 2), (5, 6), (7, 3)], (31, 43)),
        terms=20,
    ),
    drawn=dict(height=5, width=6),
    launch=None,
    hints=[
        "Which picture contains every pixel's right-hand neighbor? It is `x` itself, "
        "shifted one column to the left.",
        "A mean of 3x3 pixels needs nine such pictures, shifted by -1, 0 or 1 in both "
        "directions; the middle one is `x`.",
        "A picture that is one pixel larger on every side contains all nine as slices "
        'of `height` rows and `width` columns. `np.pad` with `mode="edge"` creates it.',
    ],
    better="Nine slices of one padded picture, and a sum.",
)


def spec_image_filter(x):
    around = np.pad(x, 1, mode="edge")  # repeats every border pixel outside
    rows = around[:-2] + around[1:-1] + around[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


def noisy(rng, shape):
    """Return a bright W on a dark ground (height,width), with noise to filter out."""
    row, col = (np.arange(length)[:, None] / length for length in shape)
    zigzag = abs(4 * col.T % 2 - 1)
    return (abs(row - 0.75 + 0.6 * zigzag) < 0.2) - 0.5 + rng.normal(0, 0.3, shape)


def blur(y, x, height, width):
    """y (height,width): means of x over 3x3 pixels. About ten lines, two loops."""
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    ### BEGIN SOLUTION
    if row < height and col < width:
        total = float32(0)
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                inside_r = min(max(r, 0), height - 1)
                inside_c = min(max(c, 0), width - 1)
                total += x[inside_r * width + inside_c]
        y[row * width + col] = total / float32(9)
    ### END SOLUTION


IMAGE_FILTER = Puzzle(
    text=(
        "Write the same blur as a kernel: each pixel of `y` is the mean of 3x3 pixels "
        "of `x`. Outside the picture, the nearest pixel counts again. There are many "
        "blocks, which extend beyond the picture on the right and at the bottom."
    ),
    spec=spec_image_filter,
    answer=blur,
    checks=dict(
        outputs={"y": ("height", "width")},
        inputs={"x": ("height", "width")},
        sizes=every_size([(1, 1), (1, 4), (5, 1), (2, 2), (5, 6), (9, 7)]),
        launch=[
            lambda height, width: cover((width, height), (4, 4)),
            lambda height, width: cover((width, height), (5, 2)),
            lambda height, width: cover((width + 2, height), (2, 3)),
        ],
        data={"x": noisy},
        terms=20,
    ),
    drawn=dict(height=20, width=28),
    launch=((2, 3), (16, 8)),
    hints=[
        "A thread owns the pixel that it writes. It reads nine pixels in two short "
        "loops, over the rows around `row` and the columns around `col`.",
        "At the left border `col` - 1 is -1, and the nearest column that exists is 0. "
        "`min` and `max` work inside a kernel.",
        "Add up in a local variable that starts as `float32(0)`, and store the mean "
        "once, after both loops. A plain `0.0` is float64, which a GPU adds far more "
        "slowly.",
    ],
    better=(
        "Nine reads and one write for each pixel: add up in a local variable, not in "
        "`y`."
    ),
    # Nine `+=` in `y` take at most this many rounds; one thread alone takes more.
    limits={"rounds.y": 19},
)
