"""Tests that `weft bench graphs` and `weft bench transpose` share."""

from __future__ import annotations

import pytest
from drawings import drawn, texts

from weft.benchmarks import graphs as bench_graphs
from weft.benchmarks import plot_graphs
from weft.benchmarks import transpose as bench_transpose


def test_a_wrong_kernel_is_not_timed(monkeypatch, tmp_path):
    text, right = bench_graphs.KERNELS.read_text(), "by * fmaxf(v.y + b.y, 0)"
    assert right in text
    broken = tmp_path / "wrong.cu"
    broken.write_text(text.replace(right, "by * (v.y + b.y)"))
    monkeypatch.setattr(bench_graphs, "KERNELS", broken)
    with pytest.raises(RuntimeError, match="one kernel is wrong for 4096 numbers"):
        bench_graphs.rows("cpu", ["fusion"], samples=1)


@pytest.mark.parametrize(
    "command, draw, args",
    [
        ("graphs", plot_graphs.plot_chains, ([], [], 0.1)),
        ("transpose", bench_transpose.plot_transposes, ([], [])),
        ("transpose", bench_transpose.plot_strides, ([], [])),
    ],
)
def test_a_chart_without_measurements_explains_how_to_make_one(command, draw, args):
    assert f"weft bench {command}" in drawn(draw, *args)


def test_a_figure_without_measurements_explains_how_to_make_one():
    bars = plot_graphs.plot_ratios(plot_graphs.BYTES, [], [], "")
    for figure in bars, plot_graphs.plot_streams([], [], 8):
        assert "weft bench graphs" in " ".join(texts(figure))
