"""The machine's peaks: kernels do as much work as they report."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from weft.timing import peaks


def test_a_cpus_peaks_are_measured_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(peaks.store, "cache_folder", lambda *parts: tmp_path)
    monkeypatch.setitem(peaks.COPIED, "cpu", 1 << 16)
    monkeypatch.setattr(peaks, "SECONDS", 0.02)
    copy, fma = measured = peaks.peaks("cpu")
    assert (copy["rung"], fma["rung"]) == ("copy", "fma")
    assert copy["gbs"] >= 8 * (1 << 16) / copy["us_low"] / 1e3
    assert fma["tflops"] > 0.001 and fma["threads"] >= 1
    assert json.loads(json.dumps(peaks.peaks("cpu"))) == measured
    assert peaks.ceilings(measured)["fp32"] == fma["tflops"]
    remeasured = peaks.peaks("cpu", again=True)
    assert remeasured[0]["us"] != copy["us"]


def test_a_cpus_chains_are_multiply_adds():
    lib = peaks.open_library("cpu")
    out = np.full(lib.peak_threads(), np.nan, np.float32)
    at, number = peaks.ctypes.c_void_p(out.ctypes.data), peaks.ctypes.c_float
    lib.peak_run(at, 1, number(1.0), number(0.5))
    lanes = round(lib.peak_flops()) // (2 * 12 * 64)
    # 12 chains start at 0 to 11; each adds 0.5 64 times, in all lanes.
    assert (out == lanes * (66 + 12 * 32)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(len(peaks.KINDS)), ids=lambda kind:
                         "-".join(peaks.KINDS[kind][:2]))  # fmt: skip
def test_a_gpus_kernels_do_the_work_that_is_counted(kind, target):
    rung, precision, minimum, maximum = peaks.KINDS[kind]
    if target == "cuda":
        major, minor = torch.cuda.get_device_capability()
        if not minimum <= 10 * major + minor <= maximum:
            pytest.skip(f"{rung} {precision} is not there")
    lib = peaks.open_library(target, peaks.SOURCES["cuda"])
    outs = []
    for turns in (1, 2):
        out = torch.full((2 * peaks.THREADS,), torch.nan, device=target)
        peaks.queue(lib, "peak_run", kind, out, 2, turns)
        outs.append(out)
    single, double = outs
    assert torch.isfinite(single).all() and len(single.unique()) > 200
    if rung == "ffma":
        # Each chain converges to y / (1 - x), regardless of its start.
        assert not torch.equal(single, double)
    else:
        assert torch.allclose(double, 2 * single, rtol=1e-4, atol=1e-3)
    # The work of a thread, a warp or a warpgroup per turn: chains, or m x n x k.
    k = (32 if rung == "wgmma" else 8) * (1 if precision == "tf32" else 2)
    want = {
        "ffma": 2 * 256 * 32 * 8,
        "mma": 8 * 8 * 2 * 16 * 8 * k,
        "wgmma": 2 * 2 * 64 * 256 * k,
    }
    assert lib.peak_flops(kind) == want[rung]


@pytest.mark.slow
def test_a_copy_is_a_copy(target):
    lib = peaks.open_library(target, peaks.SOURCES["cuda"])
    x = torch.randn(5000, device=target)
    y = torch.full_like(x, torch.nan)
    peaks.queue(lib, "peak_copy", y, x, peaks.ctypes.c_size_t(5000))
    assert torch.equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 3])
def test_reads_from_the_l2_cache_are_of_all_numbers_in_each_turn(target, blocks):
    lib = peaks.open_library(target, peaks.SOURCES["cuda"])
    x = torch.rand(4 << 10, device=target)
    for turns in (1, 3):
        out = torch.full((blocks * peaks.THREADS,), torch.nan, device=target)
        count = peaks.ctypes.c_size_t(x.numel())
        peaks.queue(lib, "peak_l2", out, x, count, blocks, turns)
        want = turns * x.double().sum()
        assert torch.allclose(out.double().sum(), want, rtol=1e-5)


def test_the_l2_caches_speed_is_a_ceiling_of_its_own():
    rows = [
        {"op": "peak", "rung": "copy", "precision": "fp32", "gbs": 4000.0},
        {"op": "peak", "rung": "l2", "precision": "fp32", "gbs": 5000.0},
        {"op": "peak", "rung": "ffma", "precision": "fp32", "tflops": 60.0},
    ]
    assert peaks.ceilings(rows) == {"gbs": 4000.0, "l2": 5000.0, "fp32": 60.0}
