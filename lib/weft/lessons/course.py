"""The course: its lessons in reading order, how long each takes, and what comes next.

The one list of lessons is the folder: notebooks/NN_topic.ipynb, sorted by name.
`make notebooks` writes two cells of each lesson from it: below the head, how long the
lesson takes, and at the end the link to the next one.

A section is core unless the cell of its heading has the tag "deeper" (beyond the core)
or "practice" (exercises and puzzles). The tag holds until the next heading of the same
or a higher level; `make notebooks` gives it to the section's other cells, so that they
can be left out of slides.

Minutes are counted: 150 words, or 8 lines of code, take one, and so does each question.
An exercise or a puzzle takes 2 more, and one for each line of its answer. What is
folded away takes none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..base.paths import ROOT
from ..puzzles.stubs import HIDDEN, is_withheld, stub
from .first_cell import FIRST

NOTEBOOKS = ROOT / "notebooks"
SOLUTIONS = NOTEBOOKS / "solutions"
CORE, DEEPER, PRACTICE = "core", "deeper", "practice"
CORE_MINUTES = 50  # that the core of a lesson may take: a lecture
GENERATED = "course"  # the tag of the cells that `make notebooks` writes from here
WORDS_A_MINUTE, LINES_A_MINUTE, MINUTES_TO_BEGIN = 150, 8, 2
HEADING = re.compile(r"(#{2,}) (.+)")
FOLDED = re.compile(r"<details>((?!<details>).)*?</details>", re.S)
PUZZLE = re.compile(r"puzzle-(?P<name>.+)-(?P<part>\w+)")  # the id of a cell
LESSON_ROW = re.compile(  # of README's table: the notebook, and its last column
    r"^\| \[\d\d[^|]*\(notebooks/([^)]+)\) \|.*?\| ([^|]*) \|\n", re.M
)
LENGTH = re.compile(r"\n\n\*(?:Deeper|Practice), \d+ minutes?\.\*")


# ---- lessons -------------------------------------------------------------------------


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    path: the notebook that readers open. source: the one that it is written in, with
    the answers and with the cells of its puzzles.
    """

    path: Path
    source: NotebookNode = field(compare=False, repr=False)

    @property
    def number(self) -> str:
        """01a, as in its file's name."""
        return self.path.name.partition("_")[0]

    @cached_property
    def _head(self) -> tuple[str, str]:
        title, _, question, *_ = self.source.cells[0].source.splitlines()
        return title.removeprefix("# "), question.removeprefix("> ")

    @property
    def title(self) -> str:
        """Its title."""
        return self._head[0]

    @property
    def question(self) -> str:
        """The question that it answers."""
        return self._head[1]

    @property
    def link(self) -> str:
        """A link to it from another notebook, in Markdown."""
        return f"[{self.number} {self.title}]({self.path.name})"

    @cached_property
    def minutes(self) -> dict[str, float]:
        """How long its core, its deeper sections and its practice take."""
        return minutes_of(self.source)


def lessons() -> list[Lesson]:
    """Every lesson in reading order."""
    folders = NOTEBOOKS, SOLUTIONS  # a new lesson is in the second alone at first
    names = {path.name for folder in folders for path in folder.glob("[0-9]*.ipynb")}
    paths = [NOTEBOOKS / name for name in sorted(names)]
    return [
        Lesson(path, nbformat.read(source_of(path), as_version=4)) for path in paths
    ]


def source_of(path: Path) -> Path:
    """The file in which a lesson is written."""
    return SOLUTIONS / path.name if (SOLUTIONS / path.name).exists() else path


def next_lesson(lesson: Lesson) -> Lesson | None:
    """The lesson that follows; None after the last."""
    course = lessons()
    at = [one.path.name for one in course].index(lesson.path.name)
    return course[at + 1] if at + 1 < len(course) else None


# ---- sections and minutes ------------------------------------------------------


@dataclass(frozen=True)
class Section:
    """The cells from a heading to the next one of its level or a higher one.

    start, end: as of a slice. outer: the kind of the section around it.
    """

    start: int
    end: int
    kind: str
    outer: str


def sections_of(notebook: NotebookNode) -> list[Section]:
    """The sections below the title, in the order of their headings."""
    headings = [(at, heading_of(cell)) for at, cell in enumerate(notebook.cells)]
    levels = [(at, len(heading[1])) for at, heading in headings if heading]
    made: list[Section] = []
    for number, (at, level) in enumerate(levels):
        ends = (a for a, other in levels[number + 1 :] if other <= level)
        around = [one for one in made if one.start < at < one.end]
        outer = around[-1].kind if around else CORE
        tags = notebook.cells[at].metadata.get("tags", [])
        own = next((kind for kind in (DEEPER, PRACTICE) if kind in tags), outer)
        made.append(Section(at, next(ends, len(notebook.cells)), own, outer))
    return made


def kinds_of(notebook: NotebookNode) -> list[str]:
    """Of each cell whether it is CORE, DEEPER or PRACTICE."""
    kinds = [CORE] * len(notebook.cells)
    for one in sections_of(notebook):  # an inner section comes after the one around it
        kinds[one.start : one.end] = [one.kind] * (one.end - one.start)
    return kinds


def heading_of(cell: NotebookNode) -> re.Match[str] | None:
    """The heading below the title that a cell opens with; not that of a puzzle."""
    if cell.cell_type != "markdown" or "puzzle" in cell.metadata.get("tags", []):
        return None
    return HEADING.match(cell.source)


def minutes_of(notebook: NotebookNode) -> dict[str, float]:
    """The minutes that the cells of each kind take together."""
    total = dict.fromkeys((CORE, DEEPER, PRACTICE), 0.0)
    for cell, kind in zip(notebook.cells, kinds_of(notebook)):
        total[kind] += cell_minutes(cell)
    return total


def cell_minutes(cell: NotebookNode) -> float:
    """How long a cell takes a reader."""
    tags = cell.metadata.get("tags", [])
    if GENERATED in tags or is_withheld(cell) or cell.source == FIRST:
        return 0.0  # FIRST fetches the lab
    if cell.cell_type == "markdown":
        return _reading(cell.source) + len(
            re.findall(r"^\*\*\d\.\*\*", cell.source, re.M)
        )
    if "exercise" in tags:
        answer = "".join(found["answer"] for found in HIDDEN.finditer(cell.source))
        return _writing(_lines(stub(cell.source)), _lines(answer))
    puzzle = PUZZLE.fullmatch(cell.id)
    if puzzle and puzzle["part"] == "answer":
        return _answer_minutes(puzzle_of(puzzle))
    return _lines(cell.source) / LINES_A_MINUTE + cell.source.count("predict(")


def puzzle_of(cell_id: re.Match[str]) -> str:
    """The name of the puzzle that a cell belongs to."""
    return cell_id["name"].replace("-", "_")


def puzzle_minutes(name: str) -> float:
    """How long a puzzle takes: reading it, and writing its answer."""
    from ..puzzles import load
    from ..puzzles.cells import asked

    return _reading(asked(load(name))) + _answer_minutes(name)


def core_puzzles(lesson: Lesson) -> Iterator[str]:
    """The puzzles in a lesson's core."""
    for cell, kind in zip(lesson.source.cells, kinds_of(lesson.source)):
        puzzle = PUZZLE.fullmatch(cell.id)
        if puzzle and puzzle["part"] == "asked" and kind == CORE:
            yield puzzle_of(puzzle)


def _answer_minutes(name: str) -> float:
    """How long it takes to write a puzzle's answer."""
    from ..puzzles import load  # only a few lessons have puzzles

    puzzle = load(name)
    given = puzzle.stub.splitlines()
    own = [line for line in puzzle.solved_text.splitlines() if line not in given]
    return _writing(_lines(puzzle.stub), len(own))


def _writing(given: int, own: int) -> float:
    """Minutes for an answer of `own` lines from a stub of `given` ones."""
    return given / LINES_A_MINUTE + MINUTES_TO_BEGIN + own


def _reading(text: str) -> float:
    """Minutes for Markdown: words that are seen, without links' targets."""
    seen, folds = re.sub(r"<!--.*?-->", " ", text, flags=re.S), 1
    while folds:  # the innermost first
        seen, folds = FOLDED.subn(" ", seen)
    seen = re.sub(r'\]\([^)"]*(?:"(?:[^"\\]|\\.)*")?\)', "]", LENGTH.sub("", seen))
    return len(re.findall(r"\S*\w\S*", seen)) / WORDS_A_MINUTE


def _lines(code: str) -> int:
    """The lines of code that are neither blank nor imports."""
    lines = (line.strip() for line in code.splitlines())
    return sum(bool(line) and not re.match(r"(import|from) ", line) for line in lines)


# ---- ways in -------------------------------------------------------------------------

# What a reader brings along, and the lessons to begin with: numbers, and why.
WAYS_IN = (
    ("only Python", {"01a": "the course from its beginning"}),
    ("C", {"06": "CUDA C, from one thread to a whole program"}),
    ("CUDA", {"07c": "tools that find faults", "08b": "the matmul ladder"}),
    (
        "PyTorch",
        {"14": "time between kernels", "15a": "the CNN", "15b": "the race"},
    ),
    ("GPU-Puzzles", {"02b": "tiles counted", "07a": "Transpose, and what came later"}),
)


def ways_in(folder: str = "") -> str:
    """The table of ways in, as Markdown. folder: where the text finds the notebooks."""
    named = {lesson.number: lesson for lesson in lessons()}
    lines = ["| you know | begin with |", "|---|---|"]
    for known, begin in WAYS_IN:
        links = (
            named[number].link.replace("](", f"]({folder}") + f": {why}"
            for number, why in begin.items()
        )
        lines.append(f"| {known} | {'; '.join(links)} |")
    return "\n".join(lines)


def with_course(text: str, folder: str = "") -> str:
    """README, or a cell, with its tables made anew.

    The table of ways in is between two comments; of the table of lessons, a row's last
    column (its files) is kept.
    """
    table = f"<!-- ways in -->\n{ways_in(folder)}\n<!-- /ways in -->"
    text = re.sub(
        r"<!-- ways in -->\n(?:.*?\n)?<!-- /ways in -->",
        lambda _: table,
        text,
        flags=re.S,
    )
    rows = {name: files for name, files in LESSON_ROW.findall(text)}
    made = "\n".join(
        f"| [{one.number} {one.title}]({folder}{one.path.name}) | {one.question} "
        f"| {one.minutes[CORE]:.0f} | {rows.get(one.path.name, '')} |"
        for one in lessons()
    )
    first = LESSON_ROW.search(text)
    if first is None:
        return text
    kept = LESSON_ROW.sub("", text[first.start() :])
    return text[: first.start()] + made + "\n" + kept


# ---- what `make notebooks` writes ----------------------------------------------


def strip(cells: list[NotebookNode]) -> list[NotebookNode]:
    """The cells without what complete() adds."""
    kept = [c for c in cells if GENERATED not in c.metadata.get("tags", [])]
    for cell in kept:
        if heading_of(cell):
            cell.source = LENGTH.sub("", cell.source)
    return kept


def complete(notebook: NotebookNode, lesson: Lesson) -> None:
    """Add what the course knows of a lesson: its length, its sections' kinds, Next."""
    kinds = kinds_of(notebook)
    for cell, kind in zip(notebook.cells, kinds):
        tags = [t for t in cell.metadata.get("tags", []) if t not in (DEEPER, PRACTICE)]
        tags += [kind] if kind != CORE else []
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if "<!-- ways in -->" in cell.source:
            cell.source = with_course(cell.source)
    for section in sections_of(notebook):
        if section.kind not in (CORE, section.outer):
            minutes = _section_minutes(notebook, lesson, section)
            cell = notebook.cells[section.start]
            head, newline, rest = cell.source.partition("\n")
            length = f"\n\n*{section.kind.title()}, {in_minutes(minutes)}.*"
            cell.source = head + length + newline + rest
    notebook.cells.insert(1, _cell("length", length_of(lesson)))
    notebook.cells.append(_cell("next", next_text(lesson)))


def _section_minutes(notebook: NotebookNode, lesson: Lesson, section: Section) -> float:
    """The minutes of a section's cells, counted in the source.

    The reader's notebook has stubs, where the minutes of an answer cannot be counted.
    """
    source = {cell.id: cell for cell in lesson.source.cells}
    cells = notebook.cells[section.start : section.end]
    return sum(cell_minutes(source.get(cell.id, cell)) for cell in cells)


def length_of(lesson: Lesson) -> str:
    """How long a lesson takes, in a sentence."""
    core, deeper, practice = (lesson.minutes[k] for k in (CORE, DEEPER, PRACTICE))
    more = [f"sections marked *Deeper* take {deeper:.0f} more"] if deeper >= 1 else []
    more += [f"practice takes {practice:.0f}"] if practice >= 1 else []
    said = f"The core takes about {in_minutes(core)}"
    return said + "".join(f"; {one}" for one in more) + "."


def next_text(lesson: Lesson) -> str:
    """The end of a lesson: the link to the next one."""
    following = next_lesson(lesson)
    if following is None:
        return (
            "This was the last lesson. [00 Start here](00_start_here.ipynb) shows what "
            "you have done, [03 Puzzles](03_puzzles.ipynb) what is left to solve."
        )
    return f"**Next:** {following.link}. {following.question}"


def in_minutes(minutes: float) -> str:
    """12 minutes."""
    count = max(1, round(minutes))
    return f"{count} minute{'s' * (count != 1)}"


def _cell(name: str, text: str) -> NotebookNode:
    made = nbformat.v4.new_markdown_cell(text, id=f"course-{name}")
    made.metadata["tags"] = [GENERATED]
    return made
