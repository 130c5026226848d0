"""Lesson 09d's counts of histograms, for bytes that the reader chooses."""

import numpy as np
import pytest

from weft.base.errors import ArgumentError
from weft.lessons.bandwidth import count_histograms

SAME, EACH = np.full(2048, 9, np.uint8), np.arange(2048, dtype=np.uint8)


def test_equal_bytes_conflict_unless_each_lane_has_a_copy():
    data = {"same": SAME, "each": EACH}
    rows = count_histograms(["shared", "copies"], data)
    conflicts = {(row["rung"], row["data"]): row["conflicts"] for row in rows}
    # Of 32 lanes with one byte, 31 wait.
    assert conflicts["shared", "same"] == pytest.approx(31 / 32, rel=0.02)
    assert conflicts["shared", "each"] < 0.05
    assert conflicts["copies", "same"] < 0.05
    assert [row["floor"] for row in rows] == [2048 + 8 * 256] * 4


@pytest.mark.parametrize("x", [SAME.astype(int), SAME.reshape(2, -1), SAME[:0]])
def test_other_arrays_are_refused(x):
    with pytest.raises(ArgumentError, match=r"count_histograms: mine is .*not uint8"):
        count_histograms(["shared"], {"mine": x})
