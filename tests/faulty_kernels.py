"""Kernels with one fault each, and clean kernels that look faulty.

The line of a fault ends in `# !` (a race has two; a report may name either first).
CASES has the faulty kernels with launches that show the faults; CLEAN has the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft import cuda

float32, int32 = np.float32, np.int32
N = 64  # threads of a block: two warps
TILE = 4


@dataclass(frozen=True)
class Case:
    """A kernel, its launch, and the kinds of its findings (none: it is clean).

    shared: bytes of dynamic memory. seconds: time limit of a block.
    """

    kernel: Callable[..., None]
    grid: Any
    block: Any
    args: Callable[[], list]
    kinds: frozenset[str]
    shared: int = 0
    seconds: float = 60.0

    @property
    def name(self) -> str:
        return self.kernel.__name__

    @property
    def lines(self) -> set[int]:
        """The numbers of the lines that are marked as faulty."""
        text, first = inspect.getsourcelines(self.kernel)
        return {
            n for n, line in enumerate(text, first) if line.rstrip().endswith("# !")
        }


CASES: list[Case] = []
CLEAN: list[Case] = []


def array(*shape: int, dtype: Any = float32) -> np.ndarray:
    """Return an array of small integers, each different from its neighbours."""
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % 31 + 1).astype(dtype).reshape(shape)


def zeros(*shape: int, dtype: Any = float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def faulty(
    *kinds: str,
    args: Callable[[], list],
    grid: Any = 1,
    block: Any = N,
    shared: int = 0,
    seconds: float = 60.0,
) -> Callable[[Callable], Callable]:
    """Add a kernel to CASES."""

    def put(kernel: Callable[..., None]) -> Callable[..., None]:
        CASES.append(Case(kernel, grid, block, args, frozenset(kinds), shared, seconds))
        return kernel

    return put


def clean(
    args: Callable[[], list], grid: Any = 1, block: Any = N, shared: int = 0
) -> Callable[[Callable], Callable]:
    """Add a kernel to CLEAN."""

    def put(kernel: Callable[..., None]) -> Callable[..., None]:
        CLEAN.append(Case(kernel, grid, block, args, frozenset(), shared))
        return kernel

    return put


# ---- races in a block ----


@faulty("race", args=lambda: [zeros(N), array(N)])
def no_barrier(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # !
    out[t] = s[N - 1 - t]  # !


@faulty(
    "race",
    args=lambda: [zeros(8, 8), array(8, 8), array(8, 8)],
    block=(4, 4),
    grid=(2, 2),
)
def no_second_barrier(c, a, b):
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    acc = float32(0)
    for k0 in range(0, 8, TILE):
        a_s[ty, tx] = a[row, k0 + tx]  # !
        b_s[ty, tx] = b[k0 + ty, col]  # !
        cuda.syncthreads()
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]  # !
    c[row, col] = acc


@faulty("race", args=lambda: [zeros(1), array(N)])
def reduction_without_barriers(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = N // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]  # !
        step //= 2
    if t == 0:
        out[0] = s[0]


@faulty("race", args=lambda: [zeros(1), array(32)], block=32)
def reduction_in_lockstep(out, x):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    if t < 16:
        s[t] += s[t + 16]  # !
        s[t] += s[t + 8]  # !
    cuda.syncwarp()
    if t == 0:
        out[0] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7]


@faulty("race", args=lambda: [zeros(N), array(N)])
def a_warps_barrier_for_two_warps(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]  # !
    cuda.syncwarp()
    out[t] = s[t ^ 32]  # !


@faulty("race", args=lambda: [zeros(8, dtype=int32), array(N, dtype=int32)])
def histogram_without_atomics(bins, x):
    t = cuda.threadIdx.x
    bins[x[t] % 8] += 1  # !


@faulty("race", args=lambda: [array(N)])
def stencil_in_place(x):
    t = cuda.threadIdx.x
    if 0 < t < N - 1:
        x[t] = x[t - 1] + x[t + 1]  # !


@faulty("race", args=lambda: [array(8, 8)], block=(8, 8))
def transpose_in_place(a):
    i, j = cuda.threadIdx.y, cuda.threadIdx.x
    a[j, i] = a[i, j]  # !


@faulty("race", args=lambda: [zeros(N), array(N)])
def leader_without_barrier(out, x):
    scale = cuda.shared.array(1, float32)
    t = cuda.threadIdx.x
    if t == 0:
        scale[0] = x[0]  # !
    out[t] = x[t] * scale[0]  # !


@faulty("race", args=lambda: [zeros(N), array(N)])
def scan_in_place(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    step = 1
    while step < N:
        if t >= step:
            s[t] += s[t - step]  # !
        cuda.syncthreads()
        step *= 2
    out[t] = s[t]


@faulty("race", args=lambda: [zeros(N), zeros(1, dtype=int32)])
def a_plain_look_at_a_counter(out, count):
    t = cuda.threadIdx.x
    cuda.atomic.add(count, 0, 1)  # !
    out[t] = count[0]  # !


@faulty("race", args=lambda: [zeros(N), array(N)], shared=4 * N)
def two_views_of_dynamic_memory(out, x):
    a_s = cuda.shared.array(0, float32)
    b_s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    a_s[t] = x[t]  # !
    out[t] = b_s[N - 1 - t]  # !


@faulty("race", args=lambda: [zeros(4), array(4 * N)])
def a_buffer_too_few(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    for i in range(4):
        s[t] = x[i * N + t]  # !
        cuda.syncthreads()
        if t == 0:
            acc = float32(0)
            for j in range(N):
                acc += s[j]  # !
            out[i] = acc


@faulty("race", args=lambda: [zeros(N), array(N)])
def the_same_array_twice(out, x):
    # The launch passes one array under two names: see ALIASED.
    t = cuda.threadIdx.x
    out[t] = x[(t + 1) % N]  # !


@faulty("conflict", args=lambda: [zeros(1, dtype=int32)])
def all_write_their_number(out):
    out[0] = cuda.threadIdx.x  # !


@faulty("conflict", args=lambda: [zeros(N), array(N)])
def the_wrong_index(out, x):
    t = cuda.threadIdx.x
    out[t // 2] = x[t]  # !


# ---- between blocks ----


@faulty("race", args=lambda: [zeros(1), array(4 * N)], grid=4, block=1)
def blocks_add_without_atomics(out, x):
    b = cuda.blockIdx.x
    acc = float32(0)
    for i in range(N):
        acc += x[b * N + i]
    out[0] += acc  # !


@faulty("race", args=lambda: [array(4 * N)], grid=4)
def stencil_across_blocks(x):
    i = cuda.grid(1)
    right = x[(i + 1) % (4 * N)]  # !
    cuda.syncthreads()
    x[i] = right  # !


@faulty(
    "race", args=lambda: [zeros(1), array(4), zeros(4), zeros(1, dtype=int32)], grid=4
)
def last_block_without_fence(out, x, part, count):
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        part[b] = x[b]  # !
        last[0] = cuda.atomic.add(count, 0, 1) == 3
    cuda.syncthreads()
    if last[0] and t == 0:
        acc = float32(0)
        for i in range(4):
            acc += part[i]  # !
        out[0] = acc


@faulty("race", args=lambda: [zeros(1), array(4)], grid=4, block=1)
def a_flag_that_nobody_passes_on(out, x):
    b = cuda.blockIdx.x
    if b == 0:
        x[0] = float32(2)  # !
    if b == 3:
        out[0] = x[0]  # !


@faulty("race", args=lambda: [zeros(2 * N)], grid=3)
def overlapping_blocks(out):
    i = cuda.blockIdx.x * (N // 2) + cuda.threadIdx.x
    out[i] = cuda.blockIdx.x  # !


# ---- reads of unwritten memory ------------------------------------------------------


@faulty("uninitialised", args=lambda: [zeros(N), array(N)])
def a_tile_with_a_hole(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    if t < N - 4:
        s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[N - 1 - t]  # !


@faulty("uninitialised", args=lambda: [zeros(N), array(N)])
def a_sum_that_begins_anywhere(out, x):
    acc = cuda.local.array(2, float32)
    t = cuda.threadIdx.x
    acc[0] += x[t]  # !
    out[t] = acc[0]


@faulty("uninitialised", args=lambda: [zeros(1), array(48)], block=48)
def padding_that_is_not_zero(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    if t < 32:
        s[t] += s[t + 32]  # !
    cuda.syncthreads()
    if t == 0:
        out[0] = s[0]


@faulty("uninitialised", args=lambda: [zeros(2)], grid=2, block=1)
def shared_memory_of_the_block_before(out):
    s = cuda.shared.array(1, int32)
    if cuda.blockIdx.x == 0:
        s[0] = 5
    cuda.atomic.add(s, 0, 1)  # !
    out[cuda.blockIdx.x] = s[0]


# ---- out of bounds ----


@faulty("bounds", args=lambda: [zeros(50), array(50)])
def no_guard(out, x):
    i = cuda.grid(1)
    out[i] = x[i]  # !


@faulty("bounds", args=lambda: [zeros(N), array(N)])
def before_the_start(out, x):
    i = cuda.grid(1)
    out[i] = x[i - 1]  # !


@faulty("bounds", args=lambda: [zeros(8, 4), array(8, 4)], block=(8, 8))
def rows_for_columns(out, a):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    if x < 8 and y < 4:
        out[y, x] = a[y, x] + 1  # !


@faulty("bounds", args=lambda: [zeros(N), array(N)])
def beyond_the_tile(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[t + 1]  # !


@faulty("bounds", args=lambda: [zeros(1), array(4)], block=1)
def a_local_array_too_small(out, x):
    r = cuda.local.array(3, float32)
    for i in range(4):
        r[i] = x[i]  # !
    out[0] = r[0]


@faulty("bounds", args=lambda: [zeros(4, dtype=int32), array(N, dtype=int32)])
def too_few_bins(bins, x):
    cuda.atomic.add(bins, x[cuda.threadIdx.x] % 8, 1)  # !


# ---- barriers, and launches that do not end ----


@faulty("barrier", args=lambda: [zeros(N), array(N)])
def a_barrier_in_a_branch(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 32:
        cuda.syncthreads()  # !
    out[t] = s[t]


@faulty("barrier", args=lambda: [zeros(N), array(N)])
def a_barrier_at_the_end_of_a_branch(out, x):
    t = cuda.threadIdx.x
    if t < 32:
        out[t] = x[t]
        cuda.syncthreads()  # !


@faulty("barrier", args=lambda: [zeros(N), array(N)])
def a_loop_with_as_many_barriers_as_its_thread(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    for _ in range(t % 2 + 1):
        cuda.syncthreads()  # !
    out[t] = s[t]


@faulty("absent-lane", args=lambda: [zeros(2), array(N)])
def a_sum_inside_the_guard(out, x):
    t = cuda.threadIdx.x
    if t < 40:
        value = x[t]
        step = 16
        while step > 0:
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)  # !
            step //= 2
        if t % 32 == 0:
            out[t // 32] = value


@faulty("absent-lane", args=lambda: [zeros(N), array(N)])
def a_vote_inside_the_guard(out, x):
    t = cuda.threadIdx.x
    if t < 40:
        out[t] = cuda.popc(cuda.ballot_sync(0xFFFFFFFF, x[t] > 15))  # !


@faulty("hang", args=lambda: [zeros(1, dtype=int32)], block=2)
def a_flag_that_nobody_raises(flag):
    while flag[0] == 0:  # !
        pass


@faulty("hang", args=lambda: [zeros(N), array(N)], block=2, seconds=0.3)
def a_loop_that_stands_still(out, x):
    i, acc = 0, float32(0)
    while i < 8:  # !
        acc += x[i]  # !
    out[cuda.threadIdx.x] = acc


# ---- clean ----


@clean(lambda: [zeros(1), array(4 * N), zeros(4), zeros(1, dtype=int32)], grid=4)
def last_block_sums(out, x, part, count):
    s = cuda.shared.array(N, float32)
    last = cuda.shared.array(1, int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    s[t] = x[b * N + t]
    cuda.syncthreads()
    step = N // 2
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        part[b] = s[0]
        cuda.threadfence()
        last[0] = cuda.atomic.add(count, 0, 1) == 3
    cuda.syncthreads()
    if last[0] and t == 0:
        acc = float32(0)
        for i in range(4):
            acc += part[i]
        out[0] = acc
        count[0] = 0


@clean(lambda: [zeros(N), array(N), zeros(N), zeros(1, dtype=int32)], grid=4, block=16)
def last_block_reads_what_every_thread_fenced(out, x, part, count):
    last = cuda.shared.array(1, int32)
    t, i = cuda.threadIdx.x, cuda.grid(1)
    part[i] = x[i] * 2
    cuda.threadfence()
    cuda.syncthreads()
    if t == 0:
        last[0] = cuda.atomic.add(count, 0, 1) == 3
    cuda.syncthreads()
    if last[0]:
        for j in range(t, N, 16):
            out[j] = part[j]


@clean(lambda: [zeros(1), array(32)], block=32)
def warp_reduction(out, x):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncwarp()
    step = 16
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncwarp()
        step //= 2
    if t == 0:
        out[0] = s[0]


@clean(lambda: [zeros(2), array(N)])
def shuffles(out, x):
    t = cuda.threadIdx.x
    value = x[t]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if t % 32 == 0:
        out[t // 32] = value


@clean(lambda: [zeros(N), array(N)])
def a_shuffle_orders_shared_memory(out, x):
    s = cuda.shared.array(N, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    seen = cuda.shfl_sync(0xFFFFFFFF, t, 0)
    out[t] = s[seen + 31 - t % 32]


@clean(lambda: [zeros(8, dtype=int32), array(4 * N, dtype=int32)], grid=4)
def histogram(bins, x):
    s = cuda.shared.array(8, int32)
    t = cuda.threadIdx.x
    if t < 8:
        s[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(s, x[cuda.grid(1)] % 8, 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(bins, t, s[t])


@clean(lambda: [zeros(6, 7), array(6, 5), array(5, 7)], grid=(2, 2), block=(4, 4))
def tiled_matmul(c, a, b):
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    acc = float32(0)
    for k0 in range(0, 5, TILE):
        a_s[ty, tx] = a[row, k0 + tx] if row < 6 and k0 + tx < 5 else 0
        b_s[ty, tx] = b[k0 + ty, col] if k0 + ty < 5 and col < 7 else 0
        cuda.syncthreads()
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()
    if row < 6 and col < 7:
        c[row, col] = acc


@clean(lambda: [zeros(8, 8), array(8, 8)], grid=(2, 2), block=(4, 4))
def transpose(out, a):
    s = cuda.shared.array((TILE, TILE + 1), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    s[ty, tx] = a[row, col]
    cuda.syncthreads()
    out[cuda.blockIdx.x * TILE + ty, cuda.blockIdx.y * TILE + tx] = s[tx, ty]


@clean(lambda: [zeros(8, 8), array(8, 8)], grid=(2, 2), block=(4, 4))
def naive_transpose(out, a):
    col, row = cuda.grid(2)
    if row < 8 and col < 8:
        out[col, row] = a[row, col]


@clean(lambda: [zeros(50), array(50)])
def early_return(out, x):
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    out[i] = 2 * x[i]


@clean(lambda: [zeros(N), array(N)])
def all_raise_the_same_flag(out, x):
    flag = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        flag[0] = 0
    cuda.syncthreads()
    if x[t] > 20:
        flag[0] = 1
    cuda.syncthreads()
    out[t] = flag[0]


@clean(lambda: [zeros(1, dtype=int32), array(N)])
def all_write_the_same(out, x):
    out[0] = 1


@clean(lambda: [zeros(1, dtype=int32), array(4 * N)], grid=4)
def blocks_raise_the_same_flag(found, x):
    if x[cuda.grid(1)] > 20:
        found[0] = 1


@clean(lambda: [zeros(N), array(N)])
def scan_with_two_buffers(out, x):
    s = cuda.shared.array((2, N), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    cuda.syncthreads()
    now, step = 0, 1
    while step < N:
        s[1 - now, t] = s[now, t] + (s[now, t - step] if t >= step else 0)
        cuda.syncthreads()
        now = 1 - now
        step *= 2
    out[t] = s[now, t]


@clean(lambda: [zeros(N), array(N)], grid=2, block=32)
def local_arrays(out, x):
    r = cuda.local.array(3, float32)
    i = cuda.grid(1)
    for j in range(3):
        r[j] = x[i] * j
    out[i] = r[0] + r[1] + r[2]


@clean(lambda: [zeros(N), array(N)], shared=4 * N)
def dynamic_memory(out, x):
    s = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    out[t] = s[N - 1 - t]


@clean(lambda: [array(4 * N)], grid=2)
def each_its_own_in_a_grid_stride_loop(x):
    for i in range(cuda.grid(1), 4 * N, cuda.gridsize(1)):
        x[i] += 1
        x[i] *= 2


@clean(lambda: [zeros(N, dtype=int32), array(N)])
def votes(out, x):
    t = cuda.threadIdx.x
    big = x[t] > 15
    count = cuda.syncthreads_count(big)
    mask = cuda.ballot_sync(0xFFFFFFFF, big)
    out[t] = count + cuda.popc(mask)


@clean(lambda: [zeros(1, dtype=int32), zeros(N)], grid=2, block=N // 2)
def tickets(count, out):
    ticket = cuda.atomic.add(count, 0, 1)
    out[ticket] = 1


@clean(lambda: [zeros(1), array(N), zeros(1, dtype=int32)], grid=2, block=32)
def a_lock_by_compare_and_swap(out, x, lock):
    if cuda.threadIdx.x == 0:
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(100)
        cuda.threadfence()
        out[0] += x[cuda.blockIdx.x]
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)


ALIASED = {"the_same_array_twice"}  # both arguments are one array
