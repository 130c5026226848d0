"""The picture of memory has the boxes and arrows that a program's output describes."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

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


@pytest.fixture
def figures(monkeypatch):
    """Return the outputs of the figures that a test shows."""
    outputs = []
    monkeypatch.setattr(
        "IPython.display.display", lambda data, **_: outputs.append(data)
    )
    return outputs


def test_a_figure_is_no_wider_than_its_page(figures):
    with view.figure(20, 1) as ax:
        view.thread(ax, 0, 0, 5)
    image = re.search("<img[^>]*", figures[0]["text/html"])[0]
    assert 'width="1920"' in image and "max-width:100%" in image
    # The image is 1440 points wide and its smallest text 8.5 high; narrower pages
    # scroll.
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
    )  # four sides of each image


# ---- alternative texts ---------------------------------------------------------------


def describe(draw):
    with style.style():
        made = Figure(figsize=(4, 3))
        draw(made.subplots())
    return style.describe_figure(made)


def test_a_chart_is_described_by_its_axes_and_series():
    def draw(ax):
        ax.semilogx([1, 10, 100], [3, 2, 1], label="ours")
        ax.plot(range(1, 100), range(99), label="theirs")
        ax.set(xlabel="batch", ylabel="µs", xlim=(1, 100), ylim=(0, 99), title="A race")
        ax.text(10, 2, "twice as fast")

    assert describe(draw) == (
        "A race. x axis: batch, 1 to 100, logarithmic. y axis: µs, 0 to 99. "
        "series ours: (1, 3), (10, 2), (100, 1). "
        "series theirs: 99 values, 0 to 98. twice as fast"
    )


def test_bars_and_named_lines_are_described_by_their_names():
    def draw_bars(ax):
        ax.bar(["sum", "max"], [1.5, 2], label="us")

    assert "x axis: sum, max." in describe(draw_bars)
    assert describe(draw_bars).endswith("bars us: sum 1.5, max 2")

    def draw_dots(ax):
        ax.plot([1, 2], [0, 1], "o")
        style.name_lines(ax, ["naive", "tiled"])
        style.label_beside(ax, "3 ms", (1, 0))

    assert "y axis: naive 3 ms, tiled" in describe(draw_dots)


def test_a_drawing_is_described_row_by_row():
    def draw(ax):
        view.sheet(ax, 8, 3)
        view.cells(ax, [range(8), [5, 5, 6, 7, 0, 0, 0, 0]], 0, 1, "x", "2 x 8")

    assert describe(draw) == "x; 2 x 8; 0 to 7; 5, 5 to 7, 0, 0, 0, 0"


def test_an_output_has_a_text_for_screen_readers_and_legible_text_on_phones(figures):
    """At a picture's least width, its smallest text must be 9.33 pixels high."""
    with view.figure(9.5, 3) as ax:
        view.sheet(ax, 30, 3)
        view.cells(ax, [[1, 2]], 0, 1, "x", "2")
    page, text = figures[0]["text/html"], figures[0]["text/plain"]
    image = ElementTree.fromstring(re.search("<img[^>]*/>", page)[0])
    assert image.get("alt") == text and "x; 2" in text
    svg = base64.b64decode(image.get("src").partition(",")[2]).decode()
    assert 'role="img"' in svg and f'aria-label="{text}"' in svg
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    least = float(re.search(r"min-width:([\d.]+)px", image.get("style"))[1])
    whole = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    assert least <= float(image.get("width"))
    assert min(sizes) * least / whole >= 9.33  # 14 pixels at 150 % are 9.33
    assert "requestFullscreen" in page and "aria-label" in page
