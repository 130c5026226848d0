"""softmax: odd rows, lengths and addresses, equal bits, and plain C's exponential."""

import numpy as np
import pytest
import torch
from conftest import want_memory
from tiers import in_two_lists, naming_case

import weft
from weft.base.errors import ArgumentError
from weft.ops.cases.rows import bound_softmax
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("softmax")]
KERNELS = [name for name in RUNGS if name != "reference"]
INFINITY = float("inf")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def want_softmax(x: torch.Tensor, rung: str) -> None:
    """Assert that a rung's softmax of x is within its bound of float64's."""
    error = (weft.softmax(x, rung=rung).double() - x.double().softmax(-1)).abs()
    assert (error <= bound_softmax(x)).all(), (tuple(x.shape), rung, error.max())


def compute_bits(rung: str, x: torch.Tensor, dy: torch.Tensor) -> bytes:
    """Return the bits of the softmax and of the gradient."""
    x = x.clone().requires_grad_()
    y = weft.softmax(x, rung=rung)
    y.backward(dy)
    return y.detach().numpy().tobytes() + x.grad.numpy().tobytes()


@pytest.mark.parametrize("rung", RUNGS)
def test_odd_rows_are_those_of_pytorch(rung):
    rows = [
        *([1000, 1001, -INFINITY], [INFINITY, 1, 2], [-INFINITY] * 3),
        *([float("nan"), 1, 2], [-INFINITY, float("nan"), -INFINITY]),
        *([INFINITY, -INFINITY, INFINITY], [3e38, -3e38, 0], [0, -100, -103.5]),
        *([1e-42, -1e-42, 0], [-0.0, 0.0, -0.0]),
    ]
    x = torch.tensor(rows, dtype=torch.float32)
    # The lengths also fill rows that several lanes and warps share, and pieces of plain
    # C, which keeps exponentials of up to 262,144 numbers.
    lengths = [1100] + [70_001, 270_001] * (rung == "reference")
    rows_of = {cols: torch.full((len(rows), cols), -INFINITY) for cols in lengths}
    for cols, wide in rows_of.items():
        wide[:, cols // 2 : cols // 2 + 3] = x
    for numbers in (x, *rows_of.values()):
        got, want = weft.softmax(numbers, rung=rung), numbers.softmax(-1)
        torch.testing.assert_close(got, want, rtol=1e-5, atol=2e-45, equal_nan=True)


@pytest.mark.parametrize("powers", in_two_lists([5, 10], range(1, 15)))
@pytest.mark.parametrize("rung", RUNGS)
def test_lengths_next_to_powers_of_two(rung, powers):
    for cols in (2**power + one for power in powers for one in (-1, 0, 1)):
        with naming_case(cols):
            want_softmax(draw(2, cols), rung)


@pytest.mark.parametrize("shift", [1, 2, 3])
@pytest.mark.parametrize("rung", ["reference", "warp_a_row", "row_in_shared"])
def test_rows_that_begin_at_odd_addresses(rung, shift):
    x = draw(1, 2 * 1100 + 4)[0, shift : shift + 2 * 1100].view(2, 1100)
    want_softmax(x, rung)


@pytest.mark.slow
@pytest.mark.parametrize("rung", KERNELS[3:])
def test_rows_longer_than_any_shared_memory(rung):
    # 32 blocks of the CPU target keep at most 32 * 24,576 numbers.
    x, dy = draw(1, 800_000), draw(1, 800_000, seed=1)
    want_softmax(x, rung)
    leaf, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    weft.softmax(leaf, rung=rung).backward(dy)
    wide.softmax(-1).backward(dy.double())
    torch.testing.assert_close(leaf.grad, wide.grad.float(), rtol=1e-3, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("cols", [25_000, 25_001])
def test_groups_of_blocks_take_one_row_after_the_other(cols):
    x, dy = draw(40, cols), draw(40, cols, seed=1)
    want_softmax(x, "split_rows")
    leaf, wide = x.clone().requires_grad_(), x.double().requires_grad_()
    weft.softmax(leaf, rung="split_rows").backward(dy)
    wide.softmax(-1).backward(dy.double())
    torch.testing.assert_close(leaf.grad, wide.grad.float(), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("cols", [64, 1100, 9000])
@pytest.mark.parametrize("rung", sorted({*RUNGS} - {"split_rows", "cluster_a_row"}))
def test_equal_numbers_of_a_row_have_equal_results(rung, cols):
    """All lanes and warps merge to the same bits.

    Two rungs are exceptions: their parts of a row, or their warps, have their own
    factors.
    """
    half = 3 * draw(2, cols // 2)
    y = weft.softmax(torch.cat([half, half.flip(1)], 1), rung=rung)
    assert torch.equal(y, y.flip(1))


@pytest.mark.parametrize("rung", KERNELS)
def test_the_bits_depend_on_no_schedule(rung):
    library = native.library("softmax", "cpu")
    x, dy = draw(3, 1100), draw(3, 1100, seed=1)
    expected = compute_bits(rung, x, dy)
    try:
        for order in (1, 2, 3, 17, 1234567):
            library.call("weft_set_order", order)
            assert compute_bits(rung, x, dy) == expected, order
    finally:
        library.call("weft_set_order", 0)


@pytest.mark.parametrize(
    "rows, cols", [(9, 1000), (1, 70_001), (3, 70_001), (1, 300_001)]
)
def test_the_bits_of_plain_c_depend_on_no_number_of_threads(rows, cols):
    library = native.library("softmax", "cpu")
    x, dy = draw(rows, cols), draw(rows, cols, seed=1)
    found = set()
    try:
        for threads in (1, 2, 5):
            library.call("weft_set_threads", threads)
            found.add(compute_bits("reference", x, dy))
    finally:
        library.call("weft_set_threads", 0)
    assert len(found) == 1


def test_the_exponential_of_plain_c_has_its_documented_error():
    # exp(v) is the numerator of softmax([v, 0]), whose sum and quotient add 3 units.
    v = torch.linspace(-110, 0, 40_001)
    y = weft.softmax(torch.stack([v, torch.zeros_like(v)], 1), rung="reference")[:, 0]
    wide = v.double()
    error = (y.double() - wide.exp() / (1 + wide.exp())).abs()
    assert (error <= 5 * 2.0**-24 * wide.exp() + 2.0**-149).all()
    assert y[v < -104].max() == 0 and y[v > -103].min() > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows, cols", [(300, 16_400), (4200, 1024), (34, 130_001), (5, 1_000_003)]
)
def test_plain_c_stores_large_results_past_the_caches(rows, cols):
    x = draw(rows, cols)
    want_softmax(x, "reference")


def test_empty_arrays_and_other_kinds():
    assert weft.softmax(torch.empty(0, 3)).shape == (0, 3)
    assert weft.softmax(torch.empty(3, 0)).shape == (3, 0)
    x = np.zeros((2, 3, 4), np.float32)
    assert np.array_equal(weft.softmax(x), np.full((2, 3, 4), 0.25, np.float32))
    assert weft.softmax(torch.zeros(4), dim=-1).tolist() == [0.25] * 4
    with pytest.raises(ArgumentError, match="dim=0: its kernels support only -1"):
        weft.softmax(torch.zeros(2, 2), dim=0)


def test_sizes_that_no_grid_covers_are_refused_with_the_numbers():
    lib = native.library("softmax", "cpu")
    pointer = native.pointer(torch.zeros(1), "float *")
    sizes = 2**31 - 1, 257
    with pytest.raises(ArgumentError, match="x would have 551903297279 elements"):
        lib.call("weft_softmax", 1, pointer, pointer, *sizes, native.NULL)
    with pytest.raises(ArgumentError, match="cols = 0, want at least 1"):
        lib.call("weft_softmax", 1, pointer, pointer, 3, 0, native.NULL)


@pytest.mark.slow
def test_more_than_2_to_the_31_numbers():
    want_memory(10)
    x = torch.zeros(2**16 + 1, 2**15)  # pages that are only read take no memory
    x[-1, -1] = 2.0
    y = weft.softmax(x)
    torch.testing.assert_close(y[-1], x[-1].softmax(-1))
    assert (y[-9:-1] == 2.0**-15).all() and (y[0] == 2.0**-15).all()
