"""bincount: numbers outside the bins, threads, schedules, and many bins."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import want_memory

import weft
from weft.base.errors import ArgumentError
from weft.benchmarks import counted
from weft.ops.cases import find_op
from weft.toolchain import native

RUNGS = [rung.name for rung in native.rungs("bincount")]
MANY = 100_000  # bins that take several ranges


def draw(count: int, *limits: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(*limits, (count,), dtype=torch.int32, generator=generator)


def count_keys(x: torch.Tensor, bins: int) -> torch.Tensor:
    return torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins)


@pytest.fixture
def library():
    """Yield the library, and reset the order and the number of its threads."""
    library = native.library("bincount", "cpu")
    yield library
    library.call("weft_set_order", 0)
    library.call("weft_set_threads", 0)


@pytest.mark.parametrize("rung", RUNGS)
def test_numbers_outside_the_bins_are_ignored(rung):
    x = torch.tensor([-1, -(2**31), 0, 6, 7, 2**31 - 1, 6], dtype=torch.int32)
    assert weft.bincount(x, 7, rung=rung).tolist() == [1, 0, 0, 0, 0, 0, 2]
    for bins in (1, 300, MANY):
        x = draw(3000, -bins, 2 * bins)
        assert torch.equal(weft.bincount(x, bins, rung=rung), count_keys(x, bins))
        assert not weft.bincount(x.abs() + bins, bins, rung=rung).any()


@pytest.mark.parametrize("rung", [rung for rung in RUNGS if rung != "reference"])
def test_a_hundred_schedules_give_the_same_counts(library, rung):
    x = torch.cat([draw(1500, MANY), torch.full((1500,), MANY - 1, dtype=torch.int32)])
    for order in range(100):
        library.call("weft_set_order", order)
        assert torch.equal(weft.bincount(x, MANY, rung=rung), count_keys(x, MANY))


@pytest.mark.parametrize("bins", [1, 1024, 1025, 100_000, 300_000])
def test_plain_c_gives_the_same_counts_for_any_number_of_threads(library, bins):
    for x in (draw(200_003, -5, bins + 5), torch.full((200_003,), bins - 1).int()):
        for threads in (1, 2, 5):
            library.call("weft_set_threads", threads)
            got = weft.bincount(x, bins, rung="reference")
            assert torch.equal(got, count_keys(x, bins)), threads


@pytest.mark.parametrize("rung", RUNGS)
def test_numpy_and_empty_arrays(rung):
    counts = weft.bincount(np.int32([3, 1, 3]), 5, rung=rung)
    assert isinstance(counts, np.ndarray) and counts.dtype == np.int64
    assert counts.tolist() == [0, 1, 0, 2, 0]
    empty = weft.bincount(torch.empty(0, dtype=torch.int32), 5, rung=rung)
    assert torch.equal(empty, torch.zeros(5, dtype=torch.int64))


def test_what_it_refuses():
    x = torch.zeros(3, dtype=torch.int32)
    with pytest.raises(ArgumentError, match=r"bincount: x is \(1, 3\), expected"):
        weft.bincount(x[None], 5)
    with pytest.raises(ArgumentError, match="x is torch.int64, expected torch.int32"):
        weft.bincount(x.long(), 5)
    with pytest.raises(ArgumentError, match="bins = 0, want at least 1"):
        weft.bincount(x, 0)
    with pytest.raises(ArgumentError, match="bins"):
        weft.bincount(x, 2**31)


@pytest.mark.slow
def test_ranges_reads_all_numbers_for_each_range(monkeypatch):
    count, op = 2**17, find_op("bincount")
    monkeypatch.setattr(op, "bench", replace(op.bench, counted={"bins": MANY}))
    rows = {row["rung"]: row for row in counted.rows("bincount", [count])}
    moved = {rung: row["bytes"] / count for rung, row in rows.items()}
    assert moved["global"] == pytest.approx(4 + 32, rel=0.01)
    assert moved["ranges"] > 5 * 4
    assert rows["partition"]["kernels"] == 4 and rows["ranges"]["kernels"] == 1


@pytest.mark.slow
def test_more_than_2_to_the_31_numbers():
    want_memory(10)
    x = torch.zeros(2**31 + 17, dtype=torch.int32)  # untouched pages take no memory
    x[[5, 2**31, -1]] = 3
    counts = weft.bincount(x, 5, rung="reference")
    assert counts.tolist() == [2**31 + 14, 0, 0, 3, 0]
