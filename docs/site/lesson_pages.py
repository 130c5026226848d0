"""Write a page for each lesson, and one for its solutions.

A page is the reader's notebook with the outputs of the executed lesson. Exercises and
puzzles keep their stubs, without outputs. The answers are on a separate page.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import lessons
import nbformat
import outputs
from nbformat import NotebookNode

from weft.base.paths import COLAB, GITHUB
from weft.lessons import course, first_cell
from weft.lessons.maker import FOR_COLAB, has_exercises, is_tagged
from weft.puzzles.catalogue import remove_marks
from weft.puzzles.notebooks import (
    CORE,
    DEEPER,
    GENERATED,
    NOTEBOOKS,
    PRACTICE,
    PUZZLE,
    Lesson,
    list_lessons,
)

BADGE = re.compile(r"\[!\[Open in Colab\].*\n?")
MENTION = re.compile(
    r"\]\((?P<file>\d\d[a-z]?)_\w+\.ipynb"
    r"|[Ll]essons? (?P<first>\d\d[a-z]?)(?: (?:and|or|to) (?P<last>\d\d[a-z]?))?"
)
FOLD = re.compile(r"<details>|</details>")
ANSWER = "<details><summary>Answer</summary>"
FILE = re.compile(r"\]\((?:\.\./)+(?!notebooks/)([\w./-]+)\)")  # a file of the lab
METADATA = {
    "kernelspec": {"display_name": "Weft", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "weft"},
}


# ---- facts about a lesson ------------------------------------------------------------


def list_prerequisites(lesson: Lesson, all_lessons: Sequence[Lesson]) -> list[Lesson]:
    """Return the earlier lessons to which a lesson refers.

    If it refers to none, return the one that introduces most of its terms.
    """
    earlier = all_lessons[: all_lessons.index(lesson)]
    mentioned = list_mentions(lesson)
    named = [one for one in earlier if one.number in mentioned]
    if named or not earlier:
        return named
    introduced: dict[str, Lesson] = {}
    for one in earlier:
        introduced |= dict.fromkeys(list_terms(one) - {*introduced}, one)
    counts = Counter(
        introduced[term].number for term in list_terms(lesson) if term in introduced
    )
    return [max(earlier, key=lambda one: counts[one.number])]


def list_terms(lesson: Lesson) -> set[str]:
    """Return the terms of the glossary to which a lesson links."""
    return course.places_in(lesson.source.cells)


def list_mentions(lesson: Lesson) -> set[str]:
    """Return the numbers of the lessons to which a lesson's text refers."""
    numbers: set[str] = set()
    for cell in lesson.source.cells:
        if cell.cell_type == "markdown" and not is_tagged(cell, GENERATED):
            for match in MENTION.finditer(cell.source):
                numbers |= {match["file"], match["first"], match["last"]} - {None}
    return numbers


def describe_prerequisites(lesson: Lesson, all_lessons: Sequence[Lesson]) -> str:
    """Return the prerequisites of a lesson: other lessons, or a language."""
    if lesson is all_lessons[0]:
        return "a little Python"
    ways = [what for what, starts in course.WAYS_IN if lesson.number in starts]
    if lesson is all_lessons[1]:
        return " or ".join(ways)
    links = [one.link for one in list_prerequisites(lesson, all_lessons)]
    or_begin = [f"or begin here if you know {' or '.join(ways)}"] if ways else []
    return ", ".join([*links, *or_begin])


def describe_minutes(lesson: Lesson) -> str:
    """Return a lesson's minutes by kind, such as "43, deeper 12, practice 20"."""
    parts = [f"{lesson.minutes[CORE]:.0f}"]
    for kind in (DEEPER, PRACTICE):
        if lesson.minutes[kind] >= 1:
            parts.append(f"{kind} {lesson.minutes[kind]:.0f}")
    return ", ".join(parts)


def describe_times(name: str) -> str:
    """Return the machine and the date of a page's times; "" if it shows none."""
    record = lessons.read_clock(name)
    if not record.get("cells"):
        return ""
    machine = record["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}"


def write_facts(lesson: Lesson, all_lessons: Sequence[Lesson]) -> str:
    """Return the facts below a lesson's title, as Markdown."""
    file = lesson.path.name
    actions = [
        f"[Open in Colab]({COLAB}/{file})",
        f"{{download}}`Download <notebooks/{file}>`",
    ]
    if has_exercises(lesson.source):
        actions.append(f"[Solutions](solutions/{file})")
    facts = [
        f"- **Minutes** {describe_minutes(lesson)}",
        f"- **Before** {describe_prerequisites(lesson, all_lessons)}",
    ]
    if times := describe_times(lesson.path.stem):
        facts.append(f"- **Times** {times}")
    links = "\n".join(f"- {one}" for one in actions)
    return (
        f":::{{container}} lesson-facts\n{chr(10).join(facts)}\n:::\n\n"
        f":::{{container}} lesson-actions\n{links}\n:::"
    )


# ---- text ----------------------------------------------------------------------------


def link_files(text: str) -> str:
    """Redirect links to files of the lab to the repository, and remove the badges."""
    text = BADGE.sub("", text)
    return FILE.sub(lambda m: f"]({GITHUB}/blob/main/{m[1]})", text)


def link_terms(text: str, up: str = "") -> str:
    """Redirect links to cells of other notebooks to anchors of pages."""
    text = re.sub(r"(\w+\.ipynb)#cell-id=([^)\s]+)", r"\1#\2", text)
    return re.sub(r"\]\((\w+\.ipynb)", rf"]({up}\1", text)


def cut_answer(text: str, link: str) -> str:
    """Replace the folded answer of an exercise with a link to it."""
    begin = text.rfind(ANSWER) if "In CUDA C" not in text else text.find(ANSWER)
    if begin < 0:
        return text
    depth, end = 0, len(text)
    for mark in FOLD.finditer(text, begin):
        depth += 1 if mark[0] == "<details>" else -1
        if not depth:
            end = mark.end()
            break
    return f"{text[:begin].rstrip()}\n\n{link}{text[end:]}"


def unfold_answer(text: str) -> str:
    """Return the text of a folded answer, without its code."""
    begin = text.find(ANSWER)
    inside = text[begin + len(ANSWER) :].rpartition("</details>")[0]
    return inside.partition("<!-- answer -->")[2].strip() if begin >= 0 else ""


# ---- pages ---------------------------------------------------------------------------


def place_outputs(cells: Sequence[NotebookNode], executed: NotebookNode) -> None:
    """Give the reader's cells the outputs of the executed lesson's cells."""
    known = {cell.id: cell for cell in executed.cells}
    solving = False
    for cell in cells:
        solved = known.get(cell.id)
        if cell.cell_type != "code" or solved is None:
            continue
        # True if the reader sees a stub instead of an answer.
        asked = cell.source != solved.source
        if not asked and not solving:
            cell.outputs = solved.outputs
        solving = asked  # the cell below a stub checks the answer


def make_page(
    lesson: Lesson | None, name: str, executed: NotebookNode, all_lessons: list[Lesson]
) -> NotebookNode:
    """Return the page of a lesson, or of the glossary, as a notebook."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    cells = [cell for cell in notebook.cells if not first_cell.is_first(cell)]
    cells = [cell for cell in cells if not is_tagged(cell, GENERATED)]
    place_outputs(cells, executed)
    stubs = find_headings(cells, executed)
    for cell in cells:
        if cell.cell_type == "markdown":
            cell.source = write_text(cell, name, stubs)
        else:
            outputs.prepare(cell)
            fold_plumbing(cell)
    if lesson is not None:
        rest = cells[0].source.partition("\n")[2]
        facts = write_facts(lesson, all_lessons)
        title = f"# {lesson.number} {lesson.title}"
        cells[0].source = title + rest_of_head(rest, facts)
    notebook.cells, notebook.metadata = cells, nbformat.from_dict(METADATA)
    return notebook


def fold_plumbing(cell: NotebookNode) -> None:
    """Fold the code of a cell with the tag "plumbing"."""
    if is_tagged(cell, course.PLUMBING):
        cell.metadata["tags"] = [*cell.metadata["tags"], "hide-input"]


def rest_of_head(rest: str, facts: str) -> str:
    """Return the question, the facts, and the text below the title."""
    question, _, text = rest.strip().partition("\n")
    return f"\n\n{question}\n\n{facts}\n\n{text.strip()}"


def find_headings(cells: list[NotebookNode], executed: NotebookNode) -> dict[str, str]:
    """Map the id of each text that folds an answer to the heading of its exercise."""
    marked = {
        cell.id
        for cell in executed.cells
        if cell.cell_type == "markdown" and "<!-- answer -->" in cell.source
    }
    found, heading = {}, ""
    for cell in cells:
        if cell.cell_type == "markdown":
            puzzle = PUZZLE.fullmatch(cell.id)
            if cell.id in marked or (puzzle and puzzle["part"] == "help"):
                found[cell.id] = heading
            heading = read_heading(cell) or heading
    return found


def read_heading(cell: NotebookNode) -> str:
    """Return the last heading of a cell; "" if it has none."""
    headings = re.findall(r"^#{2,4} (.+)$", cell.source, re.M)
    return headings[-1] if headings else ""


def write_text(cell: NotebookNode, name: str, stubs: dict[str, str]) -> str:
    """Return the text of a Markdown cell, converted for a page."""
    text = link_terms(link_files(cell.source))
    if name == course.GLOSSARY.stem:  # the glossary's entries are sections of the page
        text = re.sub(r"^###", "##", text, flags=re.M)
    if cell.id in stubs:
        place = course.place_of(stubs[cell.id]).lower()
        text = cut_answer(text, f"[Answer](solutions/{name}.ipynb#{place})")
    puzzle = PUZZLE.fullmatch(cell.id)
    if puzzle and puzzle["part"] == "asked":
        text = f"({cell.id})=\n{text}"
    return text


def make_solutions(
    lesson: Lesson, name: str, executed: NotebookNode
) -> NotebookNode | None:
    """Return the page with a lesson's answers; None if it has no exercises."""
    reader = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    stubs = {cell.id: cell.source for cell in reader.cells}
    back = f"[{lesson.number} {lesson.title}](../{name}.ipynb)"
    title = f"# {lesson.number} {lesson.title}: solutions"
    cells = [nbformat.v4.new_markdown_cell(f"{title}\n\nThe questions are in {back}.")]
    heading, solving = "", False
    for cell in executed.cells:
        if cell.cell_type == "markdown":
            heading = read_heading(cell) or heading
            words = link_terms(link_files(unfold_answer(cell.source)), "../")
            if words and "<!-- answer -->" in cell.source:
                cells.append(nbformat.v4.new_markdown_cell(words))
        elif stubs.get(cell.id, cell.source) != cell.source:
            cells.append(nbformat.v4.new_markdown_cell(f"## {heading}"))
            cells.append(prepare_answer(cell))
            solving = True
        elif solving:
            cells.append(outputs.prepare(cell))
            solving = False
    if len(cells) == 1:
        return None
    return nbformat.v4.new_notebook(cells=cells, metadata=METADATA)


def prepare_answer(cell: NotebookNode) -> NotebookNode:
    """Return the cell of an answer without the marks around the hidden part."""
    cell.source = remove_marks(cell.source)
    return outputs.prepare(cell)


def write_lessons(folder: Path) -> list[Lesson]:
    """Write the page of every lesson and of the glossary; return the lessons."""
    all_lessons = list_lessons()
    by_name = {one.path.stem: one for one in all_lessons}
    (folder / "solutions").mkdir()
    solved = []
    for name in lessons.list_names():
        executed, lesson = lessons.read_executed(name), by_name.get(name)
        page = make_page(lesson, name, executed, all_lessons)
        nbformat.write(page, folder / f"{name}.ipynb")
        if lesson is None:
            continue
        answers = make_solutions(lesson, name, lessons.read_executed(name))
        if answers is not None:
            nbformat.write(answers, folder / "solutions" / f"{name}.ipynb")
            solved.append(name)
    write_contents(folder, all_lessons, solved)
    return all_lessons


def write_contents(folder: Path, all_lessons: list[Lesson], solved: list[str]) -> None:
    """Write the page that lists the lessons, and the one that lists the solutions."""
    rows = "\n".join(
        f"| {one.link} | {html.escape(one.question)} | {one.minutes[CORE]:.0f} |"
        for one in all_lessons
    )
    names = "\n".join(one.path.stem for one in all_lessons)
    (folder / "lessons.md").write_text(
        "# Lessons\n\nThe core of each lesson fits into a lecture of 50 minutes.\n\n"
        f"| lesson | the question | minutes |\n|---|---|---:|\n{rows}\n\n"
        f"{course.ways_in(all_lessons)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
    answers = "\n".join(solved)
    (folder / "solutions" / "index.md").write_text(
        "# Solutions\n\nEach answer passed its check when this site was built.\n\n"
        f"```{{toctree}}\n\n{answers}\n```\n"
    )


def copy_downloads(folder: Path) -> None:
    """Copy the notebooks for download, in which all links are absolute."""
    (folder / "notebooks").mkdir()
    for path in FOR_COLAB.glob("*.ipynb"):
        (folder / "notebooks" / path.name).write_bytes(path.read_bytes())
