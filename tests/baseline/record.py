"""The file of a record: machine and sections, each written when it ends."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

from baseline import sections
from baseline.texts import ROOT, digest, short

FORMAT = 1
DETAILS = ROOT / "build" / "baseline"
Record = dict[str, Any]


def read(path: Path) -> Record:
    """Read a record; if the file is not one, raise a SystemExit that names it."""
    try:
        record = json.loads(path.read_text())
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']}, want {FORMAT}")
        return record
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{path} is no record of a baseline: {error}") from None


def add(path: Path, name: str, options: argparse.Namespace) -> None:
    """Record a section in the file, replacing an older one."""
    # Exercises that the baseline solves must not count as a reader's progress.
    os.environ["WEFT_SMALL"] = "1"
    print(f"baseline: {name} ...", flush=True)
    load, start = os.getloadavg()[0], time.perf_counter()
    entries = sections.module(name).record(options)
    seconds = time.perf_counter() - start
    DETAILS.mkdir(parents=True, exist_ok=True)
    details = json.dumps(entries, indent=1, sort_keys=True)
    (DETAILS / f"{name}.json").write_text(details + "\n")
    record = read(path) if path.exists() else {"format": FORMAT, "sections": {}}
    record["sections"][name] = {
        **{"commit": commit(), "date": datetime.date.today().isoformat()},
        **{"machine": machine(), "load": round(load, 2), "seconds": round(seconds, 1)},
        **{"digest": digest(entries), "entries": _shortened(entries, name)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(_text(record))
    os.replace(temporary, path)
    print(f"baseline: {name}: {len(entries)} entries, {seconds:.0f} s", flush=True)


def of_this_commit(path: Path) -> set[str]:
    """Return the sections recorded at this commit, if no file differs from it."""
    now = commit()
    if not path.exists() or now.endswith("+"):
        return set()
    recorded = read(path)["sections"]
    return {name for name, section in recorded.items() if section["commit"] == now}


def commit() -> str:
    """Return the checkout's commit, followed by "+" if files differ."""
    command = ["git", "describe", "--always", "--exclude=*", "--dirty=+"]
    process = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    return process.stdout.strip() or "unknown+"


def machine() -> str:
    """Return the processor, cores and compiler, on which bits and times depend."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(": ")[2] for line in lines if line[:10] == "model name"]
    compiler = subprocess.run(["g++", "-dumpfullversion"], text=True, capture_output=1)
    cores = len(os.sched_getaffinity(0))
    return f"{(models or ['?'])[0]}, {cores} cores, g++ {compiler.stdout.strip()}"


def _shortened(entries: Record, name: str) -> Record:
    """Replace long texts with hashes, unless the section's module sets WHOLE."""
    if getattr(sections.module(name), "WHOLE", False):
        return entries
    return {
        key: {field: short(value) for field, value in fields.items()}
        for key, fields in entries.items()
    }


def _text(record: Record) -> str:
    """Return JSON for a diff: one line per entry."""
    parts = []
    for name, section in record["sections"].items():
        head = {key: value for key, value in section.items() if key != "entries"}
        lines = ",\n    ".join(
            f"{json.dumps(key)}: {json.dumps(value)}"
            for key, value in sorted(section["entries"].items())
        )
        inner = json.dumps(head)[1:-1]
        parts.append(
            f'  {json.dumps(name)}: {{{inner},\n   "entries": {{\n    {lines}}}}}'
        )
    return f'{{"format": {FORMAT}, "sections": {{\n' + ",\n".join(parts) + "}}\n"
