"""Compaction, scans and waiting blocks: the pictures of lesson 09c."""

import re

import numpy as np
import pytest

from weft.base.errors import ArgumentError
from weft.see.pictures import scans
from weft.see.pictures.merge_rounds import compute_rows
from weft.see.pictures.scans import (
    FINAL,
    PARTIAL,
    count_windows,
    draw_compaction,
    draw_windows,
    list_brent_kung,
    list_kogge_stone,
    play_chain,
    play_scans,
    run_blocks,
)

NUMBERS = [3, 1, 7, 0, 4, 1, 6, 3]


def read_texts(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


# ---- compaction and scans ------------------------------------------------------------


def test_kept_numbers_move_to_their_exclusive_scan():
    drawing = draw_compaction([3, 8, 4, 7], [False, True, True, False])
    assert drawing.title == "2 of 4 numbers kept, in order"
    assert drawing.account.endswith("Exclusive scan: 0, 0, 1, 2. 8 to 0, 4 to 1")
    arrows = [drawing.svg((at,)).count('stroke-width="1.3"') for at in range(3)]
    assert arrows == [0, 0, 2]
    assert "scan" not in read_texts(drawing.svg((0,)))
    assert "scan" in read_texts(drawing.svg((1,)))


@pytest.mark.parametrize("numbers, kept", [([], []), (range(17), [1] * 17), ([1], [])])
def test_a_compaction_that_has_no_room_is_refused(numbers, kept):
    with pytest.raises(ArgumentError, match="equal counts, 1 to 16"):
        draw_compaction(numbers, kept)


@pytest.mark.parametrize("list_rounds", [list_kogge_stone, list_brent_kung])
@pytest.mark.parametrize("count", [1, 2, 4, 8, 64, 1024])
def test_both_scans_compute_running_sums(list_rounds, count):
    values = np.random.default_rng(count).integers(-9, 10, count).tolist()
    rows = compute_rows(values, list_rounds(count), lambda own, other: own + other)
    assert rows[-1] == np.cumsum(values).tolist()


def test_one_scan_has_fewer_rounds_and_the_other_fewer_additions():
    stone, kung = list_kogge_stone(64), list_brent_kung(64)
    assert (len(stone), len(kung)) == (6, 11)
    assert (sum(map(len, stone)), sum(map(len, kung))) == (321, 120)
    with pytest.raises(ArgumentError, match=r"list_brent_kung\(6\): .* power of two"):
        list_brent_kung(6)


def test_a_scan_that_has_ended_stays_beside_the_other():
    drawing = play_scans(NUMBERS)
    assert drawing.account == (
        "Kogge-Stone: 3 rounds, 17 additions; Brent-Kung: 5 rounds, 11 additions"
    )
    last = read_texts(drawing.svg((5,)))
    assert "round 3, 4 merges: 15, 16, 22, 25" in last
    assert "round 5, 3 merges: 11, 15, 22" in last


@pytest.mark.parametrize("values", [[1, 2, 3], list(range(16)), [10**9] * 8])
def test_scans_without_room_beside_each_other_are_refused(values):
    with pytest.raises(ArgumentError, match="power of two|no room"):
        play_scans(values)


# ---- waiting blocks ------------------------------------------------------------------


def test_only_the_order_of_blocks_hangs_a_chain_and_a_ticket_saves_it():
    forward, reverse = range(8), range(7, -1, -1)
    assert not run_blocks(forward, 2).hangs
    stuck = run_blocks(reverse, 2)
    assert stuck.hangs and stuck.blocks == [None] * 6 + [6, 7]
    assert stuck.steps[-1][6:] == [PARTIAL, PARTIAL] and stuck.windows == [0] * 8
    saved = run_blocks(reverse, 2, ticket=True)
    assert not saved.hangs and saved.blocks == list(reverse)
    # If all blocks run at the same time, the order does not matter.
    assert not run_blocks(reverse, 8).hangs


@pytest.mark.parametrize("seed", range(5))
def test_no_schedule_hangs_blocks_with_tickets(seed):
    rng = np.random.default_rng(seed)
    order, times = rng.permutation(30).tolist(), rng.integers(1, 5, 30).tolist()
    for look_back in False, True:
        options = dict(look_back=look_back, ticket=True, times=times)
        run = run_blocks(order, int(rng.integers(1, 6)), **options)
        assert run.steps[-1] == [FINAL] * 30 and sorted(run.blocks) == list(range(30))
        assert run.windows[0] == 1
        assert all(1 <= one <= max(tile, 1) for tile, one in enumerate(run.windows))


def test_a_chain_needs_one_flag_per_tile_and_look_back_fewer_steps():
    times = [1, 3, 1, 2] * 4
    chain = run_blocks(range(16), 4, times=times)
    back = run_blocks(range(16), 4, look_back=True, times=times)
    assert set(chain.windows) == {1} and max(back.windows) > 1
    assert len(back.steps) < len(chain.steps)


@pytest.mark.parametrize(
    "order, slots, times",
    [([], 1, None), ([0, 0], 1, None), ([0, 1], 0, None), ([0, 1], 1, [1, 0])],
)
def test_a_schedule_that_makes_no_sense_is_refused(order, slots, times):
    with pytest.raises(ArgumentError, match="run_blocks"):
        run_blocks(order, slots, times=times)


def test_the_player_hangs_in_reverse_order_without_tickets():
    for look_back in False, True:
        player = play_chain(look_back)
        assert "reverse, blockIdx: it never ends: tile 4 waits for" in player.account
        assert player.account.count("it never ends") == 1
        hang = read_texts(player.svg((2, 0)))
        assert hang.count("not begun") == hang.count("waits forever") == 4
        assert "waits forever" not in read_texts(player.svg((2, 1)))


def test_windows_are_longer_if_more_blocks_run():
    lengths = {slots: count_windows(slots) for slots in (2, 32)}
    assert all(sum(one.values()) == 100 * scans.MANY for one in lengths.values())
    assert max(lengths[2]) == 2 < max(lengths[32])
    drawing = draw_windows()
    shares = [t for t in read_texts(drawing.svg((0,))) if t.endswith("%")]
    assert len(shares) == 2
    assert sum(float(t[:-1]) for t in shares) == pytest.approx(100)
    assert drawing.account.count("flags on average") == len(scans.RESIDENT)
