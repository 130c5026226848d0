"""check() refuses the wrong kernels of wrong_kernels.py, and accepts the right ones."""

import re
import warnings

import numpy as np
import pytest
import torch
import wrong_kernels as zoo

from weft import ArgumentError, Mismatch, check, cuda, cuda_c, load_cuda
from weft.check import plan
from weft.check.cases import count_dimensions, cover_elements, default_sizes, parse_spec
from weft.check.mistakes import WrongOutput, describe_pattern, guess
from weft.check.runners import FunctionTooLong, make_runners, time_limit


def name(case):
    subject = case[0]
    kernel = getattr(subject, "kernel", subject)
    runner = type(subject).__module__.rpartition(".")[2]
    return f"{runner}-{getattr(kernel, '__name__', '')}"


@pytest.mark.parametrize("case", zoo.WRONG, ids=map(name, zoo.WRONG))
def test_every_wrong_kernel_is_refused_for_what_it_does(case):
    subject, reference, options, words = case
    with pytest.raises(Mismatch) as refused:
        check(subject, reference, **options)
    assert re.search(words, str(refused.value)), str(refused.value)


@pytest.mark.parametrize("case", zoo.RIGHT, ids=map(name, zoo.RIGHT))
def test_every_right_kernel_is_accepted(case):
    subject, reference, options = case
    verdict = check(subject, reference, **options)
    assert verdict.runs >= 3 and 0 <= verdict.worst <= 1
    assert repr(verdict).startswith(f"{verdict.name} is right: {verdict.runs} runs")


# ---- the text of a refusal -------------------------------------------------------

CELL = load_cuda(
    """
__global__ void add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = i == 70 ? 5.0f : a[i] + b[i];
}
__global__ void scale(double *y, const double *x, double by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i];
}
template <class T> __global__ void fill(T *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(3);
}
__global__ void axpy(float *y, const float *x, float by, int n) {
    extern __shared__ float room[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    room[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] += by * room[threadIdx.x];
}
""",
    target="cpu",
    name="test_check.py",
)
IO = {"outputs": {"c": "n"}, "inputs": {"a": "n", "b": "n"}}


def refused(*args, **options):
    with pytest.raises(Mismatch) as raised:
        check(*args, **options)
    return raised.value


def test_a_refusal_has_element_block_thread_values_and_launch():
    error = refused(CELL.add, np.add, sizes=[64, 100], block=32, **IO)
    assert error.index == (70,) and error.array == "c"
    assert error.block == (2, 0, 0) and error.thread == (6, 0, 0)
    assert error.got == 5 and abs(error.want) < 5
    assert error.sizes == {"n": 100} and error.launch_block == (32, 1, 1)
    assert error.wrong == 1 and error.total == 100
    text = str(error)
    assert text.startswith(
        "add is wrong with n=100, grid 4, block 32: c[70] is 5, expected"
    )
    assert "1 of 100 elements are wrong" in text
    assert "thread (6,0,0) of block (2,0,0)" in text


def test_a_guess_is_left_out_where_nothing_fits():
    error = refused(CELL.add, np.add, sizes=[100], block=32, **IO)
    assert error.guess == "" and "looks like" not in str(error)


def test_an_order_of_threads_that_changes_the_result_is_named():
    subject, reference, options = zoo.CUDA.c_reverse, zoo.sum_reference, zoo.SUM
    error = refused(subject, reference, **options)
    assert "out[0] is" in error.guess and "reverse" in str(error)


def test_what_the_function_itself_raises_comes_through_with_a_note():
    def stub(a, b):
        raise NotImplementedError

    def slip(a, b):
        return a + undefined  # noqa: F821

    with pytest.raises(NotImplementedError):
        check(stub, np.add, inputs=IO["inputs"])
    with pytest.raises(NameError) as error:
        check(slip, np.add, inputs=IO["inputs"])
    assert error.value.__notes__ == ["check: with n=1"]


def test_a_stub_of_a_kernel_is_not_solved_yet():
    def bare(c, a, b, n):
        raise NotImplementedError("here")

    def begun(c, a, b, n):
        i = cuda.grid(1)
        if i < n:
            raise NotImplementedError

    for stub in (bare, begun):
        for options in ({}, {"block": 8}):
            if stub is begun or options:
                with pytest.raises(NotImplementedError):
                    check(stub, np.add, **IO, **options)
    with pytest.raises(NotImplementedError):
        check(bare, np.add, **IO)


def test_what_runs_go_wrong_is_told_where_a_rule_fits_them_all():
    def told(*runs, along=None):
        return describe_pattern([({"n": n}, (b, 1, 1), ok) for n, b, ok in runs], along)

    assert "only where n is 1" in told((1, 8, False), (2, 8, True), (9, 8, True))
    full = (8, 8, True), (16, 8, True), (7, 8, False), (9, 8, False)
    assert "n is a multiple of the block's x" in told(*full)
    assert told(*full, along={"n": 1}) == ""  # n runs along another side of the block
    one_block = (3, 8, True), (8, 8, True), (9, 8, False), (40, 8, False)
    assert "one block is enough for n" in told(*one_block)
    fixed = (8, 8, True), (9, 8, True), (8, 4, False), (9, 4, False)
    assert "blocks of 8 only" in told(*fixed)
    assert told((1, 8, True), (2, 8, True)) == told((1, 8, False)) == told() == ""


# ---- arguments of every kind -----------------------------------------------------


def test_values_templates_doubles_inout_and_shared_memory():
    options = {"outputs": {"y": "n"}, "inputs": {"x": "n"}, "sizes": [1, 33]}
    check(CELL.scale, lambda x, by: by * x, values={"by": 0.3}, **options)
    threes = {"outputs": {"y": "n"}, "sizes": [5]}
    check(CELL.fill["int"], lambda n: np.full(n, 3), **threes)
    axpy = {"inout": {"y": "n"}, "inputs": {"x": "n"}}
    axpy |= {"values": {"by": lambda rng: float(rng.integers(1, 9))}}
    axpy |= {"shared": lambda block: 4 * block}
    for launch in None, lambda n: (-(-n // 8), 8):
        check(CELL.axpy, lambda y, x, by: y + by * x, launch=launch, **axpy)


def test_a_double_is_held_to_a_doubles_precision():
    options = {"outputs": {"y": "n"}, "inputs": {"x": "n"}, "sizes": [50]}
    factor = 0.3 * (1 + 1e-12)
    error = refused(CELL.scale, lambda x: factor * x, values={"by": 0.3}, **options)
    assert error.wrong == 50


def test_several_outputs_lists_and_expressions_of_sizes():
    def both(a):
        return [x + y for x, y in zip(a[1:], a)], sum(a)

    reference = lambda a: (a[1:] + a[:-1], a.sum())  # noqa: E731
    check(both, reference, inputs={"a": "n + 1"})
    error = refused(both, lambda a: (a[1:] + a[:-1], 2 * a.sum()), inputs={"a": "n+1"})
    assert error.array == "result 1" and "result 1 is " in str(error)


def test_a_flat_body_gets_flat_arrays_and_a_2d_body_shaped_ones():
    by_flat, by_2d = zoo.matmul, zoo.matmul_2d
    (flat,), (matrix,) = (
        make_runners(by_flat, True, None),
        make_runners(by_2d, True, None),
    )
    assert flat.flat("a") and not matrix.flat("a")
    assert flat.dimensions == matrix.dimensions == 2


def test_the_same_size_is_asked_with_other_data():
    data = []
    check(
        lambda a: data.append(a.copy()) or a, lambda a: a, inputs={"a": 8}, sizes=[()]
    )
    assert len(data) == 2 and not np.array_equal(*data)
    again_data = []
    check(lambda a: again_data.append(a.copy()) or a, lambda a: a, inputs={"a": 8})
    assert np.array_equal(data[0], again_data[0])  # every run draws the same numbers


def test_a_byte_or_a_bool_that_is_never_written_is_noticed():
    cell = load_cuda(
        "__global__ void k(bool *y, unsigned char *z, const float *x, int n) {}",
        target="cpu",
    )
    for name, fill in (("y", np.zeros), ("y", np.ones)):
        outputs = {name: "n", "z": "n"}
        refused(cell.k, lambda n, fill=fill: (fill(n, bool), np.full(n, 85)),
                outputs=outputs, inputs={"x": "n"}, sizes=[7, 8], block=8)  # fmt: skip


# ---- bounds --------------------------------------------------------------------------


def test_a_bound_follows_from_the_terms_of_the_sum():
    def off(a, b):
        exact = a.astype(float) @ b
        size = np.abs(a).astype(float) @ np.abs(b)
        return exact + size * 2.0**-24 * (1.01 * a.shape[1] + 0.5)

    sizes = {"inputs": zoo.PAIR["inputs"], "sizes": [(4, 6, 5)]}
    assert 0.3 < check(off, np.matmul, **sizes).worst < 1  # it allows k + 8 terms
    check(off, np.matmul, terms="k + 1", **sizes)
    refused(off, np.matmul, terms="k", **sizes)
    refused(off, np.matmul, terms=lambda k: k, **sizes)
    check(off, np.matmul, bound=lambda a, b: 1e-5 + 0 * (a @ b), **sizes)
    refused(off, np.matmul, bound=lambda want: 1e-9, **sizes)


def softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def test_a_sum_that_the_sizes_do_not_tell_is_asked_of_the_reference():
    """Each element of a softmax depends on its row's sum, which is added in order."""

    def off(x):
        return softmax(x.astype(float)) * (1 + 2.0**-24 * (x.shape[1] + 6))

    options = {"inputs": {"x": ("rows", "cols")}, "sizes": [(4, 141)]}
    assert 0.9 < check(off, softmax, **options).worst < 1
    refused(off, softmax, terms=9, **options)  # the number that the sizes alone imply
    inexact = lambda x: x * (1 + 2.0**-24 * 9.5)  # noqa: E731
    refused(inexact, lambda x: x, **options)  # a map has no such sum
    running = lambda x: x.cumsum(1) * (1 + 2.0**-24 * 140)  # noqa: E731
    check(running, lambda x: x.cumsum(1), **options)


SERIAL = load_cuda(
    """
__global__ void softmax(float *y, const float *x, int rows, int cols) {
    const float *row = x + blockIdx.x * cols;
    float most = -INFINITY, sum = 0;
    for (int i = 0; i < cols; i++) most = fmaxf(most, row[i]);
    for (int i = 0; i < cols; i++) sum += expf(row[i] - most);
    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        y[blockIdx.x * cols + i] = expf(row[i] - most) / sum;
}
""",
    target="cpu",
    name="test_check.py softmax",
)


def test_a_right_softmax_is_right_at_the_sizes_of_a_block():
    shape = ("rows", "cols")
    check(
        *(SERIAL.softmax, softmax),
        outputs={"y": shape},
        inputs={"x": shape},
        grid=lambda rows, cols, block: rows,
        block=64,
    )


def test_a_reference_that_refuses_other_inputs_is_not_asked_for_its_terms():
    def strict(a):
        if (a != a.round()).any():
            raise RuntimeError("whole numbers only")
        return a

    data = {"a": lambda rng, shape: rng.integers(0, 9, shape)}
    check(strict, strict, inputs={"a": "n"}, data=data, sizes=[5])


def test_whole_numbers_are_exact_and_so_are_copies_on_request():
    ints = {"inputs": {"a": "int32[n]"}}
    assert "every bit as expected" in repr(
        check(lambda a: a * 2, lambda a: a + a, **ints)
    )
    refused(lambda a: a * 2 + (a == a.max()), lambda a: a + a, **ints)
    floats = {"inputs": {"a": "n"}, "terms": 0}
    check(lambda a: a[::-1], lambda a: a[::-1], **floats)
    refused(lambda a: a * np.float32(1 + 2e-7), lambda a: a, **floats)


def test_an_infinity_that_is_wanted_takes_no_other_number():
    reference = lambda a: np.where(a > 0, np.inf, 1.0)  # noqa: E731
    check(reference, reference, inputs={"a": 20})
    refused(lambda a: np.ones(20), reference, inputs={"a": 20})


def test_infinite_inputs_cause_no_warning():
    make = {"a": lambda rng, shape: rng.choice([-np.inf, 1.0], shape)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"terms": 0}):
            check(np.negative, np.negative, inputs={"a": 20}, data=make, **options)


# ---- plans -------------------------------------------------------------------------


def test_sizes_lie_around_a_block_and_its_launches_cover_them():
    rows = [row["n"] for row in default_sizes(["n"], {"n": 64}, 10**6)]
    assert {1, 2, 3, 63, 64, 65, 1009} <= set(rows) and 7 in rows
    for row in default_sizes(list("mnk"), {"m": 16, "n": 8}, 5000):
        assert np.prod(list(row.values())) <= 5000
    assert cover_elements((33, 17), (16, 8, 1), 2).grid == (2, 5, 1)
    assert cover_elements((2, 3, 33, 17), (16, 8, 2), 3).grid == (2, 5, 3)
    assert cover_elements((2, 33), (32, 1, 1), 1).grid == (3, 1, 1)


def test_the_axes_of_threads_are_read_from_the_source():
    assert count_dimensions("cuda.grid(2)") == count_dimensions("threadIdx . y") == 2
    assert count_dimensions("blockIdx.z + threadIdx.x") == 3
    assert count_dimensions("int x = p.y; grid(1)") == count_dimensions("") == 1


def test_several_launch_shapes_are_tried_by_default():
    verdict = check(zoo.CUDA.c_add, np.add, **IO)
    assert len({block for _, block in verdict.shapes}) == 4
    assert verdict.orders == 3 and verdict.runs == 3 * len(verdict.shapes)
    assert any(block[0] & (block[0] - 1) for _, block in verdict.shapes)


def test_cases_that_are_to_be_first_are_first_and_once():
    launch = lambda n: (1, n)  # noqa: E731
    first = [({"n": 4}, (1, 8)), ({"n": 3}, (1, 3))]
    verdict = check(CELL.add, np.add, sizes=[3, 5], launch=launch, first=first, **IO)
    cases = [(grid[0], block[0]) for grid, block in verdict.shapes]
    assert cases == [(1, 8), (1, 3), (1, 5)]
    error = refused(CELL.add, np.add, sizes=[3], first=[(71, (9, 8))], **IO)
    assert error.sizes == {"n": 71} and error.block is None
    options = {"inputs": {"a": "n"}, "sizes": [2], "first": [({"n": 6}, None)]}
    assert check(np.negative, np.negative, **options).sizes == [{"n": 6}, {"n": 2}]


RACE = """
__global__ void left(float *y, const float *x, int n) {
    __shared__ float s[64];
    int i = threadIdx.x;
    s[i] = i < n ? x[i] : 0;
    %s
    if (i < n) y[i] = s[i > 0 ? i - 1 : 0];
}
"""


@pytest.mark.parametrize("barrier", ["", "if (i < n) __syncthreads();"])
def test_cuda_c_that_is_watched_is_refused_for_what_the_check_build_finds(barrier):
    expected = lambda x: np.append(x[:1], x[:-1])  # noqa: E731
    options = {"outputs": {"y": "n"}, "inputs": {"x": "n"}, "sizes": [5]}
    options |= {"launch": lambda n: (1, 8), "watched": True}
    error = refused(load_cuda(RACE % barrier, target="cpu"), expected, **options)
    assert "barrier" in str(error) and error.thread is not None
    correct = RACE % "__syncthreads();"
    assert check(load_cuda(correct, target="cpu"), expected, **options).runs == 3


def test_a_python_kernel_as_cuda_c_is_watched_too():
    options = {"outputs": {"y": "n"}, "inputs": {"x": "n"}, "sizes": [5]}
    options |= {"launch": lambda n: (1, 8), "watched": True}
    error = refused(cuda_c(unwaited), lambda x: np.append(x[:1], x[:-1]), **options)
    assert "barrier" in str(error) and error.thread is not None


def unwaited(y, x, n):
    s = cuda.shared.array(64, np.float32)
    i = cuda.threadIdx.x
    if i < n:
        s[i] = x[i]
        y[i] = s[max(i - 1, 0)]


# ---- invalid arguments -------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "options", "words"),
    [
        (3, {}, "takes a kernel or a function, not 3 of type int"),
        (zoo.CUDA.c_add, {}, 'is a kernel: describe its outputs, e.g. outputs={"c"'),
        (zoo.CUDA.c_add, {"outputs": {"q": "n"}}, "no parameter q; it has c, a, b, n"),
        (zoo.CUDA, IO, "10 kernels .*: choose one"),
        (CELL.fill, {"outputs": {"y": "n"}}, "fill is a template"),
        (zoo.CUDA.c_add, IO | {"inout": {"c": "n"}}, "c: given twice"),
        (zoo.CUDA.c_add, IO | {"bound": 1e-5}, "bound=1e-05: .* as terms="),
        (zoo.CUDA.c_add, IO | {"sizes": []}, "sizes is empty"),
        (zoo.CUDA.c_add, IO | {"sizes": [(1, 2)]}, r"gives 2 of 1 sizes \(n\)"),
        (zoo.CUDA.c_add, IO | {"sizes": [{"m": 1}]}, "shapes and parameters: n"),
        (zoo.CUDA.c_add, IO | {"sizes": [1.5]}, "expected whole numbers"),
        (zoo.CUDA.c_add, IO | {"block": "x"}, "one to three ints"),
        (zoo.CUDA.c_add, IO | {"block": 1025, "sizes": [1]}, "1025"),
        (zoo.CUDA.c_add, IO | {"launch": 5}, r"expected \(grid, block\)"),
        (zoo.CUDA.c_add, IO | {"launch": (1, 1), "block": 2}, "not both"),
        (zoo.CUDA.c_add, IO | {"inputs": {"a": "n +", "b": "n"}}, "is not a size"),
        (zoo.CUDA.c_add, IO | {"dtypes": {"a": "float23"}}, "not a dtype"),
        (zoo.CUDA.c_add, IO | {"data": {"a": lambda: np.ones(9)}}, r"shape \(9,\)"),
        (zoo.CUDA.c_add, IO | {"terms": "q"}, "'q' is not defined"),
        (zoo.lists, {}, 'describe its inputs, e.g. inputs={"a"'),
        (zoo.lists, zoo.PAIR | {"block": 3}, "plain function: it has no launch"),
        (lambda a: None, {"inputs": {"a": "n"}}, "returns None: return the result"),
        (lambda a: "no", {"inputs": {"a": "n"}}, "returns 'no' for result: expected"),
        (lambda a: (a, a), {"inputs": {"a": "n"}}, "returns result 0, result 1"),
    ],
)  # fmt: skip
def test_bad_use_is_one_line_that_says_what_to_do(subject, options, words):
    options = {"inputs": {}, **options}
    reference = np.add if len(options["inputs"]) == 2 else np.abs
    with pytest.raises(ArgumentError, match=words) as error:
        check(subject, reference, **options)
    assert "\n" not in str(error.value)


def test_a_reference_that_does_not_fit_is_said_so():
    with pytest.raises(
        ArgumentError, match=r"gives c the shape \(2,\), but outputs= gives \(1,\)"
    ):
        check(zoo.CUDA.c_add, lambda a, b: np.ones(len(a) + 1), **IO)
    with pytest.raises(ArgumentError, match="the reference must be a function"):
        check(zoo.CUDA.c_add, 5, **IO)


def test_a_dimension_may_be_typed_computed_or_a_function():
    spec = parse_spec("x", "uint8[n, min(m, 3), 2]", {})
    assert spec.dtype == np.uint8 and spec.symbols == ["n", "m"]
    assert spec.shape({"n": 4, "m": 9}) == (4, 3, 2) and spec.axes == ("n", "", "")
    assert parse_spec("x", lambda n: n // 2, {}).shape({"n": 9}) == (4,)
    assert parse_spec("x", torch.ones(2, 3), {}).shape({}) == (2, 3)


def test_a_time_limit_ends_a_loop_of_python_and_nothing_after_it():
    def loop():
        with time_limit("loop", 0.05):
            while True:
                pass

    with pytest.raises(FunctionTooLong, match="loop ran longer than 0.05 s"):
        loop()
    with time_limit("quick", 60):
        pass


def test_a_kernel_is_known_by_the_names_it_uses():
    def helper():
        return cuda.grid(1)

    def kernel(c):
        c[helper()] = 1

    def plain(c):
        c[0] = 1

    kinds = [type(make_runners(f, True, None)[0]).__name__ for f in (kernel, plain)]
    assert kinds == ["SimulatedRunner", "InPlaceRunner"]


def test_a_verdict_shows_itself_in_a_notebook():
    verdict = check(CELL.scale, lambda x, by: by * x, outputs={"y": "n"},
                    inputs={"x": "n"}, values={"by": 2.0}, sizes=[3])  # fmt: skip
    page = verdict._repr_html_()
    assert "<code>scale</code> is right" in page and "color:#009E73" in page
    assert plan.plan_cases.__doc__


def mirrored(x):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 64 + t
    s[t] = x[i]
    cuda.syncthreads()
    x[i] = s[64 - t]


def test_in_a_launch_that_was_asked_for_the_index_is_wrong_not_the_block():
    with pytest.raises(Mismatch, match="index that leaves s at one end"):
        check(
            mirrored,
            lambda x: x[::-1],
            inout={"x": "64 * blocks"},
            sizes=[1],
            launch=lambda blocks: (blocks, 64),
        )


def unguarded_columns(y, x, height, width):
    col, row = cuda.grid(2)
    y[row * width + col] = x[min(row, height - 1) * width + min(col, width - 1)]


def late(y, x, n):
    i = cuda.grid(1) + 1
    y[i] = x[i]


def x_for_rows(y, x, height, width):
    row, col = cuda.grid(2)
    if row < height and col < width:
        y[row * width + col] = x[row * width + col]


def first_block(y, x, height, width):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    if row < height and col < width:
        y[row * width + col] = x[row * width + col]


def one_each(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i]


def only_six(y, x, n):
    i = cuda.grid(1)
    if i < n == 6:
        y[i] = x[i]


def one_for_a_block(y, x, n):
    i = cuda.blockIdx.x
    if i < n:
        y[i] = x[i]


def into_itself(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] += x[i]


@pytest.mark.parametrize(
    "kernel, sizes, launch, words",
    [  # the launch faults at row 5, after races with other blocks
        (
            unguarded_columns,
            (5, 6),
            ((2, 2), (4, 4)),
            "guard.*row would be 5; the last",
        ),
        (late, 4, (1, 4), r"wrong index rather than .* this thread has y\[3\]"),
        (
            x_for_rows,
            (5, 8),
            ((4, 2), (2, 3)),
            "x and y swapped .* from 6 on are never",
        ),
        (first_block, (5, 8), ((4, 2), (2, 3)), "first 3 rows of 2 are never written"),
        (one_each, 15, (2, 3), "from 6 on, for which no threads are left"),
        (one_for_a_block, 15, (5, 3), "one element for each block and no more"),
        (into_itself, 4, (1, 4), "must be written before it is read"),
    ],
)
def test_what_a_launch_that_was_asked_for_explains(kernel, sizes, launch, words):
    shape = "n" if isinstance(sizes, int) else ("height", "width")
    arrays = dict(outputs={"y": shape}, inputs={"x": shape})
    with pytest.raises(Mismatch, match=words):
        check(kernel, lambda x: x, **arrays, sizes=[sizes], launch=launch)


def test_nobody_is_told_to_say_block_who_was_given_the_launch():
    arrays = dict(outputs={"y": "n"}, inputs={"x": "n"}, sizes=[4, 6, 7, 9])
    with pytest.raises(Mismatch, match="right only at n=6, one of 4 runs") as refused:
        check(only_six, lambda x: x, **arrays, launch=lambda n: (1, n))
    assert "say block" not in str(refused.value)


def unguarded_mirror(y, x, height, width):
    col, row = cuda.grid(2)
    y[row * width + col] = x[row * width + width - 1 - col]


def test_a_thread_beyond_the_edge_lacks_a_guard_though_its_index_is_negative():
    image = ("height", "width")
    with pytest.raises(Mismatch, match=r"reads x\[-1\](.|\n)*missing guard"):
        check(
            *(unguarded_mirror, lambda x: x[:, ::-1]),
            outputs={"y": image},
            inputs={"x": image},
        )


def total_of(total, x, n):
    i = cuda.grid(1)
    s = cuda.shared.array(64, np.float32)
    s[cuda.threadIdx.x] = x[i] if i < n else np.float32(0)
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for k in range(64):
            total[0] += s[k]


def test_blocks_that_race_are_not_asked_about_their_index():
    with pytest.raises(Mismatch, match="only as long as one block") as refused:
        check(
            *(total_of, lambda total, x: total + x.sum()),
            inout={"total": 1},
            inputs={"x": "n"},
            launch=lambda n: (-(-n // 64), 64),
            terms="n",
        )
    assert "threadIdx" not in str(refused.value)


@pytest.mark.parametrize(
    "got, want, words",
    [
        ([2.0], [6.0], "looks like off by a factor of 3: it is 1/3 of what"),
        ([6.0], [2.0], "looks like off by a factor of 3: it is 3 times what"),
        ([-2.0], [6.0], "looks like off by a factor of 3: it is minus 1/3 of"),
        ([1.0, 20, 30], [3.0, 20, 30], "factor of 3: the one wrong element is 1/3"),
        ([0.96], [1.0], "^$"),  # one number reveals little about precision
        ([5.0], [2.0], "^$"),
    ],
)
def test_a_single_wrong_element_is_no_low_precision(got, want, words):
    bound = np.full(len(want), 1e-6)
    scene = WrongOutput("y", np.float32(got), np.float32(want), bound)
    assert re.search(words, guess(scene))
