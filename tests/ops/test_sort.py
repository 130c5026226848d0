"""sort: orders of every kind, equal keys, special floats, schedules, long arrays."""

import numpy as np
import pytest
import torch
from conftest import want_memory
from tiers import only

import weft
from weft.base.errors import ArgumentError
from weft.benchmarks import counted
from weft.cells.cpu.launch import open_runtime
from weft.ops.cases.orders import order_stably, take
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("sort")]
# Keys of a tile of kernels/sort: rung 3, and the two sizes of rung 4. On the CPU,
# integers without values have large tiles if there are at least two.
TILE, SMALL, LARGE = 8192, 24 * 256, 44 * 256
CACHED = 1 << 22  # with this many keys or more, plain C bypasses the caches
COUNTS = [1, 2, 31, 32, 33, TILE - 1, TILE, 2 * TILE + 1, SMALL - 1, SMALL, SMALL + 1]
COUNTS += [2 * LARGE - 1, 2 * LARGE, 2 * LARGE + 1]
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-45, -1e-45]


def draw(count: int, below: int = 2**32, seed: int = 0) -> torch.Tensor:
    """Draw int32 words: any bits, or whole numbers from 0 to below - 1."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(below, (count,), generator=generator)
    return words.to(torch.uint32).view(torch.int32)


def draw_floats(count: int, seed: int = 0) -> torch.Tensor:
    """Draw floats of any bits, which include each kind of special number."""
    x = draw(count, seed=seed).view(torch.float32).clone()
    x[::3] = torch.tensor(SPECIAL).repeat(count)[: len(x[::3])]
    return x


def bits_of(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32)


def want_sorted(x: torch.Tensor, rung: str, descending: bool = False) -> None:
    """Compare keys alone, pairs and indices with PyTorch, bit by bit."""
    order, values = order_stably(x, descending), draw(len(x), seed=1)
    want = bits_of(take(x, order))
    assert torch.equal(bits_of(weft.sort(x, None, descending, rung=rung)), want)
    keys, moved = weft.sort(x, values, descending, rung=rung)
    assert torch.equal(bits_of(keys), want) and torch.equal(moved, values[order])
    assert torch.equal(weft.argsort(x, descending, rung=rung), order.int())


@pytest.fixture
def library():
    """Yield the library, and reset its order and threads."""
    lib = native.library("sort", "cpu")
    yield lib
    lib.call("weft_set_order", 0)
    lib.call("weft_set_threads", 0)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("rung", RUNGS)
def test_each_kind_of_keys_has_pytorchs_order(rung, descending):
    want_sorted(draw(2000), rung, descending)
    want_sorted(draw(2000).view(torch.uint32), rung, descending)
    want_sorted(draw_floats(2000), rung, descending)


@pytest.mark.parametrize("rung", only(["reference"], RUNGS))
def test_equal_keys_keep_their_order(rung):
    x, index = draw(3 * TILE + 5, below=3), torch.arange(3 * TILE + 5)
    keys, moved = weft.sort(x, index.int(), rung=rung)
    assert torch.equal(keys, x.sort().values)
    for key in range(3):
        assert torch.equal(moved[keys == key].long(), index[x == key])


@pytest.mark.parametrize("rung", RUNGS)
def test_zeros_and_nan_are_equal_and_keep_their_bits(rung):
    # Two NaN of each sign, with different bits.
    nan = torch.tensor([0x7FC00000, 0x7F800001, -1, -0x7FFFFF], dtype=torch.int32)
    x = torch.cat([torch.tensor([0.0, -0.0, 1.0, -0.0]), nan.view(torch.float32)])
    got = bits_of(weft.sort(x, rung=rung))
    assert got.tolist() == [0, -(2**31), -(2**31), 0x3F800000, *nan.tolist()]
    got = bits_of(weft.sort(x, descending=True, rung=rung))
    assert got.tolist() == [*nan.tolist(), 0x3F800000, 0, -(2**31), -(2**31)]


@pytest.mark.parametrize("rung", only(["reference"], RUNGS))
def test_orders_that_are_hard(rung):
    count = TILE + 1
    ordered = torch.arange(count, dtype=torch.int32) - count // 2
    one_digit = draw(count, 256) << 16
    outlier = torch.full((count,), 5, dtype=torch.int32)
    outlier[77] = -(2**31)
    for x in ordered, ordered.flip(0), outlier, one_digit, torch.zeros(count).int():
        want_sorted(x, rung)


@pytest.mark.parametrize("count", only([1, 33], COUNTS))
@pytest.mark.parametrize("rung", RUNGS)
def test_any_length_and_any_address(rung, count):
    for shift in (0, 3):
        want_sorted(draw(count + shift)[shift:], rung)


@pytest.mark.parametrize("count", [LARGE * 2, LARGE * 3 + 1])
@pytest.mark.parametrize("descending", [False, True])
def test_large_tiles_sort_integers_of_both_kinds_in_both_orders(descending, count):
    for x in draw(count + 1)[1:], draw(count).view(torch.uint32):
        want = bits_of(take(x, order_stably(x, descending)))
        got = weft.sort(x, None, descending, rung="onesweep")
        assert torch.equal(bits_of(got), want)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("rung", ["multisplit", "onesweep"])
def test_places_past_the_end_come_after_the_lowest_and_highest_floats(rung, descending):
    """The last tile is not whole, and its keys have the extreme digits."""
    bits = torch.tensor([0xFF800000, 0x7F800000, 0xFFFFFFFF, 0x40000000, 0x7FFFFFFF])
    x = bits.to(torch.uint32).view(torch.float32).repeat(150)
    want_sorted(x, rung, descending)


@pytest.mark.parametrize("schedules", only([3], [3, 100]))
def test_every_schedule_of_onesweep_gives_the_same_bits(schedules, library):
    x = draw(2 * TILE + 77, below=1000)
    want, found = order_stably(x).int().numpy().tobytes(), set()
    for order in range(schedules):
        library.call("weft_set_order", order)
        library.call("weft_set_threads", 1 + order % 4)
        found.add(weft.argsort(x, rung="onesweep").numpy().tobytes())
    assert found == {want}


@pytest.mark.slow
def test_no_block_waits_for_one_that_cannot_begin(library):
    """On one thread, the blocks of the last tiles begin first."""
    x = draw(40 * TILE)
    library.call("weft_set_order", 1)
    library.call("weft_set_threads", 1)
    open_runtime().simt_set_timeout(20_000)
    try:
        assert torch.equal(weft.sort(x, rung="onesweep"), x.sort().values)
    finally:
        open_runtime().simt_set_timeout(0)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", only([100, 2**17 + 5], [100, 2**17 + 5, CACHED + 3]))
def test_plain_c_has_the_same_bits_for_any_number_of_threads(count, threads, library):
    library.call("weft_set_threads", threads)
    x = draw_floats(count)
    order = order_stably(x)
    assert torch.equal(bits_of(weft.sort(x)), bits_of(x[order]))
    if count < CACHED or threads == 2:
        assert torch.equal(weft.argsort(x), order.int())


@pytest.mark.parametrize("count", only([2**17], [2**17, CACHED + 1]))
def test_plain_c_sorts_keys_of_which_most_have_one_digit(count):
    """One bucket has most keys, so all threads sort from the lowest digit."""
    x = draw(count, below=2**20)
    x[::100] -= 2**31
    want_sorted(x, "reference")
    want_sorted(draw(count), "reference")


@pytest.mark.slow
@pytest.mark.parametrize("shifts", [(0, 0), (1, 1), (3, 0), (0, 2)])
def test_plain_c_writes_lines_at_any_address(shifts):
    """Long arrays are written in lines of 64 bytes; nothing around them changes."""
    x, count = draw(CACHED, below=50_000), CACHED
    rooms = [torch.full((count + 40,), -7, dtype=torch.int32) for _ in shifts]
    y, order = (room[s : s + count] for room, s in zip(rooms, shifts))
    arrays = [native.pointer(array, "int32_t *") for array in (y, order, x)]
    arguments = *arrays, native.NULL, count, native.NULL, native.NULL
    native.library("sort", "cpu").call("weft_sort", 0, *arguments)
    want = x.sort(stable=True)
    assert torch.equal(y, want.values) and torch.equal(order, want.indices.int())
    for room, shift in zip(rooms, shifts):
        assert (room[:shift] == -7).all() and (room[shift + count :] == -7).all()


def test_numpy_and_empty_arrays():
    keys, values = weft.sort(np.uint32([3, 2**32 - 1, 0]), np.float32([1, 2, 3]))
    assert keys.dtype == np.uint32 and keys.tolist() == [0, 3, 2**32 - 1]
    assert values.dtype == np.float32 and values.tolist() == [3, 1, 2]
    order = weft.argsort(np.float32([2, 1]))
    assert order.dtype == np.int32 and order.tolist() == [1, 0]
    nothing = torch.empty(0)
    assert [*map(len, weft.sort(nothing, nothing))] == [0, 0]
    assert weft.argsort(nothing).dtype == torch.int32


@pytest.mark.parametrize("descending", [False, True])
def test_numbers_in_the_order_of_argsort_have_the_gradients_of_a_sort(descending):
    x, dy = draw(70, 9).float(), torch.arange(70.0)
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    y = ours[weft.argsort(ours, descending)]
    assert torch.equal(y, weft.sort(x, None, descending))
    y.backward(dy)
    theirs.sort(stable=True, descending=descending).values.backward(dy.double())
    assert torch.equal(ours.grad.double(), theirs.grad)


def test_what_it_refuses():
    for x, words in {
        torch.zeros(2, 3): r"x is \(2, 3\), expected \(count,\)",
        torch.zeros(2).double(): "x is torch.float64, expected torch.int32 or",
        torch.zeros(3, requires_grad=True): r"no gradient flows to x: x\[weft.argsort",
    }.items():
        with pytest.raises(ArgumentError, match=f"sort: {words}"):
            weft.sort(x)
    with pytest.raises(ArgumentError, match=r"sort: values is \(2,\), expected \(3,\)"):
        weft.sort(torch.zeros(3), torch.zeros(2))
    with pytest.raises(ArgumentError, match="sort has no rung 'quick'"):
        weft.argsort(torch.empty(0), rung="quick")


def test_what_the_launcher_refuses():
    lib, x = native.library("sort", "cpu"), draw(4)
    pointer, null = native.pointer(x, "int32_t *"), native.NULL
    kind = native.ffi.new("struct weft_sort_options *", [3, 0])
    for arguments, words in {
        (pointer, null, pointer, null, 2**31, null): "count = 2147483648, at most",
        (pointer, null, pointer, null, 0, null): "count = 0, want at least 1",
        (pointer, null, pointer, null, 4, kind): "kind = 3, want 0 to 2",
        (pointer, null, pointer, pointer, 4, null): "values without sorted_values",
        (null, null, pointer, null, 4, null): "y is NULL",
    }.items():
        for rung in range(len(RUNGS)):
            with pytest.raises(ArgumentError, match=f"weft_sort: {words}"):
                lib.call("weft_sort", rung, *arguments, null)


@pytest.mark.slow
def test_the_last_rung_reads_the_keys_five_times():
    (row,) = counted.rows("sort", [3 * LARGE], ["onesweep"])
    # A run of 44 keys touches (44 + 7) / 8 sectors on average, not 5.5, and often spans
    # two requests.
    assert 1 < row["over_floor"] < 1.25 and row["kernels"] == 5


@pytest.mark.slow
def test_the_rungs_are_ranked_by_their_bytes():
    rows = {row["rung"]: row["over_floor"] for row in counted.rows("sort", [2**16])}
    assert list(rows) == ["onesweep", "multisplit", "three_kernels", "bitonic"]
    assert rows["multisplit"] > 1.5 * rows["onesweep"]


@pytest.mark.slow
def test_almost_2_to_the_31_keys():
    want_memory(20)
    x = torch.zeros(2**31 - 1, dtype=torch.int32)
    x[[5, 2**30, -1]] = torch.tensor([3, -1, 2], dtype=torch.int32)
    y = weft.sort(x)
    assert y[0] == -1 and y[-2:].tolist() == [2, 3] and not y[1:-2].any()
