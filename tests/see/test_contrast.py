"""Marks have a contrast of 3:1 and texts one of 4.5:1, on light and on dark pages."""

import numpy as np
import pytest
import watched_cell
from contrast import (
    MARK,
    PAGES,
    TEXT,
    blend,
    list_faint,
    list_faint_texts,
    measure_contrast,
    read_colour,
)

from weft import cuda, last_report, latency, occupancy, puzzles, show
from weft.base import style
from weft.benchmarks import readme
from weft.benchmarks.matmul.comparison import committed_results
from weft.benchmarks.matmul.roofline import plot_roofline
from weft.lessons.bandwidth import draw_ruler, draw_sums
from weft.report.costs import CostCell
from weft.report.html import _warm_colour, highlight_text, write_html
from weft.see import sketches, view
from weft.see.pictures.merge_rounds import play_tree
from weft.see.pictures.rows import draw_owners, play_online, play_passes
from weft.see.pictures.scans import (
    draw_compaction,
    draw_windows,
    play_chain,
    play_scans,
)
from weft.see.pictures.values import play_cloud
from weft.see.pictures.warps import draw_widths, play_queues
from weft.see.timeline import HOST, KERNEL, TO_DEVICE, TO_HOST, Span, Timeline

BLACK = (0, 0, 0)
NAMES = ("READ", "WRITTEN", "SHARED", "THREAD", "FAULT")
KINDS = (TO_DEVICE, KERNEL, TO_HOST, HOST)
COUNTED = [
    {"op": op, "rung": "a", "over_floor": 2.0} for op in ("copy", "transpose", "reduce")
]
OWNER = {"rung": "a", "rows": 1, "cols": 8, "over_floor": 3.0, "lanes": 8.0}
SPANS = [Span(f"row {i}", "k", kind, 9 * i, 8) for i, kind in enumerate(KINDS)]


def copy_part(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i]


def overrun(y, x, n):
    i = cuda.grid(1)
    if i <= n:
        y[i] = x[i]


def launch(view, kernel=copy_part):
    return view[2, 32](*np.zeros((2, 60), np.float32), 60)


def draw_figure(draw, *args):
    """Return the SVG that a function of sketches or view shows."""
    figures = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "show_figure", figures.append)
        draw(*args)
    return style.write_svg(figures[0])


def draw_own_roofline():
    """Return the SVG of fp32 rungs as if this machine had been measured."""
    files = [f for f in committed_results() if "H200" in f["machine"]["device"]]
    rows = [row for results in files for row in results["rows"]]
    return style.write_svg(plot_roofline(rows, [], precisions=("fp32",)))


def draw_memory():
    view.memory("p 0x1000 8 0x1008\nq 0x1008 8 (nil)")


PICTURES = {
    **{
        f"show {name}": lambda name=name: launch(show(copy_part, view=name)).svg()
        for name in ("access", "heat", "lanes", "timeline")
    },
    "show one thread": lambda: launch(show(copy_part)).svg(0, 5),
    "fault": lambda: launch(show(overrun)).svg(),
    "latency": lambda: launch(latency(copy_part)).svg(),
    "occupancy": lambda: occupancy(registers=40, threads=256, arch="sm_80").svg(),
    "timeline": lambda: Timeline(SPANS).svg(),
    **{
        f"goal of {name}": lambda name=name: puzzles.load(name).goal().svg()
        for name in ("map", "conv1d", "transpose")
    },
    "widths": lambda: draw_widths().svg(),
    "passes": lambda: play_passes([1, 2], ["sum", "quotients"]).svg((3,)),
    "online": lambda: play_online([1, 3, 2]).svg((2,)),
    "owners": lambda: draw_owners([OWNER]).svg(),
    "compaction": lambda: draw_compaction([3, 8, 4], [0, 1, 1]).svg(),
    "scans": lambda: play_scans([3, 1, 7, 0]).svg((1,)),
    "chain": lambda: play_chain().svg((2, 0)),
    "look-back": lambda: play_chain(look_back=True).svg((1, 1)),
    "windows": lambda: draw_windows().svg((1,)),
    "queues": lambda: play_queues(range(32), [0] * 32).svg((2,)),
    "cloud": lambda: play_cloud({"a": [np.arange(9)]}).svg(),
    "rounds": lambda: play_tree(range(8)).svg((2,)),
    "ruler": lambda: draw_figure(draw_ruler, COUNTED),
    "ruler of another machine": lambda: draw_figure(
        draw_ruler, [row | {"elsewhere": "there"} for row in COUNTED]
    ),
    "sums": lambda: draw_figure(draw_sums, {"a": [1.5]}, 1.0, {"a": 4.0}),
    "warps": lambda: draw_figure(sketches.warps, (16, 4)),
    "memory": lambda: draw_figure(draw_memory),
    "ladder": lambda: style.write_svg(readme.PICTURES["race_ladder_nvidia_h100"]()),
    "roofline": lambda: style.write_svg(
        readme.PICTURES["matmul_roofline_nvidia_h200"]()
    ),
    "roofline of this machine": lambda: draw_own_roofline(),
    "batches": lambda: style.write_svg(readme.PICTURES["race_nvidia_h100"]()),
}


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_legible(name):
    svg = PICTURES[name]()
    faint = {page: list_faint(svg, page) for page in PAGES}
    assert not any(faint.values()), faint


@pytest.mark.parametrize("page", PAGES)
def test_colours_suit_marks_and_their_ink_texts(page):
    paper, ink = (read_colour(text, BLACK) for text in PAGES[page])
    colours = {name: getattr(style, name) for name in NAMES}
    for name, colour in colours.items():
        assert measure_contrast(read_colour(colour, ink), paper) >= MARK, name
    for name, colour in (colours | style.CODE).items():
        text = read_colour(style.write_ink(colour), ink)
        assert measure_contrast(text, paper) >= TEXT, name
    grey = {
        strength: blend(ink, paper, strength) for strength in (style.DIM, style.FAINT)
    }
    assert measure_contrast(grey[style.DIM], paper) >= MARK
    assert measure_contrast(grey[style.FAINT], paper) >= TEXT


@pytest.fixture(scope="module")
def reports():
    outputs = [highlight_text(watched_cell.CELL)]
    for source in (watched_cell.CELL, watched_cell.CELL.replace("i < n", "i <= n")):
        watched_cell.run_cell(source)
        outputs.append(write_html(last_report()))
    outputs += [
        _warm_colour(CostCell("32", heat)) for heat in (0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    return "".join(outputs)


@pytest.mark.parametrize("page", PAGES)
def test_reports_are_legible(reports, page):
    assert "bounds" in reports and "nothing wrong" in reports
    assert not list_faint_texts(reports, page)


def test_pale_marks_and_texts_are_found():
    """Check the measurement itself with the former orange, and with pale grey."""
    orange, grey = "#E69F00", 'fill="currentColor" opacity=".6"'
    svg = f'<svg><rect fill="{orange}"/><text {grey}>a</text></svg>'
    faint = list_faint(svg, "light image")
    assert [one.split()[:2] for one in faint] == [["2.25", "mark"], ["4.05", "text"]]
    assert not list_faint(svg, "dark image")


def test_states_differ_by_more_than_their_colour():
    """Check that the states of a warp have different hatchings or none."""
    svg = launch(latency(copy_part)).svg()
    assert svg.count("<pattern ") == 3 and svg.count("rotate(-45)") == 1
