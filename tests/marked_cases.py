"""The cases of tests/report/corpus/*/*.cu, and the faults that their sources mark.

The line of a fault ends in `// FAULT: kind`, followed by known details: `block 3`,
`thread (1,2)`, `x[100]`, `x` or `[100]`; for a race between two threads `threads 3 and
40`, and for one between two blocks `blocks 0 and 1`. `kind|kind` accepts either kind. A
line that may also be reported ends in `// OTHER`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weft.report.cures import KINDS
from weft.report.model import Finding

FOLDER = Path(__file__).parent / "report" / "corpus"
GO_ON = {  # after these faults, the launch continues
    "race",
    "unwaited",
    "conflict",
    "uninitialised",
    "barrier",
    "undefined",
}


@dataclass(frozen=True)
class Mark:
    """One marked fault of a source. several: whether `and` joined two threads or
    blocks."""

    line: int
    kinds: frozenset[str]
    blocks: frozenset[tuple[int, ...]] = frozenset()
    threads: frozenset[tuple[int, ...]] = frozenset()
    array: str = ""
    index: int | None = None

    def tells(self, finding: Finding) -> bool:
        """Return whether a finding reports this fault, with all marked details."""
        lines = {finding.line, finding.other_line}
        between_blocks = len(self.blocks) == 2
        blocks = {finding.block} | ({finding.other} if between_blocks else set())
        two = len(self.threads) == 2
        threads = {finding.thread} | ({finding.other} if two else set())
        return (
            self.line in lines
            and finding.kind in self.kinds
            and (not self.blocks or blocks == self.blocks)
            and (not self.threads or threads == self.threads)
            and (not self.array or finding.array == self.array)
            and (self.index is None or finding.index == (self.index,))
        )


@dataclass(frozen=True)
class Case:
    """A case of a program. marks: its faults; lines: those that a report may name."""

    name: str
    marks: tuple[Mark, ...]
    lines: frozenset[int]

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset().union(*(mark.kinds for mark in self.marks))

    @property
    def goes_on(self) -> bool:
        """Whether the program can continue after the fault."""
        return self.kinds <= GO_ON

    def complaints(self, findings: list[Finding]) -> list[str]:
        """Return the complaints about the findings of a run of this case."""
        missing = [
            f"line {mark.line}: not found: {mark}"
            for mark in self.marks
            if not any(self._is_reported(mark, finding) for finding in findings)
        ]
        strays = [
            f"line {finding.line}, {finding.other_line}: false alarm: {finding}"
            for finding in findings
            if finding.kind not in self.kinds
            or not {finding.line, finding.other_line} - {0} <= self.lines
            or not finding.line
        ]
        return [f"{self.name}, {text}" for text in missing + strays]

    def _is_reported(self, mark: Mark, finding: Finding) -> bool:
        # A full stack is reported at the line that uses it next. Threads that wait for
        # each other may be at several lines.
        anywhere = finding.kind in {"stack", "deadlock", "hang"} & mark.kinds
        return mark.tells(finding) or (anywhere and finding.line in self.lines)


@cache
def cases(path: Path) -> list[Case]:
    """Return the cases of a program, in the order of its source."""
    result: list[Case] = []
    marks: list[Mark] = []
    lines: set[int] = set()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if fault := re.search(r"// FAULT: (\S+?)((?:, .+)?)$", line):
            marks.append(mark_of(number, fault[1], fault[2]))
        if fault or re.search(r"// OTHER\b", line):
            lines.add(number)
        if case := re.match(r"CASE\((\w+)\)", line):
            result.append(Case(case[1], tuple(marks), frozenset(lines)))
            marks, lines = [], set()
    return result


def mark_of(line: int, kinds: str, words: str) -> Mark:
    """Return a mark from its words; ValueError if they are invalid."""
    fields: dict = {"line": line, "kinds": frozenset(kinds.split("|"))}
    if not fields["kinds"] <= KINDS.keys():
        raise ValueError(f"line {line}: no kind of finding: {kinds}")
    for word in re.split(r", (?![^(]*\))", words)[1:]:
        if numbers := re.fullmatch(r"(block|thread)s? (.*)", word):
            location = (_position(text) for text in numbers[2].split(" and "))
            fields[f"{numbers[1]}s"] = frozenset(location)
        elif array := re.fullmatch(r"(\w*)(?:\[(-?\d+)\])?", word):
            fields["array"] = array[1]
            fields["index"] = int(array[2]) if array[2] else None
        else:
            raise ValueError(f"line {line}: what is '{word}'?")
    return Mark(**fields)


def _position(text: str) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    return tuple(numbers + [0] * (3 - len(numbers)))
