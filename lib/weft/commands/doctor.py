"""Examine this machine's hardware and tools, and suggest cures for missing parts.

python -m weft doctor
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from ..base import store
from ..base.device import count_cores, cpu_name, driver_version
from ..base.errors import BuildError, KernelFault
from ..timing import machine
from ..toolchain import build, native, tools
from ..toolchain.tools import cpu_flags, toolkit_version
from . import environment


@dataclass(frozen=True)
class Examination:
    """The result of one examination; `cure` is empty if nothing is wrong."""

    name: str
    value: str
    cure: str = ""
    needed: bool = False  # whether the lab requires this part

    def __str__(self) -> str:
        cure = f"\n{'':14} cure: {self.cure}" * bool(self.cure)
        return f"{self.name:14} {self.value}{cure}"


def examine(rungs: bool = True) -> list[Examination]:
    """Examine everything; a missing part raises no error.

    rungs: whether to build every op and list its rungs, which may take a minute.
    """
    parts: list[Callable[[], list[Examination]]]
    parts = [_examine_machine, _examine_compiler, _examine_watch_build]
    parts += [_examine_packages, _examine_gpu, _examine_toolkit, _examine_cells]
    parts += [_examine_libraries, _examine_numba, _examine_places, _examine_rungs]
    findings = []
    for examine_part in parts[: None if rungs else -1]:
        try:
            findings += examine_part()
        except Exception as error:  # doctor must still examine the other parts
            name = examine_part.__name__.strip("_")
            findings.append(Examination(name, f"cannot be examined: {error}"))
    return findings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft doctor`."""
    parser.add_argument("--json", metavar="PATH", help="write the results to this file")


def main(args: argparse.Namespace) -> int:
    """Print the results; return exit status 1 if something necessary is missing."""
    findings = examine()
    width = max(len(f.name) for f in findings)
    for f in findings:
        mark = "ok " if not f.cure else "NO " if f.needed else " - "
        print(f"{mark} {f.name:<{width}}  {f.value}")
        if f.cure:
            print(f"    {'':<{width}}  cure: {f.cure}")
    if args.json:
        text = {"machine": machine(), "findings": [asdict(f) for f in findings]}
        Path(args.json).write_text(json.dumps(text, indent=1) + "\n")
    return int(any(f.cure and f.needed for f in findings))


def vector_width() -> str:
    """Return the name of the widest vectors that the plain C rungs use here."""
    flags = cpu_flags().split()
    for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("sse2", "SSE2")):
        if flag in flags:
            return name
    return "plain"


# ---- examinations ------------------------------------------------------------------


def _examine_machine() -> list[Examination]:
    version = f"{platform.python_version()} ({platform.platform()})"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    value = f"{cpu_name()}, {count_cores()} cores, {vector_width()}, {memory:.0f} GiB"
    return [Examination("Python", version), Examination("CPU", value)]


def _examine_compiler() -> list[Examination]:
    compiler = tools.gxx()
    if not compiler:
        cure = "apt install g++ (Debian, Ubuntu), or set CXX"
        return [Examination("C++ compiler", "none", cure, needed=True)]
    process = subprocess.run([compiler, "--version"], text=True, capture_output=True)
    return [Examination("C++ compiler", process.stdout.splitlines()[0])]


_FAULTY_CELL = """__global__ void overrun(int *x) {
    x[threadIdx.x] = 1;
}
"""


def _examine_watch_build() -> list[Examination]:
    """Launch a faulty kernel to check that the watch build reports its fault."""
    import torch

    # Imported here, since doctor must run even if this import fails.
    from ..cells import load_cuda

    name, cure = "watch build", "it needs g++ 11 or later, with -fsanitize=thread"
    try:
        cell = load_cuda(_FAULTY_CELL, target="cpu", watched=True)
        cell.overrun[1, 2](torch.zeros(1, dtype=torch.int32))
    except BuildError as error:
        return [Examination(name, str(error).splitlines()[0], cure)]
    except KernelFault as fault:
        report = getattr(fault, "report", None)
        if report and [(f.kind, f.line) for f in report.findings] == [("bounds", 2)]:
            value = "%%cuda, inspect() and weft inspect watch kernels on the CPU"
            return [Examination(name, value)]
    return [Examination(name, "misses a kernel that writes past its array", cure)]


_NEEDED = ("torch", "numpy", "cffi", "matplotlib", "tqdm", "platformdirs", "filelock")


def _examine_packages() -> list[Examination]:
    findings = []
    # Colab and Kaggle have their own front ends, which JupyterLab's packages could
    # change.
    front_end = [] if environment.is_hosted() else ["jupyterlab"]
    for name in (*_NEEDED, "numba", *front_end, "anywidget"):
        try:
            findings.append(Examination(name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            needed = name in _NEEDED
            findings.append(Examination(name, "none", f"pip install {name}", needed))
    return findings


def _examine_gpu() -> list[Examination]:
    import torch

    if torch.cuda.is_available():
        return [_examine_one_gpu(index) for index in range(torch.cuda.device_count())]
    smi = shutil.which("nvidia-smi")
    if smi and subprocess.run([smi, "-L"], capture_output=True).stdout.strip():
        cure = f"this torch ({torch.__version__}) cannot use the GPU: pip install torch"
        return [Examination("GPU", "present, but torch does not find it", cure)]
    if Path("/dev/nvidia0").exists():
        return [Examination("GPU", "without a driver", "install NVIDIA's driver")]
    value = "none: kernels run on the CPU, lessons show GPU results"
    return [Examination("GPU", value, _suggest_gpu())]


def _suggest_gpu() -> str:
    """Return the menu that adds a GPU to a hosted notebook; "" elsewhere."""
    if environment.is_colab():
        return "to get one: Runtime > Change runtime type > T4 GPU"
    if environment.is_hosted():
        return "to get one: Settings > Accelerator > GPU"
    return ""


def _examine_one_gpu(index: int) -> Examination:
    import torch

    gpu = torch.cuda.get_device_properties(index)
    value = (
        f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}, "
        f"{gpu.total_memory / 2**30:.0f} GiB, {gpu.multi_processor_count} SMs, "
        f"driver {driver_version()}"
    )
    is_old = (gpu.major, gpu.minor) < (7, 5)
    cure = "the kernels need 7.5 or later" * is_old
    return Examination(f"GPU {index}", value, cure)


def _examine_toolkit() -> list[Examination]:
    import torch

    if nvcc_path := build.nvcc():
        return [Examination("CUDA Toolkit", f"{toolkit_version()} ({nvcc_path})")]
    if not torch.cuda.is_available():
        return [Examination("CUDA Toolkit", "none: without a GPU, none is needed")]
    cure = f"install the CUDA Toolkit, or: {tools.pip_command('nvidia-cuda-nvcc')}"
    return [Examination("CUDA Toolkit", "no nvcc: ops cannot use the GPU", cure)]


def _examine_cells() -> list[Examination]:
    """Examine the compiler of %%cuda cells on a GPU, and tools for machine code."""
    # Imported here, since doctor must run even if this import fails.
    from ..cells.gpu import nvrtc

    lack = nvrtc.explain_missing()
    version = "" if lack else "{}.{}".format(*nvrtc.nvrtc_version())
    findings = [Examination("NVRTC", version or "none: cells run on the CPU", lack)]
    try:
        findings.append(Examination("disassembler", tools.find_disassembler()))
    except BuildError as error:
        findings.append(Examination("disassembler", "none: no sass()", str(error)))
    return [*findings, _examine_ptxas(), _examine_ncu()]


def _examine_ptxas() -> Examination:
    """Examine ptxas: sass() and occupancy() need it for Numba and whole programs."""
    # Imported here, since doctor must run even if this import fails.
    from ..see.machine_code import compilation

    if path := compilation.ptxas():
        return Examination("ptxas", path)
    value = "none: sass() excludes Numba's kernels and programs"
    return Examination("ptxas", value, tools.pip_command("nvidia-cuda-nvcc"))


def _examine_ncu() -> Examination:
    """Examine ncu, which reads the GPU's counters for profile(kernel)."""
    import torch

    # Imported here, since doctor must run even if this import fails.
    from ..see.machine_code import ncu

    try:
        return Examination("ncu", ncu.require())
    except ncu.NoCounters as error:
        value = "none: profile() shows only the CPU's counters"
        return Examination("ncu", value, str(error) * torch.cuda.is_available())


def _examine_libraries() -> list[Examination]:
    """Examine NVIDIA's libraries, which lesson 12 calls on a GPU."""
    import torch

    # Imported here, since doctor must run even if this import fails.
    from ..toolchain import vendor

    if not torch.cuda.is_available():
        own = sorted({one.cpu for one in vendor.LIBRARIES.values() if one.cpu})
        value = f"without a GPU, the lab's versions: {', '.join(own)}"
        return [Examination("libraries", value)]
    findings = []
    for key in vendor.LIBRARIES:
        name, lack = f"{vendor.find_source(key).name}", vendor.explain_missing(key)
        value = lack.rpartition(": ")[0] or "its library is here"
        findings.append(Examination(name, value, lack.rpartition(": ")[2]))
    return findings


def _examine_numba() -> list[Examination]:
    """Examine the target on which numba_jit(kernel) runs."""
    name = "numba_jit"
    if not importlib.util.find_spec("numba"):
        return [Examination(name, "none: Numba is missing", "pip install numba")]
    # Imported here, since doctor must run even if this import fails.
    from ..pykernel.numba import on_gpu

    if not on_gpu():
        value = "Numba's simulator, in a separate process (no GPU, or on request)"
        return [Examination(name, value)]
    # Imported here, since doctor must run even if this import fails.
    from ..pykernel.numba import gpu

    try:
        version = importlib.metadata.version("numba-cuda")
        value = f"the GPU, by numba-cuda {version}"
    except importlib.metadata.PackageNotFoundError:
        value = "the GPU, by Numba's built-in target, which is no longer developed"
    if problem := gpu.explain_unusable():
        problem, _, cure = problem.rpartition(": ")
        return [Examination(name, problem, cure)]
    return [Examination(name, value)]


def _examine_places() -> list[Examination]:
    cache = f"{store.cache_folder()}, {store.measure_cache() / 2**20:.0f} MiB"
    findings = [Examination("cache", cache), _examine_progress()]
    return [*findings, Examination("checkout", str(build.ROOT))]


def _examine_progress() -> Examination:
    """Examine the folder with the reader's progress, and whether it is permanent."""
    try:
        folder = str(store.kept_folder())
    except store.CannotWrite as error:
        return Examination("progress", str(error), "call weft.keep() with a folder")
    if environment.is_hosted() and not os.environ.get(store.KEEP):
        cure = "weft.keep(FOLDER), with a folder that outlives this machine"
        return Examination("progress", f"{folder}, deleted with this machine", cure)
    return Examination("progress", folder)


def _examine_rungs() -> list[Examination]:
    """Build every op for every available target, and list its rungs."""
    import torch

    findings = []
    for target in ["cpu"] + ["cuda"] * (torch.cuda.is_available()):
        for op in build.list_ops():
            value, cure = "", ""
            try:
                value = _describe_rungs(native.library(op, target).rungs, target)
            except BuildError as error:
                value, cure = str(error).splitlines()[0], "see above"
            findings.append(Examination(f"{op} on {target}", value, cure))
    return findings


def _describe_rungs(rungs: list, target: str) -> str:
    """List the rungs that run on a target, then the others, each with the reason."""
    sm = 0
    if target == "cuda":
        import torch

        major, minor = torch.cuda.get_device_capability()
        sm = 10 * major + minor
    reasons: dict[str, list[str]] = {"": []}
    for rung in rungs:
        reason = ""
        if not rung.targets:
            reason = rung.idea
        elif target not in rung.targets:
            reason = "GPU only" if target == "cpu" else "CPU only"
        elif rung.sm > sm > 0:
            reason = f"needs compute capability {rung.sm / 10}, but this is {sm / 10}"
        reasons.setdefault(reason, []).append(rung.name)
    available = ", ".join(reasons.pop(""))
    others = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
    return available + (f"; not {', '.join(others)}" if others else "")
