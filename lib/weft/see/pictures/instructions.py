"""From the simulator's trace to the instructions that each warp issues.

A GPU's compiler is not asked: one instruction stands for each access to global or
shared memory, one for each statement that computes something (an operator or a call
outside of an index), and one for each barrier. Indices and the turns of a `for` loop
are free, local arrays lie in registers. An instruction waits for the names it uses.
As a compiler does, loads move to the front of a straight piece of code, but not past a
store to the same kind of memory; turns of a loop do not overlap (`#pragma unroll 1`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...pykernel.sim.record import (
    ATOMIC,
    GLOBAL,
    LOCAL,
    READ,
    SHARED,
    STEP,
    WRITE,
    Site,
    Trace,
)
from ...pykernel.sim.warp import WARP
from ...report.model import Report
from .statements import Statement, Statements
from .steps import loops_of, steps_of

ARITHMETIC, STORE, BARRIER = "arithmetic", "store", "barrier"


@dataclass(frozen=True)
class Instruction:
    """What a warp issues: GLOBAL, SHARED (loads), ARITHMETIC, STORE or BARRIER.

    after: the numbers of the warp's instructions whose results it needs. line: of the
    source; 0 for a barrier.
    """

    kind: str
    after: tuple[int, ...] = ()
    line: int = 0


Program = tuple[Instruction, ...]


def programs(trace: Trace, report: Report | None, most: int) -> list[list[Program]]:
    """For each block the instructions of its warps, of each the first `most`.

    A block whose warps do as those of another one has the same list of them.
    """
    sources = list(report.sources) if report else []
    loops = [line for s in sources[:1] for line in loops_of(s.text, s.first)]
    writer = _Writer(trace, Statements(sources), most)
    warps = -(-int(np.prod(trace.block)) // WARP)
    parts: dict[int, list] = {}
    for part in trace.intervals:
        parts.setdefault(part.block, []).append(part)
    known: dict[tuple, Program] = {}
    found = []
    for block in sorted(parts):
        made = []
        for warp in range(warps):
            ways = tuple(
                _follow_path(p, trace.sites, loops, warp) for p in parts[block]
            )
            if ways not in known:
                known[ways] = writer.program(ways)
            made.append(known[ways])
        found.append(made)
    return found


def _follow_path(
    part, sites: Sequence[Site], loops: Sequence[tuple[int, int]], warp: int
) -> tuple[int, ...]:
    """The sites that a warp comes to in an interval, in order."""
    rows = part.thread // WARP == warp
    thread, site = part.thread[rows], part.site[rows]
    if not len(site):
        return ()
    lanes, lengths = np.unique(thread, return_counts=True)
    if (lengths == lengths[0]).all() and (np.diff(thread) != 0).sum() == len(lanes) - 1:
        table = site.reshape(len(lanes), -1)
        if (table == table[0]).all():
            return tuple(table[0].tolist())
    return tuple(s.site for s in steps_of([part], sites, loops, warp, every=True))


class _Writer:
    """Writes the programs of a launch's warps."""

    def __init__(self, trace: Trace, statements: Statements, most: int) -> None:
        self.sites, self.arrays = trace.sites, trace.arrays
        self.statements, self.most = statements, most

    def program(self, ways: Sequence[Sequence[int]]) -> Program:
        """The instructions of a warp that goes these ways between its barriers."""
        self.out: list[Instruction] = []
        self.made: dict[str, tuple[int, ...]] = {}
        self.decided: tuple[int, ...] = ()
        self.ahead: list[Statement] = []  # of the piece of code that was entered last
        self.stored: dict[str, int] = {}  # the last store by kind of memory
        self.begun = 0  # where the straight piece of code begins
        for number, way in enumerate(ways):
            if number:
                self._add_instruction(BARRIER, ())
                self._settle_access()
            self._write_interval(way)
            self._settle_access()
            if len(self.out) >= self.most:
                break
        return tuple(self.out[: self.most])

    def _write_interval(self, way: Sequence[int]) -> None:
        now: Statement | None = None
        accesses: list[Site] = []
        for number in way:
            site = self.sites[number]
            if site.kind == STEP:
                self._write_statement(now, accesses)
                now, accesses = None, []
                self._write_rest()
                self._settle_access()
                here = self.statements.within(site.file, site.line, site.last)
                self.ahead = [*here]
            else:
                its = self.statements.at(site.file, site.line)
                if its is None or its is not now:
                    self._write_statement(now, accesses)
                    now, accesses = its, []
                    while its in self.ahead:
                        before = self.ahead.pop(0)
                        if before is not its:
                            self._write_statement(before, ())
                accesses.append(site)
                if its is None:
                    self._write_statement(None, accesses)
                    accesses = []
            if len(self.out) >= self.most:
                return
        self._write_statement(now, accesses)
        self._write_rest()

    def _write_rest(self) -> None:
        """The statements that are left of a piece of code, up to a barrier in it."""
        while self.ahead:
            one = self.ahead.pop(0)
            if one.waits:
                return
            self._write_statement(one, ())

    def _write_statement(self, of: Statement | None, accesses: Sequence[Site]) -> None:
        """Loads, then what is computed of them, then stores."""
        if of is None and not accesses:
            return
        of = of or Statement(0, 0, computes=False)
        touched = [s for s in accesses if self.arrays[s.array].space != LOCAL]
        loads: list[int] = []
        for site in touched:
            if site.kind == READ:
                space = self.arrays[site.array].space
                loads.append(
                    self._add_instruction(
                        space, self._write_index(of, site, loads), site.line
                    )
                )
        value = {*loads, *(n for name in of.uses for n in self.made.get(name, ()))}
        if of.computes:
            value = {self._add_instruction(ARITHMETIC, value, of.first)}
        for site in touched:
            if site.kind == ATOMIC:
                space = self.arrays[site.array].space
                after = value | set(self._write_index(of, site, ()))
                value = {self._add_instruction(space, after, site.line)}
        for site in touched:
            if site.kind == WRITE:
                after = value | set(self._write_index(of, site, loads))
                self.stored[self.arrays[site.array].space] = self._add_instruction(
                    STORE, after, site.line
                )
        for name in of.makes:
            self.made[name] = tuple(sorted(value))
        if of.decides:
            self.decided = tuple(value)

    def _write_index(
        self, of: Statement, site: Site, loads: Sequence[int]
    ) -> tuple[int, ...]:
        """What an access waits for to know its address."""
        names = of.indices.get((site.line, site.column), ())
        after = [n for name in names for n in self.made.get(name, ())]
        inner = "[" in site.text.partition("[")[2]  # x[y[i]]
        return (*after, *(loads if inner else ()))

    def _settle_access(self) -> None:
        """The piece of code is complete: its loads and what they need come first."""
        first, out = self.begun, self.out
        piece = range(first, len(out))
        early: set[int] = set()
        for number in reversed(piece):
            if out[number].kind in (GLOBAL, SHARED) or number in early:
                early.add(number)
                early.update(n for n in out[number].after if n >= first)
        order = [n for n in piece if n in early] + [n for n in piece if n not in early]
        place = {number: first + i for i, number in enumerate(order)}

        def moved(after: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted(place.get(n, n) for n in after))

        out[first:] = [replace(out[n], after=moved(out[n].after)) for n in order]
        self.made = {name: moved(after) for name, after in self.made.items()}
        self.decided = moved(self.decided)
        self.stored = {}
        self.begun = len(out)

    def _add_instruction(self, kind: str, after, line: int = 0) -> int:
        before = {*after, *self.decided}
        if kind in self.stored:
            before.add(self.stored[kind])
        self.out.append(Instruction(kind, tuple(sorted(before)), line))
        self.decided = ()
        return len(self.out) - 1


__all__ = ["ARITHMETIC", "BARRIER", "GLOBAL", "SHARED", "STORE", "Instruction"]
__all__ += ["Program", "programs"]
