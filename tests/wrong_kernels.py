"""Wrong kernels for check(), each with its mistake, and right kernels.

The kernels are in Python and CUDA C. Outputs come first and sizes last. test_check.py
runs WRONG and RIGHT. The words must occur in the suggested cause of the mistake.
"""

import numpy as np
import torch

from weft import cuda, cuda_c, load_cuda, sim
from weft.pykernel.bodies import matmul
from weft.pykernel.numba import numba_jit

float32 = np.float32
TILE = 8

MAP = {"outputs": {"c": "n"}, "inputs": {"a": "n", "b": "n"}, "block": [32, 48]}
MATMUL = {
    "outputs": {"c": ("m", "n")},
    "inputs": {"a": ("m", "k"), "b": ("k", "n")},
    "block": [(4, 4), (8, 2)],
    "sizes": [(1, 1, 1), (2, 3, 1), (3, 1, 2), (5, 7, 6), (8, 8, 8), (9, 11, 10)],
}
TILED = MATMUL | {"block": (TILE, TILE)}
SUM = {
    "outputs": {"out": 1},
    "inputs": {"x": "n"},
    "sizes": [1, 2, 3, 31, 32, 33, 100],
    "launch": (1, 32),
}
COUNT = {
    "outputs": {},
    "inout": {"bins": "int32[10]"},
    "inputs": {"x": "int32[n]"},
    "data": {"x": lambda rng, shape: rng.integers(0, 10, shape)},
    "launch": lambda n: (-(-n // 32), 32),
}


def add_reference(a, b):
    return a + b


def sum_reference(x):
    return x.sum(keepdims=True)


def count_reference(bins, x):
    return bins + np.bincount(x, minlength=10)


# ---- maps, in Python ------------------------------------------------------------


def add(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + b[i]


def add_strided(c, a, b, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        c[i] = a[i] + b[i]


def writes_nan(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = np.nan


def writes_nothing(c, a, b, n):
    i = cuda.grid(1)
    if i < 0:
        c[i] = a[i] + b[i]


def zeros(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = 0


def constant(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = 7.5


def last_missing(c, a, b, n):
    i = cuda.grid(1)
    if i < n - 1:
        c[i] = a[i] + b[i]


def no_guard(c, a, b, n):
    i = cuda.grid(1)
    c[i] = a[i] + b[i]


def local_index(c, a, b, n):
    i = cuda.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]


def local_load(c, a, b, n):
    i = cuda.grid(1)
    j = cuda.threadIdx.x
    if i < n:
        c[i] = a[j] + b[j]


def one_thread_of_a_block(c, a, b, n):
    i = cuda.grid(1)
    if i < n and cuda.threadIdx.x == 0:
        c[i] = a[i] + b[i]


def reads_its_output(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] += a[i] + b[i]


def writes_its_input(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        a[i] += b[i]
        c[i] = a[i]


def full_blocks_only(c, a, b, n):
    i = cuda.grid(1)
    if cuda.blockIdx.x < n // cuda.blockDim.x:
        c[i] = a[i] + b[i]


def blocks_of_32(c, a, b, n):
    i = cuda.blockIdx.x * 32 + cuda.threadIdx.x
    if i < n and cuda.threadIdx.x < 32:
        c[i] = a[i] + b[i]


def shifted(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[max(i - 1, 0)] + b[max(i - 1, 0)]


def begins_too_early(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i - 1] + b[i - 1]


def backwards(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[n - 1 - i] + b[n - 1 - i]


def twice(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = 2 * (a[i] + b[i])


def minus(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = -a[i] - b[i]


def twice_the_same(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + a[i]


def half_inside(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = np.float16(a[i]) + np.float16(b[i])


def whole_numbers(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = int(a[i] + b[i])


def wrong_at_one(c, a, b, n):
    i = cuda.grid(1)
    if i < n and n > 1:
        c[i] = a[i] + b[i]


def endless(c, a, b, n):
    i = cuda.grid(1)
    while i >= 0:
        c[0] = a[0]


def spoils_the_guard(c, a, b, n):
    i = cuda.grid(1)
    j = min(i, n - 1)
    if i <= n:
        c[i] = a[j] + b[j]


# ---- sums, in Python --------------------------------------------------------------


def block_sum(out, x, n):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = 0
    for i in range(t, n, 32):
        s[t] += x[i]
    cuda.syncthreads()
    step = 16
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[0] = s[0]


def missing_barrier(out, x, n):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = 0
    for i in range(t, n, 32):
        s[t] += x[i]
    if t == 0:
        acc = float32(0)
        for i in range(32):
            acc += s[i]
        out[0] = acc


def warp_sum(out, x, n):
    t = cuda.threadIdx.x
    acc = float32(0)
    for i in range(t, n, 32):
        acc += x[i]
    step = 16
    while step > 0:
        acc += cuda.shfl_down_sync(0xFFFFFFFF, acc, step)
        step //= 2
    if t == 0:
        out[0] = acc


def racing_sum(out, x, n):
    t = cuda.threadIdx.x
    if t == 0:
        out[0] = 0
    cuda.syncthreads()
    for i in range(t, n, 32):
        out[0] += x[i]


def whoever_is_last(out, x, n):
    if cuda.threadIdx.x < n:
        out[0] = x[cuda.threadIdx.x]


def count(bins, x, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(bins, x[i], 1)


def lost_counts(bins, x, n):
    i = cuda.grid(1)
    if i < n:
        bins[x[i]] += 1


# ---- matmul, in Python --------------------------------------------------------------


def matmul_2d(c, a, b, m, n, k):
    col, row = cuda.grid(2)
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row, i] * b[i, col]
        c[row, col] = acc


def matmul_tiled(c, a, b, m, n, k):
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    acc = float32(0)
    for k0 in range(0, k, TILE):
        a_s[ty, tx] = 0
        b_s[ty, tx] = 0
        if row < m and k0 + tx < k:
            a_s[ty, tx] = a[row * k + k0 + tx]
        if k0 + ty < k and col < n:
            b_s[ty, tx] = b[(k0 + ty) * n + col]
        cuda.syncthreads()
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()
    if row < m and col < n:
        c[row * n + col] = acc


def tile_missing(c, a, b, m, n, k):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for k0 in range(0, k - TILE + 1, TILE):
            for i in range(TILE):
                acc += a[row * k + k0 + i] * b[(k0 + i) * n + col]
        c[row * n + col] = acc


def term_missing(c, a, b, m, n, k):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k - 1):
            acc += a[row * k + i] * b[i * n + col]
        c[row * n + col] = acc


def no_accumulate(c, a, b, m, n, k):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        for i in range(k):
            c[row * n + col] = a[row * k + i] * b[i * n + col]


def transposed(c, a, b, m, n, k):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[i * n + col]
        c[col * m + row] = acc


def last_row_missing(c, a, b, m, n, k):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m - 1 and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[i * n + col]
        c[row * n + col] = acc


# ---- in CUDA C -------------------------------------------------------------------

CUDA = load_cuda(
    """
__global__ void c_add(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void c_no_guard(float *c, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];
}
__global__ void c_local(float *c, const float *a, const float *b, int n) {
    int i = threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
__global__ void c_input(float *c, float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i], a[i] = 0;
}
__global__ void c_endless(float *c, const float *a, const float *b, int n) {
    volatile int go = 1;
    while (go) { }
    c[0] = a[0] + b[0];
}
__global__ void c_reverse(float *out, const float *x, int n) {
    __shared__ float s[33];
    int t = threadIdx.x;
    s[t] = 0;
    if (t == 0) s[32] = 0;
    for (int i = t; i < n; i += 32) s[t] += x[i];
    if (t == 31) {
        float acc = 0;
        for (int i = 0; i < 32; i++) acc += s[i];
        out[0] = acc;
    }
}
__global__ void c_tf32(float *c, const float *a, const float *b, int m, int n, int k) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    float acc = 0;
    for (int i = 0; i < k; i++) {
        float x = __uint_as_float(__float_as_uint(a[row * k + i]) & 0xffffe000u);
        float y = __uint_as_float(__float_as_uint(b[i * n + col]) & 0xffffe000u);
        acc += x * y;
    }
    c[row * n + col] = acc;
}
__global__ void c_grey(unsigned char *grey, const unsigned char *rgb, int h, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const unsigned char *p = rgb + 3 * (y * w + x);
    grey[y * w + x] = (unsigned char)((p[0] + p[1] + p[2]) / 3);
}
__global__ void c_grey_overflow(unsigned char *grey, const unsigned char *rgb, int h,
                                int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const unsigned char *p = rgb + 3 * (y * w + x);
    unsigned char sum = (unsigned char)(p[0] + p[1] + p[2]);
    grey[y * w + x] = (unsigned char)(sum / 3);
}
__global__ void c_square(int *y, const int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (short)(x[i] * x[i]);
}
""",
    target="cpu",
    name="wrong_kernels.py",
)

GREY = {
    "outputs": {"grey": ("h", "w")},
    "inputs": {"rgb": ("h", "w", 3)},
    "sizes": [(1, 1), (2, 3), (17, 31)],
}


def grey_reference(rgb):
    return rgb.sum(2, dtype=int) // 3


# ---- plain functions --------------------------------------------------------------

PAIR = {"inputs": {"a": ("m", "k"), "b": ("k", "n")}}
_seen = {}


def remembers(a, b):
    """Return the right product for the first matrices of each size, and the same one
    for all later matrices of that size."""
    return _seen.setdefault((a.shape, b.shape), a @ b)


def spoils_its_argument(a, b):
    c = a @ b
    a *= 0
    return c


def in_half(a, b):
    return (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)


def truncated(a, b):
    return tf32(a) @ tf32(b)


def tf32(x):
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def swapped(a, b):
    return b - a


def columns(x):
    return x.sum(0)


def forever(a, b):
    while True:
        pass


def lists(a, b):
    inner, cols = len(b), len(b[0])
    return [
        [sum(row[i] * b[i][j] for i in range(inner)) for j in range(cols)] for row in a
    ]


def into(c, a, b, m, n, k):
    """Multiply flat arrays with three loops."""
    for row in range(m):
        for col in range(n):
            acc = float32(0)
            for i in range(k):
                acc += a[row * k + i] * b[i * n + col]
            c[row * n + col] = acc


ADD, MM = (add_reference, MAP), (np.matmul, MATMUL)
# An entry is the checked object, its reference and options, and the refusal's words.
WRONG = [
    (writes_nan, *ADD, "an undefined operation .* 0 / 0"),
    (writes_nothing, *ADD, "no thread stores into it"),
    (zeros, *ADD, "zeros only"),
    (constant, *ADD, "one value everywhere"),
    (last_missing, *ADD, "the last element is never written"),
    (no_guard, *ADD, "looks like a missing guard"),
    (local_index, *ADD, "threadIdx"),
    (local_load, *ADD, "threadIdx where the global index is needed"),
    (one_thread_of_a_block, *ADD, "only the first element of each block"),
    (reads_its_output, *ADD, "starts from the output.s initial contents"),
    (writes_its_input, *ADD, "inputs must stay as they are"),
    (full_blocks_only, *ADD, "multiple of the block"),
    (blocks_of_32, add_reference, MAP | {"sizes": [33, 97]}, "blocks of 32 only"),
    (shifted, *ADD, "off by one|too far before"),
    (begins_too_early, *ADD, "begins too early"),
    (backwards, *ADD, "reverse order"),
    (twice, *ADD, "counted twice"),
    (minus, *ADD, "the wrong sign"),
    (twice_the_same, *ADD, "a read where b is needed"),
    (half_inside, *ADD, "TF32 or float16|low precision"),
    (whole_numbers, *ADD, "truncated to whole numbers"),
    (wrong_at_one, *ADD, "wrong only where n is 1"),
    (endless, add_reference, MAP | {"timeout": 0.2}, "0.2 s"),
    (spoils_the_guard, *ADD, "missing guard"),
    (missing_barrier, sum_reference, SUM, "race|barrier"),
    (racing_sum, sum_reference, SUM, "race|writ"),
    (whoever_is_last, sum_reference, SUM, "writ"),
    (lost_counts, count_reference, COUNT, "race|writ"),
    (tile_missing, *MM, r"lacks its last tile|zeros only"),
    (term_missing, *MM, "without its last term"),
    (
        matmul_tiled,
        np.matmul,
        MATMUL | {"block": (16, 16)},
        "block that does not fit a_s",
    ),
    (no_accumulate, *MM, "= where \\+= is needed"),
    (transposed, *MM, "transposed"),
    (last_row_missing, *MM, "the last row is never written"),
    (CUDA.c_no_guard, *ADD, "looks like a missing guard"),
    (CUDA.c_local, *ADD, "threadIdx"),
    (CUDA.c_input, *ADD, "inputs must stay as they are"),
    (CUDA.c_endless, add_reference, MAP | {"timeout": 0.2}, "longer than 0.2 s"),
    (CUDA.c_reverse, sum_reference, SUM, "looks like a race"),
    (CUDA.c_tf32, *MM, "inputs rounded to TF32"),
    (CUDA.c_grey_overflow, grey_reference, GREY, "sum of bytes"),
    (CUDA.c_square, np.square, {"outputs": {"y": "n"}, "inputs": {"x": "n"}}, "int16"),
    (numba_jit(local_index), *ADD, "threadIdx"),
    (cuda_c(local_index), *ADD, "threadIdx"),
    (remembers, np.matmul, PAIR, r"result\[0, 0\] is .*, expected"),
    (spoils_its_argument, np.matmul, PAIR, "inputs must stay as they are"),
    (in_half, np.matmul, PAIR, "TF32 or float16|low precision"),
    (truncated, np.matmul, PAIR, "TF32"),
    (swapped, np.subtract, {"inputs": {"a": "n", "b": "n"}}, "sign|swapped"),
    (columns, lambda x: x.sum(1), {"inputs": {"x": ("n", "n")}}, "wrong axis"),
    (forever, np.matmul, PAIR | {"timeout": 0.2}, "does not end"),
]
RIGHT = [
    (add, *ADD),
    (add_strided, add_reference, MAP | {"grid": 2}),
    (block_sum, sum_reference, SUM),
    (warp_sum, sum_reference, SUM),
    (count, count_reference, COUNT),
    (matmul, *MM),
    (matmul_2d, *MM),
    (matmul_tiled, np.matmul, TILED),
    (numba_jit(add), *ADD),
    (cuda_c(add), *ADD),
    (cuda_c(matmul_tiled), np.matmul, TILED),
    (sim(add), *ADD),
    (CUDA.c_add, *ADD),
    (CUDA.c_grey, grey_reference, GREY),
    (np.matmul, lambda a, b: a @ b, PAIR),
    (torch.matmul, np.matmul, PAIR),
    (lists, np.matmul, PAIR | {"sizes": [(1, 1, 1), (3, 4, 5)]}),
    (into, np.matmul, {n: MATMUL[n] for n in ("outputs", "inputs", "sizes")}),
]
