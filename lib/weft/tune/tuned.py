"""What autotune() gives back: the winner, what became of all, and pictures of them.

Pictures of a tuning: time over each constant, and over two of them.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from .. import timing
from ..base.errors import ArgumentError
from ..base.style import (
    INCH,
    INK,
    OURS,
    PRE,
    fade_colour,
    style,
    write_caption,
    write_inline_svg,
)
from ..base.text import count_things, round_number
from ..timing import STATISTIC, device_name, write_json
from .space import Candidate, spell_candidate

Row = dict[str, Any]
ACROSS = 5  # panels in a line


class TuningPicture(Figure):
    """A figure that shows itself below a cell, as SVG in the page's own ink."""

    @staticmethod
    def of(width: float, height: float) -> TuningPicture:
        """One of so many SVG points."""
        return TuningPicture(
            figsize=(width / INCH, height / INCH), layout="constrained"
        )

    def _repr_html_(self) -> str:
        return write_inline_svg(self)


def draw_strips(tuned: Tuned) -> TuningPicture:
    """A panel for each constant that varies: a dot for each candidate, the best of each
    value on a line. Hollow: let go early; below, framed: how many were not timed."""
    names = [n for n in tuned.constants if len(_list_values(tuned.rows, n)) > 1]
    names = names or list(tuned.constants)[:1]
    timed = [row for row in tuned.rows if _time_of(row)]
    lines = -(-len(names) // ACROSS)
    with style():
        figure = TuningPicture.of(920, 60 + 250 * lines)
        if not timed:
            axes = figure.subplots()
            axes.text(0.5, 0.5, "nothing is timed on a processor", ha="center")
            axes.set_axis_off()
            return figure
        grid = figure.subplots(
            lines, min(ACROSS, len(names)), squeeze=False, sharey=True
        )
        every = grid.ravel()
        for axes, name in zip(every, names):
            _strip(axes, tuned, name)
        for axes in every[len(names) :]:
            axes.set_axis_off()
        for axes in grid[:, 0]:
            axes.set_ylabel("µs, down is better")
        _scale(every[0], [_time_of(row) for row in timed])
        _tell(
            figure,
            tuned,
            "diamond: the best; hollow: let go early; framed: how many were not timed",
        )
    return figure


def draw_heat(tuned: Tuned, x: str, y: str) -> TuningPicture:
    """The best time for each pair of values: a cell each, the winner's framed."""
    for name in (x, y):
        if name not in tuned.constants:
            known = ", ".join(tuned.constants)
            raise ArgumentError(f"there is no constant {name!r}; there are {known}")
    across, down = _list_values(tuned.rows, x), _list_values(tuned.rows, y)
    with style():
        figure = TuningPicture.of(
            min(920, 160 + 90 * len(across)), min(900, 130 + 56 * len(down))
        )
        axes = figure.subplots()
        best = tuned.us
        for i, at_x in enumerate(across):
            for j, at_y in enumerate(down):
                here = [
                    _time_of(row)
                    for row in tuned.rows
                    if row["constants"][x] == at_x
                    and row["constants"][y] == at_y
                    and _time_of(row)
                ]
                won = (tuned.constants[x], tuned.constants[y]) == (at_x, at_y)
                _draw_cell(axes, i, j, min(here, default=None), best, won)
        axes.set_xticks(range(len(across)), across)
        axes.set_yticks(range(len(down)), down)
        axes.set(xlim=(-0.5, len(across) - 0.5), ylim=(len(down) - 0.5, -0.5))
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.grid(False)
        _tell(figure, tuned, "µs; fuller is faster; empty: none timed")
    return figure


def _scale(axes: Axes, times: list[float]) -> None:
    """From 0, or, where times lie far apart, a log axis; room below for words."""
    low, high = min(times), max(times)
    if high < 4 * low:
        axes.set_ylim(-0.14 * high, 1.08 * high)
        ticks = [tick for tick in axes.get_yticks() if 0 <= tick <= 1.08 * high]
        axes.set_yticks(ticks)  # no time is below 0
        return
    axes.set_yscale("log")
    axes.set_ylim(low / (high / low) ** 0.25, high * 1.2)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda value, _: round_number(value))
    axes.yaxis.set_minor_locator(NullLocator())


def _strip(axes: Axes, tuned: Tuned, name: str) -> None:
    values = _list_values(tuned.rows, name)
    fastest = []
    for place, value in enumerate(values):
        rows = [row for row in tuned.rows if row["constants"][name] == value]
        times = [
            (_time_of(row), row["state"] == "timed") for row in rows if _time_of(row)
        ]
        for us, known in times:
            fill = fade_colour(OURS) if known else "none"
            axes.plot(place, us, "o", mec=OURS, mfc=fill, ms=6, mew=1.1)
        fastest.append(min((us for us, _ in times), default=np.nan))
        if missing := len(rows) - len(times):
            axes.text(
                *(place, 0.02, f"{missing}"),
                transform=axes.get_xaxis_transform(),
                **{"ha": "center", "va": "bottom", "fontsize": 9, "color": INK},
                bbox={"boxstyle": "round", "fc": "none", "ec": INK, "lw": 0.6},
            )
    axes.plot(range(len(values)), fastest, "-", color=OURS, lw=1.2, zorder=1)
    won = values.index(tuned.constants[name])
    axes.plot(won, fastest[won], "D", color=OURS, ms=9, zorder=3)
    axes.annotate(
        *(f"{round_number(fastest[won])} µs", (won, fastest[won])),
        **{"xytext": (0, -16), "textcoords": "offset points", "ha": "center"},
    )
    axes.set_xticks(range(len(values)), values)
    axes.set_xlim(-0.6, len(values) - 0.4)
    axes.set_xlabel(name)


def _draw_cell(
    axes: Axes, i: int, j: int, us: float | None, best: float | None, won: bool
) -> None:
    strength = best / us if us and best else 0.0
    look: dict[str, Any] = {"ec": INK, "fc": "none", "lw": 0.5}
    if us:
        look = {
            "ec": OURS,
            "fc": (*fade_colour(OURS)[:3], 0.05 + 0.5 * strength**2),
            "lw": 1,
        }
    if won:
        look["lw"] = 3.5
    axes.add_patch(Rectangle((i - 0.46, j - 0.46), 0.92, 0.92, **look))
    text = round_number(us) if us else "–"
    axes.text(i, j, text, ha="center", va="center", fontsize=11)


def _tell(figure: Figure, tuned: Tuned, marks: str) -> None:
    row = tuned.row
    write_caption(
        figure,
        f"{tuned.name}, {row['precision']}; {row['device']}; timer {row['timer']}, "
        f"{STATISTIC}; {marks}",
    )


def _list_values(rows: list[Row], name: str) -> list[Any]:
    found = dict.fromkeys(row["constants"][name] for row in rows)
    try:
        return sorted(found)
    except TypeError:  # numbers and words
        return list(found)


def _time_of(row: Row) -> float | None:
    return row["us"] or row.get("us_at_sight")


SHOWN = 12  # rows of the table
NOT_TIMED = (
    "not timed: on a processor a CUDA kernel's time says nothing. Shown is the first "
    "of those that are right:"
)
STATES = ("timed", "dropped", "right", "wrong", "pruned", "ready")


@dataclass(frozen=True)
class Tuned:
    """Made by autotune(). best(*args) launches the winner in its grid and block, on
    arrays of the shapes that were tuned for.

    name: the kernel's. constants: the winner's; kernel: launch it in another grid.
    rows: a row for each candidate that `where` allows, as the lab's JSON has them, best
    first; counts: how many are out, by reason. shapes: of the arguments, None for what
    is no array; () where any will do. cached: found before. stopped: by Ctrl-C.
    """

    name: str
    constants: dict[str, Any]
    kernel: Any
    run: Any
    rows: list[Row]
    counts: dict[str, int]
    target: str
    shapes: tuple[Any, ...] = ()
    cached: bool = False
    stopped: bool = False

    def __call__(self, *args: Any) -> Any:
        __tracebackhide__ = True
        for number, (wanted, value) in enumerate(zip(self.shapes, args)):
            if wanted is not None and tuple(getattr(value, "shape", wanted)) != wanted:
                raise ArgumentError(
                    f"{self.name}: argument {number + 1} has shape "
                    f"{tuple(value.shape)}, and the grid was tuned for {wanted}: tune "
                    f"for this size, or launch .kernel[grid, block](...)"
                )
        return self.run(*args)

    def __getitem__(self, name: str) -> Any:
        if name not in self.constants:
            raise ArgumentError(
                f"{self.name} has no constant {name!r}; it has "
                f"{', '.join(self.constants)}"
            )
        return self.constants[name]

    @property
    def row(self) -> Row:
        """The winner's row."""
        return self.rows[0]

    @property
    def us(self) -> float | None:
        """Microseconds of the winner; None where nothing is timed."""
        return self.row["us"]

    def plot(self) -> Any:
        """Time over each constant: a figure of strips, a dot for each candidate."""

        return draw_strips(self)

    def heat(self, x: str, y: str) -> Any:
        """The best time for each pair of values of two constants, as a figure."""

        return draw_heat(self, x, y)

    def save(self, path: str | Path) -> None:
        """Write all rows as the lab's JSON."""
        write_json(path, self.rows, self.target)

    def sentence(self) -> str:
        """What came out, in one line."""
        named = spell_candidate(self.constants)
        right = sum(row["state"] in ("timed", "dropped", "right") for row in self.rows)
        if self.us is None:
            return f"{self.name}: {named}, {NOT_TIMED} {right}"
        ended = "; stopped before the end" * self.stopped
        known = "; found before, retune=True measures again" * self.cached
        slow = max(_ratio_of(row, self.us) or 0.0 for row in self.rows)
        factor = f", {slow:.2g} times as fast as the slowest" * (slow >= 1.05)
        return (
            f"{self.name}: {named} takes {round_number(self.us)} µs, the best of "
            f"{count_things(right, 'candidate')}{factor}{ended}{known}"
        )

    def notes(self) -> list[str]:
        """What was not timed, and why; what is wrong, by name."""
        lines = []
        out = {k: v for k, v in self.counts.items() if k != "wrong"}
        if out:
            told = ", ".join(f"{reason} {count}" for reason, count in out.items())
            lines.append(f"left out: {told}")
        lines += [
            f"WRONG, and so not timed: {row['rung']}: {row['why']}"
            for row in self.rows
            if row["state"] == "wrong"
        ]
        first = self.row
        if first["us"] is not None:
            lines.append(
                f"{first['device']}; timer {first['timer']}, warm; {STATISTIC}; "
                f"dropped: timed roughly, then let go"
            )
        return lines

    def table(self) -> str:
        """The best rows as text."""
        names = [*self.constants]
        shown = [
            {**row["constants"], **row, "vs_best": _ratio_of(row, self.us)}
            for row in self.rows
            if row["state"] != "pruned"
        ]
        columns = [*names, "us", "us_low", "us_high", "vs_best", "threads"]
        columns += ["registers", "shared", "occupancy", "state"]
        if self.us is None:
            columns = [c for c in columns if not c.startswith(("us", "vs"))]
        known = [c for c in columns if any(r.get(c) is not None for r in shown)]
        text = timing.table(shown[:SHOWN], known)
        more = len(shown) - SHOWN
        return text + (f"\n... and {more} more in .rows" if more > 0 else "")

    def __repr__(self) -> str:
        return "\n".join([self.sentence(), self.table(), *self.notes()])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = "\n".join([self.table(), *self.notes()])
        picture = "" if self.us is None else self.plot()._repr_html_()
        return {
            "text/plain": repr(self),
            "text/html": f"<p><b>{html.escape(self.sentence())}</b></p>{picture}"
            f'<pre style="{PRE}">{html.escape(text)}</pre>',
        }


def rows_of(
    name: str,
    candidates: Sequence[Candidate],
    target: str,
    precision: str | None,
) -> list[Row]:
    """A row for each candidate, the best first."""
    device = device_name(target)
    none = dict.fromkeys(("timer", "us", "us_low", "us_high", "us_mean"))
    rows = []
    for one in candidates:
        rows.append(
            {
                **{"op": name, "impl": "mine", "rung": str(one)},
                **{"precision": precision, "target": target, "device": device},
                **(one.timed.row() if one.timed else none),
                **{"constants": one.constants, **_make_row(one)},
                **{"registers": one.registers, "shared": one.shared},
                **{"occupancy": one.occupancy, **one.more},
                **{"state": one.state, "why": one.why or None},
            }
        )
    return sorted(rows, key=_place)


def _make_row(one: Candidate) -> Row:
    if one.shape is None:
        return {}
    return {"grid": one.shape.grid, "block": one.shape.block, "threads": one.threads}


def _place(row: Mapping[str, Any]) -> tuple:
    us = row["us"] if row["us"] is not None else row.get("us_at_sight", 0.0)
    return STATES.index(row["state"]), us


def _ratio_of(row: Row, best: float | None) -> float | None:
    us = row["us"] or row.get("us_at_sight")
    return us / best if us and best else None
