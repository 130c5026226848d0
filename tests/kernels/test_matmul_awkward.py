"""Products of few rows or columns, k in parts, and copies of operands."""

import pytest
import torch

from weft import ops
from weft.base.errors import ArgumentError
from weft.ops import cases
from weft.toolchain import native

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
    # The workspace has room for parts.
    assert _workspace(rung, a, b, m, n, k) >= 2 * 4 * m * n
    got = ops.matmul(a, b, rung=rung, alpha=0.5, beta=2, c=c, bias=bias, relu=True)
    product = 0.5 * a.double() @ b.double() + 2 * c.double() + bias.double()
    size = 0.5 * a.double().abs() @ b.double().abs() + 2 * c.double().abs() + bias.abs()
    assert ((got - product.relu()).abs() <= cases.sum_bound(k + 3, size)).all()


def test_a_workspace_at_no_multiple_of_256_is_refused():
    m, n, k = THIN["split_k"]
    a, b, c = _random(m, k), _random(k, n), torch.empty(m, n)
    wants = _workspace("split_k", a, b, m, n, k)
    room = torch.empty(wants + 512, dtype=torch.uint8)
    start = room.data_ptr() + -room.data_ptr() % 256
    lib = native.library("matmul", "cpu")
    call = [lib.rung("split_k").index, *map(native.pointer, (c, a, b)), m, n, k]
    fields = {"alpha": 1.0, "workspace_bytes": wants}
    options = native.ffi.new("struct weft_matmul_options *", fields)
    for off, fits in (0, True), (4, False), (128, False), (256, True):
        options.workspace = native.ffi.cast("void *", start + off)
        if fits:
            lib.call("weft_matmul", *call, options, native.NULL)
        else:
            with pytest.raises(ArgumentError, match="want a multiple of 256"):
                lib.call("weft_matmul", *call, options, native.NULL)


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
    m, n, k = 13, 11, 29  # too small for parts, so the whole workspace is for copies
    room = _random(m * k + k * n + 1)
    a, b = room[1 : m * k + 1], room[m * k + 1 :]
    assert _workspace(rung, a, b, m, n, k, trans_a, trans_b) == 0


# coalesced requires copies of transposed operands; vectorised also requires copies of
# operands whose rows do not start at multiples of 16 bytes. A tile that is copied has
# 64 rows and columns.
@pytest.mark.parametrize("rung", ["coalesced", "vectorised"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 70), (64, 64), (63, 65), (129, 31)])
def test_copies_hold_every_number_where_it_belongs(rung, rows, cols):
    a = _random(rows, cols)
    assert torch.equal(ops.matmul(a, torch.eye(cols), rung=rung), a)
    assert torch.equal(ops.matmul(a.T, torch.eye(rows), rung=rung), a.T)
    assert torch.equal(ops.matmul(torch.eye(cols), a.T, rung=rung), a.T)


# ---- the rungs that select a rung ----------------------------------------------------

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
# Few rows or columns, k in parts, with and without partial steps, any operand layout.
THIN_HALVES = [(9, 3, 5000), (3, 9, 5001), (1, 13, 4096), (13, 1, 4096), (16, 16, 2003)]


@pytest.mark.parametrize("trans", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("precision", HALVES)
def test_few_rows_or_columns_of_16_bits_are_read_as_they_lie(precision, trans):
    rung, dtype = f"tuned_{precision}", HALVES[precision]
    for m, n, k in THIN_HALVES:
        a, b = (_random(*size).to(dtype) for size in ((m, k), (k, n)))
        c, bias = _random(m, n + 1)[:, 1:].contiguous(), _random(n)
        a = a.T.contiguous().T if trans[0] == "t" else a
        b = b.T.contiguous().T if trans[1] == "t" else b
        flags = int(trans[0] == "t"), int(trans[1] == "t")
        # The workspace holds only the parts' sums, no copies. No tensor cores are used,
        # since the sums are exact except for fp32's rounding.
        room = _workspace(rung, a, b, m, n, k, *flags)
        assert room and room % (4 * m * n) == 0
        got = ops.matmul(a, b, alpha=0.5, beta=2, c=c, bias=bias, relu=True)
        a, b, c = a.double(), b.double(), c.double()
        product = 0.5 * a @ b + 2 * c + bias.double()
        size = 0.5 * a.abs() @ b.abs() + 2 * c.abs() + bias.abs()
        assert ((got - product.relu()).abs() <= cases.sum_bound(k + 3, size)).all()


@pytest.mark.parametrize("precision", ["fp16", "bf16", "tf32", "3xtf32"])
def test_who_names_no_rung_gets_the_one_that_picks(precision):
    assert native.library("matmul", "cpu").rung(None, precision).name == (
        f"tuned_{precision}"
    )


@pytest.mark.parametrize("precision", ["tf32", "3xtf32"])
def test_where_memory_takes_the_time_floats_are_not_rounded_to_tf32(precision):
    a, b = _random(5, 3000), _random(3000, 40)
    got = ops.matmul(a, b, precision=precision)
    size = a.double().abs() @ b.double().abs()
    assert ((got - a.double() @ b.double()).abs() <= cases.sum_bound(3000, size)).all()
