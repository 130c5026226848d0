"""What is said where an answer is refused or stops: a sentence, without a trace."""

from __future__ import annotations

import contextlib
import linecache
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..guarded import Mismatch
from ..native import KernelError

if TYPE_CHECKING:
    from .answers import Answer


CURE = re.compile(r"\s*usually cured by:")  # of report/text.py


@contextlib.contextmanager
def short_errors() -> Iterator[None]:
    """What a check refuses, as a puzzle says it.

    Without a cure, which may be the answer; and in a notebook without a traceback: the
    line that called it is the cell's own.
    """
    try:
        yield
    except (Mismatch, KernelError) as error:
        kept = (one for one in str(error).splitlines() if not CURE.match(one))
        error.args = ("\n".join(kept),)
        lines = f"\x1b[31m{type(error).__name__}: {error}\x1b[0m".splitlines()
        error._render_traceback_ = lambda: lines  # type: ignore[method-assign]
        raise


def stopped(given: Answer, error: Exception) -> Exception:
    """What Python itself raised inside an answer, as a refusal in one sentence."""
    notes = [n.removeprefix("check: ") for n in getattr(error, "__notes__", ())]
    when = " ".join(notes).replace(f" of {given.name} ", " ")
    said = f"{type(error).__name__}: {error}"
    return Mismatch(f"{given.name} stopped{_line(given, error)} {when}: {said}")


def _line(given: Answer, error: Exception) -> str:
    """The answer's own line at which it stopped."""
    code = getattr(given.function, "__code__", None)
    at, line = error.__traceback__, 0
    while at is not None:
        if code and at.tb_frame.f_code.co_filename == code.co_filename:
            line = at.tb_lineno
        at = at.tb_next
    text = linecache.getline(code.co_filename, line).strip() if line else ""
    return f" at `{text}`" if text else ""
