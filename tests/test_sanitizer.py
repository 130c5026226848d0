"""NVIDIA's compute-sanitizer finds nothing in any op or rung. Needs a GPU."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from weft import build, native

SANITIZER = shutil.which("compute-sanitizer")
TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(not SANITIZER, reason="needs compute-sanitizer"),
]


def programs() -> list[str]:
    if not torch.cuda.is_available():
        return ["ops"]
    table = native.rungs("mnist", "cuda")
    return ["ops", *[rung.name for rung in table if "cuda" in rung.targets]]


def sanitized(tool: str, *program: object) -> str:
    """What the program prints, of which the tool has nothing to say."""
    options = ["--tool", tool, "--error-exitcode", "1"]
    done = subprocess.run(
        [SANITIZER, *options, *map(str, program)], text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.parametrize("name", programs())
@pytest.mark.parametrize("tool", TOOLS)
def test_the_sanitizer_finds_nothing(tool, name):
    one_step = Path(__file__).with_name("one_step.py")
    assert f"done: {name}" in sanitized(tool, sys.executable, one_step, name)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_sanitizer_finds_nothing_in_any_rung_of_the_ladder(tool, tmp_path):
    if not build.nvcc():
        pytest.skip("needs nvcc")
    program, source = tmp_path / "every_rung", Path(__file__).with_name("every_rung.cu")
    command = [build.nvcc(), "-I", build.KERNELS, source, "-o", program, "-ldl"]
    subprocess.run(list(map(str, command)), check=True)
    lib = native.library("matmul", "cuda")
    said = sanitized(tool, program, lib.path)
    for rung in lib.here():
        assert f"done: {rung.name}\n" in said
