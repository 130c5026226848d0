"""What is said where an answer is refused or stops: a sentence, without a trace."""

from __future__ import annotations

import contextlib
import linecache
import re
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..guarded import Mismatch
from ..native import KernelError

if TYPE_CHECKING:
    from .answers import Answer


WIDE = 74  # letters of a line; more do not fit where a page is shown large
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
        lines = _shown(error)
        error._render_traceback_ = lambda: lines  # type: ignore[method-assign]
        raise


def _shown(error: Exception) -> list[str]:
    """The error's lines for a notebook, which would break them within a word."""
    lines = f"{type(error).__name__}: {error}".splitlines()
    parts = [
        part
        for line in lines
        for part in textwrap.wrap(line, WIDE, break_on_hyphens=False) or [""]
    ]
    return [f"\x1b[31m{part}\x1b[0m" for part in parts]


def stopped(given: Answer, error: Exception) -> Exception:
    """What Python itself raised inside an answer, as a refusal in one sentence."""
    notes = [n.removeprefix("check: ") for n in getattr(error, "__notes__", ())]
    when = " ".join(notes).replace(f" of {given.name} ", " ")
    said = f"{type(error).__name__}: {error}"
    return Mismatch(f"{given.name} stopped{_line(given, error)} {when}: {said}")


def is_inside(given: Answer, error: Exception) -> bool:
    """Whether it was raised in the answer's own lines, or below them."""
    return bool(_line(given, error))


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
