"""Where the time between kernels goes: `python -m weft bench graphs`.

Lesson 14 explains what is measured here, by the op of a row:

    chain     one of `count` short kernels, launched by several roads
    host      what the host pays for one of them
    fetch     a kernel that fetches its weights before or after it waits
    crowd     dependent launch where blocks of the next kernel crowd this one's
    many      dependent launch of kernels with very many short blocks
    fork      two kernels side by side
    overlap   copies beside kernels, on 1 to 4 streams
    fusion    three kernels and one; gbs: of `bytes`, those that each way needs
    remat     pixels stored as floats, or normalised by whoever reads them
    timeline  what ran when; spans: [row, name, kind, start, us], see timeline.py
    steps     a call of `count` training steps on an idle GPU, see timelines.py

graphs.cu is a program of its own, since a chain's launches come from C;
fusion.cu has the kernels of fusion and remat. On a CPU all of it runs and is
checked, and the times say nothing of a GPU; timelines and steps are a GPU's alone.

--device cuda; --rungs overlap,chain: only those ops.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ...base.errors import BuildError
from ...cells import load_cuda
from ...programs.program import Program, build_executable
from ...timing import Timing, device_name, summarize, time_call
from ...toolchain import build
from ..transpose import _time
from .timelines import rows as timeline_rows
from .timelines import step_rows

HERE = Path(__file__).parent
PROGRAM = [HERE / "graphs.cu", HERE / "overlap.cu"]
KERNELS = HERE / "fusion.cu"
SHOWN = ["op", "impl", "rung", "count", "us", "us_low", "us_high", "gbs", "vs_copy"]
# The program's FLOATS, TURNS and PART; the elements of fusion and remat.
PROGRAM_SIZES = {"cuda": (65536, 2000, 2 << 20), "cpu": (1024, 10, 4096)}
FUSION_SIZES = {"cuda": (1 << 26, 1 << 16), "cpu": (1 << 12,)}
CHAIN = 100  # launches from Python in one sample
CHANNELS, MEAN, STD = 64, 0.1307, 0.3081
FACTOR = 0.5

Row = dict[str, Any]
Call = Callable[[], object]


def rows_of(args: argparse.Namespace) -> list[Row]:
    """The rows for the options of the command line."""
    return rows(args.device, [name for name in args.rungs.split(",") if name])


def rows(device: str = "cpu", ops: Sequence[str] = (), samples: int = 30) -> list[Row]:
    """Check and time all of it, or the named ops.

    Raises ValueError for an op that there is not, RuntimeError for a wrong result and
    BuildError where the program cannot be built.
    """
    where = torch.device(device)
    if unknown := set(ops) - OPS.keys():
        raise ValueError(f"--rungs {','.join(sorted(unknown))}: want {', '.join(OPS)}")
    found = []
    parts = [part for name, part in OPS.items() if name in (ops or OPS)]
    for part in dict.fromkeys(parts):
        found += part(where, samples)
    return [row for row in found if row["op"] in (ops or OPS)]


def note(rows: list[Row]) -> str:
    """What stands under the table."""
    told = dict.fromkeys(f"{row['timer']} on {row['device']}" for row in rows)
    said = f"fp32; {'; '.join(told)}"
    if rows[0]["target"] == "cpu":
        said += "\nOn a CPU threads are simulated: these times are no signal of a GPU's"
    return said


def _make_row(where: torch.device, op: str, rung: str, timing: Timing, **more) -> Row:
    return {
        **{"op": op, "impl": "weft", "rung": rung, "precision": "fp32"},
        **{"target": where.type, "device": device_name(where), **timing.row()},
        **more,
    }


# ---- the program --------------------------------------------------------------


def _of_program(what: str, where: torch.device, samples: int) -> list[Row]:
    """What graphs.cu prints of an op, a row for each line."""
    found = []
    with tempfile.TemporaryDirectory(prefix="weft_") as folder:
        words = [str(_build_program(where, Path(folder))), str(samples)]
        words += [str(size) for size in PROGRAM_SIZES[where.type]]
        words.append(what)
        done = subprocess.run(words, text=True, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"bench_graphs: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        op, rung, count, *times = line.split("\t")
        timer = "CUDA events" if op not in ("host", "overlap") else "host's clock"
        timing = summarize(map(float, times), timer)
        more = {"count": int(count)}
        if op == "overlap":  # there and back
            more = {"bytes": 2 * int(count)}
            more["gbs"] = more["bytes"] / timing.median / 1e3
        found.append(_make_row(where, op, rung, timing, **more))
    return found


def _build_program(where: torch.device, folder: Path) -> Path:
    """The program: by nvcc for a GPU, else as `weft run` builds it."""
    sources = [str(path) for path in PROGRAM]
    if where.type == "cpu":
        return build_executable(Program(sources))
    if not (nvcc := build.nvcc()):
        raise BuildError("no nvcc: install the CUDA Toolkit")
    command = [nvcc, "-O3", "-std=c++17", "-arch=native", *sources]
    done = subprocess.run(
        [*command, "-o", f"{folder}/program"], text=True, capture_output=True
    )
    if done.returncode:
        raise BuildError(done.stderr.strip())
    return folder / "program"


# ---- launches from Python -----------------------------------------------------

STEP = """
__global__ void step(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1;
}
"""


def _from_python(where: torch.device, samples: int) -> list[Row]:
    """The same chain, launched by a loop of Python."""
    size = PROGRAM_SIZES[where.type][0]
    x = torch.zeros(size, device=where)
    launch = load_cuda(STEP, target=where.type).step[-(-size // 256), 256]
    ways: dict[str, tuple[str, Call]] = {
        "Python, a launch each": ("weft", lambda: launch(x, size)),
        "Python, x.add_(1)": ("torch", lambda: x.add_(1)),
    }
    found = []
    for rung, (impl, call) in ways.items():
        x.zero_()
        timing = time_call(call, where, samples, calls=CHAIN, warmup=1)
        if not (x == (samples + 1) * CHAIN).all():
            raise RuntimeError(f"{rung}: x[0] is {x[0]}")
        found.append(
            _make_row(where, "chain", rung, timing, count=CHAIN) | {"impl": impl}
        )
    return found


def _time_chain(where: torch.device, samples: int) -> list[Row]:
    return _of_program("chain", where, samples) + _from_python(where, samples)


# ---- fusion and rematerialisation ---------------------------------------------


def _of_kernels(where: torch.device, samples: int) -> list[Row]:
    kernels = load_cuda(
        KERNELS.read_text(), target=where.type, name=KERNELS.name, inplace=True
    )
    found = []
    for size in FUSION_SIZES[where.type]:
        copied = None
        for op, rung, call, got, want, needed in _make_contenders(kernels, where, size):
            got.fill_(torch.nan)
            call()
            if not torch.allclose(got, want, rtol=1e-5, atol=1e-5):
                raise RuntimeError(f"{op}: {rung} is wrong for {size} numbers")
            timing = _time(call, where, samples)
            copied = copied or timing.median
            more = {"count": size, "bytes": needed}
            more |= {"gbs": needed / timing.median / 1e3}
            more |= {"vs_copy": copied / timing.median}
            found.append(_make_row(where, op, rung, timing, **more))
    return found


def _make_contenders(kernels: Any, where: torch.device, size: int) -> Iterator[tuple]:
    """op, rung, call, its result, what that has to be, bytes it reads and writes."""
    quarter = size // 4
    grid, four = -(-quarter // 256), CHANNELS // 4
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, generator=generator).to(where)
    bias = torch.randn(CHANNELS, generator=generator).to(where)
    y = torch.empty_like(x)
    launch = functools.partial(_launch, kernels, grid)
    yield "fusion", "copy", lambda: launch("copy", y, x, quarter), y, x, 8 * size

    def apart() -> None:
        launch("add_bias", y, x, bias, quarter, four)
        launch("relu", y, y, quarter)
        launch("scale", y, y, FACTOR, quarter)

    def fused() -> None:
        launch("bias_relu_scale", y, x, bias, FACTOR, quarter, four)

    want = (x.view(-1, CHANNELS) + bias).relu().mul(FACTOR).view(-1)
    yield "fusion", "three kernels", apart, y, want, 24 * size
    yield "fusion", "one kernel", fused, y, want, 8 * size

    pixels = torch.randint(0, 256, (size,), generator=generator, dtype=torch.uint8)
    pixels, by, less = pixels.to(where), 1 / (255 * STD), MEAN / STD
    small = torch.empty(quarter, device=where)

    def stored() -> None:
        launch("normalise", y, pixels, by, less, quarter)
        for _ in range(2):
            launch("pool_stored", small, y, quarter)

    def again() -> None:
        for _ in range(2):
            launch("pool_again", small, pixels, by, less, quarter)

    want = pixels.view(-1, 4).amax(1).float().mul(by).sub(less)
    yield "remat", "stored, read twice", stored, small, want, size * (1 + 4 + 2 * 5)
    yield "remat", "worked out twice", again, small, want, size * 2 * 2


def _launch(kernels: Any, grid: int, name: str, *args: Any) -> None:
    getattr(kernels, name)[grid, 256](*args)


def _record_timelines(where: torch.device, samples: int) -> list[Row]:
    return timeline_rows(where, samples)


def _record_steps(where: torch.device, samples: int) -> list[Row]:
    return step_rows(where, samples)


# Who measures which op; one function may measure several.
OPS = {
    **{"chain": _time_chain, "host": _time_chain},
    **{
        name: functools.partial(_of_program, name)
        for name in ("fetch", "crowd", "many", "fork", "overlap")
    },
    **{"fusion": _of_kernels, "remat": _of_kernels},
    **{"timeline": _record_timelines, "steps": _record_steps},
}
