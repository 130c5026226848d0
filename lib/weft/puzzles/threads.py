"""The puzzles of lesson 01a: the work of each thread, in one block.

map, zip, guards    one dimension
map2d, broadcast    rows and columns
example             the puzzle that lesson 03 uses as its example; it is in no group
"""

from weft import cuda

from .instance import every_size
from .puzzle import Puzzle


def spec_map(a):
    return a + 10


def add_ten(out, a):
    """out (n) = a (n) + 10. One line."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    out[i] = a[i] + 10
    ### END SOLUTION


# The limits of kernels in which each thread writes one element.
ONE_EACH = {
    "writes.out": lambda n: 2 * n,  # exceeded if every thread writes everything
    # A store followed by `+=` takes 3 rounds. A single thread must not do all the work.
    "rounds.out": 3,
}

MAP = Puzzle(
    text="Add 10 to [each number](glossary.ipynb#map) of `a` and store the result in "
    "`out`. There is one [block](glossary.ipynb#block), with a "
    "[thread](glossary.ipynb#thread) for each number.",
    spec=spec_map,
    answer=add_ten,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([1, 2, 3, 4, 7, 31, 32, 33, 100], 1000),
        launch=[lambda n: (1, n)],
    ),
    drawn=dict(n=4),
    launch=(1, 4),
    hints=[
        "All four threads run the same line. Only `i` differs from one to the next: 0, "
        "1, 2 and 3.",
        "No loop is needed: the threads replace the loop. Each reads one number and "
        "stores one at the same place.",
    ],
    better="A thread needs one read and one write, since it handles one number only.",
    limits=ONE_EACH,
)


def spec_zip(a, b):
    return a + b


def add_pairs(out, a, b):
    """out (n) = a (n) + b (n). One line."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    out[i] = a[i] + b[i]
    ### END SOLUTION


ZIP = Puzzle(
    text=(
        "Add `a` and `b` element by element and store the sums in `out`. There is one "
        "block, with a thread for each element."
    ),
    spec=spec_zip,
    answer=add_pairs,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "b": "n"},
        sizes=every_size([1, 2, 3, 4, 7, 31, 32, 33, 100], 1000),
        launch=[lambda n: (1, n)],
    ),
    drawn=dict(n=4),
    launch=(1, 4),
    hints=[
        "Which number of `a`, and which of `b`, does thread 2 need? Where does its "
        "result go?",
        "This is the previous puzzle with a second array instead of the 10.",
    ],
    better=(
        "Each thread needs two reads and one write. Keep a result that takes several "
        "steps in a local variable, and store it once."
    ),
    limits=ONE_EACH,
)


def spec_guards(a):
    return a / 2


def halve_guarded(out, a, n):
    """out (n) = a (n) / 2. Two lines."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    if i < n:
        out[i] = a[i] / 2
    ### END SOLUTION


GUARDS = Puzzle(
    text=(
        "Halve each of the `n` numbers of `a`. This time the block has more threads "
        "than there are numbers. The extra threads must not touch the arrays."
    ),
    spec=spec_guards,
    answer=halve_guarded,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=every_size([1, 2, 3, 4, 7, 31, 32, 33], 500),
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
    better="Only threads with a number access the arrays: one read and one write each.",
    scored=dict(n=4, launch=(1, 16)),
    limits=ONE_EACH,
)


def spec_map2d(a):
    return 255 - a


def invert(out, a, height, width):
    """out (height,width) = 255 - a (height,width). Two or three lines."""
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    ### BEGIN SOLUTION
    if row < height and col < width:
        i = row * width + col
        out[i] = 255 - a[i]
    ### END SOLUTION


def pixels(rng, shape):
    """Return grey values from 0 (black) to 255 (white)."""
    return rng.integers(0, 256, shape)


# Sizes of arrays (height,width), and launches with more threads than needed.
IN_ROWS = dict(
    sizes=every_size(
        [(1, 1), (2, 2), (1, 5), (5, 1), (3, 4), (4, 3), (7, 11), (13, 6)], (25, 30)
    ),
    launch=[
        lambda height, width: (1, (width + 1, height + 1)),
        lambda height, width: (1, (width + 3, height)),
        lambda height, width: (1, (width, height + 2)),
    ],
)

MAP2D = Puzzle(
    title="Map 2D",
    text=(
        "Compute the negative of the grey picture `a`: each pixel becomes 255 minus "
        "its value. The picture has `height` rows of `width` pixels, and both arrays "
        "are flat, [row after row](glossary.ipynb#row-major). The one block has two "
        "dimensions, and more threads than needed in both."
    ),
    spec=spec_map2d,
    answer=invert,
    checks=dict(
        outputs={"out": ("height", "width")},
        inputs={"a": ("height", "width")},
        **IN_ROWS,
        data={"a": pixels},
    ),
    drawn=dict(height=2, width=2),
    launch=(1, (3, 3)),
    hints=[
        "Both `row` and `col` can be too large now, so the guard has to check both.",
        "Where does row 1 begin? It begins after the whole of row 0, which has `width` "
        "numbers.",
        "The array is flat: first compute the index of the thread's element from "
        "`row`, `col` and `width`.",
    ],
    better="Only threads with a pixel access the arrays: one read and one write each.",
    scored=dict(height=4, width=2, launch=(1, (8, 5))),
    limits={
        "writes.out": lambda height, width: height * width,
        "rounds.out": 3,
    },
)


def spec_broadcast(a, b):
    return a + b  # a has one column, and b has one row


def add_outer(out, a, b, height, width):
    """out (height,width) = a (height,1) + b (1,width). About two lines."""
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    ### BEGIN SOLUTION
    if row < height and col < width:
        out[row * width + col] = a[row] + b[col]
    ### END SOLUTION


BROADCAST = Puzzle(
    text=(
        "`a` is a column of `height` numbers, and `b` is a row of `width` numbers. "
        "Each element of `out` is [the sum of the two](glossary.ipynb#broadcast) "
        "numbers in its row and its column. The one block has more threads than needed."
    ),
    spec=spec_broadcast,
    answer=add_outer,
    checks=dict(
        outputs={"out": ("height", "width")},
        inputs={"a": ("height", 1), "b": (1, "width")},
        **IN_ROWS,
    ),
    drawn=dict(height=2, width=2),
    launch=(1, (3, 3)),
    hints=[
        "All elements in a row of `out` use the same number of `a`. What do the "
        "elements in a column share?",
        "`a` and `b` are flat, and each has one dimension only. So one index is enough "
        "for `a`, and another one for `b`.",
        "The guard, and the index in `out`, are those of the previous puzzle.",
    ],
    better="Two reads and one write for each element: one number of `a`, one of `b`.",
    limits={
        "writes.out": lambda height, width: 2 * height * width,
        "rounds.out": 3,
    },
)


def spec_example(a):
    return -a


def negate(out, a):
    """out (n) = -a (n). One line."""
    i = cuda.threadIdx.x
    ### BEGIN SOLUTION
    out[i] = -a[i]
    ### END SOLUTION


EXAMPLE = Puzzle(
    name="example",
    title="Negate",
    text=(
        "Store each number of `a` in `out` with the opposite sign. There is one block, "
        "with a thread for each number."
    ),
    spec=spec_example,
    answer=negate,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n"},
        sizes=[1, 2, 3, 4, 7, 31, 32, 33],
        launch=[lambda n: (1, n)],
    ),
    drawn=dict(n=4),
    launch=(1, 4),
    hints=[
        "Every thread runs the same line, each with a different `i`.",
        "It reads one number and stores one at the same place.",
    ],
    better="One read and one write for each thread.",
)
