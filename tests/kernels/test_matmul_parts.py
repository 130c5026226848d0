"""The wgmma rungs whose blocks share k: tiles of the last round, in parts."""

import pytest
import torch
from watched_kernels import findings, run

from weft import ops
from weft.cells.cpu.launch import open_runtime
from weft.ops.cases.matmul import Product, error_bound, matmul_case
from weft.see.watched_runs import load_watched_library
from weft.toolchain import native

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
RUNGS = [r for r in native.rungs("matmul") if r.name.startswith("wgmma")]
ANY_RUNG = pytest.mark.parametrize("rung", RUNGS, ids=lambda r: r.name)
# Of two rungs that differ only in the type of their numbers, one suffices.
ANY_KERNEL = pytest.mark.parametrize(
    "rung", [r for r in RUNGS if r.precision != "fp16"], ids=lambda r: r.name
)
# One tile for the CPU target's four blocks has four parts, the last of which is more
# than one stage shorter. With the second k, one tile is left after a round of whole
# tiles.
DEEP = {"bf16": 23 * 64 - 8, "fp16": 23 * 64 - 8, "tf32": 27 * 32 - 8, "3xtf32": 344}


def _operands(precision: str, m: int, n: int, k: int):
    generator = torch.Generator().manual_seed(k)
    kind = TYPES.get(precision, torch.float32)
    a = torch.randn(m, k, generator=generator).to(kind)
    b = torch.randn(k, n, generator=generator).to(kind)
    return a, b.T.contiguous().T if precision == "3xtf32" else b  # no rung copies these


def _sums(rung: native.Rung, m: int, n: int, k: int) -> int:
    """Return the bytes of the parts' sums."""
    a, b = _operands(rung.precision, m, n, k)
    lib, bytes_ = native.library("matmul", "cpu"), native.ffi.new("size_t *")
    trans = (0, int(rung.precision == "3xtf32"), 1.0)
    options = native.ffi.new("struct weft_matmul_options *", trans)
    lib.call("weft_matmul_workspace", rung.index, bytes_, native.pointer(a),
             native.pointer(b), m, n, k, options)  # fmt: skip
    # The sums are followed by the low parts of b, in fp32.
    low = 4 * n * -(-k // 4) * 4 if rung.precision == "3xtf32" else 0
    return bytes_[0] - low


@ANY_RUNG
def test_k_is_in_parts_where_that_is_worth_a_second_kernel(rung):
    tile = 128 * 64 * 4  # bytes of the sums of one part
    assert _sums(rung, 9, 16, DEEP[rung.precision]) == 4 * tile
    assert _sums(rung, 9, 16, 8) == 0


@pytest.mark.slow  # the test builds the watch build of the whole ladder
@ANY_KERNEL
def test_parts_are_right_and_clean_and_what_comes_last_comes_once(rung):
    q = Product(9, 16, DEEP[rung.precision], alpha=0.5, beta=2.0, bias=True, relu=True)
    case = matmul_case(torch.Generator().manual_seed(0), q, rung.precision)
    open_runtime().simt_check_begin()
    run(load_watched_library("matmul"), rung, case)
    assert not findings(), findings()


# Four blocks compute five tiles, of one matrix whose rows start anywhere or of five
# matrices.
@ANY_RUNG
@pytest.mark.parametrize("batch", [1, 5])
def test_whole_tiles_and_tiles_in_parts_are_one_matrix(rung, batch):
    m, n, k = (7, 319, DEEP[rung.precision]) if batch == 1 else (7, 9, 1400)
    a, b = _operands(rung.precision, batch * m, n, k)
    a = a.reshape(batch, m, k)
    got = ops.matmul(a, b, rung=rung.name)
    size = a.double().abs() @ b.double().abs()
    error = (got - a.double() @ b.double()).abs()
    assert (error <= error_bound(rung.precision, k) * size).all()


@ANY_KERNEL
def test_the_parts_are_added_in_one_order(rung):
    a, b = _operands(rung.precision, 9, 16, DEEP[rung.precision])
    lib = native.library("matmul", "cpu")
    first = ops.matmul(a, b, rung=rung.name)
    try:
        for order in (1, 2):
            lib.call("weft_set_order", order)
            assert torch.equal(ops.matmul(a, b, rung=rung.name), first)
    finally:
        lib.call("weft_set_order", 0)


@ANY_KERNEL
def test_an_infinity_in_one_part_is_the_sum_and_two_are_no_number(rung):
    k = DEEP[rung.precision]
    a, b = _operands(rung.precision, 3, 8, k)
    a[0, 5] = a[1, 5] = a[1, k - 1] = float("inf")
    b[5], b[k - 1] = 1.5, -1.5  # the first part's sum, and the last part's
    got = ops.matmul(a, b, rung=rung.name)
    assert (got[0] == float("inf")).all()
    assert got[1].isnan().all() and got[2].isfinite().all()
