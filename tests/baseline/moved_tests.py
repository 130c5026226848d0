"""Write a table of the tests that moved since a commit: moved_tests.py COMMIT.

The script collects the tests of both tiers, in the commit and in this checkout. It
writes Markdown: the tests that became slow, were replaced by another test or were
dropped, and the reasons. moved_tests.json contains the reasons:

    {"slow": {"why": ["test_name"]}, "moved": {"test_old": "test_new, or dropped: why"}}

A change without a reason ends the script with status 1. It counts and names moved
parameters. --old FILE stores the commit's tests in FILE, or reads them from it.
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
NAMED = 4  # maximum number of parameters that a row of the table names
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
    print("\n".join(f"| {name} | {change} | {why} |" for name, change, why in rows))
    return int(any(not why for _, _, why in rows))


def collect_commit(commit: str) -> Tests:
    """Return the tests of a commit, in a separate checkout."""
    with tempfile.TemporaryDirectory() as folder:
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", folder, commit], check=True)
        try:
            return collect(Path(folder))
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def collect(checkout: Path) -> Tests:
    """Return the tests of a checkout by tier and function."""
    collected: Tests = {}
    for tier, marks in TIERS.items():
        words = ["--collect-only", "-q", "-m", marks, "-p", "no:cacheprovider"]
        process = subprocess.run(
            [sys.executable, "-m", "pytest", *words],
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout / "lib")},
            text=True,
            stdout=subprocess.PIPE,
        )
        if process.returncode:
            raise SystemExit(process.stdout[-2000:])
        tests = defaultdict(list)
        for line in process.stdout.splitlines():
            if "::" in line:
                node, _, parameters = line.partition("[")
                name = node.rpartition("::")[2]
                tests[name].append(parameters.removesuffix("]"))
        collected[tier] = tests
    return collected


def compare(
    old: Tests, new: Tests, reasons: dict[str, dict]
) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each changed function: its name, the change and the reason."""
    whys = {name: why for why, names in reasons["slow"].items() for name in names}
    for name in sorted({*old["quick"], *old["slow"]}):
        before = {tier: old[tier].get(name, []) for tier in TIERS}
        after = {tier: new[tier].get(name, []) for tier in TIERS}
        target = reasons["moved"].get(name, "")
        if not any(after.values()):
            yield (
                name,
                target if target.startswith("dropped") else f"now {target}",
                target,
            )
            continue
        moved = [p for p in before["quick"] if p in after["slow"]]
        if moved:
            share = f"{len(moved)} of {len(before['quick'])} are slow now"
            yield name, share + name_some(moved), whys.get(name, "")
        current = [*after["quick"], *after["slow"]]
        missing = [p for p in [*before["quick"], *before["slow"]] if p not in current]
        if missing:
            yield name, f"{len(missing)} are gone{name_some(missing)}", target
    for name in sorted({*new["quick"], *new["slow"]} - {*old["quick"], *old["slow"]}):
        yield name, "new", reasons["moved"].get(name, "a test of its own")


def name_some(parameters: list[str]) -> str:
    """Return the first parameters, for a table."""
    some = [f"`{p}`".replace("|", "\\|") for p in parameters[:NAMED] if p]
    more = len(parameters) - len(some)
    return (": " + ", ".join(some) + f", and {more} more" * (more > 0)) if some else ""


if __name__ == "__main__":
    sys.exit(main())
