"""Races of CUDA C under the watch build, which must find each one and no others.

The kernels are in races/. Each kernel of racy.cu has one race, and those of clean.cu
have none. Each runs in three orders of threads and blocks, with the same findings.
"""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from tiers import loop_over

from weft.programs import program

HERE = Path(__file__).parent / "races"
KINDS = {"race", "conflict"}


def cases(name):
    """Return the names of a file's kernels."""
    return re.findall(r"^CASE\((\w+)\)", (HERE / name).read_text(), re.M)


@pytest.fixture(scope="module")
def reports():
    """Run all kernels; return a list of findings per order, by file and kernel."""
    findings = {}
    for name in ("racy.cu", "clean.cu"):
        source = program.Program(sources=[str(HERE / name)], check=True)
        path = program.build_executable(source)
        result = subprocess.run([path], capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        findings[name] = defaultdict(list)
        for line in result.stdout.splitlines():
            case, _, error, report = line.split(" ", 3)
            assert error == "0", line
            findings[name][case].append(json.loads(report)["findings"])
    return findings


def races(findings):
    return [f for f in findings if f["kind"] in KINDS]


@loop_over("case", cases("racy.cu"))
def test_race_is_found_in_every_order(reports, case):
    orders = reports["racy.cu"][case]
    assert len(orders) == 3
    assert all(races(findings) for findings in orders)
    kinds = [{(f["kind"], f["array"]) for f in races(findings)} for findings in orders]
    assert kinds[0] == kinds[1] == kinds[2]


@loop_over("case", cases("clean.cu"))
def test_clean_kernel_has_no_race_in_any_order(reports, case):
    orders = reports["clean.cu"][case]
    assert len(orders) == 3
    assert [f["text"] for findings in orders for f in races(findings)] == []


def test_a_race_names_both_threads_and_the_element(reports):
    for findings in reports["racy.cu"]["no_barrier"]:
        (race,) = races(findings)
        assert race["text"] == (
            "thread 0 reads s[255] while thread 255 writes it: no barrier between them"
        )
        assert (race["block"], race["thread"]) == ([0, 0, 0], [0, 0, 0])
        assert race["other"] == [255, 0, 0]
        assert (race["array"], race["index"]) == ("s", 255)
        assert race["site"] != race["other_site"]


def test_writes_of_two_values_are_a_conflict(reports):
    for findings in reports["racy.cu"]["two_values"]:
        (conflict,) = races(findings)
        assert conflict["kind"] == "conflict"
        assert conflict["index"] == 7
        assert (conflict["thread"], conflict["other"]) == ([3, 0, 0], [200, 0, 0])


def test_a_race_between_lanes_of_a_warp_names_the_warp(reports):
    for findings in reports["racy.cu"]["in_step"]:
        (race,) = races(findings)
        assert "both are in one warp" in race["text"]


def test_a_race_between_blocks_names_the_missing_order(reports):
    for findings in reports["racy.cu"]["fence_too_early"]:
        kinds = [f for f in races(findings) if f["kind"] == "race"]
        assert any("nothing orders these two" in f["text"] for f in kinds)
