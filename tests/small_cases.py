"""Some small cases of an op, for tests that cannot afford all of them."""

from dataclasses import replace

from weft.ops.cases import Case, cases
from weft.toolchain.native import Rung


def list_small_cases(rung: Rung) -> list[Case]:
    """Return about eight cases with inputs of fewer than 6000 numbers.

    check_rung() runs each of them in one order of the threads: the orders take turns.
    """
    small = [
        replace(case, every_order=False)
        for case in cases(rung.op, 0, rung.precision, rung=rung.name)
        if sum(x.numel() for x in case.inputs.values() if x is not None) < 6000
    ]
    return small[:: max(len(small) // 8, 1)]
