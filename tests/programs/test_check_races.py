"""Races of CUDA C under the watch build: found where they are, and only there.

The kernels stand in tests/races: one fault in each of racy.cu, none in clean.cu. Each
runs in three orders of threads and blocks, and every order must tell the same.
"""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest

from weft.programs import program

HERE = Path(__file__).parent / "races"
KINDS = {"race", "conflict"}


def cases(name):
    """The names of a file's kernels."""
    return re.findall(r"^CASE\((\w+)\)", (HERE / name).read_text(), re.M)


@pytest.fixture(scope="module")
def seen():
    """What was found, by file and kernel: a list of findings for each order."""
    found = {}
    for name in ("racy.cu", "clean.cu"):
        source = program.Program(sources=[str(HERE / name)], check=True)
        path = program.build_executable(source)
        done = subprocess.run([path], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        found[name] = defaultdict(list)
        for line in done.stdout.splitlines():
            case, _, error, report = line.split(" ", 3)
            assert error == "0", line
            found[name][case].append(json.loads(report)["findings"])
    return found


def races(findings):
    return [f for f in findings if f["kind"] in KINDS]


@pytest.mark.parametrize("case", cases("racy.cu"))
def test_race_is_found_in_every_order(seen, case):
    orders = seen["racy.cu"][case]
    assert len(orders) == 3
    assert all(races(findings) for findings in orders)
    told = [{(f["kind"], f["array"]) for f in races(findings)} for findings in orders]
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("case", cases("clean.cu"))
def test_clean_kernel_has_no_race_in_any_order(seen, case):
    orders = seen["clean.cu"][case]
    assert len(orders) == 3
    assert [f["text"] for findings in orders for f in races(findings)] == []


def test_both_threads_and_the_element_are_told(seen):
    for findings in seen["racy.cu"]["no_barrier"]:
        (race,) = races(findings)
        assert race["text"] == (
            "thread 0 reads s[255] while thread 255 writes it: no barrier between them"
        )
        assert (race["block"], race["thread"]) == ([0, 0, 0], [0, 0, 0])
        assert race["other"] == [255, 0, 0]
        assert (race["array"], race["index"]) == ("s", 255)
        assert race["site"] != race["other_site"]


def test_writes_of_two_values_are_a_conflict(seen):
    for findings in seen["racy.cu"]["two_values"]:
        (conflict,) = races(findings)
        assert conflict["kind"] == "conflict"
        assert conflict["index"] == 7
        assert (conflict["thread"], conflict["other"]) == ([3, 0, 0], [200, 0, 0])


def test_lanes_of_a_warp_are_told_that_they_are(seen):
    for findings in seen["racy.cu"]["in_step"]:
        (race,) = races(findings)
        assert "both are in one warp" in race["text"]


def test_blocks_are_told_that_nothing_orders_them(seen):
    for findings in seen["racy.cu"]["fence_too_early"]:
        told = [f for f in races(findings) if f["kind"] == "race"]
        assert any("nothing orders these two" in f["text"] for f in told)
