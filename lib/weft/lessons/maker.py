"""Lessons from their sources: `make notebooks`.

A lesson with exercises is written as notebooks/solutions/NN_topic.ipynb: all of it,
with the answers. From that comes notebooks/NN_topic.ipynb, which readers open; do not
edit that one. A lesson without exercises is its own source. `make notebooks` also
takes outputs and execution counts away, so run and save a source as you like.

An exercise in a source is, in this order:

1. Text that says what is asked, under a ### heading.
2. A code cell with the tag "exercise": the whole answer. What the reader is to write
   stands between two lines, in Python and in C under a cell magic:

       def double(x):                          %%cuda
           \"\"\"2 x. One line.\"\"\"                /* y = 2 x. Two lines. */
           ### BEGIN SOLUTION                  __global__ void twice(float *y) {
           return 2 * x                            // BEGIN SOLUTION
           ### END SOLUTION                        y[threadIdx.x] *= 2;
                                                   // END SOLUTION
                                               }

   The reader gets the cell with `raise NotImplementedError` in their place, in a C file
   (%%writefile) `#error not solved yet`, and under %%cuda an empty body, whose check
   finds its outputs untouched and raises NotImplementedError.
3. A code cell, the check: functions as it needs, then exercise(double, check_double).
4. A code cell with the tag "mistakes", which the reader does not get. It assigns to
   `mistakes` a list of literals: a pair (what to replace between the markers, by what),
   or a string, the whole wrong answer without the magic. Each must be refused.
5. A code cell with the tag "spellings", written in the same way: right answers as
   another reader would write them. Each must be accepted. There are at least three
   mistakes and two spellings.
6. Text with hints and the answer, folded: the line <!-- answer --> becomes the answer.

       <details><summary>Hint</summary>

       Words.
       </details>
       <details><summary>Answer</summary>

       <!-- answer -->
       Words that only who has solved it should read.
       </details>

Puzzles (lib/weft/puzzles/), by their names or a group of them, are one Markdown cell
that has this line alone:

    <!-- puzzles: map zip -->

The cells below it with the tag "puzzle" are written by `make notebooks`, here with the
answers and for the reader with the stubs; what is changed in them is lost. The same
holds for the cells with the tag "course", for the first code cell (hosted.py), and for
the titles of links to the glossary (glossary.py).

No later cell may use what an exercise or a puzzle defines: a reader may not have
solved it.
tests/lessons/test_notebooks.py runs all of this. Its sizes are smaller where that is
worth it, by utils.size(full, small). Each ## section starts from the cells above the
first.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from ..base.paths import ROOT
from ..puzzles.groups import HIDDEN, LessonError, is_withheld, make_stub, remove_marks
from ..puzzles.lessons import Lesson, find_source, list_lessons, make_cells
from . import course, glossary
from . import first_cell as hosted

ANSWER = "<!-- answer -->"
PUZZLES = re.compile(r"<!-- puzzles: (\w+(?: \w+)*) -->\s*")
README = ROOT / "README.md"
METADATA = {
    "kernelspec": {
        "display_name": "Python 3",
        "language": "python",
        "name": "python3",
    },
    "language_info": {"name": "python"},
}


def learner(source: NotebookNode) -> NotebookNode:
    """The notebook that a reader opens, from the one with the answers.

    Raises LessonError where an exercise lacks one of its parts.
    """
    made = clean(source, answered=False)
    answer = None  # the last exercise's, until its text has it
    for cell in made.cells:
        if is_tagged(cell, "exercise"):
            _want(answer is None, f"no {ANSWER} for:\n{answer}")
            answer = folded(cell.source)
            cell.source = make_stub(cell.source)
        elif cell.cell_type == "markdown" and ANSWER in cell.source:
            _want(answer is not None, f"{ANSWER} without an exercise above it")
            cell.source = cell.source.replace(ANSWER, answer)
            answer = None
        else:
            _want("SOLUTION\n" not in cell.source, f"not tagged:\n{cell.source}")
    _want(answer is None, f"no {ANSWER} for:\n{answer}")
    made.cells = [cell for cell in made.cells if not is_withheld(cell)]
    return made


def clean(notebook: NotebookNode, answered: bool = True) -> NotebookNode:
    """A copy as it is committed: no outputs, and of the metadata only tags.

    answered: whether its puzzles come with their answers.
    """
    made = nbformat.from_dict(notebook | {"metadata": METADATA})
    made.cells = [nbformat.from_dict(cell) for cell in _expanded(notebook, answered)]
    made.cells = course.strip(made.cells)
    hosted.renew_first(made.cells)
    glossary.define_links(made.cells)
    for cell in made.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return made


def _expanded(notebook: NotebookNode, answered: bool) -> Iterator[NotebookNode]:
    """Its cells, those of puzzles made anew from the lines that stand for them."""
    for cell in notebook.cells:
        if is_tagged(cell, "puzzle"):
            continue
        yield cell
        group = PUZZLES.fullmatch(cell.source)
        if group and cell.cell_type == "markdown":
            yield from make_cells(group[1].split(), answered)
        else:
            _want("<!-- puzzles:" not in cell.source, f"not alone:\n{cell.source}")


def folded(answer: str) -> str:
    """The answer as Markdown."""
    text = remove_marks(answer)
    magic, _, body = text.partition("\n")
    if magic.startswith("%%"):
        return f"```c\n{body}\n```"
    return f"```python\n{text}\n```"


def exercises(source: NotebookNode) -> Iterator[tuple[NotebookNode, ...]]:
    """The four code cells of each exercise: answer, check, mistakes, spellings."""
    cells = [cell for cell in source.cells if cell.cell_type == "code"]
    cells += [nbformat.v4.new_code_cell() for _ in range(3)]
    for answer, check, wrong, right in zip(cells, cells[1:], cells[2:], cells[3:]):
        if is_tagged(answer, "exercise"):
            _want("exercise(" in check.source, f"no check below:\n{answer.source}")
            _want(is_tagged(wrong, "mistakes"), f"no mistakes for:\n{answer.source}")
            _want(is_tagged(right, "spellings"), f"no spellings of:\n{answer.source}")
            yield answer, check, wrong, right


def variants(answer: str, cell: str) -> list[str]:
    """Return each answer that `cell` lists (mistakes or spellings) as a cell."""
    (assigned,) = ast.parse(cell).body
    listed = ast.literal_eval(assigned.value)  # type: ignore[attr-defined]
    magic = answer.partition("\n")[0] + "\n" if answer.startswith("%%") else ""
    return [
        magic + one
        if isinstance(one, str)
        else remove_marks(HIDDEN.sub(_replacing(*one, answer), answer))
        for one in listed
    ]


def _replacing(old: str, new: str, answer: str) -> Callable[[re.Match], str]:
    """For HIDDEN.sub: what stands between the markers with `new` for `old`."""
    count = sum(match["answer"].count(old) for match in HIDDEN.finditer(answer))
    _want(count == 1, f"{old!r} is not once between the markers of:\n{answer}")
    return lambda match: match["answer"].replace(old, new)


def is_tagged(cell: NotebookNode, tag: str) -> bool:
    """Whether a cell carries a tag."""
    return tag in cell.metadata.get("tags", [])


def has_exercises(notebook: NotebookNode) -> bool:
    """Whether a lesson must have its source among the solutions."""
    return any(
        is_tagged(cell, "exercise") or is_tagged(cell, "puzzle")
        for cell in notebook.cells
    )


def text_of(notebook: NotebookNode) -> str:
    """As it stands in its file."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def files() -> Iterator[tuple[Path, str]]:
    """Every notebook of the lab, and README: the text that each should have."""
    course_lessons = list_lessons()
    terms = clean(glossary.read())
    glossary.complete(terms, course_lessons, lambda lesson: clean(lesson.source).cells)
    yield glossary.GLOSSARY, text_of(terms)
    yield README, course.with_course(README.read_text(encoding="utf-8"), "notebooks/")
    for lesson in course_lessons:
        try:
            yield from _files_of(lesson)
        except LessonError as error:
            raise LessonError(f"{lesson.path.name}: {error}") from None


def _files_of(lesson: Lesson) -> Iterator[tuple[Path, str]]:
    """The notebooks of a lesson: its source, and the reader's where that is another."""
    written = Lesson(lesson.path, clean(lesson.source))
    source = nbformat.from_dict(written.source)
    course.complete(source, written)
    yield find_source(lesson.path), text_of(source)
    if find_source(lesson.path) != lesson.path:
        reader = learner(lesson.source)
        course.complete(reader, written)
        yield lesson.path, text_of(reader)


def main() -> None:
    """Bring every notebook up to date, and name those that were not."""
    for path, text in files():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: written")


def _want(met: bool, otherwise: str) -> None:
    if not met:
        raise LessonError(otherwise)


if __name__ == "__main__":
    try:
        main()
    except LessonError as error:
        sys.exit(f"error: {error}")
