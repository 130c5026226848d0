"""Passes, online softmaxes and owners of rows: the pictures show the right numbers."""

import math
import re

import numpy as np
import pytest

from weft.base.errors import ArgumentError
from weft.base.style import THREAD
from weft.see.pictures.rows import draw_owners, play_online, play_passes

NUMBERS = [1, 3, 2, 5]


def read_texts(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def read_bars(svg):
    """Return the widths of the bars, without rounded corners."""
    return [
        float(w) for w in re.findall(r'<rect [^>]*width="([\d.]+)"[^>]*rx="0"', svg)
    ]


# ---- passes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at, said",
    [(0, "0 reads, 0 writes"), (7, "7 reads, 0 writes"), (10, "10 reads, 2 writes")],
)
def test_only_the_last_pass_writes(at, said):
    svg = play_passes(NUMBERS, ["maximum", "sum", "quotients"]).svg((at,))
    assert f"{said} so far" in read_texts(svg)
    # Each pass that has begun has a cursor.
    assert svg.count("<circle") == math.ceil(at / 4)


def test_fewer_passes_read_less():
    player = play_passes(NUMBERS, ["maximum and sum", "quotients"])
    assert player.title == "2 passes over a row"
    assert player.account.endswith("8 reads, 4 writes")


# ---- one pass ------------------------------------------------------------------------


def test_the_bars_are_the_sum_before_and_after_each_number():
    player = play_online(NUMBERS)
    most, total, unit = -math.inf, 0.0, None
    for at, number in enumerate(NUMBERS, 1):
        new = max(most, number)
        kept, term = total * math.exp(most - new), math.exp(number - new)
        most, total = new, kept + term
        left, added = read_bars(player.svg((at,)))
        unit = unit or added / term
        assert left == pytest.approx(kept * unit, abs=0.2)
        assert added == pytest.approx(term * unit, abs=0.2)
        assert f"{total:.3f}, for the maximum {most:g}" in read_texts(player.svg((at,)))
    exact = np.exp(np.array(NUMBERS) - 5.0).sum()
    assert player.account.endswith(f"sum {exact:.3f}")


def test_a_new_maximum_differs_from_an_equal_number():
    account = play_online([2, 2, 4]).account
    assert "2: exp(2 - 2) = 1.000 is added; sum 2.000" in account
    assert "4: a new maximum; the sum shrinks by exp(2 - 4) = 0.135" in account


def test_the_still_picture_shows_the_last_new_maximum():
    assert play_online([1, 7, 6, 7]).start == (2,)
    assert play_online([3]).start == (1,)


def test_huge_numbers_do_not_overflow():
    assert play_online([1000, 1001]).account.endswith(f"sum {1 + math.exp(-1):.3f}")


@pytest.mark.parametrize(
    "play, why",
    [
        (lambda: play_online([]), "play_online: 0 numbers; 1 to 16"),
        (lambda: play_passes(range(17), ["sum"]), "play_passes: 17 numbers"),
        (lambda: play_online([1, math.inf]), r"\[1, inf\] are not all finite"),
        (lambda: play_passes(NUMBERS, []), "no passes"),
    ],
)
def test_rows_that_cannot_be_played_are_refused(play, why):
    with pytest.raises(ArgumentError, match=why):
        play()


# ---- owners --------------------------------------------------------------------------


def make_row(rung, cols, over_floor, lanes):
    return {
        **{"rung": rung, "rows": 4, "cols": cols},
        **{"over_floor": over_floor, "lanes": lanes},
    }


OWNERS = [
    *(make_row("thread", 32, 12.0, 32.0), make_row("warp", 32, 1.0, 8.0)),
    *(make_row("thread", 4096, 12.0, 1.0), make_row("warp", 4096, 1.5, 31.6)),
]


def test_bars_end_where_they_would_hide_others_and_lanes_are_counted():
    drawing = draw_owners(OWNERS)
    svg = drawing.svg((1,))
    long, short = read_bars(svg)
    assert (long, short) == (220, 165)  # 2 and 1.5 times the floor's 110 pixels
    assert {"12.00 (cut off)", "1.50", "4 x 4,096 numbers"} <= set(read_texts(svg))
    active = svg.count(f'fill="{THREAD}"')
    assert active == 1 + 32 and svg.count("<circle") == 64
    assert "32 columns: thread 12.00 times the floor, 32 of 32 lanes" in drawing.account


def test_the_best_rungs_have_bold_numbers():
    for at, best in ((0, "1.00"), (1, "1.50")):
        svg = draw_owners(OWNERS).svg((at,))
        bold = re.findall(r'font-weight="600"[^>]*>([\d.]+)', svg)
        assert bold == [best]


@pytest.mark.parametrize("rows", [[], OWNERS[:3]])
def test_owners_need_a_row_for_each_length(rows):
    with pytest.raises(ArgumentError, match="a row for each pair is required"):
        draw_owners(rows)
