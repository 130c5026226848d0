"""A source text with what each of its lines cost, and the sentences that say why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .counters import Counters, Line, Place, Sums

WARP = 32
SECTOR = 32  # bytes
HOT = 0.12  # of a cell's heat, from where it is marked
WASTED = 2.0  # times what was needed, from where it is worth a word
# Why atomics take more than they need.
TURNS = {
    "global": "lanes that update one address go one after the other, and addresses "
    "that lie apart take a sector each",
    "shared": "lanes that update one word, or words of one bank, go one after "
    "the other",
}
COLUMNS = {
    "reads": "elements read, by all threads",
    "writes": "elements written, by all threads",
    "atomics": "atomic updates, by all threads",
    "sectors/req": "32-byte sectors of global memory for each request of a warp",
    "wavefronts/req": "turns in shared memory for each request of a warp; 1 is best",
    "lanes": "threads of 32 that take part when a warp comes here",
    "bytes": "moved to and from global memory: 32 for each sector",
}


@dataclass
class Cell:
    """A number beside a line; heat: 0 (fine) to 1 (it hurts); why, in a sentence."""

    text: str = ""
    heat: float = 0.0
    why: str = ""


@dataclass
class Row:
    """A line of the source and its numbers, by column."""

    number: int
    text: str
    cells: dict[str, Cell] = field(default_factory=dict)


def annotate_lines(text: str, first: int, lines: dict[int, Line]) -> list[Row]:
    """The lines of a text, of which the first has the number `first`.

    lines: what each did, by number, as Counters.lines_of has it.
    """
    return [
        Row(number, source, _make_cells(lines[number]) if number in lines else {})
        for number, source in enumerate(text.splitlines(), first)
    ]


def select_columns(rows: list[Row]) -> list[str]:
    """The columns in which some row says something."""
    return [c for c in COLUMNS if any(row.cells.get(c, Cell()).text for row in rows)]


def select_near(
    rows: list[Row], wanted: Callable[[Row], bool], around: int = 1
) -> list[Row]:
    """The rows that are wanted, and so many before and after each."""
    at = [i for i, row in enumerate(rows) if wanted(row)]
    kept = {j for i in at for j in range(i - around, i + around + 1)}
    return [row for i, row in enumerate(rows) if i in kept]


def list_remarks(counters: Counters, most: int = 3) -> list[str]:
    """What is worth a word about the cost, the worst first, in one sentence each.

    They name the file where there are several."""
    several = len({place.file for place in counters.places if place.file}) > 1
    found = []
    for place in counters.places:
        where = f"{place.file}, line" if several else "line"
        found += [
            (r, f"{where} {place.line}: {said}") for r, said in _list_wastes(place)
        ]
    found.sort(key=lambda one: -one[0])
    return list(dict.fromkeys(said for _, said in found))[:most]


def sectors_needed(place: Place) -> float:
    """Sectors that one request needs if its threads touch neighbours."""
    return max(1.0, place.lanes * place.size / SECTOR)


def turns_needed(place: Sums) -> float:
    """Wavefronts that one request needs if no two words share a bank."""
    return place.needed / place.requests if place.requests else 1.0


def write_short(number: float) -> str:
    """A number with two decimals, or two digits: 4, 2.5, 0.13, 0.0039."""
    if 0 < abs(number) < 0.1:
        return f"{number:.2g}"
    return f"{number:.2f}".rstrip("0").rstrip(".")


def _list_wastes(place: Place) -> list[tuple[float, str]]:
    """What a place wastes, as the ratio to what it needs, and a sentence."""
    if not place.requests or place.space not in ("global", "shared"):
        return []
    if place.space == "global":
        needed, took = sectors_needed(place), place.sectors_per_request
        unit, why = "sectors", "the threads of a warp touch addresses that lie apart"
    else:
        needed, took = turns_needed(place), place.wavefronts / place.requests
        unit, why = "wavefronts", "several words lie in one bank"
    if took / needed < WASTED:
        return []
    verb = {"read": "reading", "write": "writing"}.get(place.kind, "updating")
    if place.kind == "atomic":
        why = TURNS[place.space]
    many = (
        f"{write_short(took)} {unit} per request where {write_short(needed)} would do"
    )
    return [(took / needed, f"{verb} {place.array or 'memory'} takes {many}: {why}")]


def _make_cells(line: Line) -> dict[str, Cell]:
    cells = {
        name: Cell(f"{count:,}".replace(",", " ") if count else "")
        for name, count in (
            ("reads", line.reads),
            ("writes", line.writes),
            ("atomics", line.atomics),
            ("bytes", SECTOR * line.sectors),
        )
    }
    cells["sectors/req"] = _memory_cell(line, "global")
    cells["wavefronts/req"] = _memory_cell(line, "shared")
    lanes = line.lanes
    if lanes:
        heat = max(0.0, min(1.0, (WARP / lanes - 1) / 7))
        why = (
            f"{write_short(lanes)} of {WARP} threads take part" if lanes < WARP else ""
        )
        cells["lanes"] = Cell(write_short(lanes), heat, why)
    return cells


def _memory_cell(line: Line, space: str) -> Cell:
    """A line's cost in a space: the ratios of its arrays, hot as the worst is."""
    places = [
        p
        for p in line.places
        if p.space == space and p.kind != "step" and p.requests > 0
    ]
    said, heat, why = [], 0.0, []
    for place in places:
        cost = place.sectors if space == "global" else place.wavefronts
        took = cost / place.requests
        needed = sectors_needed(place) if space == "global" else turns_needed(place)
        said.append(write_short(took))
        heat = max(heat, min(1.0, (took / needed - 1) / 7))
        why += [sentence for _, sentence in _list_wastes(place)]
    return Cell(" ".join(dict.fromkeys(said)), heat, "; ".join(why))
