"""Faulty kernels on the CPU: each ends its launch with an error that names the thread
and the fault, and the process and its next launch succeed."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from simt_device import FIBERS

from weft.toolchain import build

SOURCE = Path(__file__).parent / "simt" / "faults.cu"
WHAT = [
    *["STORE", "LOAD", "MISALIGNED", "NOWHERE", "STACK", "FRAME", "DIVIDE", "ILLEGAL"],
    *["ABORT", "THROW", "THROW_INT", "NO_MEMORY", "ASSERT", "TRAP", "JUMP"],
    *["IN_LIBRARY", "NESTED"],
]
ENDLESS = [
    *["LOOP", "BARRIERS", "AFTER_BARRIER", "PRINTF", "VOLATILE", "LIBRARY", "ATOMIC"],
]
ABSENT = ["BLOCK_MISSING", "THREAD_MISSING", "OTHER_BARRIER", "FAULT", "FOREVER"]

# The values of enum simt_fault_kind.
LAUNCH, ADDRESS, STACK, ARITHMETIC, ILLEGAL, ASSERT, TRAP = range(1, 8)
EXCEPTION, TIMEOUT, INTERRUPT, DEADLOCK = range(8, 12)

NULL = 0x18
EXPECTED = {  # by kind: cudaError_t, whether it is a store, part of the text
    "STORE": (ADDRESS, 700, 1, "illegal address: store to 0x18 (a null pointer)"),
    "LOAD": (ADDRESS, 700, 0, "illegal address: load from 0x18"),
    "MISALIGNED": (ADDRESS, 716, 1, "misaligned address: store to 0x"),
    "NOWHERE": (ADDRESS, 700, 0, "load from 0x1234000000000018 (not a valid address"),
    "STACK": (STACK, 719, None, "stack overflow"),
    "FRAME": (STACK, 719, None, "stack overflow"),
    "DIVIDE": (ARITHMETIC, 719, -1, "division by zero"),
    "ILLEGAL": (ILLEGAL, 715, -1, "illegal instruction"),
    "ABORT": (EXCEPTION, 719, -1, "abort() was called"),
    "THROW": (EXCEPTION, 719, -1, "uncaught exception: not in a kernel"),
    "THROW_INT": (EXCEPTION, 719, -1, "uncaught exception"),
    "NO_MEMORY": (EXCEPTION, 719, -1, "std::bad_alloc"),
    "ASSERT": (ASSERT, 710, -1, 'assertion `data[2] == 1 && "a message"` failed'),
    "TRAP": (TRAP, 719, -1, "__trap()"),
    "JUMP": (ADDRESS, 700, None, "illegal address"),
    "IN_LIBRARY": (ADDRESS, 700, 1, "store to 0x18"),
    "NESTED": (LAUNCH, 801, -1, "kernels that launch kernels"),
}


class Fault(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int),
        ("error", ctypes.c_int),
        ("address", ctypes.c_size_t),
        ("write", ctypes.c_int),
        ("block", ctypes.c_uint * 3),
        ("thread", ctypes.c_uint * 3),
        ("kernel", ctypes.c_char * 100),
        ("text", ctypes.c_char * 256),
    ]


class Simt:
    """The kernels of faults.cu and the runtime, with one kind of fibers."""

    def __init__(self, fibers: str) -> None:
        flavour = build.Flavour("cpu", fibers=fibers)
        self.path = build.library_of("test_simt_faults", [SOURCE], flavour)
        self.runtime_path = build.simt_runtime(flavour)
        self.lib = ctypes.CDLL(str(self.path))
        self.runtime = ctypes.CDLL(str(self.runtime_path))
        self.runtime.simt_last_launch_fault.restype = ctypes.POINTER(Fault)
        self.lib.run_faulty.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
        self.lib.run_faulty.argtypes += [ctypes.c_int] * 4

    def fault(self) -> Fault:
        return self.runtime.simt_last_launch_fault().contents

    def text(self) -> str:
        return self.fault().text.decode()

    def faulty(self, what: str, data: np.ndarray, blocks=1, where=0, thread=37, wait=0):
        """Launch the kernel in which thread `thread` of block `where` does `what`."""
        assert data.dtype == np.int32 and data.size >= 4
        address = data.ctypes.data + 4 if what == "MISALIGNED" else NULL
        args = data.ctypes.data, address, blocks, where, thread, wait
        return self.lib.run_faulty(WHAT.index(what), *args)

    def works(self) -> None:
        data = np.zeros(4, np.int32)
        assert self.faulty("TRAP", data, blocks=100, where=-1, wait=1) == 0
        assert data[0] == 100 * 128


@pytest.fixture(scope="module", params=FIBERS)
def simt(request):
    if request.param == "asm" and os.uname().machine != "x86_64":
        pytest.skip("the asm switch is for x86-64")
    return Simt(request.param)


@pytest.fixture
def limited(simt):
    """`simt` with a time limit, so that a hang cannot block the suite."""
    simt.runtime.simt_set_timeout(30_000)
    yield simt
    simt.runtime.simt_set_timeout(0)


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


# ---- faults ------------------------------------------------------------------


@pytest.mark.parametrize("wait", [0, 1], ids=["in the loop", "on its own fiber"])
@pytest.mark.parametrize("what", WHAT)
def test_a_fault_says_who_did_what(simt, what, wait):
    kind, error, write, text = EXPECTED[what]
    for blocks, where in (1, 0), (100, 77):
        data = np.zeros(4, np.int32)
        assert simt.faulty(what, data, blocks, where, wait=wait) == error
        fault = simt.fault()
        assert (fault.kind, fault.error) == (kind, error)
        assert fault.kernel == b"faulty" and text in simt.text()
        assert (list(fault.block), list(fault.thread)) == ([where, 0, 0], [5, 1, 0])
        assert simt.text().startswith(f"faulty: block ({where},0,0), thread (5,1,0): ")
        if write is not None:
            assert fault.write == write
        if what in ("STORE", "LOAD", "IN_LIBRARY", "JUMP"):
            assert fault.address == NULL
        if what == "MISALIGNED":
            assert fault.address == data.ctypes.data + 4
    simt.works()


def test_an_assertion_prints_cudas_line(simt, capfd):
    simt.faulty("ASSERT", np.zeros(4, np.int32), 3, 2, 1)
    line = next(
        i for i, t in enumerate(SOURCE.read_text().split("\n"), 1) if "assert(" in t
    )
    assert capfd.readouterr().err == (
        f"{SOURCE}:{line}: void go_wrong(int, int*, uintptr_t): block: [2,0,0], "
        'thread: [1,0,0] Assertion `data[2] == 1 && "a message"` failed.\n'
    )
    data = np.array([0, 0, 1, 0], np.int32)  # the assertion holds with these numbers
    assert simt.faulty("ASSERT", data) == 0 and data[0] == 128


def test_many_faults_leak_nothing(simt):
    def memory() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])

    data = np.zeros(4, np.int32)
    kinds = ["STORE", "STACK", "DIVIDE", "THROW", "ABORT", "TRAP"]

    def many(times: int) -> None:
        for i in range(times):
            what = kinds[i % len(kinds)]
            assert simt.faulty(what, data, 40, 30, wait=i % 2) == EXPECTED[what][1]

    many(40)
    threads, growth = len(os.listdir("/proc/self/task")), []
    for _ in range(3):
        before = memory()
        many(100)
        growth.append(memory() - before)
    # Stacks that are used for the first time count once; a leak counts every time.
    assert min(growth) < 1024  # growth is in KiB
    # Blocks without progress may have added a few threads, but not one for each fault.
    assert len(os.listdir("/proc/self/task")) < threads + 100
    simt.works()


def test_faults_on_every_worker_and_from_every_thread(simt):
    wrong = []

    def launch(seed: int) -> None:
        data = np.zeros(4, np.int32)
        for i in range(10):
            where = (seed * 31 + i * 7) % 100
            got = simt.faulty("LOAD", data, 100, where)
            if got != 700 or list(simt.fault().block) != [where, 0, 0]:
                wrong.append((got, simt.text()))

    simt.runtime.simt_set_threads(3)
    threads = [threading.Thread(target=launch, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    simt.runtime.simt_set_threads(0)
    assert not wrong
    simt.works()


def test_an_error_is_forgotten_or_sticks(simt):
    data = np.zeros(4, np.int32)
    assert simt.faulty("LOAD", data) == 700
    simt.runtime.simt_clear_fault()
    assert simt.fault().kind == 0 and simt.text() == ""
    simt.runtime.simt_set_sticky(1)
    try:
        assert simt.faulty("LOAD", data) == 700
        data[:] = 0
        assert simt.faulty("LOAD", data, where=-1) == 700 and data[0] == 0
    finally:
        simt.runtime.simt_set_sticky(0)
        simt.runtime.simt_clear_fault()
    simt.works()


# ---- time --------------------------------------------------------------------


@pytest.mark.parametrize("what", ENDLESS)
def test_a_time_limit_ends_every_loop(simt, what, capfd):
    data = np.full(64, 0x41414141, np.int32)
    data[0] = data[-1] = 0
    simt.runtime.simt_set_timeout(50)
    try:
        for blocks in 1, 200:
            run = simt.lib.run_endless
            assert run(ENDLESS.index(what), pointer(data), blocks) == 702
            assert simt.fault().kind == TIMEOUT
            assert "endless: " in simt.text() and "limit of 50 ms" in simt.text()
    finally:
        simt.runtime.simt_set_timeout(0)
    simt.works()


def test_threads_that_wait_for_each_other_without_a_barrier(limited):
    n = 40
    data, sums = np.zeros(n, np.int32), np.zeros(n)
    assert limited.lib.run_wait_for_all(pointer(data), pointer(sums), n) == 0
    i = np.arange(n)
    np.testing.assert_array_equal(sums, i + 1 / (i + 1) + i)
    data[:] = 0
    assert limited.lib.run_chain(pointer(data), 8) == 0
    assert data[:8].tolist() == [8, 7, 6, 5, 4, 3, 2, 1]


def test_blocks_that_wait_for_each_other(limited):
    data = np.zeros(4, np.int32)
    assert limited.lib.run_ping_pong(pointer(data), 3, 2) == 0
    assert data[0] == 6


# ---- cooperative launches ----------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 2, 9])
def test_a_barrier_for_the_whole_grid(limited, blocks):
    data, out = np.zeros(2 * blocks, np.int32), np.zeros(blocks, np.int32)
    args = pointer(out), pointer(data), blocks, 40
    assert limited.lib.run_rotate(*args, 10, 1) == 0
    assert (out == 10).all()
    assert limited.lib.run_rotate(*args, 10, 0) == 719
    assert limited.fault().kind == TRAP
    assert "cudaLaunchCooperativeKernel" in limited.text()


def test_a_cooperative_launch_has_a_limit(simt):
    data = np.zeros(4, np.int32)
    blocks = max(64, simt.runtime.simt_threads()) + 1
    assert simt.lib.run_rotate(pointer(data), pointer(data), blocks, 32, 1, 1) == 720
    assert simt.fault().kind == LAUNCH and "too many blocks" in simt.text()


@pytest.mark.parametrize("what", ABSENT)
def test_a_grid_barrier_that_not_all_reach(simt, what):
    data = np.zeros(4, np.int32)
    simt.runtime.simt_set_timeout(50 if what == "FOREVER" else 30_000)
    run = simt.lib.run_not_all_come
    error = run(ABSENT.index(what), pointer(data), 5)
    simt.runtime.simt_set_timeout(0)
    assert error == {"FAULT": 700}.get(what, 702)
    kind = {"FAULT": ADDRESS, "FOREVER": TIMEOUT}.get(what, DEADLOCK)
    assert simt.fault().kind == kind
    text = {
        "BLOCK_MISSING": "4 blocks wait at a grid barrier, and 1 have ended",
        "THREAD_MISSING": "of the 64 threads of block (4,0,0), 63 came",
        "OTHER_BARRIER": "of the 64 threads of block (4,0,0), 63 came",
        "FAULT": "block (4,0,0), thread (0,0,0): illegal address",
        "FOREVER": "ran longer than the limit of 50 ms",
    }[what]
    assert text in simt.text()
    simt.works()


# ---- other processes ---------------------------------------------------------


def script(simt: Simt, body: str) -> list[str]:
    """Return a command that runs `body` in Python after defining the names below."""
    head = f"""
import ctypes, faulthandler, os, signal, sys, threading, time
lib = ctypes.CDLL({str(simt.path)!r})
runtime = ctypes.CDLL({str(simt.runtime_path)!r})
data = (ctypes.c_int * 64)()
p = ctypes.byref(data)
def faulty(what, where=0):
    return lib.run_faulty(what, p, ctypes.c_size_t({NULL}), 100, where, 5, 1)
def caught():
    lines = open("/proc/self/status").read().splitlines()
    mask = int(next(line for line in lines if line.startswith("SigCgt")).split()[1], 16)
    return {{number for number in range(1, 32) if mask >> number - 1 & 1}}
"""
    return [sys.executable, "-c", head + body]


def no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@pytest.mark.parametrize("handler", ["faulthandler", "none"])
def test_a_fault_of_the_hosts_own_ends_the_process_as_ever(simt, handler):
    enable = "faulthandler.enable()" if handler == "faulthandler" else ""
    body = f"""
{enable}
assert faulty({WHAT.index("LOAD")}) == 700
assert faulty({WHAT.index("STACK")}) == 719
if os.fork() == 0:
    os.abort()
assert os.wait()[1] & 127 == signal.SIGABRT
def launch():
    runtime.simt_set_timeout(20000)
    lib.run_endless(0, p, 1)
threading.Thread(target=launch, daemon=True).start()
time.sleep(0.05)  # a launch is running, elsewhere
lib.host_fault({WHAT.index("STORE")}, p, ctypes.c_size_t(0))
"""
    run = script(simt, body)
    result = subprocess.run(run, capture_output=True, text=True, preexec_fn=no_core)
    assert result.returncode == -signal.SIGSEGV, result.stderr
    dumped = "Fatal Python error: Segmentation fault" in result.stderr
    assert dumped == (handler == "faulthandler")


@pytest.mark.parametrize("thread", ["main", "another"])
def test_ctrl_c_ends_an_endless_kernel(simt, thread):
    body = f"""
def say():
    while signal.SIGSEGV not in caught():  # till the launch has begun
        time.sleep(0.01)
    print("ready", flush=True)
def launch():
    global error
    error = lib.run_endless({ENDLESS.index("VOLATILE")}, p, 200)
try:
    threading.Thread(target=say).start()
    if {thread == "main"}:
        launch()
    else:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
    time.sleep(5)
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
if {thread == "main"}:  # the exception came before the assignment
    runtime.simt_last_fault.restype = ctypes.c_char_p
    assert b"interrupted" in runtime.simt_last_fault()
else:
    thread.join()
    assert error == 702
assert faulty(0, -1) == 0
"""
    with subprocess.Popen(script(simt, body), stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"KeyboardInterrupt\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_handlers_are_removed_after_the_launch(simt):
    body = f"""
mine = {{signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}}
before = caught()
assert not before & mine
for pause in 0, 0.05, 1:  # the watchdog is awake; has removed them; sleeps
    time.sleep(pause)
    for i in range(20):
        assert faulty(0, -1) == 0
    assert faulty({WHAT.index("LOAD")}) == 700
    end = time.monotonic() + 20
    while caught() & mine and time.monotonic() < end:
        time.sleep(0.01)
    assert not caught() & mine
assert caught() - {{signal.SIGURG}} == before  # that one stays once it was needed
"""
    result = subprocess.run(script(simt, body), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_handlers_that_come_between_launches_are_below_ours(simt):
    body = f"""
assert faulty({WHAT.index("LOAD")}) == 700
faulthandler.enable()  # at once: ours are still there
assert faulty({WHAT.index("LOAD")}) == 700
faulthandler.disable()
assert faulty({WHAT.index("STACK")}) == 719
faulthandler.enable()
assert faulty({WHAT.index("DIVIDE")}) == 719
os.abort()
"""
    run = script(simt, body)
    result = subprocess.run(run, capture_output=True, text=True, preexec_fn=no_core)
    assert result.returncode == -signal.SIGABRT, result.stderr
    assert result.stderr.count("Fatal Python error") == 1


def test_a_forked_child_has_faults_and_limits_of_its_own(simt):
    body = f"""
assert faulty({WHAT.index("LOAD")}) == 700
runtime.simt_set_timeout(50)
assert lib.run_endless(0, p, 3) == 702
runtime.simt_set_timeout(0)  # a busy machine may take longer for the next one
child = os.fork()
assert faulty({WHAT.index("STACK")}) == 719
runtime.simt_set_timeout(50)
assert lib.run_endless(0, p, 3) == 702
if child == 0:
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    result = subprocess.run(script(simt, body), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
