"""The small delight: a piece of cloth for each puzzle that is solved.

A weaver's draft says how a cloth is made. Each warp thread goes through one of the
loom's shafts (threading), each treadle lifts some of them (tie-up), and each pick of
the weft is thrown while one treadle is down (treadling). Where a thread of the warp is
lifted it lies on top, else the weft does. Drawn here at random, in real weaves.

Once a group is solved there is a wider cloth, of a band for each of its puzzles: a
gamp, as weavers call it, many threadings under one treadling.
"""

from __future__ import annotations

import html
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base.store import Kept
from ..base.style import OURS, SHARED, THREAD, WRITTEN
from .progress import latest_solved, read_progress

if TYPE_CHECKING:
    from .puzzle import Puzzle

# Okabe and Ito's, without black, and vermilion, which is a fault in our pictures.
COLOURS = (OURS, WRITTEN, SHARED, THREAD, "#F0E442", "#56B4E9")
PITCH = 4  # pixels from thread to thread
GAP = 0.25  # left free on each side of one
ENDS, PICKS = 75, 14  # threads of the warp and of the weft: 300 x 56 pixels
GROUP_ENDS, GROUP_PICKS = 160, 18  # of a group's cloth
BORDER = 2  # threads between two bands, in plain weave: no float crosses it
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
    "All threads in step.",
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
    "Not a stitch too many.",
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
STYLE = (
    "@media (prefers-reduced-motion:no-preference){.weft-cloth{animation:"
    "weft-cloth 1s ease-out}}@keyframes weft-cloth{from{clip-path:inset(0 100% 0 0)}}"
)

_shown = Kept("cloth")  # which lines were


def cloth(puzzle: Puzzle) -> Cloth:
    """A cloth for a puzzle that has been solved: another one each time.

    The wide one of its group, if this completed it, or if it is the group's last.
    """
    rng = random.Random(f"{puzzle.name} {time.time_ns()}")
    now = read_progress()
    names = now.groups.get(puzzle.group, ())
    ends_group = puzzle.name in (latest_solved(), *names[-1:])
    if names and ends_group and now.complete(puzzle.group):
        line = f"All {len(names)} of {puzzle.group} are solved: a band for each."
        return Cloth(gamp(names, rng), line)
    return Cloth(draft(rng), _line(rng))


@dataclass(frozen=True)
class Draft:
    """A cloth as a weaver notes it down.

    threading: of each thread of the warp its shaft. tie_up: of each treadle the shafts
    that it lifts. treadling: of each pick its treadle. warp, weft: colours by thread.
    """

    name: str
    threading: tuple[int, ...]
    tie_up: tuple[frozenset[int], ...]
    treadling: tuple[int, ...]
    warp: tuple[str, ...]
    weft: tuple[str, ...]

    def lifted(self, pick: int, end: int) -> bool:
        """Whether the warp lies on top where these two threads cross."""
        return self.threading[end] in self.tie_up[self.treadling[pick]]

    def rows(self) -> list[list[bool]]:
        """lifted() by pick and end."""
        return [
            [self.lifted(pick, end) for end in range(len(self.threading))]
            for pick in range(len(self.treadling))
        ]


@dataclass(frozen=True)
class Cloth:
    """A draft, and a line to go with it."""

    draft: Draft
    line: str

    def svg(self) -> str:
        """The cloth as it comes from the loom; threads on transparent ground."""
        wide, high = (PITCH * len(side) for side in (self.draft.warp, self.draft.weft))
        paths = "".join(
            f'<path d="{"".join(runs)}" stroke="{colour}"/>'
            for colour, runs in _runs(self.draft).items()
        )
        label = html.escape(f"a cloth: {self.draft.name}", quote=True)
        return (
            f'<svg class="weft-cloth" viewBox="0 0 {wide} {high}" width="{wide}" '
            f'height="{high}" style="max-width:100%;display:block;margin:6px 0 2px" '
            f'role="img" aria-label="{label}"><title>{label}</title>'
            f"<style>{STYLE}</style>"
            f'<g fill="none" stroke-width="{PITCH - 2 * GAP:g}">{paths}</g></svg>'
        )

    def __str__(self) -> str:
        return self.line

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = html.escape(self.line)
        return f'<div style="font-size:13px">{self.svg()}<div>{said}</div></div>'


# ---- weaves -----------------------------------------------------------------------


def draft(rng: random.Random, ends: int = ENDS, picks: int = PICKS) -> Draft:
    """A weave drawn at random, in colours drawn at random."""
    name, threads, tie_up, treads = rng.choice(_WEAVES)(rng)
    warp, weft = _colours(name, rng)
    return Draft(
        name,
        _over(threads, ends),
        tie_up,
        _over(treads, picks),
        _over(warp, ends),
        _over(weft, picks),
    )


def gamp(names: Sequence[str], rng: random.Random) -> Draft:
    """A band for each name, with a threading and colours of its own."""
    shafts, count = 8, len(names)
    *bands, weft = COLOURS
    width = (GROUP_ENDS + BORDER) // count - BORDER
    twill = _twill(rng.choice(_FANCY))
    # The borders' own two shafts: one treadle lifts the first, the next the other.
    tie_up = tuple(lifts | {shafts + t % BORDER} for t, lifts in enumerate(twill))
    treads = rng.choice([_straight(shafts), _point(shafts)])
    threading: list[int] = []
    warp: list[str] = []
    for number, name in enumerate(names):
        own = random.Random(name)
        threads = own.choice([_straight(shafts), _point(shafts), _broken(shafts)])
        first = bands[number % len(bands)]
        second = own.choice([colour for colour in bands if colour != first])
        stripes = _stripes(own, (first, second))
        if number:
            threading += range(shafts, shafts + BORDER)
            warp += ["#767676"] * BORDER
        threading += _over(threads, width)
        warp += _over(stripes, width)
    treadling = _over(treads, GROUP_PICKS)
    picks = (weft,) * GROUP_PICKS
    name = f"gamp of {count} bands"
    return Draft(name, tuple(threading), tie_up, treadling, tuple(warp), picks)


Weave = tuple[str, Sequence[int], tuple[frozenset[int], ...], Sequence[int]]
_FANCY = ((1, 1, 0, 1, 0, 0, 1, 0), (1, 1, 1, 0, 0, 1, 0, 0), (1, 1, 0, 0, 1, 0, 1, 0))


def _straight(shafts: int) -> list[int]:
    return list(range(shafts))


def _point(shafts: int) -> list[int]:
    """To the last shaft and back."""
    return [*range(shafts), *range(shafts - 2, 0, -1)]


def _broken(shafts: int) -> list[int]:
    """Forth, then back from half of a repeat away: a herringbone's spine."""
    up = list(range(shafts)) * 2
    back = [(shafts // 2 - 1 - i) % shafts for i in range(2 * shafts)]
    return up + back


def _twill(row: Sequence[int]) -> tuple[frozenset[int], ...]:
    """A tie-up whose treadles lift the same pattern, one shaft further each."""
    n = len(row)
    return tuple(frozenset(s for s in range(n) if row[(s - t) % n]) for t in range(n))


def _plain(rng: random.Random) -> Weave:
    return "plain weave", [0, 1], _twill((1, 0)), [0, 1]


def _log_cabin(rng: random.Random) -> Weave:
    return "log cabin", [0, 1], _twill((1, 0)), [0, 1]


def _basket(rng: random.Random) -> Weave:
    return "basket weave", [0, 0, 1, 1], _twill((1, 0)), [0, 0, 1, 1]


def _diagonal(rng: random.Random) -> Weave:
    row = rng.choice([(1, 1, 0, 0), (1, 0, 0, 0), (1, 1, 1, 0)])
    treads = _straight(4)[:: rng.choice([1, -1])]
    return f"twill {sum(row)}/{4 - sum(row)}", _straight(4), _twill(row), treads


def _houndstooth(rng: random.Random) -> Weave:
    return "houndstooth", _straight(4), _twill((1, 1, 0, 0)), _straight(4)


def _satin(rng: random.Random) -> Weave:
    shafts, step = rng.choice([(5, 2), (5, 3), (8, 3), (8, 5)])
    order = [(step * pick) % shafts for pick in range(shafts)]
    row = [1] + [0] * (shafts - 1)
    return f"satin of {shafts}", _straight(shafts), _twill(row), order


def _herringbone(rng: random.Random) -> Weave:
    return "herringbone", _broken(4), _twill((1, 1, 0, 0)), _straight(4)


def _chevron(rng: random.Random) -> Weave:
    return "chevron", _point(8), _twill((1, 1, 1, 0, 0, 1, 0, 0)), _straight(8)


def _diamonds(rng: random.Random) -> Weave:
    return "diamonds", _point(8), _twill(rng.choice(_FANCY)), _point(8)


def _birds_eye(rng: random.Random) -> Weave:
    return "bird's eye", _point(4), _twill((1, 1, 0, 0)), _point(4)


def _fancy(rng: random.Random) -> Weave:
    treads = _straight(8)[:: rng.choice([1, -1])]
    return "fancy twill", _straight(8), _twill(rng.choice(_FANCY)), treads


_WEAVES = (
    *(_plain, _log_cabin, _basket, _diagonal, _houndstooth, _satin, _herringbone),
    *(_chevron, _diamonds, _birds_eye, _fancy),
)


def _over(pattern: Sequence[Any], count: int) -> tuple[Any, ...]:
    """The pattern again and again."""
    return tuple(pattern[i % len(pattern)] for i in range(count))


def _colours(name: str, rng: random.Random) -> tuple[list[str], list[str]]:
    """Of the warp and of the weft, as a pattern of threads."""
    one, two, third = rng.sample(COLOURS, 3)
    if name == "log cabin":  # two colours by turns, which change places at each block
        block = [one, two] * 4 + [two, one] * 4
        return block, [one, two] * 3 + [two, one] * 3
    if name == "houndstooth":
        return [one] * 4 + [two] * 4, [one] * 4 + [two] * 4
    return _stripes(rng, (one, third)), [two]


def _stripes(rng: random.Random, pair: Sequence[str]) -> list[str]:
    """One colour, or two in stripes."""
    wide = rng.choice([0, 2, 4, 8])
    return [pair[0]] * (12 if wide else 1) + [pair[1]] * wide


def _runs(made: Draft) -> dict[str, list[str]]:
    """By colour the pieces of thread that lie on top, as an SVG path has them."""
    rows = made.rows()
    runs: dict[str, list[str]] = {}
    for pick, row in enumerate(rows):
        for start, stop in _stretches([not up for up in row]):
            x, y = PITCH * start + GAP, PITCH * (pick + 0.5)
            length = PITCH * (stop - start) - 2 * GAP
            runs.setdefault(made.weft[pick], []).append(f"M{x:g} {y:g}h{length:g}")
    for end in range(len(made.threading)):
        for start, stop in _stretches([row[end] for row in rows]):
            x, y = PITCH * (end + 0.5), PITCH * start + GAP
            length = PITCH * (stop - start) - 2 * GAP
            runs.setdefault(made.warp[end], []).append(f"M{x:g} {y:g}v{length:g}")
    return runs


def _stretches(on: Sequence[bool]) -> list[tuple[int, int]]:
    """Where it is on without a break: (start, stop)."""
    edges = [i for i in range(len(on) + 1) if _at(on, i) != _at(on, i - 1)]
    return list(zip(edges[::2], edges[1::2]))


def _at(on: Sequence[bool], place: int) -> bool:
    return 0 <= place < len(on) and on[place]


def _line(rng: random.Random) -> str:
    """A line that was not shown before; all of them anew when none is left."""
    chosen = 0

    def choose(records: dict[str, Any]) -> None:
        nonlocal chosen
        known = records.get("lines")
        shown = [i for i in known if isinstance(i, int)] if known else []
        left = [i for i in range(len(LINES)) if i not in shown]
        if not left:
            left, shown = [i for i in range(len(LINES)) if i != shown[-1]], []
        chosen = rng.choice(left)
        records["lines"] = [*shown, chosen]

    _shown.change(choose)
    return LINES[chosen]
