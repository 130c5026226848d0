"""Record which puzzles are solved: a table of marks, and a cloth for each puzzle.

    puzzles.progress()                  the marks, by lesson (table.py)
    puzzles.progress().export()         write weft_progress.json, for another machine
    puzzles.progress().load(path)       add an exported file to the marks
    puzzles.progress().reset("guards")  forget one puzzle; without a name, all of them

A puzzle counts once for each language: Python, Numba, CUDA C. A record contains the day
of the first solution, the numbers of a score, and whether these are within the budget
(answer_cost.py). The score is the latest one, but one within the budget is never lost.

The reward of a solved puzzle is a piece of cloth. Each warp thread goes through one of
the loom's shafts. Each treadle lifts some shafts for a pick of the weft. A lifted warp
thread is on top of the weft; the weft is on top of the others. A solved group gets a
gamp: a wider cloth with a band for each puzzle.
"""

from __future__ import annotations

import html
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import cycle, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import ArgumentError
from ..base.store import Kept
from ..base.style import INK, OURS, SHARED, THREAD, WRITTEN
from ..base.text import count_things
from ..see.pictures.svg import write_image
from .catalogue import GROUPS

if TYPE_CHECKING:
    from .answer_cost import Score
    from .puzzle import Puzzle


LANGUAGES = ("Python", "Numba", "CUDA C")
FILE = "weft_progress.json"
FORMAT = "weft puzzles"  # the identifier in an exported file
OPEN, SOLVED, WITHIN = "not yet", "solved", "solved within the budget"
SIGNS = {OPEN: "·", SOLVED: "✓", WITHIN: "★"}
_kept = Kept("puzzles", lambda records, others: _add(records, others))
_set_aside = Kept("puzzles_before_reset")
_latest: list[str] = []  # puzzles solved for the first time in this session


def note_solved(puzzle: Puzzle, language: str, score: Score | None = None) -> bool:
    """Record a solved puzzle; return whether it was unsolved in every language before.

    Of several answers in one language, the first day and the latest score count. But
    a score within the budget is not replaced by a score beyond it.
    """
    if language not in LANGUAGES:
        raise ArgumentError(f"language {language!r}: {', '.join(LANGUAGES)}")
    record = {
        "when": date.today().isoformat(),
        "within": score is None or score.within,
        "score": score.json() if score is not None else {},
    }
    news = False

    def note(records: dict[str, Any]) -> None:
        nonlocal news
        news = not _select_valid(records.get(puzzle.name))
        _merge(records, puzzle.name, language, record)

    _kept.change(note)
    if news:
        _latest.append(puzzle.name)
    return news


def latest_solved() -> str:
    """Return the puzzle that was most recently solved for the first time, or ""."""
    return _latest[-1] if _latest else ""


def read_progress() -> PuzzleProgress:
    """Return the solved puzzles, as a table with a row for each lesson."""
    return PuzzleProgress(GROUPS, _kept.read())


@dataclass(frozen=True)
class PuzzleProgress:
    """The solved puzzles. groups: puzzle names by group; records: records by puzzle."""

    groups: Mapping[str, tuple[str, ...]]
    records: Mapping[str, Any]

    def state(self, name: str) -> str:
        """Return OPEN, SOLVED or WITHIN."""
        valid = _select_valid(self.records.get(name))
        if not valid:
            return OPEN
        return WITHIN if any(one["within"] for one in valid.values()) else SOLVED

    def title(self, name: str) -> str:
        """Write a title, such as "guards: solved in Python on 2026-11-22"."""
        how = self.how(name)
        return f"{name}: {self.state(name)}" + (f" {how}" if how else "")

    def how(self, name: str) -> str:
        """Write the solutions, such as "in Python on 2026-11-22"; "" if none."""
        valid = _select_valid(self.records.get(name)).items()
        parts = [f"{language} on {record['when']}" for language, record in valid]
        return f"in {', '.join(parts)}" if parts else ""

    @property
    def next(self) -> str:
        """The first unsolved puzzle; "" if there is none."""
        return next((n for n in self._names() if self.state(n) == OPEN), "")

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def complete(self, group: str) -> bool:
        """Return whether every puzzle of a group is solved."""
        return all(self.state(name) != OPEN for name in self.groups[group])

    @property
    def count(self) -> int:
        """The number of solved puzzles."""
        return sum(self.state(name) != OPEN for name in self._names())

    def export(self, path: str | Path = FILE) -> Exported:
        """Write a JSON file for another machine, with instructions for loading it."""
        records = _kept.read()
        text = json.dumps({"what": FORMAT, "puzzles": records}, indent=1)
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"export: {path}: {error.strerror or error}") from None
        count = sum(bool(_select_valid(r)) for r in records.values())
        return Exported(Path(path), count)

    def load(self, path: str | Path = FILE) -> PuzzleProgress:
        """Add the records of an exported file without losing existing ones."""
        imported = _read(path)
        _kept.change(lambda records: _add(records, imported))
        return read_progress()

    def reset(self, name: str | None = None) -> PuzzleProgress:
        """Forget one puzzle, or all of them, so that they can be solved again.

        The old records are kept in a separate file until the next reset.
        """
        if name is not None and name not in self:
            available = ", ".join(self._names())
            raise ArgumentError(f"no puzzle {name!r}; there are {available}")
        previous: dict[str, Any] = {}

        def forget(records: dict[str, Any]) -> None:
            _replace(previous, records)
            for one in [*records] if name is None else [name]:
                records.pop(one, None)

        _kept.change(forget)
        _set_aside.change(lambda records: _replace(records, previous))
        return read_progress()

    def _names(self) -> Iterator[str]:
        return (name for names in self.groups.values() for name in names)

    # ---- display -------------------------------------------------------------------

    @property
    def sentence(self) -> str:
        """The number of solved puzzles, in words."""
        number = sum(len(names) for names in self.groups.values())
        within = sum(self.state(name) == WITHIN for name in self._names())
        text = f"{self.count} of {number} puzzles solved"
        return f"{text}, {within} of them within the budget" if within else text

    def __str__(self) -> str:
        from .table import in_text  # imported lazily: the table reads the lessons

        return in_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        # Imported lazily, since it reads the lessons and nbformat is slow to import.
        from .table import in_html

        return in_html(self)


@dataclass(frozen=True)
class Exported:
    """A file that export() wrote; its display explains how to load it."""

    path: Path
    count: int

    def __repr__(self) -> str:
        name = self.path.name
        return (
            f"{self.path}: {count_things(self.count, 'puzzle')} solved. On another "
            f'machine: puzzles.progress().load("{name}")\n'
            f"Colab deletes its files after a session. There, download the file:\n"
            f"    from google.colab import files\n"
            f'    files.download("{name}")     # next time: files.upload(), then load()'
        )


# ---- records ------------------------------------------------------------------------


def _replace(records: dict[str, Any], others: dict[str, Any]) -> None:
    records.clear()
    records.update(others)


def _select_valid(by_language: Any) -> dict[str, Any]:
    """Return the valid records of a puzzle, by language."""
    if not isinstance(by_language, dict):
        return {}
    return {
        language: record
        for language in LANGUAGES
        if isinstance(record := by_language.get(language), dict)
        and isinstance(record.get("when"), str)
        and isinstance(record.get("within"), bool)
    }


def _add(records: dict[str, Any], others: dict[str, Any]) -> None:
    """Add the valid records of puzzles, without losing existing ones."""
    for name, by_language in others.items():
        for language, record in _select_valid(by_language).items():
            _merge(records, name, language, record)


def _merge(
    records: dict[str, Any], name: str, language: str, record: dict[str, Any]
) -> None:
    """Add a record; keep the earlier day, and a score within the budget."""
    if not isinstance(records.get(name), dict):
        records[name] = {}
    old = _select_valid(records[name]).get(language)
    if old is not None:
        better = old if old["within"] and not record["within"] else record
        record = {**better, "when": min(old["when"], record["when"])}
    records[name][language] = record


def _read(path: str | Path) -> dict[str, Any]:
    """Return the records in an exported file; raise ArgumentError if it is invalid."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ArgumentError(f"load: {path}: {error.strerror or error}") from None
    except ValueError:
        content = None
    records = content.get("puzzles") if isinstance(content, dict) else None
    if not isinstance(records, dict) or content.get("what") != FORMAT:
        raise ArgumentError(f"load: {path} is not a file that export() wrote")
    return records


# ---- cloth ---------------------------------------------------------------------------

# Okabe and Ito's colours, except black, and except vermilion, which marks faults.
COLOURS = (OURS, WRITTEN, SHARED, THREAD, "#F0E442", "#56B4E9")
PITCH = 4  # distance between adjacent threads in pixels
GAP = 0.25  # pixels left free on each side of a thread
ENDS, PICKS = 75, 14  # threads of the warp and of the weft: 300 x 56 pixels
GROUP_ENDS, GROUP_PICKS = 160, 18  # the same for a group's cloth
BORDER = 2  # threads of plain weave between two bands; no float crosses them
UP, POINT = range(8), (*range(8), *range(6, 0, -1))
HERRINGBONE = (0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 3, 2, 1, 0, 3, 2)
FANCY = "11010010"
# Each weave has three repeating patterns: the shafts that the first treadle lifts, the
# shaft of each warp thread, and the treadle of each pick. Each further treadle lifts
# the shafts of the previous one, shifted by one.
WEAVES: dict[str, tuple[str, Sequence[int], Sequence[int]]] = {
    "plain weave": ("10", UP, UP),
    "basket weave": ("10", (0, 0, 1, 1), (0, 0, 1, 1)),
    "twill 2/2": ("1100", UP, UP),
    "twill 3/1": ("1110", UP, UP[::-1]),
    "houndstooth": ("1100", UP, UP),
    "satin of 5": ("01111", range(5), (0, 2, 4, 1, 3)),
    "satin of 8": ("01111111", UP, (0, 3, 6, 1, 4, 7, 2, 5)),
    "herringbone": ("1100", HERRINGBONE, UP),
    "chevron": ("11100100", POINT, UP),
    "diamonds": (FANCY, POINT, POINT),
    "bird's eye": ("1100", (0, 1, 2, 3, 2, 1), (0, 1, 2, 3, 2, 1)),
    "fancy twill": (FANCY, UP, UP),
}
LINES = (
    "The warp holds still, the weft does the work. That is you.",
    "Thirty-two threads pulled at once, and not one broke.",
    "Over, under, over, under: no race in sight.",
    "A loom had punched cards a century before computers had.",
    "Every thread knew its place.",
    "Warp: the threads held in tension. Weft: your kernel.",
    "Nicely woven. The edges hold, too.",
    "No loose ends.",
    "Ada Lovelace: the engine weaves algebra as the loom weaves flowers and leaves.",
    "Tight at the selvedge: not one element past the end.",
    "That one goes into the sample book.",
    "Shuttle thrown, shed closed, next pick.",
    "A satin floats over four and dives under one. You needed no such luck.",
    "Plain weave is the divergence-free one.",
    "Twill shifts by one thread a row. So does many a good index.",
    "The loom beats once after each pick: a barrier, and nobody minds.",
    "Good cloth, and the warp never stalled.",
    "Somewhere a scheduler smiles.",
    "Coalesced like combed wool.",
    "One thread alone is string. This is cloth.",
    "Weavers count ends. You counted yours right.",
    "Unroll it: it goes on like this for ever.",
    "The pattern repeats; the mistake did not.",
    "Cut from the bolt and checked at every edge.",
    "Even the last block is woven to the end.",
    "A shed opened, a result came through.",
    "Herringbones turn around in time. So did your index.",
    "Nothing knotted, nothing dropped.",
    "This thread is joined.",
    "Fine work: hold it against the light.",
)
STYLE = """@media (prefers-reduced-motion:no-preference){.weft-cloth{animation:
weft-cloth 1s ease-out}}@keyframes weft-cloth{from{clip-path:inset(0 100% 0 0)}}"""


def _keep_larger(records: dict[str, Any], others: dict[str, Any]) -> None:
    """Keep the larger of two counts."""
    counts = [one["count"] for one in (records, others) if "count" in one]
    records["count"] = max((n for n in counts if isinstance(n, int)), default=0)


_shown = Kept("cloth", _keep_larger)  # the number of lines shown so far


def cloth(puzzle: Puzzle) -> Cloth:
    """Return a cloth for a solved puzzle, or a gamp if it completes a group.

    The last puzzle of a complete group also gets the gamp.
    """
    now = read_progress()
    names = now.groups.get(puzzle.group, ())
    ends_group = puzzle.name in (latest_solved(), *names[-1:])
    if names and ends_group and now.complete(puzzle.group):
        line = f"All {len(names)} of {puzzle.group} are solved: a band for each."
        return replace(weave_gamp(names), line=line)
    return replace(weave(random.Random(time.time_ns())), line=_next_line())


@dataclass(frozen=True)
class Cloth:
    """A weave in colours, with a line of text.

    rows: for each pick and end, whether the warp is on top where they cross. warp,
    weft: the colour of each thread.
    """

    name: str
    rows: list[list[bool]]
    warp: list[str]
    weft: list[str]
    line: str = ""

    def svg(self) -> str:
        """Return the cloth as SVG: threads on a transparent background."""
        wide, high = PITCH * len(self.warp), PITCH * len(self.weft)
        threads = self._runs().items()
        paths = "".join(f'<path d="{d}" stroke="{colour}"/>' for colour, d in threads)
        label = html.escape(f"a cloth: {self.name}", quote=True)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="weft-cloth" '
            f'viewBox="0 0 {wide} {high}" width="{wide}" '
            f'height="{high}" style="max-width:100%;display:block;margin:6px 0 2px" '
            f'role="img" aria-label="{label}"><title>{label}</title>'
            f"<style>{STYLE}</style>"
            f'<g fill="none" stroke-width="{PITCH - 2 * GAP:g}">{paths}</g></svg>'
        )

    def _runs(self) -> dict[str, str]:
        """Return, by colour, the pieces of thread that are on top, as an SVG path."""
        runs: dict[str, str] = defaultdict(str)
        sides = ("h", self.rows, self.weft), ("v", [*zip(*self.rows)], self.warp)
        for way, lines, colours in sides:
            for number, (line, colour) in enumerate(zip(lines, colours)):
                across, along = PITCH * (number + 0.5), GAP
                for warp_on_top, crossings in groupby(line):
                    length = PITCH * len([*crossings])
                    if warp_on_top == (way == "v"):
                        x, y = (along, across) if way == "h" else (across, along)
                        runs[colour] += f"M{x:g} {y:g}{way}{length - 2 * GAP:g}"
                    along += length
        return runs

    def __str__(self) -> str:
        return self.line

    __repr__ = __str__

    def _repr_html_(self) -> str:
        image = write_image(self.svg(), f"a cloth: {self.name}")
        line = html.escape(self.line)
        return f'<div style="font-size:13px">{image}<div>{line}</div></div>'


def weave(
    rng: random.Random,
    ends: int = ENDS,
    picks: int = PICKS,
    colours: Sequence[str] = COLOURS,
) -> Cloth:
    """Return one of WEAVES, in colours drawn at random."""
    name = rng.choice([*WEAVES])
    lifted, threads, treads = WEAVES[name]
    one, two, third = rng.sample(colours, 3)
    warp, weft = [one] * 12 + [third] * rng.choice([0, 2, 4, 8]), [two]
    if name == "houndstooth":
        warp = weft = [one] * 4 + [two] * 4
    n = len(lifted)
    rows = [
        [lifted[(shaft - tread) % n] == "1" for shaft in _repeat(threads, ends)]
        for tread in _repeat(treads, picks)
    ]
    return Cloth(name, rows, _repeat(warp, ends), _repeat(weft, picks))


def weave_gamp(names: Sequence[str]) -> Cloth:
    """Return a cloth with a band for each name; the name determines the band."""
    *colours, weft = COLOURS
    width = (GROUP_ENDS + BORDER) // len(names) - BORDER
    rows: list[list[bool]] = [[] for _ in range(GROUP_PICKS)]
    warp: list[str] = []
    for name in names:
        band = weave(random.Random(name), width, GROUP_PICKS, colours)
        border = BORDER if warp else 0
        warp += [INK] * border + band.warp
        for pick, (row, band_row) in enumerate(zip(rows, band.rows)):
            row += [(pick + end) % 2 == 0 for end in range(border)] + band_row
    return Cloth(f"gamp of {len(names)} bands", rows, warp, [weft] * GROUP_PICKS)


def _repeat(pattern: Sequence[Any], count: int) -> list[Any]:
    return [*islice(cycle(pattern), count)]


def _next_line() -> str:
    """Return the line that follows the last one shown."""

    def count(records: dict[str, Any]) -> None:
        before = records.get("count")
        records["count"] = 1 + (before if isinstance(before, int) else 0)

    return LINES[(_shown.change(count)["count"] - 1) % len(LINES)]
