"""Report the rungs' speeds, their use of cycles, and their waits for registers.

ncu counts the cycles of a product (rows of `bench tensor --rungs ncu`). In each cycle,
each of the four schedulers of a multiprocessor is in one of four states. It starts a
multiply-add, it starts another instruction, none of its warps is ready, or it has no
block.

counted() finds, in a rung's SASS, the multiply-adds that wait for a register bank. The
registers of a thread are in two banks, the even and the odd ones. An instruction that
reads two different registers of one bank takes one more cycle. A register that the
previous instruction marked .reuse in the same position is not read again. This model
was found by experiment, and is too strict by a few percent.
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
from ...benchmarks.tensor import STALLS
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
    default = torch.get_num_threads()
    torch.set_num_threads(threads)
    set_threads(threads)
    try:
        return command.rows("cpu", [str(n)], rungs, rounds=5, seconds=seconds)
    finally:
        torch.set_num_threads(default)
        set_threads(default)


@functools.cache
def hot_loop(view: Callable[..., Any], rung: str) -> tuple[list[str], dict[str, int]]:
    """Return a rung's innermost loop in PTX or SASS, and its instructions by kind.

    view: weft.ptx or weft.sass.
    """
    code = view(str(rung_path(rung)), f"matmul_{rung}", arch="sm_90").kernels[0].code
    loop = max(code.hot, key=lambda loop: code.counts(loop)["FMA"])
    return [code.instructions[i].text for i in loop.body], code.counts(loop)


def print_loop(rung: str) -> None:
    """Print a loop's instructions per multiply-add, in PTX and in SASS."""
    for view in ptx, sass:
        _, kinds = hot_loop(view, rung)
        ratios = {kind: count / kinds["FMA"] for kind, count in kinds.items()}
        loads = ratios["shared load"]
        others = f"{sum(ratios.values()) - loads - 1:5.2f} others"
        print(f"{rung:<14}{view.__name__:<5}{loads:5.2f} shared loads {others}")


def cycles_of(row: Row) -> dict[str, float]:
    """Return the percentage of cycles in each state, from ncu's row of a product."""
    running = row["active"] / row["elapsed"]
    added, started = row["fma_pipe"] * running, row["issue"] * running
    return {
        "multiply-adds": added,
        "other instructions": started - added,
        "none ready": 100 * running - started,
        "no block": 100 * (1 - running),
    }


def stalls_of(row: Row) -> dict[str, float]:
    """Return the percentage of a warp's time for each cause of waiting, longest first.

    The keys are ncu's names; STALLS maps them to ours. The time in which the warp was
    ready but another one was chosen is not included. {} for rows without counts.
    """
    cycles = row.get("warp_cycles") or math.nan
    shares = {name: 100 * (row.get(f"stall_{name}") or 0) / cycles for name in STALLS}
    shares = {name: share for name, share in shares.items() if share > 0}
    return dict(sorted(shares.items(), key=lambda fma: -fma[1]))


def load_cycles() -> dict[str, list[Row]]:
    """Return ncu's counts of fp32 products by size: our row and cuBLAS's."""
    counted: dict[str, list[Row]] = {}
    for row in (row for r in load_elsewhere("tensor")[:1] for row in r["rows"]):
        if row["op"] == "ncu" and row["precision"] == "fp32":
            title = f"{row['n']} x {row['k']} x {row['n']}"
            counted.setdefault(title, []).append(row)
    return counted


def print_cycles() -> None:
    """Print how our products and those of cuBLAS use the GPU's cycles."""
    heads: list[str] = []
    for size, pair in load_cycles().items():
        for row in pair:
            shares = cycles_of(row)
            if not heads:
                heads = [*shares]
                print(f"{'% of cycles, ' + row['device']:<27}" + "  ".join(heads))
            line = "  ".join(f"{shares[head]:>{len(head)}.1f}" for head in heads)
            if row["others_us"] > 0:
                line += f"  and {row['others_us']:.1f} µs of other kernels"
            print(f"{size:<20}{row['rung']:<7}{line}")


def print_losses() -> None:
    """Print the largest loss of cycles of our rung "tuned", and why its warps wait."""
    print("tuned: the largest loss, and the speedup without it")
    for size, (row, *_) in load_cycles().items():
        _, *losses = cycles_of(row).items()  # multiply-adds are not a loss
        name, worst = max(losses, key=lambda loss: loss[1])
        print(f"{size:<20}{name}: {100 / (100 - worst):.2f} times")
        stalls = [*stalls_of(row).items()][:3]
        causes = [f"{STALLS[stall]} {share:.0f} % ({stall})" for stall, share in stalls]
        waits = "  a warp spends its time waiting for " * bool(causes)
        print(waits + ", ".join(causes))


class Results:
    """Rows of `bench matmul`; all rows of one size come from one machine.

    A ratio between two cards would be meaningless. The machine of a size is the
    reader's if it has measured any product of that size. Otherwise, it is the machine
    of the first committed results that include the size. Products not measured on it
    are NaN.

    rows: rows measured here, including peaks; you may append to .rows. committed:
    results in the form of committed_results(); None selects the committed results.
    """

    def __init__(self, rows: Sequence[Row] = (), committed: list[Any] | None = None):
        self.rows = list(rows)
        self.committed = committed_results() if committed is None else committed

    def row(
        self, rung: str, size: int | str = 4096, precision: str = "fp32"
    ) -> Row | None:
        """Return the fastest row of a rung, "cublas", "torch" or "numpy" at a size.

        Returns None if the machine of this size has not measured it. a and b are stored
        as (m,k) and (k,n), except that any layout counts for a precision in BETTER.
        """
        matches = [
            row
            for row in self._find_rows(size)[1]
            if row["precision"] == precision and rung in (row["rung"], row["impl"])
            if row["layout"] == "nn" or precision in BETTER
        ]
        return min(matches, key=lambda row: row["us"], default=None)

    def device(self, size: int | str = 4096) -> str:
        """Return the device that measured a size; "" if there is none."""
        rows = self._find_rows(size)[1]
        return rows[0]["device"] if rows else ""

    def ceilings(self, size: int | str = 4096) -> dict[str, float]:
        """Return the peaks of the device that measured a size; see timing.peaks.

        The keys are "gbs" and the precisions (TFLOP/s) that were measured on it.
        """
        machine, rows = self._find_rows(size)
        tables = [r["rows"] for r in self.committed if r["machine"] is machine]
        return ceilings([*tables, self.rows][0]) if rows else {}

    def _find_rows(self, size: int | str) -> tuple[dict | None, list[Row]]:
        """Return the machine of a size (None: this one), and its rows of that size."""
        sizes = size_of(str(size))
        for machine, rows in series_of(self.rows, self.committed):
            if matches := select_size(rows, sizes):
                return machine, matches
        return None, []

    def tflops(
        self, rung: str, size: int | str = 4096, precision: str = "fp32"
    ) -> float:
        """Return a rung's TFLOP/s; NaN where row() is None."""
        row = self.row(rung, size, precision)
        return row["tflops"] if row else math.nan

    def us(self, rung: str, size: int | str = 4096, precision: str = "fp32") -> float:
        """Return a rung's time in microseconds; NaN where row() is None."""
        row = self.row(rung, size, precision)
        return row["us"] if row else math.nan

    def ladder(self, rungs: Sequence[str], size: int | str = 4096) -> None:
        """Draw the ladder with only these rungs and the reader's own."""
        elsewhere = [
            r | {"rows": _select_rungs(r["rows"], rungs)} for r in self.committed
        ]
        rows, sizes = _select_rungs(self.rows, rungs), size_of(str(size))
        everywhere = [rows, *(result["rows"] for result in elsewhere)]
        is_measured = any(select_size(r, sizes) for r in everywhere)
        show_figure(ladder_plot(rows, elsewhere, str(size) if is_measured else None))

    def source(self) -> str:
        """Return the source of the numbers: this machine, or devices and dates."""
        devices = list(dict.fromkeys(row["device"] for row in self.rows))
        machines = list_machines(self.committed)
        words = [f"here: {', '.join(devices)}"] * bool(devices)
        words += [f"came with the lab: {machines}"] * bool(machines)
        return "; ".join(words) or "nothing measured yet"


def draw_busy_shares(
    ax: Axes, busy_share: Callable[..., float], results: Results, processors: int
) -> None:
    """Draw the share of the multiprocessors' time that tiles of 128 columns use.

    Also draws the speeds of two rungs. busy_share: a function of n and a tile's sides.
    """
    sizes = np.arange(256, 6145, 32)
    for rows, colour in (256, INK), (128, READ), (64, WRITTEN):
        shares = [100 * busy_share(n, rows, 128) for n in sizes]
        ax.plot(sizes, shares, label=f"{rows} x 128", **reference_line(colour))
    device, peak = results.device(), results.ceilings()["fp32"]
    look = {"mfc": fill_of(OURS, bool(results.rows)), "mec": OURS}
    sides = (1000, 1023, 1024, 2047, 2048, 3000, 4095, 4096, 4097, 6000)
    here = [n for n in sides if results.device(n) == device]
    for rung, mark in ("tma", "s"), ("tuned", "o"):
        timed = [n for n in here if results.row(rung, n)]
        speeds = [100 * results.tflops(rung, n) / peak for n in timed]
        ax.plot(timed, speeds, mark, label=f"{rung}, % of the peak ({device})", **look)
    label = f"m = k = n; lines: % of {processors} multiprocessors' time"
    ax.set(xlabel=label, ylabel="%", ylim=(0, 105))
    ax.legend(loc="lower right")


def _select_rungs(rows: Sequence[Row], rungs: Sequence[str]) -> list[Row]:
    """Return the rows of these rungs, of the reader's rungs and of the opponents."""
    products = [row for row in rows if row["op"] == "matmul" and "m" in row]
    shown = ("mine", "cublas", "torch")
    return [row for row in products if row["rung"] in rungs or row["impl"] in shown]


# From nvcc 13.0 for sm_90: multiply-adds in a pass of the inner loop, cycles lost.
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
    """A rung's waits for registers. fmas: multiply-adds in a pass of the inner loop.
    waits: cycles lost in it. is_committed: whether the counts come from COUNTED."""

    fmas: int
    waits: int
    is_committed: bool = False

    @property
    def ceiling(self) -> float:
        """Return the fraction (0 to 1) of the peak that the loop can reach."""
        return self.fmas / (self.fmas + self.waits)


def register_waits(rung: str | Path, committed: bool = False) -> RegisterWaits:
    """Return a rung's waits, from its code compiled here or from COUNTED.

    rung: its name or the path of its file. If it has several kernels, the one with the
    most registers counts. committed: whether to prefer COUNTED to a compilation. Raises
    BuildError if the rung cannot be compiled and is not in COUNTED.
    """
    path = rung_path(rung)
    name = rung_name(path)
    try:
        if not nvcc() or (committed and name in COUNTED):
            raise BuildError("not compiled")
        view = sass(str(path), f"matmul_{name}", arch="sm_90")
    except BuildError:
        if name in COUNTED:
            return RegisterWaits(*COUNTED[name], is_committed=True)
        raise
    largest = max(view.kernels, key=lambda kernel: kernel.usage.registers)
    return counted(largest.code)


def counted(code: KernelCode) -> RegisterWaits:
    """Return the waits in the loop with the most multiply-adds, in program order.

    Inner loops do not count, since the loop over k contains a small loop for each wait
    for a barrier.
    """
    fmas = waits = 0
    reused: dict[int, str] = {}
    for fma in max((_list_own_fmas(code, loop) for loop in code.loops), key=len):
        sources = re.findall(r"\b(R\d+)(\.reuse)?", fma.text)[1:]
        names = {name for at, (name, _) in enumerate(sources) if reused.get(at) != name}
        odd = sum(int(name[1:]) % 2 for name in names)
        waits += max(0, max(odd, len(names) - odd) - 1)
        reused = {at: name for at, (name, reuse) in enumerate(sources) if reuse}
        fmas += 1
    return RegisterWaits(fmas, waits)


def _list_own_fmas(code: KernelCode, loop: CodeLoop) -> list[Instruction]:
    inner = (nested.body for nested in code.loops if nested.body < loop.body)
    indices = loop.body.difference(*inner)
    instructions = (code.instructions[index] for index in sorted(indices))
    return [fma for fma in instructions if fma.opcode == "FFMA"]
