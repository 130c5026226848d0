"""Draw the SVG marks of all pictures, and pictures that change with sliders.

A cell is a square, a thread a circle, a block a rounded frame. Text and grey lines have
the page's own colour; every other colour has one meaning everywhere (weft.base.style).

The static picture is an <img>. Every front end shows it, even if a notebook is not
trusted and its scripts and inline SVG are dropped. Where scripts run, the picture's own
script moves the SVG from the image to a separate shadow root, where it cannot clash
with the page. Sliders then exchange the contents of <g class="now">, and a button shows
the picture full screen. Charts of matplotlib use the same output.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import running_shell
from ...base.style import (
    FAINT,
    FAULT,
    MONO,
    PALE,
    READ,
    SHARED,
    THREAD,
    WIDTH,
    WRITTEN,
    set_ground,
    write_colour,
)

SANS = "ui-sans-serif, system-ui, sans-serif"
SMALL = 11  # smallest font size in pixels
FILL = 0.25
POINTS = 65  # number of points of a curve that are tested for being hidden

LEGIBLE = 9.4  # smallest height of text on a narrow page, in CSS pixels


def num(value: float) -> str:
    """Write a coordinate with at most one decimal."""
    text = f"{value:.1f}"
    return text[:-2].replace("-0", "0") if text.endswith(".0") else text


def width_of(text: str, size: float = 12, mono: bool = False) -> float:
    """Estimate a text's width in pixels, erring on the large side."""
    if mono:
        return 0.61 * size * len(text)
    narrow = sum(letter in "iljtfrI.,:;'|()[] 1" for letter in text)
    wide = sum(letter in "mwMW%@" for letter in text)
    return size * (0.59 * (len(text) - narrow - wide) + 0.36 * narrow + 0.88 * wide)


def clipped(text: str, room: float, size: float = 12, mono: bool = False) -> str:
    """Return the part of a text that fits into `room` pixels, with an ellipsis."""
    if width_of(text, size, mono) <= room:
        return text
    while text and width_of(text + "…", size, mono) > room:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


def label(
    x: float,
    y: float,
    text: str,
    size: float = 12,
    *,
    anchor: str = "start",
    colour: str = "",
    mono: bool = False,
    bold: bool = False,
    faint: bool = False,
) -> str:
    """Draw text with its baseline at y; anchor: start, middle or end."""
    marks = f' font-size="{num(max(size, SMALL))}"'
    marks += f' text-anchor="{anchor}"' * (anchor != "start")
    marks += f' font-family="{MONO}" xml:space="preserve"' * mono
    marks += ' font-weight="600"' * bold
    marks += ink(colour) + f' opacity="{FAINT}"' * bool(faint)
    return f'<text x="{num(x)}" y="{num(y)}"{marks}>{escape(text)}</text>'


def ink(colour: str) -> str:
    """Return the attribute of a coloured text; "" for the page's own colour."""
    return f' style="{write_colour(colour, "fill")}"' if colour else ""


def remark(x: float, y: float, text: str, **look: Any) -> str:
    """Draw small, faint text, such as a number on an axis; look: options of label()."""
    return label(x, y, text, SMALL, faint=True, **look)


def rule(path: str, **look: str) -> str:
    """Draw straight lines in the colour of the text; look: opacity and width."""
    more = "".join(f' stroke-{name}="{value}"' for name, value in look.items())
    return f'<path d="{path}" stroke="currentColor"{more}/>'


def list_ticks(end: float) -> range:
    """Return the ticks of an axis from 0 to `end`, in steps of 1, 2, 5, 10, 20, ..."""
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    return range(0, int(end) + 1, next(step for step in steps if end <= 8 * step))


def words(x: float, y: float, parts: Iterable[tuple[str, str]]) -> str:
    """Draw one line of monospaced pieces, each (text, colour or "")."""
    inner = "".join(
        f"<tspan{ink(colour)}>{escape(text)}</tspan>" if colour else escape(text)
        for text, colour in parts
    )
    return (
        f'<text x="{num(x)}" y="{num(y)}" font-size="12" '
        f'font-family="{MONO}" xml:space="preserve">{inner}</text>'
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    colour: str = "currentColor",
    edge: str = "",
    fill: float = 0.0,
    radius: float = 3,
    stroke: float = 1,
    strength: float = 1,
) -> str:
    """Draw a rounded rectangle; fill, strength: opacities of area and outline.

    edge: the colour of the outline if it is not that of the area.
    """
    area = f' fill="{colour}" fill-opacity="{fill:.2g}"' if fill else ' fill="none"'
    line = f' stroke="{edge or colour}" stroke-width="{num(stroke)}"' if stroke else ""
    line += f' stroke-opacity="{strength:.2g}"' * (bool(stroke) and strength < 1)
    return (
        f'<rect x="{num(x)}" y="{num(y)}" width="{num(width)}" height="{num(height)}"'
        f' rx="{num(radius)}"{area}{line}/>'
    )


def thread(x: float, y: float, radius: float, *, runs: bool = True) -> str:
    """Draw a thread: a circle around (x, y), pale if the thread did nothing."""
    active = f'fill="{THREAD}" fill-opacity="{FILL}" stroke="{THREAD}"'
    look = active if runs else f'fill="none" {PALE}'
    return f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(radius)}" {look}/>'


def arrow(
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str,
    *,
    level: bool = False,
    hidden: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> str:
    """Draw a curve, vertical (or level) at both ends, with an arrowhead at its end.

    hidden: a function that maps points (x, y) to a mask of hidden points. The curve is
    faint there, since a gap would make it look broken.
    """
    (x0, y0), (x1, y1) = start, end
    way = x1 - x0 if level else y1 - y0
    ahead, bend = 5 if way > 0 else -5, 0.55 * way
    if level:
        curve = [start, (x0 + bend, y0), (x1 - bend, y1), (x1 - ahead, y1)]
        head = f"M{num(x1 - ahead)} {num(y1 - 3.2)}v6.4l{ahead} -3.2z"
    else:
        curve = [start, (x0, y0 + bend), (x1, y1 - bend), (x1, y1 - ahead)]
        head = f"M{num(x1 - 3.2)} {num(y1 - ahead)}h6.4l-3.2 {ahead}z"
    full, visible = (_split_pieces(np.array(curve), mask) for mask in (None, hidden))
    return (
        f"{behind(full, colour) if visible != full else ''}"
        f'<path d="{visible}" fill="none" stroke="{colour}" '
        f'stroke-width="1.3"/>'
        f'<path d="{head}" fill="{colour}"/>'
    )


def behind(path: str, colour: str) -> str:
    """Draw the hidden part of a curve, faintly so that text over it stays legible."""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" '
        f'stroke-opacity=".4" data-behind=""/>'
    )


def _split_pieces(
    curve: np.ndarray, hidden: Callable[[np.ndarray, np.ndarray], np.ndarray] | None
) -> str:
    """Return the path of a cubic Bezier curve (4 points) without its hidden parts."""
    ends = [(0.0, 1.0)]
    if hidden is not None:
        t = np.linspace(0, 1, POINTS)
        u = 1 - t
        parts = np.stack([u**3, 3 * u**2 * t, 3 * u * t**2, t**3], 1)
        visible = ~hidden(*(parts @ curve).T)
        if not visible.all():
            edges = np.flatnonzero(np.diff(np.pad(visible.astype(int), 1)))
            pairs = zip(edges[::2], edges[1::2] - 1)
            ends = [(t[a], t[b]) for a, b in pairs if b > a]
    out = []
    for a, b in ends:
        # A part's control points follow from the blossom, the polynomial's polar form.
        polar = (a, a, a), (a, a, b), (a, b, b), (b, b, b)
        whole = (a, b) == (0.0, 1.0)
        points = curve if whole else [_evaluate_blossom(curve, *at) for at in polar]
        first, *tail = (f"{num(x)} {num(y)}" for x, y in points)
        out.append(f"M{first}C{' '.join(tail)}")
    return "".join(out)


def _evaluate_blossom(points: np.ndarray, *at: float) -> np.ndarray:
    """Evaluate the blossom by De Casteljau's steps, each with its own parameter."""
    for t in at:
        points = (1 - t) * points[:-1] + t * points[1:]
    return points[0]


def hatch(name: str, colour: str, angle: int) -> str:
    """Define a hatching for fill="url(#weft-NAME)" and strokes.

    Areas that touch differ in more than their colour.
    """
    return (
        f'<pattern id="weft-{name}" width="6" height="6" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate({angle})" stroke="{colour}">'
        f'<path d="M0 3h6" stroke-width="6" stroke-opacity="{FILL}"/>'
        f'<path d="M0 3h6" stroke-width="1.4"/></pattern>'
    )


Mark = Callable[[float, float], str]  # draws a legend's mark at x and y


def legend(
    x: float, y: float, marks: Iterable[tuple[Mark, str]], gap=20, apart=18
) -> tuple[str, float]:
    """Draw marks with their texts; also return the x after them.

    gap: pixels from a mark to its text. apart: pixels from a text to the next mark.
    """
    out = ""
    for draw, text in marks:
        out += draw(x, y - 10) + remark(x + gap, y, text)
        x += gap + width_of(text, SMALL) + apart
    return out, x


def square(**look: Any) -> Mark:
    """Return a square as the mark of a legend; look: options of box()."""
    return partial(box, width=13, height=13, **look)


def corner(x: float, y: float, side: float) -> str:
    """Return the path of a written cell's mark: its lower right corner."""
    size = max(3.0, min(7.0, side * 0.3))
    right = f"{num(x + side)} {num(y + side)}"
    return f"M{right}h{num(-size)}l{num(size)} {num(-size)}z"


def _draw_written(x: float, y: float, colour: str) -> str:
    path = f'<path d="{corner(x, y, 13)}" fill="{WRITTEN}"/>'
    return square(colour=colour, edge=WRITTEN, fill=FILL)(x, y) + path


def _draw_thread(x: float, y: float, runs: bool) -> str:
    return thread(x + 6.5, y + 6.5, 6, runs=runs)


MARKS = {  # the mark and the text for each kind
    "read": (square(colour=READ, fill=FILL), "read, global"),
    "written": (partial(_draw_written, colour=WRITTEN), "written"),
    "shared": (square(colour=SHARED, fill=FILL), "read, shared"),
    "shared-written": (partial(_draw_written, colour=SHARED), "written, shared"),
    "thread": (partial(_draw_thread, runs=True), "thread"),
    "idle": (partial(_draw_thread, runs=False), "touched nothing"),
    "fault": (square(colour=FAULT, fill=FILL, stroke=2), "fault"),
}


def document(width: float, height: float, body: str, title: str = "") -> str:
    """Return the whole picture as an SVG that shrinks on a narrower page.

    width: in pixels, at most style.WIDTH. title: the text for screen readers.
    """
    width = min(width, WIDTH)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {num(width)} '
        f'{num(height)}" width="{num(width)}" style="max-width:100%;height:auto" '
        f'role="img" font-family="{SANS}" font-size="12" fill="currentColor">'
        f"<title>{escape(title)}</title>{body}</svg>"
    )


@dataclass(frozen=True)
class Slider:
    """One slider of a picture: its name and the name of each of its stops."""

    name: str
    stops: tuple[str, ...]


@dataclass
class Drawing:
    """The fixed part of a picture, and the parts for each position of the sliders.

    frames: for each combination of stops, a list of parts; combinations share parts.
    start: the stops of the static picture. account: a description in words. taken: the
    occupied frames, as (left, top, right, bottom), if they are known.
    """

    title: str
    width: float
    height: float
    base: str
    sliders: Sequence[Slider]
    frames: dict[tuple[int, ...], list[str]]
    start: tuple[int, ...] = ()
    account: str = ""
    taken: Sequence[tuple[float, float, float, float]] = ()

    def svg(self, at: Sequence[int] | None = None) -> str:
        """Draw one still, in the colours of the page that contains it."""
        return document(self.width, self.height, self._write_body(at), self.title)

    def image(self) -> str:
        """Draw the initial still as an <img> with its own background, light or dark."""
        return write_image(set_ground(self.svg()), self.account or self.title)

    def html(self) -> str:
        """Return the picture for a notebook: an image, and a script for sliders."""
        parts: dict[str, int] = {}
        frames = {
            ",".join(map(str, at)): [parts.setdefault(p, len(parts)) for p in frame]
            for at, frame in self.frames.items()
        }
        story = {
            "sliders": [[s.name, list(s.stops)] for s in self.sliders],
            "start": list(self.start),
            "frames": frames if len(frames) > 1 else {},
            "parts": list(parts) if len(frames) > 1 else [],
        }
        return write_html(self.svg(), self.account or self.title, story)

    def show(self) -> None:
        """Show the picture below a notebook's cell; elsewhere, print its account."""
        if running_shell() is None:
            print(self.account or self.title)
            return
        from IPython.display import display

        display(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.account or self.title}

    def _write_body(self, at: Sequence[int] | None) -> str:
        now = self.frames[tuple(self.start if at is None else at)]
        return f'{self.base}<g class="now">{"".join(now)}</g>'


# ---- the output of a cell -----------------------------------------------------------

PLAYER = Path(__file__).with_name("player.js")
STILL = {
    "sliders": [],
    "start": [],
    "frames": {},
    "parts": [],
}  # player.js's data for a picture without sliders


def make_bundle(text: str, account: str) -> dict[str, str]:
    """Return the output of a cell with an SVG; account: the picture in words."""
    return {"text/html": write_html(text, account), "text/plain": account}


def write_html(text: str, account: str, story: dict[str, Any] = STILL) -> str:
    """Return an SVG as an <img>, and the script for its sliders and its full screen."""
    mark = secrets.token_hex(6)  # all copies of one output share this mark
    data = json.dumps(story, ensure_ascii=False, separators=(",", ":"))
    data = data.replace("</", "<\\/").replace("<!", "<\\u0021")
    code = PLAYER.read_text().replace("MARK", mark).replace("STORY", data)
    image = write_image(set_ground(text), account)
    return (
        f'<div data-weft="{mark}" style="overflow-x:auto">{image}</div>\n'
        f"<script>{code}</script>"
    )


def write_image(text: str, account: str) -> str:
    """Return an SVG as an <img>, which shrinks until its text becomes illegible."""
    data = base64.b64encode(text.encode()).decode()
    wide, least = measure_widths(text)
    return (
        f'<img alt="{escape(account)}" width="{num(wide)}" '
        f'style="max-width:100%;min-width:{num(least)}px;height:auto" '
        f'src="data:image/svg+xml;base64,{data}"/>'
    )


def measure_widths(text: str) -> tuple[float, float]:
    """Return an SVG's natural width, and the least one with legible text, in pixels."""
    root = text[: text.index(">", text.index("<svg"))]
    unit = 4 / 3 if re.search(r' width="[\d.]+pt"', root) else 1
    wide = float(re.findall(r'viewBox="\S+ \S+ ([\d.]+)', root)[0])
    sizes = re.findall(r"font-size(?:: |=\")([\d.]+)", text)
    smallest = min(map(float, sizes), default=math.inf)
    return wide * unit, wide * LEGIBLE / smallest
