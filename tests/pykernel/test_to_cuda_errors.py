"""Code that cannot become CUDA C causes one error at its line, with a replacement."""

import numpy as np
import pytest
from numpy import float32, int64, uint64
from tiers import loop_over

from weft import ArgumentError, TranslationError, cuda, to_cuda

TABLE = np.arange(3.0)
LENGTHS = [1, 2]
half = lambda x: x / 2  # noqa: E731


def comprehension(x):
    s = [x[j] for j in range(3)]  # HERE
    x[0] = s[0]


def dictionary(x):
    d = {1: 2}  # HERE
    x[0] = d[1]


def text(x):
    name = "a"  # HERE
    x[0] = name


def formatted(x):
    name = f"{x[0]}"  # HERE
    x[0] = name


def tries(x):
    try:  # noqa: SIM105 HERE
        x[0] = 1
    except ValueError:
        pass


def opens(x):
    with x:  # HERE
        pass


def classy(x):
    class A:  # HERE
        pass


def nested(x):
    f = lambda y: y  # noqa: E731 HERE
    x[0] = f(1)


def slices(x):
    x[1:3] = 0  # HERE


def whole_array(x):
    x[0] = x.sum()  # HERE


def array_sum(x):
    y = x + 1  # HERE
    x[0] = y[0]


def keywords(x):
    x[0] = clamp(x[0], low=1)  # HERE


def clamp(x, low):
    return x if x > low else low


def walrus(x):
    if (y := x[0]) > 1:  # HERE
        x[0] = y


def returns(x):
    return x[0]  # HERE


def loops_over_an_array(x):
    for value in x:  # HERE
        x[0] += value


def late_loop_variable(x):
    for i in range(3):
        x[i] = 1
    x[i] = 2  # HERE


def same_loop_variable(x):
    for i in range(3):
        for i in range(2):  # HERE
            x[i] = 1


def changed_loop_variable(x):
    for i in range(3):
        i += 1  # HERE
        x[i] = 1


def for_else(x):
    for i in range(3):  # HERE
        x[i] = 1
    else:
        x[0] = 1


def from_the_end(x):
    x[-1] = 0  # HERE


def float_index(x):
    x[cuda.threadIdx.x / 2] = 0  # HERE


def too_few_indices(x):
    s = cuda.shared.array((4, 4), float32)
    s[0] = x[0]  # HERE


def shape_of_a_value(x):
    n = len(x)
    s = cuda.shared.array(n, float32)  # HERE
    x[0] = s[0]


def no_such_name(x):
    x[0] = nothing  # noqa: F821 HERE


def no_such_part_of_cuda(x):
    x[0] = cuda.threads.x  # HERE


def no_such_call_of_cuda(x):
    cuda.syncall()  # HERE


def two_dimensions_as_one(x):
    i = cuda.grid(2)  # HERE
    x[i] = 0


def a_global_array(x):
    x[0] = TABLE[0]  # HERE


def a_global_list(x):
    x[0] = LENGTHS[0]  # HERE


def calls_a_lambda(x):
    x[0] = half(x[0])  # HERE


def calls_numpy(x):
    x[0] = np.dot(x, x)  # HERE


def recursion(x):
    x[0] = factorial(3)


def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)  # HERE


def two_kinds(x):
    y = x
    y = 3  # HERE
    x[0] = y


def and_of_numbers(x):
    x[0] = x[1] and x[2]  # HERE


def identity(x):
    if x is None:  # HERE
        return


def too_large(x):
    n = 3000000000  # HERE
    x[0] = n


def no_common_type(x):
    x[0] = int64(x[0]) + uint64(3)  # HERE


def unknown_power(x):
    i = cuda.threadIdx.x - 3
    x[0] = 2**i  # HERE


def small_atomic(x):
    s = cuda.shared.array(4, np.int16)
    cuda.atomic.add(s, 0, 1)  # HERE
    x[0] = s[0]


def raises(x):
    if x[0] < 0:
        raise ValueError("negative")  # HERE


def stars(x):
    a, *b = x  # noqa: RUF059 HERE


KERNELS = [
    value
    for value in list(globals().values())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and value.__name__ not in ("clamp", "factorial", "<lambda>")
]


def marked(function):
    """Return the number of the line that contains HERE."""
    import inspect

    lines, first = inspect.getsourcelines(function)
    return next((first + i for i, line in enumerate(lines) if "HERE" in line), None)


@loop_over("kernel", KERNELS)
def test_it_is_an_error_at_its_line(kernel):
    with pytest.raises(TranslationError) as error_info:
        to_cuda(kernel, ["float32[:]"])
    error = error_info.value
    assert error.line == (marked(kernel) or marked(factorial))
    text = str(error)
    assert f"test_to_cuda_errors.py, line {error.line}, in" in text
    lines = text.splitlines()
    assert lines[2].strip() == "^" and lines[1].strip()
    # The caret is below code, not below a blank.
    assert lines[1][lines[2].index("^")].strip()
    assert len(lines) == 4 and lines[3].startswith("  hint: ") and error.hint


def test_the_way_to_write_it_is_named():
    def message(kernel):
        with pytest.raises(TranslationError) as error_info:
            to_cuda(kernel, ["float32[:]"])
        return str(error_info.value)

    assert "for loop over range()" in message(comprehension)
    assert "write x[i], with i = cuda.grid(1)" in message(array_sum)
    assert "x[n - 1]" in message(from_the_end)
    assert "cuda.const.array_like(TABLE)" in message(a_global_array)
    assert "int64(3000000000)" in message(too_large)


@pytest.mark.parametrize(
    ("types", "words"),
    [
        (["float31[:]"], "float31 is not a type of a kernel: use bool, int8"),
        (["float32[:]", "int"], r"takes 1 arguments \(x\), but 2 are given"),
        ([[1.0]], r"x is a list, .* pass np.array\(x\)"),
        ([np.zeros(2, complex)], "x: to_cuda does not support complex"),
        ([2**31], "becomes C's int, which is at most 2147483647: pass np.int64"),
        (["float32[x]"], "is not a type like 'float32', 'int'"),
        ("float32[:]", "types takes one type for each parameter"),
    ],
    ids=str,
)
def test_types_that_are_none(types, words):
    with pytest.raises(ArgumentError, match=words):
        to_cuda(returns, types)


@pytest.mark.parametrize("value", [3, "text", print, int])
def test_what_is_no_kernel(value):
    with pytest.raises(ArgumentError, match="a kernel is a Python function"):
        to_cuda(value, [])
