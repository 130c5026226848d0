"""Run the examples of the page "Explain this error", and write their reports.

Each example runs when the site is built. If its finding or refusal is not of the kind
that its entry explains, the build fails.
"""

from __future__ import annotations

import contextlib
import html
import io
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import utils
import weft
from weft.report.model import Report

SECONDS = 600  # time limit of an example, which may compile a program


@dataclass(frozen=True)
class Entry:
    """An entry of the page. anchor: its place on the page, after "error-".

    cause, cure: Markdown. cell: the example in CUDA C. code: in Python; with a cell, it
    launches the cell's kernels. program: a whole program in CUDA C. shell: commands,
    which run in a folder with the program as prog.cu. error: the name of the exception;
    "" if the example only reports. finding: whether `anchor` is a kind of finding.
    options: of load_cuda().
    """

    anchor: str
    title: str
    cause: str
    cure: str
    cell: str = ""
    code: str = ""
    program: str = ""
    shell: str = ""
    error: str = ""
    finding: bool = False
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Outcome:
    """What an example produced: printed text, an exception, and a report."""

    printed: str = ""
    error: BaseException | None = None
    report: Report | None = None
    found: tuple[str, ...] = ()  # the kinds of the findings


class UnexpectedOutcome(Exception):
    """An example's outcome is not the one that its entry explains."""


def run(entry: Entry) -> Outcome:
    """Run an entry's example; raise UnexpectedOutcome if the outcome does not fit."""
    outcome = run_program(entry) if entry.shell else run_code(entry)
    error = type(outcome.error).__name__ if outcome.error else ""
    wanted = (entry.anchor,) if entry.finding else ()
    if (entry.error and error != entry.error) or not set(wanted) <= {*outcome.found}:
        raise UnexpectedOutcome(
            f"error-{entry.anchor}: {error or 'no exception'} {outcome.found}: "
            f"{outcome.error or outcome.printed}"
        )
    return outcome


def run_code(entry: Entry) -> Outcome:
    """Run the cell and the code in this process."""
    names = {name: getattr(utils, name) for name in utils.__all__}
    outcome = Outcome()
    before = weft.last_report()
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            if entry.cell:
                options = {"target": "cpu", "watched": True, **entry.options}
                module = weft.load_cuda(entry.cell, **options)
                kernels = re.findall(r"__global__ void\s+(\w+)", entry.cell)
                names |= {name: getattr(module, name) for name in kernels}
            execute(entry.code, f"<example {entry.anchor}>", names)
        except Exception as error:  # an example may raise any exception
            outcome.error = error
    outcome.printed = out.getvalue()
    reports = [getattr(outcome.error, "report", None)]
    if weft.last_report() is not before:
        reports.append(weft.last_report())
    outcome.report = next((r for r in reports if r is not None and r.findings), None)
    if outcome.report is not None:
        outcome.found = tuple(finding.kind for finding in outcome.report.findings)
    return outcome


def execute(code: str, name: str, names: dict[str, Any]) -> None:
    """Run Python code whose lines a report can show."""
    linecache.cache[name] = len(code), None, code.splitlines(keepends=True), name
    exec(compile(code, name, "exec"), names)


def run_program(entry: Entry) -> Outcome:
    """Run the shell commands of an entry in a folder with its program."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "prog.cu").write_text(entry.program)
        places = os.pathsep.join([str(weft.base.paths.LIB), str(weft.base.paths.ROOT)])
        command = re.sub(r"\bpython\b", sys.executable, entry.shell)
        report = Path(folder, "report.json")
        if "weft inspect" in command:
            command += f" --listing none --json {report}"
        process = subprocess.run(
            ["bash", "-c", command],
            **{"cwd": folder, "capture_output": True, "text": True},
            env=os.environ | {"PYTHONPATH": places, "NO_COLOR": "1"},
            timeout=SECONDS,
        )
        text = (process.stdout + process.stderr).replace(f"{folder}/", "")
        data = json.loads(report.read_text()) if report.exists() else {}
    # Addresses differ from run to run, and an unchanged page should stay the same.
    text = re.sub(r"\b0x[0-9a-f]{9,}\b", "0x...", text)
    lines = (line for line in text.splitlines() if not line.startswith("weft: build"))
    kinds = tuple(finding["kind"] for finding in data.get("findings", ()))
    return Outcome("\n".join(lines), found=kinds)


# ---- as HTML -------------------------------------------------------------------------


def write_source(entry: Entry) -> str:
    """Return the example as it was run, as Markdown."""
    blocks = []
    if entry.cell:
        blocks.append(f"```cuda\n{entry.cell.strip()}\n```")
    if entry.program:
        blocks.append(f"```cuda\n{entry.program.strip()}\n```")
    if entry.code:
        blocks.append(f"```python\n{entry.code.strip()}\n```")
    if entry.shell:
        blocks.append(f"```text\n$ {entry.shell}\n```")
    return "\n\n".join(blocks)


def write_outcome(outcome: Outcome) -> str:
    """Return the report, or the message, as a notebook shows it."""
    if outcome.report is not None:
        return outcome.report._repr_html_()
    text = outcome.printed.rstrip()
    if outcome.error is not None:
        message = f"{type(outcome.error).__name__}: {outcome.error}"
        text = f"{text}\n{message}".strip()
    return f'<pre class="message">{html.escape(text)}</pre>'
