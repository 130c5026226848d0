"""The errors and the limits of tensor cores: `python -m weft bench tensor`.

Lesson 08c explains the measurements. The op of a row is one of these:

    staircase  1 + x / 2^23, added by a tensor core: `added` is the result for x
    promotion  errors of sums that restart after `every` steps of k (0: never)
    error      the error of a product in each precision for each k, against float64
    heat       a repeated product, with pauses (`mode` cool) and without (hot), of
               random numbers or of zeros; series: [ms, TFLOP/s, MHz, W]
    clock      a product by each rung, with pauses: `ghz`, its clock frequency, from
               the cycles that multiprocessors count between two points in time
    ncu        Nsight Compute's counters of a product by each rung

errors are relative: the root mean square of c's differences, divided by c's own. bias,
the mean difference divided by c's root mean square, reveals errors of equal sign. On a
CPU, tensor cores are simulated: they round a sum once, while a GPU's truncate it. heat,
clock and ncu require a GPU; a CPU can check the others. The kernel in sums.cu uses
wmma, which any GPU of compute capability 7.0 or higher can run.

As a program, `python -m weft.benchmarks.tensor`, this module launches the
kernels that ncu profiles.

--device cuda; --rungs promotion,error: only those ops.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from .. import ops
from ..base.paths import ROOT
from ..cells import load_cuda
from ..see.machine_code import ncu
from ..timing import device_name, summarize
from ..timing.clocks import Watch
from ..timing.peaks import CUBLAS_KINDS, Gemm
from ..timing.results import Row, merge_rows, stamp_row
from ..toolchain import native

if TYPE_CHECKING:
    from ..toolchain.native import AnyDevice


STAIRCASE = Path(__file__).with_name("sums.cu")
EVERY = (16, 32, 64, 128, 512, 0)  # steps of k between restarts; 0: none
STEPS = 9  # steps of the staircase, each a quarter of the last bit of 1
SIZES = {  # by target: sides of c, and k
    "cuda": (256, (256, 1024, 4096, 16384)),
    "cpu": (32, (64, 256)),
}
PRECISIONS = ("fp32", "3xtf32", "tf32", "fp16", "bf16")
# The dtypes; float32 for other precisions.
TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def multiply_promoted(a: torch.Tensor, b: torch.Tensor, every: int) -> torch.Tensor:
    """Multiply a (m,k) @ b (k,n), both half, to (m,n) float32 on tensor cores.

    m, k, n and `every` are multiples of 16. A tensor core's sum restarts after `every`
    steps of k; 0 means never.
    """
    m, k = a.shape
    n = b.shape[1]
    c = torch.full((m, n), torch.nan, device=a.device)
    kernel = load_cuda(STAIRCASE.read_text(), target=a.device.type).promoted
    kernel[(n // 16, m // 16), 32](c, a, b, n, k, every or k)
    return c


def measure_staircase(device: AnyDevice | str = "cpu") -> list[tuple[float, float]]:
    """Return pairs (x, y): a tensor core's 1 + x / 2^23 is 1 + y / 2^23.

    x increases in quarters. One instruction adds 1 and a second one adds x / 2^23.
    """
    steps = torch.arange(STEPS) / 4
    a = torch.zeros(16, 32, dtype=torch.float16)
    a[:STEPS, 0], a[:STEPS, 16] = 1.0, (steps * 2.0**-11).half()
    b = torch.zeros(32, 16, dtype=torch.float16)
    b[0], b[16] = 1.0, 2.0**-12
    c = multiply_promoted(a.to(device), b.to(device), 0)[:STEPS, 0].double().cpu()
    return list(zip(steps.tolist(), ((c - 1) * 2**23).tolist()))


def _staircase_rows(where: AnyDevice) -> Iterator[Row]:
    for x, added in measure_staircase(where):
        yield head_of(where, "staircase", "promoted", "fp16") | {"x": x, "added": added}


def _promotion_rows(where: AnyDevice) -> Iterator[Row]:
    side, depths = SIZES[where.type]
    for signs in ("both", "positive"):
        for k in depths:
            a, b = numbers_of(side, k, where)
            if signs == "positive":
                a, b = a.abs(), b.abs()
            a, b = a.half(), b.half()
            want = a.double() @ b.double()
            for every in (e for e in EVERY if e < k):
                errors = _measure_errors(multiply_promoted(a, b, every), want)
                head = head_of(where, "promotion", "promoted", "fp16")
                yield head | {"k": k, "every": every, "signs": signs, **errors}


def _error_rows(where: AnyDevice) -> Iterator[Row]:
    """Yield errors of products of float32 numbers, rounded to each precision first."""
    side, depths = SIZES[where.type]
    for k in depths:
        a, b = numbers_of(side, k, where)
        want = a.double() @ b.double()
        for kind in PRECISIONS:
            for impl, multiply in products_of(kind, where):
                operands = [x.to(TYPES.get(kind, torch.float32)) for x in (a, b)]
                errors = _measure_errors(multiply(*operands), want)
                yield head_of(where, "error", impl, kind) | {"k": k, **errors}


def products_of(
    kind: str, where: AnyDevice
) -> Iterator[tuple[str, Callable[..., torch.Tensor]]]:
    """Yield our fastest rung of a precision, and cuBLAS.

    Rungs that choose another rung are omitted, since they choose fp32 where it is as
    fast.
    """
    lib = native.library("matmul", where.type)
    rung = next(r for r in lib.fastest(kind) if not r.name.startswith("tuned_"))
    yield rung.name, partial(ops.matmul, rung=rung.name)
    if where.type == "cuda" and kind in CUBLAS_KINDS:

        def by_cublas(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            c = torch.empty(a.shape[0], b.shape[1], device=a.device)
            Gemm(kind)(c, a, b)
            return c

        yield "cublas", by_cublas


# ---- details ---------------------------------------------------------------------


def numbers_of(
    side: int, k: int, where: AnyDevice
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random a (side,k) and b (k,side), identical on every machine."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(side, k, generator=generator).to(where)
    return a, torch.randn(k, side, generator=generator).to(where)


def _measure_errors(got: torch.Tensor, want: torch.Tensor) -> dict[str, float]:
    """Return the errors of c relative to its magnitude; NaN if any element is NaN."""
    difference, size = got.double() - want, float(want.square().mean().sqrt())
    rms = float(difference.square().mean().sqrt()) / size
    return {"error_rms": rms, "bias": float(difference.mean()) / size}


def head_of(where: AnyDevice, op: str, rung: str, kind: str) -> Row:
    impl = "cublas" if rung == "cublas" else "weft"
    return {
        **{"op": op, "impl": impl, "rung": rung, "precision": kind},
        **{"target": where.type, "device": device_name(where)},
    }


SOURCE = Path(__file__).with_name("limits.cu")
HOT, COOL = 2.5, 1.5  # seconds; a reading of the card's power is a one-second mean
BURST, PAUSE, BURSTS = 4e-3, 60e-3, 12
HEATED, REST = 8192, 1.5
HEATED_BY = (  # precision, numbers, modes
    ("bf16", "random", ("cool", "hot")),
    ("bf16", "zeros", ("hot",)),
    ("fp32", "random", ("cool", "hot")),
)
SIDE = 4096  # side of each rung's product
_SUSTAINED = "avg.pct_of_peak_sustained"
STALLS = {  # ncu's name for a stall: the event or unit that the warp waits for
    "barrier": "a barrier of the block",
    "dispatch_stall": "the dispatcher, e.g. for banks of registers",
    "lg_throttle": "the queue to global memory",
    "long_scoreboard": "global memory",
    "math_pipe_throttle": "multipliers at work",
    "membar": "a fence",
    "mio_throttle": "the queue to shared memory",
    "no_instruction": "fetched instructions",
    "short_scoreboard": "shared memory",
    "sleeping": "sleep",
    "wait": "an instruction's fixed time",
}
READY = "not_selected"  # the warp was ready, but the scheduler chose another warp
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
METRICS = {  # our name: ncu's metric, in percent of the peak, bytes or cycles
    "us": "gpu__time_duration.sum",
    "tensor_pipe": f"sm__pipe_tensor_cycles_active.{_SUSTAINED}_active",
    "issue": f"sm__inst_issued.{_SUSTAINED}_active",
    "fma_pipe": f"sm__pipe_fma_cycles_active.{_SUSTAINED}_active",
    "shared": f"l1tex__data_pipe_lsu_wavefronts_mem_shared.{_SUSTAINED}_elapsed",
    "l2_bytes": "lts__t_bytes.sum",
    "dram_bytes": "dram__bytes.sum",
    "active": "sm__cycles_active.avg",
    "elapsed": "sm__cycles_elapsed.max",
    # A warp's cycles per instruction, and those spent waiting.
    "warp_cycles": "smsp__average_warp_latency_per_inst_issued.ratio",
    **{f"stall_{one}": _STALLED.format(one) for one in (*STALLS, READY)},
}
MARK = "bitwise_not"  # a kernel that separates calls; nothing else uses it
COUNTED = (  # (precision, rung); the rung "" is cuBLAS
    *(("bf16", name) for name in ("wmma_bf16", "mma_bf16", "wgmma_bf16", "")),
    *(("tf32", name) for name in ("wmma_tf32", "mma_tf32", "wgmma_tf32", "")),
    *(("3xtf32", name) for name in ("mma_3xtf32", "wgmma_3xtf32")),
    *(("fp32", name) for name in ("tuned", "")),
)
FURTHER = ((1024, 1024), (2048, 2048), (5120, 256))  # (m = n, k) of fp32, for ncu
WATCHED = (  # (precision, rung, m = n, k) of each product
    *((*one, SIDE, SIDE) for one in COUNTED),
    *(("fp32", name, *size) for size in FURTHER for name in ("tuned", "")),
)

Product = tuple[str, str, int, int]  # one of WATCHED


def _measure_heat(where: AnyDevice) -> Iterator[Row]:
    """Yield a row per product and mode, with each burst's speed, clock and power."""
    for kind, numbers, modes in HEATED_BY:
        a, b = numbers_of(HEATED, HEATED, where)
        if numbers == "zeros":
            a, b = torch.zeros_like(a), torch.zeros_like(b)
        a, b = (x.to(TYPES.get(kind, torch.float32)) for x in (a, b))
        for impl, multiply in products_of(kind, where):
            for mode in modes:
                time.sleep(REST)  # the card cools down between modes
                row = head_of(where, "heat", impl, kind)
                row |= {"mode": mode, "numbers": numbers}
                yield row | _time_bursts(partial(multiply, a, b), mode, where)


def _time_bursts(call: Callable[[], object], mode: str, where: AnyDevice) -> Row:
    """Return the bursts' speed, clock and power, with or without pauses."""
    flop = 2.0 * HEATED**3
    for _ in range(2):
        call()
    torch.cuda.synchronize()
    start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start, series, watch = time.perf_counter(), [], Watch(where)
    calls = 1
    while (elapsed := time.perf_counter() - start) < (HOT if mode == "hot" else COOL):
        start_event.record()
        for _ in range(calls):
            call()
        end_event.record()
        watch.look()
        end_event.synchronize()
        us = 1e3 * start_event.elapsed_time(end_event) / calls
        calls = max(1, round(1e6 * BURST / us))
        reading = watch.states[-1] if watch.states else None
        state = [reading.clock, reading.power] if reading else [None, None]
        series.append([1e3 * elapsed, flop / us / 1e6, *state])
        if mode == "cool":
            time.sleep(PAUSE)
    later = [tflops for ms, tflops, *_ in series if ms > 0.5 * series[-1][0]]
    timing = summarize([flop / tflops / 1e6 for tflops in later], "event")
    thinned = series[:: max(1, len(series) // 120)]
    speed = {"tflops": flop / timing.median / 1e6}
    return {**timing.row(), **speed, **watch.row(), "n": HEATED, "series": thinned}


def _measure_clock(where: AnyDevice) -> Iterator[Row]:
    """Yield the clock frequency of each product in COUNTED, in bursts with pauses."""
    products = ((*one, SIDE, SIDE) for one in COUNTED)
    for (kind, rung, *_), call in _make_calls(products, where):
        head = head_of(where, "clock", rung or "cublas", kind)
        yield head | _count_cycles(call, where) | {"n": SIDE}


def _count_cycles(call: Callable[[], object], where: AnyDevice) -> Row:
    """Return the bursts' clock frequency as counted and as reported by the driver."""
    kernel = load_cuda(SOURCE.read_text(), target="cuda").stamp
    sms = torch.cuda.get_device_properties(where).multi_processor_count
    first, last = torch.zeros(2, 2 * sms, 2, dtype=torch.int64, device=where)
    start_event, end_event = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    us, ghz, watch, calls = [], [], Watch(where), 1
    for _ in range(BURSTS):
        time.sleep(PAUSE)
        kernel[8 * sms, 32](first)
        start_event.record()
        for _ in range(calls):
            call()
        end_event.record()
        kernel[8 * sms, 32](last)
        watch.look()
        end_event.synchronize()
        torch.cuda.synchronize()
        us_per_call = 1e3 * start_event.elapsed_time(end_event) / calls
        cycles, ns = (last - first)[(first[:, 0] > 0) & (last[:, 0] > 0)].unbind(1)
        us.append(us_per_call)
        ghz.append(float((cycles / ns).median()))
        calls = max(1, round(BURST / 2 * 1e6 / us_per_call))
    timing = summarize(us[2:], "event")
    speed = {"tflops": 2.0 * SIDE**3 / timing.median / 1e6}
    return {**timing.row(), **speed, **watch.row(), "ghz": float(np.median(ghz[2:]))}


def _read_counters(where: AnyDevice) -> Iterator[Row]:
    """Run this module under ncu in another process; yield its kernels' counters."""
    text = _run_ncu(list(METRICS.values()))
    parts: list[list[tuple[str, dict[str, float]]]] = [[]]
    for name, metrics in _list_launches(text):
        if MARK in name:
            parts.append([])
        else:
            parts[-1].append((name, metrics))
    if len(parts) != len(WATCHED) + 1:
        raise ncu.NoCounters(ncu.explain(text, len(parts) - 1, len(WATCHED)))
    for (kind, rung, side, k), launches in zip(WATCHED, parts[1:]):
        head = head_of(where, "ncu", rung or "cublas", kind)
        yield head | _summarize_kernels(launches, side, k)


def _summarize_kernels(
    launches: list[tuple[str, dict[str, float]]], side: int, k: int
) -> Row:
    """Return the longest kernel's counters, and the total time of the others."""
    time_of = METRICS["us"]
    name, main = max(launches, key=lambda launch: launch[1][time_of])
    row: Row = {name: main.get(metric) for name, metric in METRICS.items()}
    row["us"] = main[time_of] / 1e3  # ncu reports nanoseconds
    row["others_us"] = sum(one[time_of] for _, one in launches) / 1e3 - row["us"]
    row["tflops"] = 2.0 * side**2 * k / row["us"] / 1e6
    kernel = re.split(r"[<(]", name)[0].split()[-1]
    return row | {"m": side, "k": k, "n": side, "kernel": kernel}


def _run_ncu(metrics: list[str]) -> str:
    """Return ncu's output, without metrics that this GPU lacks."""
    command = [ncu.require(), "--csv", "--print-units", "base"]
    command += ["--target-processes", "all", "--profile-from-start", "off"]
    child = [sys.executable, "-W", "ignore", "-m", "weft.benchmarks.tensor"]
    path = os.pathsep.join([str(ROOT / "lib"), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path}
    while True:
        arguments = [*command, "--metrics", ",".join(metrics), *child]
        process = subprocess.run(arguments, env=env, text=True, capture_output=True)
        text = f"{process.stdout}\n{process.stderr}"
        missing = set(re.findall(r"[Ff]ailed to find metric ([\w.]+)", text))
        if not missing & set(metrics):
            return text
        metrics = [name for name in metrics if name not in missing]


def _list_launches(text: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each kernel's name and metrics, in order, from `ncu --csv`'s output."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    names = {int(row["ID"]): row["Kernel Name"] for row in csv.DictReader(lines)}
    for number, metrics in zip(sorted(names), ncu.parse(text)):
        yield names[number], metrics


def launch_all() -> None:
    """Launch each product in WATCHED once for ncu, after a kernel that marks it."""
    where = torch.device("cuda", torch.cuda.current_device())
    mark = torch.zeros(1, dtype=torch.int64, device=where)
    for _, call in _make_calls(WATCHED, where):
        call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        mark.bitwise_not_()
        call()
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def _make_calls(
    products: Iterable[Product], where: AnyDevice
) -> Iterator[tuple[Product, Callable[[], object]]]:
    """Yield each product and a call that computes it."""
    for kind, rung, side, k in products:
        a, b = (x.to(TYPES.get(kind, torch.float32)) for x in _numbers(side, k, where))
        c = torch.empty(side, side, device=where)
        ours = partial(ops.matmul, a, b, rung=rung, out=c)
        yield (kind, rung, side, k), ours if rung else partial(Gemm(kind), c, a, b)


_numbers = lru_cache(maxsize=1)(numbers_of)  # the last product's inputs


SHOWN = ["op", "impl", "rung", "precision", "k", "every", "signs", "mode", "added"]
SHOWN += ["error_rms", "bias", "us", "tflops", "clock_median", "ghz", "power"]
SHOWN += ["tensor_pipe"]
OPS: dict[str, Callable[[AnyDevice], Iterator[Row]]] = {
    **{"staircase": _staircase_rows, "promotion": _promotion_rows},
    **{"error": _error_rows, "heat": _measure_heat},
    **{"clock": _measure_clock, "ncu": _read_counters},
}
ON_GPU = ("heat", "clock", "ncu")  # these ops have no rows on a CPU


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the options of the command line."""
    return rows(args.device, [name for name in args.rungs.split(",") if name])


def rows(device: str = "cpu", ops: Sequence[str] = ()) -> list[Row]:
    """Measure everything, or the named ops; each row has its date and commit.

    Raises ValueError for an unknown op and NoCounters if ncu reports no counters.
    """
    where = torch.device(device)
    if unknown := set(ops) - OPS.keys():
        names = ",".join(sorted(unknown))
        raise ValueError(f"--rungs {names}: expected some of {', '.join(OPS)}")
    if where.type == "cuda" and where.index is None:
        where = torch.device("cuda", torch.cuda.current_device())
    names = [name for name in OPS if name in (ops or OPS)]
    names = [name for name in names if where.type == "cuda" or name not in ON_GPU]
    stamp = stamp_row()
    return [row | stamp for name in names for row in OPS[name](where)]


def merged(path: str | Path, rows: list[Row]) -> list[Row]:
    """Return `rows` and the file's rows for the same device and other ops."""
    names = [*OPS]
    return merge_rows(path, rows, itemgetter("op"), lambda r: names.index(r["op"]))


def note(rows: list[Row]) -> str:
    """Return the text below the table."""
    text = f"{rows[0]['device']}; errors relative to c, against float64"
    if rows[0]["target"] == "cpu":
        text += "\nOn a CPU, the simulated tensor cores round; those of a GPU truncate"
    return text


if __name__ == "__main__":
    launch_all()
