"""Map 2D: rows and columns."""

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a):
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
    """Grey values, from 0 (black) to 255 (white)."""
    return rng.integers(0, 256, shape)


puzzle = Puzzle(
    title="Map 2D",
    text=(
        "Compute the negative of the grey picture `a`: each pixel becomes 255 minus "
        "its value. The picture has `height` rows of `width` pixels, and both arrays "
        "are flat, [row after row](glossary.ipynb#row-major). The one block has two "
        "dimensions, and more threads than needed in both."
    ),
    spec=spec,
    answer=invert,
    checks=dict(
        outputs={"out": ("height", "width")},
        inputs={"a": ("height", "width")},
        sizes=every_size(
            [(1, 1), (2, 2), (1, 5), (5, 1), (3, 4), (4, 3), (7, 11), (13, 6)], (25, 30)
        ),
        launch=[
            lambda height, width: (1, (width + 1, height + 1)),
            lambda height, width: (1, (width + 3, height)),
            lambda height, width: (1, (width, height + 2)),
        ],
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
    better="Only the threads that have a pixel read and write, once each.",
    scored=dict(height=4, width=2, launch=(1, (8, 5))),
    limits={
        "writes.out": lambda height, width: height * width,
        "rounds.out": 3,
    },
)
