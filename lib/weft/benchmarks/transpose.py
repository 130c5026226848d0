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

    with figure(9, 4) as ax:
        plot_transposes(ax, rows, load_elsewhere("transpose"))

The charts also draw rows of `weft bench sectors`. Filled marks were measured on this
machine; hollow marks are committed results.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes

from ..base import style as kit
from ..base.style import OPPONENT, READ, SHARED, THREAD, WRITTEN
from ..cells import load_cuda
from ..ops.check import require
from ..timing import Timing, device_name, time_call
from ..timing.race import Contender
from ..timing.results import ResultFile, Row
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


COLOURS = READ, SHARED, WRITTEN, THREAD, OPPONENT  # colours of the lines in one chart
NAMES = {  # (op, impl, rung) of a row: the text next to its bar
    ("copy", "weft", "byte"): "copy, a byte each",
    ("copy", "weft", "word"): "copy",
    ("copy", "weft", "four"): "copy, four each",  # measured before copy was an op
    ("copy", "weft", "vector"): "copy, 16 bytes each",
    ("copy", "weft", "bulk"): "bulk copy",
    ("copy", "torch", "copy_"): "torch's copy",
    ("transpose", "weft", "naive"): "naive",
    ("transpose", "weft", "tiled"): "tile",
    ("transpose", "weft", "padded"): "padded tile",
    ("transpose", "weft", "swizzled"): "swizzled tile",
    ("transpose", "weft", "strips"): "padded, four each",
    ("transpose", "weft", "wide"): "64 x 64, 16 bytes each",
    ("transpose", "weft", "tma"): "by TMA",
    ("transpose", "torch", "copy_"): "torch's transpose",
}


def plot_transposes(ax: Axes, rows: list[Row], others: list[ResultFile]) -> None:
    """Draw a bar for each copy and transpose: GB/s of the necessary bytes.

    The line marks 100 %: the fastest copy on the same card.
    """
    series = kit.list_series(rows, others)
    if not series:
        return kit.draw_unmeasured(ax, "transpose")
    rows_by_key = [{_key_of(row): row for row in measured} for _, measured in series]
    keys = [key for key in NAMES if any(key in by_key for by_key in rows_by_key)]
    height = 0.8 / len(series)
    for number, (by_key, (machine, _)) in enumerate(zip(rows_by_key, series)):
        look = kit.bar_look(READ, machine is None)
        copied = max(row["gbs"] for row in by_key.values() if row["op"] == "copy")
        ax.axvline(copied, **kit.reference_line(OPPONENT), zorder=0)
        for place, key in enumerate(keys):
            if key not in by_key:
                continue
            row, y = by_key[key], place + (number + 0.5) * height - 0.4
            ax.barh(y, row["gbs"], 0.85 * height, **look)
            text = f"{row['gbs']:,.0f} GB/s, {100 * row['gbs'] / copied:.0f} %"
            # A text outside the bar would cross the line.
            inside = row["gbs"] > 0.7 * copied
            side = {"right": -6, "ha": "right"} if inside else {}
            kit.label_beside(ax, text, (row["gbs"], y), fontsize=9, **side)
    most = max(row["gbs"] for by_key in rows_by_key for row in by_key.values())
    kit.name_lines(ax, [NAMES[key] for key in keys], -0.5, 0.5)
    label = "GB/s read and written, fp32 (right is better); % of the fastest copy"
    ax.set(xlim=(0, 1.05 * most), xlabel=label)


def plot_strides(ax: Axes, rows: list[Row], others: list[ResultFile]) -> None:
    """Draw GB/s of the necessary bytes if every 1st, 2nd, 4th ... number is copied."""
    series = kit.list_series(rows, others)
    if not series:
        return kit.draw_unmeasured(ax, "transpose")
    ax.set_xscale("log", base=2)
    for machine, part in series:
        name = machine["device"] if machine else "this machine"
        strided = [row for row in part if row["op"] == "strided"]
        strides = [int(row["rung"].partition(" ")[2]) for row in strided]
        speeds = [row["gbs"] for row in strided]
        look = {"color": READ, "mfc": kit.fill_of(READ, not machine), "ms": 7}
        ax.plot(strides, speeds, "o-", label=name, **look)
        for x, y in zip(strides, speeds):
            offset = {"textcoords": "offset points", "ha": "center", "fontsize": 9}
            above = 9 if machine else -16
            ax.annotate(f"{y:,.0f}", (x, y), (0, above), **offset)
    ax.set(xlabel="stride, in floats", ylabel="GB/s of numbers copied")
    top = ax.get_ylim()[1]
    ax.set_ylim(-0.08 * top, 1.15 * top)
    ax.set_xticks(strides, strides)
    ax.minorticks_off()
    ax.legend(loc="upper right")


def plot_distances(
    axes: Sequence[Axes], rows: list[Row], others: list[ResultFile]
) -> None:
    """Draw TB/s for equal numbers of sectors, read in order and in scattered runs.

    Reads in order have a line for each fetch limit. Scattered runs have a line for each
    footprint, at the usual limit.
    """
    series = kit.list_series(rows, others)
    if not series:
        for ax in axes:
            kit.draw_unmeasured(ax, "sectors")
        return
    for machine, part in series:
        ordered = [row for row in part if row["rung"] == "in order"]
        usual = {row["fetch"]: ", the usual" * row["usual"] for row in ordered}
        limits = {fetch: f"{fetch} bytes{text}" for fetch, text in usual.items()}
        _draw_lines(axes[0], ordered, "stride", "fetch", limits, not machine)
        runs = [row for row in part if row["run"] and row["usual"]]
        sizes = {row["footprint"]: f"{row['footprint'] / 2**30:g} GiB" for row in runs}
        _draw_lines(axes[1], runs, "run", "footprint", sizes, not machine)
    titles = "fetch limit", "scattered over"
    for ax, title, place in zip(axes, titles, ("upper right", "lower right")):
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
        ax.set_ylim(0)
        handles, names = ax.get_legend_handles_labels()
        # The legend has one entry per name, even if two cards share the name.
        unique = dict(zip(names, handles))
        ax.legend(unique.values(), unique.keys(), title=title, loc=place)
    axes[0].set(xlabel="bytes from sector to sector, in order")
    axes[0].set_ylabel("TB/s of requested sectors")
    axes[1].set(xlabel="bytes in a run, runs scattered")


def _draw_lines(
    ax: Axes, rows: list[Row], key: str, group: str, names: dict[int, str], local: bool
) -> None:
    """Draw the rows' speeds against `key`, with a line for each value of `group`."""
    for colour, value in zip(COLOURS, sorted(names)):
        points = sorted((r[key], r["tbs"]) for r in rows if r[group] == value)
        look = {"color": colour, "mfc": kit.fill_of(colour, local), "ms": 6, "lw": 1}
        ax.plot(*zip(*points), "o-", label=names[value], **look)


def measure_effects(rows: list[Row]) -> dict[str, float]:
    """Return, for each effect that sector counts do not show, a ratio of two speeds.

    rows: the rows of one card. Comparisons without the necessary rows are omitted.
    """
    ordered = {(r["fetch"], r["stride"]): r["tbs"] for r in rows if r["stride"]}
    runs = {(r["fetch"], r["run"], r["footprint"]): r["tbs"] for r in rows if r["run"]}
    usual = next(row["fetch"] for row in rows if row["usual"])
    small, large = (end({size for *_, size in runs}) for end in (min, max))
    longest, widest = max(run for _, run, _ in runs), max(gap for _, gap in ordered)
    lone = usual, 32, small
    ratios: dict[str, float] = {}

    def compare(name: str, speeds: dict[tuple, float], one: tuple, other: tuple):
        if one in speeds and other in speeds:
            ratios[name] = speeds[one] / speeds[other]

    for limit in (usual, 32):
        name = f"the fetch, in order, limit {limit}: 32 bytes apart vs 64"
        compare(name, ordered, (limit, 32), (limit, 64))
    for limit in (64, 128):
        name = f"the fetch, scattered sectors: limit {limit} vs 32"
        compare(name, runs, (limit, 32, small), (32, 32, small))
    for run in (64, 128, 256):
        name = f"neighbours: runs of {run} bytes vs 32"
        compare(name, runs, (usual, run, small), lone)
    name = f"neighbours: runs of {longest:,} bytes vs 256"
    compare(name, runs, (usual, longest, small), (usual, 256, small))
    name = "neighbours, in order, limit 32: 128 bytes apart vs 256"
    compare(name, ordered, (32, 128), (32, 256))
    name = f"a row of DRAM, in order, limit 32: 256 apart vs {widest:,}"
    compare(name, ordered, (32, 256), (32, widest))
    name = f"the TLB: scattered sectors in {small / 2**30:g} GiB vs {large / 2**30:g}"
    compare(name, runs, lone, (usual, 32, large))
    return ratios


def runs_a_second(rows: list[Row]) -> dict[int, float]:
    """Count the runs that begin per second, by run length in bytes.

    The function uses the rows with the smallest footprint and the GPU's usual fetch
    limit.
    """
    runs = [row for row in rows if row["run"] and row["usual"]]
    near = min(row["footprint"] for row in runs)
    return {
        r["run"]: 1e12 * r["tbs"] / r["run"] for r in runs if r["footprint"] == near
    }


def describe_sectors(rows: list[Row], others: list[ResultFile]) -> list[str]:
    """List each card's effects, as in measure_effects(), and its runs per second."""
    lines = []
    for card_rows in [rows] * bool(rows) + [results["rows"] for results in others]:
        lines.append(card_rows[0]["device"])
        for name, ratio in measure_effects(card_rows).items():
            lines.append(f"    {name:<60}{ratio:5.2f} times the speed")
        for size, count in [*runs_a_second(card_rows).items()][:4]:
            name = f"runs of {size} bytes begun per second"
            lines.append(f"    {name:<60}{count / 1e9:5.1f} * 10^9")
    return lines or [kit.describe_unmeasured("sectors")]


def strided_reads(copies: list[Row], sectors: list[Row]) -> list[tuple[float, ...]]:
    """Pair a card's strided copies with reads of as many sectors at equal distances.

    Each tuple is (distance in bytes, sectors, µs of the copy, µs of the reads, µs of
    the reads with fetch limit 32). At strides of at least 8, each number has a sector.
    """
    us = {
        (row["stride"], fetch): row["us"] / row["sectors"]
        for row in sectors
        for fetch in (row["fetch"], "usual" if row["usual"] else row["fetch"])
    }
    pairs = []
    for row in copies:
        distance = 4 * int(row["rung"].split()[1]) if row["op"] == "strided" else 0
        if (distance, 32) in us:
            count = row["count"]
            reads = (count * us[distance, fetch] for fetch in ("usual", 32))
            pairs.append((distance, count, row["us"], *reads))
    return pairs


def describe_copies(
    rows: list[Row],
    sectors: list[Row],
    others: list[ResultFile],
    other_sectors: list[ResultFile],
) -> list[str]:
    """Return a table of the strided reads of each card that has both kinds of rows."""
    pairs = [(rows, sectors)] * bool(rows and sectors)
    pairs += [
        (copy_results["rows"], sector_rows["rows"])
        for copy_results in others
        for sector_rows in other_sectors
        if copy_results["machine"]["device"] == sector_rows["machine"]["device"]
    ]
    lines = []
    for copies, sector_rows in pairs:
        lines += [sector_rows[0]["device"], "    bytes apart    sectors  µs: copy"]
        lines[-1] += "  reads alone  with a fetch of 32"
        for distance, count, *us in strided_reads(copies, sector_rows):
            copy, read, short = (f"{time:.1f}" for time in us)
            lines += [f"    {distance:>11}{count:>11,}{copy:>10}{read:>13}{short:>20}"]
    return lines


def make_caption(others: list[ResultFile], what: str = "transpose") -> str:
    """Return the names of the cards measured elsewhere, and the dates."""
    return kit.describe_hollow(others, what)


def _key_of(row: Row) -> tuple[str, str, str]:
    return row["op"], row["impl"], row["rung"]
