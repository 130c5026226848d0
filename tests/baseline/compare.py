"""The differences between two records."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from baseline import sections

TEXTS = ("text", "said")  # fields that people read
Entries = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Difference:
    """One line of a report. allowed: whether it is acceptable."""

    text: str
    allowed: bool = False


@dataclass
class Report:
    """Differences by section, and notes on sections that were not compared."""

    differences: dict[str, list[Difference]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all differences are allowed."""
        return all(d.allowed for lines in self.differences.values() for d in lines)

    def text(self) -> str:
        """Return the report for a terminal."""
        lines = [f"note: {note}" for note in self.notes]
        for name, changes in self.differences.items():
            wrong = sum(not d.allowed for d in changes)
            more = f", {len(changes) - wrong} allowed" if len(changes) > wrong else ""
            lines.append(f"{name}: {wrong or 'no'} differences{more}")
            for d in sorted(changes, key=lambda d: d.allowed):
                lines.append(f"  {'(allowed) ' * d.allowed}{d.text}")
        return "\n".join([*lines, "as before" if self.ok else "NOT as before"])


def report(
    old: dict[str, Any],
    new: dict[str, Any],
    names: Iterable[str],
    options: argparse.Namespace,
) -> Report:
    """Compare the sections that both records have."""
    result = Report()
    for name in names:
        before, after = (record["sections"].get(name) for record in (old, new))
        if not before or not after:
            where = "old" if not before else "new"
            result.notes.append(f"{name}: not compared, the {where} record has none")
            continue
        if before["machine"] != after["machine"]:
            result.notes.append(
                f"{name}: {before['machine']} before, {after['machine']} now"
            )
        module = sections.module(name)
        judge = getattr(module, "differences", differences)
        result.differences[name] = judge(before["entries"], after["entries"], options)
    return result


def differences(
    old: Entries, new: Entries, options: argparse.Namespace
) -> list[Difference]:
    """List the entries that are missing, new or different in some field."""
    changes = [Difference(f"{key}: missing now") for key in old if key not in new]
    changes += [Difference(f"{key}: new") for key in new if key not in old]
    for key in old.keys() & new.keys():
        for name in sorted(old[key].keys() | new[key].keys()):
            before, after = old[key].get(name), new[key].get(name)
            if before != after:
                text = f"{key}: {name}: {before} before, {after} now"
                reworded = name in TEXTS and options.reworded
                changes.append(Difference(text, allowed=reworded))
    return sorted(changes, key=lambda change: change.text)
