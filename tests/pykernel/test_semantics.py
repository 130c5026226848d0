"""Check the table in pykernel/to_cuda/__init__.py on each runner."""

import re

import numpy as np
import pytest
from numpy import float32, int32

from weft import KernelFault, cuda, cuda_c, inspect, sim, to_cuda


def weak_float(out, x, u):
    out[0] = 0.1 * x[0]


def among_floats(out, x, u):
    out[0] = 0.1 + 0.2


def mixed(out, x, u):
    out[0] = int32(16777217) + float32(0.25)


def index_and_float(out, x, u):
    i = cuda.threadIdx.x + 16777217
    out[0] = i + x[1]


def quotient(out, x, u):
    out[0] = int32(1) / int32(3)


def floors(out, x, u):
    n = cuda.threadIdx.x - 7
    out[0] = n // 2 * 100 + n % 5


def overflow(out, x, u):
    out[0] = int32(2147483647) + int32(2)


def compared(out, x, u):
    out[0] = 1 if int32(-1) < u[0] else 2


def square(out, x, u):
    out[0] = x[0] ** 2


def by_zero(out, x, u):
    out[0] = x[0] / x[1]


ROWS = {
    weak_float: (float(np.float32(0.1) * np.float32(3)), "0.1f * x[0]"),
    among_floats: (0.1 + 0.2, "0.1 + 0.2"),
    mixed: (16777217.25, "(double)16777217 + 0.25f"),
    index_and_float: (16777216.0, "i + x[1]"),
    quotient: (1 / 3, "1.0 / 3"),
    floors: (-400 + 3, "floor_div(n, 2) * 100 + floor_mod(n, 5)"),
    overflow: (-2147483647.0, "2147483647 + 2"),
    compared: (1.0, "(long long)u[0]"),
    square: (9.0, "x[0] * x[0]"),
    by_zero: (np.inf, "x[0] / x[1]"),
}


def arguments():
    return np.zeros(1), np.array([3, 0], np.float32), np.array([7], np.uint32)


@pytest.mark.parametrize("kernel", ROWS, ids=lambda k: k.__name__)
def test_sim_and_c_compute_the_same_and_c_reads_like_that(kernel):
    expected, text = ROWS[kernel]
    with np.errstate(all="ignore"):
        for run in (sim(kernel, quiet=True), cuda_c(kernel)):
            args = arguments()
            run[1, 1](*args)
            assert args[0][0] == expected
    assert text in to_cuda(kernel, arguments())


def test_whole_division_by_zero():
    def divide(out, a, b):
        out[0] = a[0] // b[0]

    args = np.full(1, 9, "i4"), np.ones(1, "i4"), np.zeros(1, "i4")
    with np.errstate(all="ignore"):
        sim(divide, quiet=True)[1, 1](*args)
    assert args[0][0] == 0
    with pytest.raises(KernelFault, match="divided an integer by zero"):
        cuda_c(divide)[1, 1](*args)


def test_what_c_leaves_open_is_told_of_where_the_c_is_watched():
    def shifts_and_casts(out, a, x):
        out[0] = a[0] << 40
        out[1] = a[1] >> 40
        out[2] = int32(x[0])

    def args():
        return np.ones(3, "i4"), np.array([256, -3], "i4"), np.array([1e12], "f4")

    arrays = args()
    sim(shifts_and_casts, quiet=True)[1, 1](*arrays)
    assert arrays[0].tolist() == [0, -1, 2**31 - 1]
    findings = inspect(cuda_c(shifts_and_casts), quiet=True)[1, 1](*args()).findings
    numbers = [re.search(r"a GPU gives (-?\d+)", one.text) for one in findings]
    assert [int(one[1]) for one in numbers] == arrays[0].tolist()


def test_a_python_int_beyond_an_int_grows_on_sim_only():
    def grows(out, n):
        out[0] = n * n

    out = np.zeros(1)
    sim(grows, quiet=True)[1, 1](out, 100_000)
    assert out[0] == 1e10
    cuda_c(grows)[1, 1](out, 100_000)
    assert out[0] == np.int32(1e10 - 2 * 2**32)


@pytest.mark.parametrize(
    ("expression", "types", "result"),
    [
        ("a * 0.5", "float32", "float64"),
        ("a // b", "int32 int32", "int64"),
        ("a << 40", "int32", "int64"),
        ("a / b", "int32 int32", "float64"),
        ("a + b", "int32 float32", "float64"),
        ("a + b", "int64 float32", "float64"),  # as in cuda.threadIdx.x + float32
        ("a + b", "int32 int32", "int64"),
        ("a < b", "int32 uint32", "bool"),
        ("a ** 2", "float32", "float32"),
    ],
)
def test_numbas_column(expression, types, result):
    numba = pytest.importorskip("numba")
    from numba import cuda as numba_cuda

    kinds = tuple(getattr(numba, name) for name in types.split())
    function = eval(f"lambda {', '.join('ab'[: len(kinds)])}: {expression}")
    try:
        output = numba_cuda.compile_ptx(function, kinds, device=True, cc=(7, 5))
    except Exception as error:  # without NVVM, Numba compiles nothing
        pytest.skip(str(error)[:80])
    assert str(output[1]) == result
