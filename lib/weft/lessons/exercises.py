"""The check below an exercise of a lesson, and matrices for an exercise to multiply.

An answer is a Python function, or a C function in a separate file (see from_c()). A
fault in C ends the process, so C is checked in a child process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import io
import multiprocessing
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import message_first, refuse_unsolved
from ..cells.cpu import watched
from ..cells.module import Kernel
from ..cells.trial_launches import rehearsals
from .progress import remember_exercise

_random = np.random.default_rng(0)


def product(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return c (m,n), all NaN, and random a (m,k) and b (k,n), in float32."""
    shapes = (m, k), (k, n)
    a, b = (_random.standard_normal(shape).astype(np.float32) for shape in shapes)
    return np.full((m, n), np.nan, np.float32), a, b


def close(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether c is a @ b within float32's rounding, for any order of the sums.

    The bound for k products is 1.01 k 2^-24 (|a| @ |b|) (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1).
    """
    exact = a.astype(np.float64) @ b
    bound = 1.01 * a.shape[1] * 2**-24 * (abs(a).astype(np.float64) @ abs(b))
    return bool((abs(c - exact) <= bound).all())


SECONDS = 20  # time limit for a check of C, which may loop forever
NOT_SOLVED = "not solved yet"  # the text of #error in a C stub


def exercise(answer: Callable[..., Any], check: Callable[[Any], None]) -> None:
    """Run check(answer) and print the result.

    If the answer raises NotImplementedError, it is not solved yet, and the notebook
    continues; under WEFT_GRADE=1, NotSolved is raised. A wrong answer raises the
    check's error, whose message is shown first. An answer is also wrong if its numbers
    are right but its launches have findings. Before each launch on a GPU, a cell's
    kernel runs watched on the CPU, since a fault on the GPU would end the process.
    """
    is_kernel = isinstance(answer, Kernel)
    guard = rehearsals(answer) if is_kernel else contextlib.nullcontext()
    try:
        with message_first(answer, check), guard, watched.gather() as findings:
            if isinstance(answer, FromC):
                _check_apart(answer, check)
            else:
                check(answer)
            for first in findings:
                where = f"line {first.line}: " if first.line else ""
                luck = "the numbers are right this time, but only by luck"
                raise AssertionError(f"{answer.__name__}: {luck}: {where}{first.text}")
    except NotImplementedError:
        refuse_unsolved(f"{answer.__name__}: {NOT_SOLVED}")
    else:
        remember_exercise(answer.__name__)
        print(f"{answer.__name__}: solved")


class FromC:
    """A C function, compiled when it is first called; see from_c()."""

    def __init__(self, path: Path, declaration: str):
        self.path, self.declaration = path, declaration
        self.__name__ = re.search(r"(\w+)\s*\(", declaration)[1]

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)

    @functools.cached_property
    def function(self) -> Any:
        from cffi import FFI

        ffi = FFI()
        ffi.cdef(self.declaration + ";")
        # A new folder each time, because dlopen() returns old code for a known path.
        with tempfile.TemporaryDirectory(prefix="weft_") as folder:
            library = f"{folder}/lib{self.__name__}.so"
            _compile_library(self.path, library)
            self._library = ffi.dlopen(library)  # keep the library open
        return getattr(self._library, self.__name__)


def from_c(path: str | Path, declaration: str) -> FromC:
    """Return the function that a C file defines, for exercise().

    declaration: in cffi's syntax, such as "void swap(float *a, float *b)". If the file
    contains `#error not solved yet`, a call raises NotImplementedError. If it does
    not compile, a call raises RuntimeError with the compiler's messages.
    """
    return FromC(Path(path), declaration)


def _compile_library(path: Path, library: str) -> None:
    """Compile a C file into a library, and print the compiler's warnings."""
    command = [os.environ.get("CC", "gcc"), "-Wall", "-Wextra", "-O2", "-shared"]
    command += ["-fPIC", str(path), "-o", library]
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode and NOT_SOLVED in done.stderr:
        raise NotImplementedError
    if done.returncode:
        raise RuntimeError(f"the compiler refused it:\n{done.stderr}")
    print(done.stderr, end="")


def _check_apart(answer: FromC, check: Callable[[Any], None]) -> None:
    """Run check(answer) in a child process; print its output and raise its error."""
    answer.function  # noqa: B018  compiles here, to show warnings
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_run_check, args=(answer, check, theirs))
    child.start()
    theirs.close()
    try:
        if not ours.poll(SECONDS):
            raise AssertionError(f"{answer.__name__}: still running after {SECONDS} s")
        printed, error = ours.recv()
    except EOFError:
        child.join()
        name = signal.Signals(-child.exitcode).name
        raise AssertionError(
            f"{answer.__name__} was ended by {name}: did it leave its arrays?"
        ) from None
    finally:
        child.kill()
        child.join()
    print(printed, end="")
    if error is not None:
        raise error


def _run_check(
    answer: FromC, check: Callable[[Any], None], results: Connection
) -> None:
    faulthandler.disable()  # the parent reports a fault more briefly
    printed, failed = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(printed):
            check(answer)
    except Exception as error:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        failed = AssertionError(f"{kind}{error}")
    results.send((printed.getvalue(), failed))
