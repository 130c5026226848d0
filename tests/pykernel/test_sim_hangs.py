"""Reasons for which a launch in the simulator ends, and their messages."""

import ctypes
import io
import linecache
import math
import os
import re
import sys
import time

import numpy as np
import pytest

from weft import ArgumentError, KernelFault, cuda, sim
from weft.pykernel.sim import log, schedule

X = np.zeros(12, np.float32)


def line_of(kernel, text: str) -> int:
    """Return the number of the line in a kernel that contains this text."""
    first = kernel.__code__.co_firstlineno
    for number in range(first, first + 40):
        if text in linecache.getline(__file__, number):
            return number
    raise AssertionError(text)


def past(x, y):
    i = cuda.grid(1)
    y[i] = x[i + 10]  # one past the end


def before(x, y):
    x[cuda.threadIdx.x - 1] = 3  # a negative index


def corner(a, x):
    i = cuda.threadIdx.x
    a[i, i - 1] += 1  # a corner


def deep(x, i):
    return x[i]  # the fault is in a helper


def calls(x, y):
    r = x[1:]
    y[0] = deep(r, 11)


def tile(x, i, j):
    s = cuda.shared.array((3, 4, 5), np.float32)
    s[1, i, j] = 1
    x[0] = s[1, i, j]


@pytest.mark.parametrize("i, j", [(0, 5), (4, 0), (-1, 0), (0, -1), (np.int8(9), 9)])
def test_no_side_of_a_tile_runs_into_the_next(i, j):
    message = rf"writes s\[1, {i}, {j}\] .*: s has shape \(3, 4, 5\)"
    with pytest.raises(KernelFault, match=message):
        sim(tile)[1, 1](X.copy(), i, j)
    assert sim(tile)[1, 1](X.copy(), 3, 4).ok


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_an_access_past_the_end(order):
    y = np.full(12, 7, np.float32)
    with pytest.raises(KernelFault) as error:
        sim(past, order=order)[3, 4](X, y)
    fault = error.value
    finding = fault.report.findings[0]
    assert finding.kind == "bounds" and finding.array == "x"
    assert finding.line == line_of(past, "one past") and finding.file == __file__
    block, thread, index = (0, 2, 12) if order == "forward" else (2, 3, 21)
    assert fault.block == finding.block == (block, 0, 0)
    assert fault.thread == finding.thread == (thread, 0, 0)
    assert finding.index == (index,)
    assert f"thread {thread} of block {block} reads x[{index}]" in str(fault)
    assert "x has 12 elements" in str(fault)
    assert y[11] == 7  # no index wrapped around


@pytest.mark.parametrize(
    "kernel, args, message",
    [
        (before, (X, X), r"thread 0 writes x\[-1\] at line \d+: x has 12 elements"),
        (corner, (np.zeros((3, 4)), X), r"reads a\[0, -1\] .*: a has shape \(3, 4\)"),
        (calls, (X, X), r"reads x\[11\] .*: x has 11 elements"),
    ],
)
def test_what_is_said_of_bounds(kernel, args, message):
    originals = [a.copy() for a in args]
    with pytest.raises(KernelFault, match=message):
        sim(kernel)[1, 1](*args)
    assert all((a == b).all() for a, b in zip(args, originals))


def test_without_checks_the_end_is_still_an_end():
    with pytest.raises(KernelFault, match="thread 2 of block 0 reads x.* line"):
        sim(past, checks=False)[3, 4](X, np.zeros(12))


def test_the_traceback_ends_at_the_readers_line():
    with pytest.raises(KernelFault) as error:
        sim(calls)[1, 1](X, X)
    last = error.traceback[-2:]
    assert [entry.name for entry in last] == ["calls", "deep"]
    assert last[1].lineno + 1 == line_of(deep, "in a helper")


def divides(y):
    i = cuda.grid(1)
    y[i] = 1 // (i - 5)


@pytest.mark.parametrize("checks", [True, False])
def test_an_exception_keeps_its_type(checks):
    with pytest.raises(ZeroDivisionError) as error:
        sim(divides, checks=checks)[2, 4](X.copy())
    assert error.value.__notes__ == ["in thread 1 of block 1 of divides"]
    assert error.value.report.kernel == "divides"
    assert error.traceback[-1].name == "divides"


# ---- barriers ------------------------------------------------------------------


def branches(x):
    i = cuda.threadIdx.x
    if i < 3:
        x[i] = i
        cuda.syncthreads()  # here
        x[i] += x[(i + 1) % 3]


def returns(x):
    i = cuda.threadIdx.x
    for k in range(2):
        if k == 1 and i >= 3:
            return
        x[i] = i
        cuda.syncthreads()


def helper(x, i):
    if i >= 3:
        return
    x[i] = i
    cuda.syncthreads()
    x[i] += 1


def returns_in_a_helper(x):
    helper(x, cuda.threadIdx.x)


def only_returns(i):
    if i >= 3:
        return


def returns_and_branches(x, n):
    i = cuda.threadIdx.x
    only_returns(i)
    for _ in range(n):
        cuda.syncthreads()
    if i < 2:
        cuda.syncthreads()  # here


def diverges(x):
    i = cuda.threadIdx.x
    if i < 2:
        cuda.syncthreads()  # here
    else:
        cuda.syncthreads()  # there
    x[i] = i


@pytest.mark.parametrize("order", ["forward", "reverse", 7])
def test_a_barrier_that_some_pass_by(order):
    x = np.zeros(5)
    report = sim(branches, quiet=True, order=order)[2, 5](x)
    finding = next(f for f in report.findings if f.kind == "barrier")
    assert finding.count == 2 and finding.line == line_of(branches, "syncthreads")
    assert "threads 3 and 4 have come to the kernel's end without it" in finding.text
    assert finding.thread == (3, 0, 0) and finding.other == (0, 0, 0)


@pytest.mark.parametrize("kernel", [returns, returns_in_a_helper])
def test_who_has_returned_is_not_missed_at_a_barrier(kernel):
    for order in "forward", "reverse", 7:
        assert not sim(kernel, quiet=True, order=order)[1, 5](np.zeros(5)).findings


def test_a_return_from_a_helper_does_not_excuse_what_comes_after_the_next_barrier():
    launch = sim(returns_and_branches, quiet=True)[1, 5]
    (one,) = launch(np.zeros(5), 0).findings
    assert "but thread 2 has come to the kernel's end without it" in one.text
    (one,) = launch(np.zeros(5), 1).findings
    assert "but threads 2, 3 and 4 have come to the kernel's end" in one.text


def test_two_barriers_that_are_taken_for_one():
    report = sim(diverges, quiet=True)[1, 5](np.zeros(5))
    (finding,) = report.findings
    assert finding.kind == "barrier"
    assert f"barrier of line {line_of(diverges, '# there')}" in finding.text
    assert f"threads 0 and 1 wait at that of line {line_of(diverges, '# here')}" in (
        finding.text
    )


# ---- hangs ----------------------------------------------------------------------


def waits_for_nobody(x):
    while x[0] == 0:
        pass


def waits_with_a_barrier(x):
    if cuda.threadIdx.x == 1:
        while cuda.atomic.add(x, 0, 0) == 0:
            pass
    cuda.syncthreads()


def waits_for_a_later_block(x):
    if cuda.blockIdx.x == 0:
        while True:
            if x[0] == 1:
                break
    else:
        x[0] = 1


def endless(x):
    i = 0
    while i >= 0:
        i += 1


def stuck(x):
    while True:
        cuda.syncthreads()


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize(
    "kernel, message",
    [
        (waits_for_nobody, r"thread 0 .*its loop \d+ times.*line 171"),
        (waits_with_a_barrier, r"thread 1 .*1 thread.* at the barrier of line"),
        (
            waits_for_a_later_block,
            "thread 0 of block 0 .* blocks run one after another",
        ),
    ],
)
def test_a_spin_that_does_not_end(kernel, message, checks):
    grid = 2 if kernel is waits_for_a_later_block else 1
    message = message.replace("171", str(line_of(waits_for_nobody, "while")))
    with pytest.raises(KernelFault, match=message) as error:
        sim(kernel, checks=checks)[grid, 2](np.zeros(1, np.int32))
    assert error.value.report.findings[0].kind == "hang"


@pytest.mark.parametrize("kernel", [endless, stuck])
@pytest.mark.parametrize("checks", [True, False])
def test_a_loop_without_end_ends_in_time(kernel, checks):
    with pytest.raises(KernelFault, match=r"longer than 0.1 s") as error:
        sim(kernel, checks=checks, timeout=0.1)[1, 2](X)
    assert error.value.report.findings[0].kind == "hang"
    if kernel is endless:
        assert re.search(r"thread 0 .* line \d+.* \d+ times", str(error.value))
    assert sim(past)[1, 1](X, np.zeros(1)).ok  # the simulator still works


# ---- what is not a launch -----------------------------------------------------------


def gives(x):
    return x[0]


def recursive(x, n):
    if n:
        recursive_helper(x, n)


def recursive_helper(x, n):
    if n:
        recursive_helper(x, n - 1)


def with_try(x):
    try:
        x[0] = 1
    except IndexError:
        x[1] = 1


def with_list(x):
    y = [0] * 3
    x[0] = y[0]


def over_a_list(x):
    for i in [0, 2]:
        x[i] = 1


def with_comprehension(x):
    x[0] = sum(i for i in range(3))


def with_def(x):
    def inner():
        pass


def with_variable_shape(x, n):
    s = cuda.shared.array(n, np.float32)
    x[0] = s[0]


def greedy(x):
    s = cuda.shared.array((120, 128), np.float32)
    x[0] = s[0, 0]


def starred_helper(x, *more):
    x[0] = 1


def with_star(x):
    starred_helper(x, 1, 2)


def unknown(x):
    x[0] = cuda.warp_size()


@pytest.mark.parametrize(
    "kernel, message",
    [
        (gives, "a kernel returns nothing.*: return x"),
        (recursive, "cannot call itself"),
        (with_try, r"line \d+: a kernel cannot have try; test with an if"),
        (with_list, "a list; use cuda.local.array"),
        (over_a_list, r"a kernel's for loop runs over range\(...\) or a tuple"),
        (with_comprehension, "generator expression; write a for loop"),
        (with_def, "def inside a kernel; define the helper outside"),
        (with_variable_shape, "must be known before the launch, and n is not"),
        (greedy, "61440 bytes of shared memory .*49152"),
        (with_star, r"starred_helper.* plain names, not \*"),
        (unknown, "no cuda.warp_size"),
    ],
)
def test_what_a_kernel_cannot_have(kernel, message):
    args = [X.copy(), 3][: kernel.__code__.co_argcount]
    with pytest.raises(ArgumentError, match=message) as error:
        sim(kernel)[1, 1](*args)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "config, args, message",
    [
        ((1, 0), (X, X), "empty"),
        ((1, 1025), (X, X), "1025.*1024"),
        ((1, (33, 32)), (X, X), "1056 threads, but at most 1024"),
        ((1, 1, 0, 300_000), (X, X), "300000 bytes"),
        ((1, 1), (X,), "takes 2 arguments"),
        ((1, 1), (X, [1, 2]), r"y is a list.*np.array\(y"),
        ((1, 1), (X, None), "y is None"),
        ((1, 1), (X, "text"), "str"),
        ((1, 1), (X, np.array([None])), "contains Python objects"),
        ((1, 1), (X, np.array(["a"])), "contains <U1"),
    ],
)
def test_what_is_no_launch(config, args, message):
    with pytest.raises(ArgumentError, match=message):
        sim(past)[config](*args)


def test_what_is_no_kernel():
    for value, message in ((3, "type int"), (lambda x: x, "def"), (np.sum, "type")):
        with pytest.raises(ArgumentError, match=message):
            sim(value)
    with pytest.raises(ArgumentError, match="order"):
        sim(past, order="sideways")
    with pytest.raises(ArgumentError, match=r"sim\(past\)\[grid, block\]"):
        sim(past)(X)


# ---- looking inside ---------------------------------------------------------------


def speaks(x):
    i = cuda.threadIdx.x
    print("thread", i, x[i])
    cuda.syncthreads()
    print("again", i)


def test_print_is_in_order(capsys):
    sim(speaks)[1, 2](np.arange(2))
    assert capsys.readouterr().out.splitlines() == [
        "thread 0 0",
        "thread 1 1",
        "again 0",
        "again 1",
    ]


def stops(x):
    i = cuda.threadIdx.x
    half = x[i] / 2
    cuda.syncthreads()
    breakpoint()
    x[i] = half


def test_breakpoint_stands_in_the_thread(monkeypatch):
    import pdb

    message = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("p i, float(half)\nl\nc\nc\n"))
    debugger = pdb.Pdb(stdin=sys.stdin, stdout=message, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    hook = lambda: debugger.set_trace(sys._getframe(1))  # noqa: E731
    monkeypatch.setattr(sys, "breakpointhook", hook)
    sim(stops)[1, 2](np.arange(2.0) * 4)
    assert "stops()" in message.getvalue() and "x[i] = half" in message.getvalue()
    assert "(0, 0.0)" in message.getvalue()


def test_a_launch_that_swallowed_its_end_is_ended_again(monkeypatch):
    monkeypatch.setattr(schedule, "AGAIN", 0.05)
    ended = []
    with pytest.raises(schedule.TooLong), schedule.Watchdog(0.05):
        while len(ended) < 2:
            try:
                while True:
                    pass
            except schedule.TooLong:
                ended.append(1)
        while True:
            pass


def test_leaving_does_not_wait_for_an_end_that_was_swallowed():
    with schedule.Watchdog(0.02):
        try:
            while True:
                pass
        except schedule.TooLong:
            pass
    assert ctypes.pythonapi.PyThreadState_SetAsyncExc.argtypes is None


def test_a_launch_that_is_over_is_not_ended(monkeypatch):
    def launch():
        # This simulates an exception that arrives before __exit__ has any effect.
        watch = schedule.Watchdog(0.02)
        watch.__enter__()
        return watch

    monkeypatch.setattr(schedule, "AGAIN", 0.02)
    watch = launch()
    for _ in range(500):  # TooLong would be raised here
        if watch not in schedule._watcher.watches:
            break
        time.sleep(0.01)
    assert watch not in schedule._watcher.watches


def test_most_launches_begin_and_end_without_waking_the_watcher(monkeypatch):
    visits = []
    monkeypatch.setattr(schedule, "_watcher", schedule._Watcher())
    inside = schedule.Watchdog.end_late_launch
    monkeypatch.setattr(
        schedule.Watchdog,
        "end_late_launch",
        lambda watch: visits.append(watch) or inside(watch),
    )
    with schedule.Watchdog(60):
        while schedule._watcher.alarm == math.inf:
            time.sleep(0.001)
        visits.clear()
        for _ in range(20):
            with schedule.Watchdog(70):
                time.sleep(0.001)
    assert visits == []


def test_a_short_launch_beside_a_long_one_is_ended_in_time():
    expected = pytest.raises(schedule.TooLong)
    with schedule.Watchdog(60), expected, schedule.Watchdog(0.05):
        while True:
            pass


def test_a_child_process_watches_its_launches_itself():
    with schedule.Watchdog(60):
        pass  # starts this process's watcher
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with schedule.Watchdog(0.05):
                while True:
                    pass
        except schedule.TooLong:
            status = 7
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("trace", [True, False])
def test_of_an_endless_loop_with_accesses_the_beginning_is_judged(monkeypatch, trace):
    def busy(x):
        t = cuda.threadIdx.x
        x[t] = 1
        k = 0
        while t == 1:
            k = (k + 1) % 7
            for i in range(5):
                k += int(x[i])
            x[1] = k

    monkeypatch.setattr(log, "KEPT", 1000)
    with pytest.raises(KernelFault, match="hang|ran for|seconds") as hit:
        sim(busy, trace=trace, quiet=True, timeout=0.2)[1, 2](np.zeros(8))
    reads = hit.value.report.counters
    assert 300 < reads.reads["x"] + reads.writes["x"] < 1010
