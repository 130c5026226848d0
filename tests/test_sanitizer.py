"""NVIDIA's compute-sanitizer finds nothing in any op or rung. Needs a GPU."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from weft import native

SANITIZER = shutil.which("compute-sanitizer")
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


@pytest.mark.parametrize("name", programs())
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_the_sanitizer_finds_nothing(tool, name):
    program = [sys.executable, Path(__file__).with_name("one_step.py"), name]
    options = ["--tool", tool, "--error-exitcode", "1"]
    done = subprocess.run(
        [SANITIZER, *options, *program], text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert f"done: {name}" in done.stdout
