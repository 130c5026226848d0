"""`weft bench graphs` checks everything before timing, and returns rows."""

import json

import pytest
from drawings import drawn, texts

from weft import bench
from weft.base.paths import ROOT
from weft.benchmarks import graphs as bench_graphs
from weft.benchmarks import plot_graphs
from weft.benchmarks.plot_bodies import load_elsewhere
from weft.see.timeline import HOST, KERNEL, TO_DEVICE, Span, Timeline

CHAIN = {
    "C, a launch each",
    "a graph",
    "a graph, dependent launch, late",
    "a graph, dependent launch, early",
}


def test_rows_of_a_chain_for_every_launch_and_length(target):
    rows = bench_graphs.rows(target, ["chain", "host"], samples=2)
    for count in 5, 20, 100:
        rungs = {r["rung"] for r in rows if r.get("count") == count}
        assert rungs >= CHAIN, count
    assert set(plot_graphs.WAYS) <= {row["rung"] for row in rows}
    assert all(row["us"] > 0 for row in rows)
    assert {row["op"] for row in rows} == {"chain", "host"}
    assert bench.table(rows, bench_graphs.SHOWN)
    assert ("do not represent" in bench_graphs.note(rows)) == (target == "cpu")


def test_rows_of_forks_copies_and_dependent_launches(target):
    for op, ways in (
        ("fetch", 3),
        ("crowd", 3),
        ("many", 3),
        ("fork", 4),
        ("overlap", 5),
    ):
        rows = bench_graphs.rows(target, [op], samples=1)
        assert [row["op"] for row in rows] == [op] * ways
        assert len({row["rung"] for row in rows}) == ways
    assert all(
        row["gbs"] == pytest.approx(row["bytes"] / row["us"] / 1e3) for row in rows
    )


def test_fusion_and_rematerialisation_move_fewer_bytes(target):
    rows = bench_graphs.rows(target, ["fusion", "remat"], samples=1)
    by_name = {(row["op"], row["rung"], row["count"]): row for row in rows}
    size = bench_graphs.FUSION_SIZES[target][0]
    three = by_name["fusion", "three kernels", size]
    one, copy = by_name["fusion", "one kernel", size], by_name["fusion", "copy", size]
    assert three["bytes"] == 3 * one["bytes"] == 3 * copy["bytes"] == 24 * size
    assert copy["vs_copy"] == 1
    assert by_name["remat", "worked out twice", size]["bytes"] == 4 * size


@pytest.mark.slow
def test_a_gpu_without_dependent_launch_omits_its_rows(monkeypatch, tmp_path):
    """The simulated GPU pretends to be a T4."""
    for path in bench_graphs.HERE.glob("*.cu*"):
        text = path.read_text()
        if path.name == "graphs.cu":
            assert text.count("device.major >= 9") == 1
            text = text.replace("device.major >= 9", "(device.major = 7) >= 9")
        (tmp_path / path.name).write_text(text)
    program = [tmp_path / path.name for path in bench_graphs.PROGRAM]
    monkeypatch.setattr(bench_graphs, "PROGRAM", program)
    ops = ["chain", "fetch", "crowd", "many", "fork"]
    rows = bench_graphs.rows("cpu", ops, samples=1)
    names = {(row["op"], row["rung"]) for row in rows}
    assert {("chain", "a graph"), ("fetch", "plain"), ("many", "plain")} <= names
    assert not [rung for _, rung in names if "dependent" in rung or "early" in rung]
    assert {op for op, _ in names} == {"chain", "fetch", "many", "fork"}
    others = load_elsewhere("graphs")
    # Both charts draw the other GPU's rows.
    for groups in plot_graphs.OVERLAPS, plot_graphs.HURTS:
        assert "early" in texts(plot_graphs.plot_ratios(groups, rows, others, "plain"))
    assert bench_graphs.rows("cpu", ["crowd"], samples=1) == []
    assert bench_graphs.note([]) == "nothing was measured: this GPU has no such launch"


@pytest.mark.slow
def test_a_program_that_computes_something_else_is_refused(monkeypatch, tmp_path):
    for path in bench_graphs.HERE.glob("*.cu*"):
        text = path.read_text()
        if path.name == "chain.cuh":
            assert text.count("x[i] += weights_s") == 1
            text = text.replace("x[i] += weights_s", "x[i] += 2 * weights_s")
        (tmp_path / path.name).write_text(text)
    program = [tmp_path / path.name for path in bench_graphs.PROGRAM]
    monkeypatch.setattr(bench_graphs, "PROGRAM", program)
    with pytest.raises(RuntimeError, match="plain: x.0. is 40 and should be 20"):
        bench_graphs.rows("cpu", ["fetch"], samples=1)


def test_an_unknown_op_is_refused():
    with pytest.raises(
        ValueError, match="--rungs chains: expected some of chain, host"
    ):
        bench_graphs.rows("cpu", ["chains"])


def test_timelines_require_a_gpu(target):
    if target == "cuda":
        pytest.skip("takes a minute: torch.compile")
    assert bench_graphs.rows("cpu", ["timeline"]) == []


def test_calls_of_steps_require_a_gpu(target):
    rows = bench_graphs.rows(target, ["steps"], samples=2)
    if target == "cpu":
        return
    by = {(row["rung"], row["count"]): row["us"] for row in rows}
    assert {count for _, count in by} == set(bench_graphs.CALLS)
    assert by["fused", 64] > by["fused", 8] > by["fused", 1]


def test_the_last_steps_of_a_run_are_kept_without_its_start():
    names = ("copy", "write", *("a", "b") * 4)  # b begins before a has ended
    spans = [
        Span("stream 7", name, KERNEL if name != "copy" else TO_DEVICE, 10 * i, 12)
        for i, name in enumerate(names)
    ]
    spans += [Span("host", "launch", HOST, start, 5) for start in (1, 55, 85)]
    last = bench_graphs.last_steps(Timeline(spans, "that GPU"), run=4, kept=2)
    work = [(span.name, span.start) for span in last.work]
    assert work == [("a", 0), ("b", 10), ("a", 20), ("b", 30)]
    assert last.us == 42 and last.device == "that GPU"
    assert [s.start for s in last.spans if s.kind == HOST] == [25]


def test_a_timeline_is_a_row():
    record = Timeline([Span("stream 7", "k", KERNEL, 0, 3)], "that GPU")
    row = bench_graphs.timeline_row("weft", "mnist, tf32", timing(5.0), record)
    assert row["us"] == 5 and row["span_us"] == row["busy_us"] == 3
    assert row["precision"] == "tf32" and row["spans"] == record.json()


# ---- charts -------------------------------------------------------------------------


def timing(us):
    return bench.Timing(us, us, us, us, "a clock", 1)


def row(op, rung, us, **more):
    return {"op": op, "impl": "weft", "rung": rung, **timing(us).row(), **more}


HERE = [
    row("chain", "a graph", 1.25, count=100),
    row("chain", "a graph", 1.5, count=5),
    row("fusion", "copy", 100.0, count=8, gbs=4000.0, vs_copy=1.0, bytes=64),
    row("fusion", "three kernels", 300.0, count=8, vs_copy=1 / 3, bytes=192),
]
THERE = {
    "machine": {"device": "that GPU", "date": "2026-01-02"},
    "rows": [row("chain", "C, a launch each", 3.75, count=100), row("fork", "a", 7.0)],
}


def test_chains_for_each_launch_with_the_floor():
    text = drawn(plot_graphs.plot_chains, HERE, [THERE], 0.12)
    assert "1.25 µs" in text and "3.75 µs" in text and "its bytes" in text
    assert "1.50 µs" not in text  # this is the time of a shorter chain
    assert "that GPU, 2026-01-02" in plot_graphs.make_caption([THERE])


def bars(figure):
    return sorted(patch.get_width() for patch in figure.axes[0].patches)


def test_groups_share_an_axis_on_which_the_reference_is_1():
    fusion = plot_graphs.Group(
        "three layers", "fusion", {"three kernels": "three", "copy": "a copy"},
        ("fusion", "copy"), count=8,
    )  # fmt: skip
    fork = plot_graphs.Group("fork", "fork", {"b": "b"}, ("fork", "a"), least={"b": 1})
    there = {**THERE, "rows": [*THERE["rows"], row("fork", "b", 3.5)]}
    figure = plot_graphs.plot_ratios([fusion, fork], HERE, [there], "copy = 1")
    words = texts(figure)
    assert {"three layers", "300 µs · 3.00", "100 µs · 1.00", "3.50 µs · 0.50"} <= {
        *words
    }
    assert bars(figure) == [0.5, 1, 3]  # the fork's times come from the other machine
    thick = [x for x in figure.axes[0].lines if x.get_linewidth() == 3]
    marks = [x.get_xdata()[0] for x in thick]
    # Three kernels move three times the bytes, so they take three times as long. The
    # fork's row states its minimum time.
    assert marks[:2] == [3, 1] and marks[-1] == 1
    assert "hollow: that GPU, 2026-01-02" in " ".join(words)


def test_every_group_was_measured():
    others = load_elsewhere("graphs")
    for group in (*plot_graphs.BYTES, *plot_graphs.OVERLAPS, *plot_graphs.HURTS):
        found = [*group.scale_rows(others[0]["rows"])]
        assert [rung for rung, *_ in found] == [*group.rungs], group.title


def test_streams_have_a_line_for_each_memory_and_the_models_best():
    rows = [row("overlap", f"pinned, {n}", 2400.0 / n) for n in (1, 2, 4)]
    rows += [row("overlap", "pageable, 1", 9000.0)]
    figure = plot_graphs.plot_streams(rows, [], parts=8)
    assert {"2.4", "0.6 pinned", "9 pageable"} <= {*texts(figure)}
    (best,) = [x for x in figure.axes[0].lines if x.get_linestyle() == "--"]
    assert best.get_ydata()[0] == pytest.approx(2.4 * 10 / 24)


def test_a_value_comes_from_this_machine_or_another():
    assert plot_graphs.find_value("chain", "a graph", HERE, [THERE], count=5) == 1.5
    assert plot_graphs.find_value("fork", "a", HERE, [THERE]) == 7
    missing = plot_graphs.find_value("fork", "b", HERE, [THERE])
    assert missing != missing


def read_source(lesson):
    """Return a lesson's text, with its answers."""
    (path,) = (ROOT / "notebooks" / "solutions").glob(f"{lesson}_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def test_lessons_rank_calls_and_name_the_card_as_the_committed_rows_do():
    (results,) = load_elsewhere("graphs")
    assert results["machine"]["device"].startswith("NVIDIA H100")
    assert "empty kernel (on the H100 of [14]" in read_source("15b")
    row_of = {
        (row["rung"], row["count"]): row
        for row in results["rows"]
        if row["op"] == "steps"
    }
    fused, graph, pdl = (row_of[rung, 1] for rung in ("fused", "graph", "pdl"))
    assert graph["us"] >= fused["us"] and pdl["us_low"] > fused["us_high"]
    fused, graph, pdl = (row_of[rung, 64] for rung in ("fused", "graph", "pdl"))
    assert pdl["us_high"] < graph["us_low"] < graph["us_high"] < fused["us_low"]
    assert "a call of one step gains nothing from a graph" in read_source("14")
