"""Cells of the lessons compile for the GPUs of Colab, and heads name the limits."""

import json
import re

import pytest

from weft.base.paths import ROOT
from weft.cells.gpu import nvrtc
from weft.cells.module import Cell
from weft.toolchain import native

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def list_cuda_cells() -> list:
    """List the %%cuda cells of each lesson, those of exercises with their answers."""
    found = []
    for path in LESSONS:
        solved = path.parent / "solutions" / path.name
        cells = json.loads((solved if solved.exists() else path).read_text())["cells"]
        for number, cell in enumerate(cells):
            text = "".join(cell["source"])
            if cell["cell_type"] == "code" and text.startswith("%%cuda"):
                name = f"{path.stem}-{number}"
                found.append(pytest.param(text.partition("\n")[2], id=name))
    return found


def test_the_cells_are_found():
    assert len(list_cuda_cells()) > 50


@pytest.mark.slow
@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason=nvrtc.explain_missing())
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
@pytest.mark.parametrize("source", list_cuda_cells())
def test_a_cell_compiles_for_an_older_gpu(source, arch):
    """A cell compiles even for a GPU that lacks its instructions and cannot run it."""
    Cell(source, target=None, flags=(), name="cell", compile_only=arch)


HEADS = {  # lessons whose heads state which of these ops' rungs a T4 lacks
    "09a_bytes": ("copy", "transpose", "reduce"),
    "09b_rows": ("softmax", "layernorm", "rmsnorm"),
    "09c_scan": ("scan", "compact"),
    "09d_sort": ("histogram", "sort"),
    "10b_micrograd": ("micrograd",),
}


def test_the_heads_of_lessons_name_the_rungs_that_a_t4_lacks():
    for name, ops in HEADS.items():
        source = (ROOT / "notebooks" / "sources" / f"{name}.md").read_text()
        head = source.partition("\n## ")[0]
        lacking = {rung.name: rung.sm for op in ops for rung in native.rungs(op)}
        lacking = {rung: sm for rung, sm in lacking.items() if sm > 75}
        (line,) = [line for line in head.splitlines() if "T4" in line]
        named = {*re.findall(r"`(\w+)`", line)}
        assert named == lacking.keys(), name
        assert {*lacking.values()} <= {90} and ("9.0" in line) == bool(lacking), name
