"""python -m weft inspect: run a whole CUDA program on the CPU, watched.

The program runs as under `weft run`. However it ends, the command then writes a report
of its kernels' faults and costs to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..report.model import LISTINGS, ProgramReport
from ..report.raw import Files, program_report
from ..report.text import colour_report
from ..timing import machine
from . import run

USAGE = """\
usage: weft inspect PROG.cu [MORE.cu MORE.cpp MORE.c] [options] [-- ARGUMENTS]

Run a CUDA program on the CPU, about 20 times slower than `weft run`, and report the
faults of its kernels (accesses out of bounds, races, reads of unwritten memory,
deadlocks, ...) and the cost of each line. Sources, arguments and options are those
of `weft run`, and in addition:

  --json PATH     write findings and counters to PATH; - means stdout, after the
                  program's own output
  --listing WHICH show the costs of these lines: all, hot (the default) or none
  --order WHICH   order of threads and blocks: forward, reverse, shuffled, or a
                  seed > 1

The exit status is 1 if there are findings, and otherwise the program's own.
"""
LAUNCH = 0.7  # fraction of --timeout allowed for one launch
FOUND = 1  # exit status if there are findings


@dataclass
class InspectOptions:
    """The command-line options. json: path of the JSON report; "" for no report."""

    run: run.Options
    json: str = ""
    listing: str = "hot"


def parse(words: Sequence[str]) -> InspectOptions:
    """Parse the command line; raise ValueError if it is invalid."""
    words = list(words)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if words else sys.stderr)
        raise SystemExit(0 if words else 2)
    separator = words.index("--") if "--" in words else len(words)
    own, program_words = words[:separator], words[separator:]
    json_path = _take(own, "--json")
    listing = _take(own, "--listing") or "hot"
    if listing not in LISTINGS:
        raise ValueError(f"--listing {listing}: expected {', '.join(LISTINGS)}")
    order = _take(own, "--order")
    if order:
        own += ["--order", "2" if order == "shuffled" else order]
    if not own:
        raise ValueError("no program: expected a .cu file")
    options = run.parse([*own, *program_words])
    if options.build:
        raise ValueError("--build makes an unwatched program: use weft run")
    options.program.check = True
    return InspectOptions(options, json_path, listing)


def main(options: InspectOptions) -> int:
    """Build the program, run it, and print the report; return the exit status."""
    path = run.build_program(options.run)
    with tempfile.TemporaryDirectory(prefix="weft_inspect_") as folder:
        file = Path(folder) / "report.json"
        environment = {**os.environ, **options.run.environment}
        environment["WEFT_CHECK_REPORT"] = str(file)
        if limit := options.run.timeout:
            # A launch over this limit is reported before the program is stopped.
            environment["WEFT_RUN_LAUNCH_MS"] = str(int(LAUNCH * limit * 1000))
        sys.stdout.flush()
        words = run.program_words(options.run)
        status = run.run_child(path, words, environment, options.run.timeout)
        name = options.run.program.sources[0]
        report, fault = ProgramReport(name), ""
        # The file may be missing or incomplete.
        with contextlib.suppress(OSError, ValueError):
            raw = file.read_text(errors="replace")
            report = program_report(raw, Files(), name)
            fault = json.loads(raw)["library"]  # the program has already printed it
    report.listing, text = options.listing, report.text()
    if fault and report.ok:
        text = text.replace(
            "nothing wrong", f"nothing wrong in its kernels, but in {fault}", 1
        )
    if not report.kernels and report.ok:
        text = f"{name}: no kernel was seen: none ran, or the program ended early"
    print(colour_report(text) if sys.stderr.isatty() else text, file=sys.stderr)
    if status < 0 and not report.ok:  # otherwise, end_like() repeats the signal
        signal_name = signal.Signals(-status).name
        message = f"weft: the program itself was ended by {signal_name}"
        print(message, file=sys.stderr)
    if options.json:
        _write(options.json, report, status)
    return FOUND if not report.ok else run.end_like(status)


def _take(words: list[str], option: str) -> str:
    """Remove an option and return its value; "" if it is absent."""
    value, rest = "", list(words)
    words.clear()
    while rest:
        word = rest.pop(0)
        name, equals, argument = word.partition("=")
        if name != option:
            words.append(word)
        elif not equals and not rest:
            raise ValueError(f"{option} needs a value")
        else:
            value = argument if equals else rest.pop(0)
    return value


def _write(target: str, report: ProgramReport, status: int) -> None:
    record = {"machine": machine(), "program": report.program, "status": status}
    text = json.dumps(record | report.json(), indent=1)
    if target == "-":
        print(text)
    else:
        Path(target).write_text(text + "\n")
