"""Lesson 09b's softmaxes, timed and counted, and a reader's own rung of softmax."""

import pytest

from weft.base.errors import ArgumentError, Mismatch
from weft.benchmarks import counted
from weft.lessons import bandwidth
from weft.lessons.bandwidth import copy_rung, count_owners, time_softmax


def test_a_softmax_is_timed_over_the_fastest_copy(monkeypatch):
    monkeypatch.setattr(bandwidth, "SECONDS", 0.01)
    rows = time_softmax(16, 64)
    assert [row["op"] for row in rows] == ["copy"] * 3 + ["softmax"] * 3
    best = max(row["gbs"] for row in rows[:3])
    for row in rows:
        assert row["bytes"] == 2 * 4 * 16 * 64
        assert row["over_floor"] == pytest.approx(best / row["gbs"])


@pytest.mark.parametrize("sizes", [(0, 4), (4, 0)])
def test_a_softmax_without_numbers_is_not_timed(sizes):
    with pytest.raises(ArgumentError, match="both must be at least 1"):
        time_softmax(*sizes)


def test_owners_are_in_the_order_of_the_lengths_and_then_of_the_rungs(monkeypatch):
    rows = [{"cols": cols, "rung": rung} for rung in "ab" for cols in (32, 64)]
    monkeypatch.setattr(counted, "rows", lambda *_: rows)
    ordered = [(row["cols"], row["rung"]) for row in count_owners("ba", [64, 32])]
    assert ordered == [(64, "b"), (64, "a"), (32, "b"), (32, "a")]


@pytest.mark.slow
def test_an_owner_keeps_rows_up_to_its_memory_and_needs_lanes():
    rungs = ["warp_a_row", "online"]
    rows = count_owners(rungs, [128, 2048])
    assert [(row["cols"], row["rung"]) for row in rows] == [
        *((128, "warp_a_row"), (128, "online")),
        *((2048, "warp_a_row"), (2048, "online")),
    ]
    short, _, long, thread = rows
    assert (short["over_floor"], long["over_floor"]) == (1, 1.5)
    assert thread["over_floor"] == 12 and short["lanes"] == thread["lanes"] == 32


@pytest.mark.slow
def test_a_rung_is_checked_once_for_all_lengths(monkeypatch):
    checked = []
    monkeypatch.setattr(counted, "check_rung", lambda lib, rung: checked.append(rung))
    counted._check_once.cache_clear()
    count_owners(["warp_a_row"], [32, 64, 128])
    counted._check_once.cache_clear()  # later tests repeat the check
    assert [rung.name for rung in checked] == ["warp_a_row"]


@pytest.mark.slow
def test_a_warp_with_more_registers_keeps_a_longer_row(tmp_path):
    file = tmp_path / "mine.cu"
    mine = copy_rung("softmax", "warp_a_row", file)
    text = file.read_text().replace("MOST = 1024", "MOST = 2048")
    file.write_text(text)
    with pytest.raises(Mismatch, match="cols=1025"):
        mine.check()  # longer rows select kernels that keep 1,024 numbers
    for kernel in "soften", "differentiate":
        line = f"if (cols > 4 * PER_WARP) return {kernel}_in_registers<WIDE, 8>;"
        more = line.replace("4", "8").replace(" 8>", " 16>")
        assert line in text
        text = text.replace(line, more + line)
    file.write_text(text)
    assert mine.count(2048)["over_floor"] == 1
