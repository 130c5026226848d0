"""NVIDIA's compute-sanitizer finds nothing in any rung. Needs a GPU."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SANITIZER = shutil.which("compute-sanitizer")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.skipif(not SANITIZER, reason="needs compute-sanitizer"),
]


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_the_sanitizer_finds_nothing_in_any_rung(tool):
    program = [sys.executable, Path(__file__).with_name("one_step.py")]
    options = ["--tool", tool, "--error-exitcode", "1"]
    done = subprocess.run(
        [SANITIZER, *options, *program], text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "one step of" in done.stdout
