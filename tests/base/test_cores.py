"""The number of cores that a process may use, in invented cgroups and on one core."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.base import device

# Each case: the process's cgroups, files below /sys/fs/cgroup, and the quota in cores.
TREES = {
    "version 2, in a container": ("0::/", {"cpu.max": "150000 100000"}, 1.5),
    "no quota": ("0::/", {"cpu.max": "max 100000"}, math.inf),
    "a parent's is less": (
        "0::/pods/lab",
        {"pods/cpu.max": "200000 100000", "pods/lab/cpu.max": "400000 100000"},
        2,
    ),
    "its own is less": (
        "0::/pods/lab",
        {"pods/cpu.max": "max 100000", "pods/lab/cpu.max": "50000 100000"},
        0.5,
    ),
    "a sibling's does not matter": (
        "0::/pods/lab",
        {"pods/other/cpu.max": "100000 100000", "pods/lab/cpu.max": "max 100000"},
        math.inf,
    ),
    "a path from outside the container": (
        "0::/../../docker/1f",
        {"cpu.max": "300000 100000"},
        3,
    ),
    "version 1": (
        "4:cpu,cpuacct:/docker/1f\n5:memory:/",
        {
            "cpu,cpuacct/docker/1f/cpu.cfs_quota_us": "250000",
            "cpu,cpuacct/docker/1f/cpu.cfs_period_us": "100000",
        },
        2.5,
    ),
    "version 1, whose folders begin at the container": (
        "4:cpuacct,cpu:/docker/1f",
        {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"},
        4,
    ),
    "version 1 without a quota": (
        "4:cpu:/",
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
        math.inf,
    ),
    "both versions": (
        "1:cpu:/\n0::/lab",
        {
            **{"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
            **{"unified/lab/cpu.max": "700000 100000"},
        },
        7,
    ),
    "another controller's folder": (
        "3:cpuset:/lab",
        {"cpuset/lab/cpu.cfs_quota_us": "1", "cpuset/lab/cpu.cfs_period_us": "1"},
        math.inf,
    ),
    "a broken file": ("0::/", {"cpu.max": "?"}, math.inf),
}


@pytest.mark.parametrize("name", TREES)
def test_quota(tmp_path, name):
    own, files, expected = TREES[name]
    for file, text in files.items():
        path = tmp_path / "cgroup" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (tmp_path / "own").write_text(f"{own}\n")
    assert device.read_quota(tmp_path / "cgroup", tmp_path / "own") == expected


def test_without_cgroups_there_is_no_quota(tmp_path):
    assert device.read_quota(tmp_path, tmp_path / "none") == math.inf


@pytest.fixture
def machine(monkeypatch):
    """Return a function that sets the numbers of cores by affinity and by quota."""

    def invent(affine: int, quota: float) -> None:
        monkeypatch.setattr(device, "_count_affine", lambda: affine)
        monkeypatch.setattr(device, "read_quota", lambda: quota)
        monkeypatch.delenv(device.THREADS, raising=False)

    return invent


@pytest.mark.parametrize(
    ("affine", "quota", "expected"),
    [(8, math.inf, 8), (8, 2, 2), (8, 2.5, 2), (8, 0.5, 1), (2, 16, 2), (1, 0.01, 1)],
)
def test_the_lesser_of_affinity_and_quota_counts(machine, affine, quota, expected):
    machine(affine, quota)
    assert device.count_cores() == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("3", 3), ("5,2", 5), (" 6 ", 6), ("0", 4), ("many", 4)]
)
def test_the_users_number_of_threads_wins(machine, monkeypatch, text, expected):
    machine(8, 4)
    monkeypatch.setenv(device.THREADS, text)
    assert device.count_threads() == expected
    assert device.count_cores() == 4


def test_a_quota_limits_openmp_but_not_against_the_user(machine):
    machine(64, 4)
    ours, users = {}, {device.THREADS: "7"}
    device.limit_threads(ours)
    device.limit_threads(users)
    assert ours == {device.THREADS: "4"}
    assert users == {device.THREADS: "7"}


def test_without_a_quota_openmp_counts_for_itself(machine):
    machine(4, math.inf)
    environment = {}
    device.limit_threads(environment)
    assert not environment


def test_a_loaded_torch_gets_the_same_number(machine, monkeypatch):
    import torch

    numbers = []
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    machine(64, 3)
    device.limit_threads({})
    assert numbers == [3]


COUNT = """
import ctypes, os, sys
quota, affine = float(sys.argv[1]), {int(core) for core in sys.argv[2].split(",")}
os.sched_setaffinity(0, affine)
from weft.base import device
device.read_quota = lambda: quota
device.limit_threads()
import torch
from weft.toolchain import build
runtime = ctypes.CDLL(str(build.simt_runtime(build.Flavour.here("cpu"))))
print(device.count_cores(), device.count_threads(), torch.get_num_threads())
print(runtime.simt_threads())
"""


def count_in_child(quota: float, affine: set[int], **variables: str) -> list[int]:
    """Return the counts of cores, threads, torch's threads and those of CUDA C."""
    environment = {k: v for k, v in os.environ.items() if k != device.THREADS}
    names = ",".join(map(str, affine))
    process = subprocess.run(
        [sys.executable, "-c", COUNT, str(quota), names],
        **{"text": True, "capture_output": True, "env": environment | variables},
    )
    assert not process.returncode, process.stderr
    return list(map(int, process.stdout.split()))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux")
def test_all_libraries_use_the_threads_that_the_process_gets():
    every = os.sched_getaffinity(0)
    one = {min(every)}
    assert count_in_child(math.inf, one) == [1, 1, 1, 1]
    if len(every) > 1:
        assert count_in_child(1.5, every) == [1, 1, 1, 1]
        two = count_in_child(1.5, every, OMP_NUM_THREADS="2")
        assert two == [1, 2, 2, 2]
