"""Every lesson runs from top to bottom, is well formed, and has solvable exercises.

The tests' names list the requirements of a notebook. lib/weft/lessons/maker.py explains
how to write one.
"""

from __future__ import annotations

import ast
import builtins
import functools
import html
import inspect
import itertools
import os
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import teaching_notes as teaching
import warm_kernel
from kernel_sockets import make_sockets
from nbclient import NotebookClient
from tiers import loop_over

import utils
from weft import puzzles
from weft.base import paths
from weft.base.paths import ROOT
from weft.cells.gpu import nvrtc
from weft.lessons import course as glossary_module
from weft.lessons import first_cell as hosted
from weft.lessons import maker as lessons
from weft.lessons.course import place_of
from weft.lessons.grading import list_names, write_plain_python
from weft.puzzles.catalogue import GROUPS, LESSONS
from weft.puzzles.notebooks import CORE, NOTEBOOKS, SOLUTIONS, find_source, list_kinds
from weft.pykernel import bodies

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
GITHUB = paths.GITHUB.removeprefix("https://github.com/")
NOTES = {note.path.stem: note for note in teaching.list_notes()}
STARRED = set(utils.__all__)  # the names from `from utils import *`
LONGEST = 25  # maximum number of lines of a code cell
SECONDS = 300  # time limit of a cell, on a busy machine that also builds libraries

notebooks = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
each_notebook = loop_over("path", PATHS)


def test_notebooks_are_as_make_notebooks_leaves_them():
    for path, text in lessons.files():
        is_current = path.exists() and path.read_text(encoding="utf-8") == text
        assert is_current, f"{path.relative_to(ROOT)} is not up to date: make notebooks"


def test_a_saved_notebook_leads_back_to_its_source():
    """The result is the unchanged source, without the additions of `make notebooks`."""
    sources = {path.stem: path for path in lessons.SOURCES.glob("*.md")}
    assert list(map(lessons.find_edited, map(find_source, PATHS))) == sorted(
        sources.values()
    )
    for path in PATHS:
        source = sources[path.stem].read_text(encoding="utf-8")
        back = lessons.write_source(find_source(path))
        assert back == source, f"sources/{path.stem}.md is not as jupytext writes it"


def test_exercises_are_written_with_their_answers():
    for path in PATHS:
        if find_source(path) == path:
            assert not lessons.has_exercises(read(path)), f"no solutions/{path.name}"
    for path in SOLUTIONS.glob("*.ipynb"):
        assert lessons.has_exercises(read(path)), f"{path}: no exercise"
    assert {path.suffix for path in SOLUTIONS.iterdir()} <= {".ipynb", ""}


@pytest.mark.slow
@notebooks
def test_runs_from_a_fresh_kernel_and_exercises_can_be_solved(path, monkeypatch):
    """Run the source with its answers, each after its stub and after other answers.

    There is one run, since a kernel takes seconds to start. It covers the reader's run,
    too: there the stub remains, but no other cell uses its definitions (see below). The
    first lesson has a new process. The others are forks of a process that has only
    imported the lab.
    """
    if path != PATHS[0]:
        warm_kernel.start_warm_kernels(monkeypatch)
    notebook = read(find_source(path))
    run_with_attempts(notebook)
    check_note(path.stem, notebook)


@pytest.mark.parametrize(
    "path",
    [path for path in PATHS if path.stem != "glossary"],  # the slow tier runs it
    ids=lambda path: path.stem,
)
def test_the_first_sections_run_and_their_exercises_can_be_solved(path, monkeypatch):
    """The kernel is a fork of a process that has imported the lab."""
    warm_kernel.start_warm_kernels(monkeypatch)
    notebook = read(find_source(path))
    notebook.cells = first_sections(notebook)
    run_with_attempts(notebook, variants=0)


def run_with_attempts(
    notebook: nbformat.NotebookNode, variants: int | None = None
) -> None:
    """Run a lesson with answers to its exercises, and check each verdict.

    variants: the number of wrong answers per exercise, and of right answers other than
    the published one; None: all of them, which takes the slow tier's time
    """
    if not any(code_cells(notebook)):
        pytest.skip("text alone")
    stubs = puzzles_with_stubs(notebook)
    attempts = []
    for answer, check, *extra in list(lessons.exercises(notebook)):
        stub = new_cells(lessons.make_stub(answer.source), check)
        wrong, right = (
            [
                new_cells(other, check, "raises-exception")
                for other in lessons.variants(answer.source, cell.source)[:variants]
            ]
            for cell in extra
        )
        at = notebook.cells.index(answer)
        notebook.cells[at:at] = itertools.chain(stub, *wrong, *right)
        attempts.append((stub[1], wrong, [*right, (answer, check)]))
    run(notebook)
    for name, cell in stubs:
        assert f"{name}: not solved yet" in printed(cell), cell.source
    for of_stub, wrong, right in attempts:
        assert "not solved yet" in printed(of_stub), of_stub.source
        for answer, cell in wrong:
            message = f"this mistake has passed, or was not run:\n{answer.source}"
            assert raised(cell) and raised(cell) != ["NotImplementedError"], message
        for answer, cell in right:
            message = f"this right answer was refused:\n{answer.source}\n{cell.outputs}"
            assert ": solved" in printed(cell), message


def check_note(name: str, notebook: nbformat.NotebookNode) -> None:
    """Compare the answers in the instructor's note with those of the run."""
    values = list_answers(notebook)
    for question, number in NOTES[name].answers.items() if name in NOTES else ():
        answers = [value for asked, value in values if asked == question]
        digits = len(number.partition(".")[2])
        # A large answer is printed with three digits.
        bound = max(0.51 * 10**-digits, 5e-3 * float(number) * (len(number) > 7))
        close = [abs(value - float(number)) <= bound for value in answers]
        assert any(close), f"{question} note: {number}, lesson: {answers}"


def list_answers(notebook: nbformat.NotebookNode) -> list[tuple[str, float]]:
    """Return the questions of predictions, and the answers that the run measured."""
    pages = [
        output.data["text/html"]
        for cell in code_cells(notebook)
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]
    answers = []
    for page in pages:
        questions = re.findall(r"<b>(.+?)</b>", page)
        # Several questions on one axis are repeated in front of their answers.
        for asked, value in re.findall(r"<span>([^<]*?) ?It is ([\d.,e+-]*\d)", page):
            question = html.unescape(asked or questions[0])
            answers.append((question, float(value.replace(",", ""))))
    return answers


@each_notebook
def test_listed_functions_exist(path):
    for cell in code_cells(read(find_source(path))):
        for file, name in re.findall(r'listing\("([^"]+)", "(\w+)"', cell.source):
            assert utils.source(file, name), cell.source


@each_notebook
def test_every_exercise_is_tried_with_three_wrong_and_two_right_answers(path):
    """The count of right answers excludes the exercise's own."""
    for answer, check, *extra in lessons.exercises(read(find_source(path))):
        wrong, right = (lessons.variants(answer.source, cell.source) for cell in extra)
        counts = len(set(wrong)), len(set(right))
        assert counts[0] >= 3 and counts[1] >= 2, f"{counts}:\n{check.source}"


@each_notebook
def test_no_cell_needs_a_solved_exercise(path):
    notebook = read(find_source(path))
    for answer, check, *_ in lessons.exercises(notebook):
        defined = list_names(answer)[0]
        for cell in code_cells(notebook):
            names_used = defined & list_names(cell)[1]
            if cell is not answer and cell is not check:
                assert not names_used, f"{sorted(names_used)} in:\n{cell.source}"


@each_notebook
def test_no_cell_needs_a_solved_puzzle(path):
    kernels = {puzzles[name].kernel_name for name in puzzles_in(path)}
    for cell in code_cells(read(path)):
        if not is_puzzle(cell):
            clashes = kernels & list_names(cell)[1]
            assert not clashes, f"{sorted(clashes)} in:\n{cell.source}"


def test_each_puzzle_is_in_the_lesson_of_its_group_and_nowhere_else():
    locations = {path.name: puzzles_in(path) for path in PATHS if puzzles_in(path)}
    assert list(locations) == list(LESSONS.values())
    for group, lesson in LESSONS.items():
        assert sorted(locations[lesson]) == sorted(GROUPS[group]), lesson


@notebooks
def test_cuda_cells_compile_for_a_gpu(path):
    """This works without a GPU, since NVRTC needs none."""
    found = code_cells(read(find_source(path)))
    cells = [c.source for c in found if c.source.startswith("%%cuda")]
    if not cells:
        pytest.skip("no %%cuda cells")
    if nvrtc.explain_missing():
        pytest.skip(nvrtc.explain_missing())
    headers = {}
    for cell in cells:
        magic, _, text = cell.partition("\n")
        if magic.startswith("%%cuda_header"):
            headers[magic.split()[1]] = text
        else:
            cubin = nvrtc.compile(text, "cell", headers=headers)
            assert cubin.log == "", f"{cubin.log}\n{text}"


@each_notebook
def test_first_code_cell_is_the_same_everywhere(path):
    for cell in itertools.islice(code_cells(read(path)), 1):
        assert cell.source == hosted.FIRST


@each_notebook
def test_opens_with_title_question_and_badge(path):
    top = read(path).cells[0]
    assert top.cell_type == "markdown"
    assert re.match(r"# \S.*\n\n> \S.*\?\n", top.source)
    assert f"({paths.COLAB}/{path.name})" in top.source


@each_notebook
def test_cells_are_short(path):
    for cell in code_cells(read(path)):
        assert len(cell.source.splitlines()) <= LONGEST, cell.source


@each_notebook
def test_functions_are_defined_once(path):
    defined: set[str] = set()
    for cell in code_cells(read(path)):
        for node in parse(cell).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert node.name not in defined, node.name
                defined.add(node.name)


@each_notebook
def test_kernels_that_the_library_has_too_are_the_same_word_for_word(path):
    """Other lessons import a lesson's kernels from weft.pykernel.bodies."""
    for cell in code_cells(read(path)):
        for node in parse(cell).body:
            original = getattr(bodies, getattr(node, "name", ""), None)
            kernel = isinstance(node, ast.FunctionDef) and "cuda." in ast.unparse(node)
            if kernel and inspect.isfunction(original):
                assert inspect.getsource(original).strip() in cell.source, node.name


@each_notebook
def test_no_cell_takes_a_name_of_utils(path):
    for cell in code_cells(read(path)):
        # weft and bench are the same objects in weft.
        clashes = list_names(cell)[0] & STARRED - {"weft", "bench"}
        assert not clashes, f"{sorted(clashes)} in:\n{cell.source}"


@each_notebook
def test_sections_stand_alone(path):
    """A reader who has run the cells above the first ## can start at any ##."""
    notebook = read(path)
    head, *sections = in_sections(notebook)
    for section in sections:
        require_names([notebook.cells[index] for index in head + section])


@each_notebook
def test_the_core_needs_no_cell_of_a_section_that_may_be_skipped(path):
    """The core runs without the deeper sections, the exercises and the puzzles."""
    notebook = read(path)
    kinds = list_kinds(notebook)
    head, *sections = in_sections(notebook)
    for section in sections:
        core = [index for index in head + section if kinds[index] == CORE]
        require_names([notebook.cells[index] for index in core])


@each_notebook
def test_links_lead_somewhere(path):
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"`[^`]*`", "", cell.source)  # kernel[grid](x) is not a link
            for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
                assert (NOTEBOOKS / link).exists(), link


@each_notebook
def test_in_colab_each_link_is_absolute_and_leads_somewhere(path):
    """Colab shows a notebook without the files next to it."""
    places = {place.lower() for place in glossary()}
    near, far = (
        re.findall(r"\]\(([^)\s]+)", re.sub(r"`[^`]*`", "", prose_of(one)))
        for one in (path, lessons.FOR_COLAB / path.name)
    )
    assert len(near) == len(far) > 0
    for link in far:
        page, _, place = link.partition("#")
        if page == f"{paths.SITE}/glossary.html":
            assert place in places | {""}, link
        elif page.startswith(paths.COLAB):
            assert (NOTEBOOKS / page.removeprefix(f"{paths.COLAB}/")).exists(), link
        elif page.startswith(f"{paths.GITHUB}/blob/main/"):
            assert (ROOT / page.split("/main/")[1]).exists(), link
        else:
            assert page.startswith("https://"), link


def test_colab_starts_a_gpu_and_has_no_other_cells():
    for path in PATHS:
        near, far = read(path), read(lessons.FOR_COLAB / path.name)
        assert far.metadata.accelerator == "GPU"
        assert [cell.id for cell in near.cells] == [cell.id for cell in far.cells]
        code = [[cell.source for cell in code_cells(one)] for one in (near, far)]
        assert code[0] == code[1]


def test_glossary_and_lessons_lead_to_each_other():
    """A lesson's links are entries, and an entry names the lessons that link to it."""
    entries = glossary()
    terms = [place_of(text.split("\n")[0][4:]) for text in entries.values()]
    assert terms == sorted(entries), "in alphabetical order, each once"
    linked = {path.name: words_of(path) for path in PATHS}
    for lesson, words in linked.items():
        unknown = words - set(entries)
        assert not unknown, f"{lesson}: not in the glossary: {unknown}"
    for term, text in entries.items():
        assert len(text.split("\n")) == 3, f"{term}: more than a paragraph"
        references = re.findall(r"\[(\d\d[a-z]?)\]\((\w+\.ipynb)\)", text)
        assert all(file.startswith(f"{number}_") for number, file in references), text
        files = [file for _, file in references]
        lessons_of = sorted(name for name, words in linked.items() if term in words)
        assert lessons_of, f"{term}: no lesson links to it"
        assert files == lessons_of, f"{term}: names {files}, linked by {lessons_of}"


@each_notebook
def test_links_to_the_glossary_show_the_definition_and_lead_to_its_cell(path):
    """JupyterLab finds #cell-id= in a notebook that it has just opened."""
    defined = glossary_module.entries(read(NOTEBOOKS / "glossary.ipynb"))
    ids = {cell.id for cell in read(NOTEBOOKS / "glossary.ipynb").cells}
    assert set(defined) <= ids
    for link in re.findall(r"\]\(glossary\.ipynb.*", prose_of(path)):
        anchor = re.match(
            r'\]\(glossary\.ipynb#cell-id=([\w-]+) "(.+?)(?<!\\)"\)', link
        )
        assert anchor and anchor[1] in defined, link
        title = anchor[2].replace('\\"', '"')
        assert title == glossary_module.definition(defined[anchor[1]]), link


def test_a_link_is_defined_once_and_anew_when_its_entry_changes():
    def entry(text):
        cell = nbformat.v4.new_markdown_cell(f"### the stub\n\n{text}")
        return nbformat.v4.new_notebook(cells=[cell])

    def link(text):
        entries = glossary_module.entries(entry(text))
        glossary_module.define_links([lesson], entries)
        return lesson.source

    source = (
        "A [stub](glossary.ipynb#the-stub), `x[0](1)`, a [gap](glossary.ipynb#gap)."
    )
    lesson = nbformat.v4.new_markdown_cell(source)
    title = '"It says \\"not yet\\" of x."'
    result = source.replace("#the-stub", f"#cell-id=the-stub {title}")
    for _ in range(2):
        assert link('It says "not yet" of `x`. Then more. [01a](01a_x.ipynb)') == result
    assert link("A *hole*, e.g. a body.") == result.replace(
        title, '"A hole, e.g. a body."'
    )
    assert glossary_module.places_in([lesson]) == {"the-stub", "gap"}
    glossary_module.strip_links([lesson])
    assert lesson.source == source


def test_a_definition_is_the_first_sentence_as_plain_text():
    for text, expected in (
        ("`void *`: an *address* of a `T *`. More.", "void *: an address of a T *."),
        ("A number. (Also a name.)", "A number."),
        ("One by one, 0.5 each", "One by one, 0.5 each"),
    ):
        assert glossary_module.definition(text) == expected


def test_links_of_puzzles_lead_to_the_glossary():
    """The links exist even before `make notebooks`. The output of a check has none."""
    entries = glossary()
    for puzzle in puzzles:
        text = re.sub(r"`[^`]*`", "", "\n".join([puzzle.text, *puzzle.hints]))
        for link in re.findall(r"\]\(([^)]*)\)", text):
            file, _, term = link.partition("#")
            assert file == "glossary.ipynb" and place_of(term) in entries, (
                f"{puzzle.name}: {link}"
            )
        assert "](" not in re.sub(r"`[^`]*`", "", puzzle.better), puzzle.name


def test_pictures_of_the_glossary_stand_below_their_terms():
    cells = read(NOTEBOOKS / "glossary.ipynb").cells
    first = next(i for i, cell in enumerate(cells) if cell.source.startswith("### "))
    for previous, cell in itertools.pairwise(cells[first:]):
        if cell.cell_type == "code":
            assert previous.source.startswith("### "), f"of no term:\n{cell.source}"
            assert len(cell.source.splitlines()) <= 5, cell.source


def test_readme_has_the_same_address():
    readme = (ROOT / "README.md").read_text()
    assert GITHUB in readme
    assert set(re.findall(r"github\.com/(weft-lab/[\w-]+)", readme)) == {GITHUB}


# ---- notebooks -----------------------------------------------------------------


def read(path: Path) -> nbformat.NotebookNode:
    """Return a new copy of the notebook, which must be valid."""
    return pickle.loads(_read_once(path))


@functools.cache
def _read_once(path: Path) -> bytes:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return pickle.dumps(notebook)


def run(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Execute every cell in a fresh kernel, in the notebooks' folder."""
    resources = {"metadata": {"path": str(NOTEBOOKS)}}
    paths = [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    # If the lab cannot be imported, the run fails instead of fetching another one.
    ours = {"PYTHONPATH": os.pathsep.join(paths), "GIT_ALLOW_PROTOCOL": "file"}
    # While other tests run, threads that spin while they wait are ten times slower.
    ours["OMP_WAIT_POLICY"] = "passive"
    ours["WEFT_SMALL"] = "1"
    with make_sockets() as config:
        client = NotebookClient(
            notebook, timeout=SECONDS, resources=resources, config=config
        )
        client.execute(env=os.environ | ours)
    return notebook


def code_cells(notebook) -> Iterator[nbformat.NotebookNode]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def new_cells(answer: str, check, *tags: str) -> list[nbformat.NotebookNode]:
    """Return an attempt at an exercise: the answer, and its check."""
    cells = [nbformat.v4.new_code_cell(text) for text in (answer, check.source)]
    for cell in cells:
        cell.metadata["tags"] = list(tags)
    return cells


def in_sections(notebook) -> list[list[int]]:
    """Return the cells' indices: those above the first ##, then section by section."""
    sections: list[list[int]] = [[]]
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and re.match(r"## ", cell.source):
            sections.append([])
        sections[-1].append(index)
    return sections


def first_sections(notebook) -> list[nbformat.NotebookNode]:
    """Return the cells above the second ##, and more sections up to 1/4 of the code.

    For a notebook without sections, return the first quarter.
    """
    limit = len(list(code_cells(notebook))) / 4
    sections = in_sections(notebook)
    if len(sections) == 1:
        sections = [[], [], *([index] for index in sections[0])]
    first_cells: list[nbformat.NotebookNode] = []
    for number, section in enumerate(sections):
        cells = first_cells + [notebook.cells[index] for index in section]
        if number > 1 and sum(cell.cell_type == "code" for cell in cells) > limit:
            break
        first_cells = cells
    return first_cells


def glossary() -> dict[str, str]:
    """Return the entries' texts by their anchors, the part of a link after #."""
    cells = read(NOTEBOOKS / "glossary.ipynb").cells
    texts = [cell.source for cell in cells if cell.source.startswith("### ")]
    entries = {place_of(text.split("\n")[0][4:]): text for text in texts}
    assert len(entries) == len(texts)
    return entries


def words_of(path: Path) -> set[str]:
    """Return the glossary terms to which a lesson links."""
    return glossary_module.places_in(read(path).cells)


def prose_of(path: Path) -> str:
    """Return all the text of a notebook."""
    return "\n".join(c.source for c in read(path).cells if c.cell_type == "markdown")


def raised(cell) -> list[str]:
    """Return the names of the errors that ended a cell."""
    return [output.ename for output in cell.outputs if output.output_type == "error"]


def printed(cell) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


def is_puzzle(cell) -> bool:
    """Return whether `make notebooks` has made the cell from a puzzle."""
    return lessons.is_tagged(cell, "puzzle")


def puzzles_in(path: Path) -> list[str]:
    """List the puzzles of a notebook, in its order."""
    ids = (re.fullmatch("puzzle-(.+)-answer", cell.id) for cell in read(path).cells)
    return [match[1].replace("-", "_") for match in ids if match]


def puzzles_with_stubs(notebook) -> list[tuple[str, nbformat.NotebookNode]]:
    """Insert each puzzle's stub and check before its answer; return names, checks."""
    inserted = []
    for at, cell in reversed(list(enumerate(notebook.cells))):
        match = re.fullmatch("puzzle-(.+)-answer", cell.id)
        if match:
            puzzle = puzzles[match[1].replace("-", "_")]
            stub = new_cells(puzzle.stub, notebook.cells[at + 1])
            notebook.cells[at:at] = stub
            inserted.append((puzzle.name, stub[1]))
    return inserted


# ---- names ------------------------------------------------------------------------


def parse(cell) -> ast.Module:
    return ast.parse(write_plain_python(cell))


def require_names(cells: list[nbformat.NotebookNode]) -> None:
    """Fail if a cell uses a name that neither it nor a cell above it assigns."""
    defined = set(dir(builtins)) | {"get_ipython", "display"} | STARRED
    for cell in cells:
        if cell.cell_type == "code":
            assigned, used = list_names(cell)
            defined |= assigned
            missing = {name for name in used - defined if name != "__file__"}
            assert not missing, f"{sorted(missing)} in:\n{cell.source}"
