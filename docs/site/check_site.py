"""Check the built site: links, alternative texts, the network, and sizes."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LARGEST = 600_000  # limit on the compressed bytes of a page and its files
LOADS = {"img": "src", "script": "src", "source": "src", "iframe": "src"}
SQUEEZED = {".woff2", ".png", ".jpg", ".webp"}  # formats that are already compressed


class Page(HTMLParser):
    """The links, loaded files, anchors and unlabelled pictures of a page."""

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.nameless: list[str] = []
        self.open_svg = ""  # an <svg> whose first child may be its title
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, pairs: list[tuple[str, str | None]]) -> None:
        """Record the anchors, files and links of a tag."""
        values = {key: value or "" for key, value in pairs}
        self.places |= {values[key] for key in ("id", "name") if key in values}
        if self.open_svg and tag != "title":
            self.nameless.append(self.open_svg)
        self.open_svg = ""
        if tag == "img" and not values.get("alt", "").strip():
            self.nameless.append(f"<img {values.get('src', '')[:60]}>")
        if tag == "svg" and not {"aria-label", "aria-hidden"} & values.keys():
            self.open_svg = self.get_starttag_text()[:90]
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(values.get("href", ""))
        if tag in LOADS and LOADS[tag] in values:
            self.loads.append(values[LOADS[tag]])


@cache
def read_page(path: Path) -> Page:
    """Return a parsed page."""
    return Page(path)


def list_pages(site: Path) -> list[Path]:
    """Return the site's pages."""
    return sorted(p for p in site.rglob("*.html") if "_static" not in p.parts)


def list_problems(site: Path) -> list[str]:
    """Return a line for each broken link, unlabelled picture, request or large page."""
    problems = []
    for path in list_pages(site):
        page, name = read_page(path), path.relative_to(site)
        problems += [f"{name}: broken link {one}" for one in find_broken(page)]
        problems += [f"{name}: no alternative text {one}" for one in page.nameless]
        problems += [f"{name}: loads {one}" for one in find_requests(page)]
        if (size := measure(page)) > LARGEST:
            problems.append(f"{name}: {size / 1e3:.0f} kB, above {LARGEST / 1e3:.0f}")
    return problems


def find_broken(page: Page) -> Iterator[str]:
    """Yield the links to missing files or anchors."""
    for link in dict.fromkeys(page.links):
        parts = urlsplit(link)
        if parts.scheme or link in ("#", ""):
            continue
        target = (page.path.parent / unquote(parts.path)).resolve()
        target = page.path if not parts.path else target
        place = unquote(parts.fragment)
        if not target.is_file() or (place and not has_place(target, place)):
            yield link


def has_place(target: Path, name: str) -> bool:
    """Return whether a page has an anchor of that name; True for any other file."""
    return target.suffix != ".html" or name in read_page(target).places


def find_requests(page: Page) -> Iterator[str]:
    """Yield the addresses that a page would fetch from the network."""
    for load in page.loads:
        if urlsplit(load).scheme not in ("", "data") or load.startswith("//"):
            yield load


@cache
def squeeze(path: Path) -> int:
    """Return the size in bytes of a file as a server sends it."""
    data = path.read_bytes()
    return len(data) if path.suffix in SQUEEZED else len(gzip.compress(data, 9))


def measure(page: Page) -> int:
    """Return the compressed size in bytes of a page with all files that it loads."""
    total, seen = squeeze(page.path), set()
    for load in page.loads:
        path = (page.path.parent / unquote(urlsplit(load).path)).resolve()
        if not load.startswith("data:") and path.is_file() and path not in seen:
            seen |= {path, *(find_fonts(path) if path.suffix == ".css" else ())}
    return total + sum(map(squeeze, seen))


@cache
def find_fonts(path: Path) -> tuple[Path, ...]:
    """Return the local fonts that a style sheet loads."""
    names = re.findall(r"url\(([^)]+\.woff2)", path.read_text())
    fonts = ((path.parent / name.strip("\"'")).resolve() for name in names)
    return tuple(font for font in fonts if font.is_file())


def describe(site: Path) -> str:
    """Return the number of pages, and the size of the largest."""
    pages = list_pages(site)
    largest = max(pages, key=lambda path: measure(read_page(path)))
    size = measure(read_page(largest)) / 1e3
    return f"{len(pages)} pages; the largest, {largest.name}, {size:.0f} kB compressed"
