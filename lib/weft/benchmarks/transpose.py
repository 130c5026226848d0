"""How near a transpose comes to a copy: `python -m weft bench transpose`.

The kernels of transpose.cu, which lesson 07a derives: copies, copies of every
stride-th number, and transposes of a matrix, one step after another. Each is checked,
then timed. gbs counts the bytes that are needed, each number read once and written
once, over the time; vs_copy is the time of the first copy, a number a thread,
over the kernel's. On a GPU the time is that of the kernel alone, from a CUDA graph of
several launches, and the matrix is larger than any cache. On a CPU threads are
simulated: the answers are checked, and the times say nothing of a GPU.

--device cuda; --sizes 8192: the side of the matrix.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..cells import load_cuda
from ..timing import Timing, device_name, time_call

SOURCE = Path(__file__).with_suffix(".cu")
TRANSPOSES = ("naive", "tiled", "padded", "swizzled", "four")
STRIDES = (1, 2, 4, 8, 16, 32)
SIDE = 32  # of a tile, as in the source
SIZES = {"cuda": 8192, "cpu": 256}
SHOWN = ["op", "impl", "rung", "rows", "cols", "us", "us_low", "us_high", "gbs"]
SHOWN += ["vs_copy"]
LAUNCHES = 10  # in one graph

Call = Callable[[], object]


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows for the options of the command line."""
    return rows(args.device, [int(size) for size in args.sizes.split(",") if size])


def rows(
    device: str = "cpu", sizes: Sequence[int] = (), samples: int = 30
) -> list[dict[str, Any]]:
    """Check and time the copy, the strided copies and the transposes.

    sizes: sides of square matrices; none: one that fits the device. Raises
    ValueError for a side below 1 and RuntimeError for a wrong result.
    """
    where = torch.device(device)
    found = []
    for size in sizes or (SIZES[where.type],):
        if size < 1:
            raise ValueError(f"--sizes {size}: the side of a matrix is at least 1")
        found += _of_size(where, size, samples)
    return found


def note(rows: list[dict[str, Any]]) -> str:
    """What stands under the table."""
    said = f"fp32; {rows[0]['timer']} on {rows[0]['device']}; GB/s of the bytes needed"
    if rows[0]["target"] == "cpu":
        said += "\nOn a CPU threads are simulated: these times are no signal of a GPU's"
    return said


@dataclass
class TransposeMethod:
    """One way to move numbers. call() leaves them at the beginning of the output.

    want: what it has to be; count: how many numbers that are.
    """

    op: str
    impl: str
    rung: str
    call: Call
    want: torch.Tensor

    @property
    def count(self) -> int:
        return self.want.numel()


def _of_size(where: torch.device, size: int, samples: int) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, size, generator=generator).to(where)
    y = torch.empty_like(x)
    found = []
    for one in _make_contenders(y, x):
        y.fill_(torch.nan)
        one.call()
        if not torch.equal(y.view(-1)[: one.count], one.want.reshape(-1)):
            raise RuntimeError(
                f"{one.impl} {one.op} {one.rung} is wrong for {size} x {size}"
            )
        timing = _time(one.call, where, samples)
        row = {
            **{"op": one.op, "impl": one.impl, "rung": one.rung, "precision": "fp32"},
            **{"target": where.type, "device": device_name(where)},
            **timing.row(),
            **{"rows": size, "cols": size, "count": one.count},
            "gbs": 2 * x.element_size() * one.count / timing.median / 1e3,
        }
        if one.op != "strided":
            row["vs_copy"] = (found or [row])[0]["us"] / timing.median
        found.append(row)
    return found


def _make_contenders(y: torch.Tensor, x: torch.Tensor) -> Iterator[TransposeMethod]:
    """The copy first; y, x (size,size)."""
    kernels = load_cuda(
        SOURCE.read_text(), target=x.device.type, name=SOURCE.name, inplace=True
    )
    size, out, flat = len(x), y.view(-1), x.view(-1)
    copy = functools.partial(
        kernels.copy[_count_blocks(flat), 256], out, flat, x.numel()
    )
    yield TransposeMethod("copy", "weft", "copy", copy, x)
    launch = kernels.copy_four[-(-_count_blocks(flat) // 4), 256]
    four = functools.partial(launch, out, flat, x.numel())
    yield TransposeMethod("copy", "weft", "four", four, x)
    yield TransposeMethod("copy", "torch", "copy_", lambda: y.copy_(x), x)
    tiles = -(-size // SIDE)
    for name in TRANSPOSES:
        block = SIDE, 8 if name == "four" else SIDE
        launch = getattr(kernels, f"transpose_{name}")[(tiles, tiles), block]
        call = functools.partial(launch, y, x, size, size)
        yield TransposeMethod("transpose", "weft", name, call, x.T)
    yield TransposeMethod("transpose", "torch", "copy_", lambda: y.copy_(x.T), x.T)
    for stride in STRIDES:
        part = flat[::stride]
        launch = kernels.copy_strided[_count_blocks(part), 256]
        call = functools.partial(launch, out, flat, part.numel(), stride)
        yield TransposeMethod("strided", "weft", f"stride {stride}", call, part)


def _count_blocks(numbers: torch.Tensor) -> int:
    return -(-numbers.numel() // 256)


def _time(call: Call, where: torch.device, samples: int) -> Timing:
    """The time of one call; on a GPU without what a launch costs."""
    if where.type == "cpu":
        return time_call(call, where, samples=min(samples, 5), warmup=1)
    call()  # compiled before it is recorded
    torch.cuda.synchronize(where)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            call()
    timing = time_call(graph.replay, where, samples)
    names = ("median", "low", "high", "mean")
    each = {name: getattr(timing, name) / LAUNCHES for name in names}
    return replace(timing, **each, timer=f"{timing.timer}, graph of {LAUNCHES}")
