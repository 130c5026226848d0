"""Lesson 09a's ruler, a reader's own rung, and the errors of sums."""

import math

import numpy as np
import pytest
import torch
from drawings import texts
from tiers import only

from weft.base.errors import ArgumentError, Mismatch
from weft.base.paths import KERNELS
from weft.lessons import bandwidth
from weft.lessons.bandwidth import (
    copy_rung,
    count_rungs,
    draw_ruler,
    draw_sums,
    list_gpu_rungs,
    time_ops,
)
from weft.see import view


@pytest.fixture
def figures(monkeypatch):
    """Return the figures that a function draws, in order."""
    shown = []
    monkeypatch.setattr(view, "show_figure", shown.append)
    return shown


def make_row(over_floor, op="reduce", **more):
    return {"op": op, "rung": "naive", "over_floor": over_floor, **more}


# ---- rungs, counted and timed --------------------------------------------------------


def test_counted_rows_are_in_the_order_of_the_names():
    rows = count_rungs("copy", ["vector", "byte"], 2**12)
    assert [row["rung"] for row in rows] == ["vector", "byte"]
    wide, narrow = (row["requests"] for row in rows)
    assert narrow == 16 * wide == 2 * 2**12 * 4 // 32


def test_an_op_is_timed_over_the_fastest_copy(monkeypatch):
    monkeypatch.setattr(bandwidth, "SECONDS", 0.01)
    rows = time_ops(64)
    assert len(rows) == 9 and min(row["us"] for row in rows) > 0
    best = max(row["gbs"] for row in rows if row["op"] == "copy")
    for row in rows:
        moved = 4 * 64 * 64 * (1 if row["op"] == "reduce" else 2)
        assert row["bytes"] == moved
        assert row["over_floor"] == pytest.approx(best * row["us"] * 1e3 / moved)
    copies = [row["over_floor"] for row in rows if row["op"] == "copy"]
    assert min(copies) == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
@pytest.mark.parametrize("op", list(bandwidth.GPU_RUNS))
def test_without_a_gpu_the_rows_came_with_the_lab(op):
    rows = list_gpu_rungs(op)
    assert {row["op"] for row in rows} == {"copy", op}
    assert min(row["over_floor"] for row in rows if row["op"] == "copy") == 1
    assert all("NVIDIA" in row["elsewhere"] for row in rows)
    names = [(row["op"], row["impl"], row["rung"]) for row in rows]
    assert len(set(names)) == len(names), "rows of several sizes"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_committed_rows_of_one_size_are_those_of_that_size():
    rows = [row for row in list_gpu_rungs("softmax", 1024) if row["op"] == "softmax"]
    assert {(row["cols"], row["rows"]) for row in rows} == {(1024, 2**18)}


def test_with_a_gpu_its_own_copies_and_sums_are_timed(monkeypatch):
    def time_rows(op, device, sizes, compiled):
        assert (device, sizes, compiled) == ("cuda", [2**26], False)
        return [{"op": op, "gbs": {"copy": 40.0, "reduce": 10.0}[op]}]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bandwidth.bench_ops, "rows", time_rows)
    rows = {row["op"]: row for row in list_gpu_rungs("reduce")}
    assert [rows[op]["over_floor"] for op in ("copy", "reduce")] == [1, 4]
    assert not rows["copy"]["elsewhere"]


# ---- the picture ---------------------------------------------------------------------


def test_a_bar_has_its_name_its_value_and_its_rate(figures):
    own = make_row(4.5, "transpose", gbs=12.34, us=1.0)
    peer = {"rung": "compile", "impl": "torch"}
    draw_ruler([own, make_row(1.25, "copy", gbs=3456.7, us=1.0) | peer])
    words = texts(figures[0])
    assert {"transpose, naive", "copy, PyTorch, compiled", "the floor"} <= set(words)
    assert {"4.50, 12.3 GB/s", "1.25, 3,457 GB/s"} <= set(words)


def test_a_very_long_bar_is_cut_off_and_keeps_its_number(figures):
    draw_ruler([make_row(1877.2), make_row(8)])
    (ax,) = figures[0].axes
    longest, other = (bar.get_width() for bar in ax.patches)
    assert other == 8 < longest < 2 * other
    assert "1,877 (cut off)" in texts(figures[0])


def test_the_text_of_a_bar_below_the_floor_is_right_of_the_line(figures):
    draw_ruler([make_row(0.5), make_row(3)])
    (ax,) = figures[0].axes
    places = {note.get_text(): note.xy[0] for note in ax.texts if hasattr(note, "xy")}
    assert places == {"0.50": 1, "3.00": 3}


def test_times_of_a_shared_machine_are_not_drawn(figures, monkeypatch):
    monkeypatch.delenv("WEFT_SHARED", raising=False)
    draw_ruler([make_row(2, gbs=1.0, us=1.0, waited=0.9)])
    assert not figures[0].axes[0].patches


@pytest.mark.parametrize("call, message", [
    (lambda: count_rungs("transpos", [], 64), "transpos is not one of .*softmax"),
    (lambda: count_rungs("matmul", ["naive"], 64), "matmul is not one of"),
    (lambda: list_gpu_rungs("relu"), "'relu' is not one of .*'reduce'"),
    (lambda: time_ops(0), r"time_ops\(0\): the side must be at least 1"),
])  # fmt: skip
def test_what_cannot_be_counted_or_timed_is_refused(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


def test_a_ruler_needs_rows():
    with pytest.raises(ArgumentError, match="no rows"):
        draw_ruler([])


# ---- a reader's own rung -------------------------------------------------------------


@pytest.mark.parametrize(
    "op, name",
    only(
        [("transpose", "padded")],
        [
            ("transpose", "padded"),
            ("reduce", "vector"),
            ("copy", "word"),
            ("softmax", "online"),
        ],
        names=2,
    ),
)
def test_a_copy_is_checked_and_counted_like_its_rung(op, name, tmp_path):
    mine = copy_rung(op, name, tmp_path / "mine.cu")
    assert (tmp_path / "mine.cu").read_text().startswith("/* mine.cu: a copy of ")
    assert mine.check().runs >= 9
    (theirs,) = count_rungs(op, [name], 64)
    assert mine.count(64) == theirs | {"rung": "mine"}


@pytest.mark.slow
def test_a_changed_copy_has_its_own_counts_and_a_wrong_one_is_refused(tmp_path):
    file = tmp_path / "mine.cu"
    mine = copy_rung("transpose", "padded", file)
    text = file.read_text()
    file.write_text(text.replace("tile[32][33]", "tile[32][34]"))
    # Rows of 34 floats put two lanes of a column into each bank.
    assert mine.count(64)["bank_conflicts"] == 32 * (64 // 32) ** 2
    file.write_text(text.replace("tile[32][33]", "tile[32][33]; y += 1"))
    with pytest.raises(Mismatch, match="transpose 'padded'"):
        mine.check()


@pytest.mark.parametrize(
    "op, name, file, why",
    [
        ("transpose", "paded", "mine.cu", "'paded' of 'transpose'; there are .*padded"),
        ("relu", "naive", "mine.cu", "none in kernels/relu"),
        ("transpose", "padded", "mine.c", r"mine.c: a rung's file ends in .cu"),
        ("transpose", "padded", KERNELS / "new.cu", "is a file of the lab"),
    ],
)
def test_a_copy_that_cannot_be_made_is_refused(op, name, file, why, tmp_path):
    with pytest.raises(ArgumentError, match=why):
        copy_rung(op, name, tmp_path / file)
    assert not any(tmp_path.iterdir()) and not (KERNELS / "new.cu").exists()


# ---- sums ----------------------------------------------------------------------------


def test_a_sum_is_drawn_at_its_distance_from_the_exact_one(figures):
    draw_sums({"a": [10.5, 8.0], "b": [10.0]}, 10.0, {"a": 4.0, "b": 250.0})
    (ax,) = figures[0].axes
    dots = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"]
    # The exact sum is at the left edge, since a logarithmic axis has no 0.
    assert dots == [0.5, 2.0, 0.125] and ax.get_xlim()[0] < 0.125
    assert {"bound: 4", "bound: 250", "a", "b"} <= set(texts(figures[0]))


def test_sums_without_errors_are_drawn(figures):
    draw_sums({"a": [3.0]}, 3.0, {"a": 1.0})
    assert np.isfinite(figures[0].axes[0].get_xlim()).all()
    assert math.isfinite(figures[0].axes[0].get_xlim()[1])


def test_sums_need_the_bound_of_each_order():
    with pytest.raises(ArgumentError, match="sums of a, b and bounds of a$"):
        draw_sums({"a": [1.0], "b": [1.0]}, 1.0, {"a": 1.0})
