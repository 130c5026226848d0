"""`weft bench check` compares plain and watch builds and checks each result."""

import pytest

from weft import bench
from weft.benchmarks import check as bench_check


def test_rows_of_each_kernel_in_each_mode():
    rows = bench_check.rows(samples=1, edits=0, scale=8)
    modes = ["plain", *bench_check.MODES]
    assert [row["mode"] for row in rows] == modes * len(bench_check.make_cases(8))
    by = {(row["rung"], row["mode"]): row for row in rows}
    for row in rows:
        plain = by[row["rung"], "plain"]
        assert row["us"] > 0 and plain["cost"] == 1
        assert row["cost"] == pytest.approx(row["fastest"] / plain["fastest"])
    n = 64  # per thread: 2 n / 16 loads and stores of tiles, 2 n reads of them, 1 store
    assert by["matmul_tiled", "check"]["accesses"] == n * n * (4 * n // 16 + 2 * n + 1)
    assert by["add", "check"]["accesses"] == 3 * 65536
    assert by["add", "no races"]["accesses"] is None
    assert bench.table(rows, bench_check.SHOWN)
    assert "bound 25x" in bench_check.note(rows)


@pytest.mark.slow
def test_a_kernel_that_is_wrong_is_not_timed(monkeypatch, tmp_path):
    text = bench_check.SOURCE.read_text()
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(text.replace("c[i] = a[i] + b[i]", "c[i] = a[i] - b[i]"))
    assert wrong.read_text() != text
    monkeypatch.setattr(bench_check, "SOURCE", wrong)
    with pytest.raises(RuntimeError, match="add: .* are wrong"):
        bench_check.rows(samples=1, edits=0, scale=8)


@pytest.mark.slow
def test_the_check_build_must_find_no_fault_in_what_is_timed(monkeypatch, tmp_path):
    text = bench_check.SOURCE.read_text()
    racy = tmp_path / "racy.cu"
    after = "tile[ty][tx] = x[(row + ty) * n + col + tx];\n    __syncthreads();"
    racy.write_text(text.replace(after, after.replace("__syncthreads();", "")))
    assert racy.read_text() != text
    monkeypatch.setattr(bench_check, "SOURCE", racy)
    with pytest.raises(RuntimeError, match="transpose: "):
        bench_check.rows(samples=1, edits=0, scale=8)
