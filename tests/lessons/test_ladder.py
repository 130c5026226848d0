"""What the lessons on the matmul ladder share: differences, one rung alone, results."""

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
    """The tiled rung as a reader's file, with a change."""
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
    changed = [line for line in lines if line[0] in "+-"]
    assert len(changed) == 3, changed
    assert not any("__global__" in line for line in changed)
    for rung in "tiled", "tiled_template":
        code = kernel_code(rung_path(rung))
        assert "launch" not in code and code.count("template <") == (rung != "tiled")


@pytest.mark.parametrize("new", ["04_registers_1d", "06_vectorised", "10_pipeline"])
def test_a_difference_leads_from_one_kernel_to_the_other(new):
    lines = difference("03_tiled", new, context=10**6)
    after = [line[1:] for line in lines if line[0] in " +"]
    assert "\n".join(after).strip() == kernel_code(rung_path(new)).strip()


def test_in_a_notebook_a_difference_has_colours_and_keeps_its_text(monkeypatch):
    import html

    from weft.lessons.ladder import code

    shown = []
    monkeypatch.setattr(code, "running_shell", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda one: shown.append(one.data))
    show_diff("tiled", "tiled_runtime", context=3)
    text = html.unescape(re.sub("<[^>]*>", "", shown[0].split("<details>")[0]))
    marked = [line for line in text.splitlines() if line[:1] in "+\N{MINUS SIGN}"]
    lines = difference("tiled", "tiled_runtime", context=3)
    want = [line for line in lines if line[0] in "+-"]
    assert [line[2:] for line in marked] == [line[1:] for line in want]
    assert "All of 03_tiled_runtime.cu" in shown[0]
    for line in shown[0].split("<pre")[1].splitlines():
        assert line.count("<span") == line.count("</span>")


def is_right(mine: OneRung, *sizes: int) -> bool:
    """By the plain build, most of which is there already: the watch build of all that
    a rung may call takes half a minute."""
    lib = mine.library("cpu")
    generator = torch.Generator().manual_seed(0)
    case = matmul_case(generator, Product(*sizes), lib.rungs[0].precision)
    return run_case(lib, 0, case, torch.device("cpu")) <= 1


@pytest.mark.slow
def test_a_copied_rung_finds_the_headers_and_the_rungs_that_it_calls(tmp_path):
    mine = copy_rung("short", tmp_path / "mine.cu")
    mine.path.write_text(mine.path.read_text() + "/* g++: -O0 */\n")
    assert is_right(mine, 3, 70, 40)
    assert is_right(one_rung("narrow"), 70, 3, 40)


def test_the_rung_that_picks_a_rung_brings_all_that_it_picks_from():
    assert is_right(one_rung("tuned"), 70, 33, 40)


@pytest.mark.slow
def test_where_there_is_no_wgmma_few_tiles_of_mma_share_k(tmp_path):
    """As on an A100. The CPU target has wgmma, so the rung has to be told."""
    mine = copy_rung("tuned", tmp_path / "mine.cu")
    text = mine.path.read_text()
    text = re.sub(r" *CHOICE\((?!mma_bf16,).*\n", "", text)
    text = re.sub(r"static double wgmma_.*?\n}\n", "", text, flags=re.DOTALL)
    assert len(re.findall(r"\bCHOICE\(", text)) == 1
    text = text.replace('mine, IDEA, "fp32"', 'mine, IDEA, "bf16"')
    mine.path.write_text(text.replace("<FP32>", "<BF16>"))
    report = mine.inspect(40, 52, 1024)
    assert report.ok
    # b's rows are copied to 16 bytes, one tile is made in parts, and they are added.
    assert len(report.kernels) == 3


def test_one_rung_counts_what_it_asks_of_memory():
    seen = one_rung("tiled").inspect(64, 64, 96).counters
    assert one_rung("naive").inspect(32, 32, 8).ok
    # 2 x 2 blocks of 1024 threads take 3 tiles of a and of b each.
    assert seen.reads["a"] == seen.reads["b"] == 4 * 3 * 1024
    assert seen.load_sectors_per_request == {"a": 4, "b": 4}
    assert seen.reads["a_s"] == 64 * 64 * 96


def test_a_readers_rung_is_checked_and_the_checkout_stays_as_it_was(tmp_path):
    before = (build.KERNELS / "matmul" / "matmul.cu").read_text()
    mine = one_rung(own(tmp_path))
    assert mine.check("cpu").runs >= 9
    assert [rung.name for rung in mine.library().rungs] == ["mine"]
    assert (build.KERNELS / "matmul" / "matmul.cu").read_text() == before
    if not torch.cuda.is_available():
        with pytest.raises(ArgumentError, match="mine: on a CPU its threads are simul"):
            mine.race(64, "cpu")


def test_a_readers_rung_that_is_wrong_is_refused(tmp_path):
    mine = one_rung(own(tmp_path, "k0 + ty, col)", "k0 + ty, col + 1)"))
    with pytest.raises(Mismatch, match="matmul 'mine' on cpu"):
        mine.check("cpu")
    with pytest.raises(Mismatch, match="mine is wrong: its error"):
        mine.inspect(40, 40, 40)


def test_a_readers_rung_that_does_not_compile_says_where(tmp_path):
    mine = one_rung(own(tmp_path, "float acc = 0.0f", "float acc = nought"))
    with pytest.raises(BuildError, match=r"mine\.cu.*nought"):
        mine.library()


@pytest.mark.slow
def test_a_copied_rung_is_ones_own_and_differs_in_nothing_but_its_name(tmp_path):
    mine = copy_rung("vectorised", tmp_path / "new" / "mine.cu")
    assert mine.name == "mine" and "matmul_vectorised" not in mine.path.read_text()
    assert difference("vectorised", mine.path) == []
    mine.path.write_text(mine.path.read_text().replace("BK = 8,", "BK = 16,"))
    changed = [line for line in difference("vectorised", mine.path) if line[0] in "+-"]
    assert len(changed) == 2
    before = one_rung("vectorised").inspect(128, 128, 32).kernels[0].counters
    assert mine.inspect(128, 128, 32).kernels[0].counters.barriers < before.barriers


@pytest.mark.slow
def test_a_rung_that_is_kept_is_a_file_and_a_line(tmp_path):
    """As the lesson says: the file into kernels/matmul, its name into the list."""
    folder = tmp_path / "matmul"
    mine = copy_rung("tiled", folder / "90_mine.cu")
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
    files += [folder / "matmul.cu", mine.path]
    path = build.library_of("kept-rung", files, build.Flavour.here("cpu"))
    lib = native.Library("matmul", "cpu", path)
    assert lib.rung("mine").index == len(native.rungs("matmul"))
    assert check_rung(lib, lib.rung("mine")).runs >= 9


def test_a_listed_rung_without_a_file_is_told_by_name():
    with pytest.raises(ArgumentError, match=r"RUNG\(lost\) is in matmul.cu's list"):
        OneRung(rung_path("tiled"), "lost").library("cpu")


def row(rung, us, impl="weft", side=64, device="a card", **more):
    made = {"op": "matmul", "impl": impl, "rung": rung, "precision": "fp32", "us": us}
    made |= {"m": side, "k": side, "n": side, "tflops": 1 / us, "race": "fp32"}
    made |= {"layout": "nn", "cache": "warm", "target": "cuda"}
    return made | {"device": device, "date": "2026-01-01", **more}


def peak(tflops, device):
    made = {"op": "peak", "impl": "weft", "rung": "ffma", "precision": "fp32"}
    return made | {"tflops": tflops, "device": device}


def elsewhere(*rows):
    return {"machine": {"device": "X", "date": "D"}, "rows": [*rows]}


def test_results_are_this_machines_before_those_that_came_along():
    told = [elsewhere(row("tiled", 2.0, side=32), row("tiled", 2.0))]
    results = Results([row("naive", 8.0), row("naive", 4.0)], told)
    assert results.us("naive", 64) == 4.0 and results.us("tiled", 32) == 2.0
    assert math.isnan(results.tflops("tiled", 128))
    assert results.row("cublas", 64) is None
    assert results.source() == "here: a card; came with the lab: X, D"
    results.rows.append(row("tiled", 16.0))
    assert results.tflops("tiled", 64) == 1 / 16


def test_a_size_is_told_by_one_machine_alone():
    there = [row(rung, 2.0, side=side, device="X")
             for side in (64, 128) for rung in ("tiled", "tuned")]  # fmt: skip
    told = [elsewhere(peak(60.0, "X"), *there)]
    results = Results([peak(8.0, "a card"), row("tuned", 4.0)], told)
    assert results.us("tuned", 64) == 4.0
    # X's time of another rung is none of this card's: no ratio of the two.
    assert math.isnan(results.us("tiled", 64) / results.us("tuned", 64))
    assert [results.us(rung, 128) for rung in ("tiled", "tuned")] == [2.0, 2.0]
    assert [results.device(side) for side in (64, 128, 256)] == ["a card", "X", ""]
    peaks = [results.ceilings(side).get("fp32") for side in (64, 128, 256)]
    assert peaks == [8.0, 60.0, None]


def test_what_was_cold_or_transposed_tells_no_speed_of_a_rung():
    cold = [row("tiled", 1.0, cache="cold, flushed"), row("tiled", 3.0)]
    results = Results([*cold, row("tiled", 2.0, layout="nt")], [])
    assert results.us("tiled", 64) == 3.0
    # 3xTF32 is raced with cuBLAS's fp32 in every layout: fp32's opponent is as usual.
    cublas = [row("gemm_ex", us, "cublas", layout=layout, race="3xtf32")
              for layout, us in (("nn", 2.0), ("tn", 1.0))]  # fmt: skip
    assert Results(cublas, []).us("cublas", 64) == 2.0
    for one in cublas:
        one["precision"] = "tf32"  # here the better layout counts
    assert Results(cublas, []).us("cublas", 64, "tf32") == 1.0


def test_a_wrong_rung_says_what_was_found_in_it(tmp_path):
    mine = copy_rung("double_buffer", tmp_path / "mine.cu")
    text = mine.path.read_text()
    assert "__pipeline_wait_prior(0);" in text
    mine.path.write_text(text.replace("__pipeline_wait_prior(0);", ";"))
    with pytest.raises(Mismatch, match="mine is wrong: .*; .*not waited for"):
        mine.inspect(16, 16, 16)


def test_sizes_that_cannot_be_watched_are_refused_in_one_line():
    for sizes, told in {
        (0, 8, 8): "m = 0, want at least 1",
        (8, -1, 8): "n = -1, want at least 1",
        (8, 8, "4"): "k = '4', want at least 1",
        (10**6, 10**6, 10**6): "1.0e.18 multiply-adds, each watched; at most 4e",
    }.items():
        with pytest.raises(ArgumentError, match=told):
            one_rung("tiled").inspect(*sizes)


def test_a_copy_of_a_rung_overwrites_no_file_of_the_lab(tmp_path):
    path = rung_path("naive")
    text = path.read_text()
    with pytest.raises(ArgumentError, match=r"01_naive\.cu is the lab's"):
        copy_rung("tiled", path)
    assert path.read_text() == text
    with pytest.raises(ArgumentError, match=r"mine: a rung's file ends in \.cu"):
        copy_rung("tiled", tmp_path / "mine")
    assert not list(tmp_path.iterdir())
