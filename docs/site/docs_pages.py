"""Convert the reference pages and the teaching kit in docs/ to pages of the site."""

from __future__ import annotations

import html
import re
from pathlib import Path

from weft.base.paths import GITHUB, ROOT

DOCS = ROOT / "docs"
OMITTED = {"old_paths.md"}  # only readers who follow an old link need this page
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^)]+\.svg)\)")
LESSON = re.compile(r"\]\(\.\./notebooks/(\w+\.ipynb)")
LESSON_ABOVE = re.compile(r"\]\((?:\.\./)+notebooks/(\w+\.ipynb)")
KIT = re.compile(r"(\]\((?:\.\./)*)README\.md")  # a link to the kit's first page
TEACHING = "teaching"  # the kit's folder in docs/, and on the site
OUTSIDE = re.compile(r"\]\((\.\./[^)#]+|\w+\.(?:md|svg))(#[^)]*)?\)")


def write(folder: Path) -> None:
    """Write each Markdown file of docs/ into the source folder."""
    for path in sorted(DOCS.glob("*.md")):
        if path.name not in OMITTED:
            (folder / path.name).write_text(convert_text(path.read_text(), path.parent))


def write_teaching(folder: Path) -> None:
    """Write the pages of docs/teaching; its README becomes the index of the others."""
    paths = sorted((DOCS / TEACHING).rglob("*.md"))
    names = [path.relative_to(DOCS / TEACHING).with_suffix("") for path in paths]
    for path, name in zip(paths, names):
        up = "../" * len(name.parts)
        text = LESSON_ABOVE.sub(rf"]({up}\1", path.read_text())
        text = KIT.sub(r"\1index.md", text)
        if str(name) == "README":
            others = "\n".join(str(one) for one in names if one != name)
            text += f"\n```{{toctree}}\n:hidden:\n\n{others}\n```\n"
            name = name.with_name("index")
        page = folder / TEACHING / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)


def convert_text(text: str, folder: Path) -> str:
    """Return the text of a page in `folder`, with inline pictures and valid links."""
    text = PICTURE.sub(lambda match: draw_inline(match, folder), text)
    text = LESSON.sub(r"](\1", text)
    text = text.replace(f"]({TEACHING}/README.md", f"]({TEACHING}/index.md")
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
    """Return a link, redirected to the repository if its target is not a page."""
    path, place = (folder / link[1]).resolve(), link[2] or ""
    if path.parent == DOCS and path.suffix == ".md" and path.name not in OMITTED:
        return link[0]
    return f"]({GITHUB}/blob/main/{path.relative_to(ROOT)}{place})"
