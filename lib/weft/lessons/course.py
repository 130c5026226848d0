"""The course: lessons in reading order, their lengths, and links to the glossary.

The text of a lesson or a puzzle has links such as [threads](glossary.ipynb#thread).
`make notebooks` writes into the notebooks

    [threads](glossary.ipynb#cell-id=thread "One run of a kernel, for one place ...")

with the first sentence of the entry as the link's title, which a browser shows when the
mouse is over the link. Each entry ends with the lessons that link to it. An entry is a
cell whose id is the term. JupyterLab finds #cell-id= among all cells of a notebook. It
finds any other anchor only among the cells that it has drawn. After it opens a long
notebook, these are only the first cells. nbconvert gives each cell of a page this id.

The folder notebooks/sources, sorted by name, is the list of lessons. `make notebooks`
adds two cells to each lesson: the time that it takes, below the head, and the link to
the next lesson, at the end.

puzzles/notebooks.py defines the kinds of sections, and the minutes. `make notebooks`
copies a section's tag to its other cells, so that slides can omit them. It also writes
metadata of cells for other programs: Jupyter's slideshows, and JupyterLab, which folds
the code of a cell with the tag "plumbing".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import nbformat
from nbformat import NotebookNode

from ..base.paths import COLAB, GITHUB, SITE
from ..puzzles.notebooks import (
    CORE,
    DEEPER,
    GENERATED,
    HEADING,
    LENGTH,
    NOTEBOOKS,
    PRACTICE,
    PUZZLE,
    Lesson,
    Section,
    cell_minutes,
    list_kinds,
    list_sections,
    match_heading,
    write_minutes,
)
from .first_cell import is_first

GLOSSARY = NOTEBOOKS / "glossary.ipynb"
PLUMBING = "plumbing"  # tag: the reader needs only the cell's effect
# A cell's tag, and its type in Jupyter's slideshows.
SLIDE_TYPES = {"skip": "skip", "notes": "notes", "slide": "slide", "step": "fragment"}
ENTRY = re.compile(  # the term, the paragraph, and the links to lessons
    r"^### (?P<term>.+)\n\n(?P<text>.*?)(?: \[\d\d[a-z]?\]\(\w+\.ipynb\),?)*$", re.M
)
LINK = re.compile(
    r"\]\(glossary\.ipynb#(?:cell-id=)?(?P<term>[^)\s]+)"
    r'(?P<title> "(?:[^"\\]|\\.)*")?\)'
)
SENTENCE = re.compile(r".+?[.!?](?=\s+[A-Z0-9`(*]|$)")
MARKED = re.compile(r"`([^`]*)`|\*(\S[^*]*)\*")  # code or emphasis in Markdown


def place_of(term: str) -> str:
    """Return a term in the form of links and cell ids: hyphens replace spaces."""
    return re.sub(r"[^\w-]", "", term.replace(" ", "-"))


def entries(glossary: NotebookNode) -> dict[str, str]:
    """Return the text of each entry by its place."""
    cells = (cell.source for cell in glossary.cells if cell.cell_type == "markdown")
    matches = filter(None, map(ENTRY.match, cells))
    return {place_of(entry["term"]): entry["text"] for entry in matches}


def definition(text: str) -> str:
    """Return the first sentence of an entry, without its Markdown."""
    sentence = SENTENCE.match(text)
    words = sentence[0] if sentence else text
    return MARKED.sub(r"\1\2", words)


def define_links(cells: Iterable[NotebookNode], known: dict[str, str]) -> None:
    """Add the entry's cell and definition to each link to the glossary.

    known: the entries' texts by place.
    """

    def add_title(link: re.Match[str]) -> str:
        place = place_of(link["term"])
        if place not in known:
            return link[0]
        title = re.sub(r'(["\\])', r"\\\1", definition(known[place]))
        return f'](glossary.ipynb#cell-id={place} "{title}")'

    for cell in cells:
        if cell.cell_type == "markdown" and "](glossary.ipynb#" in cell.source:
            cell.source = LINK.sub(add_title, cell.source)


def strip_links(cells: Iterable[NotebookNode]) -> None:
    """Undo define_links(): reduce each link to the glossary and the entry's place."""
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = LINK.sub(r"](glossary.ipynb#\g<term>)", cell.source)


def strip_entries(glossary: NotebookNode) -> None:
    """Undo complete_links(): reduce each entry to its term and its paragraph."""
    for cell in glossary.cells:
        if cell.cell_type == "markdown":
            cell.source = ENTRY.sub(r"### \g<term>\n\n\g<text>", cell.source)


# A link to a lesson, to the glossary, or to a file outside the folder of the notebooks.
NEARBY = re.compile(
    r"\]\((?:(?P<lesson>\d\d[a-z]?_\w+\.ipynb)|(?P<glossary>glossary\.ipynb)"
    r"(?:#(?:cell-id=)?(?P<term>[^)\s]+))?|\.\./(?P<file>[\w./-]+))(?=[)\s])"
)


def lead_to_web(cells: Iterable[NotebookNode]) -> None:
    """Make links absolute for a notebook in Colab, where other files are missing.

    Lessons open in Colab, terms of the glossary on the site, and files on GitHub.
    """

    def make_absolute(link: re.Match[str]) -> str:
        if link["lesson"]:
            return f"]({COLAB}/{link['lesson']}"
        if link["file"]:
            return f"]({GITHUB}/blob/main/{link['file']}"
        place = f"#{link['term'].lower()}" if link["term"] else ""
        return f"]({SITE}/glossary.html{place}"

    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = NEARBY.sub(make_absolute, cell.source)


def places_in(cells: Iterable[NotebookNode]) -> set[str]:
    """Return the places of the entries to which the cells link."""
    texts = (cell.source for cell in cells if cell.cell_type == "markdown")
    return {place_of(link["term"]) for text in texts for link in LINK.finditer(text)}


def complete_links(glossary: NotebookNode, lessons: Iterable[Lesson]) -> None:
    """Set each entry's cell id to its term, and append links to lessons that use it."""
    linked = {lesson: places_in(lesson.source.cells) for lesson in lessons}

    def add_lessons(entry: re.Match[str]) -> str:
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
            cell.source = add_lessons(entry)


TABLE = re.compile(r"(<!-- ways in -->\n)(?:.*?\n)?(<!-- /ways in -->)", re.S)
LESSON_ROW = re.compile(  # a row of README's table: the notebook, and the last column
    r"^\| \[\d\d[^|]*\(notebooks/([^)]+)\) \|.*?\| ([^|]*) \|\n", re.M
)


# ---- ways in -------------------------------------------------------------------------

# The reader's experience, and the lessons to begin with (number: topic).
WAYS_IN = (
    ("only Python", {"01a": "the course from its beginning"}),
    ("C", {"06": "CUDA C, from one thread to a whole program"}),
    ("CUDA", {"07c": "tools that find faults", "08b": "the matmul ladder"}),
    (
        "PyTorch",
        {
            **{"13a": "your kernel in a model", "13b": "your kernel in a wheel"},
            **{"14": "time between kernels", "15a": "the CNN", "15b": "the race"},
            **{"16a": "several workers"},
        },
    ),
    (
        "GPU-Puzzles",
        {"02b": "counting with tiles", "07a": "memory traffic, from the transpose on"},
    ),
)


def ways_in(lessons: Sequence[Lesson], folder: str = "") -> str:
    """Return the "ways in" table as Markdown. folder: path to the notebooks."""
    by_number = {lesson.number: lesson for lesson in lessons}
    lines = ["| you know | begin with |", "|---|---|"]
    for experience, starts in WAYS_IN:
        links = (
            by_number[number].link.replace("](", f"]({folder}") + f": {reason}"
            for number, reason in starts.items()
        )
        lines.append(f"| {experience} | {'; '.join(links)} |")
    return "\n".join(lines)


def with_ways_in(text: str, lessons: Sequence[Lesson], folder: str = "") -> str:
    """Return the text of README or of a cell, with a new "ways in" table."""
    table = ways_in(lessons, folder)
    return TABLE.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def with_course(text: str, lessons: Sequence[Lesson], folder: str = "") -> str:
    """Return README with new tables.

    Each row of the table of lessons keeps its last column (the lesson's files).
    """
    text = with_ways_in(text, lessons, folder)
    rows = {name: files for name, files in LESSON_ROW.findall(text)}
    table = "\n".join(
        f"| [{lesson.number} {lesson.title}]({folder}{lesson.path.name}) "
        f"| {lesson.question} | {lesson.minutes[CORE]:.0f} "
        f"| {rows.get(lesson.path.name, '')} |"
        for lesson in lessons
    )
    first = LESSON_ROW.search(text)
    if first is None:
        return text
    tail = LESSON_ROW.sub("", text[first.start() :])
    return text[: first.start()] + table + "\n" + tail


# ---- what `make notebooks` writes ----------------------------------------------


def strip(cells: list[NotebookNode]) -> list[NotebookNode]:
    """Return the cells without the additions of complete()."""
    own_cells = [c for c in cells if GENERATED not in c.metadata.get("tags", [])]
    sections = list_sections(nbformat.v4.new_notebook(cells=own_cells))
    kinds = {s.start: s.kind for s in sections if s.kind != s.outer}
    for at, cell in enumerate(own_cells):
        _set_kind(cell, kinds.get(at, CORE))
        if match_heading(cell):
            cell.source = LENGTH.sub("", cell.source)
        cell.source = TABLE.sub(r"\1\2", cell.source)
    return own_cells


def _set_kind(cell: NotebookNode, kind: str) -> None:
    """Append a cell's kind as its last tag; a cell of the core gets no such tag."""
    tags = [t for t in cell.metadata.get("tags", []) if t not in (DEEPER, PRACTICE)]
    tags += [kind] if kind != CORE else []
    cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})


def complete(notebook: NotebookNode, lesson: Lesson, lessons: Sequence[Lesson]) -> None:
    """Add a lesson's length, its sections' kinds, and the link to the next lesson."""
    for cell, kind in zip(notebook.cells, list_kinds(notebook)):
        _set_kind(cell, kind)
    fill_tables(notebook, lessons)
    for section in list_sections(notebook):
        if section.kind not in (CORE, section.outer):
            minutes = _count_section_minutes(notebook, lesson, section)
            cell = notebook.cells[section.start]
            head, newline, tail = cell.source.partition("\n")
            length = f"\n\n*{section.kind.title()}, {write_minutes(minutes)}.*"
            cell.source = head + length + newline + tail
    notebook.cells.insert(1, _make_cell("length", length_of(lesson)))
    notebook.cells.append(_make_cell("next", next_text(lesson, lessons)))
    add_slides(notebook)


def add_slides(notebook: NotebookNode) -> None:
    """Write each cell's type in Jupyter's slideshows; fold the code of plumbing."""
    for number, (cell, kind) in enumerate(zip(notebook.cells, list_kinds(notebook))):
        slide = "slide" if number == 0 else find_slide_type(cell, kind)
        if slide:
            cell.metadata["slideshow"] = {"slide_type": slide}
        if PLUMBING in cell.metadata.get("tags", []):
            cell.metadata["jupyter"] = {"source_hidden": True}


def find_slide_type(cell: NotebookNode, kind: str) -> str:
    """Return a cell's type in Jupyter's slideshows; "" if it continues a slide.

    Sections beyond the core, and subsections, appear below the last slide of the core.
    """
    tags, puzzle = cell.metadata.get("tags", []), PUZZLE.fullmatch(cell.id)
    if is_first(cell) or GENERATED in tags or (puzzle and puzzle["part"] == "help"):
        return "skip"
    for tag, slide in SLIDE_TYPES.items():
        if tag in tags:
            return slide
    heading = HEADING.match(cell.source) if cell.cell_type == "markdown" else None
    if not heading:
        return ""
    return "slide" if heading[1] == "##" and kind == CORE else "subslide"


def fill_tables(notebook: NotebookNode, lessons: Sequence[Lesson]) -> None:
    """Write the "ways in" table into each cell that has a place for it."""
    for cell in notebook.cells:
        cell.source = with_ways_in(cell.source, lessons)


def _count_section_minutes(
    notebook: NotebookNode, lesson: Lesson, section: Section
) -> float:
    """Return the minutes that a section's cells take, estimated from the source.

    All lines of the answers count, although the reader's notebook has stubs.
    """
    source = {cell.id: cell for cell in lesson.source.cells}
    cells = notebook.cells[section.start : section.end]
    return sum(cell_minutes(source.get(cell.id, cell)) for cell in cells)


def length_of(lesson: Lesson) -> str:
    """Return a sentence with the time that a lesson takes."""
    core, deeper, practice = (lesson.minutes[k] for k in (CORE, DEEPER, PRACTICE))
    parts = [f"sections marked *Deeper* take {deeper:.0f} more"] if deeper >= 1 else []
    parts += [f"practice takes {practice:.0f}"] if practice >= 1 else []
    sentence = f"The core takes about {write_minutes(core)}"
    return sentence + "".join(f"; {part}" for part in parts) + "."


def next_text(lesson: Lesson, lessons: Sequence[Lesson]) -> str:
    """Return the end of a lesson: the link to the next one."""
    at = [one.path.name for one in lessons].index(lesson.path.name)
    if at + 1 == len(lessons):
        return (
            "This was the last lesson. [00 Start here](00_start_here.ipynb) shows what "
            "you have done, [03 Puzzles](03_puzzles.ipynb) what is left to solve."
        )
    return f"**Next:** {lessons[at + 1].link}. {lessons[at + 1].question}"


def _make_cell(name: str, text: str) -> NotebookNode:
    cell = nbformat.v4.new_markdown_cell(text, id=f"course-{name}")
    cell.metadata["tags"] = [GENERATED]
    return cell
