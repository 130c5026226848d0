"""The course: its order, its links, and the lengths of its lessons."""

import re

import nbformat
import pytest
from all_lessons import LESSONS
from tiers import loop_over

from weft.base.paths import ROOT
from weft.base.store import Kept
from weft.lessons import course, maker, progress
from weft.lessons.exercises import exercise
from weft.lessons.widgets import predict
from weft.puzzles.notebooks import (
    CORE,
    DEEPER,
    PRACTICE,
    Lesson,
    cell_minutes,
    list_kinds,
)

CORE_MINUTES = 50  # maximum for a lesson's core: the length of a lecture
HUB = "03"  # the lesson that collects the puzzles, and teaches nothing itself
each_lesson = loop_over("lesson", LESSONS)
each_teaching = loop_over("lesson", [one for one in LESSONS if one.number != HUB])


def reader_of(lesson):
    return nbformat.read(lesson.path, as_version=4)


def markdown(text, *tags):
    cell = nbformat.v4.new_markdown_cell(text)
    cell.metadata["tags"] = list(tags)
    return cell


def code(text):
    return nbformat.v4.new_code_cell(text)


def notebook(*cells):
    return nbformat.v4.new_notebook(cells=list(cells))


# ---- the path ------------------------------------------------------------------------


def test_next_leads_from_the_first_lesson_through_every_other_to_the_last():
    files = {lesson.path.name: lesson for lesson in LESSONS}
    visited = [LESSONS[0].path.name]
    while True:
        last_text = reader_of(files[visited[-1]]).cells[-1].source
        links = re.findall(r"^\*\*Next:\*\* \[[^]]+\]\(([^)]+)\)", last_text)
        if not links:
            break
        visited += links
        assert len(visited) <= len(files), visited
    assert visited == sorted(files)


@each_lesson
def test_a_lesson_has_one_next_link_and_it_is_generated(lesson):
    cells = [c for c in reader_of(lesson).cells if "**Next:**" in c.source]
    assert [c.metadata["tags"] for c in cells] == [["course"]] * (lesson != LESSONS[-1])


@each_lesson
def test_text_names_only_lessons_that_exist(lesson):
    """`lesson 08b` is the form without a link."""
    numbers = {one.number for one in LESSONS}
    for cell in reader_of(lesson).cells:
        if cell.cell_type == "markdown":
            mentions = re.findall(r"\b[Ll]essons? (\d\d[a-z]?)\b", cell.source)
            parts = {number[:2] for number in numbers}
            unknown = [n for n in mentions if n not in numbers and n not in parts]
            assert not unknown, f"{unknown} in:\n{cell.source}"


# ---- minutes -------------------------------------------------------------------------


@each_lesson
def test_the_core_of_a_lesson_fits_a_lecture(lesson):
    minutes = lesson.minutes[CORE]
    assert minutes <= CORE_MINUTES, f"{minutes:.0f} minutes"


def test_minutes_count_words_lines_and_questions():
    words = markdown("word " * 150)
    assert cell_minutes(words) == pytest.approx(1)
    lines = code("import weft\n\n" + "x = 1\n" * 16)
    assert cell_minutes(lines) == pytest.approx(2)
    assert cell_minutes(code('predict("Why?", None)')) == pytest.approx(1.125)
    question = markdown(
        "**1.** Why?\n\n<details><summary>Answer</summary>\n\nSo.\n</details>"
    )
    assert cell_minutes(question) == pytest.approx(1 + 2 / 150)


def test_minutes_leave_out_folds_and_targets_of_links():
    fold = "<details><summary>Hint</summary>\n\na b <details>c</details> d\n</details>"
    cell = markdown(f"one [two](glossary.ipynb#two) three\n\n{fold}\n\nfour")
    assert cell_minutes(cell) == pytest.approx(4 / 150)


def test_a_line_of_an_answer_takes_a_minute():
    body = "    x = 1\n    return x\n"
    answer = code(f"def f():\n    ### BEGIN SOLUTION\n{body}    ### END SOLUTION")
    answer.metadata["tags"] = ["exercise"]
    assert cell_minutes(answer) == pytest.approx(2 + 2 + 2 / 8)


def test_a_tag_holds_until_a_heading_of_its_level():
    cells = notebook(
        markdown("# Title"),
        markdown("## Core"),
        markdown("### More", "deeper"),
        code("x = 1"),
        markdown("#### Still more"),
        markdown("### Core again"),
        markdown("## Exercises", "practice"),
        markdown("### 1. One"),
    )
    core, deeper, practice = CORE, DEEPER, PRACTICE
    kinds = [core, core, deeper, deeper, deeper, core, practice, practice]
    assert list_kinds(cells) == kinds


def test_each_of_two_deeper_sections_has_its_own_minutes():
    source = notebook(
        markdown("# T\n\n> Q?"),
        markdown("## A", "deeper"),
        markdown("### Part of A\n\n" + "a " * 150),
        markdown("## B", "deeper"),
        markdown("b " * 450),
    )
    completed = nbformat.from_dict(source)
    course.complete(completed, Lesson(LESSONS[0].path, source), LESSONS)
    texts = [cell.source for cell in completed.cells]
    assert texts[2] == "## A\n\n*Deeper, 1 minute.*" and "*Deeper" not in texts[3]
    assert texts[4] == "## B\n\n*Deeper, 3 minutes.*"


def test_completing_a_notebook_twice_is_completing_it_once():
    cells = [markdown("# T\n\n> Q?"), markdown("## A", "deeper"), markdown("b " * 450)]
    source = notebook(*cells)
    lesson = Lesson(LESSONS[0].path, source)
    first_result = nbformat.from_dict(source)
    course.complete(first_result, lesson, LESSONS)
    assert first_result.cells[2].source == "## A\n\n*Deeper, 3 minutes.*"
    assert first_result.cells[3].metadata["tags"] == ["deeper"]
    second_result = nbformat.from_dict(first_result)
    second_result.cells = course.strip(second_result.cells)
    course.complete(second_result, lesson, LESSONS)
    assert nbformat.writes(second_result) == nbformat.writes(first_result)


def test_a_source_has_the_tag_of_a_kind_where_its_section_begins():
    practice, deeper = ["practice"], ["deeper"]
    made = notebook(
        markdown("# T\n\n> Q?"),
        markdown("## A", *deeper),
        markdown("a"),
        markdown("### Part of A"),
        markdown("### Exercises", *practice),
    )
    course.complete(made, Lesson(LESSONS[0].path, made), LESSONS)
    tags = [cell.metadata.get("tags", []) for cell in made.cells[2:-1]]
    assert tags == [deeper, deeper, deeper, practice]
    stripped = course.strip(made.cells)
    tags = [cell.metadata.get("tags", []) for cell in stripped]
    assert tags == [[], deeper, [], [], practice]


# ---- the shape of a lesson -----------------------------------------------------


@each_teaching
def test_a_lesson_ends_with_its_take_away_and_three_questions(lesson):
    *_, have, questions, _ = reader_of(lesson).cells
    assert have.source.startswith("## What you have")
    assert have.source.count("**Take-away.** ") == 1
    assert questions.source.startswith("### Check yourself")
    numbers = re.findall(r"^\*\*(\d)\.\*\* .*\?", questions.source, re.M)
    assert numbers == ["1", "2", "3"], questions.source
    assert questions.source.count("<details><summary>Answer</summary>") == 3


@each_teaching
def test_a_lesson_asks_for_three_guesses_and_gives_none_away(lesson):
    source = "\n".join(c.source for c in lesson.source.cells if c.cell_type == "code")
    guesses = re.findall(r"predict\(\s*f?\"[^\"]+\",\s*([^,)]+)", source)
    assert len(guesses) >= 3, guesses
    assert not [guess for guess in guesses if guess[:1].isdigit()], guesses


@each_teaching
def test_a_cell_that_asks_prints_nothing_beside_the_answer_that_it_folds(lesson):
    """Without a guess, the answer is folded; a print next to it would reveal it."""
    for cell in lesson.source.cells:
        if cell.cell_type == "code" and "= predict(" in cell.source:
            top = re.sub(r"^def .*\n(?:[ \n].*\n?|\n)*", "", cell.source, flags=re.M)
            question = "predict(" in top and ".measured(" in top
            assert not (question and re.search(r"\bprint\(", top)), cell.source


@each_teaching
def test_puzzles_of_a_lesson_are_core_twice_or_three_times(lesson):
    cells = lesson.source.cells
    kinds = [
        kind
        for cell, kind in zip(cells, list_kinds(lesson.source))
        if re.fullmatch("puzzle-.+-answer", cell.id)
    ]
    assert not kinds or kinds.count(CORE) in (2, 3), kinds


def test_the_first_puzzle_comes_within_fifteen_minutes():
    (lesson,) = (one for one in LESSONS if one.number == "01a")
    minutes = 0.0
    for cell in lesson.source.cells:
        if cell.id == "puzzle-map-asked":
            break
        minutes += cell_minutes(cell)
    assert minutes <= 15


def test_readme_and_the_first_lesson_show_the_same_ways_in():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert course.ways_in(LESSONS, "notebooks/") in readme
    table = course.ways_in(LESSONS)
    assert any(table in cell.source for cell in reader_of(LESSONS[0]).cells)


def test_the_first_lesson_counts_the_numbers_to_change_and_draws_the_race():
    cells = reader_of(LESSONS[0]).cells
    (kernel,) = (c.source for c in cells if c.source.startswith("%%cuda"))
    (turn,) = (c.source for c in cells if c.source.startswith("**Your turn.**"))
    assert kernel.count("0.7f") == 3 and "each of the three `0.7f`" in turn
    assert any("race_nvidia_h100.json" in cell.source for cell in cells)


def test_no_two_exercises_share_a_name():
    """The lab records a solved exercise by the name of its function."""
    names = [
        "".join(name)
        for lesson in LESSONS
        for cell in progress._list_code(lesson)
        for name in progress.EXERCISE.findall(cell.source)
    ]
    assert len(names) > 30 and len(set(names)) == len(names), sorted(names)


def test_progress_counts_guesses_puzzles_and_exercises(monkeypatch):
    monkeypatch.setenv("WEFT_SMALL", "1")  # with this variable, the lab writes nothing
    monkeypatch.setattr(progress, "_solved", Kept("exercises of a test"))
    monkeypatch.setattr(predict, "_kept", Kept("guesses of a test"))

    def done():
        rows = progress.progress().rows
        return {row.lesson.number: row.done for row in rows}["01a"]

    assert done()["guess"] == (0, 3) and done()["exercise"] == (0, 1)
    exercise(lambda: None, lambda answer: None)  # no lesson has this exercise
    assert done()["exercise"] == (0, 1)
    progress.remember_exercise("pixel_of")
    question = "How many threads are there too many?"
    predict.predict(question, 180).measured(180)
    assert done()["guess"] == (1, 3) and done()["exercise"] == (1, 1)
    page = progress.progress()._repr_html_()
    assert "1 of 3 guesses" in page and "1 of 1 exercise" in page
    # Front ends drop inline SVG from notebooks that are not trusted.
    assert "<svg" not in page
    assert re.search(r'<img alt="a bar, \d+% full: 1 of 3 guesses, ', page)


def test_the_lessons_of_readme_are_those_of_the_folder():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[(\S+) ([^]]+)\]\(notebooks/(\S+)\) \| ([^|]+) \|", readme, re.M
    )
    assert rows == [
        (lesson.number, lesson.title, lesson.path.name, lesson.question)
        for lesson in LESSONS
    ]


# ---- slides --------------------------------------------------------------------------


def find_type(cell, kind=CORE):
    return course.find_slide_type(cell, kind)


def test_sections_of_the_core_are_slides_and_all_others_are_below_them():
    assert find_type(markdown("## Part")) == "slide"
    assert find_type(markdown("### Inside")) == "subslide"
    assert find_type(markdown("## Part"), DEEPER) == "subslide"
    assert find_type(markdown("Words.")) == find_type(code("x = 1")) == ""


def test_a_tag_decides_the_type_of_a_slide():
    types = [find_type(markdown("## Part", tag)) for tag in course.SLIDE_TYPES]
    assert types == ["skip", "notes", "slide", "fragment"]


@each_lesson
def test_a_slideshow_begins_with_the_title_and_omits_what_the_lab_adds(lesson):
    cells = reader_of(lesson).cells
    types = [c.metadata.get("slideshow", {}).get("slide_type", "") for c in cells]
    assert types[0] == "slide" and types[-1] == "skip"
    assert types.count("slide") + types.count("subslide") > 2
    for cell, kind in zip(cells, types):
        if "git clone" in cell.source:
            assert kind == "skip"


@each_lesson
def test_jupyterlab_folds_the_code_of_plumbing_and_no_other(lesson):
    folded = 0
    for cell in reader_of(lesson).cells:
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        assert hidden == (course.PLUMBING in cell.metadata.get("tags", []))
        # A reader changes the guesses of a cell, and solves its exercise.
        assert not (hidden and re.search(r"predict\(.*None|exercise\(", cell.source))
        folded += hidden
    assert folded


def test_an_edited_notebook_returns_to_its_source(tmp_path):
    lesson = LESSONS[3]
    source = maker.SOURCES / f"{lesson.path.stem}.md"
    edited = maker.find_edited(find_notebook(lesson))
    assert edited == source
    assert maker.write_source(find_notebook(lesson)) == source.read_text()


def find_notebook(lesson):
    solved = lesson.path.parent / "solutions" / lesson.path.name
    return solved if solved.exists() else lesson.path
