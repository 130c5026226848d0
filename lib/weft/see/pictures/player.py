"""A picture whose moving part changes with sliders, as plain HTML.

The static picture is an <img>, which every front end shows, also where a notebook is
not trusted and its scripts and inline SVG are dropped. Where scripts run, this one
takes the SVG out of the image, puts it into a shadow root of its own (nothing of the
page can clash with it), and lets sliders exchange what stands in <g class="now">.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from .svg import GROUND, document, num


@dataclass(frozen=True)
class Slider:
    """One way through a picture: its name and what each of its stops is called."""

    name: str
    stops: tuple[str, ...]


@dataclass
class Drawing:
    """What stays, and what each position of the sliders draws over it.

    frames: by one stop number for each slider, in parts that several may share. start:
    what the static picture shows. account: the same in words. taken: frames, from
    (x, y) to (x, y), of what it holds, if that is known.
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
        """One still, in the colour of the page it is put into."""
        return document(self.width, self.height, self._write_body(at), self.title)

    def image(self) -> str:
        """The start as an <img>, with a ground of its own, light or dark."""
        body = GROUND + self._write_body(None)
        text = document(self.width, self.height, body, self.title)
        data = base64.b64encode(text.encode()).decode()
        return (
            f'<img alt="{escape(self.account or self.title)}" '
            f'width="{num(self.width)}" style="max-width:100%;height:auto" '
            f'src="data:image/svg+xml;base64,{data}">'
        )

    def html(self) -> str:
        """The picture for a notebook: an image, and a script that makes it move."""
        mark = secrets.token_hex(6)  # an output that is shown twice keeps it
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
