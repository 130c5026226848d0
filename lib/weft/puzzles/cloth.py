"""A small reward: a piece of cloth for each solved puzzle.

Each warp thread goes through one of the loom's shafts. Each treadle lifts some shafts
for a pick of the weft. A lifted warp thread is on top of the weft; the weft is on top
of the others. A solved group gets a gamp: a wider cloth with a band for each puzzle.
"""

from __future__ import annotations

import html
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, groupby, islice
from typing import TYPE_CHECKING, Any

from ..base.store import Kept
from ..base.style import INK, OURS, SHARED, THREAD, WRITTEN
from ..see.pictures.svg import write_image
from .progress import latest_solved, read_progress

if TYPE_CHECKING:
    from .puzzle import Puzzle

# Okabe and Ito's colours, without black and without vermilion, the colour of faults.
COLOURS = (OURS, WRITTEN, SHARED, THREAD, "#F0E442", "#56B4E9")
PITCH = 4  # pixels from thread to thread
GAP = 0.25  # pixels left free on each side of a thread
ENDS, PICKS = 75, 14  # threads of the warp and of the weft: 300 x 56 pixels
GROUP_ENDS, GROUP_PICKS = 160, 18  # threads of a group's cloth
BORDER = 2  # threads of plain weave between two bands; no float crosses them
UP, POINT = range(8), (*range(8), *range(6, 0, -1))
HERRINGBONE = (0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 3, 2, 1, 0, 3, 2)
FANCY = "11010010"
# The shafts that the first treadle lifts (each next treadle shifts them by one), the
# shaft of each warp thread, and the treadle of each pick. All three repeat.
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
    """Keep the larger one of each pair of counts."""
    counts = [one["count"] for one in (records, others) if "count" in one]
    records["count"] = max((n for n in counts if isinstance(n, int)), default=0)


_shown = Kept("cloth", _keep_larger)  # how many lines were already shown


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
    """Return a cloth with a band for each name; a name always has the same band."""
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
    """Return the line after the one that was shown last."""

    def count(records: dict[str, Any]) -> None:
        before = records.get("count")
        records["count"] = 1 + (before if isinstance(before, int) else 0)

    return LINES[(_shown.change(count)["count"] - 1) % len(LINES)]
