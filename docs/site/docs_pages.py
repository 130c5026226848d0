"""Write the reference pages of docs/ as pages of the site."""

from __future__ import annotations

import html
import re
from pathlib import Path

from weft.base.paths import GITHUB, ROOT

DOCS = ROOT / "docs"
OMITTED = {"old_paths.md"}  # for those who follow an old link to a file
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^)]+\.svg)\)")
LESSON = re.compile(r"\]\(\.\./notebooks/(\w+\.ipynb)")
OUTSIDE = re.compile(r"\]\((\.\./[^)#]+|\w+\.(?:md|svg))(#[^)]*)?\)")


def write(folder: Path) -> None:
    """Write each Markdown file of docs/ into the source folder."""
    for path in sorted(DOCS.glob("*.md")):
        if path.name not in OMITTED:
            (folder / path.name).write_text(convert_text(path.read_text(), path.parent))


def convert_text(text: str, folder: Path) -> str:
    """Return the text of a page in `folder`, with pictures, and links that resolve."""
    text = PICTURE.sub(lambda match: draw_inline(match, folder), text)
    text = LESSON.sub(r"](\1", text)
    return OUTSIDE.sub(lambda match: link_file(match, folder), text)


def draw_inline(picture: re.Match[str], folder: Path) -> str:
    """Return an SVG as part of the page, so that it has the page's colours."""
    svg = (folder / picture["path"]).read_text()
    svg = svg[svg.index("<svg") :]
    label = html.escape(picture["alt"], quote=True)
    svg = re.sub(r'^<svg( color="#\w+")?', "<svg", svg)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
    lines = "\n".join(line for line in svg.splitlines() if line.strip())
    return f'<div class="drawing">\n{lines}\n</div>'


def link_file(link: re.Match[str], folder: Path) -> str:
    """Lead a link to a file that is no page to the repository."""
    path, place = (folder / link[1]).resolve(), link[2] or ""
    if path.parent == DOCS and path.suffix == ".md" and path.name not in OMITTED:
        return link[0]
    return f"]({GITHUB}/blob/main/{path.relative_to(ROOT)}{place})"
