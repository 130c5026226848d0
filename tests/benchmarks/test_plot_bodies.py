"""The charts of lesson 04, with results of a GPU and without."""

import pytest
from matplotlib.figure import Figure

from weft.base import style
from weft.benchmarks import plot_bodies
from weft.toolchain import native


def row(op, impl, rung, us, target="cpu", **more):
    sizes = {"m": 2, "n": 3, "k": 4} if op == "matmul" else {"n": 9}
    band = {"us": us, "us_low": us, "us_high": us}
    head = {"op": op, "impl": impl, "rung": rung, "target": target, "device": "this"}
    return head | band | sizes | {"timer": "a clock", "host_us": None} | more


HERE = [
    row("grey", "python", "loops", 5e6, part=0.5),
    row("grey", "torch", "@", 2.0),
    row("matmul", "numpy", "@", 700.0),
    row("matmul", "torch", "@", 10.0),
]
THERE = {
    "machine": {"device": "that GPU", "date": "2026-01-02"},
    "rows": [
        row("grey", "numba", "numba_jit", 1.5, "cuda", host_us=30.0),
        row("matmul", "numba", "numba_jit", 1.25, "cuda", host_us=10.0),
        row("matmul", "weft", "naive", 90.0, "cuda"),
        row("matmul", "weft", "fast", 4.0, "cuda"),
        row("matmul", "numba", "numba_jit", 44.0, "cuda", m=8, host_us=11.0),
        row("matmul", "numpy", "@", 55.0),
    ],
}


def drawn(columns, draw, *args):
    with style.style():
        figure = Figure(figsize=(9, 4))
        axes = figure.subplots(1, columns)
        draw(axes, *args)
        return style.write_svg(figure)


def test_this_machine_is_full_and_another_ones_gpu_hollow():
    text = drawn(2, plot_bodies.plot_times_of_contenders, HERE, [THERE])
    assert "~5 s" in text and "700 µs" in text and "grey, 9 pixels" in text
    assert "1.25 µs" in text and "CUDA C, a rung of the lab" in text
    assert "4 µs, fast" in text and "best" not in text
    # These belong to slower rungs, other sizes, and the other machine's CPU.
    for other in "90 µs", "44 µs", "55 µs":
        assert other not in text
    caption = plot_bodies.make_caption(HERE, [THERE])
    assert "that GPU, 2026-01-02" in caption and "a clock" in caption


def test_without_results_of_others_there_is_no_hollow_mark():
    text = drawn(2, plot_bodies.plot_times_of_contenders, HERE, [])
    assert "numba_jit" not in text and "NumPy" in text
    assert "hollow" not in plot_bodies.make_caption(HERE, [])


def test_two_clocks_differ_by_a_factor():
    text = drawn(1, plot_bodies.plot_clocks, THERE["rows"], False)
    assert "8 x the kernel's" in text and "0.25 x the kernel's" in text
    assert text.count("x the kernel's") == 3
    with pytest.raises(ValueError, match="no row was measured on a GPU"):
        drawn(1, plot_bodies.plot_clocks, HERE, True)


def test_launches_of_every_committed_result_can_be_drawn():
    results = plot_bodies.load_elsewhere("launch")
    assert results
    for result in results:
        assert "numba jit" in drawn(1, plot_bodies.plot_launches, result["rows"])


def test_committed_results_can_be_drawn():
    assert plot_bodies.load_elsewhere()
    for results in plot_bodies.load_elsewhere():
        assert "numba_jit" in drawn(1, plot_bodies.plot_clocks, results["rows"], False)


def test_committed_results_are_from_one_card_with_every_fp32_rung():
    """Two cards would have the same marks, and a missing rung may be the fastest."""
    (results,) = plot_bodies.load_elsewhere()
    rungs = {
        rung.name
        for rung in native.library("matmul", "cpu").rungs
        if "cuda" in rung.targets and rung.precision == "fp32"
    }
    for side in 5, 512:
        rows = [row for row in results["rows"] if row.get("m") == side]
        assert rungs <= {row["rung"] for row in rows if row["impl"] == "weft"}


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.5, "0.5 µs"),
        (999, "999 µs"),
        (1234, "1.23 ms"),
        (4.5e8, "450 s"),
        (4.567e9, "4,567 s"),
    ],
)
def test_times_are_short(us, text):
    assert plot_bodies._time(us) == text
