"""How fast the rungs are, where their cycles go, and which wait for registers.

Where a product's cycles go, by ncu: rows of `bench tensor --rungs ncu`.

For each of four schedulers of a multiprocessor a cycle is one of four things: it starts
a multiply-add, starts another instruction, has warps and none that is ready, or has no
block at all.

Which multiply-adds of a rung wait for a register bank, counted in its SASS.

The registers of a thread lie in two banks, the even and the odd ones, and an
instruction that reads two different ones of the same bank takes a cycle more. One that
the instruction before has marked .reuse in the same place is still at hand and is not
read. A model, found by trying: it is too strict by some per cent.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from ...base.errors import BuildError
from ...base.style import (
    INK,
    OURS,
    READ,
    WRITTEN,
    fill_of,
    list_machines,
    reference_line,
)
from ...benchmarks.matmul import command
from ...benchmarks.matmul.comparison import (
    BETTER,
    committed_results,
    select_size,
    series_of,
    size_of,
)
from ...benchmarks.matmul.plot import ladder_plot
from ...benchmarks.plot_bodies import load_elsewhere
from ...benchmarks.tensor.command import STALLS
from ...see.machine_code import ptx, sass
from ...see.machine_code.instructions import CodeLoop, Instruction, KernelCode
from ...see.view import show_figure
from ...timing.peaks import ceilings
from ...timing.results import Row
from ...toolchain.build import nvcc
from ...toolchain.native import set_threads
from .code import rung_name, rung_path


def time_on_processor(
    rungs: Sequence[str], n: int, threads: int, seconds: float
) -> list[Row]:
    """Time rungs in plain C, NumPy and torch with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    set_threads(threads)
    try:
        return command.rows("cpu", [str(n)], rungs, rounds=5, seconds=seconds)
    finally:
        torch.set_num_threads(before)
        set_threads(before)


@functools.cache
def hot_loop(view: Callable[..., Any], rung: str) -> tuple[list[str], dict[str, int]]:
    """A rung's innermost loop in PTX or SASS, and its instructions of each kind.

    view: weft.ptx or weft.sass.
    """
    code = view(str(rung_path(rung)), f"matmul_{rung}", arch="sm_90").kernels[0].code
    loop = max(code.hot, key=lambda loop: code.counts(loop)["FMA"])
    return [code.instructions[i].text for i in loop.body], code.counts(loop)


def print_loop(rung: str) -> None:
    """Print what a rung's loop does for each multiply-add, in PTX and in SASS."""
    for view in ptx, sass:
        _, kinds = hot_loop(view, rung)
        each = {kind: count / kinds["FMA"] for kind, count in kinds.items()}
        others = sum(each.values()) - each["shared load"] - 1
        print(
            f"{rung:<14}{view.__name__:<5}{each['shared load']:5.2f} shared loads "
            f"{others:5.2f} others"
        )


def cycles_of(row: Row) -> dict[str, float]:
    """Per cent of all cycles, 100 in all; of a row of ncu whose product is in fp32."""
    running = row["active"] / row["elapsed"]
    added, started = row["fma_pipe"] * running, row["issue"] * running
    return {
        "multiply-adds": added,
        "other instructions": started - added,
        "none ready": 100 * running - started,
        "no block": 100 * (1 - running),
    }


def stalls_of(row: Row) -> dict[str, float]:
    """Per cent of a warp's time for each thing it waits for, the longest first.

    By ncu's words, limits.STALLS has ours. Without the time in which it was ready and
    another warp was chosen. {} for a row of before these were counted.
    """
    whole = row.get("warp_cycles") or math.nan
    found = {name: 100 * (row.get(f"stall_{name}") or 0) / whole for name in STALLS}
    found = {name: share for name, share in found.items() if share > 0}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def load_cycles() -> dict[str, list[Row]]:
    """What ncu counted of fp32 products, by size: our row and cuBLAS's."""
    counted: dict[str, list[Row]] = {}
    for row in (row for found in load_elsewhere("tensor")[:1] for row in found["rows"]):
        if row["op"] == "ncu" and row["precision"] == "fp32":
            where = f"{row['n']} x {row['k']} x {row['n']}"
            counted.setdefault(where, []).append(row)
    return counted


def print_cycles() -> None:
    """Print where the cycles of our products and of cuBLAS's go."""
    heads: list[str] = []
    for where, both in load_cycles().items():
        for row in both:
            shares = cycles_of(row)
            if not heads:
                heads = [*shares]
                print(f"{'% of cycles, ' + row['device']:<27}" + "  ".join(heads))
            columns = "  ".join(f"{shares[head]:>{len(head)}.1f}" for head in heads)
            more = f"  and {row['others_us']:.1f} µs of other kernels"
            print(
                f"{where:<20}{row['rung']:<7}{columns}" + more * (row["others_us"] > 0)
            )


def print_losses() -> None:
    """Print what costs our rung "tuned" most cycles, and what its warps wait for."""
    print("tuned: the largest loss, and how much faster it would be without")
    for where, (row, *_) in load_cycles().items():
        _, *losses = cycles_of(row).items()  # the first are multiply-adds
        name, most = max(losses, key=lambda loss: loss[1])
        print(f"{where:<20}{name}: {100 / (100 - most):.2f} times")
        stalls = [*stalls_of(row).items()][:3]
        causes = [f"{STALLS[stall]} {share:.0f} % ({stall})" for stall, share in stalls]
        waits = "  a warp spends its time waiting for " * bool(causes)
        print(waits + ", ".join(causes))


class Results:
    """Rows of `bench matmul`; each size is told by one machine alone.

    By this one if it has measured any product of that size, else by the first results
    that came along and have it: a ratio of two cards says nothing. What the machine
    that tells of a size has not measured there is NaN.

    rows: measured here, peaks too; more can be added to .rows. told: results as
    committed_results() has them; None: those.
    """

    def __init__(self, rows: Sequence[Row] = (), told: list[Any] | None = None):
        self.rows = list(rows)
        self.told = committed_results() if told is None else told

    def row(
        self, rung: str, size: int | str = 4096, precision: str = "fp32"
    ) -> Row | None:
        """The fastest row of a rung, or of "cublas", "torch", "numpy", at a size.

        None if the machine that tells of this size has not measured it. a and b lie as
        (m,k) and (k,n), or where the better layout counts (BETTER) as they like.
        """
        those = [
            row
            for row in self._find_rows(size)[1]
            if row["precision"] == precision and rung in (row["rung"], row["impl"])
            if row["layout"] == "nn" or precision in BETTER
        ]
        return min(those, key=lambda row: row["us"], default=None)

    def device(self, size: int | str = 4096) -> str:
        """The device that tells of a size; "" if nobody has measured it."""
        there = self._find_rows(size)[1]
        return there[0]["device"] if there else ""

    def ceilings(self, size: int | str = 4096) -> dict[str, float]:
        """The peaks of that device, as bench.peaks.ceilings() has them.

        "gbs", and TFLOP/s by precision; those that were not measured there lack.
        """
        machine, there = self._find_rows(size)
        told = [found["rows"] for found in self.told if found["machine"] is machine]
        return ceilings([*told, self.rows][0]) if there else {}

    def _find_rows(self, size: int | str) -> tuple[dict | None, list[Row]]:
        """The machine that tells of a size, None for this one, and its rows there."""
        sizes = size_of(str(size))
        for machine, rows in series_of(self.rows, self.told):
            if there := select_size(rows, sizes):
                return machine, there
        return None, []

    def tflops(
        self, rung: str, size: int | str = 4096, precision: str = "fp32"
    ) -> float:
        """Its TFLOP/s; NaN where row() is None."""
        row = self.row(rung, size, precision)
        return row["tflops"] if row else math.nan

    def us(self, rung: str, size: int | str = 4096, precision: str = "fp32") -> float:
        """Its time in microseconds; NaN where row() is None."""
        row = self.row(rung, size, precision)
        return row["us"] if row else math.nan

    def ladder(self, rungs: Sequence[str], size: int | str = 4096) -> None:
        """Draw the ladder with these rungs (and the reader's own) alone."""
        told = [
            {**found, "rows": _select_rungs(found["rows"], rungs)}
            for found in self.told
        ]
        rows = _select_rungs(self.rows, rungs)
        everywhere = [rows, *(found["rows"] for found in told)]
        there = any(select_size(found, size_of(str(size))) for found in everywhere)
        show_figure(ladder_plot(rows, told, str(size) if there else None))

    def source(self) -> str:
        """Where the numbers are from: this machine, or devices and dates."""
        here = list(dict.fromkeys(row["device"] for row in self.rows))
        told = list_machines(self.told)
        words = [f"here: {', '.join(here)}"] * bool(here)
        words += [f"came with the lab: {told}"] * bool(told)
        return "; ".join(words) or "nothing measured yet"


def draw_busy_shares(
    ax: Axes, busy_share: Callable[..., float], results: Results, processors: int
) -> None:
    """Draw the share of the multiprocessors' time that tiles of 128 columns use.

    Beside it what two rungs reach. busy_share: a function of n and of a tile's sides.
    """
    sizes = np.arange(256, 6145, 32)
    for rows, colour in (256, INK), (128, READ), (64, WRITTEN):
        shares = [100 * busy_share(n, rows, 128) for n in sizes]
        ax.plot(sizes, shares, label=f"{rows} x 128", **reference_line(colour))
    device, peak = results.device(), results.ceilings()["fp32"]
    look = {"mfc": fill_of(OURS, bool(results.rows)), "mec": OURS}
    for rung, mark in ("tma", "s"), ("tuned", "o"):
        known = [
            n
            for n in (1000, 1023, 1024, 2047, 2048, 3000, 4095, 4096, 4097, 6000)
            if results.row(rung, n) and results.device(n) == device
        ]
        speeds = [100 * results.tflops(rung, n) / peak for n in known]
        ax.plot(known, speeds, mark, label=f"{rung}, % of the peak ({device})", **look)
    label = f"m = k = n; lines: % of {processors} multiprocessors' time"
    ax.set(xlabel=label, ylabel="%", ylim=(0, 105))
    ax.legend(loc="lower right")


def _select_rungs(rows: Sequence[Row], rungs: Sequence[str]) -> list[Row]:
    """The rows of these rungs, of the reader's own and of the opponents."""
    return [
        row
        for row in rows
        if row["op"] == "matmul"
        and "m" in row
        and (row["rung"] in rungs or row["impl"] in ("mine", "cublas", "torch"))
    ]


# By nvcc 13.0 for sm_90: multiply-adds in a pass of the inner loop, those that wait.
COUNTED = {
    "registers_2d": (512, 375),
    "vectorised": (512, 152),
    "conflict_free": (512, 144),
    "warp_tiles": (512, 144),
    "double_buffer": (512, 369),
    "pipeline": (1024, 82),
    "tma": (1024, 55),
    "k_groups": (1024, 36),
}


@dataclass(frozen=True)
class RegisterWaits:
    """fmas: in a pass of the inner loop. waits: cycles lost there. told: whether the
    counts came with the lab."""

    fmas: int
    waits: int
    told: bool = False

    @property
    def ceiling(self) -> float:
        """The share of their peak that the multiply-adds can reach, 0 to 1."""
        return self.fmas / (self.fmas + self.waits)


def register_waits(rung: str | Path, told: bool = False) -> RegisterWaits:
    """Of a rung, compiled here, else as it was counted; BuildError if neither.

    rung: its name or the path of its file; of several kernels in it that with most
    registers. told: do not compile what was counted.
    """
    path = rung_path(rung)
    name = rung_name(path)
    try:
        if not nvcc() or (told and name in COUNTED):
            raise BuildError("not compiled")
        view = sass(str(path), f"matmul_{name}", arch="sm_90")
    except BuildError:
        if name in COUNTED:
            return RegisterWaits(*COUNTED[name], told=True)
        raise
    largest = max(view.kernels, key=lambda one: one.usage.registers)
    return counted(largest.code)


def counted(code: KernelCode) -> RegisterWaits:
    """Of the loop with most multiply-adds, in the order in which they stand.

    Those of loops inside it do not count: who waits for a barrier in the loop over k
    has a loop of its own there.
    """
    fmas = waits = 0
    kept: dict[int, str] = {}
    for one in max((_list_own_fmas(code, loop) for loop in code.loops), key=len):
        sources = re.findall(r"\b(R\d+)(\.reuse)?", one.text)[1:]
        read = {name for at, (name, _) in enumerate(sources) if kept.get(at) != name}
        odd = sum(int(name[1:]) % 2 for name in read)
        waits += max(0, max(odd, len(read) - odd) - 1)
        kept = {at: name for at, (name, reuse) in enumerate(sources) if reuse}
        fmas += 1
    return RegisterWaits(fmas, waits)


def _list_own_fmas(code: KernelCode, loop: CodeLoop) -> list[Instruction]:
    inner = (other.body for other in code.loops if other.body < loop.body)
    own = loop.body.difference(*inner)
    those = (code.instructions[index] for index in sorted(own))
    return [one for one in those if one.opcode == "FFMA"]
