"""`bench OP --counted`: the bytes that kernels move, counted on the CPU."""

import argparse

import pytest
from tiers import only

from weft.base.errors import ArgumentError, Mismatch
from weft.benchmarks import counted
from weft.commands import bench
from weft.report.model import Finding, ProgramReport


def test_relu_moves_each_number_once_in_and_once_out():
    rows = {row["rung"]: row for row in counted.rows("relu", [4096])}
    assert rows.keys() == {"naive", "tiled"}
    for row in rows.values():
        assert row["bytes"] == row["floor"] == 2 * 4 * 4096
        assert row["kernels"] == 1 and row["bank_conflicts"] == 0
    # A warp's load of 32 floats takes 4 sectors, and one of 32 x 4 floats takes 16.
    assert rows["naive"]["sectors_per_request"] == 4
    assert rows["tiled"]["sectors_per_request"] == 16


@pytest.mark.slow
def test_the_rungs_of_reduce_are_ranked_by_their_bytes():
    count = 2**15
    rows = counted.rows("reduce", [count])
    moved = {row["rung"]: row["bytes"] for row in rows}
    assert [*moved.values()] == sorted(moved.values())
    # Each of 2^15 atomic additions to one address takes a separate sector.
    assert moved["atomic"] == 4 * count + 32 * count
    wide = ("vector", "two_kernels", "last_block", "compensated", "tickets")
    for rung in (*wide, "fixed_order"):
        assert 1 <= moved[rung] / (4 * count) < 1.05, rung


@pytest.mark.parametrize(
    "op, size", only([("copy", 2**15)], [("copy", 2**15), ("transpose", 64)], names=2)
)
def test_a_copy_and_a_transpose_move_what_they_must(op, size):
    rows = {row["rung"]: row for row in counted.rows(op, [size])}
    for rung, row in rows.items():
        assert row["over_floor"] == (4.5 if rung == "naive" else 1), rung
    # A float per lane: 4 sectors; a column: 32; 16 bytes per lane: 16.
    per_request = {"byte": 1, "word": 4, "vector": 16, "naive": (4 + 32) / 2}
    per_request |= dict.fromkeys(["tiled", "padded", "swizzled", "strips"], 4)
    for rung, sectors in (per_request | {"wide": 16}).items():
        if rung in rows:
            assert rows[rung]["sectors_per_request"] == sectors, rung
    # Each of a tile's 32 rows takes 31 additional turns.
    tiles = (size // 32) ** 2
    for rung, row in rows.items():
        assert row["bank_conflicts"] == (31 * 32 * tiles if rung == "tiled" else 0)


def test_requests_atomics_and_barriers_are_counted():
    names, count = ["atomic", "shuffle", "last_block"], 2**12
    rows = {row["rung"]: row for row in counted.rows("reduce", [count], names)}
    blocks = count // 256
    assert rows["atomic"]["atomics"] == count and rows["atomic"]["barriers"] == 0
    # Each warp makes one request to read, and each block makes one to add.
    assert rows["shuffle"]["requests"] == count // 32 + blocks
    assert rows["shuffle"]["atomics"] == rows["shuffle"]["barriers"] == blocks
    # In last_block, a thread loads four numbers, and each block counts itself.
    assert rows["last_block"]["atomics"] == blocks / 4
    assert {"requests", "atomics", "barriers"} <= set(counted.COUNTS)


@pytest.mark.slow
@pytest.mark.parametrize("cols", [*(32 * 8**i for i in range(5)), 64, 32768, 262144])
def test_the_tuned_softmax_moves_each_number_once_in_and_once_out(cols):
    (row,) = counted.rows("softmax", [cols], ["tuned"])
    assert row["rows"] == max(1, 2**16 // cols)
    # The parts of a split row have two sectors each, and every part reads all pairs.
    split = cols > 32_768
    assert 1 <= row["over_floor"] <= (1.05 if split else 1) and row["kernels"] == 1
    assert row["bank_conflicts"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes", [10, 32, 1000, 4096, 16_384, 50_257, 50_304, 262_144]
)
def test_the_tuned_cross_entropy_moves_hardly_more_than_its_softmax(classes):
    (row,) = counted.rows("cross_entropy", [classes], ["tuned"])
    # A row's loss, its target's logit and its target take a sector each. If a row
    # begins at an odd address, 32 of its floats are in five sectors instead of four.
    odd = classes % 8 and classes > 32
    assert 1 <= row["over_floor"] <= (1.25 if odd else 1.05) and row["kernels"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("cols", [32, 128, 1024, 2048, 8192, 16384, 32768, 262144])
@pytest.mark.parametrize("op, scales", [("layernorm", 2), ("rmsnorm", 1)])
def test_the_tuned_norms_read_and_write_each_row_once(op, scales, cols):
    (row,) = counted.rows(op, [cols], ["tuned"])
    # With 513 to 32,768 columns, a block reads weight and bias for its only row.
    # They come from a cache, which is not part of the count.
    cached = 4 * scales * (row["rows"] - 1) * cols if 512 < cols <= 32_768 else 0
    assert 1 <= (row["bytes"] - cached) / row["floor"] <= 1.05
    assert row["bank_conflicts"] == 0


@pytest.mark.slow
def test_each_pass_over_the_rows_counts():
    rows = {row["rung"]: row["over_floor"] for row in counted.rows("softmax", [4096])}
    # Each float takes a whole sector, 32 bytes for 4: eight times the bytes.
    assert rows["three_passes"] == 8 * (3 + 1) / 2 and rows["online"] == 8 * (2 + 1) / 2
    assert rows["warp_a_row"] == rows["block_a_row"] == 1.5
    for rung in ("row_in_shared", "row_in_registers", "cluster_a_row"):
        assert rows[rung] == 1, rung


@pytest.mark.slow
@pytest.mark.parametrize("count", [2**10, 2**12, 2**16, 2**20 + 4])
@pytest.mark.parametrize("rung", ["fixed_order", "bulk"])
def test_the_scan_in_a_fixed_order_moves_each_number_once_in_and_once_out(rung, count):
    (row,) = counted.rows("scan", [count], [rung])
    assert 1 <= row["over_floor"] <= 1.05 and row["kernels"] == 1
    long_tile = 8192 if rung == "fixed_order" else 16384
    tile = 4096 if count < 2**14 else long_tile
    # Each of bulk's two blocks takes a ticket that has no tile, and ends.
    last = 2 if rung == "bulk" and count >= 2**14 else 0
    assert row["bank_conflicts"] == 0 and row["atomics"] == -(-count // tile) + last


@pytest.mark.slow
def test_three_kernels_of_scan_read_twice():
    rows = {row["rung"]: row for row in counted.rows("scan", [2**16])}
    # Each pair takes two reads and one write; small tiles also have more sums.
    for rung, most in {"three_kernels": 1.55, "kogge_stone": 1.65}.items():
        assert 1.5 < rows[rung]["over_floor"] < most and rows[rung]["kernels"] == 3
    assert rows["brent_kung"]["bank_conflicts"] > rows["shuffle"]["bank_conflicts"] == 0
    # Each tile has one barrier per kernel instead of 17; the sums' kernel has two.
    tiles = 2**16 // 256
    assert rows["shuffle"]["barriers"] == 2 * tiles + 2
    assert rows["kogge_stone"]["barriers"] == 17 * 2 * tiles + 2
    assert rows["items"]["over_floor"] < rows["look_back_warp"]["over_floor"] < 1.05


def test_a_rung_in_plain_c_has_no_counts():
    with pytest.raises(ArgumentError, match="relu 'reference' is not CUDA C"):
        counted.rows("relu", rungs=["reference"])


def test_a_fault_in_a_counted_rung_is_an_error(monkeypatch):
    faulty = ProgramReport("", [Finding("bounds", "thread 7 reads behind x")])
    monkeypatch.setattr(counted, "report_watched", lambda title: faulty)
    with pytest.raises(Mismatch, match="relu 'naive': thread 7 reads behind x"):
        counted.rows("relu", [100], ["naive"])


def test_the_command_prints_the_table_and_refuses_other_benchmarks(run_bench):
    text = run_bench("relu", "--counted", "--sizes", "1000")
    assert "over_floor" in text and "sector of global memory" in text
    with pytest.raises(ValueError, match="--counted: sectors is not one of"):
        run_bench("sectors", "--counted")
    assert "bank_conflicts" in run_bench("transpose", "--counted", "--sizes", "32")


@pytest.fixture
def run_bench(capsys):
    """Return a function that runs `weft bench` and returns its output."""

    def run(*words: str) -> str:
        parser = argparse.ArgumentParser()
        bench.add_arguments(parser)
        assert bench.main(parser.parse_args(words)) == 0
        return capsys.readouterr().out

    return run
