"""`weft bench tensor`, its charts, and the drawings of lesson 08c."""

import math

import numpy as np
import pytest
from drawings import drawn
from matplotlib.figure import Figure

from weft import bench
from weft.base import style
from weft.benchmarks import plot_tensor
from weft.benchmarks import tensor as bench_tensor
from weft.benchmarks.plot_bodies import load_elsewhere
from weft.see import sketches as tensor_view


def committed():
    return load_elsewhere("tensor")


def test_simulated_tensor_cores_round_and_promotion_changes_little():
    rows = bench_tensor.rows("cpu", ["staircase", "promotion"])
    steps = [(row["x"], row["added"]) for row in rows if row["op"] == "staircase"]
    assert steps == [(x, float(np.round(x))) for x in np.arange(9) / 4]
    errors = [row["error_rms"] for row in rows if row["op"] == "promotion"]
    assert len(errors) > 10 and all(0 < error < 1e-6 for error in errors)
    assert bench.table(rows, bench_tensor.SHOWN) and bench_tensor.note(rows)
    assert {row["commit"] for row in rows} == {bench.commit()}


def test_errors_follow_from_the_bits_of_each_precision():
    rows = bench_tensor.rows("cpu", ["error"])
    errors = {(row["precision"], row["k"]): row["error_rms"] for row in rows}
    depths = {k for _, k in errors}
    assert {kind for kind, _ in errors} == set(bench_tensor.PRECISIONS)
    for k in depths:
        assert errors["bf16", k] == pytest.approx(8 * errors["fp16", k], rel=0.2)
        assert errors["tf32", k] == pytest.approx(errors["fp16", k], rel=0.05)
        assert errors["3xtf32", k] < errors["tf32", k] / 200


def test_in_committed_results_a_gpu_truncates_and_promotion_helps():
    assert committed()
    for results in committed():
        steps = [row for row in results["rows"] if row["op"] == "staircase"]
        assert [row["added"] for row in steps] == [math.floor(r["x"]) for r in steps]
        # Rounding to nearest would round these up.
        assert any(row["x"] % 1 > 0.5 for row in steps)
        errors = {
            (row["every"], row["k"]): row["error_rms"]
            for row in results["rows"]
            if row["op"] == "promotion" and row["signs"] == "positive"
        }
        deepest = max(k for _, k in errors)
        assert errors[0, deepest] > 100 * errors[32, deepest]


def test_an_unknown_op_is_named():
    with pytest.raises(ValueError, match="heet"):
        bench_tensor.rows("cpu", ["heet"])


def test_results_are_kept_part_by_part(tmp_path):
    path = tmp_path / "tensor.json"
    old = [{"op": op, "device": "it", "x": 1} for op in ("staircase", "heat", "ncu")]
    bench.write_json(path, old)
    new = [{"op": "heat", "device": "it", "x": 2}]
    merged = bench_tensor.merged(path, new)
    assert [(row["op"], row["x"]) for row in merged] == [
        ("staircase", 1),
        ("heat", 2),
        ("ncu", 1),
    ]
    assert bench_tensor.merged(path, [{"op": "ncu", "device": "other"}]) == [
        {"op": "ncu", "device": "other"}
    ]


def test_counters_of_ncu_are_separated_by_kernel():
    text = '"ID","Kernel Name","Metric Name","Metric Value"\n'
    text += '"0","bitwise_not_kernel","gpu__time_duration.sum","1,000"\n'
    text += '"1","matmul_x","gpu__time_duration.sum","2,000"\n'
    assert list(bench_tensor._list_launches(text)) == [
        ("bitwise_not_kernel", {"gpu__time_duration.sum": 1000.0}),
        ("matmul_x", {"gpu__time_duration.sum": 2000.0}),
    ]


def test_the_longest_of_several_kernels_supplies_the_counters():
    launches = [
        ("copy", {"gpu__time_duration.sum": 2e3, "sm__cycles_active.avg": 1}),
        ("void matmul_x<4>(float *)", {"gpu__time_duration.sum": 8e3}),
        ("add(float *)", {"gpu__time_duration.sum": 1e3}),
    ]
    row = bench_tensor._summarize_kernels(launches, 100, 40)
    assert (row["us"], row["others_us"], row["kernel"]) == (8.0, 3.0, "matmul_x")
    assert row["active"] is None and row["tflops"] == pytest.approx(0.1)
    assert (row["m"], row["k"], row["n"]) == (100, 40, 100)


def test_charts_with_and_without_measurements():
    files = committed()
    charts = {
        plot_tensor.plot_staircases: "rounded to the nearest float",
        plot_tensor.plot_promotions: "every 32",
        plot_tensor.plot_errors: "3xtf32",
        plot_tensor.plot_pipes: "wgmma_bf16",
    }
    for chart, word in charts.items():
        assert "bench tensor" in drawn(chart, [], []), chart
        assert word in drawn(chart, [], files), chart
    assert math.isnan(plot_tensor.find_value("tflops", "heat", [], [], mode="hot"))


def test_heat_is_drawn_over_time():
    with style.style():
        figure = Figure()
        plot_tensor.plot_speed_and_power(figure.subplots(1, 2), [], committed())
        text = style.write_svg(figure)
    assert all(f">{word}<" in text for word in ("hot", "cool", "zeros"))


def test_the_caption_has_the_days_of_its_rows():
    machine = {"device": "that GPU", "date": "2026-01-05"}
    rows = [{"op": "heat", "date": "2026-01-02"}, {"op": "ncu"}]
    files = [{"machine": machine, "rows": rows}]
    assert plot_tensor.make_caption([], files, "heat") == "hollow: that GPU, 2026-01-02"
    assert plot_tensor.make_caption([], files, "ncu") == "hollow: that GPU, 2026-01-05"
    assert plot_tensor.make_caption([], files, "error") == "nothing measured"


def test_every_element_has_one_owner_and_all_lanes_own_equally_many():
    for operand, each in {"a": 8, "b": 4, "c": 4}.items():
        lane, number = tensor_view.owners(operand)
        pairs = set(zip(lane.ravel().tolist(), number.ravel().tolist()))
        assert pairs == {(at, i) for at in range(32) for i in range(each)}


def test_a_ring_with_enough_places_hides_the_latency():
    def share(places, stages=1000):
        starts = tensor_view.stages_of(stages, places, latency=3, apart=0.5)[2]
        return stages / (starts[-1] + 1)

    assert share(1) == pytest.approx(1 / 4, rel=0.01)
    assert share(2) == pytest.approx(1 / 2, rel=0.01)
    assert share(4) == pytest.approx(1, rel=0.01)
    assert share(8) == pytest.approx(1, rel=0.01)


def test_drawings_contain_their_texts(monkeypatch):
    figures = []
    monkeypatch.setattr("weft.see.view.show_figure", figures.append)
    tensor_view.bits({"fp32": (8, 23), "tf32": (8, 10), "bf16": (8, 7)})
    tensor_view.fragments({"c": tensor_view.owners("c")[0]}, lane=5)
    assert tensor_view.ring(stages=4, places=2, latency=1) > 0.5
    bits, lanes, ring = (
        [t.get_text() for t in figure.axes[0].texts] for figure in figures
    )
    assert [bits.count(kind) for kind in "sem"] == [3, 24, 40]
    assert bits.count("") == 13  # the unused bits of tf32
    assert lanes.count("5") == 4
    assert ring.count("3") == 3  # stage 3 in flight, in use, and on the tensor cores
