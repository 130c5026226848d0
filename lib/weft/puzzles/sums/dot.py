"""Dot: many products, one sum."""

from numpy import float32

from weft import cuda

from ..puzzle import Puzzle
from ..sizes import every_size


def spec(a, b):
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


puzzle = Puzzle(
    title="Dot",
    text=(
        "`out[0]` is [the sum of the products](glossary.ipynb#dot-product) `a[i] * "
        "b[i]`. There is one block of 8 threads, and `n` is at most 8. Each thread may "
        "read one number of `a` and one of `b`, and `out` is written once."
    ),
    spec=spec,
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
        "With eight numbers a single thread may do the adding, in a local variable "
        "that starts as `float32(0)`. It stores the sum in `out` at the end.",
    ],
    better=(
        "Each number is read once and `out` written once. With so few products one "
        "barrier is enough, if one thread adds them; a tree has more barriers."
    ),
    limits={
        "reads.a": lambda n: n,
        "reads.b": lambda n: n,
        "writes.out": 1,
        "lanes.a": 8,
        "atomics": 0,
    },
    budget={"barriers": 4},  # of the lesson's tree
)
