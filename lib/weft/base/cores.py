"""The processor cores that this process really gets.

In a container, the machine may have 64 cores, and the process may get the time of two:
cgroups limit its CPU time by a quota per period. The files are described in
https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.max) and, for version 1, in
https://docs.kernel.org/scheduler/sched-bwc.html (cpu.cfs_quota_us).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
THREADS = "OMP_NUM_THREADS"


def count_cores() -> int:
    """Count the cores that this process gets by its affinity and its quota; at least 1.

    A quota of 2.5 cores counts as 2. With a third thread, the quota would end early in
    each period, all threads would stop, and times would scatter.
    """
    return max(1, math.floor(min(_count_affine(), read_quota())))


def count_threads() -> int:
    """Count the threads to use by default: OMP_NUM_THREADS, otherwise count_cores()."""
    first = os.environ.get(THREADS, "").partition(",")[0].strip()  # of nested teams
    return int(first) if first.isdecimal() and int(first) > 0 else count_cores()


def limit_threads(environment: MutableMapping[str, str] = os.environ) -> None:
    """Let OpenMP and PyTorch start no more threads than this process gets cores.

    They respect the affinity, but no quota. A value that the user has set stays, and
    applies to child processes, too. So does the value that is set here.
    """
    cores = count_cores()
    if environment.get(THREADS) or cores >= _count_affine():
        return
    environment[THREADS] = str(cores)
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):  # it has read the environment already
        torch.set_num_threads(cores)


def read_quota(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> float:
    """Return the least quota of this process's cgroups, in cores, or inf.

    cgroups: the folder where they are mounted. own: the file that names this process's.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:  # not Linux
        return math.inf
    folders = [folder for line in lines for folder in _list_folders(line, cgroups)]
    return min(map(_read_cores, folders), default=math.inf)


def _count_affine() -> int:
    """Count the cores in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _list_folders(line: str, cgroups: Path) -> Iterator[Path]:
    """Yield the folders of a cgroup and its parents. line: "NUMBER:CONTROLLERS:PATH".

    A container sees its own cgroup at the top, whatever path the line contains.
    """
    _, controllers, path = line.split(":", 2)
    if controllers and "cpu" not in controllers.split(","):
        return
    names = [name for name in path.split("/") if name not in ("", "..")]
    for top in {controllers or ".", "cpu" if controllers else "unified"}:
        for depth in range(len(names) + 1):
            yield cgroups.joinpath(top, *names[:depth])


def _read_cores(folder: Path) -> float:
    """Return the quota of one cgroup, in cores; inf without one."""
    for names in (["cpu.max"], ["cpu.cfs_quota_us", "cpu.cfs_period_us"]):
        try:
            words = " ".join((folder / name).read_text() for name in names).split()
            quota, period = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):  # no such file, or "max"
            continue
        if quota > 0 and period > 0:  # version 1 writes -1 for no quota
            return quota / period
    return math.inf
