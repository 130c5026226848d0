"""The cost of a launch by place, line and array, with sentences that explain it.

The counters are defined as in Nsight Compute (ncu). The docstrings below give their
names in ncu. The second half of the module annotates a source text with the cost of
each line.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Sums:
    """Counts for one or more places in the source.

    accesses: accesses by threads. requests: memory instructions executed by warps; in
    global memory, ncu: l1tex__t_requests_pipe_lsu_mem_global_op_{ld,st,red,atom}.sum.
    sectors: 32-byte sectors of global memory. ncu:
    l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st,red,atom}.sum.
    An atomic counts a sector once for each lane that updates the same element. If all
    lanes use the same integer address, nvcc may let one lane act for its warp, and ncu
    then counts 1. wavefronts: passes through shared memory. ncu:
    l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st,atom}.sum. An atomic takes one
    pass for each lane that uses the same bank, even for the same word.
    conflicts: l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{ld,st,atom}.sum.
    """

    accesses: int = 0
    requests: int = 0
    sectors: int = 0
    wavefronts: int = 0
    conflicts: int = 0

    def add(self, other: Sums) -> None:
        """Add the counts of `other` to these counts."""
        for name in ("accesses", "requests", "sectors", "wavefronts", "conflicts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def lanes(self) -> float:
        """Mean number of active threads per request, out of 32."""
        return self.accesses / self.requests if self.requests else 0.0

    @property
    def needed(self) -> int:
        """Wavefronts that are not caused by bank conflicts."""
        return self.wavefronts - self.conflicts

    @property
    def sectors_per_request(self) -> float:
        """Sectors per request; 32 adjacent floats take 4."""
        return self.sectors / self.requests if self.requests else 0.0


@dataclass
class CostPlace(Sums):
    """Counts for the accesses to one array from one place in the source.

    kind: "read", "write", "atomic" or "step"; a step accesses no array. space:
    "global", "shared", "local" or "". size: bytes per element. line: the first line.
    last: the last line of a step.
    """

    kind: str = "read"
    space: str = ""
    array: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    text: str = ""
    size: int = 0
    last: int = 0

    @property
    def bytes(self) -> int:
        """Bytes that the threads requested."""
        return self.accesses * self.size


@dataclass
class Line:
    """Counts for one line of the source.

    places: counts of the line's accesses, and of the steps that include the line.
    """

    places: list[CostPlace] = field(default_factory=list)

    def of(self, space: str = "", kind: str = "") -> Sums:
        """Sum the accesses of one kind to one memory space; "" matches any."""
        accesses = (p for p in self.places if p.kind != "step")
        places = (p for p in accesses if space in ("", p.space))
        return _sum(p for p in places if kind in ("", p.kind))

    @property
    def reads(self) -> int:
        return self.of(kind="read").accesses

    @property
    def writes(self) -> int:
        return self.of(kind="write").accesses

    @property
    def atomics(self) -> int:
        return self.of(kind="atomic").accesses

    @property
    def sectors(self) -> int:
        return self.of("global").sectors

    @property
    def sectors_per_request(self) -> float:
        return self.of("global").sectors_per_request

    @property
    def wavefronts(self) -> int:
        return self.of("shared").wavefronts

    @property
    def conflicts(self) -> int:
        return self.of("shared").conflicts

    @property
    def lanes(self) -> float:
        """Mean active threads per warp execution; 0 if the line did not run."""
        steps = [p for p in self.places if p.kind == "step"]
        return _sum(steps or self.places).lanes


@dataclass
class Counters:
    """The cost of a launch by place in the source. Properties sum it by array.

    blocks, threads, warps: numbers launched. barriers: number of times that a block
    reached a barrier. copied: bytes copied by cp.async. copied_past: number of barriers
    that a block passed while a byte was being copied, summed over these bytes. shared:
    bytes of static shared memory per block. The simulator of Python kernels leaves
    `copied`, `copied_past` and `shared` at 0. file: the file that contains the kernel.
    """

    blocks: int = 0
    threads: int = 0
    warps: int = 0
    barriers: int = 0
    copied: int = 0
    copied_past: int = 0
    shared: int = 0
    places: list[CostPlace] = field(default_factory=list)
    file: str = ""

    @property
    def reads(self) -> dict[str, int]:
        """Element reads by array; each thread's read counts once."""
        return self._by_array("accesses", kind="read")

    @property
    def writes(self) -> dict[str, int]:
        """Element writes by array."""
        return self._by_array("accesses", kind="write")

    @property
    def atomics(self) -> dict[str, int]:
        """Atomic updates by array."""
        return self._by_array("accesses", kind="atomic")

    @property
    def reads_per_thread(self) -> dict[str, float]:
        """Mean number of reads per launched thread, by array."""
        return self._each_thread(self.reads)

    @property
    def writes_per_thread(self) -> dict[str, float]:
        """Mean number of writes per launched thread, by array."""
        return self._each_thread(self.writes)

    @property
    def atomics_per_thread(self) -> dict[str, float]:
        """Mean number of atomic updates per launched thread, by array."""
        return self._each_thread(self.atomics)

    @property
    def requests(self) -> dict[str, int]:
        """Memory requests by warps, by array."""
        return self._by_array("requests")

    @property
    def sectors(self) -> dict[str, int]:
        """32-byte sectors moved, by array in global memory."""
        return self._by_array("sectors", space="global")

    @property
    def sectors_per_request(self) -> dict[str, float]:
        """Sectors per request by array; for 4-byte elements 4 is best, 32 is worst."""
        return self._sectors_per_request("")

    @property
    def load_sectors_per_request(self) -> dict[str, float]:
        """Sectors per read request, by array.

        ncu: l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio.
        """
        return self._sectors_per_request("read")

    @property
    def store_sectors_per_request(self) -> dict[str, float]:
        """Sectors per write request, by array.

        ncu: l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio.
        """
        return self._sectors_per_request("write")

    @property
    def bytes(self) -> dict[str, int]:
        """Bytes moved, in whole sectors, by array in global memory."""
        return {name: 32 * count for name, count in self.sectors.items()}

    @property
    def wavefronts(self) -> dict[str, int]:
        """Wavefronts taken by requests, by array in shared memory."""
        return self._by_array("wavefronts", space="shared")

    @property
    def bank_conflicts(self) -> dict[str, int]:
        """Wavefronts beyond the minimum for the requests, by array in shared memory."""
        return self._by_array("conflicts", space="shared")

    @property
    def copies_ahead(self) -> float:
        """Mean number of barriers that a block passes during one cp.async copy.

        For a ring with one barrier per tile, this is the number of tiles by which the
        copy runs ahead. It is 0 if each copy ends before the next barrier.
        """
        return self.copied_past / self.copied if self.copied else 0.0

    @property
    def active_lanes(self) -> float | None:
        """Mean active threads per warp instruction, out of 32; None without steps.

        ncu: smsp__thread_inst_executed_per_inst_executed.ratio. A step counts as one
        instruction. sim(kernel, steps=True) and every picture record steps, because
        accesses alone do not reveal a branch that accesses no array.
        """
        steps = [p for p in self.places if p.kind == "step"]
        return _sum(steps).lanes if steps else None

    @property
    def lines(self) -> dict[int, Line]:
        """Counts of each line by line number, for the file with the kernel."""
        return self.lines_of(self.file)

    def lines_of(self, file: str) -> dict[int, Line]:
        """Return the counts of each line of `file`. A step counts for all its lines."""
        lines: dict[int, Line] = {}
        for place in self.places:
            if place.file == file:
                for number in range(place.line, max(place.line, place.last) + 1):
                    lines.setdefault(number, Line()).places.append(place)
        return lines

    def json(self) -> dict[str, Any]:
        """Return the counters by array, as numbers and dictionaries of numbers."""
        names = ("blocks", "threads", "warps", "barriers", "reads", "writes", "atomics")
        names += ("requests", "sectors", "bytes", "load_sectors_per_request")
        names += ("store_sectors_per_request", "wavefronts", "bank_conflicts")
        return {name: getattr(self, name) for name in (*names, "active_lanes")}

    def _by_array(self, name: str, kind: str = "", space: str = "") -> dict[str, int]:
        counts: dict[str, int] = {}
        for p in self.places:
            is_match = p.array and kind in ("", p.kind) and space in ("", p.space)
            if is_match and p.accesses:
                counts[p.array] = counts.get(p.array, 0) + getattr(p, name)
        return counts

    def _each_thread(self, counts: dict[str, int]) -> dict[str, float]:
        return {name: count / max(1, self.threads) for name, count in counts.items()}

    def _sectors_per_request(self, kind: str) -> dict[str, float]:
        sectors = self._by_array("sectors", kind, "global")
        requests = self._by_array("requests", kind, "global")
        return {name: sectors[name] / requests[name] for name in sectors}


def _sum(parts: Iterable[Sums]) -> Sums:
    total = Sums()
    for part in parts:
        total.add(part)
    return total


WARP = 32
SECTOR = 32  # bytes per sector
HOT = 0.12  # minimum heat for marking a cell
WASTED = 2.0  # smallest ratio of cost to minimum cost that causes a remark
# Explanations, by memory space, of atomics that cost more than the minimum.
TURNS = {
    "global": "lanes that update one address take turns, and distant addresses take a "
    "sector each",
    "shared": "lanes that update one word, or words of one bank, take turns",
}
COLUMNS = {
    "reads": "elements read, by all threads",
    "writes": "elements written, by all threads",
    "atomics": "atomic updates, by all threads",
    "sectors/req": "32-byte sectors of global memory for each request of a warp",
    "wavefronts/req": "turns in shared memory for each request of a warp; 1 is best",
    "lanes": "threads of 32 that are active when a warp executes this line",
    "bytes": "moved to and from global memory: 32 for each sector",
}


@dataclass
class CostCell:
    """A number in a row. heat: from 0 (fine) to 1 (costly). why: the explanation."""

    text: str = ""
    heat: float = 0.0
    why: str = ""


@dataclass
class LineCost:
    """A line of the source and its numbers, by column name."""

    number: int
    text: str
    cells: dict[str, CostCell] = field(default_factory=dict)


def annotate_lines(text: str, first: int, lines: dict[int, Line]) -> list[LineCost]:
    """Annotate the lines of a text whose first line has the number `first`.

    lines: the counts of each line by number, as Counters.lines_of returns them.
    """
    return [
        LineCost(number, source, _make_cells(lines[number]) if number in lines else {})
        for number, source in enumerate(text.splitlines(), first)
    ]


def select_columns(rows: list[LineCost]) -> list[str]:
    """Return the names of the columns in which at least one row has a number."""
    filled = {c for row in rows for c, cell in row.cells.items() if cell.text}
    return [column for column in COLUMNS if column in filled]


def list_remarks(counters: Counters, most: int = 3) -> list[str]:
    """Describe each cost worth a remark in one sentence, the worst cost first.

    Returns at most `most` remarks. They name the file if several files occur.
    """
    several = len({place.file for place in counters.places if place.file}) > 1
    remarks = []
    for place in counters.places:
        at = f"{place.file}, line {place.line}" if several else f"line {place.line}"
        ratio, sentence = _describe_waste(place)
        remarks += [(ratio, f"{at}: {sentence}")] * bool(sentence)
    remarks.sort(key=lambda remark: -remark[0])
    return list(dict.fromkeys(sentence for _, sentence in remarks))[:most]


def write_short(number: float) -> str:
    """Format a number with two decimals, or below 0.1 with two significant digits."""
    if 0 < abs(number) < 0.1:
        return f"{number:.2g}"
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _compare_cost(place: CostPlace) -> tuple[float, float]:
    """Return a place's sectors or wavefronts per request, and their minimum."""
    if place.space == "global":  # the minimum is for adjacent elements
        return place.sectors_per_request, max(1.0, place.lanes * place.size / SECTOR)
    return place.wavefronts / place.requests, place.needed / place.requests


def _describe_waste(place: CostPlace) -> tuple[float, str]:
    """Return a place's cost divided by the minimum, and a sentence if it is high."""
    if not place.requests or place.space not in ("global", "shared"):
        return 0.0, ""
    took, least = _compare_cost(place)
    if took / least < WASTED:
        return took / least, ""
    unit, reason = "wavefronts", "several words are in one bank"
    if place.space == "global":
        unit, reason = "sectors", "the threads of a warp access distant addresses"
    if place.kind == "atomic":
        reason = TURNS[place.space]
    verb = {"read": "reading", "write": "writing"}.get(place.kind, "updating")
    ratio = (
        f"{write_short(took)} {unit} per request where {write_short(least)} would do"
    )
    sentence = f"{verb} {place.array or 'memory'} takes {ratio}: {reason}"
    return took / least, sentence


def _make_cells(line: Line) -> dict[str, CostCell]:
    counts = {"reads": line.reads, "writes": line.writes, "atomics": line.atomics}
    counts["bytes"] = SECTOR * line.sectors
    cells = {
        name: CostCell(f"{count:,}".replace(",", " ") if count else "")
        for name, count in counts.items()
    }
    cells["sectors/req"] = _memory_cell(line, "global")
    cells["wavefronts/req"] = _memory_cell(line, "shared")
    lanes = line.lanes
    if lanes:
        heat = max(0.0, min(1.0, (WARP / lanes - 1) / 7))
        reason = f"{write_short(lanes)} of {WARP} threads are active" * (lanes < WARP)
        cells["lanes"] = CostCell(write_short(lanes), heat, reason)
    return cells


def _memory_cell(line: Line, space: str) -> CostCell:
    """Return a line's cost in a memory space: its arrays' ratios and the worst heat."""
    places = [p for p in line.places if p.space == space and p.kind != "step"]
    ratios, heat, reasons = [], 0.0, []
    for place in places:
        if place.requests > 0:
            ratio, reason = _describe_waste(place)
            ratios.append(write_short(_compare_cost(place)[0]))
            heat = max(heat, min(1.0, (ratio - 1) / 7))
            reasons += [reason] * bool(reason)
    return CostCell(" ".join(dict.fromkeys(ratios)), heat, "; ".join(reasons))
