"""The simulator computes the right results, and records the right accesses."""

import numpy as np
import pytest
import torch

from weft import ArgumentError, KernelFault, cuda, sim
from weft.pykernel import bodies

TILE = 4
LOOKUP = np.arange(10, dtype=np.float32) ** 2


def random(*shape) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def double(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


def test_a_map_with_a_guard():
    x, y = random(100), np.zeros(100, np.float32)
    report = sim(double)[4, 32](y, x, 100)
    assert (y == 2 * x).all() and report.ok
    assert report.counters.reads["x"] == report.counters.writes["y"] == 100


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled", 7])
@pytest.mark.parametrize("kernel", [bodies.matmul, bodies.matmul_tiled])
def test_matmul(kernel, order, checks):
    m, n, k = 17, 20, 33
    a, b, c = random(m, k), random(k, n), np.full((m, n), np.nan, np.float32)
    args = c.reshape(-1), a.reshape(-1), b.reshape(-1), m, n, k
    report = sim(kernel, order=order, checks=checks)[(2, 2), (16, 16)](*args)
    bound = 1.01 * k * 2.0**-24 * (abs(a).astype(float) @ abs(b))
    assert (abs(c - a.astype(float) @ b) <= bound).all()
    assert report.ok, report


def chained(y, x):
    i = cuda.threadIdx.x
    y[i][0], y[i, 1] = x[i, 1], x[i][0]
    y[i, 1] += 1
    y[i][0] *= x[i, -1 + 2]


def test_chains_tuples_and_augmented_assignment():
    x, y = random(5, 2), np.zeros((5, 2), np.float32)
    report = sim(chained)[1, 5](y, x)
    assert (y[:, 0] == x[:, 1] ** 2).all() and (y[:, 1] == x[:, 0] + 1).all()
    assert report.counters.reads["x"] == 15 and report.counters.reads["y"] == 10
    assert report.counters.writes["y"] == 20


def swap(x, n):
    i, j = cuda.threadIdx.x, n - 1 - cuda.threadIdx.x
    if i < j:
        x[i], x[j] = x[j], x[i]


def test_a_swap():
    x = np.arange(9.0)
    assert sim(swap)[1, 9](x, 9).ok
    assert (x == np.arange(9.0)[::-1]).all()


def branches(y, x, n):
    i = cuda.threadIdx.x
    if (i < n and x[i] > 0) or i == 0:
        y[i] = x[i] if i % 2 else -1
    else:
        y[i] = 0
    count = 0
    while True:
        count += 1
        if count == 2:
            continue
        if count > i:
            break
    else:
        count = -1
    for k in range(n):
        if k == i:
            break
    else:
        y[i] = 7
        return
    if (half := count // 2) > 1:
        y[i] += half


def test_branches_log_what_happened():
    x, y = np.array([-1.0, 1, -1, 1]), np.zeros(6)
    report = sim(branches)[1, 6](y, x, 4)
    assert y.tolist() == [-1, 1, 0, 1 + 2, 7, 7]
    # Threads 0 to 3 compare x once; 1 and 3 also copy it.
    assert report.counters.reads["x"] == 4 + 2
    assert report.counters.reads["y"] == 1


def volumes(y, x):
    i, j, k = cuda.grid(3)
    n = x.shape
    if i < n[1] and j < n[2] and k < x.shape[3]:
        for b in range(len(x)):
            y[b, i, j, k] = x[b][i][j, k] + x.size


def test_four_dimensions():
    x = random(2, 3, 4, 5)
    y = np.zeros_like(x)
    assert sim(volumes)[(2, 2, 2), (2, 2, 3)](y, x).ok
    assert (y == x + x.size).all()


def total(row, n):
    sum = np.float32(0)
    for i in range(n):
        sum += row[i]
    return sum


def rows(y, x):
    i = cuda.threadIdx.x
    y[i] = total(x[i], x.shape[1]) + total(x[i, 1:], x.shape[1] - 1)


def test_rows_and_slices_go_to_helpers():
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.zeros(3, np.float32)
    report = sim(rows)[1, 3](y, x)
    assert report.ok and (y == x.sum(1) + x[:, 1:].sum(1)).all()
    assert report.counters.reads["x"] == 21


def block_sum(value, s):
    t = cuda.threadIdx.x
    s[t] = value
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    return s[0]


def reduce(y, x):
    s = cuda.shared.array(64, np.float32)
    value = block_sum(x[cuda.grid(1)], s)
    if cuda.threadIdx.x == 0:
        y[cuda.blockIdx.x] = value


@pytest.mark.parametrize("checks", [True, False])
def test_a_helper_with_barriers(checks):
    x, y = np.arange(256, dtype=np.float32), np.zeros(4, np.float32)
    report = sim(reduce, order="reverse", checks=checks)[4, 64](y, x)
    assert report.ok and (y == x.reshape(4, 64).sum(1)).all()
    assert not checks or report.counters.barriers == 4 * 7


def dynamic(y, n):
    s = cuda.shared.array(0, np.float32)
    k = cuda.shared.array(0, np.int32)[n:]
    t = cuda.threadIdx.x
    s[t] = t
    k[t] = -t
    cuda.syncthreads()
    y[t] = s[n - 1 - t] + k[t]


def test_dynamic_shared_memory():
    y = np.zeros(8, np.float32)
    assert sim(dynamic)[1, 8, 0, 64](y, 8).ok
    assert (y == 7 - 2 * np.arange(8)).all()
    with pytest.raises(ArgumentError, match="0 bytes"):
        sim(dynamic)[1, 8](y, 8)
    with pytest.raises(KernelFault, match=r"k\[0\].*16 bytes"):
        sim(dynamic)[1, 8, 0, 16](y, 8)


def local(y):
    t = cuda.local.array((2, 2), np.int32)
    i = cuda.threadIdx.x
    for a in range(2):
        for b in range(2):
            t[a, b] = i * a + b
    y[i] = t[1, 1] + LOOKUP[i] + cuda.const.array_like(LOOKUP)[1]


def test_local_arrays_and_constants():
    y = np.zeros(5, np.float32)
    assert sim(local)[1, 5](y).ok
    assert (y == np.arange(5) + 1 + LOOKUP[:5] + 1).all()


def stores(i8, u32, f16, flags, z):
    i8[0] = 300
    i8[1] = -129.7
    i8[2] = np.nan
    u32[0] = -1
    u32[1] = np.int32(-2)
    u32[1] += 3
    f16[0] = 1e9
    flags[0] = 3
    z[0] = z[1] * 2j


@pytest.mark.parametrize("checks", [True, False])
def test_what_is_stored_becomes_what_c_makes_of_it(checks):
    i8, u32 = np.zeros(3, np.int8), np.zeros(2, np.uint32)
    f16, flags = np.zeros(1, np.float16), np.zeros(1, bool)
    z = np.array([0, 1 + 1j], np.complex64)
    sim(stores, checks=checks)[1, 1](i8, u32, f16, flags, z)
    assert i8.tolist() == [44, 127, 0] and u32.tolist() == [2**32 - 1, 1]
    assert np.isinf(f16[0]) and flags[0] and z[0] == -2 + 2j


POINT = np.dtype([("x", np.float32), ("n", np.int32)])


def fields(p, y):
    i = cuda.threadIdx.x
    y[i] = p[i].x + p[i]["n"]
    p[i]["n"] = i
    p[i].x = i + 0.5
    p[i].x += 1


@pytest.mark.parametrize("checks", [True, False])
def test_structured_arrays(checks):
    p, y = np.array([(1, 2), (3, 4)], POINT), np.zeros(2)
    report = sim(fields, checks=checks)[1, 2](p, y)
    assert y.tolist() == [3, 7] and p["n"].tolist() == [0, 1] and report.ok
    assert p["x"].tolist() == [1.5, 2.5]
    assert not checks or report.counters.writes["p"] == 6


def renamed(y, x, n, flag):
    i = cuda.threadIdx.x
    source = x if flag else y
    other = y
    if i < n:
        other[i] = source[i] + source[len(source) - 1]
        other[i] += 1
        x = source
        y[i] *= x[0]


def test_arrays_under_other_names():
    x, y = np.arange(1, 5, dtype=np.float16), np.zeros(4, np.float16)
    report = sim(renamed)[1, 8](y, x, 4, True)
    assert report.ok and (y == np.arange(1, 5) + 5).all()
    assert report.counters.reads["x"] == 12 and report.counters.writes["y"] == 12
    with pytest.raises(KernelFault, match=r"thread 5 reads x\[5\]"):
        sim(renamed, order="reverse")[1, 6](y, x, 8, True)


def gather(y, x, index, n):
    i = cuda.grid(1)
    if i < n:
        y[index[i]] = x[index[i], 0]


def test_indices_from_memory():
    index = np.array([2, 0, 1], np.int8)
    x, y = random(3, 1), np.zeros(3, np.float32)
    assert sim(gather)[1, 4](y, x, index, np.int64(3)).ok
    assert (y == x[:, 0]).all()
    with pytest.raises(TypeError, match="whole number.*float32.*n // 2"):
        sim(gather)[1, 1](y, x, index.astype(np.float32), 3)


def test_arrays_of_torch_and_views_of_one_memory():
    x = torch.arange(8.0)
    assert sim(double)[1, 8](x, x, 8).ok and (x == 2 * torch.arange(8.0)).all()
    y = np.zeros(9, np.float32)
    # Thread i + 1 reads the element of thread i.
    report = sim(double)[1, 8](y[1:], y[:8], 8)
    assert [f.kind for f in report.findings] == ["race"]


def test_interleaved_views_of_one_memory_do_not_meet():
    x = np.arange(16, dtype=np.float32)
    assert sim(double)[1, 8](x[::2], x[1::2], 8).ok
    assert (x[::2] == 2 * np.arange(1, 16, 2)).all()
    x = np.arange(16, dtype=np.float32)
    assert not sim(double, quiet=True)[1, 8](x[::-2], x[1::2], 8).ok
    assert sim(double)[1, 8](x[::-2], x[:1:-2], 7).ok


def unsteady(y):
    s = cuda.shared.array(32, np.float32)
    if cuda.threadIdx.x == 0:
        s[0] = 1
    y[cuda.threadIdx.x] = s[cuda.threadIdx.x]


def test_nothing_is_zero_that_nobody_wrote():
    y = np.zeros(4, np.float32)
    report = sim(unsteady, quiet=True)[2, 4](y)
    assert y[0] == 1 and np.isnan(y[1:]).all()
    assert {f.kind for f in report.findings} >= {"uninitialised"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_tensor_on_a_gpu_is_copied_here_and_back():
    def double(y, x):
        i = cuda.grid(1)
        y[i] = 2 * x[i]

    x = torch.arange(4.0, device="cuda")
    y = torch.full((4,), np.nan, device="cuda")
    assert sim(double)[1, 4](y, x).ok
    assert y.tolist() == [0, 2, 4, 6]
