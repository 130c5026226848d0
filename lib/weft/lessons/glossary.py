"""The glossary: links to its entries, and what such a link shows.

The text of a lesson or a puzzle has [threads](glossary.ipynb#thread). `make notebooks`
writes into the notebooks

    [threads](glossary.ipynb#cell-id=thread "One run of a kernel, for one place ...")

with the first sentence of the entry as the link's title, which a mouse above it shows;
and each entry ends with the lessons that link to it. An entry is a cell of its own,
whose id is the term. JupyterLab looks for #cell-id= among the cells of a notebook, and
for any other anchor only among what it has drawn: of a long notebook that was just
opened, the top. nbconvert gives each cell of a page this id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nbformat import NotebookNode

from ..puzzles.lessons import NOTEBOOKS, Lesson

GLOSSARY = NOTEBOOKS / "glossary.ipynb"
ENTRY = re.compile(  # its term, its paragraph, and the links to lessons behind that
    r"^### (?P<term>.+)\n\n(?P<text>.*?)(?: \[\d\d[a-z]?\]\(\w+\.ipynb\),?)*$", re.M
)
LINK = re.compile(
    r"\]\(glossary\.ipynb#(?:cell-id=)?(?P<term>[^)\s]+)"
    r'(?P<title> "(?:[^"\\]|\\.)*")?\)'
)
SENTENCE = re.compile(r".+?[.!?](?=\s+[A-Z0-9`(*]|$)")
MARKED = re.compile(r"`([^`]*)`|\*(\S[^*]*)\*")  # code, or emphasis


def place_of(term: str) -> str:
    """A term as the id of its cell and in links: a space becomes a hyphen."""
    return re.sub(r"[^\w-]", "", term.replace(" ", "-"))


def entries(glossary: NotebookNode) -> dict[str, str]:
    """The text of each entry by its place."""
    cells = (cell.source for cell in glossary.cells if cell.cell_type == "markdown")
    found = filter(None, map(ENTRY.match, cells))
    return {place_of(entry["term"]): entry["text"] for entry in found}


def definition(text: str) -> str:
    """The first sentence of an entry, without its Markdown."""
    sentence = SENTENCE.match(text)
    words = sentence[0] if sentence else text
    return MARKED.sub(r"\1\2", words)


def define_links(cells: Iterable[NotebookNode], known: dict[str, str]) -> None:
    """Give each link to an entry its cell, and the entry's definition as its title.

    known: the texts of the entries by their places.
    """

    def defined(link: re.Match[str]) -> str:
        place = place_of(link["term"])
        if place not in known:
            return link[0]
        title = re.sub(r'(["\\])', r"\\\1", definition(known[place]))
        return f'](glossary.ipynb#cell-id={place} "{title}")'

    for cell in cells:
        if cell.cell_type == "markdown" and "](glossary.ipynb#" in cell.source:
            cell.source = LINK.sub(defined, cell.source)


def strip_links(cells: Iterable[NotebookNode]) -> None:
    """Undo define_links(): a link is the glossary, and the place of an entry."""
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"](glossary.ipynb#\g<term>)", cell.source)


def strip_entries(glossary: NotebookNode) -> None:
    """Undo complete(): an entry is its term and its paragraph."""
    for cell in glossary.cells:
        if cell.cell_type == "markdown":
            cell.source = ENTRY.sub(r"### \g<term>\n\n\g<text>", cell.source)


def places_in(cells: Iterable[NotebookNode]) -> set[str]:
    """The places of the entries that some text links to."""
    texts = (cell.source for cell in cells if cell.cell_type == "markdown")
    return {place_of(link["term"]) for text in texts for link in LINK.finditer(text)}


def complete(glossary: NotebookNode, lessons: Iterable[Lesson]) -> None:
    """Name each entry's cell by its term, and end it with links to its lessons."""
    linked = {lesson: places_in(lesson.source.cells) for lesson in lessons}

    def ended(entry: re.Match[str]) -> str:
        links = [
            f"[{lesson.number}]({lesson.path.name})"
            for lesson, places in linked.items()
            if place_of(entry["term"]) in places
        ]
        return f"### {entry['term']}\n\n{entry['text']} {', '.join(links)}".rstrip()

    for cell in glossary.cells:
        entry = ENTRY.match(cell.source) if cell.cell_type == "markdown" else None
        if entry:
            cell.id = place_of(entry["term"])
            cell.source = ended(entry)
