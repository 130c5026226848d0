"""Charts of `weft bench transpose` and `weft bench sectors`: of this GPU, and others.

    with figure(9, 4) as ax:
        transposes(ax, rows, elsewhere("transpose"))

Full is what was measured here, hollow what was measured elsewhere and came
with the lab, in notebooks/results/. rows: of a GPU, or none: a CPU's times are no
signal. A chart for which nothing was measured anywhere says how that is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes

from ..figures.style import (
    OPPONENT,
    READ,
    SHARED,
    THREAD,
    WRITTEN,
    draw_unmeasured,
    hollow,
    outlined,
    reference,
    unmeasured,
)

Row = dict[str, Any]
Found = dict[str, Any]  # as bench.read_json() has it: "machine" and "rows"
NAMES = {  # (op, impl, rung) of a row: what stands beside its bar
    ("copy", "weft", "copy"): "copy",
    ("copy", "weft", "four"): "copy, four each",
    ("copy", "torch", "copy_"): "torch's copy",
    ("transpose", "weft", "naive"): "naive",
    ("transpose", "weft", "tiled"): "tile",
    ("transpose", "weft", "padded"): "padded tile",
    ("transpose", "weft", "swizzled"): "swizzled tile",
    ("transpose", "weft", "four"): "padded, four each",
    ("transpose", "torch", "copy_"): "torch's transpose",
}


def transposes(ax: Axes, rows: list[Row], others: list[Found]) -> None:
    """A bar for each copy and transpose: GB/s of the bytes that are needed.

    The line, and 100 %, is the fastest copy of the same card.
    """
    series = [(rows, outlined(READ))] * bool(rows)
    series += [(found["rows"], hollow(READ)) for found in others]
    if not series:
        return draw_unmeasured(ax, "transpose")
    named = [{_key(row): row for row in rows} for rows, _ in series]
    keys = [key for key in NAMES if any(key in found for found in named)]
    height = 0.8 / len(series)
    for number, (found, (_, look)) in enumerate(zip(named, series)):
        copied = max(row["gbs"] for row in found.values() if row["op"] == "copy")
        ax.axvline(copied, **reference(OPPONENT), zorder=0)
        for place, key in enumerate(keys):
            if key not in found:
                continue
            row, y = found[key], place + (number + 0.5) * height - 0.4
            ax.barh(y, row["gbs"], 0.85 * height, **look)
            text = f"{row['gbs']:,.0f} GB/s, {100 * row['gbs'] / copied:.0f} %"
            beside = {"textcoords": "offset points", "va": "center", "fontsize": 9}
            ax.annotate(text, (row["gbs"], y), (6, 0), **beside)
    most = max(row["gbs"] for found in named for row in found.values())
    ax.set(
        **{"yticks": range(len(keys)), "yticklabels": [NAMES[key] for key in keys]},
        **{"ylim": (len(keys) - 0.5, -0.5), "xlim": (0, 1.25 * most)},
        xlabel="GB/s read and written, fp32 (right is better); % of the fastest copy",
    )


def strides(ax: Axes, rows: list[Row], others: list[Found]) -> None:
    """GB/s of the bytes needed when every 1st, 2nd, 4th ... number is copied."""
    series = [(rows, "this machine", READ)] * bool(rows)
    series += [(f["rows"], f["machine"]["device"], "none") for f in others]
    if not series:
        return draw_unmeasured(ax, "transpose")
    ax.set_xscale("log", base=2)
    for rows, name, inside in series:
        found = [row for row in rows if row["op"] == "strided"]
        where = [int(row["rung"].partition(" ")[2]) for row in found]
        speeds = [row["gbs"] for row in found]
        ax.plot(where, speeds, "o-", color=READ, mfc=inside, ms=7, label=name)
        for x, y in zip(where, speeds):
            offset = {"textcoords": "offset points", "ha": "center", "fontsize": 9}
            above = 9 if inside == "none" else -16
            ax.annotate(f"{y:,.0f}", (x, y), (0, above), **offset)
    ax.set(xlabel="stride, in floats", ylabel="GB/s of numbers copied")
    top = ax.get_ylim()[1]
    ax.set_ylim(-0.08 * top, 1.15 * top)
    ax.set_xticks(where, where)
    ax.minorticks_off()
    ax.legend(loc="upper right")


def distances(axes: Sequence[Axes], rows: list[Row], others: list[Found]) -> None:
    """TB/s of equally many sectors: in order, and in runs all over a footprint."""
    series = [(rows, True)] * bool(rows) + [(f["rows"], False) for f in others]
    if not series:
        for ax in axes:
            draw_unmeasured(ax, "sectors")
        return
    for found, here in series:
        usual = [row for row in found if row["usual"]]
        ordered = [row for row in usual if row["rung"] == "in order"]
        _over(axes[0], ordered, "stride", READ, here)
        sizes = sorted({r["footprint"] for r in usual if r["rung"] == "scattered"})
        for colour, size in zip((READ, SHARED, WRITTEN, THREAD, OPPONENT), sizes):
            runs = [r for r in usual if r["run"] and r["footprint"] == size]
            _over(axes[1], runs, "run", colour, here)
            end = max(runs, key=lambda row: row["run"])
            beside = {"textcoords": "offset points", "fontsize": 9, "color": colour}
            name = f"{size / 2**30:g} GiB"
            axes[1].annotate(name, (end["run"], end["tbs"]), (8, -3), **beside)
    for ax in axes:
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(lambda size, _: f"{size:,.0f}")
        ax.set_ylim(0)
    axes[0].set(xlabel="bytes from sector to sector, in order")
    axes[0].set_ylabel("TB/s of wanted sectors")
    axes[1].set(xlabel="bytes in a run, runs scattered")


def _over(ax: Axes, rows: list[Row], key: str, colour: str, here: bool) -> None:
    """The speeds of rows over one of their numbers, on a line."""
    points = sorted((row[key], row["tbs"]) for row in rows)
    inside = colour if here else "none"
    ax.plot(*zip(*points), "o-", color=colour, mfc=inside, ms=6, lw=1)


def shares(rows: list[Row], others: list[Found]) -> list[str]:
    """Which part each thing has that a count of sectors leaves out, in a line each."""
    told = []
    for found in [rows] * bool(rows) + [found["rows"] for found in others]:
        speed = {
            (row["fetch"], row["run"], row["footprint"]): row["tbs"]
            for row in found
            if row["run"]
        }
        usual = next(row["fetch"] for row in found if row["usual"])
        near, far = (end({size for _, _, size in speed}) for end in (min, max))
        longest = max(run for _, run, _ in speed)
        pairs = {
            "the fetch: runs of 64 bytes over runs of 32": ((64, near), (32, near)),
            f"rows of DRAM: runs of {longest:,} bytes over runs of 64": (
                (longest, near),
                (64, near),
            ),
            f"the TLB: runs of 64 bytes in {near / 2**30:g} GiB over {far / 2**30:g}": (
                (64, near),
                (64, far),
            ),
        }
        told.append(found[0]["device"])
        for name, (one, other) in pairs.items():
            ratio = speed[usual, *one] / speed[usual, *other]
            told.append(f"    {name:<58}{ratio:5.2f} times the speed")
    return told or [unmeasured("sectors")]


def caption(others: list[Found], what: str = "transpose") -> str:
    """Which cards were measured elsewhere, and when."""
    told = [f"{f['machine']['device']}, {f['machine']['date']}" for f in others]
    return f"hollow: {'; '.join(told)}" if told else unmeasured(what)


def _key(row: Row) -> tuple[str, str, str]:
    return row["op"], row["impl"], row["rung"]
