"""Every test's outcome and tier, by the test's function and parameters.

A test that moves to another file stays the same test. One that is renamed, merged into
another or dropped is named in a table, --moved FILE, JSON:

    {"test_old": "test_new", "test_a[x]": "test_b[y]", "test_gone": "dropped: why"}

test_old stands for all its parameters. What a test became must have passed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from baseline.compare import Difference, Entries
from baseline.texts import ROOT

HERE = Path(__file__).resolve().parent
WHOLE = True
DROPPED = "dropped:"


def record(options: argparse.Namespace) -> dict[str, Any]:
    """An entry for each test function: the tests that passed, and all others."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outcomes.json"
        env = {name: text for name, text in os.environ.items() if name != "WEFT_SMALL"}
        command = [sys.executable, str(HERE / "listener.py"), str(file)]
        command += ["-n", "auto", "--dist", "worksteal", "-q"]
        subprocess.run([*command, *shlex.split(options.pytest)], cwd=ROOT, env=env)
        outcomes = json.loads(file.read_text())
    for tier, slow in (("quick", False), ("slow", True)):
        times = [one["seconds"] for one in outcomes.values() if one["slow"] == slow]
        print(f"baseline: {tier}: {len(times)} tests, {sum(times):.0f} core-seconds")
    return grouped(outcomes)


def grouped(outcomes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """{node: {outcome, slow, seconds}} by function: {"passed": [parameters], ...}."""
    found: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for node, one in sorted(outcomes.items()):
        name, _, parameters = node.rpartition("::")[2].partition("[")
        tier = ", slow" if one["slow"] else ""
        found[name][one["outcome"] + tier].append(parameters.removesuffix("]"))
    return {
        name: {key: sorted(p) for key, p in one.items()} for name, one in found.items()
    }


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[Difference]:
    """Tests that are missing, or have another outcome than before; new ones may be."""
    moved = json.loads(options.moved.read_text()) if options.moved else {}
    before, after = _tests(old), _tests(new)
    found = []
    for test, states in sorted(before.items()):
        target = _target(test, moved)
        if target.startswith(DROPPED):
            found.append(Difference(f"{test}: {target}", allowed=True))
            continue
        now = after.get(target) or after.get(target.partition("[")[0], [])
        if target != test and now:
            found.append(Difference(f"{test}: now {target}", allowed=True))
        if not now:
            found.append(Difference(f"{test}: missing now"))
        elif len(now) < len(states) and target == test:
            found.append(Difference(f"{test}: {len(states)} before, {len(now)} now"))
        elif worse := _worse(states, now):
            found.append(Difference(f"{test}: {worse}"))
        elif sorted(states) != sorted(now):
            text = f"{test}: {', '.join(states)} before, {', '.join(now)} now"
            found.append(Difference(text, allowed=True))
    known = {*before, *(_target(test, moved) for test in before)}
    found += [
        Difference(f"{test}: new", allowed=True) for test in sorted({*after} - known)
    ]
    return found


def _worse(before: list[str], now: list[str]) -> str:
    """A test that passed, and does not now."""
    passed = all(state.startswith("passed") for state in before)
    bad = [state for state in now if not state.startswith("passed")]
    return f"{before[0]} before, {bad[0]} now" if passed and bad else ""


def _tests(entries: Entries) -> dict[str, list[str]]:
    """The states of each test: several if files have tests of one name."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, states in entries.items():
        for state, every in states.items():
            for parameters in every:
                found[f"{name}[{parameters}]" if parameters else name].append(state)
    return found


def _target(test: str, moved: dict[str, str]) -> str:
    """What a test is called now."""
    if test in moved:
        return moved[test]
    name, bracket, parameters = test.partition("[")
    new = moved.get(name, name)
    return (
        new if new.startswith(DROPPED) or "[" in new else f"{new}{bracket}{parameters}"
    )
