"""A race's report names the loop turn, the element as in the source, and a new cure, in
Python and in CUDA C."""

import numpy as np
import pytest

from weft import KernelFault, cuda, inspect
from weft import cells as jit
from weft.report import cures
from weft.report.turns import Barriers, Turns, find_cuda_loops, find_turns

SOURCE = """
#define SIDE 8
__global__ void no_second_barrier(float *y, const float *x, int n) {
    __shared__ float tile[SIDE][SIDE];
    int tx = threadIdx.x, ty = threadIdx.y;
    float acc = 0;
    for (int k = 0; k < n; k++) {
        tile[ty][tx] = x[k * 64 + ty * SIDE + tx];
        __syncthreads();
        acc += tile[tx][ty];
    }
    y[ty * SIDE + tx] = acc;
}
__global__ void no_first_barrier(float *y, const float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    for (int k = 0; k < n; k++) {
        s[t] = x[k * 64 + t];
        y[t] += s[63 - t];
        __syncthreads();
    }
}
__global__ void in_global_memory(float *y, float *x, int n) {
    int t = threadIdx.x;
    for (int k = 0; k < n; k++) {
        x[t] = k;
        __syncthreads();
        y[t] += x[63 - t];
    }
}
__global__ void scan(float *y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = y[t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        if (t >= d) s[t] += s[t - d];
        __syncthreads();
    }
    y[t] = s[t];
}
__global__ void in_a_warp(float *y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = y[t];
    y[t] = s[t ^ 1];
}
__global__ void low_end(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i - 1] + x[i];
}
__global__ void high_end(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + x[i + 1];
}
__global__ void too_large(float *y, const float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = x[i];
}
__global__ void wrong_row(float *y, const float *x, int rows, int cols) {
    int row = threadIdx.y, col = threadIdx.x;
    if (row < rows && col < cols) y[row * cols + col] = x[row * rows + col];
}
__global__ void some_left_out(float *y, const float *x, int n) {
    __shared__ float s[2][32];
    int t = threadIdx.x;
    if (t < n) s[1][t] = x[t];
    __syncthreads();
    y[t] = s[1][31 - t];
}
"""


def no_second_barrier(y, x, n):
    tile = cuda.shared.array((8, 8), np.float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    acc = 0.0
    for k in range(n):
        tile[ty][tx] = x[k * 64 + ty * 8 + tx]
        cuda.syncthreads()
        acc += tile[tx][ty]
    y[ty * 8 + tx] = acc


def no_first_barrier(y, x, n):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    for k in range(n):
        s[t] = x[k * 64 + t]
        y[t] += s[63 - t]
        cuda.syncthreads()


def in_global_memory(y, x, n):
    t = cuda.threadIdx.x
    for k in range(n):
        x[t] = k
        cuda.syncthreads()
        y[t] += x[63 - t]


def scan(y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = y[t]
    cuda.syncthreads()
    d = 1
    while d < 64:
        if t >= d:
            s[t] += s[t - d]
        cuda.syncthreads()
        d *= 2
    y[t] = s[t]


def in_a_warp(y):
    s = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    s[t] = y[t]
    y[t] = s[t ^ 1]


def low_end(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i - 1] + x[i]


def high_end(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i] + x[i + 1]


def too_large(y, x, n):
    i = cuda.grid(1)
    if i >= n:
        return
    y[i] = x[i]


def wrong_row(y, x, rows, cols):
    row, col = cuda.threadIdx.y, cuda.threadIdx.x
    if row < rows and col < cols:
        y[row * cols + col] = x[row * rows + col]


def some_left_out(y, x, n):
    s = cuda.shared.array((2, 32), np.float32)
    t = cuda.threadIdx.x
    if t < n:
        s[1][t] = x[t]
    cuda.syncthreads()
    y[t] = s[1][31 - t]


IN_PYTHON = {
    one.__name__: one
    for one in (
        *(no_second_barrier, no_first_barrier, in_global_memory, scan, in_a_warp),
        *(low_end, high_end, too_large, wrong_row, some_left_out),
    )
}


@pytest.fixture(scope="module")
def in_c_too():
    return jit.load_cuda(SOURCE, target="cpu", name="turns")


@pytest.fixture(params=["python", "c"])
def kernel(request, in_c_too):
    """Return a function that looks up a kernel by its name, in Python or in CUDA C."""
    if request.param == "python":
        return IN_PYTHON.__getitem__
    return lambda name: getattr(in_c_too, name)


def findings(kernel, grid, block, *args):
    try:
        return inspect(kernel, quiet=True)[grid, block](*args).findings
    except KernelFault as fault:
        return fault.report.findings


def cure_of(finding):
    return cures.in_python(finding)


def zeros(*shape):
    return np.zeros(shape, np.float32)


def test_a_read_and_the_next_turns_write_are_told_as_such(kernel):
    args = zeros(64), zeros(256), 4
    (race,) = findings(kernel("no_second_barrier"), 1, (8, 8), *args)
    assert (race.turns.one, race.turns.other) == (1, 2)
    assert "in turn 1 of the loop at line" in race.text
    assert "no barrier between the read and the next turn's write" in race.text
    assert "one more barrier, at the end of each turn" in cure_of(race)
    assert "syncthreads()" in cure_of(race) and "syncwarp()" not in cure_of(race)


def test_an_element_is_written_as_in_the_source(kernel):
    args = zeros(64), zeros(256), 4
    (race,) = findings(kernel("no_second_barrier"), 1, (8, 8), *args)
    assert race.array == "tile" and len(race.index) == 2
    assert "tile[{}][{}]".format(*race.index) in race.text
    (blank,) = findings(kernel("some_left_out"), 1, 32, zeros(32), zeros(32), 30)
    assert blank.index in ((1, 30), (1, 31))
    assert "s[{}][{}]".format(*blank.index) in blank.text


def test_two_accesses_of_one_turn_are_told_as_such(kernel):
    args = zeros(64), zeros(256), 4
    (race,) = findings(kernel("no_first_barrier"), 1, 64, *args)
    assert (race.turns.one, race.turns.other) == (1, 1)
    assert "both in turn 1 of the loop at line" in race.text
    lines = sorted((race.line, race.other_line))
    assert "a barrier between lines {} and {}".format(*lines) in cure_of(race)


def test_global_memory_has_turns_as_well(kernel):
    args = zeros(64), zeros(64), 4
    (race,) = findings(kernel("in_global_memory"), 1, 64, *args)
    assert (race.array, race.turns.one, race.turns.other) == ("x", 1, 2)


def test_a_barrier_that_is_there_is_not_offered(kernel):
    (race,) = findings(kernel("scan"), 1, 64, zeros(64))
    assert "read into a variable" in cure_of(race)
    assert "after the write as well" not in cure_of(race)
    (blank,) = findings(kernel("some_left_out"), 1, 32, zeros(32), zeros(32), 30)
    assert "if a guard skips some" in cure_of(blank)
    assert "wait" not in cure_of(blank)


def test_a_warps_barrier_is_offered_where_all_races_are_within_warps(kernel):
    (race,) = findings(kernel("in_a_warp"), 1, 64, zeros(64))
    assert "syncwarp() between them" in cure_of(race)


def test_a_guard_that_is_there_is_not_offered(kernel):
    (low,) = findings(kernel("low_end"), 1, 32, zeros(32), zeros(32), 32)
    assert cure_of(low).startswith("guard the low end, too: if ")
    assert "i - 1 >= 0" in cure_of(low)
    (high,) = findings(kernel("high_end"), 1, 32, zeros(32), zeros(32), 32)
    assert "i + 1 < n" in cure_of(high)
    (finding,) = findings(kernel("too_large"), 1, 32, zeros(32), zeros(20), 32)
    assert cure_of(finding) == (
        "correct the guard: compare i with the number of elements of x"
    )
    shape = zeros(32), zeros(15), 5, 3
    (row,) = findings(kernel("wrong_row"), 1, (8, 8), *shape)
    assert "the length of a row, rows in row * rows + col" in cure_of(row)


# ---- counting turns -----------------------------------------------------------------

TWICE = """
for (int k = 0; k < n; k++) {
    s[t] = x[k];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        float other = s[t + half];
        __syncthreads();
        s[t] += other;
    }
    y[k] = s[0];
}
"""


def test_an_inner_loop_is_counted_from_its_last_beginning():
    loops = find_cuda_loops(TWICE)
    assert [(loop.first, loop.last) for loop in loops] == [(2, 11), (5, 9)]
    record = Barriers.of([4, 7, 7, 7, 4, 7, 7])
    assert find_turns(loops, record, 8, 6) == Turns(5, 2, 3)
    # The outer loop: line 10 is below the inner loop, and line 3 is in the next turn.
    assert find_turns(loops, record, 10, 3) == Turns(2, 2, 3)
    # The outer loop's next turn may read data from the inner loop.
    assert find_turns(loops, Barriers.of([]), 3, 3) == Turns(2, 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        "if (k) __syncthreads();\ns[t] = 1;\n",
        "if (k)\n__syncthreads();\ns[t] = 1;\n",
        "if (k) continue;\n__syncthreads();\ns[t] = 1;\n",
        "while (k) {\n__syncthreads();\n}\ns[t] = 1;\n",
    ],
)
def test_a_barrier_that_a_turn_may_leave_out_counts_nothing(body):
    loops = find_cuda_loops(f"for (;;) {{\n{body}}}\n")
    line = 1 + body.count("\n")
    barrier = 2 + body[: body.index("__sync")].count("\n")
    assert find_turns(loops, Barriers.of([barrier] * 3), line, line) is None


def test_a_stencil_on_one_line_is_no_update_of_one_element():
    source = "__global__ void halve(float *y, int n) { int i = threadIdx.x; "
    source += "if (i + 1 < n) y[i] = y[i + 1] / 2; }"
    kernel = jit.load_cuda(source, target="cpu", name="halve").halve
    (race,) = findings(kernel, 1, 64, zeros(64), 64)
    assert "read into a variable" in cure_of(race) and "atomic" not in cure_of(race)


def test_a_pointer_without_an_index_has_the_general_cure():
    assert cures.guard("p", [], (), "*p = 1;", "if ({})") == ""
