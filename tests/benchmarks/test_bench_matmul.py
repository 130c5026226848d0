"""`weft bench matmul`: its races, refused contenders, and ratios to cuBLAS."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
import torch
from invented_products import row, rows

from weft import __main__ as command
from weft import bench
from weft.base.errors import ArgumentError, Mismatch
from weft.benchmarks.matmul import calls as bench_matmul_calls
from weft.benchmarks.matmul import command as bench_matmul
from weft.benchmarks.matmul import race as racing
from weft.benchmarks.matmul.calls import Operands, Size
from weft.benchmarks.matmul.comparison import (
    MEAN,
    PRECISIONS,
    RESULTS,
    SUMMARY,
    beside_fastest,
    compare_fastest,
)
from weft.benchmarks.matmul.race import SETS, plan_races
from weft.ops import check as checked
from weft.timing import race as timing_race
from weft.timing import timers
from weft.timing.race import Contender
from weft.toolchain import native

CPU = torch.device("cpu")


def test_a_size_is_a_cube_or_m_k_n():
    assert Size.of("96") == Size(96, 96, 96) and str(Size(96, 96, 96)) == "96"
    assert Size.of("2x30x4") == Size(m=2, k=30, n=4) and str(Size(2, 30, 4)) == "2x30x4"
    assert Size(2, 30, 4).flop == 480
    assert Size(2, 30, 4).bytes("fp32") == 4 * (60 + 120 + 8)
    assert Size(2, 30, 4).bytes("bf16") == 2 * (60 + 120) + 4 * 8
    assert Size.of("5of2x30x4") == Size(2, 30, 4, batch=5)
    assert str(Size(2, 30, 4, 5)) == "5of2x30x4" and str(Size(8, 8, 8, 3)) == "3of8"
    assert Size(2, 30, 4, 5).flop == 5 * 480
    assert Size(2, 30, 4, 5).bytes("fp32") == 5 * Size(2, 30, 4).bytes("fp32")
    for bad in ("0", "3x4", "-2", "1x2x3x4", "n", "0of8", "2of", "of8", "2of0"):
        with pytest.raises(ArgumentError, match="m x k x n"):
            Size.of(bad)


def test_the_plain_c_rungs_race_numpy_and_pytorch():
    results = bench_matmul.rows(sizes=["33x41x17"], seconds=0.02, rungs=["reference"])
    assert [r["impl"] for r in results] == ["weft", "numpy", "torch"]
    for result in results:
        assert (result["m"], result["k"], result["n"]) == (33, 41, 17)
        assert (
            0 < result["error_rms"] < 1e-6 and result["error_rms"] < result["error_max"]
        )
        assert result["tflops"] == pytest.approx(2 * 33 * 41 * 17 / result["us"] / 1e6)
        assert result["timer"] == "wall" and result["cache"] == "warm"
        assert result["threads"] == torch.get_num_threads()
        assert result["vs_torch"] == results[2]["us"] / result["us"]
        assert result["vs_cublas"] is None


def test_a_batch_races_bmm():
    (ours, _, peer) = bench_matmul.rows(sizes=["3of7x5x9"], seconds=0.02,
                                        rungs=["reference"])  # fmt: skip
    assert (ours["batch"], ours["m"], ours["k"], ours["n"]) == (3, 7, 5, 9)
    assert peer["rung"] == "bmm" and ours["vs_torch"] == peer["us"] / ours["us"]
    assert 0 < ours["error_rms"] < 1e-6


@pytest.mark.slow
def test_our_fastest_rung_in_tf32_races_in_every_layout():
    """The product is the same in every layout of the operands."""
    results = bench_matmul.rows(sizes=["33"], seconds=0.01,
                              rungs=["mma_tf32", "wgmma_tf32"],
                              precisions=["tf32"])  # fmt: skip
    ours = [(r["rung"], r["layout"]) for r in results if r["impl"] == "weft"]
    last = [("wgmma_tf32", layout) for layout in ("nn", "nt", "tn")]
    assert ours == [("mma_tf32", "nn"), *last]
    assert all(1e-5 < r["error_rms"] < 1e-3 for r in results if r["impl"] == "weft")
    a, b = (x.sets[0] for x in _two_layouts())
    assert a[2].shape == (41, 17) and b[2].shape == (17, 41) and b[2].is_contiguous()
    assert torch.equal(a[2].T, b[2]) and a[1] is b[1]


def _two_layouts() -> tuple[Operands, Operands]:
    operands = Operands.random(Size(33, 41, 17), "tf32", CPU, cold=False)
    return operands, operands.stored("nt")


def test_a_far_slower_contender_is_timed_three_times(monkeypatch):
    monkeypatch.setattr(racing, "SLOW_SECONDS", 0)
    races = []
    race = racing.race

    def record_race(contenders, *args, **more):
        races.append(({*contenders}, more["samples"]))
        return race(contenders, *args, **more)

    monkeypatch.setattr(racing, "race", record_race)
    seconds = {"weft ijk fp32 nn": 6e-3, "weft reference fp32 nn": 4e-3}

    def set_speed(one, size, where, speeds):
        speeds.tflops[one.name] = size.flop / seconds.get(one.name, 1e-3) / 1e12

    monkeypatch.setattr(racing, "_note_speed", set_speed)
    rungs = ["ijk", "reference"]
    results = bench_matmul.rows(sizes=["128"], rungs=rungs, seconds=0.01, rounds=9)
    (fast, nine), (slow, thrice) = races
    assert slow == {"weft ijk fp32 nn"} and "weft reference fp32 nn" in fast
    assert (nine, thrice) == (9, 3) and len(fast | slow) == len(results) == 4


def test_cold_operands_take_turns(monkeypatch):
    monkeypatch.setattr(bench_matmul_calls.timers, "cache_size", lambda device: 10_000)
    operands = Operands.random(Size(20, 20, 20), "fp32", CPU, cold=True)
    assert len(operands.sets) == 6  # each set has 4800 bytes
    assert len({t.data_ptr() for copy in operands.sets for t in copy}) == 18
    (first, *_) = bench_matmul.rows(sizes=["20"], rungs=["reference"], cold=True,
                                    seconds=0.01)  # fmt: skip
    assert first["cache"] == "cold, rotated" and first["checked"] is True


def test_operands_too_small_to_take_turns_are_flushed(monkeypatch):
    """64 copies of a product of 100 x 100 are only 7 MiB and fit in the cache."""
    flushed = []
    monkeypatch.setattr(
        bench_matmul_calls.timers, "cache_size", lambda device: 60 << 20
    )
    monkeypatch.setattr(bench_matmul_calls.timers, "make_flusher",
                        lambda device: lambda: flushed.append(1))  # fmt: skip
    (first, *_) = bench_matmul.rows(sizes=["7"], rungs=["reference"], cold=True,
                                    seconds=0.01)  # fmt: skip
    assert first["cache"] == "cold, flushed" and flushed


# ---- wrong contenders are not timed ------------------------------------------


def as_tf32(x):
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("kind", ["tf32", "bf16"])
def test_one_wrong_element_of_four_million_is_refused(kind):
    operands = Operands.random(Size(2000, 9, 2000), kind, CPU, cold=False)
    c, a, b = operands.sets[0]
    right = as_tf32(a) @ as_tf32(b) if kind == "tf32" else a.float() @ b.float()
    assert operands.errors(lambda i: c.copy_(right), kind)["error_max"] < 2e-3
    right[1234, 56] += 0.1 * right.std()
    rms = float((right - operands.want).square().mean().sqrt() / right.std())
    assert rms < bench_matmul_calls.error_limit(kind, 9)  # this limit accepts it
    with pytest.raises(
        Mismatch, match=r"c\[1234, 56\] is .*; 1 of 4000000 elements are wrong"
    ):
        operands.errors(lambda i: c.copy_(right), kind)


@pytest.mark.parametrize(
    "product",
    [
        lambda c, a, b: None,
        lambda c, a, b: c.zero_(),
        lambda c, a, b: torch.mm(b, a, out=c),
        lambda c, a, b: torch.mm(as_tf32(a), as_tf32(b), out=c),
        lambda c, a, b: torch.mm(a, b, out=c)[-1].fill_(torch.nan),
    ],
    ids=["nothing", "zeros", "swapped", "tf32", "a NaN"],
)
def test_a_readers_wrong_product_is_refused(product):
    with pytest.raises(Mismatch, match="not timed, because it is wrong: at 50"):
        bench_matmul.time_mine(product, 50, device="cpu")


def test_a_readers_own_product_races_the_others():
    def product(c, a, b):
        c.copy_(torch.from_numpy(np.dot(a.numpy(), b.numpy())))

    results = bench_matmul.time_mine(
        product, "20x30x40", "dot", device="cpu", seconds=0.02
    )
    assert {(r["impl"], r["rung"]) for r in results} == {
        *[("mine", "dot"), ("numpy", "matmul"), ("torch", "mm")],
    }


def test_a_rung_that_fails_its_check_is_reported_and_not_timed(monkeypatch, capsys):
    def require(lib, rung):
        raise checked.NotChecked("not timed, since it is wrong: c[0] is 3")

    monkeypatch.setattr(checked, "require", require)
    results = bench_matmul.rows(sizes=["8"], rungs=["reference"], seconds=0.01)
    (wrong,) = [r for r in results if r["impl"] == "weft"]
    assert wrong["us"] is None and "c[0] is 3" in wrong["wrong"]
    assert "c[0] is 3" in capsys.readouterr().err
    assert bench_matmul.status(results) == 1
    assert bench_matmul.status([r for r in results if r is not wrong]) == 0


def test_a_passed_build_is_remembered(monkeypatch, tmp_path):
    runs = []

    def check(lib, rung):
        runs.append(lib.path.name)
        return checked.RungVerdict("matmul", rung.name, "fp32", "cpu", 3, 0.5)

    monkeypatch.setattr(checked, "check_rung", check)
    monkeypatch.setattr(checked.store, "cache_folder", lambda *parts: tmp_path)
    rung = native.library("matmul", "cpu").rung("reference")

    class Library:
        target = "cpu"

        def __init__(self, path):
            self.path = path

    old, new = (Library(tmp_path / f"{name}.so") for name in ("old", "new"))
    assert checked.require(old, rung) == checked.require(old, rung)
    checked.require(new, rung)
    assert runs == ["old.so", "new.so"]


def test_a_failed_build_is_checked_again(monkeypatch, tmp_path):
    def check(lib, rung):
        raise Mismatch("c[0] is 3")

    monkeypatch.setattr(checked, "check_rung", check)
    monkeypatch.setattr(checked.store, "cache_folder", lambda *parts: tmp_path)
    lib = native.library("matmul", "cpu")
    for _ in range(2):
        with pytest.raises(checked.NotChecked, match=r"not timed.*c\[0\] is 3"):
            checked.require(lib, lib.rung("reference"))
    assert not [*tmp_path.iterdir()]


def test_a_contender_that_would_take_too_long_is_left_out(monkeypatch, capsys):
    monkeypatch.setitem(racing.LONGEST, "cpu", 1e-9)
    monkeypatch.setitem(racing.PROBE, "cpu", "8")
    results = bench_matmul.rows(sizes=["40"], rungs=["reference"], seconds=0.01)
    assert [row["impl"] for row in results] == ["numpy", "torch"]
    assert "absent: weft reference fp32 nn at 40" in capsys.readouterr().err


# ---- sets, files -------------------------------------------------------------


def test_every_set_is_made_of_sizes():
    for name in SETS:
        for race in plan_races(CPU, name, (), ("reference",), ()):
            assert race.size.flop > 0
    with pytest.raises(
        ArgumentError, match="--set nice: expected one of ladder, summary"
    ):
        plan_races(CPU, "nice", (), (), ())
    with pytest.raises(ArgumentError, match="--precisions fp64"):
        plan_races(CPU, "", (), (), ("fp64",))


def kind_of(race) -> tuple:
    return race.size, race.precision, race.cold, "nn" in race.layouts


def test_the_union_of_the_sets_has_each_race_once_with_all_its_rungs():
    plan = plan_races(CPU, "all", (), (), ())
    kinds = [kind_of(race) for race in plan]
    assert len(kinds) == len({*kinds})
    for name in SETS:
        for race in plan_races(CPU, name, (), (), ()):
            (match,) = [r for r in plan if kind_of(r) == kind_of(race)]
            assert {*race.rungs} <= {*match.rungs} and race.rounds <= match.rounds
            assert {*race.layouts} <= {*match.layouts}


def test_no_race_of_a_set_has_too_few_rounds_for_a_spread():
    few = min(race.rounds for race in plan_races(CPU, "all", (), (), ()))
    assert timing_race.spread_of([1.0] * few) == 0


def test_every_precision_races_with_a_and_with_b_transposed_and_in_batches():
    races = {
        (str(race.size), race.precision, layout)
        for name in ("layouts", "ladder")
        for race in plan_races(CPU, name, (), (), ())
        for layout in race.layouts
    }
    for kind in PRECISIONS:
        for size in ("1023", "1024", "4096"):
            assert {(size, kind, "nt"), (size, kind, "tn")} <= races
        assert ("64of256", kind, "nn") in races


def test_the_cold_set_is_part_of_the_summary_and_its_rows_are_cold(monkeypatch):
    plan = plan_races(CPU, "cold", (), ("reference",), ())
    assert all(race.cold for race in plan)
    sizes = {(kind, size) for kind, size, target in SUMMARY if target == "cuda"}
    races = plan_races(CPU, "cold", (), (), ())
    assert {(r.precision, (r.size.m, r.size.k, r.size.n)) for r in races} <= sizes
    monkeypatch.setattr(timers, "cache_size", lambda device: 10_000)
    small = replace(plan[0], size=Size(20, 20, 20))
    options = racing.RaceOptions(CPU, seconds=0.01)
    results = racing.race_rows(small, options, racing.Speeds())
    assert results and all(row["cache"].startswith("cold") for row in results)


def test_a_race_of_transposed_operands_omits_other_layouts():
    (race, *_) = plan_races(CPU, "layouts", (), ("reference",), ())
    small, options = (
        replace(race, size=Size(9, 8, 7)),
        racing.RaceOptions(CPU, seconds=0.01),
    )
    results = racing.race_rows(small, options, racing.Speeds())
    assert [(r["rung"], r["layout"]) for r in results] == [
        ("reference", "nt"), ("reference", "tn")
    ]  # fmt: skip
    assert all(0 < row["error_rms"] < 1e-6 for row in results)


def test_the_summary_set_has_every_size_of_the_summary():
    sizes = {Size.of(size) for size, *_ in SETS["summary"]}
    assert {Size(side, side, side) for side in MEAN} <= sizes
    assert {Size(5120, 256, 5120), Size(50000, 784, 10)} <= sizes
    (kinds,) = [kinds for size, kinds, _ in SETS["summary"] if size == "50000x784x10"]
    assert {*kinds} == {*PRECISIONS}
    tall = [r for r in plan_races(CPU, "summary", (), (), ()) if r.size.m == 50000]
    assert {race.layouts for race in tall} == {("nn",)}


def test_a_sustained_load_is_timed_after_an_equal_load(monkeypatch):
    """Each load lasts long enough, regardless of the time that a burst took."""
    loads = []
    repeat = Contender.repeat
    monkeypatch.setattr(
        Contender, "repeat", lambda one, n: (loads.append(n), repeat(one, n))
    )
    one = Contender(call=lambda: time.sleep(1e-3))
    keys = timers.time_sustained(one, 1000.0, CPU, 0.05)
    assert loads == [5] * 20
    assert 1e3 <= keys["sustained_us"] < 1e5 and keys["sustained_s"] == 0.05


@pytest.mark.slow
def test_a_rows_sustained_speed_is_of_its_size():
    row = bench_matmul.rows("cpu", ["64"], ["simd"], sustain=0.01)[0]
    speed = 2 * 64**3 / row["sustained_us"] / 1e6
    assert row["sustained_tflops"] == pytest.approx(speed)


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
def test_seconds_of_a_load_must_be_a_number(seconds, capsys):
    words = ["bench", "matmul", "--sizes", "16", f"--sustain={seconds}"]
    assert command.main(words) == 1
    assert f"--sustain {float(seconds)}: expected seconds" in capsys.readouterr().err


def test_a_run_in_parts_keeps_rows_until_they_are_measured_again(tmp_path):
    path, first = tmp_path / "rows.json", rows()
    old = {"op": "matmul", "device": "This GPU", "impl": "weft", "precision": "fp32"}
    bench.write_json(path, [*first, old, first[0] | {"device": "That GPU"}])
    newer = [r | {"tflops": 1.0} for r in rows(sizes=[(1024,) * 3])]
    results = bench_matmul.merged(path, newer)
    assert len(results) == len(first)
    assert [r["tflops"] == 1.0 for r in results] == [r["m"] == 1024 for r in results]
    assert bench_matmul.merged(tmp_path / "none.json", newer) == newer
    single = [r | {"threads": 1} for r in first]  # the file keeps rows with two threads
    bench.write_json(path, [r | {"threads": 2} for r in first])
    assert len(bench_matmul.merged(path, single)) == 2 * len(first)


def test_the_command_prints_and_writes(tmp_path, capsys):
    path = tmp_path / "rows.json"
    words = f"bench matmul --sizes 16,9x8x7 --rungs reference --rounds 1 --json {path}"
    assert command.main(words.split()) == 0
    output = capsys.readouterr().out
    assert "vs_torch" in output and "cache warm" in output
    assert len(bench.read_json(path)["rows"]) == 6


# ---- ratios to cuBLAS ------------------------------------------------------


def test_the_summary_has_the_best_rung_in_time_and_accuracy():
    lines = {(g["precision"], g["size"]): g for g in compare_fastest(rows())}
    assert lines["fp32", "4096"]["ours"] == "tuned"
    assert lines["fp32", "4096"]["ratio"] == pytest.approx(1.08)
    assert lines["3xtf32", "4096"]["ratio"] == pytest.approx(2.86, abs=0.01)
    assert lines["bf16", "4096"]["ratio"] == pytest.approx(1.0)
    assert ("fp32", "geometric mean of 2 of 12") in lines
    assert lines["3xtf32", "4096"]["error"] == "no larger"
    worse = [
        r | {"error_rms": 2e-6} if r["precision"] == "3xtf32" else r for r in rows()
    ]
    (lines, _) = [g for g in compare_fastest(worse) if g["precision"] == "3xtf32"]
    assert lines["error"] == "larger than cuBLAS fp32's"


def test_the_mean_is_over_all_measured_sizes():
    lines = compare_fastest(rows(sizes=[(side,) * 3 for side in MEAN]))
    (mean,) = [g for g in lines if "mean" in g["size"]]
    assert mean["ratio"] == pytest.approx(1.08)
    assert mean["size"] == f"geometric mean of {len(MEAN)} of {len(MEAN)}"


def test_the_worst_size_is_named():
    slow = [row("weft", "tuned", "fp32", 1.0, (7, 8, 9), vs_cublas=0.4)]
    (line,) = [g for g in compare_fastest(slow) if g["size"].startswith("worst")]
    assert (line["size"], line["ratio"]) == ("worst of 1: 7x8x9", 0.4)
    transposed = slow[0] | {"layout": "tn", "vs_cublas": 0.3}
    (line,) = [
        g for g in compare_fastest([*slow, transposed]) if g["size"].startswith("worst")
    ]
    assert line["size"] == "worst of 2: 7x8x9 tn"


def test_a_cpus_ratios_are_to_torch_with_equally_many_threads():
    cpu = {"target": "cpu", "vs_cublas": None}
    results = [
        row("weft", rung, "fp32", speed, (1024,) * 3, threads=threads, **cpu)
        for threads, rung, speed in ((1, "simd", 0.06), (1, "reference", 0.05),
                                     (2, "simd", 0.06), (2, "reference", 0.1))
    ]  # fmt: skip
    results += [
        row("torch", "mm", "fp32", speed, (1024,) * 3, threads=threads, **cpu)
        for threads, speed in ((1, 0.08), (2, 0.2))
    ]
    beside_fastest(results)
    one, two = compare_fastest(results)
    assert (one["threads"], one["ours"]) == (1, "simd")
    assert one["ratio"] == pytest.approx(0.75) and one["beside"] == "torch.mm"
    assert (two["threads"], two["ours"]) == (2, "reference")
    assert two["ratio"] == pytest.approx(0.5)


def test_a_line_has_the_ratios_with_warm_and_with_cold_inputs():
    warm, cold = rows(), [r | {"cache": "cold, rotated", "us": 2 * r["us"],
                               "vs_cublas": 0.9} for r in rows()]  # fmt: skip
    (line,) = [g for g in compare_fastest([*cold, *warm]) if
               (g["precision"], g["size"]) == ("fp32", "4096")]  # fmt: skip
    assert (line["ratio"], line["cold"]) == (1.08, 0.9)
    assert all(g["cold"] is None for g in compare_fastest(warm))


def test_tall_and_narrow_has_a_line_in_every_precision():
    tall = (50000, 784, 10)
    results = [
        row("weft", kind, kind, 1.0, tall, vs_cublas=0.99) for kind in PRECISIONS
    ]
    lines = [g for g in compare_fastest(results) if g["size"] == "50000x784x10"]
    assert [g["precision"] for g in lines] == [*PRECISIONS]


# The lowest allowed ratio of our fastest rung's speed to the opponent's: by precision,
# and by size where it differs.
FLOORS = {"fp32": 1.02, "3xtf32": 2.3, "tf32": 0.96, "bf16": 0.97, "fp16": 1.0}
SIZE_FLOORS = {("fp32", "1024"): 1.08, ("fp32", "5120x256x5120"): 1.12}


def floor_of(line):
    """Return the lowest allowed ratio of a line of a committed result."""
    if line["target"] == "cpu":
        return 0.6
    if line["size"].startswith("worst"):
        return 0.5
    if "mean" in line["size"]:
        return 0.97 if f"of {len(MEAN)} of" in line["size"] else 0.0
    if line["size"] == "50000x784x10":
        return 1.0
    return SIZE_FLOORS.get((line["precision"], line["size"]), FLOORS[line["precision"]])


@pytest.mark.parametrize("path", sorted(RESULTS.glob("matmul_*.json")),
                         ids=lambda path: path.stem)  # fmt: skip
def test_no_committed_result_falls_below_the_floors(path):
    lines = compare_fastest(bench.read_json(path)["rows"])
    below = [line for line in lines if line["ratio"] < floor_of(line)]
    below += [line for line in lines if (line["error"] or "").startswith("larger")]
    assert lines and not below


def test_every_precision_has_its_worst_size():
    sizes = {(7, 8, 9): 0.4, (64, 64, 64): 0.9}
    results = [row("weft", kind, kind, 1.0, size, vs_cublas=ratio)
             for kind in ("fp32", "tf32", "bf16", "fp16")
             for size, ratio in sizes.items()]  # fmt: skip
    batch = row("weft", "tuned", "fp32", 1.0, (64, 64, 64), vs_cublas=None)
    lines = compare_fastest([*results, batch | {"batch": 1000, "vs_torch": 0.3}])
    worst = {g["precision"]: (g["size"], g["ratio"]) for g in lines}
    assert worst == {
        "fp32": ("worst of 3: 1000of64", 0.3),
        **{kind: ("worst of 2: 7x8x9", 0.4) for kind in ("tf32", "bf16", "fp16")},
    }


def test_a_batch_has_no_line_and_does_not_change_the_mean():
    batches = [r | {"batch": 64} for r in rows()]
    assert all(g["size"].startswith("worst") for g in compare_fastest(batches))


def test_each_side_has_the_layout_in_which_it_is_fastest():
    cube = (4096, 4096, 4096)
    results = [
        row("weft", "wgmma_tf32", "tf32", 390.0, cube, vs_cublas=0.95),
        row("weft", "wgmma_tf32", "tf32", 408.0, cube, vs_cublas=0.99),
        row("cublas", "gemm_ex", "tf32", 400.0, cube, vs_cublas=0.97),
        row("cublas", "gemm_ex", "tf32", 412.0, cube, vs_cublas=1.0),
    ]
    layouts = ("nn", "nt", "nn", "nt")
    results = [r | {"layout": layout} for r, layout in zip(results, layouts)]
    line = compare_fastest(results)[0]
    assert line["ratio"] == 0.99
    assert line["layout"] == "nt, cuBLAS nt"


def test_3xtf32_races_fp32_in_a_race_of_its_own():
    operands = Operands.random(Size(4, 5, 6), "3xtf32", CPU, cold=False)
    assert operands.opponents == "fp32" and operands.sets[0][1].dtype == torch.float32
    kinds = [
        race.precision for race in plan_races(CPU, "", ["8"], (), ("fp32", "3xtf32"))
    ]
    assert kinds == ["fp32", "3xtf32"]
    results = bench_matmul.time_mine(
        lambda c, a, b: torch.mm(a, b, out=c),
        *(8, "it", "3xtf32"),
        device="cpu",
        seconds=0.01,
    )
    assert {row["race"] for row in results} == {"3xtf32"}
    assert {row["precision"] for row in results} == {"3xtf32", "fp32"}


def test_ctrl_c_keeps_the_measured_rows(monkeypatch, capsys):
    race_rows, raced = bench_matmul.race_rows, []

    def one_race(race, *more):
        if raced:
            raise KeyboardInterrupt
        raced.append(race)
        return race_rows(race, *more)

    monkeypatch.setattr(bench_matmul, "race_rows", one_race)
    words = ["bench", "matmul", "--sizes", "8,16", "--rungs", "simd", "--rounds", "2"]
    assert command.main(words) == 0
    output = capsys.readouterr()
    assert "stopped: these rows were measured" in output.err
    assert re.search("weft +simd +fp32 +nn +1 +8 +8 +8 ", output.out)


def test_a_ratio_compares_rows_of_one_run():
    """Each run in a file has its own opponent; so does each thread count and cache."""
    cube = (4096,) * 3
    ours, peer = (row(*who, "fp32", 50.0, cube) for who in
                  (("weft", "tuned"), ("cublas", "gemm_ex")))  # fmt: skip
    for key, first, second in (("run", "2026-01-02T03:04:05", "2026-01-02T04:05:06"),
                               ("commit", "abc", "def"), ("threads", 1, 2),
                               ("cache", "warm", "cold, rotated")):  # fmt: skip
        results = [
            ours | {key: first, "us": 100.0},
            peer | {key: first, "us": 90.0},
            ours | {key: second, "us": 60.0},
            peer | {key: second, "us": 50.0},
        ]
        beside_fastest(results)
        assert [r["vs_cublas"] for r in results] == pytest.approx([0.9, 1, 50 / 60, 1])


def test_a_transposed_product_is_compared_in_its_layout_except_in_tf32():
    for kind, ratio in (("fp32", 0.8), ("tf32", 0.5)):
        results = [
            row(impl, "it", kind, 50.0, (4096,) * 3) | {"layout": layout, "us": us}
            for impl, layout, us in (("weft", "nn", 100.0), ("weft", "nt", 100.0),
                                     ("cublas", "nn", 50.0), ("cublas", "nt", 80.0))
        ]  # fmt: skip
        beside_fastest(results)
        assert results[1]["vs_cublas"] == ratio


def test_rows_contain_their_run():
    few = {"sizes": ["8"], "rungs": ["simd"], "seconds": 0.01}
    results = bench_matmul.rows(**few)
    (run,) = {row["run"] for row in results}
    assert abs(datetime.now(UTC) - datetime.fromisoformat(run)).total_seconds() < 60
    second = bench_matmul.rows(**few, run="another")
    assert {row["run"] for row in second} == {"another"}


def test_the_first_call_does_not_count_for_the_speed():
    """Numba compiles in the first call, which once excluded its slowest kernel."""
    calls = []

    def run(i):
        time.sleep(0.0 if calls else 0.3)
        calls.append(i)

    contender = Contender(run, row={"impl": "numba", "rung": "it", "precision": "fp32"})
    speeds = racing.Speeds()
    racing._note_speed(contender, Size(8, 8, 8), CPU, speeds)
    assert speeds.seconds(contender, Size(8, 8, 8)) < 0.1


def test_a_size_that_exceeds_the_memory_is_reported_in_one_line(capsys):
    words = ["bench", "matmul", "--sizes", "9999999", "--rungs", "simd"]
    assert command.main(words) == 1
    assert "9999999 x 9999999 random floats" in capsys.readouterr().err


def test_named_rungs_race_in_their_own_precision():
    plan = plan_races(CPU, "", ["8"], ["mma_bf16", "simd"], [])
    races = [(race.precision, *(r.name for r in race.rungs)) for race in plan]
    assert races == [("fp32", "simd"), ("bf16", "mma_bf16")]


def test_a_ratio_uses_the_peers_fastest_race_of_that_size():
    """Heat slows cuBLAS in a long race, so its fastest race counts."""
    cube = (4096, 4096, 4096)
    hot = [
        row("weft", "tuned", "fp32", 54.0, cube) | {"us": 100.0},
        row("cublas", "gemm_ex", "fp32", 49.5, cube) | {"us": 109.0},
    ]
    split = row("weft", "wgmma_3xtf32", "3xtf32", 130.0, cube) | {"us": 40.0}
    cool = row("cublas", "gemm_ex", "fp32", 51.0, cube) | {"us": 106.0}
    results = [*hot, split, cool | {"race": "3xtf32"}]
    beside_fastest(results)
    assert [r["vs_cublas"] for r in results] == pytest.approx(
        [1.06, 106 / 109, 2.65, 1]
    )
