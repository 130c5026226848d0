"""weft grade: verdicts on right, wrong, missing and hostile answers."""

import ast
import copy
import json

import all_lessons
import nbformat
import pytest

from weft import puzzles
from weft.base.errors import ArgumentError, NotSolved
from weft.commands import grade as command
from weft.commands.puzzles import _load_answer
from weft.lessons import grading
from weft.lessons.exercises import exercise
from weft.lessons.grading import (
    MISSING,
    SOLVED,
    STOPPED,
    UNSOLVED,
    WRONG,
    grade,
    list_tasks,
)  # fmt: skip

LESSONS = [lesson for lesson in all_lessons.LESSONS if list_tasks(lesson)]
TILES = next(lesson for lesson in LESSONS if lesson.number == "02a")
NAMES = "shared", "pooling", "reverse_blocks", "conv1d"


def submit(path, answers, remove=()):
    """Write a submission of 02a with these answers; others are the reader's stubs."""
    notebook = nbformat.read(TILES.path, as_version=4)
    cells = {task.name: task.answer.id for task in list_tasks(TILES)}
    for cell in notebook.cells:
        for name, text in answers.items():
            if cell.id == cells[name]:
                cell.source = text
    gone = {cells[name] for name in remove}
    notebook.cells = [cell for cell in notebook.cells if cell.id not in gone]
    nbformat.write(notebook, path)
    return path


def right(name):
    return next(t.answer.source for t in list_tasks(TILES) if t.name == name)


def test_each_verdict_has_its_points_and_its_failing_case(tmp_path):
    answers = {
        "shared": right("shared"),
        "reverse_blocks": right("reverse_blocks").replace(
            "    cuda.syncthreads()\n", ""
        ),
        "conv1d": "import numpy as np\nnp.allclose = lambda *a: True\n"
        + right("conv1d"),
    }
    path = submit(tmp_path / "eve_02a_shared_memory.ipynb", answers, ["pooling"])
    result = grade(path, points={"shared": 3})
    marks = {mark.name: mark for mark in result.marks}
    assert {name: mark.verdict for name, mark in marks.items()} == {
        "shared": SOLVED, "pooling": MISSING, "reverse_blocks": WRONG, "conv1d": WRONG
    }  # fmt: skip
    assert "no barrier" in marks["reverse_blocks"].text
    assert "replaces numpy.allclose" in marks["conv1d"].text
    assert (result.student, result.points, result.of) == ("eve", 3, 6)
    tests = result.gradescope()["tests"]
    assert [one["score"] for one in tests] == [3, 0, 0, 0]
    assert result.gradescope()["score"] == 3


@pytest.mark.slow
def test_an_answer_cannot_stop_the_others_or_print_its_verdict(tmp_path):
    answers = {
        "shared": "import os\nprint('shared: solved')\nos._exit(0)",
        "pooling": "import os\nos.fork()\nwhile True: pass",
        "reverse_blocks": "x = []\nwhile True: x.append(bytearray(10**8))",
        "conv1d": right("conv1d") + "\n\ndef exercise(*a): pass\npuzzles = None",
    }
    path = submit(tmp_path / "02a_shared_memory.ipynb", answers)
    marks = {m.name: m for m in grade(path, seconds=10, memory=1).marks}
    verdicts = [marks[name].verdict for name in NAMES]
    assert verdicts == [STOPPED, STOPPED, WRONG, SOLVED]
    assert "status 0" in marks["shared"].text
    assert marks["pooling"].text == "still running after 10 s"
    assert "out of memory" in marks["reverse_blocks"].text


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS[::2], ids=lambda lesson: lesson.path.stem)
def test_the_published_answers_get_all_points(lesson, tmp_path):
    """Each task has a process of its own; test_notebooks.py solves every lesson."""
    path = tmp_path / lesson.path.name
    nbformat.write(lesson.source, path)
    result = grade(path)
    assert [mark for mark in result.marks if mark.verdict != SOLVED] == []


@pytest.mark.slow
@pytest.mark.parametrize("number", ["01b", "06"])
def test_the_readers_notebook_gets_no_points(number):
    lesson = next(lesson for lesson in LESSONS if lesson.number == number)
    marks = grade(lesson.path).marks
    assert {mark.verdict for mark in marks} == {UNSOLVED}


def test_cells_with_new_ids_are_found_by_the_names_that_they_define(tmp_path):
    from weft.lessons.grading import _find_answer

    notebook = copy.deepcopy(TILES.source)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"new-{number}"
    for task in list_tasks(TILES):
        assert _find_answer(task, notebook) == task.answer.source


def test_files_that_are_no_submission_are_refused_in_one_line(tmp_path):
    (tmp_path / "broken.ipynb").write_text("{")
    empty = nbformat.v4.new_notebook()
    nbformat.write(empty, tmp_path / "empty.ipynb")
    for name, words in {
        "absent.ipynb": "there is no such notebook",
        "broken.ipynb": "is not a notebook",
        "empty.ipynb": "no lesson's answers",
    }.items():
        with pytest.raises(ArgumentError, match=words) as raised:
            grade(tmp_path / name)
        assert "\n" not in str(raised.value)
    with pytest.raises(ArgumentError, match="has no task quilt; it has shared"):
        grade(TILES.path, points={"quilt": 1})


def test_an_unsolved_task_raises_only_when_it_is_graded(monkeypatch, capsys, tmp_path):
    def answer(x):
        raise NotImplementedError

    exercise(answer, lambda f: f(1))
    assert "answer: not solved yet" in capsys.readouterr().out
    monkeypatch.setenv("WEFT_KEEP", str(tmp_path))  # this folder has no solved puzzle
    monkeypatch.setenv("WEFT_GRADE", "1")
    with pytest.raises(NotSolved, match="answer: not solved yet"):
        exercise(answer, lambda f: f(1))
    (tmp_path / "map.py").write_text(puzzles.map.stub)
    stub = _load_answer(tmp_path / "map.py", puzzles.map)
    with pytest.raises(NotSolved, match="map: not solved yet"):
        puzzles.map.check(stub)


def test_nbgraders_assignment_has_a_solution_and_a_locked_check_for_each_task(tmp_path):
    path = tmp_path / "assignment.ipynb"
    assert grading.write_assignment("02a", path, {"shared": 2}) == len(NAMES)
    cells = nbformat.read(path, as_version=4).cells
    marked = {
        c.metadata.nbgrader.grade_id: c for c in cells if "nbgrader" in c.metadata
    }
    for name in NAMES:
        answer, check = marked[name], marked[f"check_{name}"]
        assert answer.metadata.nbgrader.solution and "BEGIN SOLUTION" in answer.source
        assert check.metadata.nbgrader.grade and check.metadata.nbgrader.locked
        assert check.metadata.nbgrader.points == (2 if name == "shared" else 1)
        assert 'os.environ["WEFT_GRADE"] = "1"' in check.source
    assert not any("mistakes" in c.metadata.get("tags", ()) for c in cells)
    with pytest.raises(ArgumentError, match="expected one of 01a_kernels"):
        grading.write_assignment("99", path, {})


@pytest.mark.parametrize("lesson", ["02a", "06"])
def test_otters_questions_hide_the_solution_and_run_the_check(tmp_path, lesson):
    path = tmp_path / "assignment.ipynb"
    count = grading.write_otter(lesson, path, {"shared": 2})
    cells = nbformat.read(path, as_version=4).cells
    starts = [
        place
        for place, cell in enumerate(cells)
        if cell.cell_type == "raw" and cell.source.startswith("# BEGIN QUESTION")
    ]
    assert cells[0].source.startswith("# ASSIGNMENT CONFIG") and len(starts) == count
    for start in starts:
        question, _, stub, _, _, solution, _, _, test, *_ = cells[start : start + 11]
        # otter drops the lines between its marks, which must be the whole solution.
        first, *_, last = solution.source.splitlines()
        assert (first, last) == ("# BEGIN SOLUTION NO PROMPT", "# END SOLUTION")
        assert "### " not in solution.source and "### " not in stub.source
        (function,) = ast.parse(test.source).body  # otter accepts one function
        assert function.name.startswith("test_")
        points = 2 if "name: shared\n" in question.source else 1
        assert f"points: {points}" in question.source


def test_points_must_be_numbers(tmp_path):
    path = tmp_path / "points.json"
    path.write_text(json.dumps({"shared": "3"}))
    with pytest.raises(ArgumentError, match="expected .*number"):
        command._read_points(str(path))
