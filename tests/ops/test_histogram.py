"""histogram: skewed bytes, alignments, threads, and sizes beyond the checks' cases."""

import numpy as np
import pytest
import torch
from conftest import want_memory

import weft
from weft.base.errors import ArgumentError
from weft.benchmarks import counted
from weft.ops.cases import find_op
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("histogram")]
KERNELS = [rung for rung in RUNGS if rung != "reference"]
PIECE = 1 << 17  # bytes of a piece of kernels/reference/histogram.c


def draw(count: int, below: int = 256) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(below, (count,), dtype=torch.uint8, generator=generator)


def count_bytes(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount(x, minlength=256)


@pytest.fixture
def library():
    """Yield the library, and reset the order and the number of its threads."""
    library = native.library("histogram", "cpu")
    yield library
    library.call("weft_set_order", 0)
    library.call("weft_set_threads", 0)


@pytest.mark.parametrize("rung", RUNGS)
def test_every_alignment_and_length(rung):
    x = draw(100)
    for first in range(17):
        for length in (1, 15, 16, 17, 31, 50, 83):
            part = x[first : first + length]
            assert torch.equal(weft.histogram(part, rung=rung), count_bytes(part))


@pytest.mark.parametrize("rung", KERNELS)
def test_a_hundred_schedules_give_the_same_counts(library, rung):
    x = torch.cat([draw(1000), torch.full((1000,), 7, dtype=torch.uint8)])
    for order in range(100):
        library.call("weft_set_order", order)
        assert torch.equal(weft.histogram(x, rung=rung), count_bytes(x))


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [PIECE, PIECE + 1, 3 * PIECE - 1, 5 * PIECE + 63])
def test_plain_c_gives_the_same_counts_for_any_number_of_threads(
    library, count, threads
):
    library.call("weft_set_threads", threads)
    for x in (draw(count), draw(count, 2), torch.zeros(count, dtype=torch.uint8)):
        assert torch.equal(weft.histogram(x, rung="reference"), count_bytes(x))


def test_plain_c_counts_runs_of_every_length():
    for length in (1, 63, 64, 65, 127, 128, 200):
        x = torch.arange(256, dtype=torch.uint8).repeat_interleave(length)
        counts = weft.histogram(x, rung="reference")
        assert torch.equal(counts, torch.full((256,), length))


@pytest.mark.parametrize("rung", RUNGS)
def test_numpy_and_empty_arrays(rung):
    counts = weft.histogram(np.uint8([3, 255, 3]), rung=rung)
    assert isinstance(counts, np.ndarray) and counts.dtype == np.int64
    assert counts[3] == 2 and counts[255] == 1 and counts.sum() == 3
    empty = weft.histogram(torch.empty(0, dtype=torch.uint8), rung=rung)
    assert torch.equal(empty, torch.zeros(256, dtype=torch.int64))


def test_what_it_refuses():
    with pytest.raises(ArgumentError, match=r"histogram: x is \(2, 3\), expected"):
        weft.histogram(torch.zeros(2, 3, dtype=torch.uint8))
    with pytest.raises(ArgumentError, match="x is torch.int8, expected torch.uint8"):
        weft.histogram(torch.zeros(3, dtype=torch.int8))
    lib = native.library("histogram", "cpu")
    x = native.pointer(torch.zeros(1, dtype=torch.uint8), "uint8_t *")
    counts = native.pointer(torch.zeros(256, dtype=torch.int64), "int64_t *")
    with pytest.raises(ArgumentError, match="x would have 549755813633 elements"):
        lib.call("weft_histogram", 0, counts, x, 2**39 - 255, native.NULL)
    with pytest.raises(ArgumentError, match="count = 0, want at least 1"):
        lib.call("weft_histogram", 0, counts, x, 0, native.NULL)
    with pytest.raises(ArgumentError, match="counts is NULL"):
        lib.call("weft_histogram", 0, native.NULL, x, 1, native.NULL)


@pytest.mark.parametrize("count", [2**16, 2**18])
def test_the_last_rung_moves_what_it_must_and_no_lane_waits(count):
    (row,) = counted.rows("histogram", [count], ["copies"])
    assert 1 <= row["over_floor"] < 1.05 and row["kernels"] == 1
    assert row["shared_atomics"] == count and row["bank_conflicts"] == 0


def count_rungs(monkeypatch, x: torch.Tensor) -> dict[str, dict]:
    """Return the counted rows of all kernels for these bytes, by rung."""
    monkeypatch.setattr(find_op("histogram"), "draw", lambda sizes: [x])
    return {row["rung"]: row for row in counted.rows("histogram", [len(x)])}


@pytest.mark.slow
def test_the_additions_and_the_lanes_that_wait(monkeypatch):
    count = 2**16
    random = count_rungs(monkeypatch, draw(count))
    equal = count_rungs(monkeypatch, torch.full((count,), 9, dtype=torch.uint8))
    assert random["global"]["atomics"] == equal["global"]["atomics"] == count
    for rung in ("shared", "vector", "copies"):
        for rows in (random, equal):
            assert rows[rung]["shared_atomics"] == count, rung
    # 32 random lanes put 3.5 values into the fullest of 32 banks, on average. 32 equal
    # lanes put all 32 into one bank.
    requests = count // 32
    for rung in ("shared", "vector"):
        assert random[rung]["bank_conflicts"] == pytest.approx(2.5 * requests, rel=0.05)
        assert equal[rung]["bank_conflicts"] == 31 * requests
        assert equal[rung]["atomics"] == 256 * (random[rung]["atomics"] // 256) / 256
    # 32 random bytes have 30.1 different values.
    different = 256 * (1 - (255 / 256) ** 32)
    aggregated = random["aggregated"]["shared_atomics"]
    assert aggregated == pytest.approx(different * requests, rel=0.01)
    assert equal["aggregated"]["shared_atomics"] == requests
    for rows in (random, equal):
        assert rows["copies"]["bank_conflicts"] == 0


@pytest.mark.slow
def test_more_than_2_to_the_31_equal_bytes():
    want_memory(4)
    x = torch.zeros(2**31 + 17, dtype=torch.uint8)  # untouched pages take no memory
    x[[5, 2**31, -1]] = 3
    counts = weft.histogram(x, rung="reference")
    assert counts[0] == 2**31 + 14 and counts[3] == 3 and counts.sum() == len(x)
