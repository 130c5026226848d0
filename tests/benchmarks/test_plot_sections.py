"""The limits of a step's sections, their pictures, and one image's path."""

from __future__ import annotations

import numpy as np
import pytest
from drawings import texts
from test_plot_race import THERE, row, rows

from weft.base.style import write_svg
from weft.benchmarks.race.inside import (
    WINNERS,
    conv2_back,
    draw_conv2_back,
    draw_inside,
    maps_of,
)
from weft.benchmarks.race.plot_ladder import plot_limits, plot_sections
from weft.benchmarks.race.work import (
    C1,
    C2,
    PIXELS2,
    PIXELS3,
    TAPS,
    StepPart,
    find_limits,
    sum_parts,
)
from weft.mnist import Cnn, initial_weights, load
from weft.see.view import mosaic

ROOF = {"tflops": 50.0, "gbs": 4000.0}
CONV2 = 2 * 9 * 32 * 64 * 196  # flops of one product for an image
FUSED = {
    **{"batch": 5.0, "forward.conv2+pool2": 20.0, "forward.relu3+fc2+loss": 10.0},
    **{"backward.conv2.weight": 30.0},
}
LAYERS = {"forward.conv2": 300.0, "forward.pool2": 40.0, "backward.conv2": 900.0}


def test_sections_are_scaled_to_the_step_and_have_floors():
    parts = find_limits(row("weft", "graph", 48.0, layers_us=FUSED), ROOF, 1.5)
    assert [part.section for part in parts] == [*FUSED][
        1:
    ]  # all sections but the first, "batch"
    forward, loss, weight = parts
    assert [part.us for part in parts] == pytest.approx([16, 8, 24])
    # Both sides are 9.25 µs.
    assert forward.products == pytest.approx(64 * CONV2 / 50e6)
    assert forward.products == weight.products > 4 * forward.bytes > 0
    assert forward.waiting == pytest.approx(16 - forward.products - 1.5)
    assert (forward.binds, loss.binds) == ("products", "waiting")
    assert find_limits(row("weft", "graph", 4.8, layers_us=FUSED), ROOF, 5)[
        1
    ].binds == ("launch")


def test_a_step_is_the_sum_of_its_sections():
    parts = find_limits(row("weft", "graph", 48.0, layers_us=FUSED), ROOF, 1.5)
    step = sum_parts(parts)
    assert (step.us, step.launch) == pytest.approx((48, 4.5))
    assert step.products == pytest.approx(sum(part.products for part in parts))


def test_a_section_faster_than_its_floor_waits_for_nothing():
    (part,) = find_limits(
        row("weft", "graph", 1.0, layers_us={"forward.conv2": 1.0}), ROOF, 1.5
    )
    assert part.waiting == 0 and part.binds == "products"


def test_sections_of_several_rungs_share_lines():
    results = [
        *[row("weft", "tiled", 1240.0, layers_us=LAYERS)],
        *[row("weft", "graph", 48.0, layers_us=FUSED)],
    ]
    figure = plot_sections(results, rungs=("tiled", "graph"))
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["conv2 pool2", "back: conv2", *names[2:]]
    tiled, graph = [
        line for line in figure.axes[0].lines if "a step" in str(line.get_label())
    ]
    assert [*tiled.get_xdata()] == pytest.approx([340, 900])
    assert 20 in graph.get_xdata() and graph.get_ydata()[0] == 0
    assert {"tiled: 1.24 ms a step", "graph: 48.0 µs a step"} <= {*texts(figure)}


def test_another_machines_sections_are_hollow_and_none_are_explained():
    figure = plot_sections([], [THERE], ("pdl", "tf32"))
    marks = [line for line in figure.axes[0].lines if line.get_marker() in "sDo^"]
    assert marks and all(line.get_markerfacecolor() == "none" for line in marks)
    assert any("hollow: that GPU" in text for text in texts(figure))
    (text,) = texts(
        plot_sections(rows(), rungs=("naive",))
    )  # this rung has no timed sections
    assert "nothing measured yet" in text


def test_bars_of_the_limits_add_up_to_the_section():
    parts = find_limits(row("weft", "graph", 48.0, layers_us=FUSED), ROOF, 1.5)
    figure = plot_limits(parts, "graph, batch 64")
    for place, part in enumerate(parts):
        bars = [
            bar for bar in figure.axes[0].patches if round(bar.get_y() + 0.3) == place
        ]
        assert sum(bar.get_width() for bar in bars) == pytest.approx(part.us)
    words = texts(figure)
    assert {"16.0 µs, products", "8.0 µs, waiting", "launch"} <= {*words}
    assert "µs, graph, batch 64 (left is better)" in words
    write_svg(figure)


def test_a_mosaic_scales_each_map_or_leaves_its_values():
    maps = np.array([[[1.0, 3.0]], [[2.0, 2.0]]])
    np.testing.assert_array_equal(mosaic(maps), [[0, 1, np.nan, 0, 0]])
    np.testing.assert_array_equal(mosaic(maps, scaled=False), [[1, 3, np.nan, 2, 2]])


@pytest.fixture(scope="module")
def stepped():
    cnn = Cnn("fused", max_batch=2)
    cnn.data(load("train").first(2))
    cnn.set_weights(initial_weights(seed=0))
    cnn.train(np.arange(2), 2, 0.0)
    return cnn


def test_maps_are_the_pixels_of_one_image(stepped):
    maps = maps_of(stepped, "p1", 1)
    assert maps.shape == (32, 14, 14)
    assert maps[5, 3, 7] == stepped.peek("p1")[1, 3 * 14 + 7, 5]


def test_an_images_path_shows_every_array_and_every_winner(stepped):
    figure = draw_inside(stepped, load("train").images[1], 1)
    words = texts(figure)
    titles = {axes.get_title() for axes in figure.axes}
    assert {"p1: 32 of 14x14", "c2: 64 of 14x14", "dp2: 64 of 7x7"} <= titles
    assert {*WINNERS} <= {*words}
    codes = next(a for a in figure.axes if a.get_title().startswith("code1"))
    picture = codes.images[0].get_array()
    assert (picture[..., 3] > 0).sum() == (stepped.peek("code1")[1] < 4).sum() > 0


def test_conv2s_backward_is_drawn_with_its_fused_parts_and_its_times():
    parts = {"64 images": StepPart("it", 27.0, 14.5, 1.2, 1.2)}
    words = " ".join(texts(draw_conv2_back(parts, "that GPU")))
    for word in ("c2", "dp2, code2", "dy", "dp1", "winners", "dw2", "batch norm 2"):
        assert word in words
    assert "27.0 µs, its products 14.5 µs" in words and "that GPU" in words
    fills = [
        {patch.get_facecolor()[3] for patch in axes.patches}
        for here in (True, False)
        for axes in draw_conv2_back(parts, "it", here).axes[1:]
    ]
    assert fills == [{0.25}, {0.0}]  # bars are hollow if they were measured elsewhere
    assert "nothing measured yet" in " ".join(texts(draw_conv2_back({})))


def test_conv2s_backward_is_the_sum_of_its_sections_per_64_images():
    section = "backward.pool2+bn2+conv2+pool1+relu1+bn1+conv1"
    layers = FUSED | {section: 40.0}
    parts = {
        part.section: part
        for part in find_limits(row("weft", "graph", 50.0, layers_us=layers), ROOF, 1.5)
    }
    weight = parts["backward.conv2.weight"]
    for batch in 64, 256:
        step = row("weft", "graph", 50.0, layers_us=layers, batch=batch)
        back = conv2_back(step, ROOF, 1.5)
        assert back.us == pytest.approx(64 / batch * (parts[section].us + weight.us))
        assert back.products == pytest.approx(parts[section].products + weight.products)
        assert back.launch == pytest.approx(64 / batch * 3)


def test_conv2s_backward_is_drawn_with_the_models_sizes():
    words = " ".join(texts(draw_conv2_back({})))
    sizes = PIXELS2, C2, C1, PIXELS3, TAPS
    assert sizes == (196, 64, 32, 49, 9)  # the sizes that the picture shows
    for text in ("196 x 64", "196 x 32", "49 x 64", "9 x 64 x 32", "784 bytes"):
        assert text in words
