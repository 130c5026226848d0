"""Nsight Compute's command line, ncu: where it is, what it says, why it does not.

It profiles a process of its own, which launches the kernels again (replay.py).
https://docs.nvidia.com/nsight-compute/NsightComputeCli/
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...base.errors import KernelError
from ...base.paths import ROOT

TIMEOUT = 300.0  # seconds for one run of ncu
_PLACES = (
    *("/usr/local/cuda/bin/ncu", "/usr/local/cuda-*/bin/ncu"),
    *("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/NVIDIA-Nsight-Compute*/ncu"),
)


class NoCounters(KernelError):
    """ncu gives no counters here; the message says why, and what cures it."""


def find() -> str | None:
    """The path of ncu: on PATH, or where its installers put it."""
    if found := shutil.which("ncu"):
        return found
    for pattern in _PLACES:
        for path in sorted(Path("/").glob(pattern[1:]), reverse=True):
            if os.access(path, os.X_OK):
                return str(path)
    return None


def require() -> str:
    """The path of ncu; NoCounters where it, or a GPU, is missing."""
    import torch

    if not torch.cuda.is_available():
        raise NoCounters(
            "there is no CUDA GPU here, whose counters ncu could read: run this on a "
            "machine with one, for example in Colab"
        )
    found = find()
    if not found:
        raise NoCounters(
            "ncu is not installed: it is part of the CUDA Toolkit and of Nsight "
            "Compute (apt install nsight-compute, conda install -c nvidia "
            "nsight-compute)"
        )
    return found


def measure(
    launches: Sequence[dict[str, Any]],
    kernels: Sequence[str],
    metrics: Sequence[str],
    timeout: float = TIMEOUT,
) -> list[dict[str, float]]:
    """Each launch's metrics, in their order.

    launches: as replay.py takes them. kernels: their names, without template arguments.
    A metric that this GPU, or this ncu, does not have is left out. Raises NoCounters.
    """
    import torch

    ncu, asked = require(), list(metrics)
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "launches.pt"
        torch.save(list(launches), job)
        while asked:
            done = _run_ncu(ncu, job, kernels, asked, timeout)
            text = f"{done.stdout}\n{done.stderr}"
            unknown = set(re.findall(r"[Ff]ailed to find metric ([\w.]+)", text))
            if not unknown & set(asked):
                break
            asked = [name for name in asked if name not in unknown]
    found = parse(done.stdout)
    if len(found) == len(launches):
        return found
    raise NoCounters(explain(text, len(found), len(launches)))


def parse(text: str) -> list[dict[str, float]]:
    """The metrics by launch, from what `ncu --csv` prints."""
    rows = [line for line in text.splitlines() if line.startswith('"')]
    by_id: dict[int, dict[str, float]] = {}
    for row in csv.DictReader(rows):
        value = row["Metric Value"].replace(",", "")
        launch = by_id.setdefault(int(row["ID"]), {})
        try:
            launch[row["Metric Name"]] = float(value)
        except ValueError:  # n/a
            continue
    return [by_id[number] for number in sorted(by_id)]


def explain(text: str, found: int, wanted: int) -> str:
    """Why ncu did not give what it was asked for, with the cure where it is known."""
    if "ERR_NVGPUCTRPERM" in text:
        return (
            "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as "
            "root, give the container --cap-add=SYS_ADMIN, or permit it to all by "
            "NVreg_RestrictProfilingToAdminUsers=0 of the module nvidia; see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
    if "profiler is already" in text or "ERR_NVGPUCTRUSED" in text:
        return "another profiler uses the GPU's counters: end it, or wait for it"
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if "==ERROR==" in line]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Lost|Fault): ", line)]
    said = [*raised, *errors] or [line for line in lines if line][-1:]
    why = re.sub(r"^==ERROR==\s*", "", said[0]) if said else "it said nothing"
    return f"ncu measured {found} of {wanted} launches: {why}"


def _run_ncu(
    ncu: str, job: Path, kernels: Sequence[str], metrics: Sequence[str], timeout: float
) -> subprocess.CompletedProcess[str]:
    names = "|".join(map(re.escape, dict.fromkeys(kernels)))
    command = [ncu, "--csv", "--print-units", "base", "--target-processes", "all"]
    command += ["--metrics", ",".join(metrics), "-k", f"regex:^({names})$"]
    command += [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "weft.see.machine_code.replay",
        str(job),
    ]
    path = os.pathsep.join([str(ROOT / "lib"), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path}
    try:
        return subprocess.run(
            command, env=env, text=True, capture_output=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise NoCounters(f"ncu took more than {timeout:g} s and was ended") from None
