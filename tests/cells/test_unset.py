"""A local variable that is read before it is written is a finding."""

import numpy as np
import pytest

from weft import inspect, load_cuda
from weft.cells.cpu import faults

pytestmark = pytest.mark.skipif(
    not faults.unset_flags(), reason="g++ fills no variables"
)

SOURCE = """
#define T 2
typedef double real;
struct Sums { float even, odd; };
template <class F> __device__ F added(const F *x, int n, F sum) {
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}
__global__ void tiles(float *c, const float *a, const float *b, int n) {
    float acc[T][T];
    float column[T];
    int i0 = threadIdx.y * T, j0 = threadIdx.x * T;
    for (int k = 0; k < n; k++) {
        for (int j = 0; j < T; j++) column[j] = b[k * n + j0 + j];
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++) acc[i][j] += a[(i0 + i) * n + k] * column[j];
    }
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++) c[(i0 + i) * n + j0 + j] = acc[i][j];
}
__global__ void total(real *y, const real *x, int n) {
    real sums[1];
    *y = added(x, n, sums[0]);
}
__global__ void member(float *y, const float *x, int n) {
    Sums sums;
    for (int i = 0; i < n; i += 2) sums.odd += x[i + 1];
    *y = sums.odd;
}
__global__ void single(float *y, const float *x, int n) {
    float last[2];
    if (n > 1000) last[1] = x[n - 1];
    y[threadIdx.x] = 1.0f * last[threadIdx.x] + 0;
}
"""
GOOD = """
#define T 2
__global__ void tiles(float *y, const float *x, int n) {
    float acc[T], last;
    float4 quad;
    int seen[4];
    for (int i = 0; i < T; i++) acc[i] = 0;
    quad.x = 1; last = 0;
    for (int i = 0; i < n; i++) { acc[i % T] += x[i] * quad.x; last = x[i]; }
    for (int i = 0; i < 4; i++) seen[i] = n;
    y[threadIdx.x] = acc[threadIdx.x % T] + last * seen[threadIdx.x % 4];
}
__global__ void copied(float *y, const float *x) { y[threadIdx.x] = x[threadIdx.x]; }
"""


@pytest.fixture(scope="module")
def cell():
    return load_cuda(SOURCE, target="cpu")


def findings(kernel, shape, *args):
    reported = inspect(kernel, quiet=True)[shape](*args).findings
    return [(one.kind, one.line, one.text) for one in reported]


def line_of(text: str) -> int:
    return SOURCE[: SOURCE.index(text)].count("\n") + 1


def test_a_tile_that_is_added_to_without_a_start(cell):
    a, b, c = (np.ones((4, 4), np.float32) for _ in "abc")
    [(kind, line, text)] = findings(cell.tiles, (1, (2, 2)), c, a, b, 4)
    assert kind == "uninitialised" and line == line_of("float acc[T][T]")
    assert "c[0] got -1.69474e+38" in text
    assert "one of acc, column is read before it is written" in text


def test_doubles_and_functions_that_are_called(cell):
    y, x = np.zeros(1), np.arange(8.0)
    [(kind, line, text)] = findings(cell.total, (1, 1), y, x, 8)
    assert kind == "uninitialised" and line == line_of("real sums[1]")
    assert ": sums is read before" in text


def test_a_struct_and_a_scalar(cell):
    y, x = np.zeros(2, np.float32), np.ones(8, np.float32)
    [(_, line, _)] = findings(cell.member, (1, 1), y[:1].copy(), x, 8)
    assert line == line_of("Sums sums;")
    [(_, line, text)] = findings(cell.single, (1, 2), y, x, 8)
    assert line == line_of("float last[2]") and "y[0] got" in text


@pytest.mark.parametrize("n", [1, 2, 33])
def test_a_variable_that_is_written_first_is_no_finding(n):
    good = load_cuda(GOOD, target="cpu")
    x, y = np.full(n, 1e30, np.float32), np.zeros(64, np.float32)
    assert findings(good.tiles, (2, 32), y, x, n) == []


def test_numbers_that_were_in_an_array_are_no_finding():
    good = load_cuda(GOOD, target="cpu")
    pattern = np.full(4, 0xFEFEFEFE, np.uint32).view(np.float32)
    y = np.zeros(4, np.float32)
    assert findings(good.copied, (1, 4), y, pattern) == []
    assert y.tobytes() == pattern.tobytes()
    assert findings(good.copied, (1, 2), y, np.ones(4, np.float32)) == []


def test_a_watched_cell_shows_the_finding_and_check_counts_it(capsys):
    cell = load_cuda(SOURCE, target="cpu", watched=True, check=True)
    y, x = np.zeros(1, np.float32), np.ones(8, np.float32)
    cell.member[1, 1](y, x, 8)
    captured = capsys.readouterr()
    assert "sums is read before it is written" in captured.out + captured.err
    assert "orders of threads: 1 finding" in captured.out
