"""CUDA C on the CPU: every kernel of simt/ with both kinds of fibers and in three
orders of the threads' turns."""

import ctypes
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import simt_device
from simt_device import FIBERS, FOLDER, ORDERS, pointer, poison
from tiers import loop_over

from weft.base.device import count_threads
from weft.benchmarks import simt as bench_simt
from weft.toolchain import build

ordered = simt_device.ordered
INVALID_VALUE, INVALID_CONFIGURATION = 1, 9
OUT_OF_RESOURCES, TIMEOUT, LAUNCH_FAILURE, NOT_SUPPORTED = 701, 702, 719, 801


class Simt:
    """The kernels of tests/kernels/simt/ and the runtime, with one kind of fibers."""

    def __init__(self, fibers: str) -> None:
        self.fibers = fibers
        flavour = dataclasses.replace(build.Flavour.here("cpu"), fibers=fibers)
        self.paths = {
            name: build.library_of(
                f"test_simt_{name}", [FOLDER / f"{name}.cu"], flavour
            )
            for name in ("block", "warp", "device", "launch")
        }
        self.runtime_path = build.simt_runtime(flavour)
        self.runtime = ctypes.CDLL(str(self.runtime_path))
        self.runtime.simt_last_fault.restype = ctypes.c_char_p

    def load(self, name: str) -> ctypes.CDLL:
        return ctypes.CDLL(str(self.paths[name]))

    def fault(self) -> str:
        return self.runtime.simt_last_fault().decode()


@pytest.fixture(scope="module", params=FIBERS)
def simt(request):
    if request.param == "asm" and os.uname().machine != "x86_64":
        pytest.skip("the asm switch is for x86-64")
    simt = Simt(request.param)
    yield simt
    simt.runtime.simt_set_threads(0)
    simt.runtime.simt_set_order(0)


# ---- blocks ------------------------------------------------------------------


@loop_over("threads", [1, 2, 32, 64, 1024])
@loop_over("blocks", [1, 3, 50])
def test_block_sum(ordered, blocks, threads):
    x = np.random.default_rng(0).integers(-50, 50, (blocks, threads))
    x = x.astype(np.float32)
    out = poison(blocks, np.float32)
    status = ordered.load("block").run_block_sum(
        pointer(out), pointer(x), blocks, threads
    )
    assert status == 0
    np.testing.assert_array_equal(out, x.sum(1))


def test_a_missing_barrier_shows_in_some_order(simt):
    right = (np.arange(256) + 1) % 256 + 1
    wrong = []
    for name, order in ORDERS.items():
        simt.runtime.simt_set_order(order)
        out = poison(256)
        simt.load("block").run_neighbour_without_barrier(pointer(out))
        if not np.array_equal(out, right):
            wrong.append(name)
    simt.runtime.simt_set_order(0)
    assert {"reverse", "shuffled"} <= set(wrong)


@pytest.mark.parametrize("stay", [1, 5, 32, 63, 96])
def test_early_return_leaves_the_barrier(ordered, stay):
    out = poison((3, 96))
    lib = ordered.load("block")
    assert lib.run_early_return(pointer(out), 3, 96, stay) == 0
    assert (out[:, :stay] == stay * (stay + 1) // 2).all()
    assert (out[:, stay:] == -777).all()


def test_threads_leave_one_by_one(ordered):
    out = poison(99)
    assert ordered.load("block").run_leave_one_by_one(pointer(out), 100) == 0
    np.testing.assert_array_equal(out, 99 - np.arange(99))


@pytest.mark.parametrize("threads", [6, 100, 1024])
def test_barrier_votes(ordered, threads):
    out = poison((threads, 5))
    assert ordered.load("block").run_barrier_votes(pointer(out), threads) == 0
    assert (out == [-(-threads // 3), 1, 0, 1, 0]).all()


def test_many_shared_arrays(ordered):
    out = poison(1024)
    assert ordered.load("block").run_many_arrays(pointer(out)) == 0
    t = np.arange(1024)
    tx, ty = t % 32, t // 32
    transposed = tx * 32 + ty
    np.testing.assert_array_equal(out, transposed + 300 + 7 + 3 + tx + 63 + (1023 - t))


def test_templates_and_dynamic_shared(ordered):
    x = np.arange(3 * 128, dtype=np.float32)
    f, d = poison(x.shape, np.float32), np.arange(64.0)
    lib = ordered.load("block")
    assert lib.run_templates(pointer(f), pointer(d), pointer(x), 3) == 0
    np.testing.assert_array_equal(f, np.roll(x.reshape(3, 128), -5, 1).ravel())
    np.testing.assert_array_equal(d, np.roll(np.arange(64.0), -1))


@loop_over("grid", [(1, 1, 1), (7, 1, 1), (2, 3, 5)])
@loop_over("block", [(1, 1, 1), (33, 1, 1), (4, 3, 2)])
def test_indices(ordered, grid, block):
    shape = (*grid[::-1], *block[::-1], 12)
    out = poison(shape, np.uint32)
    three = ctypes.c_int * 3
    lib = ordered.load("block")
    assert lib.run_who(pointer(out), three(*grid), three(*block)) == 0
    bz, by, bx, tz, ty, tx = np.indices(shape[:-1])
    fixed = [np.full_like(tx, n) for n in (*block, *grid)]
    np.testing.assert_array_equal(out, np.stack([tx, ty, tz, bx, by, bz, *fixed], -1))


def test_launch_arguments_are_evaluated_once(ordered):
    out = poison(96)
    assert ordered.load("block").run_arguments_once(pointer(out)) == 311
    np.testing.assert_array_equal(out, 10 + np.arange(96) % 32)


def test_arguments_become_the_parameters_types(ordered):
    out = poison(40, np.float32)
    assert ordered.load("block").run_typed(pointer(out)) == 0
    np.testing.assert_array_equal(out, np.arange(40) + 1 + 3 + 0.25)


def test_many_blocks(ordered):
    blocks = 100_000
    x = np.ones((blocks, 2), np.float32)
    out = poison(blocks, np.float32)
    lib = ordered.load("block")
    if ordered.fibers == "ucontext":
        blocks //= 20
    assert lib.run_block_sum(pointer(out), pointer(x), blocks, 2) == 0
    assert (out[:blocks] == 2).all() and (out[blocks:] == -777).all()


# ---- warps -------------------------------------------------------------------


def shuffled(x: np.ndarray, mode: int, by: int, width: int) -> np.ndarray:
    """Return the result that CUDA's documentation specifies; x (..., 32)."""
    lane = np.arange(32)
    first = lane // width * width
    source = {
        0: first + by % width,
        1: lane - by,
        2: lane + by,
        3: lane ^ by,
    }[mode]
    inside = (source >= first) | (mode == 3)
    inside &= source < first + width
    return x[..., np.where(inside, source, lane)]


@loop_over("width", [32, 8, 2, 1])
@loop_over("mode", ["index", "up", "down", "xor"])
def test_shuffles(ordered, mode, width):
    number = ["index", "up", "down", "xor"].index(mode)
    lib = ordered.load("warp")
    for name, dtype in [
        ("int", np.int32),
        ("float", np.float32),
        ("double", np.float64),
        ("int64_t", np.int64),
    ]:
        x = (np.arange(2 * 96) * 1.5 - 40).astype(dtype).reshape(2, 3, 32)
        for by in (0, 1, 3, 7, 31):
            out = poison(x.shape, dtype)
            run = getattr(lib, f"run_shuffle_{name}")
            assert run(pointer(out), pointer(x), 2, 96, number, by, width) == 0
            np.testing.assert_array_equal(out, shuffled(x, number, by, width))


@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_two_level_sum(ordered, threads):
    x = np.random.default_rng(1).integers(-9, 9, (5, threads)).astype(np.float32)
    out = poison(5, np.float32)
    lib = ordered.load("warp")
    assert lib.run_two_level_sum(pointer(out), pointer(x), 5, threads) == 0
    np.testing.assert_array_equal(out, x.sum(1))


def test_partial_masks(ordered):
    out = poison((3, 32))
    assert ordered.load("warp").run_partial_masks(pointer(out), 96) == 0
    lane = np.arange(32)
    moved = np.where(lane < 8, (lane + 5) % 8, 8 + (lane - 8 + 3) % 24)
    want = 32 * np.arange(3)[:, None] + moved[lane ^ 31]
    np.testing.assert_array_equal(out, want)


def test_votes(ordered):
    out = poison((64, 5), np.uint32)
    assert ordered.load("warp").run_votes(pointer(out), 64) == 0
    for warp in range(2):
        t = np.arange(32) + 32 * warp
        ballot = int((1 << np.arange(32))[t % 3 == 0].sum())
        row = [ballot, 33 in t, (t < 40).all(), 0, 1]
        assert (out[32 * warp :][:32] == np.array(row, np.uint32)).all()


def test_lanes_that_left_are_not_waited_for(ordered):
    out = poison(48, np.uint32)
    assert ordered.load("warp").run_lanes_leave(pointer(out), 48) == 0
    assert (out[0:32:2] == 0x55555555).all() and (out[32::2] == 0x5555).all()
    assert (out[1::2] == 777).all()


def test_activemask(ordered):
    out = poison((40, 2), np.uint32)
    assert ordered.load("warp").run_active(pointer(out), 40) == 0
    assert (out[:32, 0] == 0xFFFFFFFF).all() and (out[32:, 0] == 0xFF).all()
    first = np.arange(40) % 4 == 0
    assert (out[:32, 1][first[:32]] == 0x11111111).all()
    assert (out[:32, 1][~first[:32]] == 0x22222222).all()
    assert (out[32:, 1][first[32:]] == 0x11).all()


def test_syncwarp(ordered):
    out = poison(64)
    assert ordered.load("warp").run_through_shared(pointer(out)) == 0
    np.testing.assert_array_equal(out, 3 * (np.arange(64) ^ 21))


def test_a_deadlock_is_an_error(ordered):
    out = poison(64)
    assert ordered.load("warp").run_deadlock(pointer(out)) == TIMEOUT
    # Even lanes select the odd ones, which wait at the barrier for them.
    assert (out == -777).all()
    assert "deadlock in block (0,0,0): of 64 threads left, 32" in ordered.fault()
    test_syncwarp(ordered)  # the next launch succeeds


# ---- device code -------------------------------------------------------------


@pytest.mark.parametrize("blocks, threads", [(1, 32), (40, 96)])
def test_atomics(ordered, blocks, threads):
    n = blocks * threads
    i = np.array([0, 0, -9, 9, 0, 0, 0, 17], np.int32)
    u = np.array([0, 0xFFFFFFFF, 0, 0], np.uint32)
    long, f, d = np.zeros(1, np.uint64), np.zeros(1, np.float32), np.zeros(1)
    lib = ordered.load("device")
    arrays = map(pointer, (i, u, long, f, d))
    assert lib.run_atomics(*arrays, blocks, threads) == 0
    every_xor = int(np.bitwise_xor.reduce(np.arange(n)))
    assert i.tolist() == [n, -2 * n, n - 1, 1 - n, every_xor, 7 * (n - 1), 17, 42]
    assert u.tolist() == [0xFFFFFFFF, 0xFFFF0000, n % 7, -n % 7]
    assert (long[0], f[0], d[0]) == (n << 33, n, n / 2)


@pytest.mark.parametrize("threads", [2, 64, 256])
def test_threads_that_spin_let_others_run(ordered, threads):
    total, order = np.zeros(1, np.int32), poison(threads)
    lib = ordered.load("device")
    assert lib.run_locks(pointer(total), pointer(order), threads) == 0
    assert total[0] == threads
    np.testing.assert_array_equal(order, np.arange(threads)[::-1])


def test_the_last_block_sees_what_the_others_wrote(ordered):
    out, part = np.zeros(1, np.int32), poison(300)
    lib = ordered.load("device")
    for _ in range(3):
        out[0] = 0
        assert lib.run_last_block_sums(pointer(out), pointer(part), 300) == 0
        assert out[0] == 300 * 301 // 2


def test_constant_memory_vectors_and_qualifiers(simt):
    x = np.random.default_rng(2).integers(-9, 9, (100, 4)).astype(np.float32)
    aligned = np.empty(404, np.float32)
    offset = -aligned.ctypes.data % 16 // 4
    aligned = aligned[offset : offset + 400].reshape(100, 4)
    aligned[:] = x
    out = poison(100, np.float32)
    simt.load("device").run_weighted(pointer(out), pointer(aligned), 100)
    np.testing.assert_array_equal(out, x @ [1, 2, 3, 4] + 0.25)


def test_functions(simt):
    f, i = poison(20, np.float32), poison(13)
    assert simt.load("device").run_functions(pointer(f), pointer(i)) == 0
    x = 0.75
    e, log = np.exp(x), np.log(x)
    want = [x, 2, x, -x, x**-0.5, e, log, x / 3, x**0.5, e, np.tanh(x), x]
    want += [x * x + x, x, x**0.5, e, x**3, 1, 1, -777]
    np.testing.assert_allclose(f, want, rtol=3e-7)
    assert i.tolist() == [-3, 5, 4, 8, 31, 4, 1, 0x3F800000, 3, 32, 3, 12, -777]


# ---- launches ----------------------------------------------------------------


@pytest.mark.parametrize(
    "grid, block, shared, error",
    [
        ((1, 1, 1), (1024, 1, 1), 0, 0),
        ((1, 1, 1), (1, 1, 64), 48 << 10, 0),
        ((1, 1, 1), (1025, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (32, 33, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (1, 1, 65), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (0, 1, 1), 0, INVALID_CONFIGURATION),
        ((0, 1, 1), (1, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 65536, 1), (1, 1, 1), 0, INVALID_CONFIGURATION),
        ((1 << 31, 1, 1), (1, 1, 1), 0, INVALID_CONFIGURATION),
        ((1, 1, 1), (1, 1, 1), (48 << 10) + 1, INVALID_VALUE),
    ],
)
def test_launches_that_a_gpu_refuses(simt, grid, block, shared, error):
    count, peeked = np.zeros(1, np.int32), ctypes.c_int(-1)
    three = ctypes.c_uint * 3
    lib = simt.load("launch")
    lib.run_shape.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_size_t, ctypes.c_void_p]
    got = lib.run_shape(
        pointer(count), three(*grid), three(*block), shared, ctypes.byref(peeked)
    )
    assert (got, peeked.value) == (error, error)
    assert count[0] == (0 if error else np.prod(block))
    if error:
        assert simt.fault().startswith("touch<<<(") and "invalid" in simt.fault()


def test_more_shared_memory_on_request(simt):
    out = np.zeros(1, np.int32)
    lib = simt.load("launch")
    assert lib.run_opt_in(pointer(out), 227 << 10) == 0
    assert out[0] == 2 * (227 << 10)
    assert lib.run_opt_in(pointer(out), (227 << 10) + 1) == INVALID_VALUE


def test_too_many_static_arrays(simt):
    out = poison(32)
    lib = simt.load("launch")
    assert lib.run_too_much_static(pointer(out)) == OUT_OF_RESOURCES
    assert (out == -777).all() and "65552 bytes of static" in simt.fault()


def test_kernels_that_the_host_did_not_launch(simt):
    count = np.zeros(1, np.int32)
    lib = simt.load("launch")
    assert lib.run_nested(pointer(count)) == 1001 * NOT_SUPPORTED
    assert count[0] == 0


def test_host_api(simt):
    wrong_line = simt.load("launch").run_host_api()
    assert wrong_line == 0, f"tests/kernels/simt/launch.cu:{wrong_line}"


def test_launches_from_two_threads(ordered):
    lib = ordered.load("warp")
    x = np.random.default_rng(3).integers(-9, 9, (20, 256)).astype(np.float32)
    wrong = []

    def launch():
        for _ in range(10):
            out = poison(20, np.float32)
            status = lib.run_two_level_sum(pointer(out), pointer(x), 20, 256)
            if status or not np.array_equal(out, x.sum(1)):
                wrong.append(out)

    threads = [threading.Thread(target=launch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_number_of_threads(simt):
    runtime = simt.runtime
    assert runtime.simt_threads() == count_threads()
    for threads in (5, 1, 3):
        runtime.simt_set_threads(threads)
        assert runtime.simt_threads() == threads
        test_the_last_block_sees_what_the_others_wrote(simt)
    runtime.simt_set_threads(0)


# ---- events that may end a process -------------------------------------------


def script(simt: Simt, body: str) -> list[str]:
    """Return a command that runs `body` in Python after defining the names below."""
    head = f"""
import ctypes, os, signal, sys, threading, time
import numpy as np
lib = ctypes.CDLL({str(simt.paths["launch"])!r})
runtime = ctypes.CDLL({str(simt.runtime_path)!r})
pointer = lambda array: ctypes.c_void_p(array.ctypes.data)
out = np.zeros(256, np.float32)
"""
    return [sys.executable, "-c", head + body]


def cpu_seconds(process: int) -> float:
    """Return the CPU time of all threads of a running process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


LONG = {
    "blocks": "lib.run_slow(pointer(out), 1 << 30, 100, 0)",
    "barriers": "lib.run_slow(pointer(out), 1 << 30, 0, 3)",
    "spin": "lib.run_wait_for_ever(pointer(out))",
}


@pytest.mark.parametrize("what", LONG)
def test_ctrl_c_ends_a_launch(simt, what):
    body = f"""
print("ready", flush=True)
try:
    error = {LONG[what]}
    print("error", error, flush=True)
    time.sleep(5)  # Python's own handler runs after the call
except KeyboardInterrupt:
    print("KeyboardInterrupt", flush=True)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert lib.run_slow(pointer(out), 4, 10, 1) == 0  # and all is well again
"""
    with subprocess.Popen(script(simt, body), stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        before = cpu_seconds(process.pid)
        process.send_signal(signal.SIGINT)
        line = process.stdout.readline()
        # The limit is one second; the time of other processes does not count.
        cores = len(os.sched_getaffinity(0))
        assert cpu_seconds(process.pid) - before < cores
        # The interrupt is raised before or after the print.
        lines = [line, *process.stdout.readlines()]
        assert b"KeyboardInterrupt\n" in lines
        assert set(lines) <= {b"KeyboardInterrupt\n", b"error %d\n" % TIMEOUT}
    assert process.returncode == 0


@pytest.mark.slow
def test_a_launch_that_switches_fibers_stops_at_any_instruction(simt):
    """A stop may come in the middle of a switch, and sanitizers must survive that."""
    body = f"""
for _ in range(80):
    runtime.simt_set_timeout(2)
    assert lib.run_slow(pointer(out), 1 << 30, 0, 50) == {TIMEOUT}
    runtime.simt_set_timeout(0)
    assert lib.run_slow(pointer(out), 4, 0, 3) == 0
"""
    result = subprocess.run(script(simt, body), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_watches_nest_and_restore(simt):
    body = """
def on_signal(*_): print("python heard it", flush=True)
signal.signal(signal.SIGINT, on_signal)
runtime.simt_watch_begin()
runtime.simt_watch_begin()
assert runtime.simt_interrupted() == 0
os.kill(os.getpid(), signal.SIGINT)
assert runtime.simt_interrupted() == 1
assert runtime.simt_watch_end() == 1
error = lib.run_slow(pointer(out), 1 << 20, 100, 0)  # the flag still stands
assert error == 702 and runtime.simt_watch_end() == 1
assert lib.run_slow(pointer(out), 4, 100, 0) == 0
runtime.simt_watch_begin()
assert runtime.simt_interrupted() == 0 and runtime.simt_watch_end() == 0
os.kill(os.getpid(), signal.SIGINT)  # only Python's now
assert runtime.simt_interrupted() == 0
signal.signal(signal.SIGINT, signal.SIG_DFL)
runtime.simt_watch_begin()
os.kill(os.getpid(), signal.SIGINT)  # nobody's: it ends the process
time.sleep(5)
"""
    result = subprocess.run(script(simt, body), capture_output=True, text=True)
    assert result.stdout.count("python heard it") == 2, result.stderr
    assert result.returncode == -signal.SIGINT


def test_fork(simt):
    body = """
x = lib.run_slow(pointer(out), 1000, 100, 1)
busy = threading.Thread(target=lib.run_slow, args=(pointer(out), 2000, 100, 1))
busy.start()
child = os.fork()
if child == 0:
    out[:] = 0
    status = lib.run_slow(pointer(out), 1000, 100, 1)
    os._exit(0 if status == 0 and (out == 1).all() else 3)
busy.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    result = subprocess.run(script(simt, body), timeout=60)
    assert result.returncode == 0


def test_blocks_that_wait_for_each_other_all_run(simt):
    """A worker claims several blocks at a time; others run those that it cannot.

    This test needs a separate process, since with 64 workers some stacks have no guard
    page.
    """
    body = """
for workers, blocks in ((1, 33), (1, 64), (2, 64)):
    count = np.zeros(1, np.int32)
    runtime.simt_set_threads(workers)
    assert lib.run_meeting(pointer(count), blocks, 256) == 0 and count[0] == blocks
"""
    subprocess.run(script(simt, body), check=True, timeout=60)


def test_guard_pages_leave_mappings_for_new_threads(simt):
    """Linux allows 65530 mappings. If none is left, Thread.start() never returns."""
    body = """
runtime.simt_set_threads(120)
assert lib.run_slow(pointer(out), 4000, 1000, 3) == 0
assert sum(1 for _ in open("/proc/self/maps")) < 30_000
"""
    result = subprocess.run(script(simt, body), capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_stack_that_overflows_hits_its_guard_page(simt):
    flag = np.array([100], np.int32)
    lib = simt.load("launch")
    assert lib.run_overflow(pointer(flag)) == 0 and flag[0] != 100
    flag[0] = 0
    assert lib.run_overflow(pointer(flag)) == LAUNCH_FAILURE
    assert "thread (1,0,0): stack overflow" in simt.fault()


# ---- costs -------------------------------------------------------------------


@pytest.mark.slow
def test_benchmark_rows():
    rows = bench_simt.rows(repeats=1)
    assert [row["rung"] for row in rows] == ["add", "matmul_tiled", "warp_sum"]
    for row in rows:
        assert (row["op"], row["impl"], row["target"]) == ("simt", "weft", "cpu")
        assert 0 < row["us_low"] <= row["us"] <= row["us_high"]
    assert rows[1]["gflops"] == pytest.approx(2 * 512**3 / rows[1]["us"] / 1e3)
    assert rows[0]["ns_per_thread"] == pytest.approx(rows[0]["us"] * 1e3 / (1 << 22))


@pytest.mark.slow
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="bounds of the asm switch")
def test_bounds_in_cpu_time():
    """In CPU time, one core needs at most twice the time allowed for two cores."""
    simt = Simt("asm")
    simt.runtime.simt_set_threads(1)
    lib = bench_simt.open_library("asm")
    _, add, threads, _ = bench_simt.add(lib)
    _, matmul, _, flop = bench_simt.matmul_tiled(lib)
    seconds = {add: [], matmul: []}
    for _ in range(5):
        for launch, times in seconds.items():
            start = time.thread_time()
            launch()
            times.append(time.thread_time() - start)
    simt.runtime.simt_set_threads(0)
    # Other programs on the same caches and core still cost up to half of the speed.
    assert min(seconds[add]) / threads < 2 * 5e-9
    assert flop / min(seconds[matmul]) > 2e9 / 2 / 2
