"""Devices by name, and a driver's data on its GPUs, with a fake driver."""

import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from weft.base import device as devices
from weft.base.device import Device, checked_device
from weft.base.errors import ArgumentError, KernelError
from weft.timing import device_name
from weft.timing.clocks import clock_for
from weft.toolchain import build, native, tools

SOURCE = Path(__file__).with_name("fake_driver.c")


def forget() -> None:
    for cached in (devices.open_driver, devices._load_driver, devices._handle):
        cached.cache_clear()
    devices._primary_context.cache_clear()
    devices._read_capability.cache_clear()


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("driver") / "libfake.so"
    command = [tools.gxx(), "-x", "c", "-shared", "-fPIC", str(SOURCE), "-o", str(path)]
    subprocess.run(command, check=True)
    return str(path)


@pytest.fixture
def driver(library, monkeypatch):
    """Replace this machine's driver with the fake one; PyTorch has no GPU."""
    monkeypatch.setattr(devices, "DRIVER", library)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    forget()
    yield ctypes.CDLL(library)
    ctypes.CDLL(library).cuCtxSetCurrent(None)
    forget()


def test_a_device_is_its_name_and_pytorch_takes_it():
    device = Device("cuda:1")
    assert (device.type, device.index, f"{device}") == ("cuda", 1, "cuda:1")
    assert torch.device(device) == torch.device("cuda", 1)
    assert torch.zeros(2, device=Device("cpu")).to(Device("cpu")).is_cpu
    assert Device("cpu").index is None


def test_names_and_pytorchs_devices_are_understood(driver):
    for spelling in ("cpu", "cpu:0", torch.device("cpu"), Device("cpu")):
        assert checked_device(spelling) == "cpu"
    for spelling in ("cuda:1", torch.device("cuda", 1), Device("cuda:1")):
        assert checked_device(spelling) == "cuda:1"
    assert checked_device("cuda") == checked_device(torch.device("cuda")) == "cuda:0"
    with devices.made_current(1):
        assert checked_device("cuda") == "cuda:1"


@pytest.mark.parametrize(
    "spelling", ["tpu", "cuda:", "cuda:-1", "cuda:0x", "", None, 0]
)
def test_other_names_are_refused(spelling):
    with pytest.raises(ArgumentError, match="expected cpu, cuda or cuda:N"):
        checked_device(spelling)


def test_the_driver_says_what_there_is(driver):
    assert devices.count() == 2
    assert device_name("cuda:1") == "Second GPU"
    assert [devices.compute_capability(index) for index in (0, 1)] == [(8, 0), (8, 1)]
    with devices.made_current(1):  # torch.device("cuda") has no index
        assert devices.compute_capability(torch.device("cuda").index) == (8, 1)
    assert build.Flavour.here("cuda").sm == "80"
    with pytest.raises(ArgumentError, match="cuda:2: this machine has 2 CUDA"):
        checked_device("cuda:2")
    with pytest.raises(KernelError, match="101, invalid device ordinal"):
        devices.name(2)


def test_without_a_driver_there_is_no_gpu(driver, monkeypatch):
    monkeypatch.setattr(devices, "DRIVER", "libno-such-driver.so")
    forget()
    assert devices.count() == devices.current_gpu() == 0
    for ask in (devices.name, devices.compute_capability, devices.is_current):
        with pytest.raises(KernelError, match="no CUDA GPU here"):
            ask(0)
    with pytest.raises(ArgumentError, match="this machine has 0 CUDA GPUs"):
        checked_device("cuda")


def test_no_call_is_made_that_the_driver_refuses(driver):
    """compute-sanitizer would count such a call as an error of the program."""
    original = ctypes.c_ulong.in_dll(driver, "refused").value
    assert devices.current_gpu() == 0  # the thread has no context yet
    assert ctypes.c_ulong.in_dll(driver, "refused").value == original


def test_a_device_is_current_inside_and_what_was_before_is_again(driver):
    # The thread has no context yet.
    assert devices.current_gpu() == 0 and not devices.is_current(0)
    with native.on_device(Device("cuda:0")):
        with pytest.raises(ZeroDivisionError), native.on_device(Device("cuda:1")):
            assert devices.current_gpu() == 1 and devices.is_current(1)
            with native.on_device(Device("cuda:1")):
                pass
            assert devices.is_current(1)
            raise ZeroDivisionError
        assert devices.is_current(0)
    assert devices.is_current(0)


def test_a_thread_without_a_context_has_none_again_unless_pytorch_came(
    driver, monkeypatch
):
    with devices.made_current(1):
        pass
    assert not devices.is_current(0) and not devices.is_current(1)
    with devices.made_current(1):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert devices.is_current(0)


def test_events_time_the_current_stream_of_their_device(driver):
    original = ctypes.c_ulong.in_dll(driver, "destroyed").value
    assert clock_for(Device("cuda:1")).taken(lambda: None) == 1000.0
    assert ctypes.c_ulong.in_dll(driver, "destroyed").value == original + 2
    assert ctypes.c_ulong.in_dll(driver, "last_stream").value == 0
    assert native.stream_of(Device("cuda:1")) == native.NULL


def test_pytorchs_stream_and_device_hold_where_it_uses_the_gpu(driver, monkeypatch):
    def stream(index):
        return SimpleNamespace(cuda_stream=70 + index)

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "current_stream", stream)
    assert devices.current_gpu() == 1 and devices.is_current(1)
    assert int(native.ffi.cast("uintptr_t", native.stream_of(Device("cuda:1")))) == 71
    assert build.Flavour.here("cuda").sm == "81"
