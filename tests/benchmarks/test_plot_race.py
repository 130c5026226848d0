"""The pictures of the race, drawn from rows; marks of committed rows are hollow."""

from __future__ import annotations

import itertools

import pytest
from drawings import texts
from matplotlib.path import Path
from matplotlib.text import Annotation
from tiers import only

from weft.base.paths import RESULTS
from weft.base.style import write_svg
from weft.benchmarks.race.plot import plot_versions
from weft.benchmarks.race.plot_batches import plot_batches
from weft.benchmarks.race.plot_ladder import plot_ladder, plot_roofline
from weft.timing.results import add_torch_ratios, read_json

LAYERS = {"forward.conv2+pool2": 10.0, "backward.conv2.weight": 20.0, "update": 3.0}


def row(impl, rung, us, precision="fp32", batch=64, **more):
    head = {"op": "mnist", "measure": "step", "impl": impl, "rung": rung, "us": us}
    head |= {"us_low": 0.99 * us, "us_high": 1.01 * us, "layers_us": None}
    head |= {"precision": precision, "batch": batch, "layout": "nchw"}
    head |= {"device": "this GPU", "target": "cuda", "timer": "events"}
    return head | {"date": "2026-01-02"} | more


def rows() -> list[dict]:
    results = []
    for batch in (64, 4096):
        scale = batch / 64
        results += [
            *[row("weft", "naive", 7150.0 * scale, batch=batch)],
            *[row("weft", "pdl", 57.0 * scale, batch=batch, layers_us=LAYERS)],
            *[row("weft", "tf32", 40.0 * scale, "tf32", batch, layers_us=LAYERS)],
            *[row("cudnn", "cudnn", 300.0 * scale, batch=batch)],
            *[row("torch", "compile+graph", 326.0 * scale, batch=batch)],
            *[row("torch", "eager", 1900.0 * scale, batch=batch)],
            *[row("torch", "compile+graph", 252.0 * scale, "tf32", batch)],
        ]
    add_torch_ratios(results)
    roof = {"measure": "roof", "tflops": 51.0, "gbs": 4200.0, "batch": None}
    return [*results, row("weft", "peaks", 1.0) | roof]


THERE = {
    "machine": {"device": "that GPU", "date": "2026-01-03", "torch": "2.11"},
    "rows": [r | {"device": "that GPU", "us": 2 * r["us"]} for r in rows()],
}
DRAW = [plot_ladder, plot_batches, plot_roofline]


def test_the_ladder_shows_times_ratios_and_gains():
    words = "\n".join(texts(plot_ladder(rows())))
    for word in ("naive", "pdl", "tf32", "cudnn", "7.15 ms", "57.0 µs"):
        assert word in words
    assert "5.7×" in words and "÷1.3e+02" not in words and "÷125" in words
    assert "PyTorch compile+graph, fp32: 326 µs" in words
    # 2 x 9 x 32 x (2 x 784 + 3 x 64 x 196) + 3 x 2 x 128 x (3136 + 10) = 24,995,328
    assert "floor 31.4 µs: 25 MFLOP an image" in words
    assert "batch 64 (left is better)" in words and "this GPU, 2026-01-02" in words


def test_the_slowest_version_is_on_top():
    (ax,) = plot_versions(rows(), [THERE], python_us=3e9).axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == "~ Python, by sim" and "naive" in names[1]
    # The best twin of each kind is shown.
    assert sum(name.startswith("PyTorch") for name in names) == 2
    full = [line.get_markerfacecolor() != "none" for line in ax.lines]
    assert full == ["that GPU" not in name for name in names]


def test_the_batches_have_a_panel_for_each_precision():
    figure = plot_batches(rows())
    assert [axes.get_xlabel() for axes in figure.axes] == ["batch, fp32", "batch, tf32"]
    words = texts(figure)
    assert {"5.7×", "6.3×", "PyTorch eager", "cuDNN and cuBLAS", "4096"} <= {*words}
    (ours,) = [line for line in figure.axes[0].lines if line.get_label() == "weft"]
    assert list(ours.get_xdata()) == [64, 4096]
    assert ours.get_ydata() == pytest.approx([57 / 64] * 2)


def test_a_kinds_line_has_the_fastest_of_its_variants():
    best = row("torch", "compile-step+graph64+nobias", 300.0)
    figure = plot_batches([*rows(), best])
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert "PyTorch compile-step+graph64+nobias" not in lines
    times = lines["PyTorch compile+graph"].get_ydata()
    assert times == pytest.approx([300 / 64, 326 / 64])


def test_the_roofline_has_the_sections_whose_work_is_known():
    figure = plot_roofline(rows())
    words = texts(figure)
    assert {"conv2", "conv2 dw", "batch 4096"} <= {*words}
    assert "roofs: 51 TFLOP/s, 4.2 TB/s" in words
    marks = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    # Only two sections have marks, at two batches, since the update has no product.
    assert len(marks) == 4
    conv2 = 2 * 9 * 32 * 64 * 196  # flops per image
    assert marks[0].get_ydata()[0] == pytest.approx(64 * conv2 / 10.0 / 1e6)


def test_lines_to_the_names_of_sections_do_not_cross():
    """In fp32, conv1's line crossed those of two other sections."""
    figure = plot_roofline([], [read_json(RESULTS / "race_nvidia_h100.json")])
    for axes in figure.axes:
        lines = [
            axes.transData.transform([text.xy, text.get_position()])
            for text in axes.texts
            if isinstance(text, Annotation)
        ]
        assert len(lines) > 4
        for one, other in itertools.combinations(lines, 2):
            assert not Path(one).intersects_path(Path(other))


@pytest.mark.parametrize("draw", only(DRAW[:1], DRAW))
def test_what_was_measured_elsewhere_is_hollow(draw):
    caption = "hollow: that GPU, 2026-01-02, PyTorch 2.11"
    assert caption in "\n".join(texts(draw([], [THERE])))
    combined = "\n".join(texts(draw(rows(), [THERE])))
    # The roofline shows one machine, since the sections of two would overlap.
    assert (caption in combined) == (draw is not plot_roofline)
    figure = draw([], [THERE])
    dots = [line for axes in figure.axes for line in axes.lines if line.get_marker() in
            ("o", "D", "s")]  # fmt: skip
    assert dots and all(dot.get_markerfacecolor() == "none" for dot in dots)
    own = draw(rows())
    assert "that GPU" not in "\n".join(texts(own))


@pytest.mark.parametrize("draw", DRAW)
def test_a_picture_without_results_explains_how_to_get_one(draw):
    assert "python -m weft bench mnist --device cuda" in write_svg(draw([]))
    simulated = [r | {"target": "cpu"} for r in rows()]
    assert "nothing measured yet" in write_svg(draw(simulated))


@pytest.mark.parametrize("draw", only(DRAW[:1], DRAW))
def test_equal_rows_give_equal_pictures(draw):
    assert write_svg(draw(rows(), [THERE])) == write_svg(draw(rows(), iter([THERE])))
