"""Turn a lesson into a deck: sections of blocks, in the order of the lecture.

A heading begins a slide. Tags of cells change the result:

    slide     the cell begins a slide
    step      the cell appears at a key press; code lights up by paragraphs
    notes     the text is for the lecturer alone
    skip      the cell is not in the deck
    plumbing  the deck has the cell's output, but not its code
    deeper, practice  the section is in the appendix

Hints and answers are notes. The check of an exercise is not in the deck.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import blocks
import lesson_pages
import lessons
import nbformat
import outputs
from blocks import Block
from nbformat import NotebookNode

from weft.base.paths import ROOT
from weft.lessons import first_cell
from weft.lessons.maker import is_tagged
from weft.puzzles.notebooks import (
    CORE,
    DEEPER,
    GENERATED,
    LENGTH,
    NOTEBOOKS,
    PRACTICE,
    PUZZLE,
    Lesson,
    list_kinds,
    write_minutes,
)

HEADING = re.compile(r"(?P<marks>#{2,4}) (?P<title>[^\n]+)\n*(?P<rest>.*)", re.S)
NOTES = ROOT / "docs" / "teaching" / "notes"  # notes for lecturers, one file per lesson
LONGEST = 1200  # a shorter opening, counted in characters, is on the title slide
APPENDIX = {DEEPER: "Deeper", PRACTICE: "Practice"}


@dataclass
class Section:
    """The slides below a heading.

    column: the heading of the lesson's section, whose slides are a column of the
    overview. kind: CORE, DEEPER or PRACTICE.
    """

    title: str
    column: str
    kind: str
    blocks: list[Block] = field(default_factory=list)

    def write(self, number: int) -> str:
        """Return the section as HTML, for slides.js to pack."""
        eyebrow = "" if self.column == self.title else plain(self.column)
        content = "\n".join(block.write() for block in self.blocks)
        return (
            f'<section class="flow" id="s{number}" data-kind="{self.kind}" '
            f'data-column="{html.escape(plain(self.column))}">\n'
            f'<header><p class="eyebrow">{html.escape(eyebrow)}</p>'
            f"<h2>{write_inline(self.title)}</h2></header>\n{content}\n</section>"
        )


def write_inline(text: str) -> str:
    """Return a line of Markdown as HTML."""
    return blocks.PARSER.renderInline(blocks.link_site(text))


def plain(text: str) -> str:
    """Return a line of Markdown without its marks."""
    return html.unescape(re.sub(r"<[^>]+>", "", write_inline(text)))


def read_cells(name: str) -> list[NotebookNode]:
    """Return the cells that readers have, with the outputs of the executed lesson."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    cells = [c for c in notebook.cells if not first_cell.is_first(c)]
    cells = [c for c in cells if not is_tagged(c, GENERATED)]
    lesson_pages.place_outputs(cells, lessons.read_executed(name))
    for cell in cells:
        if cell.cell_type == "code":
            outputs.prepare(cell)
    return cells


def list_sections(cells: list[NotebookNode]) -> list[Section]:
    """Return the sections of a lesson below its title: the core, then the others.

    The first section has no title: it contains the cells before the first heading.
    """
    kinds = list_kinds(nbformat.v4.new_notebook(cells=cells))
    sections, checked = [Section("", "", CORE)], False
    for cell, kind in zip(cells[1:], kinds[1:]):
        if not is_omitted(cell, checked):
            add_cell(sections, cell, kind)
        if not is_text(cell):
            checked = is_asked(cell)
    full = [one for one in sections[1:] if one.blocks]
    order = [CORE, *APPENDIX]
    return sections[:1] + sorted(full, key=lambda one: order.index(one.kind))


def add_cell(sections: list[Section], cell: NotebookNode, kind: str) -> None:
    """Add a cell's blocks to the last section, or to the new ones that it begins."""
    if not is_text(cell):
        sections[-1].blocks += make_blocks(cell, cell.source)
        return
    for piece in blocks.split_headings(cell.source):
        heading = HEADING.fullmatch(piece)
        if heading:
            last, title = sections[-1], heading["title"]
            # A deeper section inside a core section has a separate column.
            begins = heading["marks"] == "##" or kind != last.kind
            sections.append(Section(title, title if begins else last.column, kind))
            piece = LENGTH.sub("", f"\n\n{heading['rest']}")
        sections[-1].blocks += make_blocks(cell, piece.strip())


def is_text(cell: NotebookNode) -> bool:
    """Return whether a cell is Markdown."""
    return cell.cell_type == "markdown"


def is_asked(cell: NotebookNode) -> bool:
    """Return whether a cell is the stub of an exercise or of a puzzle."""
    puzzle = PUZZLE.fullmatch(cell.id)
    answers = bool(puzzle) and puzzle["part"] == "answer"
    return is_tagged(cell, "exercise") or answers


def is_omitted(cell: NotebookNode, checked: bool) -> bool:
    """Return whether no slide has a cell: a check, a puzzle's help, or a tagged cell.

    checked: whether the last cell of code was the stub of an exercise.
    """
    puzzle = PUZZLE.fullmatch(cell.id)
    helps = bool(puzzle) and puzzle["part"] == "help"
    return is_tagged(cell, "skip") or helps or (not is_text(cell) and checked)


def make_blocks(cell: NotebookNode, text: str) -> list[Block]:
    """Return the blocks of a cell. text: its source, without a heading."""
    step = is_tagged(cell, "step")
    if is_text(cell):
        note = is_tagged(cell, "notes")
        made = [blocks.make_note(text)] if note else [*blocks.make_text(text, step)]
    else:
        hidden = is_tagged(cell, "plumbing") or is_goal(cell)
        code = [] if hidden else blocks.make_code(cell, step)
        made = code + list(blocks.make_outputs(cell, step and hidden))
        if hidden and made:
            made[0] = replace(made[0], below=False)
    if made and is_tagged(cell, "slide"):
        made[0] = replace(made[0], first=True)
    return made


def is_goal(cell: NotebookNode) -> bool:
    """Return whether a cell only draws the goal of a puzzle."""
    puzzle = PUZZLE.fullmatch(cell.id)
    return bool(puzzle) and puzzle["part"] == "goal"


# ---- the first and the last slides ---------------------------------------------------


def write_title(lesson: Lesson, cells: list[NotebookNode], opening: list[Block]) -> str:
    """Return the slide with the title, the question and the lecturer's notes.

    opening: the blocks of text above the lesson's first heading.
    """
    rest = cells[0].source.partition("\n")[2].strip()
    text = lesson_pages.BADGE.sub("", rest.partition("\n")[2]).strip()
    body = "".join(b.write() for b in [*blocks.make_text(text), *opening])
    minutes = write_minutes(lesson.minutes[CORE])
    return (
        '<section class="title" data-kind="core" data-column="">'
        f'<p class="eyebrow">Weft {lesson.number}</p>'
        f"<h1>{html.escape(lesson.title)}</h1>"
        f'<p class="question">{write_inline(lesson.question)}</p>{body}'
        f'<p class="facts">{minutes}</p>{write_notes(lesson.path.stem)}</section>'
    )


def write_notes(name: str) -> str:
    """Return the notes for lecturers about a lesson; "" if it has none."""
    path: Path = NOTES / f"{name}.md"
    if not path.is_file():
        return ""
    text = re.sub(r"^# .*\n", "", path.read_text(encoding="utf-8"))
    return blocks.make_note(text).write()


def write_appendix(kind: str, numbered: list[tuple[int, Section]]) -> Iterator[str]:
    """Yield the numbered sections of a kind, after a slide that lists them."""
    if not numbered:
        return
    heads: dict[str, int] = {}
    for at, section in numbered:
        heads.setdefault(section.column, at)
    links = "".join(
        f'<li><a href="#/s{at}">{write_inline(name)}</a></li>'
        for name, at in heads.items()
    )
    yield (
        f'<section class="divider" data-kind="{kind}" data-column="{kind}">'
        f"<h1>{APPENDIX[kind]}</h1><ul>{links}</ul></section>"
    )
    yield from (section.write(at) for at, section in numbered)


def write_deck(lesson: Lesson) -> str:
    """Return all sections of a lesson's deck as HTML."""
    cells = read_cells(lesson.path.stem)
    first, *sections = list_sections(cells)
    words = [
        block for block in first.blocks if block.kind in (blocks.TEXT, blocks.NOTE)
    ]
    letters = len(cells[0].source) + sum(len(block.html) for block in words)
    opening = words if letters < LONGEST else []
    # The printed text of the imports, such as the device, needs no slide.
    shown = [
        block
        for block in first.blocks
        if block not in opening and (block.kind != blocks.PRINTED or block.below)
    ]
    if any(block.kind != blocks.NOTE for block in shown):
        sections.insert(0, Section(lesson.title, lesson.title, CORE, shown))
    numbered = list(enumerate(sections, 1))
    parts = [write_title(lesson, cells, opening)]
    parts += [section.write(at) for at, section in numbered if section.kind == CORE]
    for kind in APPENDIX:
        parts += write_appendix(kind, [one for one in numbered if one[1].kind == kind])
    return "\n".join(parts)
