"""Several processes build one library in parallel, or are killed during a build."""

from __future__ import annotations

import os
import random
import re
import time

import pytest
from faults import copy_lab, libraries, python, start
from tiers import only

PROCESSES, KILLS = 8, 20
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


@pytest.fixture
def lab(tmp_path):
    return copy_lab(tmp_path / "lab")


def unfinished(*folders) -> list[str]:
    """List the remains of unfinished builds."""
    parts = [path for folder in folders for path in folder.rglob("libweft_part_*")]
    return sorted(map(str, parts))


@pytest.mark.slow
def test_eight_processes_build_a_cold_library_once(lab, tmp_path):
    children = [start(lab, tmp_path / "cache", "-c", LIBRARY) for _ in range(PROCESSES)]
    outputs = [child.communicate(timeout=300) for child in children]
    assert [out for out, _ in outputs] == ["reference\n"] * PROCESSES, outputs
    assert sum("building relu" in err for _, err in outputs) == 1
    warnings = [line for _, err in outputs for line in err.splitlines() if line]
    waiting = "weft: waiting for another process to build relu"
    assert {*warnings} <= {"weft: building relu for cpu (3 files)", waiting}
    assert len(libraries(lab)) == 1
    assert not unfinished(lab, tmp_path / "cache")


@pytest.mark.slow
def test_eight_processes_with_caches_of_their_own(lab, tmp_path):
    """The processes share no cache, and all write the same library into lib/."""
    children = [
        start(lab, tmp_path / f"cache{n}", "-c", LIBRARY) for n in range(PROCESSES)
    ]
    outputs = [child.communicate(timeout=300) for child in children]
    assert [out for out, _ in outputs] == ["reference\n"] * PROCESSES, outputs
    assert len(libraries(lab)) == 1 and not unfinished(tmp_path)


@pytest.mark.slow
def test_eight_processes_compile_the_same_cell(lab, tmp_path):
    children = [start(lab, tmp_path / "cache", "-c", CELL) for _ in range(PROCESSES)]
    outputs = [child.communicate(timeout=300) for child in children]
    assert outputs == [("3\n", "")] * PROCESSES
    assert not unfinished(tmp_path)


@pytest.mark.slow
def test_a_build_that_is_killed_can_be_built(lab, tmp_path):
    """Kill the build at KILLS random moments; the next one ignores the dead process."""
    cache, source = tmp_path / "cache", lab / "kernels/relu.cu"
    begun = time.monotonic()
    assert python(lab, cache, "-c", LIBRARY).stdout == "reference\n"
    duration = time.monotonic() - begun
    generator, killed = random.Random(22), 0
    for number in range(KILLS):
        with source.open("a") as file:
            file.write(f"// {number}\n")
        child = start(lab, cache, "-c", LIBRARY)
        time.sleep(generator.uniform(0.2, 1.0) * duration)
        child.kill()
        child.communicate(timeout=60)
        killed += child.returncode == -9
    assert killed > 3  # the other builds had already ended
    well = python(lab, cache, "-c", LIBRARY)
    assert well.stdout == "reference\n", well.stderr
    assert "waiting" not in well.stderr


def test_what_a_killed_process_left_is_swept_away(lab, tmp_path):

    old, new = (lab / f"lib/libweft_part_{name}.so" for name in ("old", "new"))
    for path, age in (old, 2e5), (new, 10):
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    assert python(lab, tmp_path / "cache", "-c", LIBRARY).returncode == 0
    # A live process may still use the new file.
    assert not old.exists() and new.exists()


@pytest.mark.slow
def test_a_lock_of_a_process_that_lives_is_waited_for(lab, tmp_path):
    holder = f"""
    import fcntl, sys, time
    lock = open({str(tmp_path / "cache/locks/cpu_relu")!r}, "a")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    time.sleep(1000)
    """
    (tmp_path / "cache/locks").mkdir(parents=True, mode=0o700)
    (tmp_path / "cache").chmod(0o700)
    with start(lab, tmp_path / "cache", "-c", holder) as holder_process:
        assert holder_process.stdout.readline() == "held\n"
        child = start(lab, tmp_path / "cache", "-c", LIBRARY)
        line = child.stderr.readline()
        holder_process.kill()
    out, errors = child.communicate(timeout=60)
    assert re.fullmatch("weft: waiting for another process to build relu\n", line)
    assert out == "reference\n" and "building relu" in errors


@pytest.mark.parametrize("harm", only(["half"], ["empty", "half", "text"]))
@pytest.mark.slow
def test_a_damaged_library_is_built_anew(lab, tmp_path, harm):
    """A loss of power may leave such a library."""
    assert python(lab, tmp_path / "cache", "-c", LIBRARY).returncode == 0
    (name,) = libraries(lab)
    path = lab / "lib" / name
    data = path.read_bytes()
    harmed = {"empty": b"", "half": data[: len(data) // 2], "text": b"no library\n"}
    path.unlink()
    path.write_bytes(harmed[harm])
    process = python(lab, tmp_path / "cache", "-c", LIBRARY)
    assert process.stdout == "reference\n", process.stderr
    assert "is damaged: building it again" in process.stderr
    second_run = python(lab, tmp_path / "cache", "-c", LIBRARY)
    assert (second_run.stdout, second_run.stderr) == ("reference\n", "")


@pytest.mark.slow
def test_programs_are_built_at_once(lab, tmp_path):
    (tmp_path / "a.cu").write_text("int main() { return 7; }\n")
    words = ["-m", "weft", "run", str(tmp_path / "a.cu"), "-O0"]
    children = [start(lab, tmp_path / "cache", *words) for _ in range(PROCESSES)]
    outputs = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [7] * PROCESSES, outputs
    assert not unfinished(tmp_path)
