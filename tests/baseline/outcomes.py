"""Every test's outcome and tier, by the test's function and parameters.

A test that moves to another file stays the same test. A table, --moved FILE, maps tests
that were renamed, merged into others or dropped. It is JSON:

    {"test_old": "test_new", "test_a[x]": "test_b[y]", "test_gone": "dropped: why"}

test_old includes all its parameters. The new test must have passed.
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
    """Return an entry for each test function: the tests that passed, and all others."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "outcomes.json"
        env = {name: text for name, text in os.environ.items() if name != "WEFT_SMALL"}
        command = [sys.executable, str(HERE / "listener.py"), str(file)]
        command += ["-n", "auto", "--dist", "worksteal", "-q"]
        subprocess.run([*command, *shlex.split(options.pytest)], cwd=ROOT, env=env)
        outcomes = json.loads(file.read_text())
    for tier, slow in (("quick", False), ("slow", True)):
        times = [test["seconds"] for test in outcomes.values() if test["slow"] == slow]
        print(f"baseline: {tier}: {len(times)} tests, {sum(times):.0f} core-seconds")
    return grouped(outcomes)


def grouped(outcomes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Group {node: {outcome, slow, seconds}} by function: {"passed": [parameters]}."""
    groups: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for node, outcome in sorted(outcomes.items()):
        name, _, parameters = node.rpartition("::")[2].partition("[")
        tier = ", slow" if outcome["slow"] else ""
        groups[name][outcome["outcome"] + tier].append(parameters.removesuffix("]"))
    return {
        name: {key: sorted(p) for key, p in outcome.items()}
        for name, outcome in groups.items()
    }


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[Difference]:
    """List tests that are missing or have another outcome; new tests are allowed."""
    moved = json.loads(options.moved.read_text()) if options.moved else {}
    before, after = _tests(old), _tests(new)
    changes = []
    for test, states in sorted(before.items()):
        target = _target(test, moved)
        if target.startswith(DROPPED):
            changes.append(Difference(f"{test}: {target}", allowed=True))
            continue
        current = after.get(target) or after.get(target.partition("[")[0], [])
        if target != test and current:
            changes.append(Difference(f"{test}: now {target}", allowed=True))
        if not current:
            changes.append(Difference(f"{test}: missing now"))
        elif len(current) < len(states) and target == test:
            changes.append(
                Difference(f"{test}: {len(states)} before, {len(current)} now")
            )
        elif worse := _worse(states, current):
            changes.append(Difference(f"{test}: {worse}"))
        elif sorted(states) != sorted(current):
            text = f"{test}: {', '.join(states)} before, {', '.join(current)} now"
            changes.append(Difference(text, allowed=True))
    expected = {*before, *(_target(test, moved) for test in before)}
    changes += [
        Difference(f"{test}: new", allowed=True) for test in sorted({*after} - expected)
    ]
    return changes


def _worse(before: list[str], now: list[str]) -> str:
    """Describe a test that passed and now fails; "" for any other."""
    passed = all(state.startswith("passed") for state in before)
    failures = [state for state in now if not state.startswith("passed")]
    return f"{before[0]} before, {failures[0]} now" if passed and failures else ""


def _tests(entries: Entries) -> dict[str, list[str]]:
    """Return each test's outcomes: several if files have tests of the same name."""
    collected: dict[str, list[str]] = defaultdict(list)
    for name, outcomes in entries.items():
        for state, cases in outcomes.items():
            for parameters in cases:
                collected[f"{name}[{parameters}]" if parameters else name].append(state)
    return collected


def _target(test: str, moved: dict[str, str]) -> str:
    """Return the current name of a test."""
    if test in moved:
        return moved[test]
    name, bracket, parameters = test.partition("[")
    new = moved.get(name, name)
    return (
        new if new.startswith(DROPPED) or "[" in new else f"{new}{bracket}{parameters}"
    )
