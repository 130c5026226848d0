"""Find the faults and costs of a launch from the accesses of its threads.

The judge examines many intervals together. NumPy then needs only a fraction of a
microsecond per access.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...report import cures
from ...report.costs import Counters
from ...report.cures import IN_PLACE, UPDATE
from ...report.model import Finding
from ...report.places import Index, unflatten, write_index
from ...report.turns import Barriers, Turns, add_turns, find_python_loops, find_turns
from ..language import FunctionSource
from .blocks import MANY, Between, Meeting
from .counters import SiteSums
from .layout import (
    ATOMIC,
    CODES,
    LOCAL,
    READ,
    SHARED,
    WRITE,
    AccessPlace,
    Batch,
    Interval,
    MemoryLayout,
    Site,
    TracedArray,
)
from .log import Repeats, Rest
from .races import Offence, blank_reads, in_block
from .warp import WARP

ROWS = 1 << 14  # number of accesses to collect before they are examined
INTERVALS = 1 << 12
VERBS = {CODES[READ]: "reads", CODES[WRITE]: "writes", CODES[ATOMIC]: "updates"}
NOUNS = {CODES[READ]: "read", CODES[WRITE]: "write", CODES[ATOMIC]: "update"}


class Judge:
    """A collector of a launch's intervals that finds faults and counts costs.

    arrays, sites: the launch's lists, to which it may append.
    grid, block: shapes as (x, y, z).
    places: the barriers' places, by number.
    sources: sources of the kernel and its helpers.
    """

    def __init__(
        self, arrays: list[TracedArray], sites: list[Site], grid: Index, block: Index
    ) -> None:
        self.sites, self.grid, self.block = sites, grid, block
        self.threads = block[0] * block[1] * block[2]
        self.layout = MemoryLayout(arrays, sites, self.threads)
        self.sums = SiteSums(self.layout)
        self.repeats = Repeats(self.layout)
        self.between = Between(self.layout, grid[0] * grid[1] * grid[2])
        self.current = -1  # the block to whose memory layout.blank refers
        self.findings: dict[tuple, Finding] = {}
        self.places: Sequence[AccessPlace] = ()
        self.sources: Sequence[FunctionSource] = ()
        self._waiting: list[Interval] = []
        # A block, and the barriers that it has passed.
        self._left_by, self._left = -1, list[int]()
        self._rows = 0
        # The results of _order() for the current batch, by (part, site, site).
        self._orders: dict[tuple[int, int, int], int] = {}

    def interval(self, interval: Interval) -> None:
        """Record the accesses of a block between two barriers."""
        if interval.block != self._left_by:
            self._left_by, self._left = interval.block, []
        interval.left = self._left
        self._left.append(interval.barrier)
        self._waiting.append(interval)
        self.sums.pass_by(interval)
        self._rows += len(interval.thread)
        if self._rows >= ROWS or len(self._waiting) >= INTERVALS:
            self._examine()

    def finish(self) -> tuple[list[Finding], Counters]:
        """Return the findings, in the order of their discovery, and the counters."""
        self._examine()
        self.repeats.add_to(self.sums)
        findings = cures.of_one_warp(list(self.findings.values()))
        return findings, self.sums.counters(self.threads)

    def _examine(self) -> None:
        waiting, self._waiting, self._rows = self._waiting, [], 0
        if not waiting:
            return
        self.layout.grow()
        self._orders.clear()
        batch = complete = Batch(self.layout, waiting)
        full = [one for one in waiting if not isinstance(one, Rest)]
        if full:
            if len(full) < len(waiting):
                complete = Batch(self.layout, full)
            self.sums.add(complete)
            for offence in in_block(complete):
                self._add(self._race(complete, offence))
        for offence in blank_reads(batch, self.current):
            self._add(self._blank(batch, offence))
        for meeting in self.between.look(batch):
            self._add(self._between(batch, meeting))
        self.current = waiting[-1].block

    def _add(self, finding: Finding) -> None:
        """Keep one finding of each kind per place, and count its repetitions."""
        key = (
            *(finding.kind, finding.array, finding.file, finding.line, finding.column),
            *(finding.other_line, finding.thread is None),
        )
        known = self.findings.get(key)
        if known:
            # Blocks run in any order, so report the block with the lowest index.
            first = min(known, finding, key=lambda one: (one.block or ())[::-1])
            finding = dataclasses.replace(
                first,
                count=known.count + finding.count,
                one_warp=known.one_warp and finding.one_warp,
            )
        self.findings[key] = finding

    def _race(self, batch: Batch, offence: Offence) -> Finding:
        one, other = offence.row, offence.other
        what, turns = self._element(batch, one), None
        a, b = (self._thread(int(batch.thread[row])) for row in (one, other))
        sites = [self.sites[int(batch.site[row])] for row in (one, other)]
        line, other_line = (site.line for site in sites)
        beginning = f"{self._where(batch, one)}{a} "
        if offence.conflict:
            text = (
                f"{beginning}writes {batch.value(one)} to {what} at line {line} and "
                f"{b} writes {batch.value(other)} to it at line {other_line}: which of "
                f"them stays is chance"
            )
        else:
            verbs = [VERBS[int(batch.kind[row])] for row in (one, other)]
            text = (
                f"{beginning}{verbs[0]} {what} at line {line} while {b} {verbs[1]} it "
                f"at line {other_line}: {self._missing(batch, one, other)}"
            )
            turns = self._turns(batch, one, *sites)
            text = add_turns(text, turns) if turns else text
        one_warp = batch.thread[one] // WARP == batch.thread[other] // WARP
        if one_warp and not offence.conflict:
            text += (
                " (both are in one warp: running in step may hide it, but nothing "
                "promises that order)"
            )
        other_thread = unflatten(int(batch.thread[other]), self.block)
        facts: dict[str, Any] = {"other": other_thread, "other_line": other_line}
        if offence.conflict:
            return self._finding(batch, "conflict", text, one, **facts)
        facts["pattern"] = _describe_pattern(*sites, self._order(batch, one, other) > 0)
        facts |= {"turns": turns, "one_warp": bool(one_warp)}
        return self._finding(batch, "race", text, one, **facts)

    def _turns(self, batch: Batch, row: int, one: Site, other: Site) -> Turns | None:
        """Return the loop turns of a race's two accesses; None if they are unknown."""
        interval = batch.intervals[int(batch.part[row])]
        numbers = interval.left[: interval.number]
        if len(numbers) < interval.number or -1 in numbers:
            return None  # some barriers that the block passed are unknown
        passed = [self.places[number] for number in numbers]
        if any(place.file != one.file for place in (other, *passed)):
            return None
        trees = [source.tree for source in self.sources if source.file == one.file]
        loops = [loop for tree in trees for loop in find_python_loops(tree)]
        barriers = Barriers.of([place.line for place in passed])
        return find_turns(loops, barriers, one.line, other.line)

    def _missing(self, batch: Batch, one: int, other: int) -> str:
        """Describe a missing barrier by the two accesses that it would separate."""
        first = self._order(batch, one, other)
        if not first:
            return "no barrier between them"
        pair = [NOUNS[int(batch.kind[row])] for row in (one, other)][::first]
        return f"no barrier between the {pair[0]} and the {pair[1]} that follows it"

    def _order(self, batch: Batch, one: int, other: int) -> int:
        """Return 1 if `one` comes before `other`, -1 if after, 0 if unknown.

        The order is that in which a thread reaches the two places in this interval. It
        is unknown if no thread reaches both, or if a thread alternates between them.
        """
        part = int(batch.part[one])
        sites = int(batch.site[one]), int(batch.site[other])
        key = part, *sites
        if sites[0] == sites[1]:
            return 0
        if key not in self._orders:
            begin, end = batch.starts[part], batch.starts[part + 1]
            thread, site = batch.thread[begin:end], batch.site[begin:end]
            self._orders[key] = 0
            for row in (one, other):
                is_own_row = thread == batch.thread[row]
                a, b = (np.flatnonzero(is_own_row & (site == s)) for s in sites)
                if len(a) and len(b):
                    ahead, behind = a[-1] < b[0], b[-1] < a[0]
                    self._orders[key] = int(ahead) - int(behind)
                    break
        return self._orders[key]

    def _blank(self, batch: Batch, offence: Offence) -> Finding:
        row = offence.row
        site = self.sites[int(batch.site[row])]
        space = self.layout.arrays[site.array].space
        nobody = {SHARED: "no thread of its block", LOCAL: "it has not"}
        text = (
            f"{self._where(batch, row)}{self._thread(int(batch.thread[row]))} "
            f"{VERBS[int(batch.kind[row])]} {self._element(batch, row)} at line "
            f"{site.line}, which {nobody.get(space, 'nobody')} "
            f"{'written' if space == LOCAL else 'has written'} before"
        )
        waited = space == SHARED and batch.intervals[int(batch.part[row])].number
        cure = cures.SOME_ONLY if waited else ""
        return self._finding(batch, "uninitialised", text, row, cure=cure)

    def _between(self, batch: Batch, met: Meeting) -> Finding:
        """Describe a race between blocks; begin with the read or the earlier line."""
        row, element = met.row, self._element(batch, met.row)
        finding = self._finding(batch, "race", "", row)
        other_block = None if met.block == MANY else self._block(met.block)
        sides = [
            (int(batch.kind[row]), self.sites[int(batch.site[row])], finding.block),
            (met.before, self.sites[met.site], other_block),
        ]
        sides.sort(key=_rank_sides)
        (kind, site, block), (other_kind, other, other_block) = sides
        text = (
            f"{self._who(block, kind)} {element} at line {site.line} and "
            f"{self._who(other_block, other_kind)} it at line {other.line}: blocks run "
            f"in any order, and nothing orders these two"
        )
        return dataclasses.replace(
            finding,
            **{"text": text, "count": met.count, "block": block, "thread": None},
            **{"other": other_block, "other_line": other.line, "file": site.file},
            **{"line": site.line, "column": site.column},
            pattern=_describe_pattern(site, other),
        )

    def _who(self, block: Index | None, kind: int) -> str:
        if block is None:
            return f"several blocks {VERBS[kind].removesuffix('s')}"
        return f"block {write_index(block, self.grid)} {VERBS[kind]}"

    def _finding(
        self, batch: Batch, kind: str, text: str, row: int, **facts: Any
    ) -> Finding:
        number = int(batch.site[row])
        site = self.sites[number]
        return Finding(
            *(kind, text, site.file, site.line, site.column),
            block=self._block(int(batch.blocks[batch.part[row]])),
            thread=unflatten(int(batch.thread[row]), self.block),
            array=self.layout.arrays[site.array].name,
            index=self.layout.index(number, int(batch.element[row])),
            **facts,
        )

    def _where(self, batch: Batch, row: int) -> str:
        if self.between.blocks == 1:
            return ""
        block = self._block(int(batch.blocks[batch.part[row]]))
        return f"in block {write_index(block, self.grid)}, "

    def _block(self, number: int) -> Index:
        return unflatten(number, self.grid)

    def _thread(self, number: int) -> str:
        return f"thread {write_index(unflatten(number, self.block), self.block)}"

    def _element(self, batch: Batch, row: int) -> str:
        number = int(batch.site[row])
        site = self.sites[number]
        name = self.layout.arrays[site.array].name
        index = self.layout.index(number, int(batch.element[row]))
        between = "][" if site.text.count("][") == len(index) - 1 > 0 else ", "
        return f"{name}[{between.join(map(str, index))}]"


def _rank_sides(side: tuple[int, Site, Index | None]) -> tuple:
    """Return a key that sorts a race's sides independently of the blocks' order."""
    kind, site, block = side
    return kind != CODES[READ], site.line, site.column, (block or (0,))[::-1]


def _describe_pattern(one: Site, other: Site, before: bool = True) -> str:
    """Return UPDATE for sites like s[0] += x[i], IN_PLACE for x[i] = x[i + 1], or "".

    before: whether a thread reaches the first site before the second.
    """
    same = (one.file, one.statement) == (other.file, other.statement)
    if not one.statement or not same or (one.kind, other.kind) != (READ, WRITE):
        return ""
    if one.text == other.text:
        return UPDATE
    return IN_PLACE if before else ""
