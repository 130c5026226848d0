"""The picture of memory places boxes and arrows as a program's output describes."""

import re

import numpy as np
import pytest

from weft.base import style
from weft.see import view

LISTING = """\
out 0x7ffe0f08 8 0x7ffe1000
p 0x7ffe1000 8 0x55550004
q 0x7ffe1008 8 (nil)
b[0] 0x55550000 4 1.5
b[1] 0x55550004 4 2.5"""


@pytest.fixture
def axes(monkeypatch):
    figures = []
    monkeypatch.setattr(view, "show_figure", figures.append)
    view.memory(LISTING)
    return figures[0].axes[0]


def texts(axes):
    return [t.get_text() for t in axes.texts if t.get_text()]


def test_rows_come_in_the_order_of_the_listing(axes):
    bases = [text for text in texts(axes) if text.startswith("0x")]
    assert bases == ["0x7ffe0f08", "0x7ffe1000", "0x55550000"]


def test_boxes_are_as_wide_as_their_variables(axes):
    widths = [round(box.get_width() + 0.12) for box in axes.patches[:5]]
    assert widths == [2, 2, 2, 1, 1]


def test_values_and_null_are_written_out(axes):
    assert {"1.5", "2.5", "NULL", "...000", "...004"} <= set(texts(axes))


def test_an_arrow_for_each_pointer_that_leads_somewhere(axes):
    arrows = [t for t in axes.texts if getattr(t, "arrow_patch", None)]
    (down, _), (to, _) = (a.xy for a in arrows)
    assert len(arrows) == 2 and down == 1 and to == 1.5


def test_a_thread_that_does_nothing_is_pale(monkeypatch):
    figures = []
    monkeypatch.setattr(view, "show_figure", figures.append)
    with view.figure(2, 1) as ax:
        view.thread(ax, 0, 0, 5)
        view.thread(ax, 1, 0, 6, runs=False)
    works, idle = figures[0].axes[0].patches
    assert works.get_facecolor()[3] > 0 == idle.get_facecolor()[3]
    assert works.get_alpha() is None and idle.get_alpha() < 1
    assert [t.get_text() for t in figures[0].axes[0].texts] == ["5", "6"]


def test_a_figure_is_no_wider_than_its_page(monkeypatch):
    outputs = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **_: outputs.append(data)
    )
    with view.figure(20, 1) as ax:
        view.thread(ax, 0, 0, 5)
    image = re.search("<img[^>]*", outputs[0]["text/html"])[0]
    assert 'width="1920"' in image and "max-width:100%" in image
    # Its smallest text has 8.5 of 1440 points: narrower pages scroll.
    assert float(re.search(r"min-width:([\d.]+)px", image)[1]) * 8.5 / 1440 >= 9


def test_an_image_has_a_frame_on_white_and_on_black_pages(monkeypatch):
    """A white edge is invisible on a white page, and a black one on a black page."""
    figures = []
    monkeypatch.setattr(view, "show_figure", figures.append)
    view.show_images(white=np.ones((4, 6)), black=np.zeros((4, 6)))
    for axes in figures[0].axes:
        assert all(spine.get_visible() for spine in axes.spines.values())
        assert not axes.get_xticks().size and not axes.get_yticks().size
    assert (
        style.write_svg(figures[0]).count("stroke: currentColor") == 8
    )  # four sides of each
