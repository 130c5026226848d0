"""Every lesson runs from top to bottom, is in shape, and its exercises can be solved.

What is asked of a notebook stands in the tests' names. An exercise is a cell with
the tag "exercise": a function that raises NotImplementedError, or one of C or CUDA
C under a cell magic. The cell after it checks it with `exercise(function, check)`.
Its answer, and mistakes that must be refused, stand in notebooks/solutions/ under
the notebook's name: answers in Python in .py, in C in .c, in CUDA C in .cu; a
mistake in C is what to replace in the answer, and by what.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import os
import re
import runpy
import symtable
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient import NotebookClient

import utils
from weft.build import ROOT
from weft.jit import nvrtc, signature

NOTEBOOKS = ROOT / "notebooks"
PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
# Into a folder that is not called weft: `import weft` would find it there, empty.
FIRST = """\
try:
    import weft
except ImportError:  # on Colab or Kaggle: fetch the lab and make it ready
    !git clone -q --depth 1 https://github.com/weft-lab/weft lab && make -s -C lab env
    %cd -q lab/notebooks
    import sys; sys.path[:0] = ["../lib", ".."]"""
GITHUB = re.search(r"https://github.com/([\w.-]+/[\w.-]+)", FIRST)[1]
COLAB = f"https://colab.research.google.com/github/{GITHUB}/blob/main/notebooks/"
C_FUNCTION = re.compile(r"^[a-z_][^;/]*?\b(\w+)\([^;]*?\)\s*\{", re.M)
LONGEST = 25  # lines of a code cell
SECONDS = 300  # a cell may take, on a busy machine that builds what it needs

notebooks = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@notebooks
def test_runs_from_a_fresh_kernel_and_exercises_can_be_solved(path):
    """As a reader does it: the stub waits, mistakes are refused, the answer passes.

    In one run, since a kernel takes seconds to start. After each exercise its stub
    stands again, so that all that follows runs without the answer.
    """
    notebook = read(path)
    found = list(exercises(notebook))
    solutions = read_solutions(path, [name_of(stub) for stub, _ in found])
    wrong, right = [], []
    for stub, check in found:
        answer, *mistakes = attempts(path, stub, check, solutions)
        again = nbformat.v4.new_code_cell(stub.source)
        after = notebook.cells.index(check) + 1
        notebook.cells[after:after] = [*mistakes, answer, again]
        right.append(answer)
        wrong += mistakes
    run(notebook)
    for _, check in found:
        assert "not solved yet" in printed(check), check.source
    for cell in right:
        assert "not solved yet" not in printed(cell), cell.source
    for cell in wrong:
        raised = [o.ename for o in cell.outputs if o.output_type == "error"]
        assert raised and raised != ["NotImplementedError"], cell.source


@notebooks
def test_folded_answers_are_the_tested_ones(path):
    notebook = read(path)
    stubs = [stub for stub, _ in exercises(notebook)]
    solutions = read_solutions(path, [name_of(stub) for stub in stubs])
    for stub in stubs:
        name = name_of(stub)
        text = solutions[name] if magic_of(stub) else python_source(path, name)
        after = notebook.cells[notebook.cells.index(stub) :]
        folded = next(c.source for c in after if "<summary>Answer" in c.source)
        assert text.strip() in folded, name


@notebooks
def test_cuda_cells_compile_for_a_gpu(path):
    """Also where there is none: NVRTC needs no GPU."""
    cells = [c.source for c in code_cells(read(path)) if c.source.startswith("%%cuda")]
    answers = solutions_of(path).with_suffix(".cu")
    if not cells:
        pytest.skip("no %%cuda cells")
    if nvrtc.available():
        pytest.skip(nvrtc.available())
    headers = {}
    for cell in cells:
        magic, _, text = cell.partition("\n")
        if magic.startswith("%%cuda_header"):
            headers[magic.split()[1]] = text
        else:
            compile_for_a_gpu(text, headers)
    if answers.exists():
        compile_for_a_gpu(answers.read_text(), headers)


@notebooks
def test_committed_without_outputs(path):
    for cell in code_cells(read(path)):
        assert not cell.outputs and cell.execution_count is None, cell.source


@notebooks
def test_first_code_cell_is_the_same_everywhere(path):
    assert len(FIRST.splitlines()) <= 6
    assert next(code_cells(read(path))).source == FIRST


@notebooks
def test_opens_with_title_question_and_badge(path):
    top = read(path).cells[0]
    assert top.cell_type == "markdown"
    assert re.match(r"# \S.*\n\n> \S.*\?\n", top.source)
    assert COLAB + path.name + ")" in top.source


@notebooks
def test_cells_are_short(path):
    for cell in code_cells(read(path)):
        assert len(cell.source.splitlines()) <= LONGEST, cell.source


@notebooks
def test_functions_are_defined_once(path):
    seen: set[str] = set()
    for cell in code_cells(read(path)):
        for node in parse(cell).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                assert node.name not in seen, node.name
                seen.add(node.name)


@notebooks
def test_sections_stand_alone(path):
    """A reader who has run the cells above the first ## can start at any ##."""
    notebook = read(path)
    head, *sections = in_sections(notebook)
    for section in sections:
        known = set(dir(builtins)) | {"get_ipython", "display"} | STARRED
        for index in head + section:
            cell = notebook.cells[index]
            if cell.cell_type == "code":
                assigned, used = names(cell)
                known |= assigned
                missing = {name for name in used - known if name != "__file__"}
                assert not missing, f"{sorted(missing)} in:\n{cell.source}"


@notebooks
def test_links_lead_somewhere(path):
    for cell in read(path).cells:
        if cell.cell_type == "markdown":
            for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", cell.source):
                # a lesson may name one that is still to be written
                found = (NOTEBOOKS / link).exists() or link.endswith(".ipynb")
                assert found, link


def test_readme_has_the_same_address():
    readme = (ROOT / "README.md").read_text()
    assert GITHUB in readme
    assert set(re.findall(r"github\.com/(weft-lab/[\w-]+)", readme)) == {GITHUB}


# ---- notebooks -----------------------------------------------------------------


def read(path: Path) -> nbformat.NotebookNode:
    """The notebook, which must be valid."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook


def run(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Execute every cell in a fresh kernel, in the notebooks' folder."""
    where = {"metadata": {"path": str(NOTEBOOKS)}}
    client = NotebookClient(notebook, timeout=SECONDS, resources=where)
    paths = [str(ROOT / "lib"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    # A lab that cannot be imported must fail here, not fetch another one.
    ours = {"PYTHONPATH": os.pathsep.join(paths), "GIT_ALLOW_PROTOCOL": "file"}
    # Beside other tests, threads that spin while they wait make all ten times slower.
    ours["OMP_WAIT_POLICY"] = "passive"
    client.execute(env=os.environ | ours)
    return notebook


def code_cells(notebook) -> Iterator[nbformat.NotebookNode]:
    return (cell for cell in notebook.cells if cell.cell_type == "code")


def exercises(notebook) -> Iterator[tuple]:
    """The cells of each exercise: its stub and its check, the next code cell."""
    cells = list(code_cells(notebook))
    for stub, check in itertools.pairwise(cells):
        if "exercise" in stub.metadata.get("tags", []):
            assert "exercise(" in check.source, check.source
            yield stub, check


def magic_of(stub) -> str:
    """The line that makes a cell one of C or CUDA C; "" for Python."""
    first = stub.source.partition("\n")[0]
    return first if first.startswith("%%") else ""


def name_of(stub) -> str:
    """The function that an exercise asks for."""
    if magic_of(stub):
        return C_FUNCTION.search(stub.source)[1]
    (function,) = (n for n in parse(stub).body if isinstance(n, ast.FunctionDef))
    return function.name


def in_sections(notebook) -> list[list[int]]:
    """The indices of the cells: those above the first ##, then section by section."""
    sections: list[list[int]] = [[]]
    for index, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown" and re.match(r"## ", cell.source):
            sections.append([])
        sections[-1].append(index)
    return sections


def printed(cell) -> str:
    return "".join(o.text for o in cell.outputs if o.output_type == "stream")


# ---- solutions ------------------------------------------------------------------


def solutions_of(path: Path) -> Path:
    return NOTEBOOKS / "solutions" / f"{path.stem}.py"


def read_solutions(path: Path, wanted: list[str]) -> dict:
    """The names in the file of answers; a lesson that asks for none has no file."""
    if not wanted:
        assert not solutions_of(path).exists(), "answers without an exercise"
        return {}
    found = runpy.run_path(str(solutions_of(path)))
    for name in wanted:
        for suffix in ".c", ".cu":
            file = solutions_of(path).with_suffix(suffix)
            if name not in found and file.exists():
                found[name] = c_source(file, name)
        assert callable(found[name]) or isinstance(found[name], str), name
        assert found["MISTAKES"][name], f"no mistake for {name}"
    return found


def c_source(file: Path, name: str) -> str:
    """A function of C, with the functions and constants that only it needs."""
    return utils.source(str(file.relative_to(ROOT)), name)


def compile_for_a_gpu(text: str, headers: dict[str, str]) -> None:
    made = nvrtc.compile(text, "cell", headers=headers)
    assert made.log == "", f"{made.log}\n{text}"


def python_source(path: Path, name: str) -> str:
    return utils.source(str(solutions_of(path).relative_to(ROOT)), name)


def with_mistake(right: str, old: str, new: str) -> str:
    assert right.count(old) == 1, f"{old!r} in\n{right}"
    return right.replace(old, new)


def attempts(path: Path, stub, check, solutions: dict) -> list[nbformat.NotebookNode]:
    """Cells that hand the answer, then each mistake, to an exercise's check."""
    name = name_of(stub)
    mistakes = solutions["MISTAKES"][name]
    if magic_of(stub):
        right = solutions[name]
        wrong = [with_mistake(right, *mistake) for mistake in mistakes]
        codes = [in_c(stub.source, function) for function in (right, *wrong)]
    else:
        load = f"import runpy\n{name} = runpy.run_path({str(solutions_of(path))!r})"
        places = [f"['MISTAKES'][{name!r}][{i}]" for i in range(len(mistakes))]
        codes = [load + place for place in (f"[{name!r}]", *places)]
    made = [nbformat.v4.new_code_cell(f"{code}\n{check.source}") for code in codes]
    for cell in made[1:]:
        cell.metadata["tags"] = ["raises-exception"]
    return made


def in_c(stub: str, function: str) -> str:
    """What does as Python what the cell does with `function` for the stub's."""
    magic, _, body = stub.partition("\n")
    kind, _, line = magic[2:].partition(" ")
    body = body[: C_FUNCTION.search(body).start()] + function
    return f"get_ipython().run_cell_magic({kind!r}, {line!r}, {body!r})"


# ---- names ------------------------------------------------------------------------


def parse(cell) -> ast.Module:
    return ast.parse(plain(cell))


def plain(cell) -> str:
    """The cell as Python: its % and ! lines become calls of IPython."""
    return TransformerManager().transform_cell(cell.source)


def names(cell) -> tuple[set[str], set[str]]:
    """The global names that a cell assigns, and those that it uses."""
    if cell.source.startswith("%%cuda"):
        return {kernel.name for kernel in signature.parse(cell.source)}, set()
    assigned: set[str] = set()
    used: set[str] = set()
    todo = [symtable.symtable(plain(cell), "cell", "exec")]
    while todo:
        table = todo.pop()
        todo += table.get_children()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if (top or symbol.is_global()) and symbol.is_referenced():
                used.add(symbol.get_name())
            written = symbol.is_assigned() or symbol.is_imported()
            if (top or symbol.is_declared_global()) and written:
                assigned.add(symbol.get_name())
    return assigned, used


def starred() -> set[str]:
    """What `from utils import *` brings."""
    return set(utils.__all__)


STARRED = starred()
