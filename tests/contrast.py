"""WCAG contrast of the marks and texts of SVG and HTML on light and dark pages."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from html.parser import HTMLParser

# (page, its text): backgrounds of an image, JupyterLab, VS Code and GitHub.
PAGES = {
    "light image": ("#ffffff", "#24292f"),
    "dark image": ("#16191d", "#d7dce2"),
    "light JupyterLab": ("#ffffff", "#212121"),
    "dark JupyterLab": ("#111111", "#dedede"),
    "dark VS Code": ("#1e1e1e", "#cccccc"),
    "dark GitHub": ("#0d1117", "#e6edf3"),
}
MARK, TEXT = 3.0, 4.5  # minimum contrast: WCAG 2.2, 1.4.11 and 1.4.3
SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "use")
MIX = re.compile(r"color-mix\(in srgb, (\S+) (\d+)%, currentColor\)")
INHERITED = ("fill", "stroke", "fill-opacity", "stroke-opacity", "color")

Colour = tuple[float, float, float]


def read_colour(text: str, ink: Colour) -> Colour | None:
    """Return a CSS colour's red, green and blue, from 0 to 1; None for no colour."""
    text = text.strip()
    if text in ("none", "transparent", ""):
        return None
    if text == "currentColor":
        return ink
    if mixed := MIX.fullmatch(text):
        colour = read_colour(mixed[1], ink)
        return blend(colour, ink, int(mixed[2]) / 100)
    if named := re.fullmatch(r"rgba?\(([\d.]+), ?([\d.]+), ?([\d.]+).*\)", text):
        return tuple(float(named[i]) / 255 for i in (1, 2, 3))
    text = {"black": "#000000", "white": "#ffffff"}.get(text, text)
    if re.fullmatch("#[0-9a-fA-F]{3}", text):
        text = "#" + "".join(2 * digit for digit in text[1:])
    assert re.fullmatch("#[0-9a-fA-F]{6}", text), text
    return tuple(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))


def read_style(text: str) -> dict[str, str]:
    """Map the properties of an element's style to values; the last value counts."""
    pairs = (one.partition(":") for one in text.split(";") if ":" in one)
    return {key.strip(): value.strip() for key, _, value in pairs}


def blend(above: Colour, below: Colour, opacity: float) -> Colour:
    return tuple(opacity * a + (1 - opacity) * b for a, b in zip(above, below))


def measure_luminance(colour: Colour) -> float:
    """Return the relative luminance by WCAG 2.2."""
    parts = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), parts))


def measure_contrast(one: Colour, other: Colour) -> float:
    dark, light = sorted(map(measure_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def list_faint(svg: str, page: str) -> list[str]:
    """Return the marks and texts of an SVG with too little contrast on a page.

    Grid lines, ticks and marks that only repeat others (data-behind, data-ground) need
    no contrast, nor do the lower levels of a heat map.
    """
    paper, ink = (read_colour(text, (0, 0, 0)) for text in PAGES[page])
    root = ElementTree.fromstring(svg[svg.index("<svg") :])
    start = {"fill": "#000000", "stroke": "none"}
    return [*_walk(root, start, 1.0, paper, ink)]


def _walk(node, above, opacity: float, paper: Colour, ink: Colour) -> Iterator[str]:
    name = node.tag.rpartition("}")[2]
    skipped = re.match(r"[xy]tick|matplotlib\.axis", node.get("id", ""))
    if name in ("defs", "metadata", "style", "title"):
        return
    if {"data-behind", "data-ground"} & set(node.attrib):
        return
    if "data-level" in node.attrib and node.get("fill-opacity") != "1.00":
        return
    look = {key: node.get(key) for key in (*INHERITED, "opacity") if node.get(key)}
    look |= read_style(node.get("style", ""))
    opacity *= float(look.get("opacity", 1))
    look = above | {key: look[key] for key in INHERITED if key in look}
    if name in ("text", "tspan") and "".join(node.itertext()).strip():
        ratio = _measure(look, "fill", opacity, paper, ink)
        if ratio < TEXT:
            yield f"{ratio:.2f} text {''.join(node.itertext()).strip()!r}"
    if name in SHAPES:
        kinds = [k for k in ("fill", "stroke") if look[k] != "none"]
        ratio = max((_measure(look, k, opacity, paper, ink) for k in kinds), default=99)
        if ratio < MARK and not (skipped or above.get("ticks")):
            text = re.sub(r' d="[^"]*"', "", ElementTree.tostring(node, "unicode"))
            yield f"{ratio:.2f} mark {text[:160]}"
    if skipped:
        look["ticks"] = "1"
    for child in node:
        yield from _walk(child, look, opacity, paper, ink)


def _measure(look, kind: str, opacity: float, paper: Colour, ink: Colour) -> float:
    if look[kind].startswith("url"):
        return 99
    colour = read_colour(look[kind], ink)
    if colour is None:
        return 1
    strength = opacity * float(look.get(f"{kind}-opacity", 1))
    return measure_contrast(blend(colour, paper, strength), paper)


class _Page(HTMLParser):
    """Find texts with too little contrast with the background of their element."""

    def __init__(self, paper: Colour, ink: Colour) -> None:
        super().__init__()
        # (background, colour, opacity) of each open element.
        self.stack = [(paper, ink, 1.0)]
        self.faint: list[str] = []

    def handle_starttag(self, tag, attributes):
        paper, ink, opacity = self.stack[-1]
        style = read_style(dict(attributes).get("style") or "")
        if style.get("color", "inherit") != "inherit":
            ink = read_colour(style["color"], ink)
        if tint := re.search(r"rgba\((.*),([\d.]+)\)", style.get("background", "")):
            paper = blend(read_colour(f"rgb({tint[1]})", ink), paper, float(tint[2]))
        if tag not in ("br", "img", "hr"):
            self.stack.append((paper, ink, opacity * float(style.get("opacity", 1))))

    def handle_endtag(self, tag):
        self.stack.pop()

    def handle_data(self, data):
        paper, ink, opacity = self.stack[-1]
        ratio = measure_contrast(blend(ink, paper, opacity), paper)
        if data.strip() and ratio < TEXT:
            self.faint.append(f"{ratio:.2f} text {data.strip()!r}")


def list_faint_texts(html: str, page: str) -> list[str]:
    """Return the texts of an HTML output with too little contrast on a page."""
    reader = _Page(*(read_colour(text, (0, 0, 0)) for text in PAGES[page]))
    reader.feed(html)
    return reader.faint
