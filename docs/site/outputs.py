"""Prepare the outputs of a cell for a page: alternative texts, links and widths."""

from __future__ import annotations

import html
import re

from nbformat import NotebookNode

SVG = re.compile(r"<svg\b[^>]*>")
TEXT = re.compile(r"<text\b[^>]*>(.*?)</text>", re.S)
TAG = re.compile(r"<[^>]+>")
LINK = re.compile(r'href="(\w+)\.ipynb(?:#cell-id=([^"]+))?"')
WIDTH = re.compile(r'\bwidth="([\d.]+)(pt|px)?"')
WIDE = 560  # largest width in pixels of a drawing that shrinks on a phone
LONGEST = 220  # largest number of characters in an alternative text
NAMED = re.compile(r"\baria-(label|hidden)=|<title>")


def prepare(cell: NotebookNode) -> NotebookNode:
    """Change a code cell's outputs in place; return the cell."""
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "text/html" in data:
            data["text/html"] = prepare_html(data["text/html"])
        if "image/svg+xml" in data:  # an inline picture has the page's colours
            data["text/html"] = prepare_html(data.pop("image/svg+xml"))
        if "image/png" in data:
            describe_image(cell, data)
    return cell


def describe_image(cell: NotebookNode, data: dict[str, str]) -> None:
    """Make an output's plain text the alternative text of its image."""
    words = data.get("text/plain", "").strip()
    if not words or words.startswith("<"):
        raise ValueError(f"an image without a text:\n{cell.source}")
    cell.metadata.setdefault("mystnb", {})["image"] = {"alt": words}


def prepare_html(text: str) -> str:
    """Return HTML with links to pages, and a label for each drawing."""
    text = LINK.sub(_link_page, text)
    return _name_drawings(text)


def _link_page(link: re.Match[str]) -> str:
    place = f"#{link[2]}" if link[2] else ""
    return f'href="{link[1]}.html{place}"'


def _name_drawings(text: str) -> str:
    """Label each inline SVG that has no label with the words that it shows.

    A wide drawing also gets a class, with which it scrolls on a phone, not shrinks.
    """
    parts, last = [], 0
    for tag in SVG.finditer(text):
        inside = text[tag.end() : text.find("</svg>", tag.end())]
        opened = tag[0]
        if not NAMED.search(opened) and not inside.lstrip().startswith("<title>"):
            label = html.escape(describe_drawing(inside), quote=True)
            opened = f'{opened[:-1]} role="img" aria-label="{label}">'
        if measure_width(opened) > WIDE and "class=" not in opened:
            opened = f'{opened[:-1]} class="wide">'
        parts += [text[last : tag.start()], opened]
        last = tag.end()
    return "".join(parts) + text[last:]


def measure_width(tag: str) -> float:
    """Return the width of an SVG in pixels; 0 if its tag has no width."""
    width = WIDTH.search(tag)
    if not width:
        return 0.0
    return float(width[1]) * (4 / 3 if width[2] == "pt" else 1)


def describe_drawing(inside: str) -> str:
    """Return the words of a drawing, the longest first, without its numbers."""
    words = (html.unescape(TAG.sub("", one)).strip() for one in TEXT.findall(inside))
    kept = dict.fromkeys(word for word in words if re.search(r"[^\W\d_]{2}", word))
    label = "picture: " + "; ".join(sorted(kept, key=len, reverse=True))
    return label if len(label) <= LONGEST else label[:LONGEST].rsplit(" ", 1)[0] + " …"
