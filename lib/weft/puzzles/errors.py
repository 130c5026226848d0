"""What is said where an answer is refused or stops: a sentence, without a trace."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from ..base.errors import KernelError, Mismatch
from ..base.text import count_things
from ..base.tracebacks import line_of, shorten

if TYPE_CHECKING:
    from .answers import Answer


PRINTED = 32  # lines of an answer's own prints; a check runs it many times
OPTIONS = re.compile(  # advice on options of check(), which a puzzle has not
    r", or (allow (it )?more(: numba_jit\(.*?\)| with timeout=( \(--timeout\))?)"
    r"|say with outputs= which parameters it writes into)"
)
UNWATCHED = "allow it more with timeout= (--timeout), or run it unwatched (--fast)"
CURE = re.compile(r"\s*usually cured by:")  # of report/text.py


@contextlib.contextmanager
def short_errors(answer: Any) -> Iterator[None]:
    """What a check refuses, as a puzzle says it.

    Without a cure, which may be the answer; and in a notebook without a traceback: the
    line that called it is the cell's own. So it is with what a reader interrupts.
    """
    function = getattr(answer, "function", answer)  # of sim(k), numba_jit(k)
    try:
        yield
    except (Mismatch, KernelError) as error:
        kept = (one for one in str(error).splitlines() if not CURE.match(one))
        said = OPTIONS.sub("", "\n".join(kept))
        error.args = (said.replace(UNWATCHED, "look for a loop that does not end"),)
        shorten(error, function)
        raise
    except KeyboardInterrupt as error:
        error.args = error.args or ("interrupted; nothing is lost, run it again",)
        shorten(error)
        raise


@contextlib.contextmanager
def few_prints(most: int = PRINTED) -> Iterator[None]:
    """Show the first lines that an answer prints, and say that there were more."""
    out = _FewLines(sys.stdout, most)
    with contextlib.redirect_stdout(out):  # type: ignore[type-var]
        try:
            yield
        finally:
            out.end()


class _FewLines:
    """A stream that drops what comes after its first lines."""

    def __init__(self, stream: TextIO, most: int) -> None:
        self._stream, self._left, self._dropped = stream, most, 0

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            if self._left:
                self._stream.write(line)
                self._left -= line.endswith("\n")
            else:
                self._dropped += line.endswith("\n")
        return len(text)

    def end(self) -> None:
        """Say how many lines are missing."""
        if self._dropped:
            lines = count_things(self._dropped, "line")
            self._stream.write(f"... and {lines} more: a check runs a kernel often\n")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def explain_stop(given: Answer, error: Exception) -> Exception:
    """What Python itself raised inside an answer, as a refusal in one sentence."""
    notes = [n.removeprefix("check: ") for n in getattr(error, "__notes__", ())]
    when = " ".join(notes).replace(f" of {given.name} ", " ")
    said = f"{type(error).__name__}: {error}"
    return Mismatch(f"{given.name} stopped{_find_line(given, error)} {when}: {said}")


def is_inside(given: Answer, error: Exception) -> bool:
    """Whether it was raised in the answer's own lines, or below them."""
    return bool(line_of(given.function, error)[1])


def _find_line(given: Answer, error: Exception) -> str:
    """The answer's own line at which it stopped."""
    _, text = line_of(given.function, error)
    return f" at `{text}`" if text else ""
