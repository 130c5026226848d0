"""Check every rung of matmul: the essay of its file, and products that change each day.

The tests include kernels that are not in the list but that the tuned rungs select.
"""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest
import torch
from tiers import loop_over, only

from weft.base.paths import KERNELS
from weft.lessons.ladder import OneRung
from weft.ops.cases.matmul import matmul_case, random_product
from weft.ops.check import check_rung, run_case
from weft.toolchain import native

RUNGS = native.rungs("matmul")
FILES = {  # files of the rungs that have a line in the table
    name: path
    for path in sorted(KERNELS.glob("matmul/*.cu"))
    for name in re.findall(r"^MATMUL_RUNG\((\w+),", path.read_text(), re.MULTILINE)
}
UNLISTED = sorted(FILES.keys() - {rung.name for rung in RUNGS})


def rung_file(name: str) -> Path:
    """Return the file of a rung in CUDA or plain C."""
    c_name = "matmul.c" if name == "reference" else f"matmul_{name}.c"
    return FILES.get(name, KERNELS / "reference" / c_name)


@loop_over("name", [rung.name for rung in RUNGS])
def test_a_rungs_file_says_what_was_predicted_and_what_came_of_it(name):
    """The file also names the previous rung's limit, unless its rung is the first."""
    head = rung_file(name).read_text().split("*/")[0]
    headings = ["Before", "Idea", "Prediction", "Measured", "Limit"]
    matches = re.findall(rf"^ \* ({'|'.join(headings)}):", head, re.MULTILINE)
    assert matches == headings[name in ("ijk", "naive") :]


def test_a_kernel_that_is_not_listed_is_one_that_tuned_picks():
    text = FILES["tuned"].read_text()
    assert "tma_pairs" in UNLISTED
    assert set(UNLISTED) <= set(re.findall(r"^ +CHOICE\((\w+),", text, re.MULTILINE))


@pytest.mark.parametrize("name", only(["tma_pairs"], UNLISTED))
def test_a_kernel_that_only_tuned_picks_is_right(name, target):
    lib = OneRung(FILES[name], name).library(target)
    (rung,) = lib.rungs
    if rung not in lib.here():
        pytest.skip(f"{name} needs a newer GPU")
    assert check_rung(lib, rung).runs >= 9


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
def test_a_rung_is_right_for_todays_products(rung, target, device):
    """Sizes (1 to 70) and options are random, and change each day."""
    lib = native.library("matmul", target)
    if rung.name not in [one.name for one in lib.here() if target in one.targets]:
        pytest.skip(f"{rung.name} does not run here")
    seed = 100 * int(f"{datetime.date.today():%Y%m%d}") + rung.index
    generator = torch.Generator().manual_seed(seed)
    for _ in range(4):
        product = random_product(generator)
        print(f"seed {seed}: {product.title}")
        case = matmul_case(generator, product, rung.precision)
        assert run_case(lib, rung.index, case, device) <= 1
