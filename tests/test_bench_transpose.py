"""`weft bench transpose`: every contender is checked before it is timed."""

import pytest
from drawings import drawn

from weft import bench
from weft.bench import plot_transpose
from weft.bench import transpose as bench_transpose


def test_rows_of_each_transpose_and_of_a_copy(target):
    rows = bench_transpose.rows(target, [33], samples=1)
    by_name = {(row["op"], row["impl"], row["rung"]): row for row in rows}
    assert rows[0]["op"] == "copy" and rows[0]["vs_copy"] == 1
    for name in bench_transpose.TRANSPOSES:
        row = by_name["transpose", "weft", name]
        assert row["us"] > 0 and row["rows"] == row["cols"] == 33
        assert row["vs_copy"] == pytest.approx(rows[0]["us"] / row["us"])
        assert row["gbs"] == pytest.approx(8 * 33 * 33 / row["us"] / 1e3)
    assert by_name["strided", "weft", "stride 32"]["count"] == 35  # 0, 32, ... 1088
    assert bench.table(rows, bench_transpose.SHOWN)
    assert ("no signal" in bench_transpose.note(rows)) == (target == "cpu")
    assert all(("graph" in row["timer"]) == (target == "cuda") for row in rows)


def test_a_side_below_one_is_refused():
    with pytest.raises(ValueError, match="--sizes 0"):
        bench_transpose.rows("cpu", [0])


def row(op, impl, rung, us, gbs, **more):
    band = {"us": us, "us_low": us, "us_high": us, "gbs": gbs}
    return {"op": op, "impl": impl, "rung": rung} | band | more


HERE = [
    row("copy", "weft", "copy", 10.0, 3000.0, vs_copy=1.0),
    row("transpose", "weft", "naive", 40.0, 750.0, vs_copy=0.25),
    row("strided", "weft", "stride 1", 10.0, 3000.0),
    row("strided", "weft", "stride 8", 12.0, 400.0),
]
THERE = {
    "machine": {"device": "that GPU", "date": "2026-01-02"},
    "rows": [
        row("copy", "weft", "copy", 20.0, 1500.0, vs_copy=1.0),
        row("transpose", "weft", "padded", 25.0, 1234.0, vs_copy=0.8),
        row("strided", "weft", "stride 1", 20.0, 1500.0),
    ],
}


def test_this_machine_is_full_and_another_one_hollow():
    text = drawn(plot_transpose.transposes, HERE, [THERE])
    assert "750 GB/s, 25 %" in text and "1,234 GB/s, 82 %" in text
    assert text.count("stroke-dasharray") == 2  # the fastest copy of each card
    assert "that GPU, 2026-01-02" in plot_transpose.caption([THERE])


def test_no_transpose_beats_the_fastest_copy_of_its_card_unseen():
    """A copy with more under way than ours is the one to compare with."""
    faster = row("copy", "torch", "copy_", 5.0, 6000.0)
    text = drawn(plot_transpose.transposes, [*HERE, faster], [])
    assert "750 GB/s, 12 %" in text and "6,000 GB/s, 100 %" in text


def test_strides():
    text = drawn(plot_transpose.strides, HERE, [THERE])
    assert "that GPU" in text and "400" in text
    assert "that GPU" not in drawn(plot_transpose.strides, HERE, [])


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


def test_what_a_count_of_sectors_leaves_out_has_a_line_each():
    device, fetch, dram, tlb = plot_transpose.shares(SECTORS, [])
    assert device == "this GPU"
    assert "2.00 times" in fetch and "1.50 times" in dram and "2.50 times" in tlb
    assert plot_transpose.shares([], []) == [
        "nothing measured yet: python -m weft bench sectors --device cuda"
    ]


def test_sectors_near_and_far():
    def both(ax, *args):
        plot_transpose.distances([ax, ax.figure.add_subplot()], *args)

    text = drawn(both, SECTORS, [])
    assert "1 GiB" in text and "8 GiB" in text
    assert "weft bench sectors" in drawn(both, [], [])
