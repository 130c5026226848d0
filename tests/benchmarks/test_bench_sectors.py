"""`weft bench sectors` reads the same number of sectors in each row, each one once."""

import numpy as np
import pytest

from weft import bench
from weft.benchmarks import sectors as bench_sectors
from weft.cells import load_cuda


def test_rows_read_the_same_number_of_sectors(target):
    rows = bench_sectors.rows(target, seconds=0.01)
    assert {row["sectors"] for row in rows} == {bench_sectors.WANTED[target]}
    assert sum(row["usual"] for row in rows) >= len(rows) / 4
    for row in rows:
        assert row["tbs"] == pytest.approx(32 * row["sectors"] / row["us"] / 1e6)
    scattered = {(r["run"], r["footprint"]) for r in rows if r["rung"] == "scattered"}
    assert {32, 64, 128} <= {run for run, _ in scattered}
    assert len({footprint for _, footprint in scattered}) > 1
    assert [r["stride"] for r in rows if r["rung"] == "in order"][:3] == [32, 64, 128]
    assert bench.table(rows, bench_sectors.SHOWN)
    assert ("do not represent" in bench_sectors.note(rows)) == (target == "cpu")


@pytest.mark.parametrize("run_bits", [0, 1, 3, 9])
@pytest.mark.parametrize("bits", [12, 13])
def test_scattered_runs_are_complete_distinct_and_unordered(run_bits, bits):
    """x contains each sector's number; each thread reads one and stores it."""
    kernels = load_cuda(
        bench_sectors.SOURCE.read_text().replace("EACH = 8", "EACH = 1")
    )
    x = np.repeat(np.arange(2**bits, dtype=np.float32), 8)
    count = 2 ** (bits - 1)  # half of the footprint
    places = np.zeros(count, np.float32)
    kernels.read_scattered[count // 256, 256](places, x, run_bits, bits - run_bits)
    runs = places.reshape(-1, 2**run_bits)
    assert len(np.unique(places)) == count
    assert (runs == runs[:, :1] + np.arange(2**run_bits)).all()
    assert (runs[:, 0] % 2**run_bits == 0).all()
    if len(runs) >= 64:
        assert abs(np.corrcoef(runs[1:, 0], runs[:-1, 0])[0, 1]) < 0.4


def test_a_kernel_that_sums_wrongly_is_not_timed(monkeypatch, tmp_path):
    broken = tmp_path / "wrong.cu"
    text = bench_sectors.SOURCE.read_text()
    broken.write_text(text.replace("sum += x[place", "sum += 2 * x[place"))
    monkeypatch.setattr(bench_sectors, "SOURCE", broken)
    with pytest.raises(RuntimeError, match="read_scattered .* computed a wrong sum"):
        bench_sectors.rows("cpu", seconds=0.01)


def test_too_little_memory_is_refused_with_the_numbers(monkeypatch):
    monkeypatch.setitem(bench_sectors.MOST, "cpu", 1000)
    with pytest.raises(ValueError, match="requires 131,072 bytes; 1,000 are free"):
        bench_sectors.rows("cpu")
