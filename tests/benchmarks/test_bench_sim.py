"""`weft bench sim`: its kernels are correct, and its rows have the common keys."""

from weft.benchmarks import sim as bench_sim


def test_rows_without_a_peer(monkeypatch):
    monkeypatch.setattr(bench_sim, "SAMPLES", 1)
    monkeypatch.setattr(bench_sim, "N", 16)
    monkeypatch.setattr(bench_sim, "_run_numba", lambda kernel: None)
    rows = [
        r
        for n, case in bench_sim.make_cases().items()
        for r in bench_sim._measure(n, case)
    ]
    assert [r["checks"] for r in rows] == ["on", "off"] * 4
    for row in rows:
        assert {"op", "impl", "rung", "precision", "target", "device"} <= set(row)
        assert row["us"] > 0 and row["us_per_access"] > 0 and row["vs_numba"] is None
    waits = [r["us_per_wait"] is not None for r in rows]
    assert waits == [False, False, True, True, True, True, True, True]
    assert "not measured" in bench_sim.note(rows)


def test_a_figure_that_is_missing_is_reported_as_not_measured():
    assert bench_sim._write_figure(None) == "not measured"
    assert bench_sim._write_figure(99.04) == "99"
