"""Puzzles in lessons: cells, sections and minutes, and a table by lesson.

make_cells() turns puzzles into cells of a notebook. list_lessons() reads the files
notebooks/NN_topic.ipynb, sorted by name; there is no other list of lessons.

A section is core unless the cell of its heading has the tag "deeper" (beyond the core)
or "practice" (exercises and puzzles). The tag applies until the next heading of the
same or a higher level.

count_minutes() counts one minute for 150 words or 8 lines of code, and for each
question. An exercise or a puzzle takes 2 more minutes, plus one for each line of its
answer. Folded text takes no time.

list_puzzles() returns the table: a row for each lesson, with links, marks and minutes.
Its titles come from the notebooks, which are read when the table is shown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.paths import ROOT, link_notebook
from ..base.style import INK, OURS, SHARED
from ..base.text import count_things
from ..see.pictures.svg import write_image
from .catalogue import (
    GROUPS,
    HIDDEN,
    LESSONS,
    LessonError,
    is_withheld,
    load,
    make_stub,
    number_of,
)
from .progress import OPEN, SIGNS, SOLVED, WITHIN
from .puzzle import Puzzle

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from .progress import PuzzleProgress

TAG = "puzzle"  # Tag of every puzzle's cell; `make notebooks` rewrites such cells.


def make_cells(words: Iterable[str], answered: bool) -> list[NotebookNode]:
    """Make the cells of puzzles.

    words: names of puzzles or of groups. answered: whether the answers replace the
    stubs. Raises LessonError for a word that is neither a puzzle nor a group.
    """
    names = [name for word in words for name in _find_puzzles(word)]
    return [cell for name in names for cell in _puzzle_cells(load(name), answered)]


def _find_puzzles(word: str) -> tuple[str, ...]:
    """Return the names of the puzzles in a group, or the name of a single puzzle."""
    available = {name: (name,) for names in GROUPS.values() for name in names} | GROUPS
    if word not in available:
        raise LessonError(f"no puzzles {word!r}; there are {', '.join(available)}")
    return available[word]


def _puzzle_cells(puzzle: Puzzle, answered: bool) -> Iterator[NotebookNode]:
    """Yield the cells of one puzzle: task, goal, answer, check, help."""
    name, kernel = puzzle.name, puzzle.kernel_name
    yield _make_cell(name, "asked", describe_puzzle(puzzle))
    yield _make_cell(name, "goal", f"puzzles.{name}.goal()", code=True)
    text = puzzle.solved_text if answered else puzzle.stub
    yield _make_cell(name, "answer", text, code=True)
    yield _make_cell(name, "check", f"puzzles.{name}.check({kernel})", code=True)
    yield _make_cell(name, "help", help_for(puzzle))


def describe_puzzle(puzzle: Puzzle) -> str:
    """Describe the task, in words and as NumPy."""
    return f"### {puzzle.title}\n\n{puzzle.text}\n\n{_fence_code(puzzle.spec_text)}"


def help_for(puzzle: Puzzle) -> str:
    """Write the folded help of a puzzle.

    It contains the hints, each inside the previous one, a call that draws an answer,
    the stub in CUDA C, and the answer.
    """
    hints = ""
    for number, hint in reversed(list(enumerate(puzzle.hints))):
        title = "Another hint" if number else "Hint"
        hints = _fold_text(title, f"{hint}\n\n{hints}".rstrip())
    answer = _fence_code(puzzle.solved_text)
    call = f"puzzles.{puzzle.name}.show({puzzle.kernel_name})"
    parts = [hints, _fold_text("A picture of what your answer does", _fence_code(call))]
    if puzzle.is_kernel:
        in_c = f"%%cuda\n{puzzle.cuda_c_stub}"
        parts.append(_fold_text("The stub in CUDA C", _fence_code(in_c, "c")))
        code = _fence_code(puzzle.cuda_c_answer, "c")
        answer += "\n\n" + _fold_text("In CUDA C", code)
    parts.append(_fold_text("Answer", answer))
    return "\n".join(parts)


def _fold_text(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{inside}\n</details>"


def _fence_code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def _make_cell(name: str, part: str, text: str, code: bool = False) -> NotebookNode:
    """Make a cell with the tag, and with an id that does not change between runs."""
    # Imported lazily, so that `import utils` need not wait for nbformat.
    import nbformat

    make = nbformat.v4.new_code_cell if code else nbformat.v4.new_markdown_cell
    cell = make(text, id=f"puzzle-{name.replace('_', '-')}-{part}")
    cell.metadata["tags"] = [TAG]
    return cell


NOTEBOOKS = ROOT / "notebooks"

SOLUTIONS = NOTEBOOKS / "solutions"

CORE = "core"

DEEPER = "deeper"

PRACTICE = "practice"

GENERATED = "course"  # Tag of the cells that `make notebooks` generates.

WORDS_A_MINUTE = 150

LINES_A_MINUTE = 8

MINUTES_TO_BEGIN = 2

FETCHES_LAB = "COLAB_RELEASE_TAG"  # Text in the first code cell; see first_cell.py.

HEADING = re.compile(r"(#{2,}) (.+)")

FOLDED = re.compile(r"<details>((?!<details>).)*?</details>", re.S)

PUZZLE = re.compile(r"puzzle-(?P<name>.+)-(?P<part>\w+)")  # the id of a puzzle's cell

LENGTH = re.compile(r"\n\n\*(?:Deeper|Practice), \d+ minutes?\.\*")


@dataclass(frozen=True)
class Lesson:
    """One lesson.

    path: the notebook that readers open. source: the notebook in which the lesson is
    written, with the answers and with the cells of its puzzles.
    """

    path: Path
    source: NotebookNode = field(compare=False, repr=False)

    @property
    def number(self) -> str:
        """The number in the file's name, such as "01a"."""
        return self.path.name.partition("_")[0]

    @cached_property
    def _head(self) -> tuple[str, str]:
        title, _, question, *_ = self.source.cells[0].source.splitlines()
        return title.removeprefix("# "), question.removeprefix("> ")

    @property
    def title(self) -> str:
        """The lesson's title."""
        return self._head[0]

    @property
    def question(self) -> str:
        """The question that the lesson answers."""
        return self._head[1]

    @property
    def link(self) -> str:
        """A link to the lesson from another notebook, in Markdown."""
        return f"[{self.number} {self.title}]({self.path.name})"

    @cached_property
    def minutes(self) -> dict[str, float]:
        """The minutes of the core, the deeper sections and the practice."""
        return count_minutes(self.source)


def list_lessons() -> list[Lesson]:
    """Return every lesson in reading order."""
    # Imported lazily, so that `import utils` need not wait for nbformat.
    import nbformat

    return [
        Lesson(path, nbformat.read(find_source(path), as_version=4))
        for path in sorted(NOTEBOOKS.glob("[0-9]*.ipynb"))
    ]


def find_source(path: Path) -> Path:
    """Return the notebook with a lesson's answers; `path` if it has no exercises."""
    return SOLUTIONS / path.name if (SOLUTIONS / path.name).exists() else path


@dataclass(frozen=True)
class Section:
    """The cells from a heading to the next heading of the same or a higher level.

    start, end: the index of the first cell, and the index after the last. kind, outer:
    the kinds of the section and of the section around it.
    """

    start: int
    end: int
    kind: str
    outer: str


def list_sections(notebook: NotebookNode) -> list[Section]:
    """Return the sections below the title, in the order of their headings."""
    headings = enumerate(map(match_heading, notebook.cells))
    levels = [(index, len(heading[1])) for index, heading in headings if heading]
    sections: list[Section] = []
    for number, (index, level) in enumerate(levels):
        ends = (a for a, other in levels[number + 1 :] if other <= level)
        around = [one.kind for one in sections if one.start < index < one.end]
        outer = around[-1] if around else CORE
        tags = notebook.cells[index].metadata.get("tags", [])
        kind = next((k for k in (DEEPER, PRACTICE) if k in tags), outer)
        end = next(ends, len(notebook.cells))
        sections.append(Section(index, end, kind, outer))
    return sections


def list_kinds(notebook: NotebookNode) -> list[str]:
    """Return the kind of each cell: CORE, DEEPER or PRACTICE."""
    kinds = [CORE] * len(notebook.cells)
    # An inner section comes after the section around it, so its kind prevails.
    for one in list_sections(notebook):
        kinds[one.start : one.end] = [one.kind] * (one.end - one.start)
    return kinds


def match_heading(cell: NotebookNode) -> re.Match[str] | None:
    """Match the heading that opens a cell, except the title's and puzzles' headings."""
    if cell.cell_type != "markdown" or "puzzle" in cell.metadata.get("tags", []):
        return None
    return HEADING.match(cell.source)


def count_minutes(notebook: NotebookNode) -> dict[str, float]:
    """Return the total minutes of the cells of each kind."""
    total = dict.fromkeys((CORE, DEEPER, PRACTICE), 0.0)
    for cell, kind in zip(notebook.cells, list_kinds(notebook)):
        total[kind] += cell_minutes(cell)
    return total


def cell_minutes(cell: NotebookNode) -> float:
    """Return the minutes that a reader needs for a cell."""
    tags = cell.metadata.get("tags", [])
    if GENERATED in tags or is_withheld(cell) or FETCHES_LAB in cell.source:
        return 0.0
    if cell.cell_type == "markdown":
        questions = re.findall(r"^\*\*\d\.\*\*", cell.source, re.M)
        return _time_reading(cell.source) + len(questions)
    if "exercise" in tags:
        answer = "".join(match["answer"] for match in HIDDEN.finditer(cell.source))
        return _time_writing(_count_lines(make_stub(cell.source)), _count_lines(answer))
    puzzle = PUZZLE.fullmatch(cell.id)
    if puzzle and puzzle["part"] == "answer":
        return _answer_minutes(name_puzzle(puzzle))
    return _count_lines(cell.source) / LINES_A_MINUTE + cell.source.count("predict(")


def name_puzzle(cell_id: re.Match[str]) -> str:
    """Return the name of the puzzle that a cell belongs to."""
    return cell_id["name"].replace("-", "_")


def puzzle_minutes(name: str) -> float:
    """Return the minutes for a puzzle: reading it, and writing its answer."""
    return _time_reading(describe_puzzle(load(name))) + _answer_minutes(name)


def list_core_puzzles(lesson: Lesson) -> Iterator[str]:
    """Yield the puzzles in a lesson's core."""
    for cell, kind in zip(lesson.source.cells, list_kinds(lesson.source)):
        puzzle = PUZZLE.fullmatch(cell.id)
        if puzzle and puzzle["part"] == "asked" and kind == CORE:
            yield name_puzzle(puzzle)


def _answer_minutes(name: str) -> float:
    """Return the minutes for writing a puzzle's answer."""
    puzzle = load(name)
    stub, answer = puzzle.stub.splitlines(), puzzle.solved_text.splitlines()
    own_lines = [line for line in answer if line not in stub]
    return _time_writing(_count_lines(puzzle.stub), len(own_lines))


def _time_writing(stub_lines: int, answer_lines: int) -> float:
    """Return the minutes for writing `answer_lines` into a stub of `stub_lines`."""
    return stub_lines / LINES_A_MINUTE + MINUTES_TO_BEGIN + answer_lines


def _time_reading(text: str) -> float:
    """Return the minutes for Markdown, counting visible words but no link targets."""
    visible, folds = re.sub(r"<!--.*?-->", " ", text, flags=re.S), 1
    while folds:  # removes the innermost folds first
        visible, folds = FOLDED.subn(" ", visible)
    target = r'\]\([^)"]*(?:"(?:[^"\\]|\\.)*")?\)'
    visible = re.sub(target, "]", LENGTH.sub("", visible))
    return len(re.findall(r"\S*\w\S*", visible)) / WORDS_A_MINUTE


def _count_lines(code: str) -> int:
    """Count the lines of code that are neither blank nor imports."""
    lines = (line.strip() for line in code.splitlines())
    return sum(bool(line) and not re.match(r"(import|from) ", line) for line in lines)


def write_minutes(minutes: float) -> str:
    """Write minutes in words, such as "12 minutes"."""
    return count_things(max(1, round(minutes)), "minute")


# ---- the table -----------------------------------------------------------------------

CELL = "padding:3px 14px 3px 0;border:0;text-align:left;vertical-align:top"
WHOLE = "white-space:nowrap"  # style of a cell that stays on one line
LEGEND = "bold: part of the lesson's core; the others are practice"


@dataclass(frozen=True)
class LessonPuzzles:
    """A lesson and its puzzles, in their order.

    notebook: the lesson's file. core: the puzzles that belong to the lesson's core.
    """

    notebook: str
    title: str
    names: tuple[str, ...]
    core: frozenset[str]

    @property
    def head(self) -> str:
        """The lesson's number and title, such as "02c Sums"."""
        return f"{number_of(self.notebook)} {self.title}".rstrip()

    @cached_property
    def minutes(self) -> float:
        """The total minutes for the puzzles."""
        return sum(map(puzzle_minutes, self.names))


def row_of(group: str, names: tuple[str, ...]) -> LessonPuzzles:
    """Return the row of a group; its title is "" if there is no notebook."""
    lesson = _load_lessons().get(LESSONS[group])
    title, core = (lesson.title, list_core_puzzles(lesson)) if lesson else ("", ())
    return LessonPuzzles(LESSONS[group], title, names, frozenset(core))


@cache
def _load_lessons() -> dict[str, Lesson]:
    """Load the lessons by file name, once, since notebooks do not change."""
    return {lesson.path.name: lesson for lesson in list_lessons()}


# ---- as text ---------------------------------------------------------------------


def in_text(progress: PuzzleProgress) -> str:
    """Write a line for each lesson, and a summary sentence."""
    rows = [row_of(*one) for one in progress.groups.items()]
    wide = max((len(row.head) for row in rows), default=0)
    signs = [" ".join(SIGNS[progress.state(n)] for n in row.names) for row in rows]
    long = max(map(len, signs), default=0)
    lines = [
        f"{row.head:<{wide}}  {sign:<{long}}  {_write_summary(progress, row)}"
        for sign, row in zip(signs, rows)
    ]
    return "\n".join([*lines, f"{progress.sentence}   ({write_legend()})"])


def list_puzzles(progress: PuzzleProgress) -> str:
    """Write a line for each puzzle, below its lesson."""
    lines = []
    for group, names in progress.groups.items():
        row = row_of(group, names)
        minutes = write_minutes(row.minutes)
        lines.append(f"{row.head}, {minutes}  (notebooks/{row.notebook})")
        for name in names:
            length = write_minutes(puzzle_minutes(name)) + ", core" * (name in row.core)
            sign = SIGNS[progress.state(name)]
            lines.append(f"  {sign} {name:<20} {load(name).title:<24} {length}")
    return "\n".join([*lines, f"{progress.sentence}   ({write_legend()})"])


def write_legend() -> str:
    """Write the meaning of the signs."""
    return "   ".join(f"{sign} {state}" for state, sign in SIGNS.items())


def _write_summary(progress: PuzzleProgress, row: LessonPuzzles) -> str:
    """Write a summary, such as "2 of 5 solved, 24 minutes; next: guards"."""
    unsolved = [name for name in row.names if progress.state(name) == OPEN]
    then = f"; next: {unsolved[0]}" if unsolved else ""
    done = len(row.names) - len(unsolved)
    return f"{done} of {len(row.names)} solved, {write_minutes(row.minutes)}{then}"


# ---- as HTML ---------------------------------------------------------------------


def in_html(progress: PuzzleProgress) -> str:
    """Write the table for a notebook."""
    rows = "".join(_write_line(progress, *one) for one in progress.groups.items())
    states = "".join(
        f'<span style="display:inline-flex;align-items:center;gap:4px;'
        f'margin-right:14px">{mark(state, state)}{state}</span>'
        for state in (OPEN, SOLVED, WITHIN)
    )
    return (
        f'<div style="font-size:13px"><table style="border-collapse:collapse;'
        f'border:0;font-size:13px;color:inherit;background:transparent">{rows}</table>'
        f'<div style="margin-top:6px">{html.escape(progress.sentence)}</div>'
        f'<div style="opacity:.75;margin-top:2px">{states}</div>'
        f'<div style="opacity:.75;margin-top:2px">{html.escape(LEGEND)}</div></div>'
    )


def _write_line(progress: PuzzleProgress, group: str, names: tuple[str, ...]) -> str:
    row = row_of(group, names)
    head, done = html.escape(row.head), sum(progress.state(n) != OPEN for n in names)
    puzzles = "".join(_write_puzzle(progress, row, name) for name in names)
    link = html.escape(link_notebook(row.notebook), quote=True)
    cells = (
        f'<a href="{link}" style="color:inherit">{head}</a>',
        f'<div style="display:flex;flex-wrap:wrap;gap:3px 12px">{puzzles}</div>',
        f"{done} of {len(names)}",
        write_minutes(row.minutes),
    )
    spaces = (WHOLE, "width:100%", WHOLE, WHOLE)
    columns = "".join(
        f'<td style="{CELL};{space}">{cell}</td>' for space, cell in zip(spaces, cells)
    )
    return f'<tr style="background:transparent">{columns}</tr>'


def _write_puzzle(progress: PuzzleProgress, row: LessonPuzzles, name: str) -> str:
    """Write a puzzle's mark and its name, both linked to the puzzle."""
    link = html.escape(load(name).link, quote=True)
    weight = "bold" if name in row.core else "normal"
    return (
        f'<a href="{link}" style="display:inline-flex;align-items:center;gap:4px;'
        f'color:inherit;text-decoration:none;font-weight:{weight};white-space:nowrap">'
        f"{mark(progress.state(name), progress.title(name))}{html.escape(name)}</a>"
    )


def mark(state: str, title: str) -> str:
    """Draw a mark: pale if open, a check if solved, a star if within the budget.

    title: the mark's tooltip.
    """
    look, inside = f'fill="none" stroke="{INK}"', ""
    if state == SOLVED:
        look = f'fill="{OURS}" fill-opacity=".2" stroke="{OURS}"'
        check = 'd="M4.9 9.4l2.9 3 5.4-6.6" fill="none" stroke-width="2"'
        inside = f'<path {check} stroke="{OURS}"/>'
    elif state == WITHIN:
        look = f'fill="{SHARED}" stroke="{SHARED}"'
        star = (
            "M9 3.4l1.7 3.6 3.9.5-2.9 2.7.8 3.9L9 12.2l-3.5 1.9.8-3.9-2.9-2.7 3.9-.5z"
        )
        inside = f'<path d="{star}" fill="#fff"/>'
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 18 18">'
        f'<rect x="1.5" y="1.5" width="15" height="15" rx="3" {look}/>{inside}</svg>'
    )
    tooltip = html.escape(title, quote=True)
    return write_image(svg, title).replace("<img", f'<img title="{tooltip}"', 1)
