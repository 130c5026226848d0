"""The sizes of a puzzle's checks include every small length of each side."""

import pytest
from tiers import loop_over

from weft import ArgumentError, puzzles
from weft.check.cases import size_list
from weft.puzzles.instance import every_size

MOST = {  # the maximum length of a side, where it is below 16
    "pooling": {"n": 8},
    "dot": {"n": 8},
    "axis_sum": {"cols": 8},
    "softmax": {"cols": 8},
    "argmax": {"rows": 8},
    "conv1d": {"k": 4},
    "quantise": {"rows": 8},
    "coalescing": {"each": 8},
    "compact": {"kept": 9},
    "stable_compaction": {"kept": 9},
}


def lengths(puzzle, name):
    """Return all lengths of a side in a puzzle's sizes."""
    symbols = list(puzzle.drawn)
    rows = size_list(puzzle.checks["sizes"], symbols)
    return {row[name] for row in rows}


@loop_over("name", [puzzle.name for puzzle in puzzles])
def test_each_side_has_every_small_length(name):
    puzzle = puzzles[name]
    unit = 64 if name == "divergence" else 1  # lengths are multiples of this number
    for side in puzzle.drawn:
        most = MOST.get(name, {}).get(side, 16)
        expected = {unit * n for n in range(1, most + 1)}
        assert expected <= lengths(puzzle, side), (
            side,
            expected - lengths(puzzle, side),
        )


def test_own_sizes_come_first_and_large_ones_last():
    assert every_size([8, 1], 100, most=4) == [8, 1, 2, 3, 4, 100]
    first, *middle, last = every_size([(2, 6)], (40, 3), most=(16, 8))
    assert first == (2, 6) and last == (40, 3)
    assert {cols for _, cols in middle} == set(range(1, 9))
    assert len({row for row in middle}) == len(middle)


@pytest.mark.parametrize(
    "own, most, says",
    [
        ([], 16, "at least one size"),
        ([(1, 2), 3], 16, "1 sides, not 2"),
        ([(1, 2), (1, 2, 3)], 16, "3 sides, not 2"),
        ([(1, 2)], (1, 2, 3), "expected 2 lengths, one for a side"),
    ],
)
def test_incompatible_sizes_are_refused(own, most, says):
    with pytest.raises(ArgumentError, match=says):
        every_size(own, most=most)
