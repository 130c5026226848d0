"""The shared functions of the matmul lessons: differences, single rungs and results."""

from __future__ import annotations

import math
import re

import pytest
import torch

from weft.base.errors import ArgumentError, BuildError, Mismatch
from weft.lessons.ladder import (
    OneRung,
    Results,
    copy_rung,
    one_rung,
    rung_path,
    show_diff,
)
from weft.lessons.ladder.code import difference, kernel_code
from weft.ops.cases.matmul import Product, matmul_case
from weft.ops.check import check_rung, run_case
from weft.toolchain import build, native


def own(folder, old="", new="", name="mine"):
    """Return the tiled rung as a reader's file, with a change."""
    text = rung_path("03_tiled").read_text()
    assert old in text
    text = text.replace(old, new, 1) if old else text
    text = text.replace("MATMUL_RUNG(tiled,", f"MATMUL_RUNG({name},")
    path = folder / "mine.cu"
    path.write_text(text.replace('"matmul.h"', '"matmul/matmul.h"'))
    return path


def test_a_rung_is_found_by_its_name_its_file_or_its_path(tmp_path):
    assert rung_path("tiled").name == rung_path("03_tiled").name == "03_tiled.cu"
    assert rung_path(own(tmp_path)).name == "mine.cu"
    with pytest.raises(ArgumentError, match="no rung 'tilde'.* 03_tiled, "):
        rung_path("tilde")
    with pytest.raises(ArgumentError, match=r"no file none\.cu"):
        rung_path("none.cu")
    (tmp_path / "empty.cu").write_text("int i;\n")
    with pytest.raises(ArgumentError, match=r"empty\.cu has no line MATMUL_RUNG"):
        one_rung(tmp_path / "empty.cu")


def test_a_difference_is_of_the_kernels_alone_and_not_of_their_names(tmp_path):
    lines = difference("tiled", "tiled_dynamic")
    assert "-    __shared__ float a_s[TILE][TILE], b_s[TILE][TILE];" in lines
    changes = [line for line in lines if line[0] in "+-"]
    assert len(changes) == 3, changes
    assert not any("__global__" in line for line in changes)
    for rung in "tiled", "tiled_template":
        code = kernel_code(rung_path(rung))
        assert "launch" not in code and code.count("template <") == (rung != "tiled")


@pytest.mark.parametrize("new", ["04_registers_1d", "06_vectorised", "10_pipeline"])
def test_a_difference_leads_from_one_kernel_to_the_other(new):
    lines = difference("03_tiled", new, context=10**6)
    new_lines = [line[1:] for line in lines if line[0] in " +"]
    assert "\n".join(new_lines).strip() == kernel_code(rung_path(new)).strip()


def test_in_a_notebook_a_difference_has_colours_and_keeps_its_text(monkeypatch):
    import html

    from weft.lessons.ladder import code

    views = []
    monkeypatch.setattr(code, "running_shell", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda one: views.append(one.data))
    show_diff("tiled", "tiled_runtime", context=3)
    text = html.unescape(re.sub("<[^>]*>", "", views[0].split("<details>")[0]))
    marked_lines = [line for line in text.splitlines() if line[:1] in "+\N{MINUS SIGN}"]
    lines = difference("tiled", "tiled_runtime", context=3)
    want = [line for line in lines if line[0] in "+-"]
    assert [line[2:] for line in marked_lines] == [line[1:] for line in want]
    assert "All of 03_tiled_runtime.cu" in views[0]
    for line in views[0].split("<pre")[1].splitlines():
        assert line.count("<span") == line.count("</span>")


def is_right(mine: OneRung, *sizes: int) -> bool:
    """Check a rung with the plain build, since a watch build of all rungs that it may
    call takes half a minute."""
    lib = mine.library("cpu")
    generator = torch.Generator().manual_seed(0)
    case = matmul_case(generator, Product(*sizes), lib.rungs[0].precision)
    return run_case(lib, 0, case, torch.device("cpu")) <= 1


@pytest.mark.slow
def test_a_copied_rung_finds_the_headers_and_the_rungs_that_it_calls(tmp_path):
    copy = copy_rung("short", tmp_path / "mine.cu")
    copy.path.write_text(copy.path.read_text() + "/* g++: -O0 */\n")
    assert is_right(copy, 3, 70, 40)
    assert is_right(one_rung("narrow"), 70, 3, 40)


def test_the_rung_that_picks_a_rung_brings_all_that_it_picks_from():
    assert is_right(one_rung("tuned"), 70, 33, 40)


@pytest.mark.slow
def test_where_there_is_no_wgmma_few_tiles_of_mma_share_k(tmp_path):
    """An A100 has no wgmma. The CPU target has it, so the rung must be changed."""
    copy = copy_rung("tuned", tmp_path / "mine.cu")
    text = copy.path.read_text()
    text = re.sub(r" *CHOICE\((?!mma_bf16,).*\n", "", text)
    text = re.sub(r"static double wgmma_.*?\n}\n", "", text, flags=re.DOTALL)
    assert len(re.findall(r"\bCHOICE\(", text)) == 1
    text = text.replace('mine, IDEA, "fp32"', 'mine, IDEA, "bf16"')
    copy.path.write_text(text.replace("<FP32>", "<BF16>"))
    report = copy.inspect(40, 52, 1024)
    assert report.ok
    # One kernel pads b's rows to 16 bytes, one computes a tile's parts, one adds them.
    assert len(report.kernels) == 3


def test_one_rung_counts_what_it_asks_of_memory():
    counters = one_rung("tiled").inspect(64, 64, 96).counters
    assert one_rung("naive").inspect(32, 32, 8).ok
    # 2 x 2 blocks of 1024 threads each read 3 tiles of a and of b.
    assert counters.reads["a"] == counters.reads["b"] == 4 * 3 * 1024
    assert counters.load_sectors_per_request == {"a": 4, "b": 4}
    assert counters.reads["a_s"] == 64 * 64 * 96


def test_a_readers_rung_is_checked_and_the_checkout_stays_as_it_was(tmp_path):
    original = (build.KERNELS / "matmul" / "matmul.cu").read_text()
    copy = one_rung(own(tmp_path))
    assert copy.check("cpu").runs >= 9
    assert [rung.name for rung in copy.library().rungs] == ["mine"]
    assert (build.KERNELS / "matmul" / "matmul.cu").read_text() == original
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="mine: a CPU simulates its threads"):
            copy.race(64, "cpu")


def test_a_readers_rung_that_is_wrong_is_refused(tmp_path):
    copy = one_rung(own(tmp_path, "k0 + ty, col)", "k0 + ty, col + 1)"))
    with pytest.raises(Mismatch, match="matmul 'mine' on cpu"):
        copy.check("cpu")
    with pytest.raises(Mismatch, match="mine is wrong: the relative error"):
        copy.inspect(40, 40, 40)


def test_a_readers_rung_that_does_not_compile_says_where(tmp_path):
    copy = one_rung(own(tmp_path, "float acc = 0.0f", "float acc = nought"))
    with pytest.raises(BuildError, match=r"mine\.cu.*nought"):
        copy.library()


@pytest.mark.slow
def test_a_copied_rung_is_ones_own_and_differs_in_nothing_but_its_name(tmp_path):
    copy = copy_rung("vectorised", tmp_path / "new" / "mine.cu")
    assert copy.name == "mine" and "matmul_vectorised" not in copy.path.read_text()
    assert difference("vectorised", copy.path) == []
    copy.path.write_text(copy.path.read_text().replace("BK = 8,", "BK = 16,"))
    changes = [line for line in difference("vectorised", copy.path) if line[0] in "+-"]
    assert len(changes) == 2
    original = one_rung("vectorised").inspect(128, 128, 32).kernels[0].counters
    assert copy.inspect(128, 128, 32).kernels[0].counters.barriers < original.barriers


@pytest.mark.slow
def test_a_rung_that_is_kept_is_a_file_and_a_line(tmp_path):
    """Follow the lesson: the file goes into kernels/matmul, its name into the list."""
    folder = tmp_path / "matmul"
    copy = copy_rung("tiled", folder / "90_mine.cu")
    table = build.KERNELS / "matmul" / "matmul.cu"
    text, places = re.subn(
        r"( +RUNG\(\w+\))\n#endif",
        r"\1 \\\n    RUNG(mine)\n#endif",
        table.read_text(),
    )
    assert places == 1
    (folder / "matmul.cu").write_text(text)
    (tmp_path / "common").mkdir()
    for name in (
        "matmul/matmul.h",
        "matmul/pack.h",
        "common/launch.cuh",
        "common/internal.cuh",
        "common/checks.cuh",
    ):
        (tmp_path / name).symlink_to(build.KERNELS / name)
    files = [path for path in build.list_sources("matmul", "cpu") if path != table]
    files += [folder / "matmul.cu", copy.path]
    path = build.library_of("kept-rung", files, build.Flavour.here("cpu"))
    lib = native.Library("matmul", "cpu", path)
    assert lib.rung("mine").index == len(native.rungs("matmul"))
    assert check_rung(lib, lib.rung("mine")).runs >= 9


def test_a_listed_rung_without_a_file_is_told_by_name():
    with pytest.raises(ArgumentError, match=r"RUNG\(lost\) is in matmul.cu's list"):
        OneRung(rung_path("tiled"), "lost").library("cpu")


def row(rung, us, impl="weft", side=64, device="a card", **more):
    fields = {"op": "matmul", "impl": impl, "rung": rung, "precision": "fp32", "us": us}
    fields |= {"m": side, "k": side, "n": side, "tflops": 1 / us, "race": "fp32"}
    fields |= {"layout": "nn", "cache": "warm", "target": "cuda"}
    return fields | {"device": device, "date": "2026-01-01", **more}


def peak(tflops, device):
    fields = {"op": "peak", "impl": "weft", "rung": "ffma", "precision": "fp32"}
    return fields | {"tflops": tflops, "device": device}


def elsewhere(*rows):
    return {"machine": {"device": "X", "date": "D"}, "rows": [*rows]}


def test_results_are_this_machines_before_those_that_came_along():
    committed = [elsewhere(row("tiled", 2.0, side=32), row("tiled", 2.0))]
    results = Results([row("naive", 8.0), row("naive", 4.0)], committed)
    assert results.us("naive", 64) == 4.0 and results.us("tiled", 32) == 2.0
    assert math.isnan(results.tflops("tiled", 128))
    assert results.row("cublas", 64) is None
    assert results.source() == "here: a card; came with the lab: X, D"
    results.rows.append(row("tiled", 16.0))
    assert results.tflops("tiled", 64) == 1 / 16


def test_a_size_is_told_by_one_machine_alone():
    rows = [row(rung, 2.0, side=side, device="X")
             for side in (64, 128) for rung in ("tiled", "tuned")]  # fmt: skip
    committed = [elsewhere(peak(60.0, "X"), *rows)]
    results = Results([peak(8.0, "a card"), row("tuned", 4.0)], committed)
    assert results.us("tuned", 64) == 4.0
    # Card X measured only another rung at this size, and times of two cards have no
    # ratio.
    assert math.isnan(results.us("tiled", 64) / results.us("tuned", 64))
    assert [results.us(rung, 128) for rung in ("tiled", "tuned")] == [2.0, 2.0]
    assert [results.device(side) for side in (64, 128, 256)] == ["a card", "X", ""]
    peaks = [results.ceilings(side).get("fp32") for side in (64, 128, 256)]
    assert peaks == [8.0, 60.0, None]


def test_what_was_cold_or_transposed_tells_no_speed_of_a_rung():
    cold = [row("tiled", 1.0, cache="cold, flushed"), row("tiled", 3.0)]
    results = Results([*cold, row("tiled", 2.0, layout="nt")], [])
    assert results.us("tiled", 64) == 3.0
    # 3xTF32 races against cuBLAS's fp32 in every layout; fp32's opponent does not
    # change.
    cublas = [row("gemm_ex", us, "cublas", layout=layout, race="3xtf32")
              for layout, us in (("nn", 2.0), ("tn", 1.0))]  # fmt: skip
    assert Results(cublas, []).us("cublas", 64) == 2.0
    for one in cublas:
        one["precision"] = "tf32"  # for TF32, the better layout counts
    assert Results(cublas, []).us("cublas", 64, "tf32") == 1.0


def test_a_wrong_rung_says_what_was_found_in_it(tmp_path):
    copy = copy_rung("double_buffer", tmp_path / "mine.cu")
    text = copy.path.read_text()
    assert "__pipeline_wait_prior(0);" in text
    copy.path.write_text(text.replace("__pipeline_wait_prior(0);", ";"))
    with pytest.raises(Mismatch, match="mine is wrong: .*; .*not waited for"):
        copy.inspect(16, 16, 16)


def test_sizes_that_cannot_be_watched_are_refused_in_one_line():
    for sizes, message in {
        (0, 8, 8): "m = 0, expected at least 1",
        (8, -1, 8): "n = -1, expected at least 1",
        (8, 8, "4"): "k = '4', expected at least 1",
        (10**6, 10**6, 10**6): "1.0e.18 multiply-adds; .* at most 4e",
    }.items():
        with pytest.raises(ArgumentError, match=message):
            one_rung("tiled").inspect(*sizes)


def test_a_copy_of_a_rung_overwrites_no_file_of_the_lab(tmp_path):
    path = rung_path("naive")
    text = path.read_text()
    with pytest.raises(ArgumentError, match=r"01_naive\.cu is a file of the lab"):
        copy_rung("tiled", path)
    assert path.read_text() == text
    with pytest.raises(ArgumentError, match=r"mine: a rung's file ends in \.cu"):
        copy_rung("tiled", tmp_path / "mine")
    assert not list(tmp_path.iterdir())
