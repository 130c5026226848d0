"""Only a small share of a lesson's code is plumbing."""

import functools
from pathlib import Path

import nbformat
import pytest
from lesson_plumbing import SOURCES, Plumbing, count_plumbing

from weft.lessons.maker import read_source

PATHS = sorted(SOURCES.glob("[0-9]*.md"))
SHARE = 0.15  # maximum share of plumbing in a lesson's lines of code
IMPORT_CELLS, IMPORT_LINES = 1, 6
LARGER = {  # lessons with larger shares, which must shrink
    "04_numba": 0.20,
}

each_lesson = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


@functools.cache
def count_of(path: Path) -> Plumbing:
    """Return the counts of a lesson; parsing its source takes longer than counting."""
    return count_plumbing(read_source(path))


@each_lesson
def test_little_of_a_lesson_is_plumbing(path):
    counts = count_of(path)
    assert counts.share <= LARGER.get(path.stem, SHARE), dict(counts.kinds)


@each_lesson
def test_imports_are_in_one_small_cell(path):
    counts = count_of(path)
    assert counts.import_cells <= IMPORT_CELLS
    assert counts.import_lines <= IMPORT_LINES


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("imports", "import re"),
        ("paths", 'rows = bench.read_json(ROOT / "rows.json")'),
        ("pictures", "with figure(8, 3) as ax:\n    for y in ys:\n        ax.plot(y)"),
        ("pictures", "ax.legend()"),
        ("tables", 'print("rung   time")'),
        ("tables", 'for r in rows:\n    print(f"{r:<9}{us(r):6.1f}")'),
        ("tables", 'line = f"{name}: "'),
        ("helpers", "def us(rung):\n    return results.us(rung)"),
        (None, "def twice(x):\n    return np.sum(x) * 2"),
        (None, "def named(rung):\n    return results.us(rung)"),
        (None, "def kernel(out):\n    out[cuda.threadIdx.x] = 1"),
        (None, "def launch(out):\n    copy[1, 32](out)"),
        (
            None,
            "def step(cnn):\n    cnn.train(order, batch=64)\n    return cnn.weights",
        ),
        (None, 'predict("How many?", None).measured(rows[0]["us"])'),
        (None, 'print(f"{us:.1f} µs")'),
        (None, "%%cuda\n__global__ void f() {\n}\n// END"),
    ],
)
def test_lines_are_counted_by_their_kind(kind, code):
    text = nbformat.v4.new_markdown_cell("What `named(rung)` returns.")
    cell = nbformat.v4.new_code_cell(f"# a comment\n\n{code}")
    if code.startswith("%%"):
        cell.source = code
    counts = count_plumbing(nbformat.v4.new_notebook(cells=[text, cell]))
    lines = len(code.splitlines()) - code.count("//")
    assert counts.lines == lines
    assert counts.kinds == ({kind: lines} if kind else {})
