"""`weft bench transpose` checks every contender before timing it."""

import pytest
import torch
from drawings import drawn

from weft import bench
from weft.base.paths import ROOT
from weft.benchmarks import transpose as bench_transpose
from weft.benchmarks.plot_bodies import load_elsewhere
from weft.toolchain import native


def test_rows_of_the_rungs_of_transpose_and_copy(target):
    rows = bench_transpose.rows(target, [33], samples=1)
    by_name = {(row["op"], row["impl"], row["rung"]): row for row in rows}
    plainest = by_name["copy", "weft", bench_transpose.PLAINEST[target]]
    assert plainest["vs_copy"] == 1
    for rung in native.library("transpose", target).here():
        key = "transpose", "weft", rung.name
        assert (key in by_name) == (target == "cuda" or rung.targets == ("cpu",))
    for row in by_name["transpose", "torch", "copy_"], plainest:
        assert row["us"] > 0 and row["rows"] == row["cols"] == 33
        assert row["vs_copy"] == pytest.approx(plainest["us"] / row["us"])
        assert row["gbs"] == pytest.approx(8 * 33 * 33 / row["us"] / 1e3)
    strided = by_name.get(("strided", "weft", "stride 32"), {"count": None})
    assert strided["count"] == (35 if target == "cuda" else None)  # 0, 32, ... 1088
    assert bench.table(rows, bench_transpose.SHOWN)
    assert all(("graph" in row["timer"]) == (target == "cuda") for row in rows)


def test_a_rung_can_be_selected():
    rows = bench_transpose.rows("cpu", [33], ["wide"], samples=1)
    ours = [(row["op"], row["rung"]) for row in rows if row["impl"] == "weft"]
    assert ours == [("copy", "reference"), ("transpose", "wide")]


def test_the_strided_copy_picks_every_stride_th_number():
    x, y = torch.arange(100.0), torch.full((100,), torch.nan)
    bench_transpose._make_strided(y, x, 34, 3)()
    assert torch.equal(y[:34], x[::3]) and y[34:].isnan().all()


def test_a_side_below_one_is_refused():
    with pytest.raises(ValueError, match="--sizes 0"):
        bench_transpose.rows("cpu", [0])


def test_a_wrong_result_is_not_timed(monkeypatch):
    """A rung has passed its check, but the check's cases are smaller than these."""
    monkeypatch.setattr(native.Library, "call", lambda *args: None)
    with pytest.raises(RuntimeError, match="weft copy reference is wrong for 33 x 33"):
        bench_transpose.rows("cpu", [33], samples=1)


def row(op, impl, rung, us, gbs, **more):
    band = {"us": us, "us_low": us, "us_high": us, "gbs": gbs}
    return {"op": op, "impl": impl, "rung": rung} | band | more


HERE = [
    row("copy", "weft", "word", 10.0, 3000.0, vs_copy=1.0),
    row("transpose", "weft", "naive", 40.0, 750.0, vs_copy=0.25),
    row("strided", "weft", "stride 1", 10.0, 3000.0),
    row("strided", "weft", "stride 8", 12.0, 400.0),
]
THERE = {
    "machine": {"device": "that GPU", "date": "2026-01-02"},
    "rows": [
        row("copy", "weft", "word", 20.0, 1500.0, vs_copy=1.0),
        row("transpose", "weft", "padded", 25.0, 1234.0, vs_copy=0.8),
        row("strided", "weft", "stride 1", 20.0, 1500.0),
    ],
}


def test_this_machine_is_full_and_another_one_hollow():
    text = drawn(bench_transpose.plot_transposes, HERE, [THERE])
    assert "750 GB/s, 25 %" in text and "1,234 GB/s, 82 %" in text
    # Each card's fastest copy has a line.
    assert text.count("stroke-dasharray") == 2
    assert "that GPU, 2026-01-02" in bench_transpose.make_caption([THERE])


def test_transposes_are_compared_with_the_fastest_copy_of_their_card():
    """PyTorch's copy may be faster than ours, with more loads in flight."""
    faster = row("copy", "torch", "copy_", 5.0, 6000.0)
    text = drawn(bench_transpose.plot_transposes, [*HERE, faster], [])
    assert "750 GB/s, 12 %" in text and "6,000 GB/s, 100 %" in text


def test_strides_of_both_machines_are_drawn():
    text = drawn(bench_transpose.plot_strides, HERE, [THERE])
    assert "that GPU" in text and "400" in text
    assert "that GPU" not in drawn(bench_transpose.plot_strides, HERE, [])


def sector_row(rung, tbs, fetch=64, **place):
    band = {"us": 1.0, "us_low": 1.0, "us_high": 1.0, "device": "this GPU"}
    where = {"stride": None, "run": None, "footprint": 2**30} | place
    return (
        {"rung": rung, "fetch": fetch, "usual": fetch == 64, "tbs": tbs} | where | band
    )


SECTORS = [
    *(sector_row("in order", t, stride=s) for s, t in ((32, 4.0), (64, 2.0))),
    *(
        sector_row("scattered", tbs, run=run, footprint=size * 2**30)
        for run, size, tbs in [
            *((32, 1, 1.0), (64, 1, 2.0), (1024, 1, 3.0)),
            *((32, 8, 0.4), (64, 8, 0.8), (1024, 8, 2.5)),
        ]
    ),
    sector_row("scattered", 9.0, fetch=32, run=32),
]


def test_each_effect_that_a_count_of_sectors_misses_has_a_line():
    device, *lines = bench_transpose.describe_sectors(SECTORS, [])
    assert (
        device == "this GPU"
        and len(lines) == len(bench_transpose.measure_effects(SECTORS)) + 3
    )
    assert bench_transpose.measure_effects(SECTORS) == pytest.approx(
        {
            "the fetch, in order, limit 64: 32 bytes apart vs 64": 2.0,
            "the fetch, scattered sectors: limit 64 vs 32": 1 / 9,
            "neighbours: runs of 64 bytes vs 32": 2.0,
            "the TLB: scattered sectors in 1 GiB vs 8": 2.5,
        }
    )
    assert bench_transpose.describe_sectors([], []) == [
        "nothing measured yet: python -m weft bench sectors --device cuda"
    ]


def test_a_chart_of_sectors_names_its_footprints_once():
    def both(ax, *args):
        bench_transpose.plot_distances([ax, ax.figure.add_subplot()], *args)

    text = drawn(both, SECTORS, [{"machine": {"device": "a card"}, "rows": SECTORS}])
    for name in "1 GiB", "8 GiB", "64 bytes, the usual":
        assert text.count(f">{name}<") == 1, name
    assert "weft bench sectors" in drawn(both, [], [])


def test_a_strided_copy_is_paired_with_reads_on_the_same_card():
    copies = [row("strided", "weft", "stride 16", 9.0, 1.0, count=50)]
    reads = [
        {"device": "that GPU", "stride": 64, "fetch": fetch, "usual": fetch == 64}
        | {"us": us, "sectors": 100}
        for fetch, us in ((32, 12.0), (64, 16.0))
    ]
    assert bench_transpose.strided_reads(copies, reads) == [(64, 50, 9.0, 8.0, 6.0)]
    one, other = ({"machine": {"device": f"{name} GPU"}} for name in ("that", "no"))
    results = [one | {"rows": copies}], [one | {"rows": reads}, other | {"rows": reads}]
    device, _, line = bench_transpose.describe_copies([], [], *results)
    assert device == "that GPU" and line.split() == ["64", "50", "9.0", "8.0", "6.0"]


# ---- statements of lesson 07a about the committed rows -------------------------------

(CARD,) = load_elsewhere("sectors")
ROWS = CARD["rows"]


def speeds(limit, run):
    """Return TB/s in every footprint."""
    return [r["tbs"] for r in ROWS if r["fetch"] == limit and r["run"] == run]


def test_lesson_07a_names_the_card_of_the_rows_and_has_its_copies_too():
    lesson = (ROOT / "notebooks/07a_memory.ipynb").read_text()
    assert CARD["machine"]["device"].startswith("NVIDIA H100") and "an H100" in lesson
    (copies,) = load_elsewhere("transpose")
    assert copies["machine"]["device"] == CARD["machine"]["device"]
    rungs = {(r["op"], r["rung"]) for r in copies["rows"]}
    assert {("copy", "four"), ("strided", "stride 32")} <= rungs
    ours = {r["rung"] for r in copies["rows"] if r["impl"] == "weft"}
    names = {rung for _, impl, rung in bench_transpose.NAMES if impl == "weft"}
    assert all(rung in names or rung.startswith("stride ") for rung in ours)


def test_every_rung_has_a_name_in_the_chart():
    for op in "copy", "transpose":
        for rung in native.rungs(op):
            named = (op, "weft", rung.name) in bench_transpose.NAMES
            assert named or rung.targets == ("cpu",), rung.name


def test_in_order_a_fetch_brings_two_sectors_and_explains_the_strided_copies():
    effects = bench_transpose.measure_effects(ROWS)
    assert effects["the fetch, in order, limit 64: 32 bytes apart vs 64"] > 1.9
    assert effects["the fetch, in order, limit 32: 32 bytes apart vs 64"] < 1.15
    (copies,) = load_elsewhere("transpose")
    reads = bench_transpose.strided_reads(copies["rows"], ROWS)
    assert [distance for distance, *_ in reads] == [32, 64, 128]
    for _, _, copy, read, _ in reads:  # the reads take over 90 % of the copy's time
        assert 0.9 < read / copy < 1
    (_, _, _, all_of_them, _), (_, _, _, half, half_short), _ = reads
    assert 0.95 < half / all_of_them < 1 and half_short < 0.6 * half


def test_scattered_sectors_are_slow_for_lack_of_neighbours_and_nothing_else():
    effects = bench_transpose.measure_effects(ROWS)
    assert effects["the fetch, scattered sectors: limit 64 vs 32"] == pytest.approx(
        1, abs=0.01
    )
    assert effects["the fetch, scattered sectors: limit 128 vs 32"] < 0.8
    for limit in 32, 64:
        for run in 32, 64, 128, 256, 1024, 8192, 65536:
            rates = speeds(limit, run)
            assert len(rates) == 5
            assert max(rates) < (1.04 if run == 32 else 1.03) * min(rates)
        single, two, four, eight = (speeds(limit, r) for r in (32, 64, 128, 256))
        assert min(two) > 1.8 * max(single) and min(four) > 2.5 * max(single)
        assert 1.04 < min(eight) / max(four) < max(eight) / min(four) < 1.07
        assert max(speeds(limit, 65536)) < 1.03 * min(eight)


def test_lone_sectors_and_pairs_begin_equally_often():
    count = bench_transpose.runs_a_second(ROWS)
    assert count[32] == pytest.approx(count[64], rel=0.05)
    assert count[128] < 0.7 * count[64]


def test_in_order_neighbours_within_256_bytes_count_and_no_others():
    effects = bench_transpose.measure_effects(ROWS)
    wide = "neighbours, in order, limit 32: 128 bytes apart vs 256"
    row_of_dram = "a row of DRAM, in order, limit 32: 256 apart vs 8,192"
    assert effects[wide] > 1.5 and 1 < effects[row_of_dram] < 1.05
