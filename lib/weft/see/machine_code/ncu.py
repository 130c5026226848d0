"""Run Nsight Compute (ncu), parse its output, and define its metrics.

measure() runs ncu's command line, and explain() reports why ncu returned no counters.
ncu profiles a separate process, which launches the kernels again (main).
https://docs.nvidia.com/nsight-compute/NsightComputeCli/

Metric pairs ncu's metrics with ours. "Nvprof Metric Comparison" on that page explains
the names of ncu's metrics. Our numbers are sums over the places of report.Counters, and
ncu's are sums over the whole GPU.
"""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, KernelError
from ...base.paths import ROOT
from ...cells import stored
from ...cells.gpu import loader as gpu
from ...cells.module import Kernel
from ...csource import signature
from ...pykernel.numba import NumbaKernel
from ...report.costs import CostPlace, Counters
from ...toolchain import launch_config
from .compilation import complete, runner_of

TIMEOUT = 300.0  # time limit in seconds for one run of ncu
_REPLAY = "weft.see.machine_code.ncu"  # the module that launches the kernels
_PLACES = (
    *("/usr/local/cuda/bin/ncu", "/usr/local/cuda-*/bin/ncu"),
    *("/opt/nvidia/nsight-compute/*/ncu", "/usr/local/NVIDIA-Nsight-Compute*/ncu"),
)


class NoCounters(KernelError):
    """Raised if ncu returns no counters; the message gives the reason and the cure."""


def find() -> str | None:
    """Return the path of ncu on PATH or in a folder of NVIDIA's installers, or None."""
    if installed := shutil.which("ncu"):
        return installed
    for pattern in _PLACES:
        for path in sorted(Path("/").glob(pattern[1:]), reverse=True):
            if os.access(path, os.X_OK):
                return str(path)
    return None


def require() -> str:
    """Return the path of ncu; raise NoCounters if ncu or a GPU is missing."""
    import torch

    if not torch.cuda.is_available():
        raise NoCounters(
            "there is no CUDA GPU whose counters ncu could read: run this on a "
            "machine with one, for example in Colab"
        )
    path = find()
    if not path:
        raise NoCounters(
            "ncu is not installed: it is part of the CUDA Toolkit and Nsight Compute "
            "(apt install nsight-compute, conda install -c nvidia nsight-compute)"
        )
    return path


def measure(
    launches: Sequence[dict[str, Any]],
    kernels: Sequence[str],
    metrics: Sequence[str],
    timeout: float = TIMEOUT,
) -> list[dict[str, float]]:
    """Return each launch's metrics, in the order of the launches.

    launches: records of record(). kernels: their names, without template
    arguments. timeout: time limit in seconds. Metrics that this GPU or this ncu lacks
    are left out. Raises NoCounters.
    """
    import torch

    ncu, requested = require(), list(metrics)
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "launches.pt"
        torch.save(list(launches), job)
        while requested:
            process = _run_ncu(ncu, job, kernels, requested, timeout)
            text = f"{process.stdout}\n{process.stderr}"
            unknown = set(re.findall(r"[Ff]ailed to find metric ([\w.]+)", text))
            if not unknown & set(requested):
                break
            requested = [name for name in requested if name not in unknown]
    results = parse(process.stdout)
    if len(results) == len(launches):
        return results
    raise NoCounters(explain(text, len(results), len(launches)))


def parse(text: str) -> list[dict[str, float]]:
    """Parse the output of `ncu --csv` into a dict of metrics for each launch."""
    rows = [line for line in text.splitlines() if line.startswith('"')]
    by_id: dict[int, dict[str, float]] = {}
    for row in csv.DictReader(rows):
        launch = by_id.setdefault(int(row["ID"]), {})
        with contextlib.suppress(ValueError):  # ncu may report "n/a"
            launch[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return [by_id[number] for number in sorted(by_id)]


def explain(text: str, found: int, wanted: int) -> str:
    """Explain why ncu did not return the requested metrics, with the cure if known."""
    if "ERR_NVGPUCTRPERM" in text:
        return (
            "this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as "
            "root, give the container --cap-add=SYS_ADMIN, or permit all users with "
            "the nvidia module's option NVreg_RestrictProfilingToAdminUsers=0; see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM"
        )
    if "profiler is already" in text or "ERR_NVGPUCTRUSED" in text:
        return "another profiler uses the GPU's counters: end it, or wait for it"
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if "==ERROR==" in line]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Lost|Fault): ", line)]
    messages = [*raised, *errors] or [line for line in lines if line][-1:]
    why = re.sub(r"^==ERROR==\s*", "", messages[0]) if messages else "no output"
    return f"ncu measured {found} of {wanted} launches: {why}"


def _run_ncu(
    ncu: str, job: Path, kernels: Sequence[str], metrics: Sequence[str], timeout: float
) -> subprocess.CompletedProcess[str]:
    names = "|".join(map(re.escape, dict.fromkeys(kernels)))
    command = [ncu, "--csv", "--print-units", "base", "--target-processes", "all"]
    command += ["--metrics", ",".join(metrics), "-k", f"regex:^({names})$"]
    command += [sys.executable, "-W", "ignore", "-m", _REPLAY, str(job)]
    path = os.pathsep.join([str(ROOT / "lib"), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path}
    try:
        return subprocess.run(
            command, env=env, text=True, capture_output=True, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        raise NoCounters(f"ncu took more than {timeout:g} s and was stopped") from None


_L1 = "l1tex__{}_pipe_lsu_mem_{}_op_{}.sum"
_OPS = {"load": ("ld",), "store": ("st",), "atomic": ("red", "atom")}
_KINDS = {"load": "read", "store": "write", "atomic": "atomic"}


@dataclass(frozen=True)
class Metric:
    """A number to compare. ncu: metrics to add. less: metrics to subtract from the sum.

    what, space, kind: the column to sum in our counters, and the space and kind of its
    places. exact: whether it is a count that must be equal, not a ratio or a time.
    more: whether the count may be up to 2 % larger on a GPU. tight: whether the ratio
    must agree within 2 %. unit: the unit of the displayed number; "" for a count.
    """

    name: str
    ncu: tuple[str, ...]
    what: str = ""
    space: str = ""
    kind: str = ""
    exact: bool = False
    tight: bool = False
    unit: str = ""
    less: tuple[str, ...] = ()
    more: bool = False

    def ours(self, counters: Counters) -> float | None:
        """Return the CPU's number; None if only a GPU can measure it."""
        if self.name == "active threads per instruction":
            return counters.active_lanes
        return self.ours_of(counters.places) if self.what else None

    def ours_of(self, places: Iterable[CostPlace]) -> int:
        """Return the sum over the places that the metric covers."""
        return sum(
            getattr(place, self.what)
            for place in places
            if place.space == self.space and place.kind == self.kind
        )

    def theirs(self, found: dict[str, float]) -> float | None:
        """Return ncu's number; None if metrics that it requires are missing."""
        values = [found[name] for name in self.ncu if name in found]
        if not values or not all(name in found for name in self.less):
            return None
        return sum(values) - sum(found[name] for name in self.less)

    @property
    def formula(self) -> str:
        """The formula in ncu's metrics: those added, then those subtracted."""
        return " - ".join([" + ".join(self.ncu), *self.less])


def _list_global(kind: str) -> list[Metric]:
    metrics = []
    for what in ("requests", "sectors"):
        names = tuple(_L1.format(f"t_{what}", "global", op) for op in _OPS[kind])
        columns = what, "global", _KINDS[kind], True
        # Sectors of atomics: on a GPU, some scattered atomics take one or two more
        # sectors than our rule predicts; see sim/counters.py.
        loose = (kind, what) == ("atomic", "sectors")
        metrics.append(Metric(f"global {kind} {what}", names, *columns, more=loose))
    return metrics


def _list_shared(kind: str) -> list[Metric]:
    """Return the metrics of shared memory for one kind of access.

    needed: requests without conflicts, one wavefront for each request of 4-byte
    elements. smsp__inst_executed_op_shared_* are not requested, since they also count
    instructions that a predicate disables for a whole warp.
    """
    op = _OPS[kind][-1]
    turns = f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
    conflicts = f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"
    name, columns, less = f"shared {kind}", ("shared", _KINDS[kind], True), (conflicts,)
    return [
        Metric(f"{name} wavefronts", (turns,), "wavefronts", *columns),
        Metric(f"{name} wavefronts needed", (turns,), "needed", *columns, less=less),
        Metric(f"{name} conflicts", (conflicts,), "conflicts", *columns),
    ]


COUNTS = [one for kind in _OPS for one in _list_global(kind)]
COUNTS += [one for kind in _OPS for one in _list_shared(kind)]

_ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"
_UNMASKED = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
LANES = [
    Metric("active threads per instruction", (_ACTIVE,), tight=True),
    Metric("... that no predicate masks", (_UNMASKED,)),
]

# Numbers that a CPU cannot provide: the time, and the origin of the bytes.
MEASURED = [
    Metric("time", ("gpu__time_duration.sum",), unit="ns"),
    Metric("bytes read from DRAM", ("dram__bytes_read.sum",), unit="bytes"),
    Metric("bytes written to DRAM", ("dram__bytes_write.sum",), unit="bytes"),
    Metric("bytes through the L2 cache", ("lts__t_bytes.sum",), unit="bytes"),
    Metric("instructions of warps", ("smsp__inst_executed.sum",)),
    Metric(
        "warps active",
        ("sm__warps_active.avg.pct_of_peak_sustained_active",),
        unit="% of a multiprocessor's",
    ),
    Metric(
        "memory throughput",
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",),
        unit="% of the peak",
    ),
    Metric(
        "arithmetic throughput",
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
        unit="% of the peak",
    ),
    Metric("registers a thread", ("launch__registers_per_thread",)),
]
ALL = [*COUNTS, *LANES, *MEASURED]


def ncu_names(metrics: list[Metric]) -> list[str]:
    """Return the names to request from ncu, without duplicates."""
    names = (name for one in metrics for name in (*one.ncu, *one.less))
    return list(dict.fromkeys(names))


def difference(ours: float | None, theirs: float | None) -> float | None:
    """Return (ours - theirs) as a fraction of theirs; None if one is missing."""
    if ours is None or theirs is None:
        return None
    if not theirs:
        return float("inf") if ours else 0.0
    return (ours - theirs) / theirs


def record(
    kernel: Any, key: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[str, dict[str, Any]]:
    """Return (the kernel's plain name, a record of all that a replay needs).

    kernel: a kernel of load_cuda(), cuda_c(k), or a Python kernel. Arrays are copied in
    their current state. Raises ArgumentError for a Numba kernel.
    """
    if isinstance(kernel, NumbaKernel):
        name = kernel.name
        raise ArgumentError(f"profile takes {name} as CUDA C: profile({name})")
    if isinstance(kernel, Kernel):
        complete(kernel)
        cell, shape = kernel.module, launch_config.parse(kernel.expression, key)
        program = dict(source=cell.source, name=cell.name, flags=cell.flags)
        program |= dict(headers=cell.headers, expression=kernel.expression)
        params, name = kernel.params, kernel.__name__
    else:
        runner = runner_of(kernel)
        shape = runner.kernel.config(key)
        program, params, args = _translate_kernel(runner, args)
        name = program["expression"]
    launch = program | dict(grid=shape.grid, block=shape.block, shared=shape.shared)
    launch |= dict(params=params, args=copied(params, args))
    return name.rpartition("::")[2], launch


def copied(params: Any, args: tuple[Any, ...]) -> list[Any]:
    """Return the arguments for another process, with arrays as tensors on the host.

    An array that appears twice becomes one tensor that appears twice.
    """
    import torch

    tensors: dict[int, Any] = {}
    for value, param in zip(args, params):
        if not param.pointer or value is None or id(value) in tensors:
            continue
        if isinstance(value, np.ndarray):
            tensors[id(value)] = torch.from_numpy(value.copy())
        elif isinstance(value, torch.Tensor):
            tensors[id(value)] = value.detach().cpu().clone()
        else:
            tensors[id(value)] = torch.from_dlpack(value).cpu().clone()
    return [tensors.get(id(value), value) for value in args]


def main(path: str) -> None:
    """Launch everything in the file, and wait for each launch.

    path: a list of records from record(), written by torch.save(). ncu profiles the
    process `python -m weft.see.machine_code.ncu PATH`.
    """
    import torch

    for launch in torch.load(path, weights_only=False):
        source = launch["source"], launch["name"], launch["flags"]
        compiled = gpu.compile(*source, [launch["expression"]], launch["headers"])
        tensors = [v for v in launch["args"] if isinstance(v, torch.Tensor)]
        copies = {id(tensor): tensor.cuda() for tensor in tensors}
        args = tuple(copies.get(id(value), value) for value in launch["args"])
        launcher = compiled.launcher(launch["expression"], launch["params"])
        launcher(launch["grid"], launch["block"], launch["shared"], None, args)
        torch.cuda.synchronize()


def _translate_kernel(
    runner: Any, args: tuple[Any, ...]
) -> tuple[dict[str, Any], Any, tuple[Any, ...]]:
    form = runner._of(args)
    name = form.translation.name
    signatures = {s.name: s for s in signature.parse(form.translation.text)}
    if form.translation.extents:
        arguments = dict(zip(runner.kernel.parameters, args))
        args = (*args, *form.extents(arguments))
    program = dict(source=form.translation.text, name=name, headers={}, expression=name)
    program["flags"] = tuple(stored.split(runner.flags))
    return program, signatures[name].params, args


if __name__ == "__main__":
    main(sys.argv[1])
