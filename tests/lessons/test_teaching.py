"""The teaching kit: the lessons confirm the statements of the notes and the syllabi."""

from __future__ import annotations

import os
import re

import all_lessons
import nbformat
import pytest
import teaching_notes as teaching
import warm_kernel
from kernel_sockets import make_sockets
from nbclient import NotebookClient
from tiers import loop_over

from weft.base.paths import ROOT
from weft.puzzles.catalogue import GROUP_OF
from weft.puzzles.notebooks import CORE, NOTEBOOKS

LESSONS = {lesson.path.stem: lesson for lesson in all_lessons.LESSONS}
NOTES = {note.path.stem: note for note in teaching.list_notes()}
PARTS = ["Show", "Ask", "Stumbling blocks", "Skip"]
LECTURE = 50  # minutes of a lecture
LONGEST = 60  # maximum number of lines of a note
SECONDS = 300  # time limit of a cell, on a busy machine
PAGES = sorted(teaching.FOLDER.rglob("*.md"))
SYLLABI = (teaching.FOLDER / "syllabi.md").read_text(encoding="utf-8")
each_note = loop_over("name", NOTES)
each_syllabus = pytest.mark.parametrize("title", ["hour", "Half", "days", "weeks"])


# ---- notes ---------------------------------------------------------------------------


def test_every_lesson_has_a_note_and_every_note_a_lesson():
    assert list(NOTES) == list(LESSONS)


@each_note
def test_a_note_has_its_parts_and_fits_two_pages(name):
    note, lesson = NOTES[name], LESSONS[name]
    assert re.findall(r"^## (.+)", note.text, re.M) == PARTS
    assert note.text.startswith(f"# {lesson.number} {lesson.title}\n")
    assert len(note.path.read_text().splitlines()) <= LONGEST


@each_note
def test_the_minutes_add_up_to_a_lecture(name):
    note, lesson = NOTES[name], LESSONS[name]
    assert sum(minutes for minutes, _ in note.rows) == note.total <= LECTURE
    assert note.total >= lesson.minutes[CORE] - 1, "less than the core takes"


@each_note
def test_each_core_section_is_in_the_table_with_enough_minutes(name):
    """A subsection belongs to the row of the section above it."""
    note, lesson = NOTES[name], LESSONS[name]
    needed = teaching.count_section_minutes(lesson)
    rows = {names[0]: minutes for minutes, names in note.rows if names}
    assert set(rows) <= set(needed), set(rows) - set(needed)
    spent, row = dict.fromkeys(rows, 0.0), None
    for heading, minutes in needed.items():
        row = heading if heading in rows else row
        if row:
            spent[row] += minutes
    for heading, minutes in rows.items():
        assert minutes >= spent[heading] - 1.5, f"{heading}: {spent[heading]:.1f}"


@each_note
def test_a_note_names_only_puzzles_exercises_and_sections_that_exist(name):
    note, lesson = NOTES[name], LESSONS[name]
    code = "\n".join(cell.source for cell in lesson.source.cells)
    for puzzle in teaching.list_named("puzzle", note.text):
        assert puzzle in GROUP_OF, puzzle
        assert f"puzzles.{puzzle}." in code or name == "03_puzzles", puzzle
    for exercise in teaching.list_named("exercise", note.text):
        assert has_exercise(exercise, code), exercise
    headings = set(teaching.list_headings(lesson))
    for named in teaching.NAMED.findall(note.read_part("Skip")):
        assert named in headings, named


def has_exercise(name, code):
    """Return whether a cell checks the exercise: exercise(NAME, ...), or a C file."""
    return re.search(rf'\bexercise\((from_c\("{name}\.c"|{name},)', code)


@each_note
def test_the_predictions_of_a_note_are_those_of_the_lesson(name):
    asked = NOTES[name].read_part("Ask")
    assert len(re.findall(r"^\d\. ", asked, re.M)) in range(3, 7)
    code = "\n".join(cell.source for cell in LESSONS[name].source.cells)
    for question in re.findall(
        r"(?:^\d\. |\. )\*([^\n]+?)\* \(prediction\)", asked, re.M
    ):
        words = r"[^\"]+".join(map(re.escape, re.split(r"\{\w+\}", question)))
        assert re.search(rf"predict\(\s*f?\"{words}\"", code), question


@each_note
def test_the_changed_texts_are_in_the_named_sections(name):
    code = teaching.list_code(LESSONS[name])
    for change in NOTES[name].changes:
        assert change.replacements, change.section
        assert -1 not in teaching.find_cells(change, code), change


@each_note
def test_a_note_has_two_changes_or_more_and_each_is_understood(name):
    note = NOTES[name]
    assert len(note.changes) >= 2
    for change in note.changes:
        assert change.replacements and change.count < 6, change


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTES)
def test_a_change_on_stage_has_the_promised_effect(name, monkeypatch):
    """Run the lesson; make each change where a lecturer would, and undo it."""
    warm_kernel.start_warm_kernels(monkeypatch)
    notebook, promised = rehearse(name)
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    paths = [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    ours = {"PYTHONPATH": os.pathsep.join(paths), "GIT_ALLOW_PROTOCOL": "file"}
    ours |= {"OMP_WAIT_POLICY": "passive", "WEFT_SMALL": "1"}
    with make_sockets() as config:
        client = NotebookClient(
            notebook, timeout=SECONDS, resources=resources, config=config
        )
        client.execute(env=os.environ | ours)
    for change, cells in promised:
        text = "\n".join(map(read_outputs, cells))
        errors = [o for cell in cells for o in cell.outputs if o.output_type == "error"]
        for words in change.seen:
            assert words in text, f"{change}\n{text[:3000]}"
        for words in change.gone:
            assert words in read_originals(notebook, cells), f"{change}: never there"
            assert words not in text, f"{change}\n{text[:3000]}"
        assert change.seen or not errors, f"{change}\n{text[:3000]}"


def read_originals(notebook, changed):
    """Return the outputs of the cells before the change, which end just before it."""
    at = next(i for i, cell in enumerate(notebook.cells) if cell is changed[0])
    return "\n".join(map(read_outputs, notebook.cells[at - len(changed) : at]))


def rehearse(name):
    """Return the notebook with the changed cells, and the cells of each change."""
    changes = NOTES[name].changes
    sections = {change.section for change in changes}
    code = [
        cell
        for cell in teaching.list_code(LESSONS[name])
        if cell[1] == CORE or cell[0] in sections
    ]
    at_end: dict[int, list] = {}
    for change in changes:
        places = teaching.find_cells(change, code)
        end = max(max(places), min(places) + change.count - 1)
        at_end.setdefault(end, []).append((change, places))
    cells, promised = [], []
    for at in range(max(at_end) + 1):
        cells.append(nbformat.v4.new_code_cell(code[at][2]))
        for change, places in at_end.get(at, []):
            first = min(places)
            texts = [text for _, _, text in code[first : at + 1]]
            for place, (old, new) in zip(places, change.replacements):
                texts[place - first] = texts[place - first].replace(old, new)
            changed = [make_cell_that_may_fail(text) for text in texts]
            promised.append((change, changed))
            undone = [make_cell_that_may_fail(one[2]) for one in code[first : at + 1]]
            cells += changed + undone
    return nbformat.v4.new_notebook(cells=cells), promised


def make_cell_that_may_fail(text):
    cell = nbformat.v4.new_code_cell(text)
    cell.metadata["tags"] = ["raises-exception"]
    return cell


def read_outputs(cell):
    """Return all text of a cell's outputs, without colours."""
    parts = []
    for output in cell.outputs:
        if output.output_type == "error":
            parts.append(f"{output.ename}: {output.evalue}")
        parts.append(output.get("text", ""))
        parts.append(str(output.get("data", {}).get("text/plain", "")))
    return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(parts))


# ---- syllabi and pages ---------------------------------------------------------------


def read_syllabus(title):
    found = re.search(rf"^## ([^\n]*{title}.*?)(?=^## |\Z)", SYLLABI, re.M | re.S)
    return found[1]


def list_rows(title):
    """Return (start, minutes, text) of each row with minutes in a syllabus."""
    rows = re.findall(r"^\| ([^|\n]+) \| (\d+) \| (.+) \|$", read_syllabus(title), re.M)
    return [(start, int(minutes), text) for start, minutes, text in rows]


@each_syllabus
def test_a_syllabus_has_its_parts(title):
    text = read_syllabus(title)
    for part in ("**Goals.**", "**Prerequisites.**", "**Room and hardware.**"):
        assert part in text, part
    assert list_rows(title)


@pytest.mark.parametrize("title", ["hour", "Half", "days"])
def test_the_times_of_a_syllabus_follow_one_another(title):
    """A start that is earlier than the last one begins a new day."""
    clock, days, total = None, 0, 0
    for start, minutes, _ in list_rows(title):
        hours, rest = map(int, start.split(":"))
        begin = 60 * hours + rest
        if clock is None or begin < clock:
            days += 1
        else:
            assert begin == clock, start
        clock, total = begin + minutes, total + minutes
    said = [
        int(n)
        for n in re.findall(r"^\| \| \*\*(\d+)\*\* \|", read_syllabus(title), re.M)
    ]
    assert sum(said) == total and len(said) == days


def test_the_weeks_add_up():
    rows = list_rows("weeks")
    weeks = [start for start, *_ in rows]
    assert list(dict.fromkeys(weeks)) == [str(week) for week in range(1, 13)]
    said = re.search(r"\*\*(\d+)\*\* minutes of lectures", read_syllabus("weeks"))
    assert int(said[1]) == sum(minutes for _, minutes, _ in rows)
    points = re.findall(
        r"^\| [^|]+ \| [^|]+ \| (\d+) \|$", read_syllabus("weeks"), re.M
    )
    total = re.search(r"\*\*(\d+)\*\* points", read_syllabus("weeks"))
    assert points and sum(map(int, points)) == int(total[1]) == 100


@each_syllabus
def test_a_row_has_the_minutes_that_its_lessons_or_sections_need(title):
    """Italic names after a link to a lesson are sections: then only these count."""
    for _, minutes, text in list_rows(title):
        needed = 0.0
        for name, rest in re.findall(r"notebooks/(\w+)\.ipynb\)([^\[]*)", text):
            sections = teaching.NAMED.findall(rest)
            each = teaching.count_section_minutes(LESSONS[name])
            assert set(sections) <= set(each), (name, sections)
            whole = LESSONS[name].minutes[CORE]
            needed += sum(each[one] for one in sections) if sections else whole
        assert minutes >= needed - 1, f"{text}: {needed:.0f} minutes"


def test_the_twelve_weeks_contain_every_lesson_and_real_work():
    text = read_syllabus("weeks")
    assert set(LESSONS) <= set(re.findall(r"notebooks/(\w+)\.ipynb", text))
    code = "\n".join(
        cell.source for lesson in LESSONS.values() for cell in lesson.source.cells
    )
    puzzles = teaching.list_named("puzzle", text)
    exercises = teaching.list_named("exercise", text)
    assert len(puzzles) > 10 and set(puzzles) <= set(GROUP_OF)
    assert len(exercises) > 10
    assert all(has_exercise(name, code) for name in exercises), exercises


@loop_over("page", PAGES)
def test_links_lead_to_files(page):
    text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    files = [link for link in links if not link.startswith("http")]
    assert links and not [link for link in files if not (page.parent / link).exists()]
