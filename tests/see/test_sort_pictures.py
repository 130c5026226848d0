"""Queues at bins, and keys over passes: the pictures of lesson 09d."""

import re

import numpy as np
import pytest

from weft.base.errors import ArgumentError
from weft.see.pictures.values import MANY, count_unordered, play_cloud
from weft.see.pictures.warps import list_queues, play_queues

NOISE, DIGIT = list(range(32)), [0] * 24 + [7] * 8


def read_texts(svg):
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def count_dots(svg):
    return svg.count("h0")


# ---- queues --------------------------------------------------------------------------


def test_a_queue_has_the_lanes_with_its_bin_in_order():
    assert list_queues([5, 3, 5, 5]) == {3: [1], 5: [0, 2, 3]}


def test_the_slider_moves_from_one_warp_to_the_other():
    drawing = play_queues(NOISE, DIGIT)
    stops = drawing.sliders[0].stops
    assert stops[0] == "noise" and stops[-1] == "digit" and len(stops) == 5
    assert "noise: 32 bins; the longest queue has 1 lane;" in drawing.account
    assert drawing.account.endswith("digit: 2 bins; the longest queue has 24 lanes")
    assert "8 lanes of a digit: 25 bins" in drawing.account


@pytest.mark.parametrize("stop, first, waiting", [(0, 32, 0), (2, 17, 15), (4, 2, 30)])
def test_a_bin_serves_one_lane_and_the_others_wait(stop, first, waiting):
    svg = play_queues(NOISE, DIGIT).svg((stop,))
    assert svg.count('stroke-width="1.3"') == first  # the shafts of arrows
    assert svg.count("data-behind") == waiting
    queues = [int(text[1:]) for text in read_texts(svg) if text.startswith("+")]
    assert sum(queues) == waiting


def test_a_warp_without_32_lanes_is_refused():
    with pytest.raises(ArgumentError, match="digit has 31 keys, not 32"):
        play_queues(NOISE, DIGIT[:31])


# ---- clouds --------------------------------------------------------------------------


def sort_by_digits(keys, unstable=()):
    steps = [keys]
    for number in range(4):
        x = steps[-1][::-1] if number in unstable else steps[-1]
        steps.append(x[np.argsort(x >> 2 * number & 3, kind="stable")])
    return steps


KEYS = np.random.default_rng(0).integers(0, 256, 200)
RUNS = {"stable": sort_by_digits(KEYS), "last": sort_by_digits(KEYS, [3])}


def test_the_picture_reports_which_run_is_in_order():
    drawing = play_cloud(RUNS)
    assert "stable: all 200 keys in order after the last pass" in drawing.account
    wrong = count_unordered(RUNS["last"][-1])
    assert wrong > 50
    says = f"last: {wrong} of 199 neighbours in the wrong order"
    assert says in drawing.account
    assert f"{wrong} of 199 neighbours in the wrong order" in read_texts(
        drawing.svg((4, 1))
    )
    assert len(drawing.frames) == 10 and drawing.start == (4, 0)


def test_sorted_keys_form_a_rising_diagonal():
    drawing = play_cloud({"one": RUNS["stable"]})
    assert [slider.name for slider in drawing.sliders] == ["pass"]
    svg = drawing.svg()
    dots = np.array(re.findall(r"M(\d+) (\d+)h0", svg), int)
    assert len(dots) == count_dots(svg) == len(KEYS)
    assert (np.diff(dots[:, 0]) > 0).all()
    assert (np.diff(dots[:, 1]) <= 0).all()  # y grows downwards


@pytest.mark.parametrize(
    "runs, says",
    [
        ({}, "as many passes and keys"),
        ({"a": [KEYS], "b": [KEYS, KEYS]}, "as many passes and keys"),
        ({"a": [KEYS, KEYS[:5]]}, "as many passes and keys"),
        ({"a": [KEYS[:0]]}, "0 keys"),
        ({"a": [np.zeros(MANY + 1, int)]}, "4097 keys"),
        ({"a": [np.array([-3, 1])]}, "2 keys from -3"),
    ],
)
def test_runs_that_cannot_be_drawn_are_refused(runs, says):
    with pytest.raises(ArgumentError, match=says):
        play_cloud(runs)
