"""Lesson 16a: its pictures and checks, without starting workers."""

from types import SimpleNamespace

import pytest
from tiers import loop_over

from weft.base.errors import ArgumentError
from weft.base.paths import ROOT
from weft.benchmarks.plot_bodies import load_elsewhere
from weft.lessons import workers
from weft.lessons.widgets.predict import predict
from weft.mnist import WorkerError


def make_row(batch=64, waited=0.0, **changes):
    """Return a row as `weft mnist --workers 2` writes it, with invented times."""
    timeline = []
    for rank, late in ((0, 0.0), (1, 1000.0)):
        steps = [
            ("compute", 0, 8000),
            ("send 300 bytes", 8000, 11000),
            ("compute", 8000, 12000),
            ("send 100 bytes", 12000, 13000),
            ("wait", 12000, 13000 - late),
            ("update", 13000 - late, 13500 - late),
        ]
        timeline += [
            {"rank": rank, "name": name, "start_us": a + late, "end_us": b + late}
            for name, a, b in steps
        ]
    row = {"impl": "weft", "device": "a CPU", "backend": "gloo", "batch": batch}
    row |= {
        "workers": 2,
        "precision": "fp32",
        "us": 14e3,
        "alone_us": 10e3,
        "apart_us": 12e3,
        "collective_us": 4e3,
    }
    row |= {"speedup": 1.4, "efficiency": 0.7, "timeline": timeline, "waited": waited}
    return row | changes


# ---- who owns which image ------------------------------------------------------------


def test_shares_of_a_batch_are_drawn_for_each_number_of_workers():
    picture = workers.play_owners(7, 4, most=3)
    assert "2 workers: [[2, 1], [2, 2]]" in picture.account
    assert len(picture.frames) == 3
    owned = "".join(picture.frames[1,]).count('fill-opacity="0.25"')
    assert owned == 7  # each image once


def deal(images, batch, size):
    """Return the images of each worker in each batch, in turns."""
    steps = [images[n : n + batch] for n in range(0, len(images), batch)]
    return [[step[rank::size] for step in steps] for rank in range(size)]


@loop_over("size", [1, 2, 3, 4])
def test_a_fair_division_is_accepted_in_any_order(size):
    images = [3, 1, 4, 0, 5, 2, 6]
    workers.check_owners(images, 4, deal(images, 4, size))


WRONG = {  # a change to a fair division of 7 images, and the check's words
    "an image has no owner": (lambda p: p[0][0].pop(), "image 2 has 0 owners"),
    "an image has two": (lambda p: p[0][0].append(1), "image 1 has 2 owners"),
    "another batch's": (lambda p: p[1][0].append(6), "belongs to another batch"),
    "a batch is missing": (lambda p: p[1].pop(), "the number of batches is 1, not 2"),
    "unfair": (lambda p: p[0][0].append(p[1][0].pop()), "the workers have [3, 1]"),
}


@loop_over("name", WRONG)
def test_a_wrong_division_is_drawn_and_refused(name, capsys):
    change, words = WRONG[name]
    parts = deal([*range(7)], 4, 2)
    change(parts)
    with pytest.raises(AssertionError, match="7 images, batch 4, 2 workers") as error:
        workers.check_owners(range(7), 4, parts)
    assert words in str(error.value)
    assert "7 images" in capsys.readouterr().out


# ---- what is sent, and when ----------------------------------------------------------


# The shapes of a small network's parameters.
MODEL = SimpleNamespace(
    shapes={
        **{"conv1.weight": (2, 1, 3, 3), "conv1.bias": (2,), "bn1.weight": (2,)},
        **{"conv2.bias": (2,), "bn2.bias": (2,), "fc1.weight": (100, 10)},
        "fc2.weight": (10, 10),
    }
)


def test_bytes_are_counted_by_layer_in_backward_order():
    sizes = workers.count_bytes(MODEL)
    assert sizes == {
        **{"fc2": 400, "fc1": 4000, "bn2": 8, "conv2": 8, "bn1": 8, "conv1": 80}
    }
    picture = workers.draw_parts(MODEL)
    assert "fc1: 4,000 bytes" in picture.svg()


def test_without_overlap_all_sums_begin_after_the_last_computation():
    events = workers.part_overlap(make_row())
    computed = max(end for _, name, _, end in events if name == "compute")
    sends = [event for event in events if event[1].startswith("send")]
    assert computed == 13.0  # rank 1 begins 1 ms later
    assert [event[2:] for event in sends[:2]] == [(13.0, 16.0), (16.0, 17.0)]
    waits = {rank: (a, b) for rank, name, a, b in events if name == "wait"}
    assert waits == {0: (12.0, 17.0), 1: (13.0, 17.0)}
    assert max(end for *_, end in events) == 17.5


def test_a_timeline_has_a_slider_for_batches_and_one_for_overlap():
    picture = workers.play_timeline([[make_row()], [make_row(256)]])
    assert [len(slider.stops) for slider in picture.sliders] == [2, 2]
    assert "batch 64: 14.0 ms, and 17.5 ms" in picture.account
    assert "computed from measured parts" in picture.svg((0, 1))
    assert "computed from measured parts" not in picture.svg((0, 0))


def test_a_row_of_one_worker_has_no_timeline():
    with pytest.raises(ArgumentError, match="two workers or more"):
        workers.read_events(make_row(timeline=None))


# ---- times ---------------------------------------------------------------------------


def test_the_parts_of_a_step_add_up_to_it():
    parts = workers.split_step(make_row())
    assert [*parts.values()] == [10.0, 2.0, 2.0]
    assert "71" in str(workers.explain_step([make_row()]))


def test_times_of_a_shared_machine_are_not_shown(capsys, monkeypatch):
    monkeypatch.delenv("WEFT_SHARED", raising=False)
    monkeypatch.setattr(workers, "load_elsewhere", lambda what: [])
    rows = [make_row(waited=0.4)]
    assert workers.play_timeline([rows]) is None
    assert workers.explain_step(rows) is None
    assert workers.compare(rows) is None
    assert workers.reveal(predict("How fast?", None), rows, 1.4) is None
    text = capsys.readouterr().out
    assert text.count("this machine is shared") == 4 and "1.4" not in text
    monkeypatch.setenv("WEFT_SHARED", "draw")
    assert workers.play_timeline([rows]) and workers.explain_step(rows)


def test_the_table_has_measured_gpus_and_names_missing_ones(capsys, monkeypatch):
    monkeypatch.setattr(workers, "load_elsewhere", lambda what: [])
    assert "a CPU, gloo" in str(workers.compare([make_row()]))
    assert "not measured yet" in capsys.readouterr().out
    slower = make_row(impl="torch", layout="nchw") | {"us": 1e9}
    result = {"machine": {"device": "a GPU", "date": "2026-12-01"}}
    result["rows"] = [slower, make_row(impl="torch", layout="nhwc")]
    monkeypatch.setattr(workers, "load_elsewhere", lambda what: [result])
    text = str(workers.compare([make_row()]))
    assert "2 x a GPU, gloo (2026-12-01)" in text and "PyTorch's DDP, nhwc" in text
    assert "nchw" not in text
    assert "not measured yet" not in capsys.readouterr().out


def test_the_committed_rows_confirm_the_lesson(capsys):
    """The numbers of the paragraph about two GPUs."""
    (result,) = load_elsewhere("workers")
    rows = {
        (row["impl"], row["batch"] // row["workers"]): row
        for row in workers.select_best(result["rows"])
        if row["precision"] == "fp32"
    }
    ours, ddp = rows["weft", 64], rows["torch", 64]
    assert ours["alone_us"] == pytest.approx(100, abs=5)
    assert ours["us"] == pytest.approx(560, abs=5)
    assert ours["speedup"] < 1
    assert ddp["us"] == pytest.approx(2600, abs=50)
    assert ddp["alone_us"] == pytest.approx(1700, abs=50)
    assert rows["weft", 1024]["speedup"] == pytest.approx(1.6, abs=0.05)
    assert ddp["efficiency"] > ours["efficiency"]
    assert "2 x NVIDIA H200, nccl" in str(workers.compare([make_row()]))
    assert "not measured yet" not in capsys.readouterr().out


def test_the_committed_rows_confirm_the_page_on_workers():
    (result,) = load_elsewhere("efficiency")
    page = (ROOT / "docs" / "workers.md").read_text(encoding="utf-8")
    for images in (64, 256):
        rows = [row for row in result["rows"] if row["batch"] == 2 * images]
        best = {row["impl"]: row for row in sorted(rows, key=lambda row: -row["us"])}
        numbers = [
            text
            for impl in ("weft", "torch")
            for text in (
                f"{best[impl]['us'] / 1e3:.1f} ms",
                f"{best[impl]['speedup']:.2f}",
            )
        ]
        assert f"| {images} | {' | '.join(numbers)} |" in page


def test_the_table_begins_with_fp32_and_our_row_precedes_ddps():
    kinds = [("torch", "tf32"), ("torch", "fp32"), ("weft", "fp32"), ("weft", "bf16")]
    rows = [make_row(impl=impl, precision=precision) for impl, precision in kinds]
    best = [(row["impl"], row["precision"]) for row in workers.select_best(rows)]
    assert best == [kinds[2], kinds[1], kinds[0], kinds[3]]


def test_only_the_wait_for_other_programs_counts():
    before = {0: (1.0, 0.0, 0.0), 1: (1.0, 0.0, 0.0)}
    after = {0: (2.0, 0.0, 0.1), 1: (1.5, 0.5, 0.1)}
    assert workers._find_wait(before, after) == pytest.approx(0.15)
    after = {0: (2.0, 0.2, 0.1), 1: (1.5, 0.2, 0.3)}  # the workers' own threads
    assert workers._find_wait(before, after) == 0.0
    assert workers._find_wait(before, {}) == 0.0  # the workers have ended


# ---- other ---------------------------------------------------------------------------


def test_a_checkpoint_that_never_comes_is_an_error(tmp_path):
    with pytest.raises(WorkerError, match=r"no checkpoint in .* after 0\.02 s"):
        workers.wait_for_checkpoint(tmp_path, seconds=0.02)
    (tmp_path / "step-5.npz").touch()
    assert workers.wait_for_checkpoint(tmp_path).name == "step-5.npz"
