"""A table of tests that changed their place since a commit: moved_tests.py COMMIT.

It collects the tests of both tiers, there and here, and writes Markdown: what moved to
the slow tier, what another test does now, what was dropped, and why. moved_tests.json
has the reasons:

    {"slow": {"why": ["test_name"]}, "moved": {"test_old": "test_new, or dropped: why"}}

A change without a reason ends the script with status 1. Parameters that moved are
counted and named; --old FILE reads the tests of the commit, or keeps them, in FILE.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIERS = {"quick": "not slow", "slow": "slow"}
NAMED = 4  # parameters that a row of the table names, at most
Tests = dict[str, dict[str, list[str]]]  # tier -> function -> parameters


def main() -> int:
    """Write the table to the standard output."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("commit")
    parser.add_argument("--old", type=Path, help="a file with the commit's tests")
    options = parser.parse_args()
    if options.old and options.old.exists():
        old = json.loads(options.old.read_text())
    else:
        old = collect_commit(options.commit)
        if options.old:
            options.old.write_text(json.dumps(old))
    new = collect(ROOT)
    rows = list(compare(old, new, json.loads((HERE / "moved_tests.json").read_text())))
    counts = [
        sum(map(len, tests[tier].values())) for tests in (old, new) for tier in TIERS
    ]
    print(f"# Tests that moved since {options.commit}\n")
    print("Before: {} quick, {} slow. Now: {} quick, {} slow.\n".format(*counts))
    print("| test | what changed | why |\n|---|---|---|")
    print("\n".join(f"| {name} | {what} | {why} |" for name, what, why in rows))
    return int(any(not why for _, _, why in rows))


def collect_commit(commit: str) -> Tests:
    """The tests of a commit, in a checkout of its own."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", folder, commit], check=True)
        try:
            return collect(Path(folder))
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def collect(checkout: Path) -> Tests:
    """The tests of a checkout by tier and function."""
    found: Tests = {}
    for tier, marks in TIERS.items():
        words = ["--collect-only", "-q", "-m", marks, "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout / "lib")},
            text=True,
            stdout=subprocess.PIPE,
        )
        if done.returncode:
            raise SystemExit(done.stdout[-2000:])
        tests = defaultdict(list)
        for line in done.stdout.splitlines():
            if "::" in line:
                node, _, parameters = line.partition("[")
                name = node.rpartition("::")[2]
                tests[name].append(parameters.removesuffix("]"))
        found[tier] = tests
    return found


def compare(
    old: Tests, new: Tests, reasons: dict[str, dict]
) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each function with a change: its name, what, and why."""
    whys = {name: why for why, names in reasons["slow"].items() for name in names}
    for name in sorted({*old["quick"], *old["slow"]}):
        was = {tier: old[tier].get(name, []) for tier in TIERS}
        now = {tier: new[tier].get(name, []) for tier in TIERS}
        target = reasons["moved"].get(name, "")
        if not any(now.values()):
            yield (
                name,
                target if target.startswith("dropped") else f"now {target}",
                target,
            )
            continue
        moved = [one for one in was["quick"] if one in now["slow"]]
        if moved:
            share = f"{len(moved)} of {len(was['quick'])} are slow now"
            yield name, share + name_some(moved), whys.get(name, "")
        every = [*now["quick"], *now["slow"]]
        lost = [one for one in [*was["quick"], *was["slow"]] if one not in every]
        if lost:
            yield name, f"{len(lost)} are gone{name_some(lost)}", target
    for name in sorted({*new["quick"], *new["slow"]} - {*old["quick"], *old["slow"]}):
        yield name, "new", reasons["moved"].get(name, "a test of its own")


def name_some(parameters: list[str]) -> str:
    """The first parameters, for a table."""
    shown = [f"`{one}`".replace("|", "\\|") for one in parameters[:NAMED] if one]
    more = len(parameters) - len(shown)
    return (
        (": " + ", ".join(shown) + f", and {more} more" * (more > 0)) if shown else ""
    )


if __name__ == "__main__":
    sys.exit(main())
