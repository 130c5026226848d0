"""g++ is missing, hangs, fails, is killed, or is not a compiler."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from faults import copy_lab, python, start
from tiers import only

from weft.toolchain import tools

LIBRARY = """
from weft.toolchain import native
print(native.library("relu", "cpu").rung().name)
"""
CELL = """
import numpy as np
from weft.cells import load_cuda
cell = load_cuda("__global__ void k(int *x) { *x = 3; }")
x = np.zeros(1, np.int32)
cell.k[1, 1](x)
print(x[0])
"""
# The program answers --version like g++, and then executes the replacement of FAULT.
COMPILER = """#!/bin/sh
case "$*" in *--version*) exec g++ --version;; esac
FAULT
"""
FAULTS = {
    "fails": ("echo 'out of luck' >&2; exit 3", "out of luck"),
    "is silent": ("exit 3", r"cxx failed with exit status 3 and printed nothing: /"),
    "crashes": ("kill -SEGV $$", r"cxx was ended by SIGSEGV: /"),
    "is killed": ("kill -KILL $$", r"cxx was ended by SIGKILL: /"),
    "does nothing": ("exit 0", r"cxx failed with exit status 0 and printed nothing: /"),
    "says bytes": (r"printf '\377\200' >&2; exit 1", "\ufffd\ufffd"),
    "hangs": (
        "$0.sleep 1000 & $0.sleep 1000",
        r"cxx did not finish within 1 s and",
    ),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    return copy_lab(tmp_path_factory.mktemp("plain") / "lab")


def compiler(tmp_path, text):
    path = tmp_path / "cxx"
    path.write_text(text)
    path.chmod(0o755)
    # left_over() finds the process by this name.
    shutil.copy(shutil.which("sleep"), f"{path}.sleep")
    return str(path)


EXPLAIN = r"explain: https://\S+/errors\.html#error-sources\n"  # the second line


def left_over(folder) -> list[str]:
    """List the processes with this folder on their command lines."""
    pgrep = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True)
    return pgrep.stdout.split()


@pytest.mark.parametrize("fault", only(["fails"], FAULTS))
@pytest.mark.slow
def test_a_compiler_that_goes_wrong_is_one_error(lab, tmp_path, fault):
    fault_script, message = FAULTS[fault]
    cxx = compiler(tmp_path, COMPILER.replace("FAULT", fault_script))
    env = {"CXX": cxx, "WEFT_COMPILE_SECONDS": "1" if fault == "hangs" else ""}
    (lab / "kernels/relu.cu").open("a").write(f"// {fault}\n")
    proc = python(lab, tmp_path / "cache", "-c", LIBRARY, env=env)
    line = proc.stderr.splitlines()[-1]
    assert proc.returncode == 1 and line.startswith("weft.base.errors.BuildError: ")
    assert re.search(message, line), line
    (tmp_path / "a.cu").write_text("int main() { return 7; }\n")
    words = ["-m", "weft", "run", str(tmp_path / "a.cu"), "-O0"]
    proc = python(lab, tmp_path / "cache", *words, env=env)
    assert proc.returncode == 1 and re.search(message, proc.stderr)
    assert not left_over(tmp_path)
    assert not list((tmp_path / "cache").rglob("libweft_part_*"))
    assert not list((lab / "lib").glob("libweft_part_*"))
    well = python(lab, tmp_path / "cache", "-c", LIBRARY)
    assert well.stdout == "reference\n", well.stderr
    assert python(lab, tmp_path / "cache", *words).returncode == 7


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["is silent", "hangs"])
def test_a_cell_tells_of_its_compiler(lab, tmp_path, fault):
    fault_script, message = FAULTS[fault]
    cxx = compiler(tmp_path, COMPILER.replace("FAULT", fault_script))
    script = f"""
import os
os.environ["CXX"] = {cxx!r}
from weft.toolchain.build import BuildError
from weft.cells import load_cuda
try:
    load_cuda("__global__ void k(int *x) {{ *x = 4; }}")
except BuildError as error:
    print(error)
del os.environ["CXX"]
{CELL}
"""
    env = {"WEFT_COMPILE_SECONDS": "1" if fault == "hangs" else ""}
    script = script.replace("del os", "del os.environ['WEFT_COMPILE_SECONDS']; del os")
    proc = python(lab, tmp_path / "cache", "-c", script, env=env)
    output, is_right = proc.stdout.splitlines()
    assert re.search(message, output) and is_right == "3", proc.stderr


@pytest.mark.parametrize(
    "text, message",
    [
        (None, r"no C\+\+ compiler '.*/cxx' \(from CXX\): install one \(Debian"),
        (
            "#!/bin/sh\nexit 1\n",
            r".*/cxx is not a compiler: cxx failed with exit status 1",
        ),
        ("no program", r"cannot start .*/cxx: Exec format error"),
        ("#!/nowhere/sh\n", r"cannot start .*/cxx: No such file or directory"),
    ],
    ids=["missing", "no_compiler", "text", "no_shell"],
)
def test_what_is_no_compiler_is_one_line(lab, tmp_path, text, message):
    cxx = compiler(tmp_path, text) if text else str(tmp_path / "cxx")
    words = ["-m", "weft", "build", "--device", "cpu"]
    proc = python(lab, tmp_path / "cache", *words, env={"CXX": cxx})
    assert proc.returncode == 1
    assert re.fullmatch(f"weft build: {message}.*\n{EXPLAIN}", proc.stderr), proc.stderr


def test_no_compiler_on_the_path(lab, tmp_path):
    (tmp_path / "bin").mkdir()
    words = ["-m", "weft", "build", "--device", "cpu"]
    env = {"CXX": None, "PATH": str(tmp_path / "bin")}
    proc = python(lab, tmp_path / "cache", *words, env=env)
    cure = "no C++ compiler: install one (Debian, Ubuntu: apt install g++)\n"
    assert proc.returncode == 1
    assert re.fullmatch(re.escape(f"weft build: {cure}") + EXPLAIN, proc.stderr)


@pytest.mark.slow
def test_a_limit_that_is_none_is_refused(lab, tmp_path):
    for text in ("soon", "0", "-1", "nan"):
        env = {"WEFT_COMPILE_SECONDS": text}
        proc = python(lab, tmp_path / "cache", "-m", "weft", "build", env=env)
        assert f"WEFT_COMPILE_SECONDS is {text}, expected seconds" in proc.stderr


def test_ctrl_c_ends_a_compiler_that_hangs_and_all_it_started(lab, tmp_path):
    cxx = compiler(tmp_path, COMPILER.replace("FAULT", FAULTS["hangs"][0]))
    mark = tmp_path / "cache"
    words = ["-m", "weft", "build", "--device", "cpu"]
    with start(lab, mark, *words, env={"CXX": cxx}) as child:
        until = time.monotonic() + 60
        while not left_over(f"{cxx}.sleep") and time.monotonic() < until:
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        begun = time.monotonic()
        try:
            _, output = child.communicate(timeout=60)
        finally:
            child.kill()  # the `with` statement waits for it
    assert child.returncode == 130 and time.monotonic() - begun < 30
    assert "weft build: stopped." in output and "Traceback" not in output
    assert not left_over(f"{cxx}.sleep")
    assert not list(mark.rglob("libweft_part_*"))
    assert not [p for p in os.listdir(lab / "lib") if p.startswith("libweft_part_")]


def test_a_compiler_that_starts_while_the_build_stops_is_ended(monkeypatch):
    """On many cores, Ctrl-C often comes while another thread starts a compiler."""
    start_at_once = tools._start_compiler
    starting, stopped = threading.Event(), threading.Event()

    def start_late(*words):
        starting.set()
        stopped.wait(10)
        return start_at_once(*words)

    monkeypatch.setattr(tools, "_start_compiler", start_late)
    monkeypatch.setenv("WEFT_COMPILE_SECONDS", "20")
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt), tools.make_pool() as pool:
        pool.submit(tools.run, ["sleep", "1000"])
        starting.wait(10)
        threading.Timer(0.2, stopped.set).start()
        raise KeyboardInterrupt
    assert time.monotonic() - begun < 10
