"""What was seen of a launch: faults, and what each line of the source cost.

One form for the Python simulator and for the check build of CUDA C. Counters have the
definitions of Nsight Compute (ncu), whose names stand beside each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Index = tuple[int, ...]

KINDS = {
    "bounds": "an access outside of an array",
    "race": "a read and a write of one element with nothing that orders them",
    "conflict": "different values written to one element by several threads",
    "uninitialised": "a read of an element that nobody has written",
    "barrier": "a barrier that some threads of a block reach and others do not",
    "deadlock": "threads that wait for one another for ever",
    "hang": "a launch that does not end",
    "misaligned": "an access whose address is no multiple of its size",
    "use-after-free": "an access to memory that was given back",
    "host-pointer": "an access to the host's memory from a kernel",
    "stack": "more local memory than a thread has",
    "exception": "an error that a thread raised",
}


class Source(Protocol):
    """A piece of source text: its file, the number of its first line, its lines."""

    file: str
    first: int
    text: str


@dataclass(frozen=True)
class Listing:
    """A piece of source text that a report may show."""

    file: str
    first: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One fault, told at the first place and thread where it was seen.

    kind: one of KINDS. text: one sentence with the numbers. file, line, column: where
    (lines from 1, columns from 0; line 0: unknown). block, thread: (x, y, z).
    other: the second thread of a race (the second block, if the race is between
    blocks), other_line: where it is. count: how often the same was seen.
    """

    kind: str
    text: str
    file: str = ""
    line: int = 0
    column: int = 0
    block: Index | None = None
    thread: Index | None = None
    other: Index | None = None
    array: str | None = None
    index: Index | None = None
    count: int = 1
    other_line: int = 0


@dataclass
class Place:
    """What one place in the source did to an array (a step: to none).

    kind: "read", "write", "atomic" or "step". space: "global", "shared", "local" or "".
    size: bytes of an element. accesses: by threads. requests: by warps. sectors: of 32
    bytes, in global memory. wavefronts, conflicts: in shared memory.
    """

    kind: str
    space: str
    array: str
    file: str
    line: int
    column: int
    text: str
    size: int
    last: int = 0
    accesses: int = 0
    requests: int = 0
    sectors: int = 0
    wavefronts: int = 0
    conflicts: int = 0


@dataclass
class Counters:
    """What a launch cost, by place in the source.

    blocks, threads, warps: launched. barriers: times that a block met at one.
    """

    blocks: int = 0
    threads: int = 0
    warps: int = 0
    barriers: int = 0
    places: list[Place] = field(default_factory=list)


@dataclass
class Report:
    """What one launch did: faults, cost, and the trace where one was kept.

    seconds: of the launch. sources: the texts to show, the kernel's own first.
    """

    kernel: str
    grid: Index
    block: Index
    findings: list[Finding] = field(default_factory=list)
    counters: Counters | None = None
    trace: Any = None
    seconds: float = 0.0
    sources: Sequence[Source] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return not self.findings
