"""`make notebooks`: write the lessons from their sources.

The source of each lesson, and of the glossary, is notebooks/sources/NN_topic.md. It is
MyST Markdown, which jupytext reads. Text is plain Markdown. A cell of code is a block

    ```{code-cell}
    :tags: [exercise]

    print("code")
    ```

whose line of tags is optional. A line `+++` separates two cells of text, and contains
the tags of the second: `+++ {"tags": ["deeper"]}`.

From the source, `make notebooks` writes notebooks/NN_topic.ipynb, which readers open.
If the lesson has exercises or puzzles, notebooks/solutions/NN_topic.ipynb contains the
answers. notebooks/colab/NN_topic.ipynb is for Colab, which opens a notebook without its
neighbors. Its links lead to other notebooks in Colab, and to the site. All notebooks
are committed, since GitHub and Colab show them from the repository.

You may also edit a lesson in Jupyter: change and save the notebook with the answers.
The following command writes your changes into the source, and then writes every
notebook. The command drops outputs, and overwrites changes in the source.

    python -m weft.lessons.maker --from notebooks/solutions/NN_topic.ipynb

After a change that Colab's readers need, record the version that the first cell fetches
(first_cell.py): a tag or, by default, the last commit. Commit the notebooks separately.

    python -m weft.lessons.maker --release [REF]

`make notebooks` adds the cell that fetches the lab (first_cell.py), the cells of
puzzles, and the cells' ids. It also adds the titles of links to the glossary, the
lengths, the links between lessons, and a section's tag in each cell (course.py). An id
is the heading above the cell and the cell's number below that heading. The id of a
glossary entry or of a puzzle's cell is its name.

An exercise in a source consists of these parts, in this order:

1. Text that describes the problem, under a ### heading.
2. A code cell with the tag "exercise": the whole answer. Two marks enclose the part
   that the reader writes, in Python and in C under a cell magic; puzzles/catalogue.py
   shows both. In the reader's cell, `raise NotImplementedError` replaces that part. In
   a C file (%%writefile) it is `#error not solved yet`. Under %%cuda it is an empty
   body, whose check finds its outputs untouched and raises NotImplementedError.
3. A code cell with the check: any functions, then exercise(double, check_double).
4. A code cell with the tag "mistakes", which the reader's notebook omits. It assigns to
   `mistakes` a list of literals: a pair (text between the markers, its replacement), or
   a string, the whole wrong answer without the magic. The check must refuse each.
5. A code cell with the tag "spellings", written in the same way: right answers as
   another reader would write them. The check must accept each. There are at least three
   mistakes and two spellings.
6. Text with hints and the answer, folded: the line <!-- answer --> becomes the answer.

       <details><summary>Hint</summary>

       Words.
       </details>
       <details><summary>Answer</summary>

       <!-- answer -->
       Words only for readers who have solved it.
       </details>

Puzzles (lib/weft/puzzles/) are one Markdown cell that consists of this line, with the
names of puzzles or of groups:

    <!-- puzzles: map zip -->

`make notebooks` writes their cells below it, with the tag "puzzle". In the solutions,
the cells contain the answers, and in the reader's notebook the stubs.

More tags serve lecturers and web pages:

    plumbing  JupyterLab folds the code, pages fold it, and slides show only its output
    slide     the cell begins a slide, as each heading does
    step      the cell appears at a key press, and its code paragraph by paragraph
    notes     the text appears only in the speaker's view
    skip      slides omit the cell

No later cell may use the definitions of an exercise or a puzzle, since the reader may
not have solved it. tests/lessons/test_notebooks.py runs all cells, with smaller sizes
where utils.size(full, small) supplies them. Each ## section starts from the cells above
the first section.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jupytext
import nbformat
from jupytext.myst import notebook_to_myst
from nbformat import NotebookNode

from ..base.paths import ROOT
from ..puzzles.catalogue import (
    HIDDEN,
    LessonError,
    is_withheld,
    make_stub,
    remove_marks,
)
from ..puzzles.notebooks import NOTEBOOKS, SOLUTIONS, Lesson, find_source, make_cells
from . import course, first_cell

ANSWER = "<!-- answer -->"
PUZZLES = re.compile(r"<!-- puzzles: (\w+(?: \w+)*) -->\s*")
HEADING = re.compile(r"#+ (.+)")
NOT_IN_ID = re.compile(r"[^\w-]", re.A)
README = ROOT / "README.md"
SOURCES = NOTEBOOKS / "sources"
FOR_COLAB = NOTEBOOKS / "colab"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
METADATA = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
# With this metadata, Colab starts a machine with a T4 if one is available.
COLAB_METADATA = {"accelerator": "GPU", "colab": {"gpuType": "T4", "provenance": []}}
FORM = {"extension": ".md", "format_name": "myst", "format_version": 0.13}
# Metadata of a source, with which Jupyter can open it as a notebook.
TEXT_METADATA = {"jupytext": {"text_representation": FORM}, "kernelspec": KERNEL}


# ---- sources -------------------------------------------------------------------------


def read_source(path: Path) -> NotebookNode:
    """Return a source file as a notebook, without the additions of `make notebooks`."""
    notebook = jupytext.reads(path.read_text(encoding="utf-8"), "md:myst")
    name_cells(notebook.cells)
    return notebook


def write_source(path: Path) -> str:
    """Return the text of a source, from the notebook with the answers."""
    notebook = strip(nbformat.read(path, as_version=4))
    course.strip_links(notebook.cells)
    if path.name == course.GLOSSARY.name:
        course.strip_entries(notebook)
    return notebook_to_myst(nbformat.from_dict(notebook | {"metadata": TEXT_METADATA}))


def name_cells(cells: list[NotebookNode]) -> None:
    """Set each cell's id: the heading above it, and its number below that heading."""
    heading, used = "cell", set()
    for cell in cells:
        if cell.cell_type == "markdown" and (match := HEADING.match(cell.source)):
            heading = NOT_IN_ID.sub("", course.place_of(match[1]))[:56] or heading
        names = (f"{heading}-{number}" for number in itertools.count(2))
        cell.id = next(n for n in itertools.chain([heading], names) if n not in used)
        used.add(cell.id)


def find_edited(path: Path) -> Path:
    """Return the source of a notebook; raise LessonError if it lacks the answers."""
    path = path.resolve()
    _want(path.parent in (NOTEBOOKS, SOLUTIONS), f"{path} is not a lesson's notebook")
    _want(
        find_source(NOTEBOOKS / path.name) == path,
        f"{path.name} has stubs: edit notebooks/solutions/{path.name}",
    )
    return SOURCES / f"{path.stem}.md"


# ---- notebooks -----------------------------------------------------------------------


def learner(source: NotebookNode) -> NotebookNode:
    """Return the notebook that a reader opens, from the one with the answers.

    Raises LessonError if an exercise lacks one of its parts.
    """
    notebook = clean(source, answered=False)
    answer = None  # the last exercise's answer, until ANSWER is found
    for cell in notebook.cells:
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
    notebook.cells = [cell for cell in notebook.cells if not is_withheld(cell)]
    return notebook


def strip(notebook: NotebookNode) -> NotebookNode:
    """Return a copy without outputs, empty cells and the cells of `make notebooks`."""
    result = nbformat.from_dict(notebook | {"metadata": METADATA})
    result.cells = course.strip([cell for cell in result.cells if _is_written(cell)])
    for cell in result.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return result


def _is_written(cell: NotebookNode) -> bool:
    """Return whether a person wrote the cell."""
    added = is_tagged(cell, "puzzle") or first_cell.is_first(cell)
    return bool(cell.source.strip()) and not added


def clean(notebook: NotebookNode, answered: bool = True) -> NotebookNode:
    """Return a copy without outputs, with new cells for its puzzles.

    answered: whether these cells contain the answers.
    """
    result = strip(notebook)
    result.cells = list(_expand_puzzles(result.cells, answered))
    return result


def _expand_puzzles(
    cells: list[NotebookNode], answered: bool
) -> Iterator[NotebookNode]:
    """Yield the cells and, below each line that names puzzles, the puzzles' cells."""
    for cell in cells:
        yield cell
        group = PUZZLES.fullmatch(cell.source)
        if group and cell.cell_type == "markdown":
            yield from make_cells(group[1].split(), answered)
        else:
            _want("<!-- puzzles:" not in cell.source, f"not alone:\n{cell.source}")


def folded(answer: str) -> str:
    """Return the answer as a Markdown code block."""
    text = remove_marks(answer)
    magic, _, body = text.partition("\n")
    if magic.startswith("%%"):
        return f"```c\n{body}\n```"
    return f"```python\n{text}\n```"


def exercises(source: NotebookNode) -> Iterator[tuple[NotebookNode, ...]]:
    """Yield the code cells of each exercise: answer, check, mistakes, spellings."""
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
        magic + entry
        if isinstance(entry, str)
        else remove_marks(HIDDEN.sub(_replacing(*entry, answer), answer))
        for entry in listed
    ]


def _replacing(old: str, new: str, answer: str) -> Callable[[re.Match], str]:
    """Return a function for HIDDEN.sub that replaces `old` between the markers."""
    count = sum(match["answer"].count(old) for match in HIDDEN.finditer(answer))
    _want(count == 1, f"expected {old!r} once between the markers of:\n{answer}")
    return lambda match: match["answer"].replace(old, new)


def is_tagged(cell: NotebookNode, tag: str) -> bool:
    """Return whether a cell has a tag."""
    return tag in cell.metadata.get("tags", [])


def has_exercises(notebook: NotebookNode) -> bool:
    """Return whether a lesson has answers, and thus a notebook in the solutions."""
    cells = notebook.cells
    return any(is_tagged(c, "exercise") or is_tagged(c, "puzzle") for c in cells)


def text_of(notebook: NotebookNode) -> str:
    """Return the text of the notebook's file."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook) + "\n"


def files() -> Iterator[tuple[Path, str]]:
    """Yield the path of every notebook and of README, with the text of each."""
    sources = {path.stem: read_source(path) for path in sorted(SOURCES.glob("*.md"))}
    terms = sources.pop(course.GLOSSARY.stem)
    definitions = course.entries(terms)
    lessons = [
        Lesson(NOTEBOOKS / f"{name}.ipynb", _make(name, clean, source))
        for name, source in sources.items()
    ]
    for lesson in lessons:
        course.fill_tables(lesson.source, lessons)  # the minutes include the tables
    course.complete_links(terms, lessons)
    glossary = _finish(clean(terms), definitions)
    yield course.GLOSSARY, text_of(glossary)
    yield FOR_COLAB / course.GLOSSARY.name, text_of(for_colab(glossary))
    readme = README.read_text(encoding="utf-8")
    yield README, course.with_course(readme, lessons, "notebooks/")
    for lesson in lessons:
        name = lesson.path.stem
        reader = _make(name, learner, sources[name])
        reader = _finish(reader, definitions, lesson, lessons)
        yield lesson.path, text_of(reader)
        if has_exercises(lesson.source):
            solved = nbformat.from_dict(lesson.source)
            solved = _finish(solved, definitions, lesson, lessons)
            yield SOLUTIONS / lesson.path.name, text_of(solved)
        yield FOR_COLAB / lesson.path.name, text_of(for_colab(reader))


def for_colab(reader: NotebookNode) -> NotebookNode:
    """Return the notebook for Colab, from the finished one for readers."""
    notebook = nbformat.from_dict(reader | {"metadata": METADATA | COLAB_METADATA})
    course.lead_to_web(notebook.cells)
    return notebook


def _make(
    name: str, make: Callable[[NotebookNode], NotebookNode], source: NotebookNode
) -> NotebookNode:
    """Return make(source); add the lesson's name to the text of a LessonError."""
    try:
        return make(source)
    except LessonError as error:
        raise LessonError(f"{name}: {error}") from None


def _finish(
    notebook: NotebookNode,
    definitions: dict[str, str],
    lesson: Lesson | None = None,
    lessons: Sequence[Lesson] = (),
) -> NotebookNode:
    """Return a notebook with all additions."""
    fetch = nbformat.v4.new_code_cell(first_cell.FIRST, id="fetch-the-lab")
    notebook.cells.insert(1, fetch)
    if lesson is not None:
        course.complete(notebook, lesson, lessons)
    course.define_links(notebook.cells, definitions)
    return notebook


def main(arguments: list[str]) -> None:
    """Update every notebook, and print the names of those that change."""
    parser = argparse.ArgumentParser(
        prog="python -m weft.lessons.maker", description=main.__doc__
    )
    several = {"dest": "edited", "nargs": "+", "type": Path, "default": []}
    text = "first write these notebooks into their sources"
    parser.add_argument("--from", metavar="NOTEBOOK", help=text, **several)
    text = "first record the version that Colab fetches: a tag or a commit"
    parser.add_argument("--release", metavar="REF", nargs="?", const="HEAD", help=text)
    options = parser.parse_args(arguments)
    for path in options.edited:
        _write(find_edited(path), write_source(path))
    if options.release:
        release = first_cell.name_release(options.release)
        _write(first_cell.RELEASE, f"{release}\n")
        first_cell.FIRST = first_cell.write_cell(release)
    for path, text in files():
        _write(path, text)


def _write(path: Path, text: str) -> None:
    """Write a file if its text has changed, and print its name."""
    path.parent.mkdir(exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: written")


def _want(met: bool, otherwise: str) -> None:
    if not met:
        raise LessonError(otherwise)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LessonError as error:
        sys.exit(f"error: {error}")
