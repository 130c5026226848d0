"""Rungs 1 to 3 of the matmul ladder have the properties that their files claim."""

import re
import sys

import pytest
import torch
from tiers import only

from weft import bench, ops
from weft.base.errors import ArgumentError, BuildError
from weft.benchmarks.matmul import command as bench_matmul
from weft.lessons.ladder import WORKS, race_works, vary_work
from weft.see.machine_code import ptx, sass
from weft.toolchain import tools
from weft.toolchain.build import nvcc


def _disassembler() -> bool:
    try:
        return "cuobjdump" not in tools.find_disassembler()
    except BuildError:
        return False


def test_the_naive_rung_takes_more_columns_than_a_grid_has_blocks_in_y():
    n = 65535 * 16 + 17
    a, b = torch.full((1, 1), 3.0), torch.arange(n, dtype=torch.float32).reshape(1, n)
    assert torch.equal(ops.matmul(a, b, rung="naive"), 3 * b)


@pytest.mark.slow
@pytest.mark.skipif(not nvcc() or not _disassembler(), reason="no nvcc, or no nvdisasm")
def test_a_tile_is_slow_for_its_unknown_width_not_for_dynamic_memory():
    """Check PTX and SASS of one compilation, which lesson 08a reads."""

    def counted(view, rung):
        """Return the shared loads and others per multiply-add, and the registers with
        addresses."""
        inspected = view(f"kernels/matmul/03_{rung}.cu", f"matmul_{rung}", arch="sm_80")
        code = inspected.kernels[0].code
        loop = max(code.hot, key=lambda loop: code.counts(loop)["FMA"])
        counts = code.counts(loop)
        texts = [code.instructions[i].text for i in loop.body]
        loads = [text for text in texts if text.startswith(("LDS", "ld.shared"))]
        bases = {re.search(r"\[([%\w]+)", text)[1] for text in loads}
        loads_each = counts["shared load"] / counts["FMA"]
        return loads_each, sum(counts.values()) / counts["FMA"] - loads_each - 1, bases

    for view in ptx, sass:
        rungs = "tiled", "tiled_dynamic", "tiled_runtime"
        constant, dynamic, runtime = (counted(view, rung) for rung in rungs)
        if view is sass:  # PTX loads the numbers of `tiled` one by one
            assert constant[0] == dynamic[0] == 1.25
        assert constant[1] == dynamic[1] < 1
        assert len(constant[2]) == len(dynamic[2]) == 2  # one address for each tile
        assert runtime[0] == 2 and runtime[1] > 1.5
        assert len(runtime[2]) > 4  # each row of b_s has an address


@pytest.mark.parametrize("work", only(WORKS[1:2], WORKS))
def test_more_work_per_thread_takes_fewer_numbers_and_changes_nothing_else(
    work, tmp_path
):
    tm, tn = work
    kernel = vary_work(tm, tn, tmp_path)
    counters = kernel.inspect(128, 128, 16).kernels[0].counters
    assert counters.threads == 128 * 128 / (tm * tn)
    assert counters.reads["a"] == counters.reads["b"] == 128 * 16
    assert counters.barriers == 4 and counters.blocks == 1
    numbers = sum(p.bytes // 4 for p in counters.places
                  if p.kind == "read" and p.array in ("a_s", "b_s"))  # fmt: skip
    assert numbers / (128 * 128 * 16) == (tm + tn) / (tm * tn)


def test_work_per_thread_is_told_as_it_came_with_the_lab_where_there_is_no_gpu(
    monkeypatch, tmp_path
):
    home = sys.modules["weft.lessons.ladder.one_rung"]  # the package hides the module
    monkeypatch.setattr(home, "ROOT", tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert race_works() == []
    results = tmp_path / "notebooks" / "results"
    results.mkdir(parents=True)
    rows = [{"tm": tm, "tn": tn, "us": 1.0} for tm, tn in WORKS]
    bench.write_json(results / "per_thread_a_card.json", rows)
    assert race_works() == rows


def test_a_readers_product_takes_turns_with_the_rungs_that_are_named():
    rows = bench_matmul.time_mine(
        lambda c, a, b: torch.mm(a, b, out=c),
        *(24, "own"),
        device="cpu",
        rungs=["ikj"],
        seconds=0.02,
    )
    names = {(row["impl"], row["rung"]) for row in rows}
    assert {("mine", "own"), ("weft", "ikj"), ("torch", "mm")} <= names
    with pytest.raises(ArgumentError, match="no_such"):
        bench_matmul.time_mine(torch.mm, 24, device="cpu", rungs=["no_such"])
