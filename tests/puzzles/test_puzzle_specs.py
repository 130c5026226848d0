"""The references and data of puzzles agree with the puzzles' texts."""

import numpy as np
import pytest

from weft import puzzles, sim
from weft.puzzles import execution, memory


@pytest.mark.parametrize("n", [1, 32, 33, 97, 1100])
def test_the_two_launches_of_a_scan_give_all_running_sums(n):
    a = np.random.default_rng(n).integers(-9, 10, n).astype(np.float32)
    blocks = -(-n // 32)
    out, totals = np.full(n, np.nan, np.float32), np.full(blocks, np.nan, np.float32)
    launch = dict(quiet=True, order="shuffled")
    sim(puzzles.scan_blocks.answer, **launch)[blocks, 32](out, totals, a, n)
    sim(puzzles.scan_add.answer, **launch)[blocks, 32](out, totals, n)
    assert np.array_equal(out, np.cumsum(a))


@pytest.mark.parametrize("n, kept", [(1, 1), (48, 26), (100, 41), (320, 200)])
def test_compacted_blocks_begin_at_the_scan_of_their_counts(n, kept):
    a = execution.signed(np.random.default_rng(0), n, kept)
    begin = execution.first_places(n, kept)
    parts = [part[part > 0] for part in np.split(a, range(32, n, 32))]
    assert len(begin) == len(parts) and (a > 0).sum() == kept
    for first, part in zip(begin, parts):
        assert np.array_equal(
            execution.spec_compact(a)[first : first + len(part)], part
        )


def rows(seed, shape=(9, 40)):
    return memory.rows_of_many_kinds(np.random.default_rng(seed), shape)


def test_quantised_numbers_come_back_within_half_a_scale():
    x = rows(0).astype(np.float32).astype(np.float64)
    q, scale, back = memory.spec_quantise(x)
    assert q.min() == -127 <= q.max() <= 127
    assert (np.abs(back - x) <= scale[:, None] / 2 * (1 + 1e-12)).all()


def test_rounding_errors_matter_only_next_to_a_half():
    x = rows(1)
    x[0] = 0
    x[0, :3] = 12.7, 0.25, 0.3  # divided by the scale of 0.1, these are 127, 2.5 and 3
    want = dict(zip(("q", "scale", "back"), memory.spec_quantise(x)))
    allowed = memory.bound(x, want)
    assert allowed["q"][0, 1] == 1 and allowed["back"][0, 1] >= want["scale"][0]
    assert allowed["q"][0, 2] == 0 and allowed["back"][0, 2] < 1e-6
    exact = want["scale"] == 1  # the rows of halves and of zeros
    assert exact.sum() >= 5 and not allowed["q"][exact].any()
    assert allowed["q"].sum() <= 2
