"""The simulator supports the language beyond arrays and barriers."""

import math

import numpy as np
import pytest

from weft import KernelFault, cuda, sim

FULL = 0xFFFFFFFF


def launch(kernel, *args, block=32, grid=1, checks=True):
    report = sim(kernel, checks=checks)[grid, block](*args)
    assert report.ok, report
    return report


def who(out):
    i = (cuda.threadIdx.z * 2 + cuda.threadIdx.y) * 3 + cuda.threadIdx.x
    x, y = cuda.grid(2)
    out[cuda.blockIdx.z, cuda.blockIdx.y, cuda.blockIdx.x, i, 0] = x
    out[cuda.blockIdx.z, cuda.blockIdx.y, cuda.blockIdx.x, i, 1] = y
    me = cuda.threadIdx
    size = cuda.gridsize(3)
    where = cuda.blockIdx.z, cuda.blockIdx.y
    if me.x == 2 and me.y == 1 and me.z == 1:
        out[where[0], where[1], cuda.blockIdx.x, i, 0] = (
            cuda.gridDim.x * cuda.blockDim.x + size[1] * 100 + size[2] * 1000
        )


def test_who_a_thread_is():
    out = np.zeros((2, 2, 2, 12, 5), np.int64)[..., :2]
    launch(who, out, grid=(2, 2, 2), block=(3, 2, 2))
    assert out[1, 0, 1, 5].tolist() == [5, 1]
    assert (out[..., 11, 0] == 6 + 400 + 4000).all()


def shuffles(out, x):
    lane = cuda.laneid
    v = x[cuda.threadIdx.x]
    out[0, lane] = cuda.shfl_sync(FULL, v, 5)
    out[1, lane] = cuda.shfl_up_sync(FULL, v, 3)
    out[2, lane] = cuda.shfl_down_sync(FULL, v, 3)
    out[3, lane] = cuda.shfl_xor_sync(-1, v, 1)
    out[4, lane] = cuda.shfl_sync(FULL, v, lane + 33)


@pytest.mark.parametrize("checks", [True, False])
def test_shuffles(checks):
    x, out = np.arange(32, dtype=np.int32) * 10, np.zeros((5, 32), np.int32)
    launch(shuffles, out, x, checks=checks)
    lane = np.arange(32)
    assert (out[0] == 50).all()
    assert (out[1] == 10 * np.where(lane < 3, lane, lane - 3)).all()
    assert (out[2] == 10 * np.where(lane > 28, lane, lane + 3)).all()
    assert (out[3] == 10 * (lane ^ 1)).all()
    assert (out[4] == 10 * ((lane + 1) % 32)).all()


def warp_sum(value):
    offset = 16
    while offset > 0:
        value += cuda.shfl_down_sync(FULL, value, offset)
        offset //= 2
    return value


def sums(out, x, n):
    s = cuda.shared.array(32, np.float32)
    i = cuda.grid(1)
    t = cuda.threadIdx.x
    sum = warp_sum(x[i] if i < n else np.float32(0))
    if cuda.laneid == 0:
        s[t // 32] = sum
    cuda.syncthreads()
    if t < 32:  # only one warp, since the others have ended
        sum = warp_sum(s[t] if t < cuda.blockDim.x // 32 else np.float32(0))
        if t == 0:
            cuda.atomic.add(out, 0, sum)


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
def test_the_reduction_of_every_textbook(order):
    x, out = np.arange(500, dtype=np.float32), np.zeros(1, np.float32)
    report = sim(sums, order=order)[4, 128](out, x, 500)
    assert report.ok and out[0] == x.sum()
    assert report.counters.atomics["out"] == 4


def votes(out):
    t = cuda.threadIdx.x
    out[0, t] = cuda.ballot_sync(FULL, t % 2)
    out[1, t] = cuda.any_sync(FULL, t == 3) + 2 * cuda.all_sync(FULL, t < 40)
    out[2, t] = cuda.eq_sync(FULL, t > 40) + 2 * cuda.eq_sync(FULL, t > 3)
    out[3, t] = cuda.match_any_sync(FULL, t // 4)
    if t % 2:
        out[4, t] = cuda.activemask()
    out[5, t] = cuda.lanemask_lt()
    cuda.syncwarp()
    out[6, t] = cuda.syncthreads_count(t < 5) + 100 * cuda.syncthreads_and(t < 19)
    out[6, t] += 1000 * cuda.syncthreads_or(t == 50)


def test_votes_and_a_warp_that_is_not_full():
    out = np.zeros((7, 20), np.int64)
    launch(votes, out, block=20)
    assert (out[0] == 0xAAAAA).all()
    assert (out[1] == 3).all() and (out[2] == 1).all()
    assert out[3, 5] == 0b11110000
    assert (out[4, 1::2] == 0xAAAAA).all()
    assert out[5].tolist() == [2**t - 1 for t in range(20)]
    assert (out[6] == 5).all()


def halves(out):
    t = cuda.threadIdx.x
    if t < 16:
        out[t] = cuda.shfl_down_sync(0x0000FFFF, t, 1)
    else:
        out[t] = cuda.shfl_down_sync(0xFFFF0000, t, 1)


def test_two_masks_at_once():
    out = np.zeros(32, np.int32)
    launch(halves, out)
    assert out.tolist() == [*range(1, 16), 15, *range(17, 32), 31]


def updates(i, u, f, old):
    t = cuda.threadIdx.x
    old[t] = cuda.atomic.add(i, 0, 1)
    cuda.atomic.sub(i, 1, t)
    cuda.atomic.min(i, 2, -t)
    cuda.atomic.max(i, 3, t)
    cuda.atomic.and_(i, 4, ~t)
    cuda.atomic.or_(i, 5, t)
    cuda.atomic.xor(i, 6, t)
    cuda.atomic.exch(i, 7, 5)
    cuda.atomic.inc(u, 0, 3)
    cuda.atomic.dec(u, 1, 3)
    cuda.atomic.cas(i, 8, t, t + 1)
    cuda.atomic.max(f, (0, 1), t * 0.5)
    cuda.atomic.add(f, (0, 0), 0.25)
    cuda.atomic.nanmax(f, (1, 0), t)
    cuda.atomic.max(f, (1, 1), t)


@pytest.mark.parametrize("checks", [True, False])
def test_atomics(checks):
    i, u, old = np.zeros(9, np.int32), np.zeros(2, np.uint32), np.zeros(10, np.int32)
    f = np.array([[0, 0], [np.nan, np.nan]], np.float32)
    launch(updates, i, u, f, old, block=10, checks=checks)
    assert sorted(old) == list(range(10))
    assert i[:4].tolist() == [10, -45, -9, 9]
    assert i[4:].tolist() == [0, 15, 0 ^ 1 ^ 2 ^ 3 ^ 4 ^ 5 ^ 6 ^ 7 ^ 8 ^ 9, 5, 10]
    assert u.tolist() == [2, 2]
    assert f[0].tolist() == [2.5, 4.5] and f[1, 0] == 9 and np.isnan(f[1, 1])


def last_block(out, partial, ticket, x):
    s = cuda.shared.array(1, np.int32)
    t, b = cuda.threadIdx.x, cuda.blockIdx.x
    if t == 0:
        sum = np.float32(0)
        for k in range(4):
            sum += x[b * 4 + k]
        partial[b] = sum
        cuda.threadfence()
        s[0] = cuda.atomic.inc(ticket, 0, cuda.gridDim.x - 1)
    cuda.syncthreads()
    if s[0] == cuda.gridDim.x - 1 and t == 0:
        sum = np.float32(0)
        for k in range(cuda.gridDim.x):
            sum += partial[k]
        out[0] = sum


@pytest.mark.parametrize("order", ["forward", "reverse", 3])
def test_the_last_block_adds_up(order):
    x, out = np.arange(20, dtype=np.float32), np.zeros(1, np.float32)
    partial, ticket = np.zeros(5, np.float32), np.zeros(1, np.uint32)
    report = sim(last_block, order=order)[5, 4](out, partial, ticket, x)
    assert out[0] == x.sum() and ticket[0] == 0
    assert report.ok, report


def lock(count, mutex):
    while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
        cuda.nanosleep(10)
    cuda.threadfence()
    count[0] += 1
    cuda.threadfence()
    cuda.atomic.exch(mutex, 0, 0)


def test_a_lock():
    count, mutex = np.zeros(1, np.int32), np.zeros(1, np.int32)
    sim(lock, quiet=True)[2, 8](count, mutex)
    assert count[0] == 16 and mutex[0] == 0


def flag(out, ready):
    if cuda.threadIdx.x == 0:
        while ready[0] == 0:  # thread 1 has not run yet
            pass
        out[0] = 7
    else:
        ready[0] = 1


@pytest.mark.parametrize("checks", [True, False])
def test_a_spin_lets_others_run(checks):
    out, ready = np.zeros(1), np.zeros(1, np.int32)
    sim(flag, quiet=True, checks=checks)[1, 2](out, ready)
    assert out[0] == 7


def numbers(out, x):
    out[0] = math.sqrt(x[0])
    out[1] = math.sqrt(-x[0])
    out[2] = math.exp(np.float32(1000))
    out[3] = math.log(x[1] * 0)
    out[4] = math.pow(x[0], 2) + math.floor(x[0] + 0.5)
    out[5] = cuda.fma(x[0], x[1], -x[0] * x[1])
    out[6] = cuda.popc(7) + cuda.clz(1) + cuda.ffs(8)
    out[7] = cuda.brev(1)
    out[8] = cuda.selp(x[0] > 1, 1.5, 2.5)
    out[9] = max(x[0], x[1]) + min(1, 2) + abs(-3)


def test_numbers():
    x, out = np.array([2, 1 / 3], np.float32), np.zeros(10)
    launch(numbers, out, x, block=1)
    assert out[0] == np.sqrt(np.float32(2))  # a float32, as sqrtf() returns
    assert np.isnan(out[1]) and out[2] == np.inf and out[3] == -np.inf
    assert out[4] == 6 and out[7] == 2.0**31 and out[8] == 1.5
    third = float(np.float32(1 / 3))
    assert out[5] == np.float32(2 * third - float(np.float32(2 * third)))
    assert out[6] == 3 + 31 + 4 and out[9] == 2 + 1 + 3


def divide(out, x):
    out[0] = x[0] / x[1]
    out[1] = x[2] + x[2]


def test_floats_overflow_and_divide_as_a_gpu_does():
    x, out = np.array([1, 0, 3e38], np.float32), np.zeros(2, np.float32)
    launch(divide, out, x, block=1)
    assert out.tolist() == [np.inf, np.inf]


def not_named(out):
    out[cuda.threadIdx.x] = cuda.shfl_sync(1, 5, 0)


def absent(out):
    t = cuda.threadIdx.x
    if t < 8:
        out[t] = cuda.shfl_down_sync(FULL, t, 1)
    cuda.syncthreads()


def returned(out):
    t = cuda.threadIdx.x
    if t >= 8:
        return
    out[t] = cuda.shfl_down_sync(FULL, t, 1)


def test_lanes_that_never_come():
    out = np.zeros(32, np.int32)
    with pytest.raises(
        KernelFault, match="thread 1 .*0x00000001.* lane 1 is not named"
    ):
        sim(not_named)[1, 32](out)
    with pytest.raises(KernelFault, match=r"lanes 8-31 .*never come.*syncthreads"):
        sim(absent)[1, 32](out)
    sim(returned, quiet=True)[1, 32](out)  # no lane waits for returned lanes
    assert out[:8].tolist() == [1, 2, 3, 4, 5, 6, 7, 7]
