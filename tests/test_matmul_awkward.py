"""Products of few rows or columns, k in parts, and the copies that rungs ask for."""

import pytest
import torch

from weft import native, ops
from weft.ops import cases

RUNGS = ["narrow", "short", "split_k"]
THIN = {"narrow": (9, 3, 5000), "short": (3, 9, 5000), "split_k": (9, 7, 5000)}


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


def _workspace(rung: str, a, b, m: int, n: int, k: int, trans_a=0, trans_b=0) -> int:
    lib = native.library("matmul", "cpu")
    bytes_ = native.ffi.new("size_t *")
    options = native.ffi.new("struct weft_matmul_options *", (trans_a, trans_b, 1.0))
    lib.call("weft_matmul_workspace", lib.rung(rung).index, bytes_, native.pointer(a),
             native.pointer(b), m, n, k, options)  # fmt: skip
    return bytes_[0]


@pytest.mark.parametrize("rung", RUNGS)
def test_what_is_added_and_cut_off_last_is_so_once_where_k_is_in_parts(rung):
    m, n, k = THIN[rung]
    a, b, c, bias = _random(2, m, k), _random(2, k, n), _random(2, m, n), _random(n)
    assert _workspace(rung, a, b, m, n, k) % (4 * m * n) == 0
    assert _workspace(rung, a, b, m, n, k) >= 2 * 4 * m * n  # there are parts
    got = ops.matmul(a, b, rung=rung, alpha=0.5, beta=2, c=c, bias=bias, relu=True)
    product = 0.5 * a.double() @ b.double() + 2 * c.double() + bias.double()
    size = 0.5 * a.double().abs() @ b.double().abs() + 2 * c.double().abs() + bias.abs()
    assert ((got - product.relu()).abs() <= cases.sum_bound(k + 3, size)).all()


@pytest.mark.parametrize("rung", RUNGS)
def test_the_parts_of_k_are_added_in_one_order(rung):
    m, n, k = THIN[rung]
    a, b = _random(m, k), _random(k, n)
    lib = native.library("matmul", "cpu")
    first = ops.matmul(a, b, rung=rung)
    try:
        for order in (1, 2):
            lib.call("weft_set_order", order)
            assert torch.equal(ops.matmul(a, b, rung=rung), first)
    finally:
        lib.call("weft_set_order", 0)


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("trans_a", [0, 1])
@pytest.mark.parametrize("trans_b", [0, 1])
def test_nothing_is_copied_of_what_lies_transposed_or_misaligned(
    rung, trans_a, trans_b
):
    m, n, k = 13, 11, 29  # too small for parts: all of a workspace would be copies
    room = _random(m * k + k * n + 1)
    a, b = room[1 : m * k + 1], room[m * k + 1 :]
    assert _workspace(rung, a, b, m, n, k, trans_a, trans_b) == 0


# coalesced has its operands copied where they are transposed, vectorised where their
# rows do not start at 16 bytes as well. A tile that is copied has 64 rows and columns.
@pytest.mark.parametrize("rung", ["coalesced", "vectorised"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 70), (64, 64), (63, 65), (129, 31)])
def test_copies_hold_every_number_where_it_belongs(rung, rows, cols):
    a = _random(rows, cols)
    assert torch.equal(ops.matmul(a, torch.eye(cols), rung=rung), a)
    assert torch.equal(ops.matmul(a.T, torch.eye(rows), rung=rung), a.T)
    assert torch.equal(ops.matmul(torch.eye(cols), a.T, rung=rung), a.T)
