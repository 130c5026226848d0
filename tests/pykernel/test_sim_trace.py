"""The records that the simulator keeps of a launch, and their form."""

import types

import numpy as np
import pytest

from weft import cuda, sim
from weft.pykernel import bodies
from weft.pykernel.sim.layout import FENCE, LOCAL, READ, SHARED, STEP, WRITE

SCALE = 2


def kernel(y, x, n):
    i = cuda.grid(1)
    half = x[i] / 2
    if i % 2:
        y[i] = half
    else:
        for k in range(i):
            y[i] = x[k]
    flag = i > 1
    if flag:
        return
    last = n  # noqa: F841


def sites(trace, kind):
    return [s for s in trace.sites if s.kind == kind]


def test_a_trace_has_steps_and_names():
    x, y = np.arange(4.0), np.zeros(4)
    trace = sim(kernel, trace=True)[2, 2](y, x, np.int32(9)).trace
    assert trace.kernel == "kernel" and trace.grid == (2, 1, 1)
    assert trace.names[1, 1] == {"i": 3, "n": 9}
    assert trace.names[0, 0] == {"i": 0, "n": 9, "last": 9}
    assert trace.names[1, 0] == {"i": 2, "n": 9, "k": 1}
    assert trace.passing == {"k"}
    first = kernel.__code__.co_firstlineno
    steps = [(s.line - first, s.last - first) for s in sites(trace, STEP)]
    assert steps == [(1, 3), (4, 4), (6, 6), (7, 7), (8, 9), (10, 10), (11, 11)]
    interval = trace.intervals[1]
    assert interval.block == 1 and interval.number == 0
    kinds = [trace.sites[s].kind for s in interval.site[interval.thread == 1]]
    assert kinds == [STEP, READ, STEP, WRITE, STEP, STEP]
    assert (
        interval.element[[trace.sites[s].kind == STEP for s in interval.site]] == -1
    ).all()
    assert interval.values == [0.0, 1.0, 1.5]


def waits(y):
    s = cuda.shared.array(4, np.int32)
    t = cuda.threadIdx.x
    s[t] = t
    cuda.syncwarp()
    y[t] = s[3 - t]
    cuda.threadfence()
    cuda.syncthreads()
    y[t] += cuda.shfl_xor_sync(0xFFFFFFFF, s[t], 1)


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_intervals_lie_thread_by_thread_with_phases(order):
    y = np.zeros(4, np.int32)
    report = sim(waits, trace=True, order=order)[1, 4](y)
    assert report.ok, report
    one, two = report.trace.intervals
    threads = [0, 1, 2, 3] if order == "forward" else [3, 2, 1, 0]
    kinds = [report.trace.sites[s].kind for s in one.site]
    rows = [i for i, kind in enumerate(kinds) if kind not in (STEP, FENCE)]
    assert one.thread[rows].tolist() == [t for t in threads for _ in range(3)]
    assert one.phase[rows].tolist() == [0, 1, 1] * 4
    assert one.values == [v for t in threads for v in (t, 3 - t)]
    assert kinds.count(FENCE) == 4
    assert (one.number, two.number) == (0, 1) and set(two.phase) == {0, 1}


def test_matmul_has_the_accesses_that_it_has():
    c, a = np.zeros(256, np.float32), np.ones(256, np.float32)
    trace = sim(bodies.matmul_tiled, trace=True)[1, (16, 16)](c, a, a, 16, 16, 16).trace
    rows = trace.intervals[1]
    site = sites(trace, READ)[-1]
    assert site.text == "b_s[i, tx]" and trace.arrays[site.array].space == SHARED
    own_rows = (rows.site == trace.sites.index(site)) & (rows.thread == 16 + 5)
    assert rows.element[own_rows].tolist() == [16 * i + 5 for i in range(16)]
    assert (c == 16).all()


def scaled(y):
    y[0] = SCALE


def test_a_constant_that_changes_counts_as_what_it_is_now(monkeypatch):
    y = np.zeros(1)
    sim(scaled)[1, 1](y)
    assert y[0] == 2
    monkeypatch.setitem(globals(), "SCALE", 5)
    sim(scaled)[1, 1](y)
    assert y[0] == 5


def test_kernels_within_functions_see_their_names():
    size = 3

    def helper(x, by=2):
        return x * by + size

    def inner(y):
        s = cuda.shared.array(size, np.float32)
        s[cuda.threadIdx.x] = helper(cuda.threadIdx.x, by=4)
        y[cuda.threadIdx.x] = s[cuda.threadIdx.x] + helper(0)

    y = np.zeros(3)
    assert sim(inner)[1, 3](y).ok and y.tolist() == [6, 10, 14]


def test_numbas_own_kernels_and_names():
    numba_cuda = pytest.importorskip("numba.cuda")
    scope = {**globals(), "cuda": numba_cuda}
    numba_kernel = types.FunctionType(kernel.__code__, scope, "kernel")
    y = np.zeros(4)
    assert sim(numba_kernel)[2, 2](y, np.arange(4.0), 9).ok
    assert sim(types.SimpleNamespace(py_func=kernel))[2, 2](y, np.arange(4.0), 9).ok


def own(y):
    t = cuda.local.array(2, np.float32)
    t[0] = cuda.threadIdx.x
    y[cuda.threadIdx.x] = t[0] + t[1]


def test_local_arrays_are_each_threads_own():
    y = np.zeros(3)
    report = sim(own, quiet=True, trace=True)[1, 3](y)
    (finding,) = report.findings
    assert finding.kind == "uninitialised" and finding.index == (1,)
    assert np.isnan(y).all()
    assert LOCAL in {a.space for a in report.trace.arrays}


def test_many_places():
    body = "".join(f"    y[{i}] = x[{i}] + {i}\n" for i in range(600))
    import linecache

    text = f"def long(y, x):\n{body}"
    linecache.cache["<long>"] = (len(text), None, text.splitlines(True), "<long>")
    scope: dict = {}
    exec(compile(text, "<long>", "exec"), scope)
    x, y = np.zeros(600), np.zeros(600)
    report = sim(scope["long"], trace=True)[1, 1](y, x)
    assert report.ok and (y == np.arange(600)).all()
    assert [s.line for s in report.trace.sites if s.kind == WRITE] == list(
        range(2, 602)
    )
