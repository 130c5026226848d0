"""topk: ties, special numbers, orders of rows and threads, and all its paths."""

import numpy as np
import pytest
import torch
from conftest import want_memory
from tiers import loop_over, only

import weft
from weft.base.errors import ArgumentError
from weft.benchmarks import counted
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("topk")]
KERNELS = RUNGS[1:]
SHARED = 1 << 16  # minimum length of a row that threads of plain C share
LINE = 32  # numbers in 128 bytes, the unit of the sample of "filtered"


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def select(x: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the values and indices of a stable sort, which has topk's order."""
    order = x.sort(dim=-1, descending=True, stable=True)
    return order.values[..., :k], order.indices[..., :k]


def want_same(x: torch.Tensor, k: int, rung: str) -> None:
    """Assert that values have the right bits, and that indices are right."""
    values, indices = weft.topk(x, k, rung=rung)
    _, places = select(x, k)
    assert torch.equal(indices, places), (rung, k)
    numbers = x.gather(-1, places)
    assert torch.equal(values.view(torch.int32), numbers.view(torch.int32)), rung


@pytest.mark.parametrize("rung", RUNGS)
def test_the_lower_index_of_equal_numbers_comes_first(rung):
    for k in (1, 5, 90):
        want_same(torch.ones(2, 90), k, rung)
        want_same(draw(2, 90).round(), k, rung)
        want_same(torch.tensor([-0.0, 0.0]).repeat(2, 45), k, rung)


@pytest.mark.parametrize("rung", RUNGS)
def test_nan_is_the_largest_and_every_bit_stays(rung):
    bits = [0x7FC00001, -1, 0x7F800000, -0x800000, -(2**31), 0, 1, -(2**31) + 1]
    special = torch.tensor(bits, dtype=torch.int32).view(torch.float32)
    for k in (1, 3, 17, 40):
        want_same(special.repeat(2, 5), k, rung)
    want_same(torch.full((1, 70), torch.nan), 40, rung)
    want_same(torch.full((1, 70), -torch.inf), 40, rung)


@pytest.mark.parametrize("rung", RUNGS)
@loop_over("cols", [31, 32, 33, 255, 257, 1024, 1025])
def test_every_part_of_a_row_and_the_whole_of_it(rung, cols):
    x = draw(2, cols)
    for k in {1, 2, cols // 2, cols - 1, cols}:
        want_same(x, k, rung)


@pytest.mark.parametrize("schedules", only([6], [6, 100]))
@pytest.mark.parametrize("rung", KERNELS)
def test_every_schedule_gives_the_same_bits(rung, schedules):
    library, x = native.library("topk", "cpu"), draw(1, 9000).round(decimals=1)
    x = x if rung != "sort" else x[:, :600]
    try:
        for order in range(schedules):
            library.call("weft_set_order", order)
            library.call("weft_set_threads", 1 + order % 8)
            want_same(x, 20, rung)
    finally:
        library.call("weft_set_order", 0)
        library.call("weft_set_threads", 0)


def fool_sample(cols: int, lines: int, low: float) -> torch.Tensor:
    """Return a row whose numbers exceed `low` only where no sample reads.

    The row begins at a multiple of 128 bytes. lines: the sample's number of lines.
    """
    base = torch.empty(1, cols + LINE)
    start = -base.data_ptr() // 4 % LINE
    x = base[:, start : start + cols].copy_(draw(1, cols).abs() + low)
    i, stride = torch.arange(lines), cols // LINE // lines
    x.view(-1, LINE)[i * stride + (i * 2654435769 % 2**32 * stride >> 32)] = low
    return x


@pytest.mark.parametrize(("cols", "k", "lines"), [(2**14, 8, 32), (2**17, 100, 512)])
def test_a_sample_that_shows_nothing_costs_time_only(cols, k, lines):
    want_same(fool_sample(cols, lines, -1.0), k, "filtered")


@pytest.mark.parametrize("order", ["rising", "falling", "equal", "ties"])
def test_more_candidates_than_a_block_lists(order):
    x = draw(1, (1 << 17) + 5)
    rising = x.sort().values
    rows = {"rising": rising, "falling": rising.flip(1), "equal": torch.ones_like(x)}
    want_same((rows | {"ties": x.round()})[order], 100, "filtered")


def test_candidates_that_one_block_cannot_sort_are_selected_by_digits():
    want_same(draw(1, 1 << 18), 1500, "filtered")


def test_a_block_selects_in_several_rows_by_digits():
    want_same(draw(40, 300).round(decimals=1), 50, "radix_select")


@pytest.mark.parametrize("k", [1, 8, 32])
@pytest.mark.parametrize("cols", [1021, 1028, 2048, 2049, 4095, 4096])
def test_a_warp_selects_in_short_rows(cols, k):
    """More numbers may reach the floor than a warp lists. Some warps have two rows."""
    x = draw(60, cols)
    x[1], x[2], x[3] = x[1].sort().values, x[2].round(), 0.0
    x[4] = x[4].sort(descending=True).values
    x[5, ::3], x[6] = torch.nan, -torch.inf
    want_same(x, k, "batched")
    shifted = torch.empty(x.numel() + 1)[1:].view(x.shape).copy_(x)
    want_same(shifted[:8], k, "batched")


@pytest.mark.parametrize(("cols", "k"), [(8193, 7), (40_000, 64), (40_001, 200)])
def test_blocks_share_a_long_row(cols, k):
    want_same(draw(2, cols), k, "batched")
    want_same(draw(2, cols).sort().values, k, "batched")
    want_same(torch.zeros(1, cols), k, "batched")


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("rows, cols", [(1, SHARED + 5), (3, 70_000), (40, 999)])
def test_plain_c_gives_the_same_for_any_number_of_threads(rows, cols, threads):
    library, x = native.library("topk", "cpu"), draw(rows, cols).round(decimals=2)
    library.call("weft_set_threads", threads)
    try:
        for k in (1, 64, 900):
            want_same(x, k, "reference")
            want_same(x.sort().values, k, "reference")
        want_same(torch.zeros(rows, cols), 300, "reference")
    finally:
        library.call("weft_set_threads", 0)


def test_plain_c_selects_most_of_a_row():
    x = draw(100_003)
    want_same(x[None], 60_000, "reference")
    want_same(x.sort().values[None], 100_003, "reference")


@pytest.mark.parametrize("rung", ["reference", "batched"])
def test_dimensions_and_numpy(rung):
    x = draw(2, 3, 40)
    for lead in (x, x[0], x[0, 0]):
        values, indices = weft.topk(lead, 4, rung=rung)
        want, places = torch.topk(lead, 4)
        assert torch.equal(values, want) and torch.equal(indices, places)
    values, indices = weft.topk(x.numpy(), 4, rung=rung)
    assert isinstance(values, np.ndarray) and values.dtype == np.float32
    assert isinstance(indices, np.ndarray) and indices.dtype == np.int64
    values, indices = weft.topk(x[:0], 4, rung=rung)
    assert values.shape == indices.shape == (0, 3, 4)


def want_gradient(x: torch.Tensor, k: int, rung: str) -> None:
    """Assert that the gradient of x is that of a stable sort in float64."""
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    values, indices = weft.topk(ours, k, rung=rung)
    assert values.requires_grad and not indices.requires_grad
    dvalues = draw(*values.shape, seed=1)
    values.backward(dvalues)
    select(theirs, k)[0].backward(dvalues.double())
    assert torch.equal(ours.grad.double(), theirs.grad)


@pytest.mark.parametrize("rung", RUNGS)
def test_gradients_flow_to_the_chosen_numbers(rung):
    for k in (1, 7, 40):
        want_gradient(draw(3, 40), k, rung)
        want_gradient(draw(3, 40).round(), k, rung)  # ties
        want_gradient(draw(2, 2, 40), k, rung)
    want_gradient(draw(40), 3, rung)


@pytest.mark.parametrize("threads", [1, 5])
@pytest.mark.parametrize("rows, cols", [(1, (1 << 20) + 9), (40, 999)])
def test_plain_c_clears_the_gradient_with_any_number_of_threads(rows, cols, threads):
    library = native.library("topk", "cpu")
    library.call("weft_set_threads", threads)
    try:
        want_gradient(draw(rows, cols), 8, "reference")
    finally:
        library.call("weft_set_threads", 0)


@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 5)])
def test_the_gradient_of_no_rows_is_empty(shape):
    x = torch.zeros(*shape, requires_grad=True)
    weft.topk(x, 2)[0].sum().backward()
    assert x.grad.shape == shape


def test_the_gradient_meets_other_gradients():
    x = draw(2, 9).requires_grad_()
    values, indices = weft.topk(x, 2)
    (values.sum() + x.gather(-1, indices).sum() + x.sum()).backward()
    chosen = torch.zeros(2, 9).scatter(-1, indices, 1.0)
    assert torch.equal(x.grad, 1 + 2 * chosen)
    with torch.no_grad():
        assert not weft.topk(x, 2)[0].requires_grad


@pytest.mark.parametrize("rung", range(len(RUNGS)))
def test_the_launcher_of_the_gradient_refuses_bad_indices(rung):
    lib, dx = native.library("topk", "cpu"), torch.full((2, 3), 7.0)
    arrays = [native.pointer(array, "float *") for array in (dx, torch.ones(2, 1))]
    for bad in (3, -1, 2**40):
        indices = torch.tensor([[1], [bad]])
        pointers = *arrays, native.pointer(indices, "int64_t *")
        words = rf"weft_topk_backward: indices\[1\] = {bad}, want 0 to 2"
        with pytest.raises(ArgumentError, match=words):
            lib.call("weft_topk_backward", rung, *pointers, 2, 3, 1, native.NULL)
    with pytest.raises(ArgumentError, match=r"k = 4, want 1 to 3"):
        lib.call("weft_topk_backward", rung, *pointers, 2, 3, 4, native.NULL)
    assert (dx == 7).all()


def test_what_it_refuses():
    for k in (0, 4):
        with pytest.raises(ArgumentError, match=rf"k = {k}, want 1 to 3, the number"):
            weft.topk(torch.zeros(2, 3), k)
    with pytest.raises(ArgumentError, match="largest=False: its kernels support only"):
        weft.topk(torch.zeros(3), 1, largest=False)
    lib, x = native.library("topk", "cpu"), torch.zeros(1)
    floats = native.pointer(x, "float *")
    places = native.pointer(torch.zeros(1, dtype=torch.int64), "int64_t *")
    for rows, cols, words in (
        (1, 2**32, r"cols = 4294967296, want 1 to 4294967295"),
        (2**31, 1, r"rows = 2147483648, want 1 to 2147483647"),
        (2**20, 2**20, r"x would have 1099511627776 elements"),
    ):
        arguments = floats, places, floats, rows, cols, 1, native.NULL
        with pytest.raises(ArgumentError, match=words):
            lib.call("weft_topk", 0, *arguments)


@pytest.mark.slow
def test_the_last_rung_moves_what_it_must():
    (row,) = counted.rows("topk", [1024], ["batched"])
    assert row["over_floor"] == 1 and row["kernels"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("cols", [2**14, 2**16, 2**20, 2**22])
def test_the_last_rung_moves_little_more_for_long_rows(cols):
    (row,) = counted.rows("topk", [cols], ["batched"])
    assert 1 <= row["over_floor"] <= 1.05


@pytest.mark.slow
def test_a_filter_reads_a_row_once():
    rows = {
        r["rung"]: r["over_floor"] for r in counted.rows("topk", [2**20], KERNELS[2:])
    }
    assert rows["filtered"] < 1.1 and rows["radix_select"] > 3


@pytest.mark.slow
def test_more_than_2_to_the_31_columns():
    want_memory(10)
    x = torch.zeros(2**31 + 17)  # untouched pages take no memory
    x[[5, 2**31 - 1, 2**31, -1]] = torch.arange(1.0, 5)
    values, indices = weft.topk(x, 5)
    assert values.tolist() == [4, 3, 2, 1, 0]
    assert indices.tolist() == [2**31 + 16, 2**31, 2**31 - 1, 5, 0]
