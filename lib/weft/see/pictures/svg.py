"""Draw the SVG marks of all pictures, and pictures that change with sliders.

A cell is a square, a thread a circle, a block a rounded frame. Text and grey lines have
the page's own colour; every other colour has one meaning everywhere (weft.base.style).

The static picture is an <img>, which every front end shows, even if a notebook is not
trusted and its scripts and inline SVG are dropped. Where scripts run, the picture's own
script takes the SVG out of the image and puts it into a separate shadow root, so that
nothing clashes with the page. Sliders then exchange the contents of <g class="now">.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from ...base.style import FAULT, MONO, PALE, READ, SHARED, THREAD, WIDTH, WRITTEN

SANS = "ui-sans-serif, system-ui, sans-serif"
SMALL = 11  # smallest font size in pixels
FAINT = 0.72  # Opacity of secondary text, which stays legible on white and on black.
FILL = 0.25
POINTS = 65  # number of points of a curve that are tested for being hidden

# An image inherits no colour from a page, so it has its own background.
GROUND = (
    "<style>svg{color:#24292f;background:#fff}"
    "@media(prefers-color-scheme:dark){svg{color:#d7dce2;background:#16191d}}</style>"
)


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
    marks += f' fill="{colour}"' * bool(colour) + f' opacity="{FAINT}"' * bool(faint)
    return f'<text x="{num(x)}" y="{num(y)}"{marks}>{escape(text)}</text>'


def words(
    x: float, y: float, parts: Iterable[tuple[str, str]], size: float = 12
) -> str:
    """Draw one line of monospaced pieces, each (text, colour or "")."""
    inner = "".join(
        f'<tspan fill="{colour}">{escape(text)}</tspan>' if colour else escape(text)
        for text, colour in parts
    )
    return (
        f'<text x="{num(x)}" y="{num(y)}" font-size="{num(size)}" '
        f'font-family="{MONO}" xml:space="preserve">{inner}</text>'
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    colour: str = "currentColor",
    fill: float = 0.0,
    radius: float = 3,
    stroke: float = 1,
    strength: float = 1,
) -> str:
    """Draw a rounded rectangle; fill, strength: opacities of area and outline."""
    area = f' fill="{colour}" fill-opacity="{fill:.2g}"' if fill else ' fill="none"'
    line = f' stroke="{colour}" stroke-width="{num(stroke)}"' if stroke else ""
    line += f' stroke-opacity="{strength:.2g}"' * (bool(stroke) and strength < 1)
    return (
        f'<rect x="{num(x)}" y="{num(y)}" width="{num(width)}" height="{num(height)}"'
        f' rx="{num(radius)}"{area}{line}/>'
    )


def thread(
    x: float, y: float, radius: float, text: str = "", *, runs: bool = True
) -> str:
    """Draw a thread: a circle around (x, y) with its number, pale if it did nothing."""
    look = (
        f'fill="{THREAD}" fill-opacity="{FILL}" stroke="{THREAD}"'
        if runs
        else f'fill="none" {PALE}'
    )
    inner = label(x, y + 4, text, SMALL, anchor="middle", faint=not runs)
    mark = f'<circle cx="{num(x)}" cy="{num(y)}" r="{num(radius)}" {look}/>'
    return mark + (inner if text else "")


def frame(x: float, y: float, width: float, height: float, text: str = "") -> str:
    """Draw a block: a rounded frame with its name above."""
    name = label(x + 2, y - 6, text, SMALL, faint=True, mono=True) if text else ""
    return box(x, y, width, height, radius=8, stroke=1.2, strength=0.5) + name


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
        f'stroke-width="1.3" stroke-opacity=".85"/>'
        f'<path d="{head}" fill="{colour}"/>'
    )


def behind(path: str, colour: str) -> str:
    """Draw a curve that passes behind something, faint so that text stays legible."""
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
        points = curve
        # A part of the curve follows from its blossom, the polynomial's polar form.
        if (a, b) != (0.0, 1.0):
            points = np.array(
                [_evaluate_blossom(curve, *at) for at in _compute_polar(a, b)]
            )
        first, *tail = (f"{num(x)} {num(y)}" for x, y in points.tolist())
        out.append(f"M{first}C{' '.join(tail)}")
    return "".join(out)


def _compute_polar(a: float, b: float) -> list[tuple[float, float, float]]:
    """Return the blossom's arguments that yield the control points from a to b."""
    return [(a, a, a), (a, a, b), (a, b, b), (b, b, b)]


def _evaluate_blossom(points: np.ndarray, *at: float) -> np.ndarray:
    """Evaluate the blossom by De Casteljau's steps, each with its own parameter."""
    for t in at:
        points = (1 - t) * points[:-1] + t * points[1:]
    return points[0]


def legend(x: float, y: float, kinds: Iterable[str]) -> str:
    """Draw a legend; kinds: keys of MARKS, in the order of drawing."""
    out = []
    for kind in kinds:
        colour, mark, text = MARKS[kind]
        out.append(_draw_mark(x, y - 10, colour, mark))
        out.append(label(x + 20, y, text, SMALL, faint=True))
        x += 20 + width_of(text, SMALL) + 18
    return "".join(out)


# Colour, form and text of each kind.
MARKS = {
    "read": (READ, "cell", "read, global"),
    "written": (WRITTEN, "corner", "written"),
    "both": (READ, "both", "read and written"),
    "shared": (SHARED, "cell", "read, shared"),
    "shared-written": (SHARED, "both", "written, shared"),
    "thread": (THREAD, "circle", "thread"),
    "idle": ("currentColor", "pale", "touched nothing"),
    "fault": (FAULT, "fault", "fault"),
}


def corner(x: float, y: float, side: float, colour: str = WRITTEN) -> str:
    """Draw the mark of a written cell: a filled lower right corner."""
    size = max(3.0, min(7.0, side * 0.3))
    return (
        f'<path d="M{num(x + side)} {num(y + side)}h{num(-size)}l{num(size)} '
        f'{num(-size)}z" fill="{colour}"/>'
    )


def _draw_mark(x: float, y: float, colour: str, form: str) -> str:
    if form == "circle":
        return thread(x + 6.5, y + 6.5, 6)
    if form == "pale":
        return thread(x + 6.5, y + 6.5, 6, runs=False)
    if form == "fault":
        return box(x, y, 13, 13, colour=colour, fill=FILL, stroke=2)
    edge = WRITTEN if form == "both" else colour
    look = box(x, y, 13, 13, colour=colour, fill=FILL, stroke=0)
    look += box(x, y, 13, 13, colour=edge)
    return look + (corner(x, y, 13) if form != "cell" else "")


def document(width: float, height: float, body: str, title: str = "") -> str:
    """Return the whole picture as SVG; it shrinks on a narrower page.

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
        body = GROUND + self._write_body(None)
        text = document(self.width, self.height, body, self.title)
        data = base64.b64encode(text.encode()).decode()
        return (
            f'<img alt="{escape(self.account or self.title)}" '
            f'width="{num(self.width)}" style="max-width:100%;height:auto" '
            f'src="data:image/svg+xml;base64,{data}">'
        )

    def html(self) -> str:
        """Return the picture for a notebook: an image, and a script for sliders."""
        mark = secrets.token_hex(6)  # the same in all copies of one output
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
        data = json.dumps(story, ensure_ascii=False, separators=(",", ":"))
        data = data.replace("</", "<\\/").replace("<!", "<\\u0021")
        script = PLAYER.read_text().replace("MARK", mark).replace("STORY", data)
        return (
            f'<div data-weft="{mark}">{self.image()}</div>\n<script>{script}</script>'
        )

    def _write_body(self, at: Sequence[int] | None) -> str:
        now = self.frames[tuple(self.start if at is None else at)]
        return f'{self.base}<g class="now">{"".join(now)}</g>'


PLAYER = Path(__file__).with_name("player.js")
