"""What this machine can do at best, measured: the ceilings of a roofline.

    peaks("cuda")            rows: a copy (gbs), reads that the L2 cache answers (gbs),
                             and multiply-adds by kind (tflops)
    ceilings(rows)           {"gbs": ..., "l2": ..., "fp32": ..., "tf32": ..., ...}

peaks.cu and peaks.c do one thing alone each, with their operands in
registers or shared memory. A peak is that of the fastest sample: what others do
there meanwhile is no property of a machine. Measured once for each device, and kept in
the cache; `python -m weft bench matmul --set peaks` measures again.
"""

from __future__ import annotations

import ctypes
import datetime
import functools
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..base import device as devices
from ..base import store
from ..base.errors import KernelError
from ..toolchain import build
from . import results, timers
from .clocks import Contender
from .timers import Timed

Row = dict[str, Any]

SOURCES = {"cuda": "peaks.cu", "cpu": "peaks.c"}
# rung, precision, least and most compute capability times 10; as the source has them.
KINDS = (
    ("ffma", "fp32", 0, 999),
    ("mma", "tf32", 80, 999),
    ("mma", "bf16", 80, 999),
    ("mma", "fp16", 75, 999),
    ("wgmma", "tf32", 90, 90),
    ("wgmma", "bf16", 90, 90),
)
COPIED = {"cuda": 1 << 28, "cpu": 1 << 25}  # floats
IN_L2 = 1 << 22  # floats, 16 MiB: more than all L1 caches, less than an L2 cache
BLOCKS_A_PROCESSOR = 8  # of a multiprocessor that reads: 2048 threads
BURST = 1e-3  # seconds that a kernel runs
SECONDS = 0.4  # that each is timed, about
THREADS = 256  # of a block, as in the source


def peaks(device: str = "cpu", again: bool = False) -> list[Row]:
    """The rows of a device: from the cache, or measured. again: measured in any case.

    Raises BuildError without a compiler, KernelError if a kernel fails.
    """
    where = devices.parse_device(device)
    source = Path(__file__).with_name(SOURCES[where.type])
    name = results.device_name(where)
    made = name + source.read_text() + Path(__file__).read_text()
    digest = hashlib.sha256(made.encode()).hexdigest()[:16]
    kept = store.cache_folder("peaks") / f"{digest}.json"
    if kept.exists() and not again:
        return json.loads(kept.read_text())
    found = _on_gpu(where) if where.type == "cuda" else _on_cpu(where)
    stamp = {"date": datetime.date.today().isoformat(), "commit": results.commit()}
    rows = [row | stamp for row in found]
    store.write(kept, json.dumps(rows))
    return rows


def ceilings(rows: Iterable[Row]) -> dict[str, float]:
    """The highest of each: GB/s of a copy ("gbs") and of reads from the L2 cache
    ("l2"), and TFLOP/s by precision. 3xtf32: a third of tf32.
    """
    found: dict[str, float] = {}
    for row in (row for row in rows if row["op"] == "peak"):
        name = {"copy": "gbs", "l2": "l2"}.get(row["rung"], row["precision"])
        value = row["gbs"] if name in ("gbs", "l2") else row["tflops"]
        found[name] = max(value, found.get(name, 0.0))
    if "tf32" in found:
        found["3xtf32"] = found["tf32"] / 3
    if "bf16" in found:  # the same units, at the same rate
        found["fp16"] = max(found["bf16"], found.get("fp16", 0.0))
    return found


def _make_row(
    rung: str, precision: str, where: Any, timed: Timed, **more: float
) -> Row:
    return {
        **{"op": "peak", "impl": "weft", "rung": rung, "precision": precision},
        **{"target": where.type, "device": timed.device, **timed.row(), **more},
    }


# ---- a GPU -----------------------------------------------------------------------


@functools.cache
def open_library(target: str, name: str = "") -> ctypes.CDLL:
    """peaks.cu for "cuda", peaks.c for "cpu", or the named one of them."""
    source = Path(__file__).with_name(name or SOURCES[target])
    files = [build.KERNELS / "common" / "common.cu", source]
    flavour = build.Flavour.here(target)
    lib = ctypes.CDLL(
        str(build.library_of(f"peaks_{source.suffix[1:]}", files, flavour))
    )
    lib.peak_flops.restype = ctypes.c_double
    return lib


def _on_gpu(where: Any) -> list[Row]:
    import torch

    lib = open_library("cuda")
    capability = devices.compute_capability(where.index)
    sm = 10 * capability[0] + capability[1]
    count = COPIED["cuda"]
    x, y = (torch.randn(count, device=where) for _ in range(2))
    copy = Contender(lambda i: queue(lib, "peak_copy", y, x, ctypes.c_size_t(count)))
    copy.checked = True  # below
    timed = _time_alone(copy, where)
    if not torch.equal(x, y):
        raise KernelError("peak_copy: what was copied is not the same")
    found = [
        _make_row("copy", "fp32", where, timed, gbs=8 * count / timed.fastest / 1e3)
    ]
    found.append(_read_l2(lib, where))
    for kind, (rung, precision, least, most) in enumerate(KINDS):
        if least <= sm <= most:
            found.append(_measure_chain(lib, kind, rung, precision, where))
    return found


def _read_l2(lib: Any, where: Any) -> Row:
    """Time reads that the L2 cache serves and that bypass the L1 caches."""
    import torch

    processors = torch.cuda.get_device_properties(where).multi_processor_count
    blocks, turns = BLOCKS_A_PROCESSOR * processors, 64
    x, out = (
        torch.randn(IN_L2, device=where),
        torch.empty(blocks * THREADS, device=where),
    )
    count = ctypes.c_size_t(IN_L2)
    read = Contender(lambda i: queue(lib, "peak_l2", out, x, count, blocks, turns))
    timed = _time_alone(read, where)
    gbs = 4 * IN_L2 * turns / timed.fastest / 1e3
    return _make_row("l2", "fp32", where, timed, gbs=gbs)


def _measure_chain(lib: Any, kind: int, rung: str, precision: str, where: Any) -> Row:
    """Multiply-adds of a kind, as many turns as take BURST seconds."""
    import torch

    with torch.cuda.device(where.index):
        blocks = lib.peak_blocks(kind)
    out = torch.empty(blocks * THREADS, device=where)
    few, flops = 64, lib.peak_flops(kind) * blocks

    def run(turns: int) -> Contender:
        return Contender(lambda i: queue(lib, "peak_run", kind, out, blocks, turns))

    once = _time_alone(run(few), where, seconds=0.05).us / few
    turns = max(few, round(1e6 * BURST / once))
    timed = _time_alone(run(turns), where)
    tflops = flops * turns / timed.fastest / 1e6
    return _make_row(rung, precision, where, timed, tflops=tflops)


def queue(lib: ctypes.CDLL, function: str, *args: Any) -> None:
    """Call a function of peaks.cu on torch's stream; tensors as addresses."""
    tensors = [a for a in args if hasattr(a, "data_ptr")]
    index = tensors[0].device.index
    stream = 0 if index is None else devices.current_stream(index)
    given = [
        ctypes.c_void_p(a.data_ptr()) if hasattr(a, "data_ptr") else a for a in args
    ]
    if status := getattr(lib, function)(*given, ctypes.c_void_p(stream)):
        raise KernelError(f"{function}: CUDA error {status}")


def _time_alone(one: Contender, where: Any, seconds: float = 0.0) -> Timed:
    """Of this alone; a GPU stays cool, so that its clock is the highest."""
    timer, cool = ("event", True) if where.type == "cuda" else ("wall", False)
    return timers.side_by_side(
        {"it": one}, where, timer, seconds=seconds or SECONDS, cool=cool
    )["it"]


# ---- a CPU -----------------------------------------------------------------------


def _on_cpu(where: Any) -> list[Row]:
    """On as many threads as OpenMP takes; the copy does not fit any cache."""
    import numpy as np

    lib, count = open_library("cpu"), COPIED["cpu"]
    x, y = np.ones(count, np.float32), np.zeros(count, np.float32)
    given = y.ctypes.data, x.ctypes.data, count
    words = [ctypes.c_void_p(a) for a in given[:2]] + [ctypes.c_size_t(count)]
    timed = _time_alone(Contender(lambda i: lib.peak_copy(*words)), where)
    found = [
        _make_row("copy", "fp32", where, timed, gbs=8 * count / timed.fastest / 1e3)
    ]
    threads, turns = lib.peak_threads(), 4000
    out = np.zeros(threads, np.float32)
    at = ctypes.c_void_p(out.ctypes.data)
    by = ctypes.c_float(0.999), ctypes.c_float(0.5)
    timed = _time_alone(Contender(lambda i: lib.peak_run(at, turns, *by)), where)
    tflops = lib.peak_flops() * threads * turns / timed.fastest / 1e6
    row = _make_row("fma", "fp32", where, timed, tflops=tflops)
    return [*found, row | {"threads": threads}]
