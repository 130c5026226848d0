"""Check counters of kernels on sim against known numbers of a GPU's profiler."""

import numpy as np
import pytest
from atomic_patterns import PATTERNS

from weft import cuda, sim
from weft.report.cures import in_python

float32 = np.float32
TILE = 16


def strided(out, x, stride):
    i = cuda.grid(1)
    out[i] = x[i * stride]


def banked(out, stride):
    s = cuda.shared.array(2048, float32)
    t = cuda.threadIdx.x
    s[t * stride] = t
    out[t] = s[t * stride]


def tiled(c, a, b, n):
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    acc = float32(0)
    for k0 in range(0, n, TILE):
        a_s[ty, tx] = a[row * n + k0 + tx]
        b_s[ty, tx] = b[(k0 + ty) * n + col]
        cuda.syncthreads()
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()
    c[row * n + col] = acc


def odd_and_even(out):
    t = cuda.threadIdx.x
    if t % 2:
        out[t] = 1
    else:
        out[t] = 2


def counters(kernel, grid, block, *args, **options):
    report = sim(kernel, quiet=True, **options)[grid, block](*args)
    assert report.ok, report
    return report.counters


@pytest.mark.parametrize("order", ["forward", "shuffled"])
@pytest.mark.parametrize("stride, sectors", [(1, 4), (2, 8), (4, 16), (8, 32)])
def test_strided_loads(stride, sectors, order):
    x = np.zeros(128 * stride, np.float32)
    costs = counters(strided, 2, 64, np.zeros(128, "f4"), x, stride, order=order)
    assert costs.load_sectors_per_request == {"x": sectors}
    assert costs.store_sectors_per_request == {"out": 4}
    assert costs.bytes == {"x": 4 * sectors * 32, "out": 4 * 4 * 32}


@pytest.mark.parametrize("dtype, sectors", [("f8", 8), ("f4", 4), ("u1", 1)])
def test_wide_and_narrow_elements(dtype, sectors):
    x, out = np.zeros(64, dtype), np.zeros(64, dtype)
    costs = counters(strided, 1, 64, out, x, 1)
    assert costs.sectors_per_request == {"x": sectors, "out": sectors}


@pytest.mark.parametrize("stride, wavefronts", [(1, 1), (2, 2), (32, 32), (33, 1)])
def test_bank_conflicts(stride, wavefronts):
    costs = counters(banked, 1, 32, np.zeros(32, "f4"), stride)
    assert costs.wavefronts == {"s": 2 * wavefronts}
    assert costs.bank_conflicts == {"s": 2 * (wavefronts - 1)}


def adding(out, at):
    s = cuda.shared.array(1024, np.int32)
    t = cuda.threadIdx.x
    for i in range(t, 1024, 64):
        s[i] = 0
    cuda.syncthreads()
    cuda.atomic.add(out, at[t % 32], 1)
    cuda.atomic.add(s, at[t % 32], 1)


@pytest.mark.parametrize("name", PATTERNS)
def test_lanes_whose_atomics_are_for_one_element_go_one_after_the_other(name):
    at, sectors, wavefronts = PATTERNS[name]
    costs = counters(adding, 1, 64, np.zeros(1024, "i4"), np.array(at, "i4"))
    atomics = {p.array: p for p in costs.places if p.kind == "atomic"}
    assert atomics["out"].sectors == 2 * sectors
    assert atomics["s"].wavefronts == 2 * wavefronts
    assert atomics["s"].conflicts == 2 * (wavefronts - 1)


def test_a_tiled_matmul():
    n = 32
    a, b, c = (np.ones(n * n, np.float32) for _ in range(3))
    costs = counters(tiled, (2, 2), (16, 16), c, a, b, n)
    assert (costs.threads, costs.warps, costs.barriers) == (1024, 32, 16)
    assert costs.reads_per_thread == {"a": 2, "b": 2, "a_s": 32, "b_s": 32}
    # A warp loads two rows of 16 floats: two sectors for each half warp.
    assert costs.load_sectors_per_request == {"a": 4, "b": 4}
    assert costs.bank_conflicts == {"a_s": 0, "b_s": 0}


def test_lanes_of_a_branch():
    costs = counters(odd_and_even, 1, 64, np.zeros(64, "f4"), trace=True)
    halves = [p.lanes for p in costs.places if p.kind == "write"]
    assert halves == [16, 16]
    assert 16 < costs.active_lanes < 32


def test_active_lanes_are_not_guessed_from_accesses():
    y = np.zeros(64, "f4")
    assert counters(odd_and_even, 1, 64, y).active_lanes is None
    assert counters(odd_and_even, 1, 64, y, steps=True).active_lanes < 32


def doubled(value):
    return value * 2


def by_line(out, x):
    i = cuda.grid(1)
    out[i] = doubled(x[2 * i])


def test_counters_stand_at_the_kernels_lines():
    costs = counters(by_line, 1, 32, np.zeros(32, "f4"), np.zeros(64, "f4"))
    line = costs.lines[by_line.__code__.co_firstlineno + 2]
    assert (line.reads, line.writes, line.sectors) == (32, 32, 8 + 4)


def together(total, x):
    total[0] += x[cuda.grid(1)]


def test_adding_to_one_element_is_cured_by_an_atomic_not_by_a_barrier():
    total, x = np.zeros(1, "f4"), np.ones(64, "f4")
    finding = sim(together, quiet=True)[1, 64](total, x).findings[0]
    assert "cuda.atomic.add" in in_python(finding)
