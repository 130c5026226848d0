"""Compare transposes with a copy: `python -m weft bench transpose`.

Lesson 07a derives the kernels of transpose.cu step by step: copies, copies of every
stride-th number, and transposes of a matrix. Each is checked, then timed. gbs is the
rate in GB/s if each number is read once and written once. vs_copy is the time of the
first copy, with one number per thread, divided by this kernel's. On a GPU the time
covers only the kernel, from a CUDA graph of several launches, and the matrix is larger
than any cache. On a CPU, threads are simulated: the results are checked, but
the times do not represent a GPU.

--device cuda; --sizes 8192: the side of the matrix.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ..cells import load_cuda
from ..timing import Timing, device_name, time_call
from ..timing.race import Contender
from ..timing.timers import time_graph

SOURCE = Path(__file__).with_suffix(".cu")
TRANSPOSES = ("naive", "tiled", "padded", "swizzled", "four")
STRIDES = (1, 2, 4, 8, 16, 32)
SIDE = 32  # side of a tile, as in the source
SIZES = {"cuda": 8192, "cpu": 256}
SHOWN = ["op", "impl", "rung", "rows", "cols", "us", "us_low", "us_high", "gbs"]
SHOWN += ["vs_copy"]
LAUNCHES = 10  # launches in one graph


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows for the options of the command line."""
    return rows(args.device, [int(size) for size in args.sizes.split(",") if size])


def rows(
    device: str = "cpu", sizes: Sequence[int] = (), samples: int = 30
) -> list[dict[str, Any]]:
    """Check and time the copy, the strided copies and the transposes.

    sizes: sides of square matrices; if empty, the device's default side. Raises
    ValueError for a side below 1 and RuntimeError for a wrong result.
    """
    where = torch.device(device)
    results = []
    for size in sizes or (SIZES[where.type],):
        if size < 1:
            raise ValueError(f"--sizes {size}: the side of a matrix must be at least 1")
        results += _time_size(where, size, samples)
    return results


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    text = f"fp32; {rows[0]['timer']} on {rows[0]['device']}; GB/s of the bytes needed"
    if rows[0]["target"] == "cpu":
        text += "\nOn a CPU, threads are simulated: these times do not represent a GPU"
    return text


def _time_size(where: torch.device, size: int, samples: int) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, size, generator=generator).to(where)
    y = torch.empty_like(x)
    results = []
    for contender in _make_contenders(y, x):
        y.fill_(torch.nan)
        contender.call()
        op, impl, rung = contender.row.values()
        if not torch.equal(contender.out, contender.want.reshape(-1)):
            raise RuntimeError(f"{impl} {op} {rung} is wrong for {size} x {size}")
        timing = time_on(contender, where, samples)
        row = {
            **{**contender.row, "precision": "fp32"},
            **{"target": where.type, "device": device_name(where), **timing.row()},
            **{"rows": size, "cols": size, "count": contender.want.numel()},
            "gbs": contender.bytes / timing.median / 1e3,
        }
        if op != "strided":
            row["vs_copy"] = (results or [row])[0]["us"] / timing.median
        results.append(row)
    return results


def _make_contenders(y: torch.Tensor, x: torch.Tensor) -> Iterator[Contender]:
    """Yield the plain copy, then the other contenders; y and x are (size,size).

    Each contender writes its result to the beginning of y.
    """

    size, out, flat = len(x), y.view(-1), x.view(-1)

    def make(op: str, impl: str, rung: str, call: Any, want: torch.Tensor) -> Contender:
        row, count = {"op": op, "impl": impl, "rung": rung}, want.numel()
        more = {"want": want, "bytes": 2 * x.element_size() * count}
        return Contender(call=call, row=row, out=out[:count], **more)

    names = {"target": x.device.type, "name": SOURCE.name}
    kernels = load_cuda(SOURCE.read_text(), inplace=True, **names)
    launch = kernels.copy[_count_blocks(flat), 256]
    copy = functools.partial(launch, out, flat, x.numel())
    yield make("copy", "weft", "copy", copy, x)
    launch = kernels.copy_four[-(-_count_blocks(flat) // 4), 256]
    four = functools.partial(launch, out, flat, x.numel())
    yield make("copy", "weft", "four", four, x)
    yield make("copy", "torch", "copy_", lambda: y.copy_(x), x)
    tiles = -(-size // SIDE)
    for name in TRANSPOSES:
        block = SIDE, 8 if name == "four" else SIDE
        launch = getattr(kernels, f"transpose_{name}")[(tiles, tiles), block]
        call = functools.partial(launch, y, x, size, size)
        yield make("transpose", "weft", name, call, x.T)
    yield make("transpose", "torch", "copy_", lambda: y.copy_(x.T), x.T)
    for stride in STRIDES:
        part = flat[::stride]
        launch = kernels.copy_strided[_count_blocks(part), 256]
        call = functools.partial(launch, out, flat, part.numel(), stride)
        yield make("strided", "weft", f"stride {stride}", call, part)


def _count_blocks(numbers: torch.Tensor) -> int:
    return -(-numbers.numel() // 256)


def time_on(contender: Contender, where: torch.device, samples: int) -> Timing:
    """Return the time of one call; on a GPU, this excludes the cost of a launch."""
    if where.type == "cpu":
        return time_call(contender.call, where, samples=min(samples, 5), warmup=1)
    contender.call()  # compiles the kernel before the graph records it
    return time_graph(contender.call, where, samples, LAUNCHES)
