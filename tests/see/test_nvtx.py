"""nvtx_range(): ranges are named, end, reach a tool, and do nothing without one."""

import os
import subprocess
import sys
import types
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from weft import ArgumentError, nvtx_range, sim
from weft.mnist import PythonCnn, Split
from weft.see import timeline
from weft.toolchain import build

HERE = Path(__file__).parent
INCLUDES = [f"-I{build.KERNELS}"]
PROGRAM = """
#include "common/nvtx.cuh"
static int inner() { WEFT_RANGE("inner"); return 1; }
int main() {
    WEFT_RANGE("outer");
    return !inner();
}
"""


@pytest.fixture
def calls(monkeypatch):
    """The calls to torch.cuda.nvtx, on a PyTorch with CUDA."""
    ranges = []
    fake = types.SimpleNamespace(
        range_push=ranges.append, range_pop=lambda: ranges.append(".")
    )
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "nvtx", fake)
    timeline._load_calls.cache_clear()
    yield ranges
    timeline._load_calls.cache_clear()


def test_ranges_nest_and_end_even_after_an_exception(calls):
    with pytest.raises(KeyError), nvtx_range("outer"):
        with nvtx_range("inner"):
            pass
        raise KeyError
    assert calls == ["outer", "inner", ".", "."]


def test_without_cuda_a_range_does_nothing(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setitem(sys.modules, "nvtx", None)
    timeline._load_calls.cache_clear()
    with nvtx_range("step"):
        value = 3
    timeline._load_calls.cache_clear()
    assert value == 3


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_range_requires_a_name(name):
    with pytest.raises(ArgumentError, match="expected a name"), nvtx_range(name):
        pass


def run(command, **options):
    return subprocess.run(
        command, check=True, capture_output=True, text=True, **options
    ).stderr


@pytest.mark.skipif(build.nvcc() is None, reason="no nvcc")
@pytest.mark.slow
def test_a_tool_receives_the_ranges_of_the_library(tmp_path):
    tool, program = tmp_path / "listener.so", tmp_path / "program"
    flags = ["-shared", "-Xcompiler", "-fPIC"]
    try:
        run([build.nvcc(), *flags, HERE / "nvtx_listener.c", "-o", tool])
    except subprocess.CalledProcessError as error:
        if "nvToolsExt.h: No such file" not in error.stderr:
            raise
        pytest.skip("this toolkit has no NVTX")
    (tmp_path / "program.cu").write_text(PROGRAM)
    run([build.nvcc(), "-o", program, *INCLUDES, tmp_path / "program.cu"])
    environment = {**os.environ, "NVTX_INJECTION64_PATH": str(tool)}
    assert run([program], env=environment) == "outer inner . . "
    assert run([program]) == ""


def test_a_step_of_the_trainer_names_itself_and_its_sections(calls):
    runner = partial(sim, quiet=True, checks=False)
    sizes = dict(height=4, width=4, hidden=2, classes=2, max_batch=2)
    cnn = PythonCnn(runner, "cpu", channels=(1, 1), **sizes)
    data = Split(np.zeros((4, 4, 4), np.uint8), np.zeros(4, np.uint8))
    cnn.data(data, data)
    cnn.train([0, 1, 2, 3], 2, lr=0.1)
    step = calls[: len(calls) // 2]
    assert calls == step * 2  # a step for each of two batches
    assert step[:3] == ["step", "batch", "."] and step[-2:] == [".", "."]
    assert step[3:7] == ["forward.conv1", ".", "forward.bn1", "."]
    assert "backward.conv1" in step and step[-3] == "update"
    assert step.count(".") == len(step) / 2
