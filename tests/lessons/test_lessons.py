"""Readers' notebooks are made from those with the answers."""

import nbformat
import pytest

from weft import cuda, puzzles
from weft.lessons import maker as lessons
from weft.puzzles.catalogue import GROUPS
from weft.puzzles.notebooks import NOTEBOOKS, SOLUTIONS, make_cells

PYTHON = """\
def double(x):
    \"\"\"2 x. One line.\"\"\"
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION"""
CUDA = """\
%%cuda
__global__ void twice(float *y) {
    // BEGIN SOLUTION
    y[threadIdx.x] *= 2;
    // END SOLUTION
}"""
C_FILE = CUDA.replace("%%cuda", "%%writefile twice.c")


def code(text, *tags):
    cell = nbformat.v4.new_code_cell(text)
    cell.metadata["tags"] = list(tags)
    return cell


def source(answer=PYTHON, folded=f"<details>\n\n{lessons.ANSWER}\nWhy.\n</details>"):
    cells = [
        code("x = 1"),
        code(answer, "exercise"),
        code("exercise(double, check)"),
        code("mistakes = [('2 * x', '3 * x'), 'def double(x): return x']", "mistakes"),
        code("spellings = [('2 * x', 'x + x')]", "spellings"),
        nbformat.v4.new_markdown_cell(folded),
    ]
    return nbformat.v4.new_notebook(cells=cells)


def test_a_stub_keeps_all_but_the_answer():
    assert lessons.make_stub(PYTHON).endswith(
        'One line."""\n    raise NotImplementedError'
    )
    assert lessons.make_stub(CUDA).endswith("(float *y) {\n    // not solved yet\n}")
    assert lessons.make_stub(C_FILE).endswith("(float *y) {\n#error not solved yet\n}")


def test_a_stub_in_python_is_not_implemented():
    scope = {}
    exec(lessons.make_stub(PYTHON), scope)
    with pytest.raises(NotImplementedError):
        scope["double"](1)


def test_several_lines_and_several_places_are_hidden():
    doubled = PYTHON + "\n\n" + PYTHON.replace("double", "again")
    assert lessons.make_stub(doubled).count("raise NotImplementedError") == 2
    assert "return" not in lessons.make_stub(doubled)
    assert "SOLUTION" not in lessons.remove_marks(doubled)


def test_the_folded_answer_is_the_solution():
    result = lessons.learner(source())
    assert 'def double(x):\n    """2 x. One line."""\n    return 2 * x\n```\nWhy.' in (
        result.cells[-1].source
    )
    assert lessons.folded(CUDA).startswith("```c\n__global__")


def test_the_reader_gets_no_answers_to_try_and_no_outputs_and_the_source_stays():
    notebook = source()
    notebook.cells[0].outputs = [nbformat.v4.new_output("stream", text="1")]
    notebook.cells[0].execution_count = 7
    original = nbformat.writes(notebook)
    result = lessons.learner(notebook)
    own_cells = [*notebook.cells[:3], notebook.cells[-1]]
    assert [cell.id for cell in result.cells] == [cell.id for cell in own_cells]
    assert result.cells[0].outputs == [] and result.cells[0].execution_count is None
    assert nbformat.writes(notebook) == original
    assert lessons.text_of(result) == lessons.text_of(lessons.learner(notebook))


def test_mistakes_and_spellings_replace_a_part_or_all():
    ((answer, check, mistakes, spellings),) = lessons.exercises(source())
    assert check.source == "exercise(double, check)"
    part, entire = lessons.variants(answer.source, mistakes.source)
    assert "return 3 * x" in part and '"""2 x' in part
    assert entire == "def double(x): return x"
    (spelling,) = lessons.variants(answer.source, spellings.source)
    assert "return x + x" in spelling
    assert lessons.variants(CUDA, "m = ['void f();']") == ["%%cuda\nvoid f();"]


def test_a_mistake_that_no_longer_fits_is_refused():
    # The number 2 in the docstring does not count.
    ok = lessons.variants(PYTHON, "m = [('2', '3')]")
    assert '"""2 x' in ok[0] and "3 * x" in ok[0]
    with pytest.raises(lessons.LessonError, match="expected '3 - x' once"):
        lessons.variants(PYTHON, "m = [('3 - x', 'x')]")


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        (source("def double(x):\n    return 2 * x"), "no BEGIN and END SOLUTION"),
        (source(folded="text without the mark"), "no <!-- answer -->"),
    ],
)
def test_an_exercise_without_one_of_its_parts_is_refused(notebook, words):
    with pytest.raises(lessons.LessonError, match=words):
        lessons.learner(notebook)


def test_an_answer_without_its_tag_is_refused():
    notebook = source()
    notebook.cells[1].metadata["tags"] = []
    with pytest.raises(lessons.LessonError, match="not tagged"):
        lessons.learner(notebook)
    notebook = source()
    del notebook.cells[1]
    with pytest.raises(lessons.LessonError, match="without an exercise"):
        lessons.learner(notebook)


def test_an_exercise_without_check_mistakes_or_spellings_is_refused():
    for cell, says in ((2, "no check"), (3, "no mistakes"), (4, "no spellings")):
        notebook = source()
        del notebook.cells[cell]
        with pytest.raises(lessons.LessonError, match=says):
            list(lessons.exercises(notebook))


# ---- sources -------------------------------------------------------------------


def listed(notebook):
    return [(c.cell_type, c.source, c.metadata.get("tags")) for c in notebook.cells]


def test_a_notebook_that_jupyter_has_saved_becomes_a_source(tmp_path):
    text = nbformat.v4.new_markdown_cell
    book = source()
    book.cells[:0] = [text("# Title\n\n> Why?"), text("One."), text("Two.")]
    expected = [(kind, code, tags or None) for kind, code, tags in listed(book)]
    book.cells[3].outputs = [nbformat.v4.new_output("stream", text="1")]
    book.cells[3].metadata["collapsed"] = True
    book.cells += [code(""), code("generated", "puzzle"), code("generated", "course")]
    nbformat.write(book, tmp_path / "10_x.ipynb")
    (tmp_path / "10_x.md").write_text(lessons.write_source(tmp_path / "10_x.ipynb"))
    assert listed(lessons.read_source(tmp_path / "10_x.md")) == expected


def test_a_readers_notebook_is_no_way_back():
    solved = SOLUTIONS / "01a_kernels_in_python.ipynb"
    path = lessons.find_edited(solved)
    assert path == lessons.SOURCES / "01a_kernels_in_python.md"
    with pytest.raises(lessons.LessonError, match="edit notebooks/solutions/01a_"):
        lessons.find_edited(NOTEBOOKS / solved.name)
    with pytest.raises(lessons.LessonError, match="not a lesson's notebook"):
        lessons.find_edited(lessons.SOURCES / "x.ipynb")


def test_an_id_is_the_heading_above_and_the_cells_number_below_it():
    text = nbformat.v4.new_markdown_cell
    cells = [
        code("0"),
        text("# `x`, y?\n\nText."),
        code("1"),
        text("2"),
        text("## x-y"),
    ]
    lessons.name_cells(cells)
    assert [cell.id for cell in cells] == ["cell", "x-y", "x-y-2", "x-y-3", "x-y-4"]
    nbformat.validate(nbformat.v4.new_notebook(cells=cells))


# ---- puzzles -------------------------------------------------------------------

MARKER = "<!-- puzzles: threads -->"


def with_puzzles(marker=MARKER):
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell(marker), code("after = 1")]
    )


def test_puzzles_by_name_become_cells_in_that_order():
    result = lessons.clean(with_puzzles("<!-- puzzles: zip map -->"))
    ids = [c.id for c in result.cells if c.id.endswith("-answer")]
    assert ids == ["puzzle-zip-answer", "puzzle-map-answer"]


def test_a_group_of_puzzles_becomes_cells_below_its_line():
    result = lessons.clean(with_puzzles())
    assert result.cells[0].source == MARKER and result.cells[-1].source == "after = 1"
    kinds = [c.id.rpartition("-")[2] for c in result.cells[1:6]]
    assert kinds == ["asked", "goal", "answer", "check", "help"]
    assert len(result.cells) == 2 + 5 * len(GROUPS["threads"])
    assert all(lessons.is_tagged(c, "puzzle") for c in result.cells[1:-1])
    assert len({c.id for c in result.cells}) == len(result.cells)
    nbformat.validate(result)
    assert lessons.has_exercises(result)


def test_cells_of_puzzles_are_made_anew_each_time():
    result = lessons.clean(with_puzzles())
    text = lessons.text_of(result)
    result.cells[3].source = "edited by hand"
    del result.cells[4:9]
    assert lessons.text_of(lessons.clean(result)) == text


def test_the_source_has_the_answers_of_puzzles_and_the_reader_the_stubs():
    source = lessons.clean(with_puzzles())
    for notebook, has_answers in ((source, True), (lessons.learner(source), False)):
        (answer,) = (c for c in notebook.cells if c.id == "puzzle-guards-answer")
        assert ("NotImplementedError" in answer.source) != has_answers
        assert "SOLUTION" not in answer.source
        scope = {"cuda": cuda}
        exec(answer.source, scope)
        assert scope["halve_guarded"].__doc__


def test_the_answer_of_a_puzzle_is_folded_below_its_hints():
    (cell,) = (
        c for c in make_cells(["threads"], False) if c.id == "puzzle-guards-help"
    )
    text, puzzle = cell.source, puzzles.guards
    assert text.count("<details>") == text.count("</details>")
    at = [text.index(hint) for hint in puzzle.hints]
    assert at == sorted(at) and at[-1] < text.index("In CUDA C</summary>")
    for hint in puzzle.hints[1:]:  # each hint is inside the previous one
        text_above = text[: text.index(hint)]
        assert text_above.count("<details>") - text_above.count("</details>") > 1
    assert "// not solved yet" in text and puzzle.cuda_c_answer in text


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("<!-- puzzles: thread -->", "no puzzles 'thread'; there are map, zip"),
        (f"Here:\n{MARKER}", "not alone"),
    ],
)
def test_a_line_that_stands_for_no_group_is_refused(marker, words):
    with pytest.raises(lessons.LessonError, match=words):
        lessons.clean(with_puzzles(marker))
