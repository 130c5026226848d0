"""The benchmarks of edits and launches, which check each result."""

import numpy as np
import pytest
import torch

from weft import bench
from weft.benchmarks import edit as bench_edit
from weft.benchmarks import launch as bench_launch

KEYS = {
    *("op", "impl", "rung", "precision", "target", "device", "timer"),
    *("us", "us_low", "us_high", "us_mean"),
}


def test_edits_differ_from_each_other_and_from_run_to_run():
    texts = [text for _ in range(2) for text, _ in bench_edit.make_edits(20)]
    assert len(set(texts)) == 40
    assert "NUMBER" not in "".join(texts)


def test_an_edit_is_timed_from_the_text_to_the_result():
    rows = bench_edit.rows(edits=len(bench_edit.SOURCES), peers=False)
    assert [row["target"] for row in rows] == ["cpu", "cpu", "cuda"][: len(rows)]
    assert len(rows) == 2 + torch.cuda.is_available()
    assert [row["rung"] for row in rows[:2]] == ["load_cuda", bench_edit.WATCHED]
    for row in rows:
        assert row.keys() >= KEYS and row["impl"] == "weft" and row["us"] > 1000
        assert row["edits"] == len(bench_edit.SOURCES)
        assert f"{row['us'] / 1e3:.0f} ms" in bench_edit.note(rows)


def test_an_edit_that_computes_something_else_is_refused():
    x = torch.zeros(4)
    bench_edit._must_be_close(x, np.zeros(4))
    for wrong in (1.0, torch.nan):
        with pytest.raises(RuntimeError, match="1 of 4 elements are wrong"):
            bench_edit._must_be_close(torch.tensor([0, 0, wrong, 0]), np.zeros(4))


def test_a_missing_compiler_has_a_row_with_the_reason(monkeypatch):
    monkeypatch.setattr(bench_edit.build, "nvcc", lambda: None)
    monkeypatch.setattr(bench_edit.shutil, "which", lambda name: None)
    monkeypatch.setattr(bench_edit.importlib.util, "find_spec", lambda name: None)
    (nvcc,), inline = bench_edit._time_nvcc(1), bench_edit._load_inline("cpu")
    assert nvcc["us"] is None and inline["us"] is None
    assert "nvcc is not installed" in bench_edit.note([nvcc, inline])
    assert "pip install ninja" in bench_edit.note([nvcc, inline])
    assert bench.table([nvcc], bench_edit.SHOWN)


def test_launches_are_timed_in_bursts_and_in_a_loop():
    rows = bench_launch.rows(samples=1)
    assert [row["rung"] for row in rows[:2]] == ["burst load_cuda", "loop load_cuda"]
    assert all(row.keys() >= KEYS and row["us"] > 0 for row in rows)
    if torch.cuda.is_available():
        assert {"weft", "driver", "torch"} <= {row["impl"] for row in rows}
    assert "us a launch" in bench_launch.note(rows)


def test_a_contender_that_computes_something_else_is_refused():
    arguments = bench_launch._make_arguments("cpu")
    with pytest.raises(RuntimeError, match="wrong result: .*nan"):
        bench_launch._check_call(lambda: None, arguments)
