"""The files in notebooks/results."""

import json
import re

import pytest
from tiers import loop_over

from weft.base.paths import ROOT
from weft.benchmarks.sentences import RESULTS

FILES = sorted(RESULTS.glob("*.json"))


def test_there_are_results():
    assert FILES


@loop_over("path", FILES)
def test_committed_rows_were_measured_at_a_commit(path):
    """bench.commit() ends in "+" if files differ from that commit."""
    record = json.loads(path.read_text())
    commits = {part.get("commit") for part in (record["machine"], *record["rows"])}
    assert not [name for name in commits if name and name.endswith("+")]


def test_no_committed_product_is_faster_than_its_roof():
    """Compare with the peaks of the same card and precision; floors depend on them."""
    rows = [row for path in FILES for row in json.loads(path.read_text())["rows"]]
    roofs: dict[tuple[str, str], float] = {}
    for row in rows:
        is_peak = row.get("op") == "peak" and row["rung"] in ("ffma", "wgmma")
        if is_peak or row.get("measure") == "roof":
            key = row["device"], row["precision"]
            roofs[key] = max(row["tflops"], roofs.get(key, 0.0))
    rates = [
        (row["tflops"], roofs[row["device"], row["precision"]])
        for row in rows
        if row.get("op") == "matmul" and row.get("tflops")
        if (row["device"], row["precision"]) in roofs
    ]
    assert len({device for device, _ in roofs}) >= 2 and len(rates) > 100
    assert not [pair for pair in rates if pair[0] > pair[1]]


@pytest.mark.parametrize("rung", ["ijk", "ikj", "blocked", "simd", "reference"])
def test_a_plain_c_rung_quotes_its_committed_rows(rung):
    """Check that the essay quotes all rows at 1024 and 2048, and no others."""
    rows = json.loads((RESULTS / "matmul_amd_epyc.json").read_text())["rows"]
    name = "matmul.c" if rung == "reference" else f"matmul_{rung}.c"
    cores = {1, 2} if rung == "reference" else {1}
    speeds: dict[str, set[str]] = {"ours": set(), "theirs": set()}
    for row in rows:
        whose = "ours" if row["rung"] == rung else "theirs"
        if row["m"] < 1024 or row["threads"] not in cores:
            continue
        if whose == "ours" or row["impl"] != "weft":
            gflops = row["tflops"] * 1e3
            speeds[whose].add(f"{gflops:.{2 if gflops < 1 else 0}f}")
    head = (ROOT / "kernels/reference" / name).read_text().split("*/")[0]
    quoted = head.split("Measured:")[1].split("Limit:")[0]
    quoted = re.sub(r"AVX-512|L3|\d+\^3|\d+ GB/s|\d / \d|[\d.]+ %", "", quoted)
    numbers = set(re.findall(r"[\d.]*\d", quoted))
    assert speeds["ours"] <= numbers <= speeds["ours"] | speeds["theirs"]
