"""A refusal's guess is the actual mistake; each of these cases was once misjudged."""

import numpy as np
import pytest

from weft import Mismatch, check, cuda, inspect, load_cuda, sim
from weft.check.mistakes import WrongOutput, describe_pattern, describe_proof, guess
from weft.report.cures import in_python

float32 = np.float32


def refused(*args, **options):
    with pytest.raises(Mismatch) as raised:
        check(*args, **options)
    return str(raised.value)


# ---- races in place -----------------------------------------------------------------


def mirror_in_place(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] = x[n - 1 - i]


def mirror_through_a_variable(x, n):
    i = cuda.threadIdx.x
    value = x[n - 1 - i] if i < n else float32(0)
    cuda.syncthreads()
    if i < n:
        x[i] = value


def blur_in_place(x, n):
    i = cuda.grid(1)
    if 0 < i < n - 1:
        x[i] = (
            x[i - 1] + x[i]
            + x[i + 1]
        ) / float32(3)  # fmt: skip


def add_up(out, x, n):
    i = cuda.threadIdx.x
    if i < n:
        out[0] = out[0] + x[i]


def halve_without_a_barrier(x):
    i = cuda.threadIdx.x
    step = 32
    while step > 0:
        if i < step:
            x[i] += x[i + step]
        step //= 2


CELL = load_cuda(
    """
__global__ void mirror(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[n - 1 - i];
}
__global__ void blur(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (0 < i && i < n - 1)
        x[i] = (x[i - 1] + x[i]
                + x[i + 1]) / 3;
}
__global__ void add_up(float *out, const float *x, int n) {
    int i = threadIdx.x;
    if (i < n) out[0] = out[0] + x[i];
}
__global__ void left(float *y, const float *x) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = x[i]; y[i] = s[(i + 1) % 64];
}
""",
    target="cpu",
    name="test_suspicions.py",
)
BACKWARDS = {"inout": {"x": "n"}, "sizes": [4, 9], "launch": lambda n: (1, n)}


@pytest.mark.parametrize("kernel", [mirror_in_place, CELL.mirror])
def test_a_mirror_in_place_is_told_to_read_before_a_barrier(kernel):
    text = refused(kernel, lambda x: x[::-1], watched=True, **BACKWARDS)
    assert (
        "overwrites an element that another must still read: read into a variable"
        in text
    )
    assert "would not help" not in text
    check(mirror_through_a_variable, lambda x: x[::-1], **BACKWARDS)


@pytest.mark.parametrize("kernel", [mirror_in_place, CELL.mirror])
def test_blocks_in_place_are_told_that_they_need_a_second_array(kernel):
    options = {"inout": {"x": "n"}, "sizes": [4], "launch": (4, 1), "watched": True}
    text = refused(kernel, lambda x: x[::-1], **options)
    assert "no barrier holds for all blocks, so write into a second array" in text


def cures(kernel, grid, block, *args):
    watch = inspect if hasattr(kernel, "module") else sim
    report = watch(kernel, quiet=True)[grid, block](*args)
    return [in_python(finding) for finding in report.findings if finding.kind == "race"]


@pytest.mark.parametrize("kernel", [blur_in_place, CELL.blur])
def test_a_stencil_in_place_needs_a_variable_or_a_second_array_and_no_atomic(kernel):
    x = np.arange(64, dtype=float32)
    within = cures(kernel, 1, 64, x, 64)
    assert within and all("read into a variable" in cure for cure in within)
    by_block = cures(kernel, 64, 1, x, 64)
    assert by_block and all(cure.startswith("write into a second") for cure in by_block)


@pytest.mark.parametrize("kernel", [add_up, CELL.add_up])
def test_an_update_spelled_out_is_one_still(kernel):
    total, x = np.zeros(1, float32), np.ones(64, float32)
    assert all("in one step" in cure for cure in cures(kernel, 1, 64, total, x, 64))


def test_what_a_barrier_between_cures_is_told_so():
    x = np.zeros(64, float32)
    for texts in (
        # A barrier between the rounds cures the race.
        cures(halve_without_a_barrier, 1, 32, x),
        cures(CELL.left, 1, 64, x, x.copy()),  # two statements in one line
    ):
        assert texts and all("barrier between" in c or "()" in c for c in texts)
        assert not any("variable" in c or "in one step" in c for c in texts)


# ---- a padding that wins, and equals ------------------------------------------------


def argmax_padded_with_zeros(out, x, cols):
    s = cuda.shared.array(32, float32)
    at = cuda.shared.array(32, np.int32)
    col = cuda.threadIdx.x
    s[col] = x[cuda.blockIdx.x * cols + col] if col < cols else float32(0)
    at[col] = col
    half = 16
    while half > 0:
        cuda.syncthreads()
        if col < half and s[col + half] > s[col]:
            s[col] = s[col + half]
            at[col] = at[col + half]
        half //= 2
    if col == 0:
        out[cuda.blockIdx.x] = at[0]


def test_a_place_behind_the_row_is_no_choice_among_equals():
    """The larger rows fill their tiles, and are wrong only by a choice among equals."""
    text = refused(
        *(argmax_padded_with_zeros, lambda x: x.argmax(1)),
        outputs={"out": "int32[rows]"},
        inputs={"x": ("rows", "cols")},
        sizes=[{"rows": 2, "cols": 12}, {"rows": 9, "cols": 32}],
        launch=lambda rows: (rows, 32),
        data={"x": lambda rng, shape: rng.integers(-3, 0, shape)},
    )
    assert "past the end of the row" in text and "a negative one" in text
    assert "same number" not in text


@pytest.mark.parametrize(
    "got, words",
    [
        ([3, 0], "past the end"),  # the other position is right
        ([3, 1], "past the end"),  # the other position is one of two equals
        ([1, 1], "choice among equals"),
        ([3, 2], ""),  # the other position is neither
    ],
)
def test_a_place_that_no_row_has_shows_the_padding(got, words):
    x = np.array([[5, 5, 1], [7, 7, 2]], float32)
    scene = WrongOutput(
        *("out", np.int32(got), np.int32([0, 0]), np.zeros(2)),
        inputs={"x": x},
        axes={"x": ("m", "n")},
        output=("m",),
    )
    assert words in guess(scene) and bool(words) == ("position" in guess(scene))
    assert bool(describe_proof(scene)) == (3 in got and bool(words))


# ---- pictures upside down -----------------------------------------------------------


@pytest.mark.parametrize(
    "axes, expected, words",
    [
        ((0,), (1,), "x with its rows in reverse order instead of its columns"),
        ((1,), (0,), "x with its columns in reverse order instead of its rows"),
        ((0, 1), (1,), "x with its rows and columns in reverse order instead of"),
        ((), (0,), "x unchanged, where its rows should be in reverse order"),
        ((0,), (), "the result upside down"),
        ((1,), (), "the result mirrored"),
        ((0, 1), (), "the result rotated by 180 degrees"),
    ],
)
def test_the_axis_is_named_along_which_an_image_is_turned(axes, expected, words):
    error = refused(
        *(lambda x: np.flip(x, axes), lambda x: np.flip(x, expected)),
        inputs={"x": ("height", "width")},
        sizes=[(3, 4)],
    )
    assert f"looks like {words}" in error


def test_an_input_read_from_its_end_is_told_by_rows_or_whole():
    options = {"inputs": {"x": ("m", "n"), "w": "m"}, "sizes": [(4, 5)]}
    rows = refused(
        lambda x, w: w[:, None] * x[::-1], lambda x, w: w[:, None] * x, **options
    )
    assert "the rows of x read from the last to the first" in rows
    by_row = refused(
        lambda x, w: x[:, ::-1] + w[:, None] @ np.arange(5)[None],
        lambda x, w: x + w[:, None] @ np.arange(5)[None],
        **options,
    )
    assert "each row of x read from its end to its start" in by_row


# ---- the size that decides ----------------------------------------------------------


def product_of_full(full_sizes):
    """Return a matmul that assumes that `full_sizes` are multiples of tiles."""
    text = """
__global__ void product(float *c, const float *a, const float *b, int m, int n, int k) {
    int row = blockIdx.y * 4 + threadIdx.y, left = blockIdx.x * 8 + threadIdx.x;
    int rows = %s, cols = %s, inner = %s;
    for (int col = left; col < left + 8; col += 4) {
        float acc = 0;
        for (int i = 0; i < inner; i++)
            if (row < m && col < n) acc += a[row * k + i] * b[i * n + col];
        if (row < rows && col < cols) c[row * n + col] = acc;
    }
}"""
    tiles = {"m": "m / 4 * 4", "n": "n / 8 * 8", "k": "k / 4 * 4"}
    cell = text % tuple(tiles[name] if name in full_sizes else name for name in "mnk")
    return load_cuda(cell, target="cpu", name="test_suspicions.py product")


@pytest.mark.parametrize(
    "names, words",
    [
        ("m", "m is a multiple of the block's y: look at the last block, "),
        ("n", "n is a multiple of 2 times the block's x: look at the last block, "),
        ("k", "k is a multiple of the block's x: look at the last tile, "),
        ("mk", "m is a multiple of the block's y and k is a multiple of the block's"),
    ],
)
def test_of_sizes_that_are_odd_together_the_one_that_counts_is_named(names, words):
    """In each of the puzzle's sizes, either all three fill their tiles or none does."""
    error = refused(
        *(product_of_full(names), np.matmul),
        outputs={"c": ("m", "n")},
        inputs={"a": ("m", "k"), "b": ("k", "n")},
        sizes=[(4, 8, 4), (8, 16, 8), (2, 6, 3), (5, 9, 7), (3, 12, 13)],
        launch=lambda m, n: ((-(-n // 8), -(-m // 4)), (4, 4)),
    )
    assert f"It is right only where {words}" in error


def only_first_columns(y, x, rows, cols):
    col, row = cuda.threadIdx.x, cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < rows and col < cols:
        y[row * cols + col] = x[row * cols + col]


def test_one_block_is_enough_for_one_of_two_sizes():
    shape = ("rows", "cols")
    error = refused(
        *(only_first_columns, lambda x: x),
        outputs={"y": shape},
        inputs={"x": shape},
        sizes=[(3, 4), (4, 3), (9, 9), (5, 6)],
        block=(4, 4),
    )
    assert "one block is enough for cols" in error


def test_sizes_that_nothing_tells_apart_are_all_named():
    rows = [(8, 8), (16, 16), (7, 9), (9, 7)]
    runs = [({"m": m, "n": n}, (8, 8, 1), m % 8 == 0) for m, n in rows]
    text = describe_pattern(runs, {"n": 0, "m": 1})
    assert (
        "m is a multiple of the block's y and n is a multiple of the block's x" in text
    )
    ones = [({"m": n, "n": n}, (8, 8, 1), n > 1) for n in (1, 2, 5)]
    assert describe_pattern(ones) == "It is wrong only where m and n are 1."


# ---- blocks at a wrong distance -----------------------------------------------------


def literal(step):
    text = """
__global__ void copy(float *y, const float *x, int n) {
    int i = blockIdx.x * %s + threadIdx.x;
    if (i < n) y[i] = x[i];
}"""
    return load_cuda(text % step, target="cpu", name=f"test_suspicions.py {step}")


@pytest.mark.parametrize(
    "step, words",
    [
        (
            7,
            "blockDim.x is needed: with blocks of 5, no thread writes y[5]; it depends",
        ),
        (3, "of 5, two threads write y[3] and none y[8]; it depends on blocks of 3"),
        ("gridDim.x", "gridDim.x where blockDim.x is needed"),
        (1, "blockIdx.x without blockDim.x: each block begins one element after"),
    ],
)
def test_a_literal_where_the_blocks_length_is_due_is_told_from_what_was_written(
    step, words
):
    error = refused(
        *(literal(step), lambda x: x),
        outputs={"y": "n"},
        inputs={"x": "n"},
        sizes=[2, 6, 7, 9, 14, 23],
        launch=[lambda n: (-(-n // 5), 5)],
    )
    assert words in error and "last element" not in error


def test_too_few_blocks_of_their_number_of_threads_are_too_few_blocks():
    """If gridDim.x equals blockDim.x, the guess does not blame a mix-up of the two."""
    error = refused(
        *(literal(4), lambda x: x),
        outputs={"y": "n"},
        inputs={"x": "n"},
        sizes=[4, 17, 31],
        launch=lambda n: (4, 4),
    )
    assert "from 16 on, for which no threads are left" in error
    assert "gridDim" not in error


def but_the_last(y, x, n):
    i = cuda.grid(1)
    if i < n - 1:
        y[i] = x[i]


def test_a_last_element_that_is_missing_is_no_literal():
    """At n = 8, blocks of 4 that begin 3 apart would also omit the last element."""
    error = refused(
        *(but_the_last, lambda x: x),
        outputs={"y": "n"},
        inputs={"x": "n"},
        sizes=[8, 11],
        launch=lambda n: (-(-n // 4), 4),
    )
    assert "the last element is never written" in error and "literal" not in error
