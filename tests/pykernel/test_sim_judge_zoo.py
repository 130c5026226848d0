"""The simulator finds each fault of the zoo at its line, and none in clean kernels."""

import faulty_kernels
import pytest
from faulty_kernels import ALIASED, CASES, CLEAN
from tiers import loop_over

from weft import KernelFault, sim
from weft.base.arrays import ORDERS


def report_of(case, order):
    args = case.args()
    if case.name in ALIASED:
        args[1] = args[0]
    launch = sim(case.kernel, order=order, quiet=True, timeout=case.seconds)
    try:
        return launch[case.grid, case.block, 0, case.shared](*args)
    except KernelFault as fault:
        return fault.report


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@loop_over("order", ORDERS)
def test_every_fault_is_found_at_its_line(case, order):
    report = report_of(case, order)
    assert {finding.kind for finding in report.findings} == case.kinds, report
    for finding in report.findings:
        assert {finding.line, finding.other_line} & case.lines, report
        assert finding.file == faulty_kernels.__file__


@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case.name)
@loop_over("order", ORDERS)
def test_nothing_is_found_in_a_clean_kernel(case, order):
    report = report_of(case, order)
    assert report.ok, report


# The launch continues after these findings.
GO_ON = {"race", "conflict", "uninitialised"}


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.kinds <= GO_ON], ids=lambda case: case.name
)
def test_findings_do_not_depend_on_the_order_of_threads(case):
    runs = [report_of(case, order).findings for order in ORDERS]
    places = [{(f.kind, f.line, f.other_line, f.array) for f in one} for one in runs]
    assert places[0] == places[1] == places[2]
    # Races between blocks name these in execution order; other texts are equal.
    texts = [{f.text for f in one if f.thread is not None} for one in runs]
    assert texts[0] == texts[1] == texts[2]


def test_the_zoo_is_large():
    assert len(CASES) >= 20
    assert len(CLEAN) >= 10
    assert all(case.lines for case in CASES)
