"""The interface to C: statuses, numbers out of range, threads, and a lost GPU."""

import ctypes
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import weft
from weft.base.errors import ArgumentError
from weft.cells.gpu import driver
from weft.toolchain import build, native


def test_a_failed_status_carries_the_c_message():
    lib = native.library("relu", "cpu")
    with pytest.raises(weft.ArgumentError, match="relu has rungs 0 to 2, not 99"):
        lib.call("weft_relu", 99, native.NULL, native.NULL, 1, native.NULL)


def test_a_number_that_c_cannot_hold_is_an_error_with_the_number():
    lib = native.library("relu", "cpu")
    with pytest.raises(weft.ArgumentError, match="weft_set_order.*4294967296"):
        lib.call("weft_set_order", 2**32)


@pytest.fixture
def threads():
    """Yield the CPU target's number of threads, and restore it after the test."""
    original = native.set_threads(0)
    runtime = ctypes.CDLL(str(build.simt_runtime(build.Flavour.here("cpu"))))
    yield runtime.simt_threads
    native.set_threads(original)


def test_threads_outlive_a_reload(threads):
    x = torch.randn(100)
    weft.relu(x)
    for number in (1, 2):
        weft.reload()
        weft.set_threads(number)  # no library is open, except perhaps in a model
        assert threads() == number
        assert torch.equal(weft.relu(x), x.relu())
        assert threads() == number


@pytest.mark.parametrize("bad", [-3, 1025, 1.5, 2**40, "two"])
def test_a_refused_number_of_threads_is_forgotten(threads, bad):
    weft.set_threads(2)
    weft.reload()
    with pytest.raises(weft.ArgumentError, match=f"threads ?= ?{bad!r}"):
        weft.set_threads(bad)
    assert torch.equal(weft.relu(torch.ones(2)), torch.ones(2))
    assert threads() == 2


def in_a_new_process(script: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        **{"text": True, "capture_output": True, "timeout": 300},
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux")
def test_threads_hold_in_every_thread_and_torchs_are_its_own():
    script = """
        import os, threading
        import torch, weft

        def started(call):
            before = set(os.listdir("/proc/self/task"))
            call()
            return len(set(os.listdir("/proc/self/task")) - before)

        a, counts = torch.ones(300, 300), []
        weft.relu(torch.ones(1))
        torch.set_num_threads(2)
        weft.set_threads(1)
        assert torch.get_num_threads() == 2
        run = lambda: counts.append(started(lambda: weft.matmul(a, a)))
        run()
        for number in (1, 3):
            weft.set_threads(number)
            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
        print(counts)
    """
    process = in_a_new_process(script)
    assert process.stdout == "[0, 0, 2]\n", process.stderr


@pytest.mark.slow
def test_a_forked_child_computes():
    script = """
        import os, signal
        import numpy as np, weft

        def work():  # in NumPy, since torch does hang in a child
            a = np.ones((300, 300), np.float32)
            assert (weft.matmul(a, a) == 300).all()
            assert (weft.matmul(a, a, rung="naive") == 300).all()

        weft.set_threads(2)
        work()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            work()
            weft.set_threads(2)
            work()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        work()
    """
    process = in_a_new_process(script)
    assert process.returncode == 0, process.stderr


def test_an_error_is_told_once(target):
    source = Path(__file__).with_name("errors.cu")
    files = [build.KERNELS / "common/common.cu", source]
    path = build.library_of("test_errors", files, build.Flavour.here(target))
    lib = ctypes.CDLL(str(path))
    assert lib.choose_device(99) == native.library("relu", target).C.WEFT_ECUDA
    assert lib.launch() == 0  # this call succeeds: the failure was the previous call's


@pytest.fixture
def broken_gpu(monkeypatch):
    """Pretend that there is a GPU on which every kernel faults."""
    lib = native.Library("relu", "cpu")
    failures = []

    def fault(*args):
        failures.append(args)
        return lib_c.WEFT_ELOST

    lib_c, message = lib.C, native.ffi.new("char[]", b"relu: fault; restart")
    names = ("WEFT_EINTR", "WEFT_EINVAL", "WEFT_ENOMEM", "WEFT_ELOST")
    statuses = {name: getattr(lib_c, name) for name in names}
    lib.C = SimpleNamespace(
        weft_relu=fault, weft_last_error=lambda: message, **statuses
    )
    lib.target = "cuda"
    monkeypatch.setattr(native, "_lost", "")
    return lib, failures


def test_after_a_fault_every_launch_on_the_gpu_is_refused(broken_gpu):
    lib, failures = broken_gpu
    for _ in range(3):
        with pytest.raises(weft.DeviceLost, match="relu: fault; restart"):
            lib.call("weft_relu", 1)
        weft.reload()
    assert len(failures) == 1
    assert weft.relu(torch.ones(1)) == 1  # the CPU target still works


@pytest.mark.parametrize(
    ("colab", "menus"),
    [
        (False, ["Kernel > Restart Kernel", "Run > Run All Above Selected Cell"]),
        (True, ["Runtime > Restart session", "Runtime > Run before"]),
    ],
)
def test_a_notebook_names_the_menus_that_restart_it(
    colab, menus, broken_gpu, monkeypatch
):
    """Inject a sticky error, in a library's call and in the driver's."""
    lib, _ = broken_gpu
    monkeypatch.setattr(native, "running_shell", lambda: object())
    if colab:
        monkeypatch.setitem(sys.modules, "google.colab", object())
    else:
        monkeypatch.delitem(sys.modules, "google.colab", raising=False)
    with pytest.raises(weft.DeviceLost) as first:
        lib.call("weft_relu", 1)
    with pytest.raises(weft.DeviceLost) as later:
        lib.call("weft_relu", 1)
    monkeypatch.setattr(native, "_lost", "")
    with pytest.raises(weft.DeviceLost, match="an illegal address") as launch:
        driver.check(700, "launching add")
    for error in first, later, launch:
        assert all(str(error.value).count(menu) == 1 for menu in menus)


def test_statuses_of_the_driver_have_errors_of_their_own(monkeypatch):
    monkeypatch.setattr(driver, "describe_error", lambda status: f"status {status}")
    driver.check(0, "launching add")
    for status, error in (1, weft.KernelError), (2, weft.OutOfMemory):
        with pytest.raises(weft.KernelError, match=f"add: status {status}") as raised:
            driver.check(status, "launching add")
        assert type(raised.value) is error


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_kernel_that_faults_says_restart_and_refuses_launches():
    script = """
        import torch, weft
        from weft.toolchain import native
        lib = native.library("relu", "cuda")
        bad = native.ffi.cast("float *", 64)
        for _ in range(2):
            try:
                lib.call("weft_relu", lib.rung().index, bad, bad, 1, native.NULL)
                lib.call("weft_sync", native.NULL)
            except weft.DeviceLost as error:
                print(error)
        print(weft.relu(torch.tensor([-1.0, 2.0])).tolist())
    """
    process = in_a_new_process(script)
    first, second, third = process.stdout.splitlines()
    assert first == second and "restart the notebook's kernel" in first, process.stderr
    assert third == "[0.0, 2.0]"


# ---- compute capabilities ----------------------------------------------------------


@pytest.fixture
def pretended_gpu(monkeypatch):
    """Return a function that pretends that the GPU has a given compute capability."""

    def pretend(major, minor):
        fakes = {"count": lambda: 1, "current_gpu": lambda: 0}
        fakes |= {"name": lambda index: "GPU"}
        fakes |= {"compute_capability": lambda index: (major, minor)}
        for name, fake in fakes.items():
            monkeypatch.setattr(native.device, name, fake)

    return pretend


def test_a_lesson_names_the_compute_capability_of_its_rungs(monkeypatch):
    monkeypatch.setattr(native.device, "count", lambda: 0)
    start = "Compute capability that a GPU needs: "
    few = native.describe_needs("matmul", ["naive", "tma", "mma_bf16", "tiled"])
    assert few == f"{start}8.0: mma_bf16; 9.0: tma; 7.5: the others"
    assert native.describe_needs("matmul", ["naive", "pipeline"]) == f"{start}7.5"
    assert native.describe_needs("matmul", ["tma"]) == f"{start}9.0: tma"
    assert "9.0: pdl" in native.describe_needs("mnist")


@pytest.mark.parametrize(
    ("capability", "lacks"), [((7, 5), True), ((8, 9), True), ((9, 0), False)]
)
def test_a_lesson_compares_its_rungs_with_the_gpu(capability, lacks, pretended_gpu):
    pretended_gpu(*capability)
    text = native.describe_needs("matmul", ["naive", "tma"])
    here = f"This GPU has {capability[0]}.{capability[1]}, so the times of the others"
    assert (here in text) == lacks


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 6), (8, 9), (9, 0)])
@pytest.mark.parametrize("op", ["matmul", "mnist"])
def test_each_rung_runs_or_is_refused_with_the_capability_it_needs(
    op, capability, pretended_gpu, monkeypatch
):
    pretended_gpu(*capability)
    library = native.library(op, "cpu")
    monkeypatch.setattr(library, "target", "cuda")
    monkeypatch.setattr(library, "_chosen", {})
    sm = 10 * capability[0] + capability[1]
    on_a_gpu = [rung for rung in library.rungs if "cuda" in rung.targets]
    assert library.here() == [rung for rung in on_a_gpu if rung.sm <= sm]
    for rung in on_a_gpu:
        if rung.sm <= sm:
            assert library.rung(rung.name) == rung
            continue
        needs = f"needs compute capability {rung.sm // 10}.{rung.sm % 10}, but this is"
        with pytest.raises(ArgumentError, match=needs):
            library.rung(rung.name)
