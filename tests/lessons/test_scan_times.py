"""Lesson 09c's running sums, timed on this processor."""

import pytest

from weft.base.errors import ArgumentError
from weft.lessons import bandwidth
from weft.lessons.bandwidth import time_scans


def test_running_sums_are_timed_over_the_fastest_copy(monkeypatch):
    monkeypatch.setattr(bandwidth, "SECONDS", 0.01)
    rows = time_scans(1000)
    assert [row["op"] for row in rows] == ["copy"] * 3 + ["scan"] * 3
    best = max(row["gbs"] for row in rows[:3])
    for row in rows:
        assert row["bytes"] == 2 * 4 * 1000
        assert row["over_floor"] == pytest.approx(best / row["gbs"])


def test_no_numbers_are_not_timed():
    with pytest.raises(ArgumentError, match=r"time_scans\(0\)"):
        time_scans(0)
