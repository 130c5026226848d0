"""occupancy(): the blocks on a multiprocessor, as in NVIDIA's own calculator."""

import ctypes
import itertools
import re
import subprocess
from pathlib import Path

import pytest
import torch

from weft import load_cuda
from weft.base.errors import ArgumentError
from weft.cells import stored
from weft.cells.gpu import driver, nvrtc
from weft.see.machine_code import occupancy
from weft.see.machine_code.residency import LIMITS
from weft.toolchain.tools import gxx

# cuda_occupancy.h needs no GPU: the caller passes the GPU's limits.
CALCULATOR = """
#include <cstddef>
#include "cuda_occupancy.h"
extern "C" int resident(int major, int minor, int per_sm, size_t shared_sm,
                        size_t shared_block, size_t reserved, int registers,
                        size_t shared, int threads) {
    cudaOccDeviceProp gpu = cudaOccDeviceProp();
    gpu.computeMajor = major, gpu.computeMinor = minor;
    gpu.maxThreadsPerBlock = 1024, gpu.maxThreadsPerMultiprocessor = per_sm;
    gpu.regsPerBlock = gpu.regsPerMultiprocessor = 65536, gpu.warpSize = 32;
    gpu.sharedMemPerBlock = 48 << 10, gpu.sharedMemPerMultiprocessor = shared_sm;
    gpu.sharedMemPerBlockOptin = shared_block, gpu.numSms = 1;
    gpu.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel = cudaOccFuncAttributes();
    kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers;
    kernel.maxDynamicSharedSizeBytes = shared_block;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    cudaOccDeviceState state = cudaOccDeviceState();
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &gpu, &kernel,
                                                         &state, threads, shared);
    return status ? -status : result.activeBlocksPerMultiprocessor;
}
"""
TWICE = (
    "__global__ void twice(float *y) { __shared__ float s[256]; int i = threadIdx.x;"
)
TWICE += " s[i] = y[i]; __syncthreads(); y[i] = s[255 - i]; }"


def _calculator_header() -> Path | None:
    folders = map(Path, nvrtc.include_folders())
    headers = [f / "cuda_occupancy.h" for f in folders]
    return next((path for path in headers if path.is_file()), None)


@pytest.mark.skipif(_calculator_header() is None, reason="no cuda_occupancy.h")
def test_as_many_blocks_fit_as_nvidias_calculator_says(tmp_path):
    (tmp_path / "calculator.cpp").write_text(CALCULATOR)
    command = [gxx(), "-shared", "-fPIC", "-w", f"-I{_calculator_header().parent}"]
    command += ["-o", str(tmp_path / "calculator.so"), str(tmp_path / "calculator.cpp")]
    subprocess.run(command, check=True)
    resident = ctypes.CDLL(str(tmp_path / "calculator.so")).resident
    resident.argtypes = [ctypes.c_int] * 3 + [ctypes.c_size_t] * 3
    resident.argtypes += [ctypes.c_int, ctypes.c_size_t, ctypes.c_int]
    registers = (0, 1, 24, 32, 33, 40, 64, 65, 96, 128, 129, 168, 255)
    shared = (
        0,
        1,
        1000,
        1024,
        8192,
        33 << 10,
        48 << 10,
        99 << 10,
        100 << 10,
        227 << 10,
    )
    threads = (1, 32, 33, 64, 96, 160, 256, 384, 512, 672, 768, 1000, 1024)
    for name, limits in LIMITS.items():
        arch = f"sm_{name.replace('.', '')}"
        sizes = limits.threads, limits.shared, limits.shared_block, limits.reserved
        capability = map(int, name.split("."))
        gpu = (*capability, *sizes)
        for r, s, t in itertools.product(registers, shared, threads):
            want = resident(*gpu, r, s, t)
            blocks = occupancy(registers=r, shared=s, threads=t, arch=arch).blocks
            assert blocks == want, (name, r, s, t)


def test_the_limit_that_binds_is_named_with_what_would_help():
    few = occupancy(registers=80, threads=128, arch="sm_90")
    assert (few.blocks, few.binding, few.occupancy) == (6, ["registers"], 24 / 64)
    assert "72 registers a thread, 8 fewer" in few.next()
    assert occupancy(registers=72, threads=128, arch="sm_90").blocks == 7
    assert occupancy(registers=73, threads=128, arch="sm_90").blocks == 6
    big = occupancy(registers=32, shared=40 << 10, threads=128, arch="sm_80")
    assert big.binding == ["shared memory"] and big.blocks == 4
    room = int(re.search(r"at (\d+) bytes", big.next()).group(1))
    for shared, blocks in ((room, 5), (room + 1, 4)):
        one = occupancy(registers=32, shared=shared, threads=128, arch="sm_80")
        assert one.blocks == blocks


def test_a_block_that_does_not_fit_is_reported():
    text = repr(occupancy(registers=168, threads=512, arch="sm_90"))
    assert "cannot be launched" in text and "168 registers" in text
    text = repr(occupancy(registers=8, shared=100 << 10, threads=32, arch="sm_86"))
    assert f"the maximum is {99 << 10}" in text


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_a_kernel_brings_its_registers_and_shared_memory():
    kernel = load_cuda(TWICE).twice
    one = occupancy(kernel, threads=256, shared=512, arch="sm_80")
    assert one.shared == 1024 + 512 and 0 < one.registers <= 32
    assert one.name == "twice" and one.blocks == 8
    assert occupancy(kernel, arch="sm_80").occupancy == 1.0


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_a_compiler_that_reports_no_registers_is_named_with_its_output(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(stored.store, "cache_folder", lambda *parts: tmp_path)
    monkeypatch.setattr(nvrtc, "parse_usage", lambda log: {})
    kernel = load_cuda("__global__ void silent(int *x) { *x = 1; }").silent
    message = (
        r"NVRTC \d+\.\d exited with code 0, wrote \d{3,} bytes and printed: nothing"
    )
    with pytest.raises(ArgumentError, match=message):
        occupancy(kernel, threads=32)


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({}, "takes a kernel"),
        ({"registers": 300}, "registers=300: expected 0 to 255"),
        ({"registers": 8, "threads": 1025}, "threads=1025"),
        ({"registers": 8, "threads": 1.5}, "threads=1.5: expected a whole number"),
        ({"registers": 8, "arch": "sm_50"}, "limits are known only for sm_75"),
        ({"registers": 8, "arch": "hopper"}, "such as"),
    ],
)
def test_wrong_numbers_are_refused_with_the_valid_ones(wrong, says):
    with pytest.raises(ArgumentError, match=says):
        occupancy(**wrong)


def test_a_positional_block_size_is_refused():
    cell = load_cuda("__global__ void k(float *x) { *x = 1; }", target="cpu")
    with pytest.raises(ArgumentError, match="1024: .* threads=256"):
        occupancy(cell.k, 1024)


def test_the_picture_marks_what_binds_and_every_block_size():
    one = occupancy(registers=80, threads=128, arch="sm_90")
    svg = one.svg()
    assert "6 blocks: binds" in svg and svg.count(": binds<") == 1
    assert svg.count("<g><title>") == 32  # whole warps, up to 1024 threads
    assert one._repr_mimebundle_()["text/plain"] == repr(one)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
@pytest.mark.parametrize("shared", [0, 3000, 40000])
def test_the_gpu_agrees(shared):
    """The driver computes cudaOccupancyMaxActiveBlocksPerMultiprocessor."""
    kernel = load_cuda(TWICE, target="cuda").twice
    device = torch.cuda.current_device()
    function = kernel.module.compiled_for("cuda", "twice").function("twice", device)
    for threads in (32, 96, 256, 1000):
        one = occupancy(kernel, threads=threads, shared=shared)
        # The driver returns a share of threads; we count whole warps.
        with driver.use_device(device):
            share = driver.count_occupancy(function, threads, shared, device)
        assert share * one.limits.threads / threads == pytest.approx(one.blocks)
