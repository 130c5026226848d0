"""reduce: rungs with the same bits, their errors, and odd inputs."""

import numpy as np
import pytest
import torch
from tiers import loop_over

import weft
from weft.base.errors import ArgumentError
from weft.toolchain import native

U = 2.0**-24
GRIDS = 0, 1, 3, 17
FIXED = "reference", "fixed_order"
SAME_GRID = "two_kernels", "last_block", "compensated"
RUNGS = [rung.name for rung in native.rungs("reduce")]


def draw(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def bits(x: torch.Tensor, rung: str, blocks: int = 0) -> int:
    return weft.reduce(x, blocks, rung=rung).view(torch.int32).item()


@pytest.mark.parametrize("count", [1, 2047, 2048, 2049, 70_001])
def test_fixed_order_gives_the_same_bits_for_every_grid_and_target(count):
    x = draw(count)
    values = {bits(x, "fixed_order", blocks) for blocks in GRIDS}
    assert values == {bits(x, "reference")}


@pytest.mark.slow
@pytest.mark.parametrize("count", [2048**2, 2048**2 + 1, 2 * 2048**2 + 4097])
def test_fixed_order_gives_the_same_bits_for_several_pieces_of_sums(count):
    x = draw(count)
    values = {bits(x, "fixed_order", blocks) for blocks in (0, 1, 7, 300)}
    assert values == {bits(x, "reference")}


@loop_over("count", [2**14 - 1, 2**14, 2**14 + 1, 2**15, 70_001])
def test_tickets_add_each_number_once(count):
    for shift, blocks in enumerate(GRIDS):
        x = torch.ones(count + shift)[shift:]
        assert weft.reduce(x, blocks, rung="tickets").item() == count


def test_fixed_order_gives_the_same_bits_for_every_alignment():
    x = draw(10_000)
    values = set()
    for shift in range(4):
        shifted = torch.empty(10_004)[shift : shift + 10_000].copy_(x)
        values |= {bits(shifted, rung) for rung in FIXED}
    assert len(values) == 1


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_reference_gives_the_same_bits_for_every_number_of_threads(threads):
    library = native.library("reduce", "cpu")
    x = draw(300_001)
    expected = bits(x, "reference")
    library.call("weft_set_threads", threads)
    try:
        assert bits(x, "reference") == expected
    finally:
        library.call("weft_set_threads", 0)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("rung", [*SAME_GRID, "fixed_order"])
def test_the_bits_depend_on_no_order_of_threads_and_blocks(rung, order):
    library = native.library("reduce", "cpu")
    x = draw(20_001)
    expected = bits(x, rung, 5)
    library.call("weft_set_order", order)
    try:
        assert bits(x, rung, 5) == expected
    finally:
        library.call("weft_set_order", 0)


@pytest.mark.parametrize("rung", ["two_kernels", "last_block"])
def test_another_grid_gives_other_bits_without_a_fixed_order(rung):
    x = draw(70_001)
    assert len({bits(x, rung, blocks) for blocks in GRIDS}) > 1


def test_the_tree_counts_twenty_million_ones_and_a_chain_does_not():
    ones = torch.ones(20_000_000)
    assert weft.reduce(ones, rung="reference").item() == 20_000_000
    assert np.cumsum(ones.numpy(), dtype=np.float32)[-1] == 2**24


def test_compensated_rounds_once_though_large_numbers_cancel():
    large, small = 1e6 * draw(20_000, 1), draw(20_000, 2)
    x = torch.cat([large, -large, small])
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(3))]
    exact = x.double().sum().item()
    # Ogita, Rump and Oishi 2005, proposition 4.5: u |sum| + gamma^2 sum |x|, where
    # gamma counts the additions between a number and the result: 15 in a thread,
    # 2 to join its four sums, 10 in the block, and 11 in the last block.
    gamma = 1.01 * 38 * U
    bound = U * abs(exact) + gamma**2 * x.double().abs().sum().item()
    assert abs(weft.reduce(x, 4, rung="compensated").item() - exact) <= bound
    assert abs(weft.reduce(x, rung="last_block").item() - exact) > bound


@pytest.mark.parametrize("rung", RUNGS)
@loop_over(
    "numbers",
    [[np.inf, 1, -5], [np.inf, -np.inf], [np.nan, 1], [3e38, 3e38, 3e38], [1e-45] * 9],
)
def test_special_numbers_give_the_sum_of_pytorch(rung, numbers):
    x = torch.tensor(numbers, dtype=torch.float32)
    np.testing.assert_equal(weft.reduce(x, rung=rung).item(), x.sum().item())


@pytest.mark.parametrize("rung", [*FIXED, *SAME_GRID])
def test_a_sum_of_negative_zeros(rung):
    x = torch.full((5,), -0.0)
    assert weft.reduce(x, rung=rung).item() == 0.0


def test_an_empty_array_has_the_sum_zero():
    assert weft.reduce(torch.empty(0)).item() == 0.0


def test_a_negative_number_of_blocks_is_refused():
    with pytest.raises(ArgumentError, match="blocks = -2, want at least 0"):
        weft.reduce(torch.ones(3), -2, rung="vector")


def test_the_gradient_has_the_shape_of_the_array():
    x = torch.ones(3, 4, requires_grad=True)
    (3 * weft.reduce(x)).backward()
    assert torch.equal(x.grad, torch.full((3, 4), 3.0))
