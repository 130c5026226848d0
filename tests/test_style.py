"""The sources have the format of `make format`."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import loop_over

from weft.base.paths import KERNELS, ROOT

BIN = Path(sys.executable).parent  # pip installs programs next to its Python
NOTEBOOKS = ROOT / "notebooks"
PYTHON = ["kernels", "lib", "tests", "docs/site", "docs/slides", "utils.py"]


def run(*command):
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True)


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=str)
def test_ruff_has_nothing_to_say(arguments):
    ruff = shutil.which("ruff", path=BIN) or pytest.skip("ruff is not installed")
    result = run(ruff, *arguments, *PYTHON)
    assert result.returncode == 0, result.stdout


def test_clang_format_has_nothing_to_say():
    tool = shutil.which("clang-format", path=BIN) or pytest.skip("no clang-format")
    zoo = (ROOT / "tests").rglob("*.cu")
    files = [p for p in KERNELS.rglob("*.*") if p.suffix not in (".py", ".pyc")]
    lessons = [p for p in NOTEBOOKS.rglob("*.*") if p.suffix in (".c", ".cu")]
    result = run(tool, "--dry-run", "-Werror", *files, *zoo, *lessons)
    assert result.returncode == 0, result.stderr[-2000:]


PACKAGES = sorted((ROOT / "lib/weft").rglob("__init__.py"))


@loop_over("init", PACKAGES)
def test_a_package_names_all_of_its_modules(init):
    """Check that the docstring's map or imports name each module; bench* covers
    several."""
    text = init.read_text()
    if 'import_module(f".{' in text:  # this package computes the modules' names
        return
    named = {word.replace("*", r"\w*") for word in re.findall(r"\w+\*?", text)}
    modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
    missing = {
        stem for stem in modules if not any(re.fullmatch(w, stem) for w in named)
    }
    assert not missing
