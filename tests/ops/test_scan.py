"""scan: odd numbers, addresses and lengths, and rungs with the same bits."""

import numpy as np
import pytest
import torch
from conftest import want_memory
from tiers import in_two_lists, naming_case, only

import weft
from weft.base.errors import ArgumentError
from weft.cells.cpu.launch import open_runtime
from weft.ops.cases.streams import bound_scan, scan
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("scan")]
ONE_KERNEL = RUNGS[RUNGS.index("chained") :]
LATE = ["look_back", "look_back_warp", "items", "fallback"]  # their bits can change
FIXED = [name for name in RUNGS if name not in LATE]
LONG = {"reference": 3000, "bulk": 33_000}  # more than one tile
FLAGS = [(0, 0), (0, 1), (1, 0), (1, 1)]
INFINITY = float("inf")


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def want_scan(x: torch.Tensor, rung: str, *flags: int) -> None:
    """Assert that a rung's running sums are within their bound of float64's."""
    error = (weft.scan(x, *flags, rung=rung).double() - scan(x.double(), *flags)).abs()
    assert (error <= bound_scan(x, *flags)).all(), (len(x), rung, flags, error.max())


@pytest.fixture
def library():
    """Yield the library, and reset its order and threads."""
    lib = native.library("scan", "cpu")
    yield lib
    lib.call("weft_set_order", 0)
    lib.call("weft_set_threads", 0)


def collect_bits(lib: native.Library, rung: str, x: torch.Tensor, schedules) -> set:
    """Return the different bits of a rung for the orders and numbers of threads."""
    found = set()
    for order, threads in schedules:
        lib.call("weft_set_order", order)
        lib.call("weft_set_threads", threads)
        found.add(weft.scan(x, rung=rung).numpy().tobytes())
    return found


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("flags", only([(0, 0), (1, 1)], FLAGS), ids=str)
def test_odd_numbers_are_those_of_pytorch(rung, flags):
    for odd in (
        *([INFINITY, 1.0, -INFINITY], [-INFINITY, 2.0], [float("nan"), 1.0]),
        *([3e38, -3e38], [1e-42, -1e-42, 1e-45], [-0.0, -0.0]),
    ):
        for count in (len(odd), 1030, LONG.get(rung, 4100)):
            x = torch.zeros(count)
            first = (count - len(odd)) // 2
            x[first : first + len(odd)] = torch.tensor(odd)
            got, want = weft.scan(x, *flags, rung=rung), scan(x, *flags)
            assert torch.equal(got.isnan(), want.isnan())
            assert torch.equal(got.nan_to_num(), want.nan_to_num())
            assert not got.signbit()[got == 0].any()


@pytest.mark.parametrize("powers", in_two_lists([5, 12], range(1, 15)))
@pytest.mark.parametrize("rung", RUNGS)
def test_lengths_next_to_powers_of_two(rung, powers):
    for count in (2**power + one for power in powers for one in (-1, 0, 1)):
        with naming_case(count):
            want_scan(draw(count), rung, *FLAGS[count % 4])


@pytest.mark.parametrize("shift", only([1], [1, 2, 3]))
@pytest.mark.parametrize("rung", ["reference", "three_kernels", "fixed_order", "bulk"])
def test_arrays_that_begin_at_odd_addresses(rung, shift):
    count = 40_000 if rung == "bulk" else 9000
    for flags in FLAGS:
        want_scan(draw(count + 4)[shift : shift + count], rung, *flags)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("count", [16_384, 70_001, 2**21 + 5])
def test_pieces_of_plain_c(flags, count):
    want_scan(draw(count), "reference", *flags)


def test_more_tiles_than_one_block_scans_at_once():
    # The array has 1200 tiles, and so more than one window of 32 tiles.
    x = draw(300_001)
    for rung in ("kogge_stone", "fixed_order"):
        want_scan(x, rung)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_gradients_are_those_of_pytorch(flags):
    x, dy = draw(3000), draw(3000, seed=1)
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    weft.scan(ours, *flags).backward(dy)
    scan(theirs, *flags).backward(dy.double())
    bound = bound_scan(dy, flags[0], 1 - flags[1])
    assert ((ours.grad.double() - theirs.grad).abs() <= bound).all()


@pytest.mark.parametrize("rung", [name for name in FIXED if name != "reference"])
def test_the_bits_depend_on_no_order_of_blocks(rung, library):
    schedules = [(order, 1 + order % 3) for order in range(4)]
    assert len(collect_bits(library, rung, draw(9000), schedules)) == 1


@pytest.mark.parametrize("rung", ONE_KERNEL)
def test_no_block_waits_for_one_that_cannot_begin(rung, library):
    """On one thread, about 32 blocks of the last tiles begin first."""
    small_tiles = rung in ("chained", "look_back", "look_back_warp")
    tile = 1024 if small_tiles else {"fixed_order": 8192, "bulk": 16384}.get(rung, 4096)
    # The two blocks of bulk take one tile after another.
    x = draw((9 if rung == "bulk" else 45) * tile)
    library.call("weft_set_order", 1)
    library.call("weft_set_threads", 1)
    open_runtime().simt_set_timeout(20_000)
    try:
        want_scan(x, rung)
    finally:
        open_runtime().simt_set_timeout(0)


@pytest.mark.parametrize("schedules", only([10], [10, 100]))
@pytest.mark.parametrize("rung", ["fixed_order", "bulk"])
def test_fixed_order_has_the_same_bits_for_every_schedule(rung, schedules, library):
    schedules = [(order, 1 + order % 8) for order in range(schedules)]
    count = 100_001 if rung == "bulk" else 340_001
    assert len(collect_bits(library, rung, draw(count), schedules)) == 1


def add_in_tree(values: np.ndarray) -> np.float32:
    """Add up to 32 numbers as a warp's lanes do, with 0 for the absent ones."""
    lanes = np.zeros(32, np.float32)
    lanes[: len(values)] = values
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def add_tiles(sums: np.ndarray) -> np.ndarray:
    """Return each tile's prefix, as common/tile_tree.cuh defines it."""
    prefixes, groups, sections = [], [], np.float32(0)
    for tile, own in enumerate(sums):
        in_group = add_in_tree(sums[tile // 32 * 32 : tile])
        in_section = add_in_tree(np.float32(groups[tile // 1024 * 32 :]))
        prefixes.append(sections + (in_section + in_group))
        if tile % 32 == 31:
            groups.append(in_group + own)
        if tile % 1024 == 1023:
            sections += in_section + (in_group + own)
    return np.float32(prefixes)


# The last size has tiles of three sections.
@pytest.mark.parametrize("tiles", only([3, 40], [3, 40, 2100]))
def test_the_prefixes_of_fixed_order_are_those_of_a_tree(tiles):
    x = draw(tiles, 8192)
    first = weft.scan(x.view(-1), True, rung="fixed_order")[::8192]
    # After two tiles of zeros, the next number's prefix is the tile's sum.
    alone = torch.zeros(3 * 8192)
    sums = []
    for tile in x:
        alone[:8192] = tile
        sums.append(weft.scan(alone, True, rung="fixed_order")[8192])
    assert np.array_equal(first.numpy(), add_tiles(np.float32(sums)))


def add_ring(sums: np.ndarray) -> np.ndarray:
    """Return each tile's prefix, as common/tile_ring.cuh defines it."""
    prefixes, before = [], np.float32(0)
    for first in range(0, len(sums), 128):
        section = np.zeros(128, np.float32)
        for tile, own in enumerate(sums[first : first + 128]):
            prefixes.append(before + add_section(section))
            section[tile] = own
        before = before + add_section(section)
    return np.float32(prefixes)


def add_section(section: np.ndarray) -> np.float32:
    """Add 128 sums as a warp does: lane i has those at i, i + 32 and so on."""
    lanes = np.zeros(32, np.float32)
    for row in section.reshape(4, 32):
        lanes = lanes + row
    return add_in_tree(lanes)


# The last size has tiles of two sections.
@pytest.mark.parametrize("tiles", only([3], [3, 140]))
def test_the_prefixes_of_bulk_are_those_of_sections(tiles):
    x = draw(tiles, 16384)
    first = weft.scan(x.view(-1), True, rung="bulk")[::16384]
    alone = torch.zeros(3, 16384)
    sums = []
    for tile in x:
        alone[0] = tile
        sums.append(weft.scan(alone.view(-1), True, rung="bulk")[16384])
    assert np.array_equal(first.numpy(), add_ring(np.float32(sums)))


@pytest.mark.parametrize("rung", ["fixed_order", "bulk"])
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_short_and_long_arrays_with_both_sizes_of_tiles(rung, flags):
    for count in (2**14 - 1, 2**14, 2**15 + 16384 + 3):
        want_scan(draw(count), rung, *flags)


def test_a_block_computes_sums_of_tiles_that_have_not_begun(library):
    """In reverse order on one thread, no other block begins before that of the last
    tile."""
    x = draw(5 * 4096 + 7)
    forward, backward = [(0, 1)], [(1, 1)]
    want = collect_bits(library, "fallback", x, forward)
    # That block adds from right to left; in forward order it finds a prefix.
    assert collect_bits(library, "fallback", x, backward) != want
    want_scan(x, "fallback")


@pytest.mark.parametrize("count", [1000, 300_001, 2**21 + 1])
def test_the_bits_of_plain_c_depend_on_no_number_of_threads(count, library):
    schedules = [(0, threads) for threads in (1, 2, 5)]
    assert len(collect_bits(library, "reference", draw(count), schedules)) == 1


def test_empty_arrays_and_other_kinds():
    for flags in FLAGS:
        assert weft.scan(torch.empty(0), *flags).shape == (0,)
    x = np.ones(5, np.float32)
    assert weft.scan(x).tolist() == [1, 2, 3, 4, 5]
    assert weft.scan(x, exclusive=True, reverse=True).tolist() == [4, 3, 2, 1, 0]
    assert weft.scan(torch.ones(2), dim=0).tolist() == [1, 2]
    with pytest.raises(ArgumentError, match="dim=1: its kernels support only 0"):
        weft.scan(torch.ones(2), dim=1)
    with pytest.raises(ArgumentError, match=r"x is \(2, 3\), expected \(count,\)"):
        weft.scan(torch.ones(2, 3))


def test_sizes_that_no_grid_covers_are_refused_with_the_numbers(library):
    pointer = native.pointer(torch.zeros(1), "float *")
    for launcher in ("weft_scan", "weft_scan_backward"):
        with pytest.raises(ArgumentError, match="would have 549755813889 elements"):
            library.call(
                launcher, 1, pointer, pointer, 2**39 + 1, native.NULL, native.NULL
            )
        with pytest.raises(ArgumentError, match="count = 0, want at least 1"):
            library.call(launcher, 1, pointer, pointer, 0, native.NULL, native.NULL)


@pytest.mark.slow
def test_more_than_2_to_the_31_numbers():
    want_memory(10)
    x = torch.zeros(2**31 + 5)  # pages that are only read take no memory
    x[-3] = x[7] = 1.0
    y = weft.scan(x, rung="reference")
    assert y[6] == 0 and y[7] == y[2**31] == 1 and y[-4] == 1 and y[-3] == y[-1] == 2
