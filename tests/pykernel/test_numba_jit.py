"""numba_jit runs kernels on Numba's simulator, or compiled on a GPU."""

import contextlib
import ctypes
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy import float32

from weft import KernelFault, cuda, numba_jit
from weft import cuda as anything
from weft.base.errors import ArgumentError, KernelError
from weft.cuda import shared, syncthreads, threadIdx
from weft.ops.cases import sum_bound
from weft.pykernel import bodies
from weft.pykernel.language import PythonKernel
from weft.pykernel.numba import (
    CHILD,
    arguments,
    gpu,
    inspection,
    meaning,
    on_gpu,
    running_process,
)

HERE = torch.cuda.is_available()
on_a_gpu = pytest.mark.skipif(not on_gpu(), reason="no CUDA GPU here")
simulated = pytest.mark.skipif(on_gpu(), reason="there is a GPU")
TILE = 4


def double(x):
    return 2 * x


def fill(c, value, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = value


def halves(c, a, n):
    i = cuda.grid(1)
    a_s, b_s = shared.array(TILE, float32), shared.array(TILE, float32)
    a_s[threadIdx.x], b_s[threadIdx.x] = a[i], -a[i]
    syncthreads()
    c[i] = double(a_s[TILE - 1 - anything.threadIdx.x]) + b_s[0]


def spins(c):
    while c[0] == 0:
        pass


def dies(c):
    os._exit(3)


def run(kernel, *args, threads=8):
    numba_jit(kernel)[1, threads](*args)


# ---- what runs ------------------------------------------------------------------


@pytest.mark.parametrize("kernel", [bodies.matmul, bodies.matmul_tiled])
def test_a_lessons_kernel_is_right(kernel):
    m, n, k = 3, 5, 17
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(m * k, float32), rng.standard_normal(k * n, float32)
    c = np.full(m * n, np.nan, float32)
    numba_jit(kernel)[1, (16, 16)](c, a, b, m, n, k)
    a, b = a.reshape(m, k).astype(float), b.reshape(k, n).astype(float)
    bound = sum_bound(k, abs(a) @ abs(b))
    assert (abs(c.reshape(m, n) - a @ b) <= bound).all()


@pytest.mark.parametrize("device", ["cpu", *["cuda"] * HERE])
def test_names_mean_what_they_mean(device):
    """Kernels use cuda by another name, its parts, helpers, and two arrays on a
    line."""
    a = torch.arange(8, dtype=torch.float32, device=device)
    c = torch.zeros(8, device=device)
    numba_jit(halves)[2, TILE](c, a, 8)
    assert c.tolist() == [6, 4, 2, 0, 10, 8, 6, 4]


def test_helpers_have_defaults():
    def scaled(x, factor=3):
        return factor * x

    def kernel(c):
        c[cuda.threadIdx.x] = scaled(c[cuda.threadIdx.x])

    c = np.array([1, 2, 3])
    run(kernel, c, threads=3)
    assert c.tolist() == [3, 6, 9]
    assert ".entry" in numba_jit(kernel).ptx(c)


def test_constants_from_around_a_kernel():
    step, numbers = 3, np.array([10, 20], np.int32)

    def kernel(c):
        c[cuda.threadIdx.x] = step + numbers[1]

    c = np.zeros(2, np.int32)
    run(kernel, c, threads=2)
    assert c.tolist() == [23, 23]


def test_a_cell_that_is_run_again_counts(monkeypatch):
    c = np.zeros(4, np.int32)

    def kernel(c):
        c[cuda.threadIdx.x] = double(TILE)

    launched = numba_jit(kernel)
    launched[1, 4](c)
    assert c.tolist() == [8] * 4
    monkeypatch.setitem(globals(), "double", lambda x: 3 * x)
    with pytest.raises(ArgumentError, match="write it with def"):
        launched[1, 4](c)

    def triple(x):
        return 3 * x

    monkeypatch.setitem(globals(), "double", triple)
    monkeypatch.setitem(globals(), "TILE", 5)
    launched[1, 4](c)
    assert c.tolist() == [15] * 4
    assert numba_jit(kernel) is launched


def test_numbas_own_kernels_are_taken():
    numba = pytest.importorskip("numba.cuda")

    @numba.jit
    def kernel(c):
        c[numba.grid(1)] = numba.blockDim.x

    c = np.zeros(4)
    run(kernel, c, threads=4)
    assert c.tolist() == [4] * 4


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "complex64"])
def test_arrays_of_many_types(dtype):
    c = np.zeros(4, dtype)
    run(fill, c, 1, 4)
    assert (c == 1).all()


def test_arrays_lie_as_they_lie():
    """Arrays may be strided, reversed, overlapping or empty."""
    memory = np.zeros(12, float32)
    run(fill, memory[::3], 1, 4)
    assert memory.tolist() == [1, 0, 0] * 4
    run(fill, memory[5::-1], 2, 3)
    assert memory.tolist() == [1, 0, 0, 2, 2, 2, 1, 0, 0, 1, 0, 0]

    def both(c, d):
        c[cuda.threadIdx.x] = 7

    run(both, memory[:4], torch.from_numpy(memory)[2:], threads=4)
    assert memory[:4].tolist() == [7] * 4
    run(fill, np.zeros(0), 1, 0)


def _there(batch, array):
    """Return a copy from arguments.send() as an array on the host."""
    if isinstance(copy := batch.where[id(array)], torch.Tensor):
        return copy.numpy()
    memory = copy.owner.numpy()
    first = copy.address - copy.owner.data_ptr()
    return np.ndarray(copy.shape, copy.dtype, memory, first, copy.strides)


def test_copies_of_what_overlaps_overlap():
    """The copies are on the host, but otherwise as on a GPU."""
    memory = np.arange(12, dtype=float32)
    front, back, alone = memory[:6], memory[8:3:-1], np.arange(4.0)[::2]
    bits, empty = memory[1:3].view(np.int32), memory[:0]
    arrays = [front, back, alone, bits, empty]
    batch = arguments.send("kernel", arrays, "cpu")
    copies = [_there(batch, array) for array in arrays]
    for copy, array in zip(copies, arrays):
        np.testing.assert_array_equal(copy, array)
    copies[1][-1] = 40  # this changes memory[4]
    assert copies[0][4] == 40 and memory[4] == 4
    copies[0][1], copies[2][1] = 10, 20
    assert copies[3][0] == np.float32(10).view(np.int32)
    batch.back()
    assert memory.tolist() == [0, 10, 2, 3, 40, *range(5, 12)]
    assert alone.tolist() == [0, 20]


def test_what_is_read_only_is_sent_and_does_not_come_back():
    memory = np.zeros(4)
    frozen = memory[:2]
    frozen.flags.writeable = False
    for arrays in ([frozen], [frozen, memory[1:]]):
        batch = arguments.send("kernel", arrays, "cpu")
        _there(batch, frozen)[:] = 5
        batch.back()
    assert memory.tolist() == [0, 5, 0, 0]  # only the other name is writable


@simulated
def test_what_is_read_only_stays_so():
    c = np.zeros(4)
    c.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        run(fill, c, 1, 4)
    assert not c.any()


@simulated
def test_threads_print_where_the_notebook_does(capsys):
    def kernel(c):
        if cuda.threadIdx.x == 3:
            print("three is", c[3])
            print("no end", end="")

    run(kernel, np.array([0, 1, 2, 30]), threads=4)
    assert capsys.readouterr().out == "three is 30\nno end"


@simulated
def test_the_simulator_is_announced_once(capsys, monkeypatch):
    monkeypatch.setattr(arguments, "_printed", set())
    for _ in range(2):
        run(fill, np.zeros(1), 1, 1)
    assert capsys.readouterr().err.count("no GPU here: Numba's simulator") == 1


def test_dynamic_shared_memory_is_one_room():
    def kernel(c):
        a_s = cuda.shared.array(0, np.int32)
        b_s = cuda.shared.array(0, np.int64)
        a_s[threadIdx.x] = 1
        syncthreads()
        c[threadIdx.x] = b_s[0]

    c = np.zeros(2, np.int64)
    numba_jit(kernel)[1, 2, 0, 8](c)
    assert c.tolist() == [2**32 + 1] * 2


# ---- faults in a launch ---------------------------------------------------------


@simulated
def test_out_of_bounds_says_where_and_leaves_the_arrays():
    def kernel(c):
        c[cuda.threadIdx.x] = 1
        cuda.syncthreads()
        if cuda.threadIdx.x == 2:
            c[cuda.threadIdx.x + 6] = 1

    c = np.zeros(8)
    with pytest.raises(KernelFault, match=r"thread \(2,0,0\) of block \(0,0,0\)") as e:
        run(kernel, c)
    assert "c[cuda.threadIdx.x + 6] = 1: index 8 is out of bounds" in str(e.value)
    assert (e.value.block, e.value.thread) == ((0, 0, 0), (2, 0, 0))
    assert not c.any()


@simulated
def test_a_python_exception_keeps_its_type():
    def kernel(c, n):
        c[0] = 1 // n

    with pytest.raises(ZeroDivisionError) as error:
        run(kernel, np.zeros(1), 0, threads=1)
    assert "thread (0,0,0) of block (0,0,0), line" in error.value.__notes__[0]


@pytest.mark.slow
@simulated
def test_a_loop_that_does_not_end_is_ended():
    c = np.zeros(1)
    with pytest.raises(KernelFault, match=r"longer than 0.3 s and was stopped"):
        numba_jit(spins, timeout=0.3)[1, 1](c)
    run(fill, c, 1, 1)
    assert c[0] == 1


@simulated
@pytest.mark.slow
def test_ctrl_c_ends_it():
    run(fill, np.zeros(1), 1, 1)  # this call starts the process
    child = running_process().child
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt, match="spins: ended"):
        numba_jit(spins)[1, 1](np.zeros(1))
    timer.join()
    assert child.poll() is not None


@pytest.mark.slow
@simulated
def test_a_process_that_ends_is_said_and_replaced():
    c = np.zeros(1)
    with pytest.raises(KernelFault, match=r"ended \(exit status 3\)"):
        run(dies, c, threads=1)
    run(fill, c, 1, 1)
    assert c[0] == 1


@pytest.mark.slow
@simulated
def test_threads_that_go_on_end_with_their_process():
    def kernel(c):
        if cuda.threadIdx.x == 1:
            c[9] = 1
        while True:
            pass

    before = running_process().child
    with pytest.raises(KernelFault, match="index 9"):
        run(kernel, np.zeros(1), threads=2)
    assert before.poll() is not None


@pytest.mark.slow
def test_the_process_ends_with_its_parent_whatever_it_runs():
    part = meaning.read(spins)
    job = (
        meaning.serialise_kernel(part),
        (1, 1, 1),
        (1, 1, 1),
        0,
        [],
        [("value", np.zeros(1))],
    )
    parent = textwrap.dedent("""
        import os, pickle, subprocess, sys
        from multiprocessing import connection
        ours, theirs = connection.Pipe()
        child = subprocess.Popen([sys.executable, "-P", sys.argv[1],
                                  str(theirs.fileno())], pass_fds=[theirs.fileno()])
        assert ours.recv() == ("ready",)
        ours.send(pickle.loads(bytes.fromhex(sys.argv[2])))
        print(child.pid, flush=True)
        os.kill(os.getpid(), 9)
    """)
    args = [str(CHILD), pickle.dumps(job).hex()]
    result = subprocess.run([sys.executable, "-c", parent, *args], capture_output=True)
    pid = int(result.stdout)
    end = time.monotonic() + 30
    while _runs(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split(") ")[1][0] != "Z"
    except OSError:
        return False


# ---- on a GPU -------------------------------------------------------------------


@on_a_gpu
def test_a_tensors_memory_is_used_as_it_is():
    c = torch.zeros(1000, device="cuda")
    for value in range(3):  # the careful path once, then the quick one
        numba_jit(fill)[4, 256](c, value, 1000)
        assert c.eq(value).all()
    numba_jit(fill)[4, 256](c.view(2, 500)[1], 9, 500)
    assert c.tolist() == [2] * 500 + [9] * 500


@on_a_gpu
def test_a_tensor_that_changed_its_memory_is_seen_anew():
    c = torch.zeros(8, device="cuda")
    run(fill, c, 1, 8)
    run(fill, c, 2, 8)
    other = torch.zeros(8, device="cuda")
    c.set_(other)
    run(fill, c, 3, 8)
    assert other.eq(3).all()
    c.resize_(4)
    run(fill, c, 4, 4)
    assert other.tolist() == [4] * 4 + [3] * 4


@on_a_gpu
def test_a_tensor_that_is_turned_in_its_place_is_seen_anew():
    def kernel(c, a):
        c[cuda.threadIdx.x] = a[0, cuda.threadIdx.x]

    a = torch.arange(4.0, device="cuda").view(2, 2)
    c = torch.zeros(2, device="cuda")
    for want in ([0, 1], [0, 2]):
        for _ in range(2):
            run(kernel, c.zero_(), a, threads=2)
            assert c.tolist() == want
        a.t_()


@on_a_gpu
def test_launches_do_not_go_through_numba(monkeypatch):
    """Numba would add tens of microseconds to each launch."""
    from weft.pykernel.numba import gpu

    def kernel(c, a, n, yes, x, y, i):
        k = cuda.threadIdx.x
        if yes and k < n:
            c[k] = a[1, k] + x + y + i

    c = torch.zeros(4, device="cuda")
    a = torch.arange(8.0, device="cuda").view(4, 2).t()
    numbers = 3, True, 0.5, float32(2), np.uint32(10)
    calls, careful = [], gpu.NumbaLaunch.careful

    def counted(self, *args):
        calls.append(args)
        careful(self, *args)

    monkeypatch.setattr(gpu.NumbaLaunch, "careful", counted)
    launched = numba_jit(kernel)[1, 4]
    launched(c, a, *numbers)
    assert c.tolist() == [13.5, 15.5, 17.5, 0]
    launched(c.zero_(), a, *numbers)
    assert c.tolist() == [13.5, 15.5, 17.5, 0]
    launched(c.zero_(), a, 4, False, 0.5, float32(2), np.uint32(10))
    assert not c.any()
    assert len(calls) == 1


@on_a_gpu
def test_numbers_are_of_the_type_that_numba_gives_them():
    def kernel(c, n):
        c[0] = n

    c = torch.zeros(1, dtype=torch.float64, device="cuda")
    for n in (1, -1, 5, 2.5, 2**63 - 1, -5, np.int32(-7), True, np.uint32(9)):
        for _ in range(2):
            run(kernel, c, n, threads=1)
            assert c.item() == float(n)


@on_a_gpu
def test_tensors_end_although_numba_has_seen_them():
    from weft.pykernel.numba import arguments

    torch.cuda.synchronize()
    c = torch.zeros(1 << 20, device="cuda")
    allocated = torch.cuda.memory_allocated()
    run(fill, c, 1, 8)
    known_tensors = len(arguments.SEEN)
    del c
    assert torch.cuda.memory_allocated() <= allocated - (4 << 20)
    assert len(arguments.SEEN) == known_tensors - 1


@on_a_gpu
def test_launches_follow_torchs_stream():
    c = torch.zeros(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    launched = numba_jit(fill)[4096, 256]
    with torch.cuda.stream(stream):
        for value in range(3):
            torch.cuda._sleep(10_000_000)
            c.fill_(-1)
            launched(c, value, c.numel())
            assert c.eq(value).all()
    numba_jit(fill)[4096, 256, stream](c, 7, c.numel())
    numba = pytest.importorskip("numba.cuda")
    own = numba.external_stream(stream.cuda_stream)
    numba_jit(fill)[2048, 256, own](c, 8, c.numel() // 2)
    stream.synchronize()
    assert c[: 1 << 19].eq(8).all() and c[1 << 19 :].eq(7).all()


@on_a_gpu
def test_a_launch_can_be_captured_in_a_graph():
    c = torch.zeros(8, device="cuda")
    run(fill, c, 1, 8)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(fill, c, 5, 8)
    c.zero_()
    graph.replay()
    assert c.eq(5).all()


@on_a_gpu
def test_arrays_on_the_host_are_copied_and_that_is_said_once(capsys, monkeypatch):
    monkeypatch.setattr(arguments, "_printed", set())
    for value in range(2):
        c = np.zeros(12, float32)
        run(fill, c[::3], value, 4)
        assert c.tolist() == [value, 0, 0] * 4
        run(fill, c[::-1], 3, 12, threads=12)
        assert c.tolist() == [3] * 12
    assert capsys.readouterr().err.count("copied to the GPU and back") == 1


@on_a_gpu
def test_much_dynamic_shared_memory_is_asked_for():
    def kernel(c, n):
        a_s = cuda.shared.array(0, float32)
        for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
            a_s[i] = i
        cuda.syncthreads()
        c[cuda.threadIdx.x] = a_s[n - 1]

    c = torch.zeros(32, device="cuda")
    for _ in range(2):
        numba_jit(kernel)[1, 32, 0, 64 << 10](c, 16 << 10)
        assert c.eq((16 << 10) - 1).all()


@on_a_gpu
def test_threads_on_a_gpu_print_where_the_notebook_does(capsys):
    def kernel(c):
        if cuda.threadIdx.x == 3:
            print("three is", cuda.threadIdx.x)
        c[0] = 1

    run(kernel, torch.zeros(1, device="cuda"), threads=4)
    assert capsys.readouterr().out == "three is 3\n"


@on_a_gpu
def test_shuffles_run_on_a_gpu():
    c = torch.arange(32.0, device="cuda")

    def kernel(c):
        x = c[cuda.laneid]
        c[cuda.laneid] = cuda.shfl_down_sync(0xFFFFFFFF, x, 1)

    run(kernel, c, threads=32)
    assert c.tolist() == [*range(1, 32), 31]


@on_a_gpu
def test_too_much_static_shared_memory_on_a_gpu():
    def kernel(c):
        a_s = cuda.shared.array((200, 200), float32)
        a_s[threadIdx.x, 0] = c[0]
        syncthreads()
        c[0] = a_s[0, threadIdx.x]

    c = torch.full((1,), 7.0, device="cuda")
    try:
        run(kernel, c, threads=1)
    except KernelError as error:
        assert re.fullmatch("kernel: .* 160000 bytes.*", str(error))
    else:  # a newer linker allows this
        assert c.item() == 7


@on_a_gpu
def test_a_fault_on_a_gpu_is_told():
    """The fault destroys the CUDA context, so it needs a separate process."""
    code = textwrap.dedent("""
        import sys, torch
        sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/.."]
        from test_numba_jit import fill
        from weft import DeviceLost, numba_jit
        c = torch.zeros(8, device="cuda")
        numba_jit(fill)[1 << 20, 1024](c, 1, 1 << 30)
        try:
            torch.cuda.synchronize()
        except Exception:
            pass
        try:
            numba_jit(fill)[1, 8](c, 1, 8)
        except DeviceLost as error:
            print("told", error)
    """)
    folder = os.path.dirname(__file__)
    result = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True
    )
    assert "told" in result.stdout, result.stderr


# ---- mistakes that are refused before anything starts
# -------------------------------------


def shuffles(c):
    c[0] = lane_sum(c[0])


def lane_sum(x):
    return x + cuda.shfl_down_sync(0xFFFFFFFF, x, 1)


@simulated
def test_shuffles_run_elsewhere():
    """The shuffle may be in a helper."""
    with pytest.raises(ArgumentError, match=r"line \d+: .* not support cuda.shfl"):
        run(shuffles, np.zeros(1))
    with pytest.raises(ArgumentError, match=r"sim\(shuffles\) and cuda_c\(shuffles\)"):
        run(shuffles, np.zeros(1))


@simulated
def test_too_many_threads_are_refused_with_the_time_they_take(capsys):
    with pytest.raises(ArgumentError, match=r"1048576 threads take .* 419 s or more"):
        numba_jit(fill)[1024, 1024](np.zeros(1), 1, 1)
    with pytest.raises(ArgumentError, match=r"numba_jit\(fill, timeout=839\)"):
        numba_jit(fill)[1024, 1024](np.zeros(1), 1, 1)


@simulated
def test_too_much_static_shared_memory_is_what_a_gpu_refuses():
    def kernel(c):
        a_s = cuda.shared.array((200, 200), float32)
        a_s[0, 0] = c[0]

    with pytest.raises(ArgumentError, match=r"160000 bytes, but a block has 49152"):
        run(kernel, np.zeros(1))


BAD = {
    "list": ([1.0], r"c is a list, .*np.array\(c\)"),
    "None": (None, "c is None: pass an array"),
    "text": ("x", "c is a str: pass an array"),
    "objects": (np.array([None]), "c contains Python objects"),
    "strings": (np.array(["a"]), "c contains <U1"),
    "long double": (np.zeros(1, np.longdouble), "c contains float128"),
    "other byte order": (np.zeros(1, ">f4"), "c contains >f4"),
    "bfloat16": (torch.zeros(1, dtype=torch.bfloat16), "c contains bfloat16"),
    "gradient": (torch.zeros(1, requires_grad=True), r"\.detach\(\)"),
    "sparse": (torch.zeros(1).to_sparse(), "to_dense"),
    "large number": (2**64, "64 bits"),
    "tuple of arrays": ((np.zeros(1),), "a tuple may contain only numbers"),
}


@pytest.mark.parametrize("bad", BAD)
def test_arguments_that_numba_does_not_take(bad):
    value, message = BAD[bad]
    with pytest.raises(ArgumentError, match=message) as error:
        run(fill, value, 1, 1)
    assert str(error.value).startswith("fill: ") and "\n" not in str(error.value)


LAUNCHES = {
    "empty": ((0, 1), "empty"),
    "too large": ((1, 2048), "1024"),
    "too many threads": ((1, (64, 64)), "1024"),
    "too much shared memory": ((1, 32, 0, 1 << 20), "shared"),
    "only a grid": (1, "takes grid and block"),
    "a float": ((1.5, 32), "whole numbers"),
}


@pytest.mark.parametrize("launch", LAUNCHES)
def test_launches_that_no_gpu_takes(launch):
    key, message = LAUNCHES[launch]
    with pytest.raises(ArgumentError, match=message):
        numba_jit(fill)[key](np.zeros(1), 1, 1)


def test_what_is_no_kernel():
    for value in (3, "fill", len, lambda c: None, np.float32):
        with pytest.raises(ArgumentError, match="a kernel is a"):
            numba_jit(value)
    with pytest.raises(
        ArgumentError, match=r"takes 3 arguments \(c, value, n\), but 1 are"
    ):
        run(fill, np.zeros(1))
    with pytest.raises(ArgumentError, match=r"numba_jit\(fill\)\[grid, block\]"):
        numba_jit(fill)(np.zeros(1), 1, 1)


def test_a_global_that_is_no_constant(monkeypatch):
    monkeypatch.setitem(globals(), "TILE", {1: 2})
    with pytest.raises(ArgumentError, match=r"halves, line \d+: TILE is of type dict"):
        run(halves, np.zeros(8), np.zeros(8), 8)
    monkeypatch.delitem(globals(), "TILE")
    with pytest.raises(ArgumentError, match=r"halves, line \d+: TILE is not defined"):
        run(halves, np.zeros(8), np.zeros(8), 8)


# ---- messages of the compiler, which need no GPU --------------------------------


def no_attribute(c, a, n):
    c[0] = a[0].foo


def no_index(c, a, n):
    c[0] = a[0, 0]


def no_constant(c, a, n):
    a_s = cuda.shared.array(n, float32)
    c[0] = a_s[0]


def no_name(c, a, n):
    c[0] = cuda.gird(1)


def adds_from_zero(c, a, n):
    acc = 0
    for i in range(n):
        acc += a[i]
    c[0] = acc


def test_names_that_were_imported_one_by_one_compile():
    """Numba itself accepts only cuda.threadIdx; here, helpers may use bare names."""
    pytest.importorskip("numba.cuda")
    a, step = np.zeros(4, float32), 2

    def last(a_s, most=TILE - 1):
        return a_s[most - threadIdx.x]

    def kernel(c, a):
        a_s = shared.array(TILE, float32)
        a_s[threadIdx.x] = a[threadIdx.x]
        syncthreads()
        c[threadIdx.x] = step * last(a_s)

    text = numba_jit(kernel).ptx(a, a)
    assert "%tid.x" in text and ".shared" in text and "bar.sync" in text
    assert "bar.sync" in numba_jit(halves).ptx(a, a, 4)


def test_an_error_beside_such_names_is_told_at_its_line():
    pytest.importorskip("numba.cuda")

    def kernel(c):
        i = threadIdx.x

        c[i] = c.foo

    line = kernel.__code__.co_firstlineno + 3
    with pytest.raises(ArgumentError, match=rf"line {line} \(c\[i\] = c.foo\)"):
        numba_jit(kernel).ptx(np.zeros(1))


def test_arguments_are_packed_as_the_compiled_kernel_declares_them():
    """The sizes of the packed parameters match those in Numba's PTX, one by one."""
    pytest.importorskip("numba.cuda")

    def kernel(a, n, b, yes, x, y, i, h):
        if yes:
            a[0] = n + b[0, 0] + x + y + i + h

    values = np.zeros(4, float32), 3, np.zeros((2, 2)).T, True, 1.5, float32(2)
    values += np.uint32(4), np.int16(5)
    types = inspection.numba_types(values)
    declared = re.findall(
        r"\.param \.[a-z](\d+) \w+_param", numba_jit(kernel).ptx(*values)
    )
    codes = arguments.pack_codes(types)
    assert [8 * struct.calcsize("=" + code) for code in codes] == [*map(int, declared)]
    assert codes == "QQqqQqq" + "q" + "QQqqQqqqq" + "?dfIh"


class Compiled:
    """The parts of a Numba kernel that arguments.load_ready() uses."""

    cooperative = launch_config_sensitive = False

    def __init__(self, *types):
        self.argument_types = types
        self._codelibrary = self

    def get_cufunc(self):
        return SimpleNamespace(handle=123)


def test_a_launch_is_packed_where_the_driver_reads_it():
    numba = pytest.importorskip("numba")
    shape = PythonKernel(fill).config(((2, 3), 64, 0, 16))
    ready = arguments.load_ready(
        Compiled(numba.int32, numba.float32[:], numba.uint8), shape
    )
    (room,) = ready.rooms
    ready.pack(room.buffer, arguments.STREAM, 7, -1, 0, 0, 5, 4, 99, 5, 4, 200)
    assert ready.function == 123
    assert struct.unpack_from("=7I4xQ", room.buffer) == (2, 3, 1, 64, 1, 1, 16, 7)
    at = (ctypes.c_size_t * 9).from_address(room.table)
    kinds = [ctypes.c_int32, *[ctypes.c_int64] * 7, ctypes.c_uint8]
    values = [kind.from_address(address).value for kind, address in zip(kinds, at)]
    assert values == [-1, 0, 0, 5, 4, 99, 5, 4, 200]
    assert all(a % ctypes.sizeof(kind) == 0 for a, kind in zip(at, kinds))


def test_a_kernel_of_colabs_numba_is_packed():
    """numba-cuda 0.22 lacks `launch_config_sensitive`; its handles are ctypes."""
    numba = pytest.importorskip("numba")
    cufunc = SimpleNamespace(handle=ctypes.c_void_p(123))
    kernel = SimpleNamespace(
        argument_types=(numba.int32,),
        cooperative=False,
        _codelibrary=SimpleNamespace(get_cufunc=lambda: cufunc),
    )
    ready = arguments.load_ready(kernel, PythonKernel(fill).config((1, 32)))
    assert ready.function == 123


def test_what_only_numba_can_launch():
    numba = pytest.importorskip("numba")
    shape = PythonKernel(fill).config((1, 1))
    assert arguments.load_ready(Compiled(numba.complex64), shape) is None
    assert arguments.load_ready(Compiled(numba.typeof((1, 2))), shape) is None
    waits = Compiled(numba.int32)
    waits.cooperative = True
    assert arguments.load_ready(waits, shape) is None


def test_what_the_linker_says_of_shared_memory():
    error = RuntimeError(
        "ERROR_PTX_COMPILE (4)\nLinker error log: ptxas error   : Entry function "
        "'_ZN4fill' uses too much shared data (0x27100 bytes, 0xc000 max)\n"
    )
    explanation = inspection.explain("fill", meaning.read(fill), error)
    assert str(explanation).startswith(
        "fill: its shared arrays need 160000 bytes, but a"
    )
    assert "49152" in str(explanation) and "\n" not in str(explanation)


# Messages of numba-cuda in Colab: from its own linker, nvJitLink, and the driver.
TOO_NEW = {
    "LinkerError": "[222] Call to cuLinkAddData results in CUDA_ERROR_UNSUPPORTED_PTX_"
    "VERSION\nptxas application ptx input, line 9; fatal   : Unsupported .version 8.5; "
    "current version is '8.4'",
    "NvJitLinkError": "NVJITLINK_ERROR_PTX_COMPILE error when calling "
    "nvJitLinkAddData\nptxas application ptx input, line 9; fatal   : Unsupported "
    ".version 8.7; current version is '8.4'",
    "CUDAError": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the provided PTX was compiled "
    "with an unsupported toolchain.",
}


@pytest.mark.parametrize("kind", TOO_NEW)
def test_cuda_c_replaces_numba_if_the_driver_refuses_its_ptx(kind, monkeypatch, capsys):
    """Inject Numba's error at the launch; the process continues with its arrays."""
    error = type(kind, (RuntimeError,), {})(TOO_NEW[kind])
    attempts = []

    def fail(*args):
        attempts.append(args)
        raise error

    nothing = contextlib.nullcontext()
    monkeypatch.setattr(gpu, "_ptx_refused", False)
    monkeypatch.setattr(arguments, "_printed", set())
    monkeypatch.setattr(gpu, "load_numba", lambda: pytest.importorskip("numba.cuda"))
    monkeypatch.setattr(gpu, "_device_of", lambda *_: -1)
    monkeypatch.setattr(gpu, "_use_device", lambda *_: nothing)
    stream = "_cuda_getCurrentRawStream"
    monkeypatch.setattr(torch._C, stream, lambda *_: 0, raising=False)
    monkeypatch.setattr(arguments, "send", lambda *_: SimpleNamespace(where={}))
    monkeypatch.setattr(gpu.NumbaLaunch, "_on_device", lambda _, args: (args, None))
    monkeypatch.setattr(gpu.NumbaLaunch, "_configured", lambda *_: fail)
    part = meaning.read(fill)
    kernel = PythonKernel(fill)
    target = gpu.NumbaTarget(kernel, part)
    launch = gpu.NumbaLaunch(target, kernel.config((2, 4))).careful
    for value in 7.0, 8.0:
        c = np.zeros(8, float32)
        launch(c, value, 6)
        assert list(c) == [value] * 6 + [0, 0]
    assert len(attempts) == 1, "the second launch goes to cuda_c at once"
    text = " ".join(re.sub("<.*?>", " ", capsys.readouterr().err).split())
    assert text.count("CUDA_ERROR_UNSUPPORTED_PTX_VERSION") == 1
    assert "so cuda_c runs the kernels of numba_jit" in text


def test_other_errors_of_numba_are_not_about_ptx():
    assert not inspection.is_ptx_too_new(RuntimeError("[700] Call to cuCtxSynchronize"))
    nested = RuntimeError("linking failed")
    nested.__cause__ = RuntimeError(TOO_NEW["NvJitLinkError"])
    assert inspection.is_ptx_too_new(nested)


def test_types_are_those_that_numba_finds():
    pytest.importorskip("numba.cuda")
    a = np.zeros(4, float32)
    types = numba_jit(bodies.matmul).types(a, a, a, 2, 2, 2)
    assert list(types)[:3] == ["c", "a", "b"]
    assert (types["a"], types["n"], types["row"]) == ("float32[1D]", "int64", "int64")
    assert types["acc"] == "float32"
    assert numba_jit(adds_from_zero).types(a, a, 4)["acc"] == "int64, float64"
    with pytest.raises(ArgumentError, match="shape must be a constant"):
        numba_jit(no_constant).types(a, a, 4)


def no_arrays(c, a, n):
    c[0] = np.zeros(3)[0]


def no_text(c, a, n):
    c[0] = "text"


def wrong_helper(c, a, n):
    c[0] = broken(a[0])


def broken(x):
    return x.bar


def returns(c, a, n):
    return c[0]


WRONG = {
    no_attribute: r"line \d+ \(c\[0\] = a\[0\].foo\): .*attribute 'foo'",
    no_index: r"line \d+ \(c\[0\] = a\[0, 0\]\): .*cannot index float32\[1D\] with 2",
    no_constant: r"line \d+ \(a_s = .*\): .*shape must be a constant",
    no_name: r"line \d+: there is no cuda.gird \(did you mean cuda.grid\?\): ",
    no_arrays: r"line \d+ \(.*\): .*a kernel cannot create such arrays",
    no_text: r"line \d+ \(c\[0\] = \"text\"\): .*cannot be stored in an",
    returns: r"returns: Numba: a kernel returns nothing",
    wrong_helper: r"line \d+ \(return x.bar\): .*attribute 'bar'",
}


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.__name__)
def test_what_numba_refuses_is_one_line_at_the_kernels_line(kernel):
    pytest.importorskip("numba.cuda")
    a = np.zeros(4, float32)
    with pytest.raises(ArgumentError, match=WRONG[kernel]) as error:
        numba_jit(kernel).ptx(a, a, 4)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(kernel.__name__)
