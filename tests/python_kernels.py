"""Python kernels that use all of the language, each with a launch.

CASES: name -> Case. Every kernel states its types, so that the simulator and CUDA C on
the CPU give the same bits.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy import float32, float64, int32, int64, uint32

from weft import cuda

TILE = 8
HALO = 1
EPS = 1e-5
GAIN = float32(0.1)
SHAPE = (2, 3)
WEIGHTS = np.array([[0.25, 0.5], [1.5, -2.0]], np.float32)
FULL = 0xFFFFFFFF


@dataclass
class Case:
    """kernel[grid, block, 0, shared](*arguments()); inexact: maximum error in ulps."""

    kernel: object
    grid: object
    block: object
    arguments: object
    shared: int = 0
    ulps: int = 0


CASES = {}


def case(grid, block, *arguments, shared=0, ulps=0):
    """Register a kernel; an argument is a number or (dtype, shape[, low, high])."""

    def make_arguments():
        rng = np.random.default_rng(7)
        out = []
        for spec in arguments:
            if not isinstance(spec, tuple):
                out.append(spec)
                continue
            dtype, shape, low, high = (*spec, -100, 100)[:4]
            if np.dtype(dtype).kind == "f":
                out.append(rng.uniform(low, high, shape).astype(dtype))
            elif np.dtype(dtype).kind == "b":
                out.append(rng.integers(0, 2, shape).astype(bool))
            else:
                low = max(low, np.iinfo(dtype).min)
                out.append(
                    rng.integers(low, min(high, np.iinfo(dtype).max), shape, dtype)
                )
        return out

    def register(kernel):
        CASES[kernel.__name__] = Case(kernel, grid, block, make_arguments, shared, ulps)
        return kernel

    return register


F, D, N, L, U = np.float32, np.float64, np.int32, np.int64, np.uint32


@case((3, 2), (8, 8), (F, 13 * 17), (F, 13 * 11), (F, 11 * 17), 13, 17, 11)
def matmul(c, a, b, m, n, k):
    """c (m,n) = a (m,k) @ b (k,n), row-major. One thread per element of c."""
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        acc = float32(0)
        for i in range(k):
            acc += a[row * k + i] * b[i * n + col]
        c[row * n + col] = acc


@case((3, 2), (TILE, TILE), (F, 13 * 17), (F, 13 * 11), (F, 11 * 17), 13, 17, 11)
def matmul_tiled(c, a, b, m, n, k):
    """c (m,n) = a (m,k) @ b (k,n), row-major. One thread per element of c."""
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx  # tx runs along a row: coalesced

    acc = float32(0)
    for k0 in range(0, k, TILE):
        # Load zeros past an edge, since they add nothing. A thread that returned early
        # would leave a hole in the tile that its neighbours read.
        a_s[ty, tx] = a[row * k + k0 + tx] if row < m and k0 + tx < k else float32(0)
        b_s[ty, tx] = b[(k0 + ty) * n + col] if k0 + ty < k and col < n else float32(0)
        cuda.syncthreads()  # both tiles are complete ...
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()  # ... and read, so they may be overwritten
    if row < m and col < n:
        c[row * n + col] = acc


@case(3, 32, (F, 70), (F, 70), 1.7, 70)
def saxpy(y, x, alpha, n):
    i = cuda.grid(1)
    if i >= n:
        return  # this thread is past the end
    y[i] = alpha * x[i] + y[i]


@case(2, 32, (F, 300), (F, 300), 300)
def grid_stride(y, x, n):
    """Work with any number of threads: each takes every gridsize-th element."""
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        y[i] = x[i] * float32(2) - GAIN


@case((2, 2), (8, 4), (F, (7, 13)), (F, (13, 7)))
def transpose(b, a):
    m, n = b.shape
    col, row = cuda.grid(2)
    if row < m and col < n:
        b[row, col] = a[col, row]


@case(2, (4, 4, 2), (F, (3, 4, 5)), (F, (3, 4, 5)))
def volume(b, a):
    x, y, z = cuda.grid(3)
    if x < a.shape[2] and y < a.shape[1] and z < a.shape[0]:
        b[z, y, x] = a[z, y, x] * float32(0.5)


@case(3, 32, (F, 3), (F, 96))
def block_sum(out, x):
    """Add the second half of the numbers to the first half, until one is left."""
    s = cuda.shared.array(32, float32)
    tx = cuda.threadIdx.x
    s[tx] = x[cuda.grid(1)]
    cuda.syncthreads()
    stride = cuda.blockDim.x // 2
    while stride > 0:
        if tx < stride:
            s[tx] += s[tx + stride]
        cuda.syncthreads()
        stride //= 2
    if tx == 0:
        out[cuda.blockIdx.x] = s[0]


@case(1, 64, (F, 64), 64, shared=2 * 64 * 4)
def two_views(x, n):
    room = cuda.shared.array(0, float32)
    low = room[:n]
    high = room[n:]
    tx = cuda.threadIdx.x
    low[tx] = x[tx]
    high[n - 1 - tx] = x[tx]
    cuda.syncthreads()
    x[tx] = low[tx] - high[tx]


@case(2, 32, (N, 64), (N, 64), (N, 64, 1, 9), 64, -3)
def whole_numbers(out, a, b, n, m):
    i = cuda.grid(1)
    q = a[i] // b[i]
    r = a[i] % b[i]
    out[i] = q * 1000 + r + (i - n) // 7 + (i - n) % 7 + i // 3 + i % m + n // m


@case(1, 32, (N, 32), (N, 32, -(2**31), 2**31 - 1), (N, 32, -(2**31), 2**31 - 1))
def wraps(out, a, b):
    i = cuda.threadIdx.x
    h = a[i] * int32(1664525) + b[i]
    h ^= h << 13
    h ^= h >> 17
    out[i] = -h - a[i] * b[i]


@case(1, 32, (U, 32), (U, 32, 0, 2**32 - 1))
def hashes(out, x):
    i = cuda.threadIdx.x
    h = x[i] ^ uint32(2166136261)
    for _ in range(3):
        h = (h * uint32(16777619)) ^ (h >> 15)
    out[i] = ~h


@case(1, 32, (F, 32), (N, 32), (F, 32))
def mixed(out, a, x):
    """Convert numbers where integers meet floats."""
    i = cuda.threadIdx.x
    out[i] = float32(a[i]) * x[i] + float32(i) / float32(7) + i * x[i] / 3


@case(1, 32, (D, 32), (N, 32), (F, 32), 32)
def divisions(out, a, x, n):
    i = cuda.threadIdx.x
    out[i] = a[i] / 3 + i / n + a[i] * x[i] + 1 / 3


@case(1, 32, (F, 32), (F, 32), (F, 32, 1, 9))
def float_floors(out, x, y):
    i = cuda.threadIdx.x
    out[i] = x[i] // y[i] + x[i] % y[i] + (-x[i]) % y[i]


@case(1, 32, (N, 32), (N, 32, -9, 9))
def powers(out, a):
    i = cuda.threadIdx.x
    out[i] = (
        a[i] ** 2
        + a[i] ** 3
        + (a[i] + 1) ** 2
        + int32(3) ** (i % 5)
        + 2 ** (i % 30) % 7
    )


@case(1, 32, (N, 32), (F, 32), (F, 32), (N, 32))
def comparisons(out, x, y, a):
    i = cuda.threadIdx.x
    n = 0
    if x[i] < y[i] or (not a[i] > 3 and x[i] != 0):
        n += 1
    if -50 <= x[i] <= 50:
        n += 2
    if 0 <= i - 4 < a[i] % 100 == a[i] % 100:
        n += 4
    if a[i] & 1 and not (a[i] & 2):
        n |= 8
    out[i] = n


@case(1, 32, (F, 32), (F, 32), (F, 32))
def choices(out, x, y):
    i = cuda.threadIdx.x
    a = x[i] if x[i] > y[i] else y[i]
    b = min(x[i], y[i])
    c = max(x[i] + 1, y[i] - 1, float32(0))
    out[i] = a + b * c if i % 2 else abs(a) - abs(b)


@case(1, 32, (F, 32), (F, 32, 0, 100))
def roots(out, x):
    i = cuda.threadIdx.x
    y = math.sqrt(x[i])
    out[i] = y + math.floor(x[i]) - math.ceil(y) + math.fabs(-y)


@case(1, 32, (F, 32), (F, 32, -5, 5), ulps=4)
def transcendental(out, x):
    """Use functions that are exact only within a few units of the last place."""
    i = cuda.threadIdx.x
    out[i] = math.exp(x[i])


@case(1, 32, (F, 32), (F, 32), 32)
def swaps(x, y, n):
    i = cuda.threadIdx.x
    a, b = x[i], y[i]
    if a > b:
        a, b = b, a
    for _ in range(2):
        a, b = b, a + b
    x[i], y[i] = a, b
    if i == 0:
        x[0], x[1] = x[1], x[0]
    if i + 2 >= n:
        pass


@case(1, 32, (N, 32), (N, 32))
def loops(out, a):
    i = cuda.threadIdx.x
    total = 0
    for j in range(10, 0, -3):
        if j == 4:
            continue
        total += j * i
    for j in range(i):
        if a[j] > 90:
            break
        total -= j
    n = i + 1
    while True:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        total += 1
        if n <= 1 or total > 200:
            break
    for j in range(n):  # the loop does not notice that n changes
        n += 3
        total += n + j
    out[i] = total


def clamp(x, low, high):
    """Return x, limited to the range from low to high."""
    if x < low:
        return low
    return high if x > high else x


def horner(x, table):
    total = float32(0)
    for j in range(4):
        total = total * x + table[j]
    return total


def put(out, i, value):
    out[i] = value


@case(1, 32, (F, 32), (N, 32), (F, 32), (F, 4))
def helpers(out, whole, x, table):
    i = cuda.threadIdx.x
    y = clamp(x[i], float32(-10), float32(10))
    put(whole, i, clamp(i, 3, 20))
    put(out, i, horner(y, table))


@case(1, 32, (F, 32), (F, 32))
def local_memory(out, x):
    i = cuda.threadIdx.x
    window = cuda.local.array(3, float32)
    for j in range(3):
        window[j] = x[(i + j) % 32]
    total = float32(0)
    for j in range(3):
        total += window[j] * window[2 - j]
    out[i] = total


@case(1, 32, (F, 32), (F, 32))
def constant_memory(out, x):
    i = cuda.threadIdx.x
    w = cuda.const.array_like(WEIGHTS)
    out[i] = x[i] * w[i % 2, i // 16] + SHAPE[1] * w[0, 0]


@case(2, 64, (N, 8), (N, 128, 0, 8), (N, 4), (L, 2), (U, 2))
def atomics(histogram, x, more, wide, unsigned):
    i = cuda.grid(1)
    cuda.atomic.add(histogram, x[i], 1)
    cuda.atomic.max(more, 0, x[i])
    cuda.atomic.min(more, 1, x[i] - 5)
    cuda.atomic.sub(more, 2, 2)
    cuda.atomic.xor(more, 3, i)
    cuda.atomic.add(wide, 0, x[i])
    cuda.atomic.max(wide, 1, i)
    cuda.atomic.inc(unsigned, 0, 1000)
    cuda.atomic.or_(unsigned, 1, 1 << x[i])


@case(1, 64, (F, 4), (F, 64), (D, 1))
def float_atomics(out, x, wide):
    i = cuda.threadIdx.x
    cuda.atomic.max(out, 0, x[i])
    cuda.atomic.min(out, 1, x[i])
    cuda.atomic.nanmax(out, 2, x[i])
    if i == 3:
        cuda.atomic.exch(out, 3, x[i])
        cuda.atomic.add(wide, 0, x[i])


@case(1, 32, (N, 1), (N, 32))
def compare_and_swap(best, x):
    i = cuda.threadIdx.x
    old = best[0]
    if i == 5:
        old = cuda.atomic.cas(best, 0, old, x[i])
        x[i] = old


@case(2, (8, 8), (F, 4), (F, 128), (N, 128), (U, 128))
def warps(out, x, whole, bits):
    """Sum a warp by shuffles, and test its votes."""
    linear = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    i = cuda.blockIdx.x * 64 + linear
    v = x[i]
    for d in range(5):
        v += cuda.shfl_down_sync(FULL, v, 16 >> d)
    if cuda.laneid == 0:
        out[i // cuda.warpsize] = v
    above = cuda.shfl_xor_sync(FULL, i, 1) + cuda.shfl_sync(FULL, linear, 3)
    above += cuda.shfl_up_sync(0xFFFFFFFF, i, 2)
    mask = cuda.ballot_sync(FULL, x[i] > 0)
    bits[i] = mask & ((1 << cuda.laneid) - 1)
    if cuda.all_sync(FULL, x[i] > -1000) and cuda.any_sync(FULL, x[i] > 0):
        above += cuda.popc(mask) + cuda.clz(whole[i]) + cuda.ffs(whole[i])
    cuda.syncwarp()
    whole[i] = above + cuda.syncthreads_count(x[i] > 0)


@case(1, 32, (np.uint8, 32), (np.uint8, 32, 0, 255), (np.int16, 32), (np.bool_, 32))
def small_types(out, x, s, flag):
    i = cuda.threadIdx.x
    v = x[i] + np.uint8(200)
    if flag[i] and not (flag[31 - i]):
        v = x[i] * x[i]
    s[i] = s[i] * np.int16(300) - s[i] // 7
    flag[i] = s[i] > 5
    out[i] = v >> 1


@case(1, 32, (D, 32), (D, 32), (L, 32), (L, 32, -(2**40), 2**40))
def doubles(out, x, wide, a):
    i = cuda.threadIdx.x
    out[i] = x[i] * 0.1 + math.sqrt(abs(x[i])) - float64(EPS)
    wide[i] = a[i] * int64(3) // 7 - (a[i] >> 3) + int64(5000000000)


@case(1, 32, (F, 32), (F, 32), 0.25, 3)
def python_floats(out, x, alpha, n):
    """Compute in double among Python floats, and round where they meet a float32."""
    i = cuda.threadIdx.x
    beta = 1.0 - alpha
    scale = 1.0 / n
    out[i] = alpha * out[i] + beta * x[i]
    out[i] *= scale + 0.1


@case(1, 32, (F, 32), (F, 34))
def late(out, x):
    i = cuda.threadIdx.x
    if i % 2 == 0:
        left = x[i]
        kind = 1
    else:
        left = x[i + HALO]
        kind = 2
    best = float32(-1e30)
    for j in range(4):
        value = x[(i + j) % 34]
        if value > best:
            best = value
            where = j
    out[i] = left * kind + best + where


@case(1, 32, (F, 32), (np.float16, 32, -5, 5), 3)
def halves(out, h, n):
    """Round every operation to a float16."""
    i = cuda.threadIdx.x
    v = h[i] * h[i] + np.float16(0.5)
    h[i] = v * n - h[i] / 3 if h[i] < 2 else v + i
    out[i] = float32(v) + h[i] + abs(h[i]) * float32(0.1)


def row_sum(a, row):
    total = float32(0)
    for j in range(a.shape[1]):
        total += a[row, j]
    return total


def stage(s, x, i):
    s[i, 0] = x[i]
    cuda.syncthreads()


def lerp(a, b, t):
    return a + (b - a) * t


@case(1, 32, (F, 32), (F, (32, 5)), 0.3)
def helpers_with_arrays(out, a, t):
    s = cuda.shared.array((32, 2), float32)
    i = cuda.threadIdx.x
    stage(s, out, i)
    out[i] = row_sum(a, i) + s[31 - i, 0] + lerp(a[i, 0], float32(1), t)
    out[i] += lerp(0.0, 1.0, 0.25)


@case(1, 32, (F, 32), (F, 32))
def carried(out, x):
    """Keep a local's value from iteration to iteration, assigned in branches."""
    i = cuda.threadIdx.x
    for r in range(3):
        if r > 0:  # noqa: SIM102
            if i % 2:
                before = r * 2
        if r == 2 and i % 2:
            out[i] = before + x[i]


@case(1, 32, (F, 32), (F, 32), True, 3)
def branches(out, x, flag, n):
    i = cuda.threadIdx.x
    y = x[i]
    if y < -50:
        pass
    elif y < 0:
        out[i] = float32(1)
    elif y < 20:
        out[i] = float32(2)
        return
    else:
        for j in range(2):
            if j:
                continue
            out[i] = float32(3)
    out[i] += (y > 0) + (1 if y > 5 else 2)
    ok = y > 0 and flag
    if not ok or (n == 0 and not flag):
        return
    out[i] = -(x[i] ** 2) - (y - (y - 1)) / (y / 2) * 3 % 2


@case((2, 2), (16, 2), (F, 64), (F, 64))
def threads_and_signs(out, x):
    i, j = cuda.grid(2)
    n = cuda.gridsize(1)
    for k in range(6, 0, -2 if i else -1):
        out[i] = k
    a = n + cuda.blockDim.x - cuda.threadIdx.x - 100 + (cuda.threadIdx.x - 3) * 2
    b = -i + abs(i - 5) + min(i, 3, n) + max(cuda.threadIdx.x, 5)
    c = x[i] if cuda.threadIdx.x else float32(-1)
    q, r = divmod(i - 5, 3)
    if j == 0:
        out[i] = a + b * c + q * 10 + r + int(x[i]) + round(x[i])
