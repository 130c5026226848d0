"""The candidates of autotune(), and its result.

list_combinations() lists all combinations of the constants' values. Each Candidate has
a state. Tuned is the result: the winner, ready to launch, and a row per candidate.
"""

from __future__ import annotations

import html
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import timing
from ..base.errors import ArgumentError
from ..base.style import PRE
from ..base.text import count_things, round_number
from ..timing import STATISTIC, device_name, write_json
from ..timing.results import Row
from ..toolchain import launch_config

SHOWN = 12  # rows shown in the table
NOT_TIMED = (
    "not timed: on a processor a CUDA kernel's time is meaningless. This is the first "
    "of the right candidates:"
)
STATES = ("timed", "dropped", "right", "wrong", "pruned", "ready")


@dataclass(frozen=True)
class Tuned:
    """The result of autotune(): best(*args) launches the winner with its launch shape.

    The arrays must have the tuned shapes. name: the kernel's name. constants: the
    winner's constants; kernel: the winner, for launches with another grid; run: the
    winner with its grid and block. rows: a row for each candidate that `where` allows,
    in the lab's JSON format, best first; counts: the number of excluded candidates by
    reason. shapes: the arguments' shapes, with None for arguments other than arrays; ()
    if all shapes are allowed. cached: whether the result is from an earlier call.
    stopped: whether Ctrl-C ended the timing.
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
        for number, (want, value) in enumerate(zip(self.shapes, args)):
            if want is not None and tuple(getattr(value, "shape", want)) != want:
                raise ArgumentError(
                    f"{self.name}: argument {number + 1} has shape "
                    f"{tuple(value.shape)}, and the grid was tuned for {want}: tune "
                    f"for this size, or launch .kernel[grid, block](...)"
                )
        return self.run(*args)

    def __getitem__(self, name: str) -> Any:
        if name not in self.constants:
            names = ", ".join(self.constants)
            raise ArgumentError(f"{self.name} has no constant {name!r}; it has {names}")
        return self.constants[name]

    @property
    def row(self) -> Row:
        """The winner's row."""
        return self.rows[0]

    @property
    def us(self) -> float | None:
        """The winner's median time in microseconds; None if nothing is timed."""
        return self.row["us"]

    def plot(self) -> Any:
        """Draw time against each constant, in one panel each; a dot is a candidate."""
        # Imported lazily: matplotlib is slow to import.
        from .picture import draw_strips

        return draw_strips(self)

    def heat(self, x: str, y: str) -> Any:
        """Draw the best time for each pair of values of two constants, as a figure."""
        # Imported lazily: matplotlib is slow to import.
        from .picture import draw_heat

        return draw_heat(self, x, y)

    def save(self, path: str | Path) -> None:
        """Write all rows to a file in the lab's JSON format."""
        write_json(path, self.rows, self.target)

    def sentence(self) -> str:
        """Summarise the result in one line."""
        values = spell_candidate(self.constants)
        right = sum(row["state"] in ("timed", "dropped", "right") for row in self.rows)
        if self.us is None:
            return f"{self.name}: {values}, {NOT_TIMED} {right}"
        ending = "; stopped before the end" * self.stopped
        origin = "; from an earlier call (retune=True measures again)" * self.cached
        slow = max(_ratio_of(row, self.us) or 0.0 for row in self.rows)
        factor = f", {slow:.2g} times as fast as the slowest" * (slow >= 1.05)
        return (
            f"{self.name}: {values} takes {round_number(self.us)} µs, the best of "
            f"{count_things(right, 'candidate')}{factor}{ending}{origin}"
        )

    def notes(self) -> list[str]:
        """Return lines that list the excluded candidates by reason, and wrong ones."""
        lines = []
        excluded = {k: v for k, v in self.counts.items() if k != "wrong"}
        if excluded:
            text = ", ".join(f"{reason} {count}" for reason, count in excluded.items())
            lines.append(f"left out: {text}")
        lines += [
            f"WRONG, and so not timed: {row['rung']}: {row['why']}"
            for row in self.rows
            if row["state"] == "wrong"
        ]
        if self.us is not None:
            text = f"{self.row['device']}; timer {self.row['timer']}, warm; {STATISTIC}"
            lines.append(f"{text}; dropped: timed only roughly")
        return lines

    def table(self) -> str:
        """Format the best rows as text."""
        table_rows = [
            {**row["constants"], **row, "vs_best": _ratio_of(row, self.us)}
            for row in self.rows
            if row["state"] != "pruned"
        ]
        columns = [*self.constants, "us", "us_low", "us_high", "vs_best", "threads"]
        columns += ["registers", "shared", "occupancy", "state"]
        if self.us is None:
            columns = [c for c in columns if not c.startswith(("us", "vs"))]
        columns = [c for c in columns if any(r.get(c) is not None for r in table_rows)]
        text = timing.table(table_rows[:SHOWN], columns)
        more = len(table_rows) - SHOWN
        return text + (f"\n... and {more} more in .rows" if more > 0 else "")

    def __repr__(self) -> str:
        return "\n".join([self.sentence(), self.table(), *self.notes()])

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        text = "\n".join([self.table(), *self.notes()])
        chart = {} if self.us is None else self.plot()._repr_mimebundle_()
        picture = chart.get("text/html", "")
        return {
            "text/plain": repr(self),
            "text/html": f"<p><b>{html.escape(self.sentence())}</b></p>{picture}"
            f'<pre style="{PRE}">{html.escape(text)}</pre>',
        }


def rows_of(
    name: str, candidates: Sequence[Candidate], target: str, precision: str | None
) -> list[Row]:
    """Return a row for each candidate, with the best row first."""
    device = device_name(target)
    empty = dict.fromkeys(("timer", "us", "us_low", "us_high", "us_mean"))
    rows = []
    for one in candidates:
        row = {"op": name, "impl": "mine", "rung": str(one), "precision": precision}
        row |= {"target": target, "device": device}
        row |= one.timed.row() if one.timed else empty
        row |= {"constants": one.constants}
        if shape := one.shape:
            row |= {"grid": shape.grid, "block": shape.block, "threads": one.threads}
        row |= {"registers": one.registers, "shared": one.shared}
        row |= {"occupancy": one.occupancy, **one.more}
        rows.append(row | {"state": one.state, "why": one.why or None})
    return sorted(rows, key=_place)


def _place(row: Mapping[str, Any]) -> tuple:
    us = row["us"] if row["us"] is not None else row.get("us_at_sight", 0.0)
    return STATES.index(row["state"]), us


def _ratio_of(row: Row, best: float | None) -> float | None:
    us = row["us"] or row.get("us_at_sight")
    return us / best if us and best else None


# ---- combinations --------------------------------------------------------------------


MOST = 200_000  # a space of more combinations, before `where`, is probably a mistake
TRIED = f"at most {MOST} are tried"
Constants = dict[str, Any]


@dataclass
class Candidate:
    """One combination of values.

    shape: grid, block and bytes of dynamic shared memory; None: called as a function.
    state: "ready", then "pruned", "wrong", "dropped" (slow, so timed only roughly),
    "timed", or "right" (checked but not timed). reason: the cause of removal in a word
    or two; why: the cause in a sentence. registers (per thread), shared (bytes) and
    occupancy (0 to 1) are None if unknown.
    """

    constants: Constants
    shape: launch_config.LaunchConfig | None = None
    state: str = "ready"
    reason: str = ""
    why: str = ""
    kernel: Any = None
    run: Callable[..., Any] | None = None
    registers: int | None = None
    shared: int | None = None
    occupancy: float | None = None
    timed: Any = None
    more: dict[str, Any] = field(default_factory=dict)

    def out(self, state: str, reason: str, why: str) -> None:
        """Remove the candidate from the race."""
        self.state, self.reason, self.why = state, reason, why

    @property
    def threads(self) -> int | None:
        """The number of threads in a block; None without a launch shape."""
        return None if self.shape is None else math.prod(self.shape.block)

    def __str__(self) -> str:
        return spell_candidate(self.constants)


def spell_candidate(constants: Mapping[str, Any]) -> str:
    """Format constants, such as "BM=64 BN=128"."""
    return " ".join(f"{name}={value}" for name, value in constants.items())


def checked_space(space: Any) -> dict[str, tuple[Any, ...]]:
    """Return the space with a tuple of values for each name, or raise ArgumentError."""
    if not isinstance(space, Mapping) or not space:
        raise ArgumentError(
            f'space={space!r:.60}: expected names and values, e.g. {{"TILE": (16, 32)}}'
        )
    values_by_name: dict[str, tuple[Any, ...]] = {}
    for name, values in space.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(f"space: {name!r} is not a valid name of a constant")
        is_single = isinstance(values, str) or not isinstance(values, Iterable)
        # Expanding such a range could exhaust the memory.
        if isinstance(values, range) and len(values) > MOST:
            raise ArgumentError(f"space: {name} has {len(values)} values, {TRIED}")
        values_by_name[name] = tuple(dict.fromkeys([values] if is_single else values))
        if not values_by_name[name]:
            raise ArgumentError(f"space: {name} has no values")
        for value in values_by_name[name]:
            if not isinstance(value, (int, float, str)):
                text = f"space: {name} = {value!r}"
                raise ArgumentError(f"{text}: expected numbers, or strings of C")
    count = math.prod(len(values) for values in values_by_name.values())
    if count > MOST:
        raise ArgumentError(f"space: {count} combinations, {TRIED}")
    return values_by_name


def list_combinations(
    space: Mapping[str, Sequence[Any]], where: Callable[..., Any] | None
) -> tuple[list[Candidate], int]:
    """Return the candidates that `where` allows, and the number of excluded ones."""
    combos = [dict(zip(space, values)) for values in itertools.product(*space.values())]
    if where is None:
        return [Candidate(one) for one in combos], 0
    allowed = [Candidate(one) for one in combos if by_name("where", where, one)]
    return allowed, len(combos) - len(allowed)


def set_shape(name: str, one: Candidate, launch: Callable[..., Any] | None) -> None:
    """Set a candidate's grid and block from `launch`; prune those that CUDA refuses."""
    if launch is None:
        return
    key = by_name("launch", launch, one.constants)
    if not isinstance(key, tuple) or not 2 <= len(key) <= 3:
        raise ArgumentError(
            f"launch returned {key!r} for {one}: expected (grid, block), or (grid, "
            f"block, bytes of shared memory)"
        )
    try:
        one.shape = launch_config.parse(name, key)
    except ArgumentError as error:
        one.out("pruned", "not launchable", str(error).removeprefix(f"{name}: "))


def by_name(what: str, function: Callable[..., Any], constants: Constants) -> Any:
    """Call function(...) with the constants that its parameters name.

    what: the function's name in messages. Raises ArgumentError if a parameter is not a
    constant.
    """
    if not callable(function):
        text = f"{what}={function!r:.40}"
        raise ArgumentError(f"{text}: expected a function of the constants")
    parameters = inspect.signature(function).parameters.values()
    kwargs = {p.name: constants[p.name] for p in parameters if p.name in constants}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        kwargs = constants
    missing = [
        p.name
        for p in parameters
        if p.name not in constants
        and p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if missing:
        raise ArgumentError(
            f"{what} has the parameters {', '.join(missing)}; the constants of the "
            f"space are {', '.join(constants)}"
        )
    return function(**kwargs)


def parameters_in(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return a function's parameters; [] if Python cannot read its signature."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def require_some(candidates: Sequence[Candidate], excluded: int) -> None:
    """Raise ArgumentError, with a count for each reason, if no candidate is ready."""
    if any(one.state == "ready" for one in candidates):
        return
    counts = counts_of(candidates, excluded)
    reasons = ", ".join(f"{reason} {count}" for reason, count in counts.items())
    first = next((one for one in candidates if one.why), None)
    example = f"; e.g. {first}: {first.why}" if first else ""
    total = len(candidates) + excluded
    raise ArgumentError(f"none of {total} candidates is left ({reasons}){example}")


def counts_of(candidates: Sequence[Candidate], excluded: int) -> dict[str, int]:
    """Count the pruned, wrong and excluded candidates by reason."""
    counts = {"where": excluded} if excluded else {}
    for one in candidates:
        if one.state in ("pruned", "wrong"):
            counts[one.reason] = counts.get(one.reason, 0) + 1
    return counts
