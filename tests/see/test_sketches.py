"""The glossary's drawings are right: sums, warps, the tiles that a block needs."""

import re

import numpy as np
import pytest

from weft.base.errors import ArgumentError
from weft.base.style import write_svg
from weft.see import view
from weft.see.sketches import rounds, tiles, warps

NUMBERS = [3, 1, 7, 0, 4, 1, 6, 3]


@pytest.fixture
def draw_texts(monkeypatch):
    """Return a function that draws, and returns the texts in the order of drawing."""
    figures = []
    monkeypatch.setattr(view, "show_figure", figures.append)

    def texts(draw, *args, **options):
        draw(*args, **options)
        return re.findall(r"<text[^>]*>([^<]+)</text>", write_svg(figures[-1]))

    return texts


@pytest.mark.parametrize(
    "kind, want",
    [
        ("down", [sum(NUMBERS)]),
        ("xor", [sum(NUMBERS)] * len(NUMBERS)),
        ("up", np.cumsum(NUMBERS)),
    ],
)
def test_rounds_end_in_the_right_sums(draw_texts, kind, want):
    texts = draw_texts(rounds, kind, numbers=NUMBERS)
    values = [int(text) for text in texts if text.strip().isdigit()]
    assert len(values) == 4 * len(NUMBERS) and values[: len(NUMBERS)] == NUMBERS
    last = values[-len(NUMBERS) :]
    assert last[: len(want)] == list(want)
    assert any(text.startswith(f"{kind}: ") for text in texts)


def test_threads_are_numbered_along_x_and_lanes_restart_in_each_warp(draw_texts):
    texts = draw_texts(warps, (16, 4))
    lanes = [int(text) for text in texts if text.strip().isdigit()]
    assert lanes == [*range(32), *range(32)]


def test_a_tile_of_the_product_needs_a_row_of_tiles_and_a_column(draw_texts):
    texts = draw_texts(tiles, 12, 4)
    turns = [int(text) for text in texts if text.strip().isdigit()]
    assert sorted(turns) == sorted([0, 1, 2] * 16 * 2)
    assert {"a", "b", "c"} <= set(texts)


@pytest.mark.parametrize(
    "draw, why",
    [
        (lambda: rounds("left"), "kinds are down, xor, up"),
        (lambda: rounds(), "kinds are"),
        (lambda: rounds("up", numbers=[1, 2, 3]), "of 3 numbers: .*a power of two"),
        (lambda: tiles(10, 4), r"tiles\(10, 4\): the tile must divide"),
        (lambda: tiles(8, 0), r"tiles\(8, 0\): the tile must divide"),
    ],
)
def test_invalid_arguments_raise_errors(draw, why):
    with pytest.raises(ArgumentError, match=why):
        draw()
