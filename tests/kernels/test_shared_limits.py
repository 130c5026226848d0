"""Rungs that claim to run on a compute capability fit its limits of shared memory."""

import ctypes

import numpy as np
import pytest
import torch
from tiers import naming_case, only

from weft.mnist import Cnn, initial_weights, load
from weft.ops.cases import OPS, cases
from weft.ops.check import run_case
from weft.toolchain import build, native

CAPABILITIES = [(7, 5), (8, 0), (8, 6)]
# Rungs with Hopper's features require 9.0, and may exceed these limits.
CLAIMS = {
    ((major, minor), op): [
        rung.name
        for rung in native.rungs(op)
        if rung.targets == ("cpu", "cuda") and rung.sm <= 10 * major + minor
    ]
    for major, minor in CAPABILITIES
    for op in OPS
}
QUICK = {
    ((7, 5), "matmul"): ["pipeline", "mma_fp16", "tuned"],
    **{((7, 5), op): ["tiled"] for op in ("batchnorm2d", "conv2d")},
}
assert all({*QUICK[key]} <= {*CLAIMS[key]} for key in QUICK), "a quick rung is gone"
OTHERS = {
    key: [name for name in names if name not in QUICK.get(key, [])]
    for key, names in CLAIMS.items()
}
QUICK_CASES, SLOW_CASES = (
    [(*key, names) for key, names in table.items() if names]
    for table in (QUICK, OTHERS)
)


@pytest.fixture
def pretend():
    """Return a function that gives the runtime the limits of a compute capability."""
    path = build.simt_runtime(build.Flavour.here("cpu"))
    runtime = ctypes.CDLL(str(path))
    yield lambda capability: runtime.simt_set_capability(*capability)
    runtime.simt_set_capability(9, 0)


@pytest.mark.parametrize(
    ("capability", "op", "names"),
    only(QUICK_CASES, [*QUICK_CASES, *SLOW_CASES], names=3),
)
def test_a_rung_that_claims_a_capability_fits_its_shared_memory(
    pretend, capability, op, names
):
    assert pretend(capability) == 0
    lib = native.library(op, "cpu")
    for rung in map(lib.rung, names):
        largest = list(cases(op, 0, rung.precision, 0, rung.name))[-2:]
        for case in largest:
            with naming_case(rung.name, case.title):
                run_case(lib, rung.index, case, torch.device("cpu"))


def test_a_rung_of_hopper_does_not_fit_a_t4(pretend):
    """The limit takes effect: the ring of the rung tma exceeds a T4's 64 KB."""
    pretend((7, 5))
    lib = native.library("matmul", "cpu")
    case = next(iter(cases("matmul", 0, "fp32")))
    with pytest.raises(Exception, match=r"shared memory a block, this GPU has 65536"):
        run_case(lib, lib.rung("tma").index, case, torch.device("cpu"))


def test_a_capability_that_is_not_in_the_table_is_refused(pretend):
    assert pretend((3, 5)) == -1


@pytest.mark.slow
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_step_of_the_cnn_fits_the_shared_memory(pretend, capability):
    pretend(capability)
    for rung in native.rungs("mnist"):
        allowed = rung.sm <= 10 * capability[0] + capability[1]
        if rung.targets != ("cpu", "cuda") or not allowed:
            continue
        model = Cnn(rung.name, max_batch=8)
        model.set_weights(initial_weights(0))
        model.data(load("train").first(8))
        model.train(np.arange(8), 8, 0.1)
