"""The size at which one machine's line crosses another's."""

import pytest

from weft.benchmarks import plot_bodies
from weft.benchmarks.plot_bodies import find_crossing, lowest_times

SIZES = [4**power for power in range(3, 12)]


def line(start, per_number):
    return {size: start + per_number * size for size in SIZES}


def test_two_lines_cross_between_the_neighbouring_sizes():
    host, device = line(7.0, 4e-4), line(18.0, 1e-6)  # the two lines cross at 27569
    assert 16384 < find_crossing(host, device) < 65536
    assert find_crossing(host, device) == pytest.approx(11 / (4e-4 - 1e-6), rel=0.25)


def test_a_disturbed_sample_does_not_move_the_crossing():
    """With medians, lesson 00's crossing varied by a factor of four between runs."""
    row = {"target": "cpu", "impl": "weft", "us": 7000.0}
    rows = [row | {"count": n, "us_low": us} for n, us in line(7.0, 4e-4).items()]
    assert lowest_times(rows, "cpu") == line(7.0, 4e-4)
    assert lowest_times(rows, "cuda") == {}
    peers = [r | {"impl": "torch", "us_low": 0.1} for r in rows]
    assert lowest_times(rows + peers, "cpu") == line(7.0, 4e-4)


def test_a_line_that_is_never_or_always_ahead():
    slow, fast = line(9.0, 4e-4), line(2.0, 1e-4)
    assert find_crossing(fast, slow) is None
    assert find_crossing(slow, fast) == SIZES[0]
    assert find_crossing(slow, {}) is None


def test_a_gpu_of_another_machine_is_compared_with_this_core(monkeypatch):
    def rows(target, device, times):
        common = {"target": target, "impl": "weft", "device": device, "timer": "events"}
        return [common | {"count": n, "us_low": us} for n, us in times.items()]

    gpu = rows("cuda", "a GPU", line(18.0, 1e-6))
    monkeypatch.setattr(plot_bodies, "load_elsewhere", lambda _: [{"rows": gpu}])
    core_rows = rows("cpu", "a core", line(7.0, 4e-4))
    assert 16384 < plot_bodies.list_crossings(core_rows)["a GPU, events"] < 65536
    assert plot_bodies.list_crossings(rows("cpu", "a core", line(1.0, 1e-9))) == {}
    (ax,) = plot_bodies.plot_times(core_rows).axes
    assert [line.get_label() for line in ax.lines] == ["a core", "a GPU"]
    core, elsewhere = (line.get_markerfacecolor() for line in ax.lines)
    assert core != "none" and elsewhere == "none"
