"""Compare transposes with copies: `python -m weft bench transpose`.

The benchmark times the rungs of the ops copy and transpose, and PyTorch's, on one
square matrix. All use the same two arrays. On a GPU, it also times copies of every
stride-th number. A rung is timed only after its check. gbs is the rate in GB/s if each
number is read once and written once. vs_copy is the time of the plainest copy (one
float per thread, or plain C), divided by the row's. On a GPU the time covers only the
kernel, from a CUDA graph of several launches, and the matrix is larger than any cache.
On a CPU, only rungs in plain C are timed, since the times of simulated threads are
meaningless.

--device cuda; --sizes 8192: the side of the matrix; --rungs NAME,NAME: transposes.
`--counted` counts the transposes' bytes instead: see counted.py.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from ..cells import load_cuda
from ..ops.check import require
from ..timing import Timing, device_name, time_call
from ..timing.race import Contender
from ..timing.timers import time_graph
from ..toolchain import native

STRIDED = Path(__file__).with_name("strided.cu")
STRIDES = (1, 2, 4, 8, 16, 32)
PLAINEST = {"cuda": "word", "cpu": "reference"}  # rung of the copy that vs_copy uses
SIDE = 8192
SHOWN = ["op", "impl", "rung", "rows", "cols", "us", "us_low", "us_high", "gbs"]
SHOWN += ["vs_copy"]
LAUNCHES = 10  # launches in one graph


def rows_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows for the options of the command line."""
    sizes = [int(size) for size in args.sizes.split(",") if size]
    rungs = [name for name in args.rungs.split(",") if name]
    return rows(args.device, sizes, rungs)


def rows(
    device: str = "cpu",
    sizes: Sequence[int] = (),
    rungs: Sequence[str] = (),
    samples: int = 30,
) -> list[dict[str, Any]]:
    """Check and time the copies, the transposes and, on a GPU, the strided copies.

    sizes: sides of square matrices; if empty, 8192. rungs: names of transposes; if
    empty, all that run on `device`. Raises ValueError for a side below 1 or an unknown
    rung, NotChecked for a wrong rung, and RuntimeError for another wrong result.
    """
    where = torch.device(device)
    results = []
    for size in sizes or (SIDE,):
        if size < 1:
            raise ValueError(f"--sizes {size}: the side of a matrix must be at least 1")
        results += _time_size(where, size, rungs, samples)
    return results


def note(rows: list[dict[str, Any]]) -> str:
    """Return the text below the table."""
    return f"fp32; {rows[0]['timer']} on {rows[0]['device']}; GB/s of the bytes needed"


def _time_size(
    where: torch.device, size: int, rungs: Sequence[str], samples: int
) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(size, size, generator=generator).to(where)
    y = torch.empty_like(x)
    results = []
    for contender in _make_contenders(y, x, rungs):
        y.fill_(torch.nan)
        contender.call()
        op, impl, rung = contender.row.values()
        if not torch.equal(contender.out, contender.want.reshape(-1)):
            raise RuntimeError(f"{impl} {op} {rung} is wrong for {size} x {size}")
        timing = time_on(contender, where, samples)
        results.append(
            {
                **{**contender.row, "precision": "fp32"},
                **{"target": where.type, "device": device_name(where), **timing.row()},
                **{"rows": size, "cols": size, "count": contender.want.numel()},
                "gbs": contender.bytes / timing.median / 1e3,
            }
        )
    return _compare_with_copy(results, PLAINEST[where.type])


def _compare_with_copy(results: list[dict[str, Any]], rung: str) -> list[dict]:
    """Add vs_copy to the rows that move the whole matrix."""
    names = [(row["op"], row["rung"]) for row in results]
    us = results[names.index(("copy", rung))]["us"]
    return [
        row if row["op"] == "strided" else row | {"vs_copy": us / row["us"]}
        for row in results
    ]


def _make_contenders(
    y: torch.Tensor, x: torch.Tensor, rungs: Sequence[str]
) -> Iterator[Contender]:
    """Yield the copies, the transposes and the strided copies; y and x are (size,size).

    Each contender writes its result to the beginning of y.
    """

    out, flat = y.view(-1), x.view(-1)

    def make(op: str, impl: str, rung: str, call: Any, want: torch.Tensor) -> Contender:
        row, count = {"op": op, "impl": impl, "rung": rung}, want.numel()
        more = {"want": want, "bytes": 2 * x.element_size() * count}
        return Contender(call=call, row=row, out=out[:count], **more)

    for rung, call in _make_launches("copy", y, x, (), (x.numel(),)):
        yield make("copy", "weft", rung, call, x)
    yield make("copy", "torch", "copy_", lambda: y.copy_(x), x)
    for rung, call in _make_launches("transpose", y, x, rungs, x.shape):
        yield make("transpose", "weft", rung, call, x.T)
    yield make("transpose", "torch", "copy_", lambda: y.copy_(x.T), x.T)
    if x.is_cuda:
        for stride in STRIDES:
            part = flat[::stride]
            call = _make_strided(out, flat, part.numel(), stride)
            yield make("strided", "weft", f"stride {stride}", call, part)


def _make_launches(
    op: str, y: torch.Tensor, x: torch.Tensor, names: Sequence[str], sizes: Any
) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the name of each checked rung of an op, and its launch on these arrays."""
    lib = native.library(op, x.device.type)
    usable = [r for r in lib.here() if x.is_cuda or r.targets == ("cpu",)]
    pointers = [native.pointer(array, "float *") for array in (y, x)]

    def launch(index: int) -> None:
        stream = native.stream_of(x.device)
        lib.call(f"weft_{op}", index, *pointers, *sizes, stream)

    for rung in [lib.rung(name) for name in names] or usable:
        require(lib, rung)
        yield rung.name, functools.partial(launch, rung.index)


def _make_strided(
    y: torch.Tensor, x: torch.Tensor, count: int, stride: int
) -> Callable[[], Any]:
    kernels = load_cuda(STRIDED.read_text(), inplace=True, name=STRIDED.name)
    return functools.partial(
        kernels.copy_strided[-(-count // 256), 256], y, x, count, stride
    )


def time_on(contender: Contender, where: torch.device, samples: int) -> Timing:
    """Return the time of one call; on a GPU, this excludes the cost of a launch."""
    if where.type == "cpu":
        return time_call(contender.call, where, samples=samples)
    contender.call()  # this compiles the kernel before the graph records it
    return time_graph(contender.call, where, samples, LAUNCHES)
