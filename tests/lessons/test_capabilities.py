"""The cells of lessons compile for the GPUs of Colab, with NVRTC and without a GPU."""

import json

import pytest

from weft.base.paths import ROOT
from weft.cells.gpu import nvrtc
from weft.cells.module import Cell

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
