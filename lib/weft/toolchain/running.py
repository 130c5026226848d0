"""Running a compiler so that nothing of it is left, however that ends.

It gets a process group of its own: g++ is a driver, and who ends it alone leaves the
compiler proper at work. What goes wrong around it (it hangs, a signal ends it, the
disk is full) is a BuildError; what it says of a source is the caller's to read.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..base.errors import BuildError
from ..base.store import defer_interrupts
from .tools import cpu_flags

LIMIT = 600.0  # seconds; the slowest source of the lab takes 15
_FULL = "No space left on device", "Disk quota exceeded", "File too large"
_mine = threading.local()  # .crew: whose compilers this thread starts


def run(
    command: Sequence[str], stdin: str | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler to its end; returns what it said, and its exit status.

    folder: the one that it works in; None: the current one.
    Raises BuildError if it cannot be started, takes longer than WEFT_COMPILE_SECONDS
    (600), is ended by a signal, or finds the disk full. Ctrl-C ends it.
    """
    name, seconds = os.path.basename(command[0]), limit()
    crew, child = getattr(_mine, "crew", set()), None
    try:
        with defer_interrupts():  # else a compiler is at work that nobody knows of
            child = _start_compiler(command, stdin is not None, folder)
            crew.add(child)
        said, wrong = child.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise BuildError(
            f"{name} did not finish within {seconds:g} s and was ended "
            f"(WEFT_COMPILE_SECONDS sets another limit): {command[0]}"
        ) from None
    finally:
        if child:
            crew.discard(child)
            _end(child)
    wrong = wrong.encode(errors="surrogateescape").decode(errors="replace")
    done = subprocess.CompletedProcess(command, child.returncode, said, wrong)
    if done.returncode:
        _blame_the_machine(done, name)
    return done


def _start_compiler(
    command: Sequence[str], reads: bool, folder: Path | None
) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            **{"stdin": subprocess.PIPE if reads else subprocess.DEVNULL},
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
            # A file's name may hold any bytes.
            **{"encoding": "utf-8", "errors": "surrogateescape"},
            **{"process_group": 0, "env": _make_environment(), "cwd": folder},
            close_fds=False,  # so that Python may use vfork()
        )
    except OSError as error:
        raise BuildError(f"cannot start {command[0]}: {error.strerror}") from None


@contextlib.contextmanager
def make_pool() -> Iterator[concurrent.futures.Executor]:
    """Threads that run compilers, one per core; an error here ends those at work."""
    at_work: set[subprocess.Popen] = set()

    def enrol() -> None:
        _mine.crew = at_work

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count(), "", enrol) as pool:
        try:
            yield pool
        except BaseException:  # Ctrl-C, too: to wait for all of them takes a minute
            pool.shutdown(wait=False, cancel_futures=True)
            for child in list(at_work):
                _kill(child)
            raise


@functools.cache
def version_of(compiler: str) -> str:
    """What a compiler says of itself, and the machine that it compiles on."""
    done = run([compiler, "--version"])
    if done.returncode:
        raise BuildError(f"is {compiler} a compiler? {said_by(done)}")
    return done.stdout + os.uname().machine + cpu_flags()


def said_by(done: subprocess.CompletedProcess[str]) -> str:
    """What a compiler that failed said; where it said nothing, that."""
    name = os.path.basename(done.args[0])
    nothing = f"{name} failed with exit status {done.returncode} and said nothing"
    return (done.stderr or done.stdout).strip() or f"{nothing}: {done.args[0]}"


def limit() -> float:
    """Seconds that a compiler may take."""
    text = os.environ.get("WEFT_COMPILE_SECONDS") or str(LIMIT)
    with contextlib.suppress(ValueError):
        if float(text) > 0:
            return float(text)
    raise BuildError(f"WEFT_COMPILE_SECONDS is {text}, want seconds, more than 0")


def _make_environment() -> dict[str, str]:
    """Messages in English, which the lab reads, and letters as they are."""
    return {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": ""}


def _blame_the_machine(done: subprocess.CompletedProcess[str], name: str) -> None:
    """BuildError if it is not the source that the compiler failed on."""
    if full := next((words for words in _FULL if words in done.stderr), ""):
        temporary = os.environ.get("TMPDIR") or tempfile.gettempdir()
        raise BuildError(
            f"{name} cannot write what it compiles: {full}. Free some space in the "
            f"folder of the cache (weft cache says where) and in {temporary}, or set "
            f"WEFT_CACHE and TMPDIR to folders that have some"
        )
    if done.returncode < 0:
        ended = signal.Signals(-done.returncode).name
        raise BuildError(f"{name} was ended by {ended}: {done.args[0]}")


def _end(child: subprocess.Popen) -> None:
    """Nothing of it is left: neither a process nor a pipe."""
    if child.returncode is None:
        _kill(child)
        child.wait()
    for pipe in (child.stdin, child.stdout, child.stderr):
        with contextlib.suppress(OSError):  # it has not read all of its input
            if pipe:
                pipe.close()


def _kill(child: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
