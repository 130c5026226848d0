"""Folders that cannot be written, belong to another user, are full or do not exist.

Each case ends in a result or in one of the lab's own errors. The same command works
once the folder is usable.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from faults import bind_by_modes, copy_lab, libraries, python, surroundings

LIBRARY = """
from weft.toolchain import native
print(native.library("relu", "cpu").rung().name)
"""
CELL = """
import numpy as np
from weft.cells import load_cuda
cell = load_cuda("__device__ int g = 3; __global__ void k(int *x) { *x = g; }")
x = np.zeros(1, np.int32)
cell.k[1, 1](x)
print(x[0])
"""
SAVE = """
import sys
import numpy as np
from weft.mnist import weights
weights.save(sys.argv[1], {"w": np.arange(30000, dtype=np.float32)})
print("saved")
"""
PROGRAM = '#include <cstdio>\nint main() { puts("it runs"); }\n'
OURS = r"^weft(\.\w+)*\.(BuildError|CannotWrite): .*(No space left on device)"


@pytest.fixture
def lab(tmp_path):
    return copy_lab(tmp_path / "lab")


def lock(folder):
    """Forbid writing to the folder and everything in it."""
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o555)


def unlock(folder):
    for path, _, _ in os.walk(folder):
        os.chmod(path, 0o755)


@pytest.mark.slow
def test_a_project_folder_that_is_read_only_still_works(lab, tmp_path):
    before = libraries(lab)
    lock(lab)
    first = python(lab, tmp_path / "cache", "-c", LIBRARY + CELL)
    again = python(lab, tmp_path / "cache", "-c", LIBRARY + CELL)
    unlock(lab)
    assert first.stdout == again.stdout == "reference\n3\n", first.stderr
    assert first.stderr.startswith("weft: building relu") and again.stderr == ""
    assert libraries(lab) == before
    assert len(list((tmp_path / "cache/lib").glob("libweft_cpu_relu_*.so"))) == 1


def break_mode(cache):
    cache.mkdir(mode=0o500)


def break_part(cache):
    (cache / "cells").mkdir(parents=True)
    (cache / "cells").chmod(0o500)


def break_all_of_it(cache):
    for name in ("cells", "objects", "locks", "lib"):
        (cache / name).mkdir(parents=True)
        (cache / name).chmod(0o500)


def break_kind(cache):
    cache.write_text("a file")


def break_owner(cache):
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    cache.mkdir(mode=0o700)
    os.chown(cache, 65534, 65534)


def break_parent(cache):
    cache.parent.mkdir()
    cache.parent.chmod(0o500)


BROKEN = {
    break_mode: r"cannot be written \(Permission denied\)",
    break_part: r"/cells' cannot be written",
    break_all_of_it: r"cannot be written",
    break_kind: r"cannot be written \(File exists\)",
    break_owner: r"belongs to user 65534 and not to",
    break_parent: r"cannot be written \(Permission denied\)",
}


@pytest.mark.slow
@pytest.mark.parametrize("harm", BROKEN, ids=lambda harm: harm.__name__)
def test_a_cache_that_cannot_be_used_is_said_in_a_line(lab, tmp_path, harm):
    cache, temporary = tmp_path / "kept/cache", tmp_path / "tmp"
    temporary.mkdir()
    if harm is not break_parent:
        cache.parent.mkdir()
    harm(cache)
    script, right = (CELL, "3\n") if harm is break_part else (LIBRARY, "reference\n")
    env = {"env": {"TMPDIR": str(temporary)}}
    result = python(lab, cache, "-c", script, **env)
    assert result.stdout == right, result.stderr
    lines = [line for line in result.stderr.splitlines() if "building" not in line]
    assert len(lines) == 1 and re.search(BROKEN[harm], lines[0]), lines
    assert "set WEFT_CACHE to use another" in lines[0]
    assert not list(temporary.iterdir())
    unlock(cache.parent)
    shutil.rmtree(cache) if cache.is_dir() else cache.unlink(missing_ok=True)
    well = python(lab, cache, "-c", script, **env)
    assert (well.stdout, well.stderr) == (right, "")


NOBODY = """
import pwd
def unknown(_): raise KeyError
pwd.getpwuid = unknown
"""


@pytest.mark.parametrize(
    "home, before, warning",
    [
        (None, "", ""),
        pytest.param(
            *(None, NOBODY, r"in an unknown home folder \(HOME is not set\)"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("locked/home", "", r"locked/home/.cache/weft' cannot be written"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["unset", "of_nobody", "locked"],
)
def test_without_a_home_there_is_a_result(lab, tmp_path, home, before, warning):
    """A command needs no home, whether or not the system's list of users has one."""
    (tmp_path / "locked").mkdir(mode=0o500)
    env = {"HOME": home and str(tmp_path / home)}
    env |= {"WEFT_CACHE": None, "XDG_CACHE_HOME": None}
    if not warning:  # the tests must not use the user's own cache
        env["XDG_CACHE_HOME"] = str(tmp_path / "xdg")
    result = python(lab, tmp_path / "no", "-c", before + LIBRARY, env=env, cwd=tmp_path)
    assert result.stdout == "reference\n", result.stderr
    lines = [line for line in result.stderr.splitlines() if "building" not in line]
    assert len(lines) == bool(warning) and re.search(warning, result.stderr)
    assert not (tmp_path / "~").exists()


def test_no_folder_at_all_is_one_error(lab, tmp_path):
    (tmp_path / "cache").mkdir(mode=0o500)
    script = "import tempfile; tempfile.tempdir = '/nonexistent'\n" + LIBRARY
    result = python(lab, tmp_path / "cache", "-c", script)
    last = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and last.startswith("weft.base.store.CannotWrite: ")
    assert "set WEFT_CACHE or TMPDIR to a folder that you own" in last


# ---- a full disk ---------------------------------------------------------------------

# The script runs in a separate mount namespace, so its mounts do not remain.
TWICE = """
mount -t tmpfs -o size=$SIZE weft "$DISK" || exit 77
"$@"; echo "== $?" >&2
mount -o remount,size=300m weft "$DISK" || exit 77
"$@"; echo "== $?" >&2
ls -R "$DISK" >&2
"""


def on_a_small_disk(lab, disk, size, cache, *words, **env):
    """Run the command on a disk of that size, then on a larger one. Return the output
    and exit status of each run, and the files on the disk afterwards."""
    disk.mkdir(parents=True)
    command = ["unshare", "--mount", *["--map-root-user"] * (os.geteuid() != 0)]
    if not shutil.which("unshare"):
        pytest.skip("no unshare here")
    result = subprocess.run(
        [*command, "sh", "-c", TWICE, "sh", sys.executable, *words],
        env=surroundings(lab, cache, SIZE=size, DISK=str(disk), **env),
        text=True,
        capture_output=True,
        timeout=300,
    )
    if "== " not in result.stderr:
        pytest.skip(f"no disk can be mounted here: {result.stderr.strip()}")
    groups = re.fullmatch(
        r"(.*?)== (\d+)\n(.*?)== (\d+)\n(.*)", result.stderr, re.DOTALL
    ).groups()
    return (
        result.stdout,
        (groups[0], int(groups[1])),
        (groups[2], int(groups[3])),
        groups[4],
    )


@pytest.mark.parametrize(
    "script, right, size",
    [
        (LIBRARY, "reference\n", "4k"),
        pytest.param(LIBRARY, "reference\n", "16k", marks=pytest.mark.slow),
        pytest.param(CELL, "3\n", "16k", marks=pytest.mark.slow),
        pytest.param(CELL, "3\n", "300k", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_a_full_cache_is_one_error_and_works_when_there_is_room(
    lab, tmp_path, script, right, size
):
    disk = tmp_path / "disk"
    out, full, well, files = on_a_small_disk(
        lab, disk, size, disk / "cache", "-c", script
    )
    assert well[1] == 0 and out in (right, 2 * right), well
    assert "libweft_part_" not in files
    if full[1] == 0:  # only the precompiled header did not fit
        assert out == 2 * right and script == CELL, full
        return
    assert re.search(OURS, full[0].splitlines()[-1]), full[0]


@pytest.mark.slow
def test_a_full_temporary_folder_is_one_error(lab, tmp_path):
    disk = tmp_path / "tmp"
    _, full, well, _ = on_a_small_disk(
        *(lab, disk, "4k", tmp_path / "cache", "-c", LIBRARY), TMPDIR=str(disk)
    )
    assert re.search(OURS, full[0].splitlines()[-1]), full[0]
    assert str(disk) in full[0].splitlines()[-1]
    assert well[1] == 0


@pytest.mark.slow
def test_a_program_on_a_full_disk_is_one_line(lab, tmp_path):
    (tmp_path / "a.cu").write_text(PROGRAM)
    disk = tmp_path / "disk"
    words = ("-m", "weft", "run", str(tmp_path / "a.cu"))
    out, full, well, _ = on_a_small_disk(lab, disk, "16k", disk / "cache", *words)
    lines = [line for line in full[0].splitlines() if "building" not in line]
    assert full[1] == 1 and len(lines) == 2
    assert lines[0].startswith("weft run: ") and "No space left" in lines[0]
    assert lines[1].startswith("explain: ")
    assert out == "it runs\n" and well[1] == 0


def test_weights_on_a_full_disk_leave_those_of_before(lab, tmp_path):
    disk = tmp_path / "disk"
    words = ("-c", f"{SAVE}", str(disk / "w.npz"))
    out, full, well, files = on_a_small_disk(
        lab, disk, "64k", tmp_path / "cache", *words
    )
    last = full[0].splitlines()[-1]
    assert re.search(OURS, last) and str(disk / "w.npz") in last
    assert out == "saved\n" and well[1] == 0 and files.split()[1:] == ["w.npz"]


def test_modes_bind_the_children_of_these_tests(tmp_path):
    """Verify that file modes bind the children; root could otherwise write anywhere."""
    tmp_path.chmod(0o555)
    result = subprocess.run(
        ["touch", str(tmp_path / "file")], preexec_fn=bind_by_modes, capture_output=True
    )
    assert result.returncode and b"Permission denied" in result.stderr
