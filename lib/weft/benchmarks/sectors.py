"""Time reads of equal sector counts: `python -m weft bench sectors --device cuda`.

Every row reads the same number of sectors of 32 bytes, each once, with the same number
of requests. A row's rung names the order of the sectors:

    in order   every sector, every 2nd or every 4th, ...: one per `stride` bytes
    scattered  runs of `run` bytes of adjacent sectors, spread over a `footprint`

The rows separate three effects that a count of sectors does not include:

    the fetch  if L2 fetches two sectors for a missing one, every 2nd sector in order
               arrives at half the speed of adjacent ones. `fetch` is the context's
               fetch limit in bytes, a hint that the driver may ignore. `usual` marks
               the default limit. A limit of 32 should prevent extra fetches
    DRAM rows  if opening a row of DRAM costs time, longer runs become faster up to the
               length of a row, in the smallest footprint
    the TLB    if a footprint has more pages than the TLBs can hold, its short runs
               are slower than those in the smallest footprint

tbs: terabytes of requested sectors per second. On a CPU, threads are simulated. The
sums are checked, but the times do not represent a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from ..cells import load_cuda
from ..cells.gpu import driver
from ..timing.results import Row, stamp_row
from ..timing.timers import bench as time_it

SOURCE = Path(__file__).with_suffix(".cu")
SECTOR = 32  # bytes per sector
EACH = 8  # sectors per thread, as in sectors.cu
THREADS = 256
WANTED = {"cuda": 1 << 23, "cpu": 1 << 11}  # sectors that a launch reads
LEAST = {"cuda": 1 << 29, "cpu": 1 << 17}  # bytes of the smallest footprint
MOST = {"cuda": 1 << 36, "cpu": 1 << 19}  # largest footprint to try, in bytes
ROOM = 0.9  # usable share of the free memory
RUNS = (1, 2, 4, 8, 32, 256, 2048)  # lengths of runs in sectors
FETCHES = (32, 64, 128)  # tested fetch limits in bytes
SECONDS = 0.3  # seconds of timing per row
SHOWN = ["rung", "fetch", "stride", "run", "footprint", "us", "us_low", "us_high"]
SHOWN += ["tbs"]


def rows_of(args: argparse.Namespace) -> list[Row]:
    """Return the rows for the options of the command line."""
    return rows(args.device)


def rows(device: str = "cpu", seconds: float = SECONDS) -> list[Row]:
    """Check and time every way to read the sectors.

    Raises RuntimeError for a wrong sum and ValueError if the smallest footprint does
    not fit into memory.
    """
    where = torch.device(device)
    x = torch.ones(_largest_footprint(where) // 4, device=where)
    timer, results = "graph" if where.type == "cuda" else "wall", []
    for fetch in FETCHES if where.type == "cuda" else (None,):
        with _fetch_limit(where, fetch) as (limit, usual):
            for names, call in _make_contenders(x):
                timing = time_it(call, timer=timer, device=where, seconds=seconds)
                sectors = WANTED[where.type]
                row = {"op": "sectors", "impl": "weft", "precision": "fp32"}
                row |= {"target": where.type, "device": timing.device, **names}
                row |= {"fetch": limit, "usual": usual, "sectors": sectors}
                row |= timing.row() | {"tbs": SECTOR * sectors / timing.us / 1e6}
                results.append(row | stamp_row())
    return results


def note(rows: list[Row]) -> str:
    """Return the text below the table."""
    text = f"{rows[0]['sectors']:,} sectors of {SECTOR} bytes per measurement; "
    text += f"stride, run, footprint and fetch in bytes; {rows[0]['device']}"
    if rows[0]["target"] == "cpu":
        text += "\nOn a CPU, threads are simulated: these times do not represent a GPU"
    return text


def _largest_footprint(where: torch.device) -> int:
    """Return the bytes of the largest footprint that fits in memory, a power of two."""
    least, most = LEAST[where.type], MOST[where.type]
    if where.type == "cuda":
        most = min(most, int(ROOM * torch.cuda.mem_get_info(where)[0]))
    if most < least:
        raise ValueError(f"bench sectors requires {least:,} bytes; {most:,} are free")
    return 1 << (most.bit_length() - 1)


def _list_footprints(largest: int, target: str) -> list[int]:
    """List footprints, each four times the previous one; the last is `largest`."""
    sizes, size = [], LEAST[target]
    while size < largest:
        sizes.append(size)
        size *= 4
    return [*sizes, largest]


def _make_contenders(x: torch.Tensor) -> Iterator[tuple[Row, Callable[[], object]]]:
    """Yield each row's names and its checked call; all elements of x must be 1."""
    target = x.device.type
    kernels = load_cuda(SOURCE.read_text(), target=target, name=SOURCE.name)
    sectors = WANTED[target]
    sums = torch.empty(sectors // EACH, device=x.device)
    blocks = len(sums) // THREADS

    def checked(kernel: str, *numbers: int) -> Callable[[], object]:
        launch = getattr(kernels, kernel)[blocks, THREADS]
        sums.fill_(torch.nan)
        launch(sums, x, *numbers)
        if not bool((sums == EACH).all()):
            raise RuntimeError(f"{kernel} {numbers} computed a wrong sum")
        return functools.partial(launch, sums, x, *numbers)

    bytes_of_x = 4 * x.numel()
    stride = 1
    while (footprint := stride * sectors * SECTOR) <= bytes_of_x:
        names = {"stride": SECTOR * stride, "run": None, "footprint": footprint}
        yield {"rung": "in order"} | names, checked("read_in_order", stride)
        stride *= 2
    for footprint in _list_footprints(bytes_of_x, target):
        for run in RUNS:
            slots = footprint // (SECTOR * run)
            bits = run.bit_length() - 1, slots.bit_length() - 1
            names = {"stride": None, "run": SECTOR * run, "footprint": footprint}
            yield {"rung": "scattered"} | names, checked("read_scattered", *bits)


@contextlib.contextmanager
def _fetch_limit(
    where: torch.device, wanted: int | None
) -> Iterator[tuple[int | None, bool]]:
    """Set the L2 fetch limit for the block; yield the limit and whether it is usual."""
    if wanted is None:
        yield None, True
        return
    with driver.use_device(where.index or 0):
        before = driver.limit("l2_fetch")
        driver.set_limit("l2_fetch", wanted)
        try:
            limit = driver.limit("l2_fetch")
            yield limit, limit == before
        finally:
            driver.set_limit("l2_fetch", before)
