"""python -m weft grade: grade a submitted notebook with the lab's own checks.

weft grade alice_02a_shared_memory.ipynb --json alice.json
weft grade submission.ipynb --gradescope results.json
weft grade --nbgrader 02a_shared_memory release.ipynb   write nbgrader's assignment
weft grade --otter 02a_shared_memory 02a.ipynb          a notebook for otter

lessons/grading.py also starts this module as the process in which answers run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base import store
from ..base.errors import ArgumentError, NotSolved
from ..base.text import count_things
from ..lessons import grading
from ..lessons.grading import MEMORY, SECONDS, SOLVED, STOPPED, UNSOLVED, WRONG, grade

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft grade`."""
    add = parser.add_argument
    add("notebook", nargs="?", metavar="NOTEBOOK", help="the submitted notebook")
    add("--student", default="", help="the name; default: from the file's name")
    add("--points", metavar="FILE", help='points as JSON: {"reverse_blocks": 3}')
    limit = "limit of an answer (default: %(default)g)"
    add("--seconds", type=float, default=SECONDS, help=f"time {limit}")
    add("--memory", type=float, default=MEMORY, metavar="GB", help=f"memory {limit}")
    add("--json", metavar="PATH", help="write the grade, which `weft class` reads")
    add("--gradescope", metavar="PATH", help="write Gradescope's results.json")
    pair = {"nargs": 2, "metavar": ("LESSON", "PATH")}
    add("--nbgrader", help="write a lesson as an assignment for nbgrader", **pair)
    add("--otter", help="write a lesson for `otter assign`", **pair)


def main(args: argparse.Namespace) -> int:
    """Grade, or write an assignment; return the exit status."""
    points = _read_points(args.points) if args.points else {}
    for pair, write_notebook in (
        (args.nbgrader, grading.write_assignment),
        (args.otter, grading.write_otter),
    ):
        if pair:
            name, path = pair
            tasks = write_notebook(name, Path(path), points)
            print(f"{path}: {tasks} tasks of {name}")
            return 0
    if not args.notebook:
        options = "--nbgrader LESSON PATH or --otter LESSON PATH"
        raise ArgumentError(f"expected a notebook to grade, {options}")
    result = grade(
        args.notebook,
        **{"student": args.student, "points": points},
        **{"seconds": args.seconds, "memory": args.memory},
    )
    print(result)
    if args.json:
        store.write(Path(args.json), json.dumps(result.json(), indent=1) + "\n")
    if args.gradescope:
        text = json.dumps(result.gradescope(), indent=1)
        store.write(Path(args.gradescope), text + "\n")
    return 0


def _read_points(path: str) -> dict[str, float]:
    try:
        points = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--points {path}: {error}") from None
    numbers = isinstance(points, dict) and all(
        isinstance(value, (int, float)) and value >= 0 for value in points.values()
    )
    if not numbers:
        raise ArgumentError(f'--points {path}: expected {{"task": number, ...}}')
    return points


# ---- the process in which submitted answers run --------------------------------------

# Packages whose functions an answer must not replace.
GUARDED = ("weft", "numpy", "builtins")
FILE_BYTES = 64 << 20  # maximum size of a file that an answer writes


def run_answers() -> None:
    """Run the answers whose jobs stdin describes, and write a line of JSON for each.

    The process reads its jobs as JSON. It imports the lab once. Each answer runs in a
    fork with its own limits.
    """
    # Imported lazily: the command itself needs no IPython, whose import is slow.
    from IPython.core.interactiveshell import InteractiveShell

    # Imported lazily: the module of %%cuda imports IPython too.
    from . import magic

    request = json.load(sys.stdin)
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    magic.register(shell)  # defines %%cuda
    shell.run_cell("from utils import *", silent=True)
    for job in request["jobs"]:
        start = time.monotonic()
        result = run_apart(shell, job, request["seconds"], request["memory"])
        took = round(time.monotonic() - start, 2)
        print(json.dumps({"number": job["number"], "seconds": took, **result}))
        sys.stdout.flush()


def run_apart(
    shell: InteractiveShell, job: Mapping[str, Any], seconds: float, memory: float
) -> dict[str, str]:
    """Run a job in a fork and return its verdict and text."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receive)
        _become_answer(shell, job, seconds, memory, send)
    os.close(send)
    try:
        data = _receive(receive, seconds)
    except TimeoutError:
        return {"verdict": STOPPED, "text": f"still running after {seconds:g} s"}
    finally:
        os.close(receive)
        status = _end(child)
    if data:
        return json.loads(data)
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return {"verdict": STOPPED, "text": f"{name} ended its process"}
    code = os.waitstatus_to_exitcode(status)
    return {"verdict": STOPPED, "text": f"it ended its process with status {code}"}


def _receive(source: int, seconds: float) -> bytes:
    """Return all bytes until the sender closes; raise TimeoutError after `seconds`."""
    end, data = time.monotonic() + seconds, b""
    while True:
        ready, _, _ = select.select([source], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(source, 1 << 16)
        if not part:
            return data
        data += part


def _end(child: int) -> int:
    """End an answer's processes; return the exit status of the first one."""
    for _ in range(2):  # at first, the child may have no group yet
        try:
            os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            time.sleep(0.01)
    return os.waitpid(child, 0)[1]


def _become_answer(
    shell: InteractiveShell, job: Mapping[str, Any], seconds: float, memory: float,
    send: int,
) -> None:  # fmt: skip
    """Run a job in this fork, send its result, and end the process."""
    os.setsid()
    log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    limit = _count_own_bytes() + int(memory * 1e9)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    verdict, text = _judge(shell, job)
    os.write(send, json.dumps({"verdict": verdict, "text": text}).encode())
    os._exit(0)


def _count_own_bytes() -> int:
    """Return the size in bytes of this process's writable private memory."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmData:")[1].split()[0])


def _judge(shell: InteractiveShell, job: Mapping[str, Any]) -> tuple[str, str]:
    for source in job["needed"]:
        error = _run(shell, source)
        if error is not None:
            return STOPPED, f"the lesson's own cell failed: {_describe(error)}"
    before, guarded = dict(shell.user_ns), list_guarded()
    error = _run(shell, job["answer"])
    if replaced := find_replaced(guarded):
        return WRONG, f"it replaces {', '.join(replaced[:3])}"
    if isinstance(error, (NotImplementedError, NotSolved)):
        return UNSOLVED, ""
    if error is not None:
        return WRONG, _describe(error)
    _restore(shell.user_ns, before, job)
    error = _run(shell, job["check"])
    if isinstance(error, NotSolved):
        return UNSOLVED, ""
    if error is not None:
        return WRONG, _describe(error)
    return SOLVED, _describe_counts(shell.user_ns.get("_"))


def _run(shell: InteractiveShell, source: str) -> BaseException | None:
    """Run a cell and return its error; its value is then shell.user_ns["_"]."""
    result = shell.run_cell(source, store_history=False)
    shell.user_ns["_"] = result.result
    return result.error_before_exec or result.error_in_exec


def _restore(
    current: dict[str, Any], before: Mapping[str, Any], job: Mapping[str, Any]
) -> None:
    """Restore the values of the lab's names, except names that the answer defines."""
    own = {*job["assigned"]}
    for name, value in before.items():
        if name not in own:
            current[name] = value
    for name in {*job["used"]} - own - before.keys():
        current.pop(name, None)  # Python itself may define the name, such as all()


def _describe(error: BaseException) -> str:
    """Return an error as one line: usually its kind, then its message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    if isinstance(error, MemoryError):
        return f"out of memory: {lines[0] if lines else kind}"
    text = " ".join(lines[:2])[:400]
    if isinstance(error, AssertionError) and text:
        return text
    return f"{kind}: {text}" if text else kind


def _describe_counts(solved: Any) -> str:
    """Describe how many of a puzzle's counts exceed those of the best known answer."""
    rows = getattr(getattr(solved, "score", None), "rows", ())
    worse = [row for row in rows if row.worse]
    return f"{count_things(len(worse), 'count')} above the best known" if worse else ""


# ---- guarded functions -------------------------------------------------------------


def list_guarded() -> dict[tuple[str, str], int]:
    """Return the identities of the functions and classes of guarded packages."""
    known = {}
    for module_name, module in list(sys.modules.items()):
        if module is None or module_name.split(".")[0] not in GUARDED:
            continue
        for name, value in list(vars(module).items()):
            if callable(value):
                known[module_name, name] = id(value)
            if isinstance(value, type) and value.__module__.startswith("weft"):
                for attribute, method in list(vars(value).items()):
                    if callable(method):
                        key = module_name, f"{name}.{attribute}"
                        known[key] = id(method)
    return known


def find_replaced(before: Mapping[tuple[str, str], int]) -> list[str]:
    """Return the functions that differ from those in list_guarded()."""
    now = list_guarded()
    changed = [key for key, value in before.items() if now.get(key) != value]
    return sorted({f"{module}.{name}" for module, name in changed})


if __name__ == "__main__":
    run_answers()
