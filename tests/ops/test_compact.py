"""compact: orders, special numbers, places in y, and sizes beyond the checks' cases."""

import numpy as np
import pytest
import torch
from conftest import want_memory

import weft
from weft.base.errors import ArgumentError, Mismatch
from weft.benchmarks import counted
from weft.ops import cases
from weft.ops.check import check_rung, compare
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("compact")]
UNORDERED = "atomic", "ballot"
ORDERED = [rung for rung in RUNGS if rung not in UNORDERED]
LONG = 40_000  # two tiles of the ring of bulk, and a part of one
PIECE = 1 << 14  # numbers of a piece of kernels/reference/compact.c
CACHED = 1 << 22  # with this many numbers or more, its stores bypass the caches


def draw(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, generator=torch.Generator().manual_seed(seed))


def bits_of(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.int32)


def keep(rung: str, y: torch.Tensor, x: torch.Tensor, threshold: float) -> int:
    """Call the launcher itself, so that y can have any address; return the count."""
    lib, kept = native.library("compact", "cpu"), torch.full((1,), -7)
    pointers = [native.pointer(array, "float *") for array in (y, x)]
    pointers.insert(1, native.pointer(kept, "int64_t *"))
    index = lib.rung(rung).index
    lib.call("weft_compact", index, *pointers, len(x), threshold, native.NULL)
    return kept.item()


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("rung", ORDERED)
def test_the_order_of_x_for_every_order_of_threads(rung, order):
    library, x = native.library("compact", "cpu"), draw(33_000)
    library.call("weft_set_order", order)
    try:
        for _ in range(3):
            assert torch.equal(weft.compact(x, 0.3, rung=rung), x[x > 0.3])
    finally:
        library.call("weft_set_order", 0)


@pytest.mark.parametrize("rung", UNORDERED)
def test_another_order_of_threads_gives_the_same_numbers(rung):
    library, x = native.library("compact", "cpu"), draw(3000)
    expected = x[x > 0]
    library.call("weft_set_order", 1)
    try:
        got = weft.compact(x, 0, rung=rung)
    finally:
        library.call("weft_set_order", 0)
    assert not torch.equal(got, expected)
    assert torch.equal(got.sort().values, expected.sort().values)


def test_the_check_of_an_ordered_rung_refuses_another_order():
    lib = native.library("compact", "cpu")
    check_rung(lib, lib.rung("atomic"))
    (case,) = [c for c in cases.cases("compact") if c.title == "count=4096"]
    answer = case.answers["y"]
    got = answer.want.float()
    got[:2] = got[:2].flip(0)
    with pytest.raises(Mismatch, match=r"y\[0\] is"):
        compare("y", got, answer)
    answer.any_order = int(case.answers["kept"].want)
    assert compare("y", got, answer) == 0


@pytest.mark.parametrize("rung", RUNGS)
def test_the_bits_of_zeros_infinities_and_denormals_stay(rung):
    numbers = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-45]
    many = LONG // len(numbers) if rung == "bulk" else 300
    x = torch.tensor(numbers, dtype=torch.float32).repeat(many)
    for threshold in (*numbers, -1.0):
        got, want = weft.compact(x, threshold, rung=rung), x[x > threshold]
        if rung in UNORDERED:
            got, want = bits_of(got).sort().values, bits_of(want).sort().values
        else:
            got, want = bits_of(got), bits_of(want)
        assert torch.equal(got, want), threshold


@pytest.mark.parametrize("rung", RUNGS)
def test_nothing_is_written_behind_the_kept_numbers(rung):
    count = LONG if rung == "bulk" else 4100
    x, room = draw(count + 100), torch.full((count + 200,), torch.nan)
    for shift in range(4):
        for from_ in range(4):
            y, part = room[shift : shift + count], x[from_ : from_ + count]
            room.fill_(torch.nan)
            kept = keep(rung, y, part, 1.0)
            assert kept == (part > 1).sum()
            assert torch.equal(y[:kept].sort().values, part[part > 1].sort().values)
            assert room[:shift].isnan().all() and y[kept:].isnan().all()


@pytest.mark.parametrize("shift", [0, 3])
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [PIECE, 2 * PIECE, 9 * PIECE + 5, CACHED + 1])
def test_plain_c_keeps_the_order_for_any_number_of_threads(count, threads, shift):
    library = native.library("compact", "cpu")
    x, room = draw(count), torch.full((count + shift,), torch.nan)
    library.call("weft_set_threads", threads)
    try:
        kept = keep("reference", room[shift:], x, 0.5)
    finally:
        library.call("weft_set_threads", 0)
    assert torch.equal(room[shift : shift + kept], x[x > 0.5])
    assert room[:shift].isnan().all() and room[shift + kept :].isnan().all()


@pytest.mark.parametrize("rung", RUNGS)
def test_numpy_and_empty_arrays(rung):
    x = np.float32([3, -1, 2])
    y = weft.compact(x, 0, rung=rung)
    assert isinstance(y, np.ndarray) and sorted(y) == [2, 3]
    assert weft.compact(x, 9, rung=rung).shape == (0,)
    assert weft.compact(torch.empty(0), 0, rung=rung).shape == (0,)


def test_what_it_refuses():
    with pytest.raises(ArgumentError, match=r"compact: x is \(2, 3\), expected"):
        weft.compact(torch.zeros(2, 3), 0)
    with pytest.raises(ArgumentError, match="no gradient flows to x"):
        weft.compact(torch.zeros(3, requires_grad=True), 0)
    lib, x = native.library("compact", "cpu"), torch.zeros(1)
    pointer = native.pointer(x, "float *")
    kept = native.pointer(torch.zeros(1, dtype=torch.int64), "int64_t *")
    arguments = pointer, kept, pointer, 2**39 - 255, 0.0, native.NULL
    with pytest.raises(ArgumentError, match="x would have 549755813633 elements"):
        lib.call("weft_compact", 0, *arguments)


@pytest.mark.slow
def test_the_last_rung_moves_what_it_must():
    for row in counted.rows("compact", [2**15], ["look_back", "bulk"]):
        assert 0.98 < row["over_floor"] < 1.05 and row["kernels"] == 1


@pytest.mark.slow
def test_the_rungs_are_ranked_by_their_bytes():
    rows = {row["rung"]: row for row in counted.rows("compact", [2**15])}
    assert list(rows)[:2] == ["bulk", "look_back"]
    assert rows["three_kernels"]["over_floor"] > 1.6
    # `atomic` adds once for each kept number, `ballot` once for every 32 numbers read.
    assert rows["atomic"]["atomics"] == pytest.approx(2**14, rel=0.05)
    assert rows["ballot"]["atomics"] == 2**10


@pytest.mark.slow
def test_more_than_2_to_the_31_numbers():
    want_memory(10)
    x = torch.zeros(2**31 + 17)  # untouched pages take no memory
    x[[5, 2**31 - 1, 2**31, -1]] = torch.arange(1.0, 5)
    assert weft.compact(x, 0).tolist() == [1, 2, 3, 4]
