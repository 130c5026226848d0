"""Lesson 08b's interpretation of ncu's counters."""

import pytest

from weft.lessons.ladder.results import cycles_of, stalls_of

ROW = {"active": 900.0, "elapsed": 1000.0, "fma_pipe": 80.0, "issue": 90.0}


def test_each_cycle_is_one_of_four_things():
    shares = cycles_of(ROW)
    assert [*shares.values()] == pytest.approx([72, 9, 9, 10])
    assert sum(shares.values()) == pytest.approx(100)


def test_stalls_are_shares_of_a_warps_time_the_longest_first():
    row = ROW | {"warp_cycles": 8.0, "stall_wait": 1.0, "stall_barrier": 2.0}
    row |= {"stall_not_selected": 4.0, "stall_membar": None, "stall_sleeping": 0.0}
    assert [*stalls_of(row).items()] == [("barrier", 25.0), ("wait", 12.5)]
    assert stalls_of(ROW) == {}
