"""Rounds and widths: the players of lesson 09a show the right numbers."""

import operator
import re

import numpy as np
import pytest

from weft.base.errors import ArgumentError
from weft.see.pictures.merge_rounds import list_halves, play_rounds, play_tree
from weft.see.pictures.warps import WIDTHS, draw_widths

NUMBERS = [3, 1, 7, 0, 4, 1, 6, 3]


def read_texts(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_a_tree_halves_its_places_and_ends_in_the_sum():
    assert list_halves(8) == [
        [(0, 4), (1, 5), (2, 6), (3, 7)],
        [(0, 2), (1, 3)],
        [(0, 1)],
    ]
    player = play_tree(NUMBERS)
    assert player.title == "8 values: 3 rounds, 7 merges"
    assert player.account.endswith(f"round 3, 1 merge: {sum(NUMBERS)}")


def test_the_rounds_to_come_have_no_values():
    player = play_tree(NUMBERS)
    shown = [
        sum(text.isdigit() for text in read_texts(player.svg((at,)))) for at in range(4)
    ]
    assert shown == [8, 16, 24, 32]


def test_a_scan_is_played_with_the_values_before_each_round():
    steps = [[(to, to - far) for to in range(far, 8)] for far in (1, 2, 4)]
    player = play_rounds(NUMBERS, steps)
    values = [text for text in read_texts(player.svg((3,))) if text.isdigit()]
    assert list(map(int, values[-8:])) == list(np.cumsum(NUMBERS))


def test_any_merge_can_be_played():
    player = play_tree([(3, 0), (7, 1)], max, "{0[0]} at {0[1]}".format)
    assert "7 at 1" in player.account
    # A place's own value is on the left.
    assert "round 1, 1 merge: -2" in play_tree([1, 3], operator.sub).account


@pytest.mark.parametrize(
    "play, why",
    [
        (lambda: list_halves(6), r"list_halves\(6\): .* power of two"),
        (lambda: list_halves(0), "power of two"),
        (
            lambda: play_rounds([1, 2], [[(0, 1)], [(0, 2)]]),
            r"round 2: \(0, 2\), but the places are 0 to 1",
        ),
        (lambda: play_rounds([1, 2], [[(0, -1)]]), "places are 0 to 1"),
        (
            lambda: play_tree([10**30] * 16, write=str),
            "16 values of up to .* wider than",
        ),
    ],
)
def test_rounds_that_cannot_be_played_are_refused(play, why):
    with pytest.raises(ArgumentError, match=why):
        play()


@pytest.mark.parametrize("at, width", list(enumerate(WIDTHS)))
def test_a_request_covers_as_many_sectors_as_a_lane_has_bytes(at, width):
    svg = draw_widths().svg((at,))
    words = read_texts(svg)
    requests = 16 // width
    assert any(
        re.fullmatch(rf"{width} bytes? per lane: {requests} requests? .*", text)
        for text in words
    )
    # Each lane has a line to its bytes of the first request.
    (path,) = re.findall(r'<path d="((?:M[^"L]+L[^"M]+){32})"', svg)
    ends = [float(x) for x in re.findall(r"L([\d.]+) ", path)]
    assert ends == sorted(ends)
    assert ends[-1] - ends[0] == pytest.approx(31 * width * 880 / 512, rel=0.01)


def test_a_width_that_no_load_has_is_refused():
    with pytest.raises(ArgumentError, match="draw_widths.*3.*1, 2, 4, 8, 16"):
        draw_widths(3)
