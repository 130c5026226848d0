"""Shortcuts for plain loops and repeated blocks do not change any report.

A launch with a trace examines every access separately. Without a trace, a plain loop is
recognised by its first elements, and a block by an earlier block that it resembles.
"""

import numpy as np
import pytest
from tiers import loop_over

from weft import KernelFault, cuda, sim
from weft.pykernel.sim import plain_loops
from weft.pykernel.sim.layout import SITES, AccessPlace
from weft.pykernel.sim.log import Log, site_of

f4 = np.float32


def dot(y, a, b, n, step):
    i = cuda.grid(1)
    acc = f4(0)
    for k in range(n):
        acc += a[i * n + k] * b[k * step]
    y[i] = acc


def strided(y, a, b, n, step):
    i = cuda.grid(1)
    acc = f4(0)
    for k in range(step, n, step):
        acc = acc + a[i * n + k] * b[0] - b[n - 1 - 0 * k]
    y[i] = acc


def backwards(y, a, b, n, step):
    i = cuda.grid(1)
    acc = f4(0)
    for k in range(n):
        acc += a[i * n + n - 1 - k]
    for k in range(n - 1, -1, -step):
        acc += b[k]
    y[i] = acc + f4(k)


def tiles(y, a, b, n, step):
    s = cuda.shared.array((16, 16), f4)
    own = cuda.local.array(16, f4)
    t = cuda.threadIdx.x
    for k in range(16):
        s[k, t] = a[(cuda.blockIdx.x * 16 + t) % 8 * n + k % n]
        own[k] = f4(k)
    cuda.syncthreads()
    acc = f4(0)
    for k in range(16):
        acc += s[t, k] * own[k] + s[3, 2] * b[step]
    y[cuda.grid(1)] = acc


def late(y, a, b, n, step):
    """Race in block 4, read unwritten elements in block 5, and race between blocks."""
    s = cuda.shared.array(16, f4)
    t, block = cuda.threadIdx.x, cuda.blockIdx.x
    for k in range(40):
        if block != 5 or t > 0:
            s[t] = a[k]
    if block != 4:
        cuda.syncthreads()
    acc = s[(t + 1) % 16]
    for _ in range(16):
        acc += s[t]
    y[cuda.grid(1) if block < 6 else t] = acc


def same(kernel, grid, block, *args, order="forward"):
    """Launch with and without a trace, and compare the results. Return the report
    without a trace, and the first array."""
    results = []
    for trace in (True, False):
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        run = sim(kernel, trace=trace, steps=False, quiet=True, order=order)
        results.append((run[grid, block](*arguments), arguments[0]))
    (one, y), (other, z) = results
    assert np.array_equal(y, z, equal_nan=True)
    assert one.findings == other.findings
    assert one.counters == other.counters
    return other, z


@loop_over("order", ["forward", "reverse", "shuffled"])
@pytest.mark.parametrize("kernel", [dot, strided, backwards, tiles, late])
@pytest.mark.parametrize(("n", "step"), [(16, 1), (24, 2), (3, 1)])
def test_it_is_the_same_access_by_access(kernel, order, n, step):
    rng = np.random.default_rng(0)
    a, b = rng.random(128 * 24, f4), rng.random(64, f4)
    report, _ = same(kernel, 8, 16, np.zeros(128, f4), a, b, n, step, order=order)
    kinds = {one.kind for one in report.findings}
    assert kinds == ({"race", "uninitialised"} if kernel is late else set())


def test_rows_of_a_matrix_that_is_no_single_piece_of_memory():
    def rows(y, a, n):
        i = cuda.grid(1)
        acc = f4(0)
        for k in range(n):
            acc += a[i, k] * a[k, 1]
        y[i] = acc

    a = np.arange(400, dtype=f4).reshape(20, 20)[::2, 1:]
    report, y = same(rows, 1, 10, np.zeros(10, f4), a, 10)
    assert np.array_equal(y, a[:10, :10] @ a[:, 1])
    assert report.counters.reads["a"] == 200


@pytest.mark.parametrize("order", ["forward", "shuffled"])
def test_a_loop_that_leaves_the_array_does_so_at_its_turn(order):
    a, b = np.ones(33, f4), np.ones(8, f4)
    with pytest.raises(KernelFault, match=r"reads b\[8\] at line \d+: b has 8") as hit:
        sim(dot, quiet=True, order=order)[1, 2](np.ones(2, f4), a, b, 9, 1)
    assert hit.value.report.counters.reads["b"] in (8, 9)


def test_a_loop_is_cut_off_where_a_name_has_no_value():
    def unset(y, a, n):
        for k in range(n):
            total += a[k]  # noqa: F821, F841
        y[0] = n

    y = np.zeros(1, f4)
    assert sim(unset)[1, 1](y, np.ones(9, f4), 0).ok
    with pytest.raises(UnboundLocalError):
        sim(unset, quiet=True)[1, 1](y, np.ones(9, f4), 9)


def test_a_loop_that_is_half_noted_is_dropped():
    log = Log([site_of(AccessPlace("read", "x[i]", "", 1, 0), 0)] * 2, {})
    log.shapes.append(plain_loops.LoopShape(5, (1, 2)))
    log.starts.append(0)
    log.threads.append(0)
    full = [7 * SITES, plain_loops.HEADER, 3 * SITES, 4 * SITES + 1]
    for entries, rows in (
        (full, 11),
        ([*full, plain_loops.HEADER, 3 * SITES], 11),
    ):
        log.entries.extend(entries)
        log.end_early(0, False)
        (interval,) = log.take()
        assert len(interval.site) == rows
        assert interval.element[:4].tolist() == [7, 3, 4, 4]
        log.starts.append(0)
        log.threads.append(0)
