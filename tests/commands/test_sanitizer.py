"""NVIDIA's compute-sanitizer reports no error in any rung; most tests need a GPU."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from weft import __main__ as command
from weft.commands import check as sanitizer
from weft.timing import results
from weft.toolchain import build, native, tools

SANITIZER = shutil.which(sanitizer.SANITIZER)


def on_a_gpu(test):
    """Mark a test that runs the real compute-sanitizer."""
    available = torch.cuda.is_available() and SANITIZER
    reason = f"needs a GPU and {sanitizer.SANITIZER}"
    return pytest.mark.slow(pytest.mark.skipif(not available, reason=reason)(test))


def programs() -> list[str]:
    if not torch.cuda.is_available():
        return ["ops"]
    table = native.rungs("mnist", "cuda")
    return ["ops", *[rung.name for rung in table if "cuda" in rung.targets]]


@on_a_gpu
@pytest.mark.parametrize("name", programs())
@pytest.mark.parametrize("tool", sanitizer.TOOLS)
def test_the_sanitizer_finds_nothing(tool, name):
    one_step = str(Path(__file__).with_name("one_step.py"))
    options = ["--tool", tool, "--error-exitcode", "1", sys.executable]
    process = subprocess.run(
        [SANITIZER, *options, one_step, name], text=True, capture_output=True
    )
    assert process.returncode == 0, process.stdout[-3000:]
    assert f"done: {name}" in process.stdout


@on_a_gpu
@pytest.mark.skipif(not tools.nvcc(), reason="needs nvcc")
def test_the_sanitizer_finds_nothing_in_any_rung_of_the_ladder():
    rows = sanitizer.run_tools()
    assert [row["tool"] for row in rows] == list(sanitizer.TOOLS)
    names = [rung.name for rung in native.library("matmul", "cuda").here()]
    for row in rows:
        assert sanitizer.is_clean(row) and row["rungs"] == names and row["version"]


# ---- the command, without a GPU ----------------------------------------------

INVENTED = """#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2025.3.1.0 (build 36398880)"; exit 0; fi
tool=$2; shift 4
echo "========= COMPUTE-SANITIZER"
"$@" || exit 1
if [ $tool = racecheck ]; then
    found=$HAZARDS
    echo "========= RACECHECK SUMMARY: $found hazards displayed ($found errors, ...)"
else
    found=$ERRORS
    echo "========= ERROR SUMMARY: $found errors"
fi
[ $found = 0 ]
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Build every_rung for the CPU's library."""
    path = tmp_path_factory.mktemp("program") / "every_rung"
    source = ["-x", "c++", "-I", build.KERNELS, sanitizer.SOURCE, "-o", path, "-ldl"]
    subprocess.run([tools.gxx(), *map(str, source)], check=True)
    return path


@pytest.fixture
def invented(monkeypatch, tmp_path, program):
    """Install a fake compute-sanitizer that runs a program and prints a summary."""
    script = tmp_path / sanitizer.SANITIZER
    script.write_text(INVENTED)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("ERRORS", "0")
    monkeypatch.setenv("HAZARDS", "0")
    lib = native.library("matmul", "cpu")
    monkeypatch.setattr(sanitizer.devices, "count", lambda: 1)
    monkeypatch.setattr(sanitizer.native, "library", lambda op, target: lib)
    monkeypatch.setattr(sanitizer, "_build_program", lambda folder: program)
    monkeypatch.setattr(sanitizer, "device_name", lambda device: "Invented GPU")
    monkeypatch.setattr(results, "machine", lambda device: {"device": "Invented GPU"})


def checked(path, *more):
    words = ["check", "matmul", "--sanitizer", *more, "--json", str(path)]
    status = command.main(words)
    return status, json.loads(path.read_text())["rows"]


def test_every_tool_reports_a_clean_rung(invented, tmp_path, capsys):
    status, rows = checked(tmp_path / "rows.json", "--rung", "naive")
    assert status == 0 and [row["tool"] for row in rows] == list(sanitizer.TOOLS)
    for row in rows:
        assert (row["errors"], row["rungs"], row["missing"]) == (0, ["naive"], [])
        assert row["version"] == "2025.3.1.0" and row["device"] == "Invented GPU"
        assert row["commit"] and row["date"] and row["seconds"] > 0
    output = capsys.readouterr()
    assert "weft: racecheck: naive, 1 of 1" in output.err and "memcheck" in output.out


@pytest.mark.parametrize(
    "name, tool", [("ERRORS", "memcheck"), ("HAZARDS", "racecheck")]
)
def test_a_finding_of_a_tool_fails_the_command(
    invented, tmp_path, monkeypatch, capsys, name, tool
):
    monkeypatch.setenv(name, "2")
    tools = "memcheck,racecheck"
    status, rows = checked(tmp_path / "rows.json", tools, "--rung", "reference")
    assert status == 1
    assert {row["tool"]: row["errors"] for row in rows} == {
        "memcheck": 2 * (tool == "memcheck"), "racecheck": 2 * (tool == "racecheck")
    }  # fmt: skip
    assert "SUMMARY: 2" in capsys.readouterr().err


def test_an_unfinished_rung_fails_the_command(invented, tmp_path, monkeypatch, capsys):
    program = tmp_path / "every_rung"
    monkeypatch.setattr(sanitizer, "_build_program", lambda folder: program)
    for text, errors in (("exit 0", 0), ("echo Segmentation fault; exit 139", None)):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        status, (row,) = checked(tmp_path / "rows.json", "memcheck", "--rung", "naive")
        assert (status, row["errors"], row["missing"]) == (1, errors, ["naive"])
        assert (
            "WRONG  memcheck: naive computed a wrong result" in capsys.readouterr().out
        )


@pytest.mark.parametrize(
    "words, said",
    [
        (["matmul", "--sanitizer", "nope"], "'nope': expected memcheck, racecheck"),
        (["matmul", "--sanitizer", "--rung", "nope"], "nope"),
        (["relu", "--sanitizer"], "takes every rung of matmul on a GPU"),
        (["matmul", "--sanitizer", "--device", "cpu"], "takes every rung of matmul"),
    ],
)
def test_an_invalid_command_is_refused_in_one_sentence(invented, words, said, capsys):
    assert command.main(["check", *words]) == 1
    assert said in capsys.readouterr().err


def test_a_missing_gpu_or_sanitizer_is_named(monkeypatch, capsys):
    words = ["check", "matmul", "--sanitizer"]
    monkeypatch.setattr(sanitizer.devices, "count", lambda: 0)
    assert command.main(words) == 1
    assert "requires a GPU, and this machine has none" in capsys.readouterr().err
    monkeypatch.setattr(sanitizer.devices, "count", lambda: 1)
    monkeypatch.setenv("PATH", "")
    assert command.main(words) == 1
    assert "CUDA toolkit is not on the PATH" in capsys.readouterr().err
