"""Every kernel of kernels/ that runs on the CPU, under the watch build: clean.

Its arrays lie in the runtime's memory, which knows where each begins and ends; the
outputs count as unwritten, so that a kernel that reads one before it writes it is told.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tiers import only
from watched_kernels import findings, run

from weft.cells.cpu.launch import open_runtime
from weft.mnist import Cnn, Split, initial_weights
from weft.ops.cases import OPS, Case, cases
from weft.ops.cases.matmul import Product, matmul_case
from weft.see.inspect import load_watched_library
from weft.toolchain import native

ORDERS = (0, 1, 2)  # forward, reverse, and one by chance
LARGEST = 15_000  # elements of a case's inputs: small ones, of awkward sizes


RUNGS = [
    (op, rung)
    for op in OPS
    for rung in native.rungs(op)
    if "cpu" in rung.targets and rung.targets != ("cpu",)  # those are plain C
]


def check_clean(
    rung: native.Rung, chosen: Callable[[int, Case], bool], least: int = 9
) -> None:
    """The watch build finds nothing in the cases for which chosen(turn, case).

    least: so many runs at least.
    """
    lib, runs = load_watched_library(rung.op), 0
    for turn, case in enumerate(cases(rung.op, 0, rung.precision)):
        size = sum(t.numel() for t in case.inputs.values() if t is not None)
        if size > LARGEST or not chosen(turn, case):
            continue
        for order in ORDERS if case.every_order else [ORDERS[turn % len(ORDERS)]]:
            lib.call("weft_set_order", order)
            open_runtime().simt_check_begin()
            try:
                run(lib, rung, case)
            finally:
                lib.call("weft_set_order", 0)
            said = f"{rung.name}, {case.title}, order {order}: {findings()}"
            assert not findings(), said
            runs += 1
    assert runs >= least


OTHERS = [(op, rung) for op, rung in RUNGS if op != "matmul"]  # it is in the slow tier


# The watch build of an op with convolutions takes seconds; all ops are checked, below
# and in tests/ops.
QUICK = [(op, rung) for op, rung in OTHERS if op == "relu"]


@pytest.mark.parametrize(
    "op, rung", only(QUICK, OTHERS, names=2), ids=lambda x: getattr(x, "name", x)
)
def test_an_ops_kernels_are_clean(op, rung):
    check_clean(rung, lambda turn, case: True)


# Sizes between which rung pipeline changes its tile: few of them, large and wide, few
# rows, few columns, and more than its blocks make in one round.
@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(130, 1030, 9), (300, 30, 33), (30, 300, 33),
                                   (64, 130, 35), (66, 1030, 5)])  # fmt: skip
def test_the_pipelines_tiles_are_right_and_clean(sizes):
    (rung,) = (r for r in native.rungs("matmul") if r.name == "pipeline")
    case = matmul_case(torch.Generator().manual_seed(0), Product(*sizes), "fp32")
    open_runtime().simt_check_begin()
    run(load_watched_library("matmul"), rung, case)
    assert not findings(), findings()


@pytest.mark.slow
@pytest.mark.parametrize(
    "rung", [r for op, r in RUNGS if op == "matmul"], ids=lambda r: r.name
)
def test_a_rung_of_the_ladder_is_clean_in_many_cases(rung):
    """Here, since the ladder's watch build alone takes 27 s; the quick tests inspect
    single rungs, by test_ladder.py and lessons 08a to 08c."""
    check_clean(rung, lambda turn, case: turn < 3 or turn % 8 == rung.index % 8, 6)


@pytest.mark.slow  # the watch build takes 20 s
@pytest.mark.parametrize("order", ORDERS)
def test_training_steps_of_the_cnn_are_clean(order, monkeypatch):
    lib = load_watched_library("mnist")
    monkeypatch.setitem(native._open, ("mnist", "cpu"), lib)
    shape = {"channels": (3, 5), "hidden": 7, "height": 9, "width": 11}
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (13, 9, 11), np.uint8)
    split = Split(images, generator.integers(0, 10, 13, np.uint8))
    open_runtime().simt_check_begin()
    lib.call("weft_set_order", order)
    try:
        with Cnn("naive", "cpu", max_batch=5, **shape) as cnn:
            cnn.data(split, split)
            cnn.set_weights(initial_weights(0, **shape))
            cnn.train(np.arange(13), 5, 0.1)
            assert np.isfinite(cnn.losses()).all()
            cnn.forward("test", np.arange(5))
    finally:
        lib.call("weft_set_order", 0)
    assert not findings(), findings()
