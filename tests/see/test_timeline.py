"""timeline(): spans from profiles, from results, and by the rules of streams."""

import json
import re

import pytest
import torch

from weft import timeline as timeline_of
from weft.base.errors import ArgumentError
from weft.see.timeline import (
    HOST,
    KERNEL,
    OTHER,
    TO_DEVICE,
    TO_HOST,
    Span,
    Timeline,
    _read_gpu_spans,
    committed,
    modelled,
    timelines,
)

US = {"in": 100, "work": 50, "out": 30}


def kernels(*starts_and_us):
    return Timeline([Span("stream 7", "k", KERNEL, a, b) for a, b in starts_and_us])


def test_gaps_are_where_nothing_runs_on_any_stream():
    result = kernels((0, 10), (5, 10), (20, 5), (21, 1), (30, 2))
    assert result.gaps() == [(15, 20), (25, 30)]
    assert result.us == 32 and result.busy == 22
    assert (
        kernels((0, 10), (10.5, 1)).gaps() == []
    )  # this gap is shorter than the shortest reported one
    assert kernels((0, 10), (10.5, 1)).gaps(0) == [(10, 10.5)]


def test_the_hosts_calls_are_not_work():
    call = Span("host", "cudaLaunchKernel", HOST, 0, 3)
    result = Timeline([call, *kernels((2, 10), (20, 5)).spans])
    assert result.us == 23 and result.gaps() == [(12, 20)]


@pytest.mark.slow
def test_operators_on_the_cpu():
    a = torch.ones(64, 64)
    if torch.cuda.is_available():
        pytest.skip("with a GPU timeline() shows kernels")
    result = timeline_of(lambda: (a @ a).relu().sum())
    assert [span.name for span in result.spans] == ["matmul", "relu", "sum"]
    assert result.target == "cpu" and result.spans[0].start == 0
    assert all(a.end <= b.start for a, b in zip(result.spans, result.spans[1:]))


def test_an_invalid_function_is_refused():
    with pytest.raises(ArgumentError, match="expected a function"):
        timeline_of(3)
    with pytest.raises(ArgumentError, match="ran no kernel"):
        timeline_of(lambda: None)


def test_events_of_a_gpu_by_stream_and_kind():
    """The events have the form of torch's trace."""

    def event(cat, name, ts, dur, **args):
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "args": args}

    events = [
        event("cuda_runtime", "cudaLaunchKernel", 1, 2),
        event("cuda_runtime", "cudaStreamSynchronize", 3, 90),
        event("cpu_op", "aten::add", 0, 5),
        event("kernel", "void step(float *, int)", 10, 3, stream=7),
        event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 14, 9, stream=13),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 24, 9, stream=7),
        event("gpu_memset", "Memset (Device)", 40, 1, stream=7),
    ]
    result = _read_gpu_spans(events)
    kinds = [(span.row, span.kind) for span in result]
    assert kinds[0] == ("host", HOST) and len(result) == 5
    assert kinds[1:3] == [("stream 7", KERNEL), ("stream 13", TO_DEVICE)]
    assert kinds[3:] == [("stream 7", TO_HOST), ("stream 7", OTHER)]
    assert result[1].name == "step" and result[2].name == "HtoD"
    assert _read_gpu_spans(events[:3]) == []  # calls of the host alone make no timeline


def test_a_timeline_comes_back_from_results(tmp_path):
    one = kernels((0, 10), (20, 5))
    row = {"op": "timeline", "rung": "chain", "device": "that GPU", "spans": one.json()}
    results = {"machine": {"date": "2026-01-02"}, "rows": [{"op": "chain"}, row]}
    (tmp_path / "graphs_that.json").write_text(json.dumps(results))
    result = committed("chain", tmp_path)
    assert result.spans == one.spans and result.date == "2026-01-02"
    assert committed("another", tmp_path) is None
    assert "that GPU, 2026-01-02" in result.svg()


# ---- by the rules of streams ---------------------------------------------------------


def in_turn(streams, parts=4):
    steps = ("in", "work", "out")
    return [(step, part, part % streams) for part in range(parts) for step in steps]


def test_one_stream_runs_all_in_order():
    result = modelled(in_turn(1), US, launch=0)
    assert result.us == 4 * 180 and result.gaps(0) == []


def test_streams_overlap_and_an_engine_takes_one_at_a_time():
    result = modelled(in_turn(4), US, launch=0)
    assert result.us == 4 * 100 + 50 + 30  # the copies to the device set the pace
    arriving = [span for span in result.spans if span.kind == TO_DEVICE]
    assert [span.start for span in arriving] == [0, 100, 200, 300]


def test_events_order_streams():
    queue = [("in", 0, 0), ("record", "here", 0), ("in", 1, 0)]
    queue += [("wait", "here", 1), ("work", 0, 1)]
    result = modelled(queue, US, launch=0)
    assert [s.start for s in result.spans if s.kind == KERNEL] == [100]
    free = modelled([entry for entry in queue if entry[0] != "wait"], US, launch=0)
    assert [s.start for s in free.spans if s.kind == KERNEL] == [0]


def test_streams_wait_for_a_slow_host():
    result = modelled([("work", 0, 0), ("work", 1, 0)], US, launch=200)
    assert result.gaps() == [(50, 200)]


@pytest.mark.parametrize(
    ("queue", "says"),
    [
        ([], "no work"),
        ([("wait", "e", 0), ("in", 0, 0)], "'e' is not recorded before"),
        ([("load", 0, 0)], "'load'"),
    ],
)
def test_an_invalid_queue_is_refused(queue, says):
    with pytest.raises(ArgumentError, match=says):
        modelled(queue, US)


# ---- the picture --------------------------------------------------------------------


def test_a_mark_for_each_span_and_for_each_gap():
    text = kernels((0, 100), (150, 100)).svg()
    assert text.count('data-kind="kernel"') == 2
    assert text.count("data-gap=") == 1 and "50 µs" in text
    assert "2 kernels on 1 stream in 250 µs, 80 % of it busy; 1 gap" in text


def test_what_was_measured_elsewhere_is_hollow():
    local, remote = kernels((0, 100)), kernels((0, 100))
    remote.date = "2026-01-02"
    (local, remote) = (one.svg() for one in (local, remote))
    assert "measured elsewhere" in remote and "measured elsewhere" not in local
    (full,), (hollow,) = (
        re.findall(r'data-kind="kernel">.*?<rect[^>]* fill="([^"]*)"', page)
        for page in (local, remote)
    )
    assert full != "none" == hollow


def test_kernels_of_one_stream_that_overlap_have_a_lane_each():
    def tops(text):
        return set(
            re.findall(r'data-kind="kernel">.*?<rect x="[\d.]+" y="([\d.]+)"', text)
        )

    in_line = kernels((0, 100), (100, 100), (200, 100))
    dependent = kernels((0, 100), (50, 150), (150, 100))
    assert len(tops(in_line.svg())) == 1
    assert len(tops(dependent.svg())) == 2


def test_timelines_share_an_axis_or_have_their_own():
    named = {"slow": kernels((0, 1000)), "fast": kernels((0, 10)), "none": None}
    together, separate = timelines(named), timelines(named, own_axis=True)
    assert list(together) == ["slow", "fast"]
    ticks = [text.svg().count(">µs<") for text in (together, separate)]
    assert ticks == [1, 2]
    assert "1000 µs" in repr(together) and "10 µs" in repr(together)


def test_thousands_of_short_kernels_make_a_small_picture():
    many = kernels(*((3 * i, 2) for i in range(20_000)))
    assert len(many.svg()) < 1_000_000
