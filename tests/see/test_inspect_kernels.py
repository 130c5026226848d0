"""Every kernel of kernels/ that runs on the CPU is clean under the watch build.

Its arrays are in the runtime's memory, which records their bounds. Outputs count as
unwritten, so a kernel that reads one before writing it is reported.
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
from weft.see.watched_runs import load_watched_library
from weft.toolchain import native

ORDERS = (0, 1, 2)  # forward, reverse, and one shuffled order
LARGEST = 15_000  # Maximum number of elements in a case's inputs.


RUNGS = [
    (op, rung)
    for op in OPS
    for rung in native.rungs(op)
    if "cpu" in rung.targets
    and rung.targets != ("cpu",)  # rungs for the CPU alone are plain C
]


def check_clean(
    rung: native.Rung, chosen: Callable[[int, Case], bool], least: int = 8
) -> None:
    """Check that the watch build finds nothing in the cases that `chosen` selects.

    The orders of the threads take turns. least: the minimum number of runs.
    """
    lib, runs = load_watched_library(rung.op), 0
    for turn, case in enumerate(cases(rung.op, 0, rung.precision, 0, rung.name)):
        size = sum(t.numel() for t in case.inputs.values() if t is not None)
        if size > LARGEST or not chosen(turn, case):
            continue
        order = ORDERS[turn % len(ORDERS)]
        lib.call("weft_set_order", order)
        open_runtime().simt_check_begin()
        try:
            run(lib, rung, case)
        finally:
            lib.call("weft_set_order", 0)
        message = f"{rung.name}, {case.title}, order {order}: {findings()}"
        assert not findings(), message
        runs += 1
    assert runs >= least


OTHERS = [(op, rung) for op, rung in RUNGS if op != "matmul"]  # see below for matmul
# The watch build of an op with convolutions takes seconds. The slow tier and tests/ops
# check all ops.
QUICK = [(op, rung) for op, rung in OTHERS if op == "relu"]


@pytest.mark.parametrize(
    "op, rung", only(QUICK, OTHERS, names=2), ids=lambda x: getattr(x, "name", x)
)
def test_an_ops_kernels_are_clean(op, rung):
    check_clean(rung, lambda turn, case: True)


# Below 2^14 numbers, these rungs launch an earlier one.
@pytest.mark.slow
@pytest.mark.parametrize("op", ["scan", "compact"])
def test_a_ring_of_tiles_is_clean(op):
    lib, rung = load_watched_library(op), native.library(op, "cpu").rung("bulk")
    (case,) = [c for c in cases(op) if c.title in ("count=33001", "count=33000")]
    for order in ORDERS:
        lib.call("weft_set_order", order)
        open_runtime().simt_check_begin()
        try:
            run(lib, rung, case)
        finally:
            lib.call("weft_set_order", 0)
        assert not findings(), findings()


# Rung pipeline chooses another tile for each size: small, large and wide, few rows, few
# columns, and more tiles than its blocks compute in one round.
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
    """Slow, since the ladder's watch build alone takes 27 s.

    The quick tests inspect single rungs in test_ladder.py and lessons 08a to 08c.
    """
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
