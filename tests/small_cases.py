"""Some small cases of an op, for tests that cannot afford all of them."""

from weft.ops.cases import Case, cases
from weft.toolchain.native import Rung


def list_small_cases(rung: Rung) -> list[Case]:
    """Return about eight cases with inputs of fewer than 6000 numbers."""
    small = [
        case
        for case in cases(rung.op, 0, rung.precision, rung=rung.name)
        if sum(x.numel() for x in case.inputs.values() if x is not None) < 6000
    ]
    return small[:: max(len(small) // 8, 1)]
