"""`weft bench bodies` checks every contender before timing it."""

import pytest
import torch

from weft import bench
from weft.benchmarks import bodies as bench_bodies


@pytest.mark.slow
def test_all_contenders_do_the_same_work(target):
    rows = bench_bodies.rows(target, ["70", "3x4x5"], patience=0.001)
    assert {row["op"] for row in rows} == {"grey", "matmul"}
    impls = {"python", "numpy", "numba", "weft", "torch"}
    assert {row["impl"] for row in rows} == impls
    for row in rows:
        assert row["error"] < 1e-5 and row["us"] > 0
        assert (row["host_us"] is not None) == (row["target"] == "cuda")
    theirs = {row["target"] for row in rows if row["impl"] in ("weft", "torch")}
    assert target in theirs
    assert [row["vs_torch"] for row in rows if row["impl"] == "torch"] == [1, 1]
    assert bench.table(rows, bench_bodies.SHOWN)


def test_a_part_in_python_is_scaled_up(monkeypatch):
    monkeypatch.setattr(bench_bodies, "LOOPS", 20)
    rows = bench_bodies.rows("cpu", ["8x4x5"], patience=0.001)
    (loops,) = [row for row in rows if row["impl"] == "python"]
    assert loops["part"] == 1 / 8


def test_simulators_run_some_of_the_blocks(monkeypatch):
    """Only the results of these blocks are compared, and the time is scaled up."""
    # Threads times accesses.
    monkeypatch.setattr(bench_bodies, "SIMULATED", 600 * 2 * 5)
    monkeypatch.setattr(bench_bodies, "SIMULATED_THREADS", 1)
    rows = bench_bodies.rows("cpu", ["40x5x40", "600"], patience=0.001)
    part = {(row["op"], row["rung"]): row.get("part", 1) for row in rows}
    assert part["matmul", "sim"] == 32 * 16 / 40**2
    assert part["grey", "sim"] == 1
    if not torch.cuda.is_available():
        assert part["matmul", "its simulator"] == 16 * 16 / 40**2
        assert part["grey", "its simulator"] == 256 / 600


def test_a_wrong_contender_is_not_timed(monkeypatch):
    def nothing(y, x, n):
        pass

    monkeypatch.setattr(bench_bodies.bodies, "grey", nothing)
    with pytest.raises(RuntimeError, match="is wrong"):
        bench_bodies.rows("cpu", ["8"])
    with pytest.raises(ValueError, match="--sizes 3x4: expected MxKxN"):
        bench_bodies.rows("cpu", ["3x4"])


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
def test_on_a_gpu_kernels_are_timed_without_their_launch():
    rows = bench_bodies.rows("cuda", ["70"])
    on_gpu = [row for row in rows if row["target"] == "cuda"]
    assert {row["impl"] for row in on_gpu} == {"numba", "weft", "torch"}
    assert all("graph of" in row["timer"] for row in on_gpu)
