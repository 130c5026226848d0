"""to_cuda() writes the CUDA C that a person would have written."""

import math
import shutil
import subprocess

import numpy as np
import pytest
from numpy import float32
from python_kernels import CASES, matmul, matmul_tiled
from test_same_bits import together

from weft import cuda, to_cuda
from weft.cells import load_cuda
from weft.cells.gpu import nvrtc
from weft.pykernel.to_cuda import translate

F = "float32[:]"
HOUSE = """\
enum { TILE = 8 };

/* c (m,n) = a (m,k) @ b (k,n), row-major. One thread per element of c. */
__global__ void matmul_tiled(float *c, const float *a, const float *b, int m,
                             int n, int k) {
    __shared__ float a_s[TILE][TILE];
    __shared__ float b_s[TILE][TILE];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx; // tx runs along a row: coalesced

    float acc = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        // Load zeros past an edge, since they add nothing. A thread that returned early
        // would leave a hole in the tile that its neighbours read.
        a_s[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
        b_s[ty][tx] = k0 + ty < k && col < n ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads(); // both tiles are complete ...
        for (int i = 0; i < TILE; i++) acc += a_s[ty][i] * b_s[i][tx];
        __syncthreads(); // ... and read, so they may be overwritten
    }
    if (row < m && col < n) c[row * n + col] = acc;
}
"""


def test_the_tiled_matmul_is_that_of_the_house_style():
    sizes = ("int", "int", "int")
    assert to_cuda(matmul_tiled, (F, F, F, *sizes)) == HOUSE
    arguments = (*[np.zeros(4, np.float32)] * 3, 1, 2, 3)
    assert to_cuda(matmul_tiled, arguments) == HOUSE


def test_the_naive_matmul():
    assert (
        to_cuda(matmul, (F, F, F, "int32", np.int32, int))
        == """\
/* c (m,n) = a (m,k) @ b (k,n), row-major. One thread per element of c. */
__global__ void matmul(float *c, const float *a, const float *b, int m, int n,
                       int k) {
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < m && col < n) {
        float acc = 0.0f;
        for (int i = 0; i < k; i++) acc += a[row * k + i] * b[i * n + col];
        c[row * n + col] = acc;
    }
}
"""
    )


def body(kernel, types, **options):
    """Return the lines within the kernel's braces."""
    lines = to_cuda(kernel, types, **options).splitlines()
    start = next(i for i, s in enumerate(lines) if s.startswith("__global__"))
    start = next(i for i in range(start, len(lines)) if lines[i].endswith("{"))
    return [line[4:] for line in lines[start + 1 : lines.index("}", start)]]


def commented(x, n):
    # above
    i = cuda.grid(1)  # beside

    # in the
    # middle
    if i < n:  # of an if
        x[i] = 1
        # at the end of a block
    else:  # of an else
        x[i] = 2
        x[0] = 3
    # at the end


def test_comments_and_blank_lines_stay_where_they_are():
    assert body(commented, (F, "int")) == [
        "// above",
        "const int i = blockIdx.x * blockDim.x + threadIdx.x; // beside",
        "",
        "// in the",
        "// middle",
        "if (i < n) { // of an if",
        "    x[i] = 1.0f;",
        "    // at the end of a block",
        "} else { // of an else",
        "    x[i] = 2.0f;",
        "    x[0] = 3.0f;",
        "}",
        "// at the end",
    ]


def signs(x, n):
    i = cuda.threadIdx.x
    j = i - n
    x[i // 2] = x[(n - i) % 3] if i % 4 else x[j // 2]


def test_division_is_plain_where_nothing_can_be_negative():
    assert body(signs, (F, "int"))[2] == (
        "x[i / 2] = i % 4 ? x[floor_mod(n - i, 3)] : x[floor_div(j, 2)];"
    )


def floats(x, alpha, n):
    scale = 1.0 / n
    x[0] = alpha * x[0] + 0.5
    x[1] = x[1] * (alpha + 0.1)
    x[2] = scale * math.pi * x[2]


def test_python_floats_are_double_among_themselves():
    assert body(floats, (F, "float", "int")) == [
        "const double scale = 1.0 / n;",
        "x[0] = (float)alpha * x[0] + 0.5f;",
        "x[1] = x[1] * (float)(alpha + 0.1);",
        "x[2] = (float)(scale * 3.141592653589793) * x[2];",
    ]
    assert "double alpha" in to_cuda(floats, (F, "float", "int"))
    assert "0.5 " in to_cuda(floats, ("float64[:]", "float", "int")).replace(";", " ")


def same_k(c, a, b):
    m, n = c.shape
    m, k = a.shape
    k, n = b.shape
    col, row = cuda.grid(2)
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row, i] * b[i, col]
        c[row, col] = acc


def test_sides_of_arrays_are_parameters_under_the_readers_names():
    grid = "float32[:, :]"
    result = translate(same_k, (grid, grid, grid))
    assert "float *c, const float *a, const float *b, int m," in result.text
    assert "acc += a[row * k + i] * b[i * n + col]" in result.text
    assert [name for name, _ in result.extents] == ["m", "n", "k"]
    assert [(s.array, s.axis) for s in result.extents[2][1]] == [
        ("a", 1),
        ("b", 0),
    ]


def unnamed(y, x):
    i = cuda.grid(1)
    if i < len(x):
        y[i, 2] = x[i]


def test_sides_without_a_name_get_one():
    text = to_cuda(unnamed, ("float32[:, :]", F))
    assert "(float *y, const float *x, int y_cols, int x_len)" in text
    assert "if (i < x_len) y[i * y_cols + 2] = x[i];" in text


def darker(image):
    """A statement on one line of Python may be too long for one line of C, or may fit."""  # noqa: E501
    h, w, _ = image.shape
    for row in range(cuda.threadIdx.y, h, cuda.blockDim.y):
        for _ in range(2):
            image[row, w - 1, 0] = image[row][w - 1][1] // 2


def test_a_side_that_nobody_names_is_no_underscore():
    text = to_cuda(darker, ("uint8[:, :, :]",))
    assert "(unsigned char *image, int h, int w, int image_dim2)" in text
    assert "for (int row = threadIdx.y; row < h; row += blockDim.y) {" in text
    assert text.startswith("/* A statement") and "\n * " in text


def leaders(x, m):
    mask = cuda.activemask()
    leader = cuda.ffs(mask) - 1
    rank = cuda.popc(mask & cuda.lanemask_lt())
    old = 0
    if cuda.laneid == leader:
        old = cuda.atomic.add(m, 0, cuda.popc(mask))
    old = cuda.shfl_sync(mask, old, leader)
    x[old + rank] = rank


def test_a_lane_is_counted_in_blocks_of_any_shape():
    assert body(leaders, (F, "int32[:]")) == [
        "const unsigned mask = __activemask();",
        "const int leader = __ffs(mask) - 1;",
        "const int rank = __popc(mask & ((1u << laneid()) - 1));",
        "int old = 0;",
        "if (laneid() == leader) old = atomicAdd(&m[0], __popc(mask));",
        "old = __shfl_sync(mask, old, leader);",
        "x[old + rank] = rank;",
    ]
    assert "threadIdx.z * blockDim.y + threadIdx.y" in to_cuda(leaders, (F, "int32[:]"))


def compared(x, u, n):
    i = cuda.threadIdx.x
    m = i - 3
    if cuda.threadIdx.x < n and u[i] > m and u[i] < n and cuda.blockIdx.x > 0:
        x[cuda.threadIdx.x - 1] = 1


def test_an_unsigned_number_is_compared_as_a_number():
    assert body(compared, (F, "uint32[:]", "int"))[2:] == [
        "if ((int)threadIdx.x < n && (long long)u[i] > m && u[i] < (unsigned)n &&",
        "    blockIdx.x > 0) {",
        "    x[(int)threadIdx.x - 1] = 1.0f;",
        "}",
    ]


def prints(x, n):
    i = cuda.threadIdx.x
    print("thread", i, x[i])
    print(f"{i:3d}: {x[i]:.2f} of 100%", end="")
    assert n > 0, "n"


def test_print_is_printf_and_assert_is_assert():
    text = to_cuda(prints, (F, "int"))
    assert text.startswith("#include <assert.h>\n#include <stdio.h>\n")
    assert 'printf("thread %d %g\\n", i, x[i]);' in text
    assert 'printf("%3d: %.2f of 100%%", i, x[i]);' in text
    assert "assert(n > 0);" in text


def words(float, int, n):
    double = float[0]
    register = double * n
    int[0] = register


def test_words_of_c_are_renamed():
    assert body(words, (F, F, "int")) == [
        "const float double_ = float_[0];",
        "const float register_ = double_ * n;",
        "int_[0] = register_;",
    ]


def unused(y, x, n, m):
    i = cuda.grid(1)
    nobody = i + 1  # noqa: F841
    y[i] = x[i]


def test_a_variable_called_half_needs_no_header_but_the_type_does():
    def folded(x, n):
        half = n // 2
        while half > 0:
            if cuda.threadIdx.x < half:
                x[cuda.threadIdx.x] += x[cuda.threadIdx.x + half]
            half //= 2

    assert "cuda_fp16.h" not in to_cuda(folded, ("float32[:]", "int"))
    assert "cuda_fp16.h" in to_cuda(folded, ("float16[:]", "int"))


def test_what_nobody_reads_makes_no_warning():
    assert body(unused, (F, F, "int", "int")) == [
        "(void)n;",
        "(void)m;",
        "const int i = blockIdx.x * blockDim.x + threadIdx.x;",
        "y[i] = x[i];",
    ]


def closure(size):
    def kernel(x):
        x[cuda.threadIdx.x] = size

    return kernel


def test_a_closures_values_are_constants():
    assert "enum { size = 5 };" in to_cuda(closure(5), (F,))
    assert "static const float size = 0.5f;" in to_cuda(closure(0.5), (F,))


def test_numbas_types_and_kernels_are_taken():
    numba = pytest.importorskip("numba")
    from numba import cuda as numba_cuda

    arguments = (*[numba.float32[:]] * 3, *[numba.int32] * 3)
    assert to_cuda(numba_cuda.jit(matmul_tiled), arguments) == HOUSE


# ---- the compilers -----------------------------------------------------------------


LOWEST, NOTHING, HIGHEST = float32(-math.inf), math.nan, np.float64(math.inf)


def extremes(out, wide):
    best = LOWEST
    if cuda.grid(1) == 0:
        best = max(best, out[1])
    out[0] = best
    out[1] = NOTHING
    wide[0] = HIGHEST


def test_infinite_constants_stand_where_they_are_used():
    # NVRTC rejects `static const float LOWEST = -INFINITY;`.
    text = to_cuda(extremes, (F, "float64[:]"))
    assert "float best = -INFINITY;" in text and "static const" not in text


@pytest.fixture(scope="module")
def everything():
    kernels = [(c.kernel, c.arguments()) for c in CASES.values()]
    grid = "float32[:, :]"
    kernels += [(compared, (F, "uint32[:]", "int")), (prints, (F, "int"))]
    kernels += [(words, (F, F, "int")), (unused, (F, F, "int", "int"))]
    kernels += [(same_k, (grid,) * 3), (floats, (F, "float", "int"))]
    kernels += [(signs, (F, "int")), (commented, (F, "int"))]
    kernels += [(darker, ("uint8[:, :, :]",)), (leaders, (F, "int32[:]"))]
    kernels += [(extremes, (F, "float64[:]"))]
    return together([translate(kernel, types) for kernel, types in kernels])


def test_a_loop_that_never_runs_is_no_index_from_the_end():
    def triangle(y, x):
        for row in range(1):
            for col in range(row):
                y[row] += x[row * 4 + col]
        for row in range(0, 3, -1):
            y[row] += x[row - 1]

    text = to_cuda(triangle, (F, F))
    assert "for (int col = 0; col < row; col++) y[row] += x[row * 4 + col];" in text


@pytest.mark.slow
def test_gcc_has_no_warning(everything):
    flags = "-Wall -Wextra -Werror -Wsign-compare -Wunused-function"
    assert load_cuda(everything, target="cpu", flags=flags).warnings == []


def test_nvrtc_has_no_warning(everything):
    if nvrtc.explain_missing():
        pytest.skip(nvrtc.explain_missing())
    assert nvrtc.compile(everything).log == ""


def test_nvcc_has_no_warning(everything, tmp_path):
    nvcc = shutil.which("nvcc") or pytest.skip("there is no nvcc")
    file = tmp_path / "all.cu"
    file.write_text(everything)
    command = [nvcc, "-Werror", "all-warnings", "-arch=sm_75", "-ptx", "-o", "all.ptx"]
    process = subprocess.run(
        [*command, str(file)], cwd=tmp_path, text=True, capture_output=True
    )
    assert process.returncode == 0, process.stderr
