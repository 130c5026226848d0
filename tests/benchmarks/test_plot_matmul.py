"""The pictures and the table of the matmul ladder, from invented rows."""

from __future__ import annotations

from functools import partial

import pytest
from drawings import texts
from invented_products import elsewhere, peak_rows, row, rows

from weft.base.style import spread_heights, write_svg
from weft.benchmarks.matmul import comparison
from weft.benchmarks.matmul.comparison import beside_fastest, select_timed
from weft.benchmarks.matmul.plot import ladder_plot, size_plot
from weft.benchmarks.matmul.roofline import plot_roofline
from weft.timing import peaks, write_json

DRAW = [ladder_plot, size_plot, plot_roofline]


def words_of(figure):
    """Return a figure's words, without line breaks."""
    return " ".join(" ".join(texts(figure)).split())


def dots(figure):
    marks = [line for axes in figure.axes for line in axes.lines]
    return [line for line in marks if line.get_marker() in ("o", "D", "s")]


def test_the_ladder_is_in_per_cent_of_cublas():
    words = texts(ladder_plot(rows(), []))
    assert {"naive", "tuned", "wgmma_3xtf32", "wgmma_bf16"} <= {*words}
    assert "54 TFLOP/s · 108 %" in words and "600 GFLOP/s · 1.2 %" in words
    assert "143 TFLOP/s · 286 %" in words  # 286 % of cuBLAS in fp32
    assert words.count("cuBLAS fp32, 50 TFLOP/s") == 2
    assert "% of cuBLAS's speed, m = k = n = 4096 (right is better)" in words
    assert "This GPU, 2026-01-02, timer: graph, warm caches" in "\n".join(words)
    at = [line.get_xdata()[0] for line in dots(ladder_plot(rows(), [], "1024"))]
    assert at == pytest.approx([1.2, 16, 108, 286, 100, 102.5])


def test_the_texts_are_right_of_the_widest_band():
    wide = [r | {"us_low": 0.5 * r["us"]} for r in rows()]
    (axes,) = ladder_plot(wide, [], "4096").axes
    ends = [max(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 2]
    words = [t.xy[0] for t in axes.texts if "FLOP/s · " in t.get_text()]
    assert len(words) == 6 and min(words) > max(ends) > 500


def test_without_cublas_the_ladder_is_in_per_cent_of_torch():
    own_rows = [r | {"vs_cublas": None} for r in rows() if r["impl"] != "cublas"]
    words = texts(ladder_plot(own_rows, []))
    assert "torch.mm fp32, 50 TFLOP/s" in words and "54 TFLOP/s · 108 %" in words


def test_a_row_of_ones_own_is_a_diamond_among_the_others():
    own = row("mine", "my tiles", "fp32", 12.5, (4096,) * 3, vs_cublas=0.25)
    for draw in (ladder_plot, plot_roofline):
        figure = draw([*rows(), *peak_rows(), own], [], "4096")
        assert [d.get_marker() for d in dots(figure)].count("D") == 1
        assert "my tiles" in "\n".join(texts(figure))


def test_the_roofline_has_slope_ceilings_and_every_rung():
    figure = plot_roofline([*rows(), *peak_rows()], [])
    labels = texts(figure)
    words = {"C tuned 54", "A naive 0.6", "– cuBLAS bf16 800", "/ copy 4 TB/s"}
    words |= {"fp32: 65", "3xtf32: 160", "bf16: 960", "tf32: 480", "cuBLAS"}
    assert not words - {*labels}
    column = [x for x in figure.axes[0].lines if x.get_marker() == "_"]
    (tuned,) = [x for x in column if x.get_ydata()[0] == 54]
    # 2 * 4096^3 flops, three arrays of 4 * 4096^2 bytes
    assert tuned.get_xdata()[0] == pytest.approx(4096 / 6)
    without = " ".join(texts(plot_roofline(rows(), [])))
    assert "no roofs: weft bench matmul --set peaks" in without


def test_the_roofline_has_few_labels_and_a_list_of_all_rungs():
    """Thirty names next to one column were illegible."""
    figure = plot_roofline([], None, "4096")
    left, right, listed = figure.axes
    assert len(left.texts) + len(right.texts) <= 6
    letters = [tick.get_text().strip() for tick in right.get_xticklabels()]
    entries = [text.get_text().split() for text in listed.texts]
    assert letters == [entry[0] for entry in entries if entry[0] not in "–/"]
    assert len({*letters}) == len(letters) > 30
    places = [dot.get_xdata()[0] for dot in dots(figure)]
    assert sorted({*places}) == places  # two rungs never share a place
    # On a phone, 358 pixels wide, an 11-point letter is at least 9 pixels high.
    assert 11 * 358 / (72 * figure.get_figwidth()) >= 9


def test_labels_of_the_roofline_cover_neither_marks_nor_one_another():
    """The label of 3xtf32's narrow roof was on the marks of another precision."""
    figure = plot_roofline([], None, "4096")
    figure.draw_without_rendering()
    right = figure.axes[1]
    boxes = [text.get_window_extent() for text in right.texts]
    centres = [
        right.transData.transform((dot.get_xdata()[0], dot.get_ydata()[0]))
        for dot in dots(figure)
    ]
    for text, box in zip(right.texts, boxes):
        wider = box.padded(2)
        assert not any(wider.contains(*at) for at in centres), text.get_text()
        assert box.count_overlaps(boxes) == 1, text.get_text()
        assert box.x1 <= figure.bbox.x1, text.get_text()


def test_the_roofline_draws_only_the_requested_rungs_and_the_readers():
    own = row("mine", "my tiles", "fp32", 12.5, (4096,) * 3)
    figure = plot_roofline([*rows(), own], [], "4096", ["fp32"], ["naive"])
    words = texts(figure)
    assert {"A naive 0.6", "B my tiles 12.5", "– cuBLAS fp32 50"} <= {*words}
    assert "tuned" not in " ".join(words)


def test_names_are_apart_and_in_the_picture():
    assert spread_heights([5.0, 4.9, 1.0], 0.5, 0.0) == [5.0, 4.5, 1.0]
    assert spread_heights([1.0, 0.9, 0.8], 0.5, 0.0) == [1.0, 0.5, 0.0]
    assert spread_heights([0.3, 0.2, 0.1], 0.5, 0.0) == [1.0, 0.5, 0.0]


def test_sizes_have_a_panel_for_each_precision():
    figure = size_plot([*rows(), *rows(sizes=[(5120, 256, 5120)])], [])
    labels = [axes.get_xlabel() for axes in figure.axes]
    kinds = ("fp32", "3xtf32", "bf16", "tf32")
    assert labels == [f"m = k = n, {kind}" for kind in kinds]
    (ours,) = [x for x in figure.axes[0].lines if x.get_label() == "our best"]
    assert list(ours.get_xdata()) == [1024, 4096]
    assert list(ours.get_ydata()) == [54, 54]


def test_odd_sides_have_marks_but_no_line():
    figure = size_plot(rows(sizes=[(n,) * 3 for n in (1023, 1024, 1025, 4096)]), [])
    ours = [x for x in figure.axes[0].lines if x.get_marker() == "o"]
    assert [list(x.get_xdata()) for x in ours] == [[1024, 4096], [1023, 1025]]
    assert [x.get_linestyle() for x in ours] == ["-", "None"]
    assert "without a line: no multiples of 4" in " ".join(texts(figure))


def test_rungs_keep_the_ladders_order_if_few_were_timed_here():
    few = [r for r in rows() if r["impl"] != "weft" or r["rung"] == "tuned"]
    (axes,) = ladder_plot(few, [elsewhere()]).axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    (full,) = ladder_plot([], [elsewhere()]).axes
    assert names == [label.get_text() for label in full.get_yticklabels()]
    assert names.index("naive") < names.index("tuned")


@pytest.mark.parametrize("draw", DRAW)
def test_what_was_measured_elsewhere_is_hollow(draw):
    figure = draw([], [elsewhere()])
    assert dots(figure)
    assert all(dot.get_markerfacecolor() == "none" for dot in dots(figure))
    assert "hollow: That GPU, 2026-01-02" in "\n".join(texts(figure))
    assert all(dot.get_markerfacecolor() != "none" for dot in dots(draw(rows(), [])))


@pytest.mark.parametrize("draw", DRAW)
def test_a_picture_without_results_explains_how_to_get_one(draw):
    assert "python -m weft bench matmul --device cuda" in write_svg(draw([], []))


# ---- the results page ----------------------------------------------------------


def test_results_of_a_processor_are_not_mistaken_for_a_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(comparison, "RESULTS", tmp_path)
    cpu_rows = [r | {"target": "cpu", "device": "A CPU", "threads": 2} for r in rows()]
    for name, file_rows in (
        ("matmul_amd.json", cpu_rows),
        ("matmul_nvidia.json", rows()),
    ):
        write_json(tmp_path / name, file_rows)
    first, second = comparison.committed_results()
    assert {r["target"] for r in first["rows"]} == {"cuda"}
    assert {r["device"] for r in second["rows"]} == {"A CPU"}
    assert "| tuned | tuned's idea | fp32 | 54.0 | 108 % |" in comparison.matmul_table()
    assert "54 TFLOP/s · 108 %" in texts(ladder_plot([], size="4096"))


def test_the_table_states_its_runs_and_its_precision():
    one, two = "2026-01-02T03:04:05+00:00", "2026-01-02T09:10:11+00:00"
    facts = {"spread": 0.004, "run": one}
    measured = [row | facts for row in rows()]
    results = elsewhere() | {"rows": measured}
    table = comparison.matmul_table([results])
    assert "in one run (2026-01-02 03:04 UTC) of `python" in table
    assert "Medians (known to 0.4 % or better), warm caches" in table
    measured[0] |= {"run": two, "spread": None, "m": 4096, "k": 4096, "n": 4096}
    table = comparison.matmul_table([results])
    assert "in 2 runs (2026-01-02 03:04 UTC, 2026-01-02 09:10 UTC) of" in table
    assert "1 of " in table and "have too few samples for this" in table
    assert "2 runs" in " ".join(texts(ladder_plot([], [results], "4096")))


def test_cold_transposed_and_batched_products_have_their_own_tables():
    results, cube = elsewhere(), (4096,) * 3
    transposed = row("weft", "tuned", "fp32", 54.0, cube, vs_cublas=0.97, layout="nt")
    batched = row("weft", "tuned", "fp32", 9.0, (256,) * 3, vs_torch=1.5, batch=64)
    cold = [r | {"cache": "cold, rotated", "vs_cublas": 0.91} for r in rows()]
    plain = comparison.matmul_table([results])
    table = comparison.matmul_table(
        [results | {"rows": [*cold, *results["rows"], transposed, batched]}]
    )
    assert "| times cuBLAS | 4096 nt | 64 of 256 |" in table
    assert "| fp32 | 0.970 | 1.50 |" in table
    assert "| fp32 | 4096 | 1.08 | 0.910 |" in table
    assert "| fp32 | 4096 | 1.08 | – |" in plain
    assert "times cuBLAS | 4096 nt" not in plain
    rungs = [line for line in table.splitlines() if " idea " in line]
    assert rungs == [line for line in plain.splitlines() if " idea " in line]


def a_processors(threads=(1, 2)):
    """Return results of a processor, in the form of read_json()."""
    cpu = {"target": "cpu", "device": "A CPU", "vs_cublas": None}
    results = [
        row(impl, rung, "fp32", speed * count, (1024,) * 3, threads=count, **cpu)
        for count in threads
        for impl, rung, speed in (
            ("weft", "reference", 0.1),
            ("torch", "mm", 0.125),
            ("numpy", "matmul", 0.16 / count),
        )
    ]
    beside_fastest(results)
    machine = {"device": "A CPU", "date": "2026-01-04", "torch": "2.13"}
    return {"machine": machine, "rows": results}


def test_plain_c_is_compared_with_the_faster_of_numpy_and_torch():
    table = comparison.matmul_table([elsewhere(), a_processors()])
    assert "| threads | rung | ours | NumPy | torch.mm | factor |" in table
    assert "| 1024 | 1 | reference | 100 | 160 | 125 | 0.625 |" in table
    assert "| 1024 | 2 | reference | 200 | 160 | 250 | 0.800 |" in table
    assert "A CPU, PyTorch 2.13, 2026-01-02, measured in turn" in table
    assert "torch.mm" not in comparison.matmul_table([elsewhere()])


def test_committed_rows_of_a_processor_have_both_opponents_at_each_size():
    (results,) = (
        f for f in comparison.committed_results() if f["rows"][0]["target"] == "cpu"
    )
    rows = comparison.select_timed(results["rows"])
    for size in (1024, 2048):
        for threads in (1, 2):
            same_threads = [
                r
                for r in comparison.select_size(rows, (size,) * 3)
                if r["threads"] == threads
            ]
            ours, *peers = (
                min(r["us"] for r in same_threads if r["impl"] == impl)
                for impl in ("weft", "numpy", "torch")
            )
            factor = comparison.write_digits(min(peers) / ours)
            lines = comparison.matmul_table([elsewhere(), results]).splitlines()
            (line,) = (x for x in lines if x.startswith(f"| {size} | {threads} | "))
            assert line.endswith(f" | {factor} |")


def test_another_machines_processor_is_shown_only_with_a_processor():
    files = [elsewhere(), a_processors()]
    gpus = comparison.series_of([], files)
    assert [machine["device"] for machine, _ in gpus] == ["That GPU"]
    own = a_processors(threads=(1,))["rows"]
    assert len(comparison.series_of(own, files)) == 3
    (_, most) = comparison.series_of([], files[1:])[0]
    assert {r["threads"] for r in most} == {2}


def test_the_texts_of_several_machines_are_below_each_other():
    """This holds even if a machine between them lacks the rung."""
    results = a_processors()
    figure = ladder_plot(results["rows"], [elsewhere(), results], "1024")
    words = [
        t for axes in figure.axes for t in axes.texts if "200 GFLOP" in t.get_text()
    ]
    assert [word.xyann[1] for word in words] == [6, -6]


def test_pictures_prefer_rows_with_warm_caches():
    cold = [r | {"cache": "cold, rotated", "us": 0.5 * r["us"]} for r in rows()]
    assert comparison.series_of([*cold, *rows()], []) == [(None, rows())]
    assert comparison.series_of(cold, []) == [(None, cold)]


def test_the_table_compares_every_rung_with_cublas():
    table = comparison.matmul_table([elsewhere()])
    lines = table.splitlines()
    assert "| naive | naive's idea | fp32 | 0.600 | 1.20 % | 1.0e-06 |" in lines
    ours = "| wgmma_3xtf32 | wgmma_3xtf32's idea | 3xtf32 | 143 | 286 % | 5.0e-07 |"
    assert ours in lines
    assert sum(line.startswith("| *cuBLAS*") for line in lines) == 3
    assert "That GPU, driver 580, CUDA 13.0, PyTorch 2.11, 2026-01-02" in table
    assert "has not been measured yet" in comparison.matmul_table([])


def test_the_table_has_a_line_for_each_faster_layout():
    results = elsewhere()
    tf32 = (r for r in rows(device="That GPU") if r["rung"] == "wgmma_tf32")
    (nn,) = (r for r in tf32 if r["m"] == 4096)
    nt = nn | {"layout": "nt", "tflops": 420.0}
    table = comparison.matmul_table([results | {"rows": [*results["rows"], nt]}])
    assert "| wgmma_tf32 | wgmma_tf32's idea | tf32 | 410 |" in table
    assert "| wgmma_tf32, b stored (n,k) | wgmma_tf32's idea | tf32 | 420 |" in table
    # This row is slower, so only the table of layouts contains it.
    tn = nn | {"layout": "tn", "tflops": 400.0}
    table = comparison.matmul_table([results | {"rows": [*results["rows"], tn]}])
    assert "wgmma_tf32, a stored" not in table


def test_layouts_are_sorted_by_size_and_batches_follow():
    names = ["64 of 256", "4096 nt", "1023 tn", "1000 of 32", "1023 nt"]
    want = ["1023 nt", "1023 tn", "4096 nt", "64 of 256", "1000 of 32"]
    assert sorted(names, key=comparison._sort_key) == want


def test_fp32_is_compared_with_cublas_in_the_same_layout():
    """In the race of 3xtf32, cuBLAS also runs in fp32 with b stored (n,k)."""
    results = elsewhere()
    (peer, *_) = (r for r in results["rows"] if r["impl"] == "cublas" and r["m"] == 4096
                  and r["race"] == "3xtf32")  # fmt: skip
    nt = peer | {"layout": "nt", "us": 0.5 * peer["us"], "tflops": 100.0}
    all_rows = [*results["rows"], nt]
    assert (
        comparison.find_opponent(
            comparison.select_size(select_timed(all_rows), (4096,) * 3), "fp32"
        )["us"]
        > nt["us"]
    )
    assert (
        comparison.find_opponent(
            comparison.select_size(select_timed(all_rows), (4096,) * 3), "3xtf32"
        )
        is nt
    )
    # Compared with "nt", cuBLAS's "nn" reaches 50 %; in its own group, 100 %.
    beside_fastest(all_rows)
    table = comparison.matmul_table([results | {"rows": all_rows}])
    assert "| *cuBLAS* | gemm_ex's idea | fp32 | 50.0 | 100 % |" in table


def test_the_roofline_and_the_ladder_use_cublass_fastest_race():
    cube = (4096,) * 3
    cooler = row("cublas", "gemm_ex", "fp32", 52.0, cube, race="3xtf32", vs_cublas=1)
    for figure in (
        ladder_plot([*rows(), cooler], [], "4096"),
        plot_roofline([*rows(), cooler], [], "4096", ["fp32"]),
    ):
        text = " ".join(texts(figure)).replace(",", "")
        assert "cuBLAS fp32 52" in text and "cuBLAS fp32 50" not in text


def test_the_roofline_explains_small_marks_if_there_are_any():
    note = "dots on the left: our best of other sizes"
    draw = partial(plot_roofline, committed=[], precisions=["fp32"])
    assert note in words_of(draw(rows()))
    assert note not in words_of(draw(rows(((4096,) * 3,))))
    # With several precisions, the roof of a small mark would be unclear.
    assert note not in words_of(plot_roofline(rows(), []))


def test_batches_are_in_no_picture():
    batch = [r | {"batch": 64} for r in rows()]
    assert select_timed([*batch, *rows()]) == rows()


def test_the_roofline_shows_a_rung_once_in_its_fastest_layout():
    faster = [r | {"layout": "nt", "us": 0.9 * r["us"], "tflops": r["tflops"] / 0.9}
              for r in rows() if r["rung"] == "wgmma_tf32"]  # fmt: skip
    words = texts(plot_roofline([*rows(), *faster], []))
    assert [word for word in words if "wgmma_tf32" in word] == ["F wgmma_tf32 456"]


def test_equally_high_roofs_side_by_side_share_a_text():
    fp16 = {"precision": "fp16", "race": "fp16"}
    half = [row | fp16 for row in rows() if row["precision"] == "bf16"]
    words = texts(plot_roofline([*rows(), *half, *peak_rows()], []))
    assert "fp16, bf16: 960" in words and "tf32: 480" in words


# ---- peaks ---------------------------------------------------------------------


def test_the_highest_peak_of_each_kind_is_the_ceiling():
    ceilings = peaks.ceilings(peak_rows())
    want = {"gbs": 4000, "fp32": 65, "tf32": 480, "3xtf32": 160, "bf16": 960}
    assert ceilings == want | {"fp16": 960}
    assert peaks.ceilings(rows()) == {}
