"""What a notebook shows of a puzzle: a program's text, the verdict of a right answer,
the picture of a wrong one."""

from __future__ import annotations

import contextlib
import html
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..base import ipython
from ..check.limit import time_limit
from ..report.highlight import highlight_text

DRAWING = 2.0  # seconds that the picture of a wrong answer may delay its error

if TYPE_CHECKING:
    from ..check import Verdict
    from .cloth import Cloth
    from .progress import Progress
    from .puzzle import Puzzle
    from .score import Score


def display_refused(puzzle: Puzzle, answer: Any) -> None:
    """In a notebook, the picture of an answer that was refused; its error follows.

    The error is what counts: whatever goes wrong with the picture is dropped, and so is
    what the answer prints once more.
    """
    if getattr(ipython.running_shell(), "kernel", None) is None:
        return  # a terminal has no room for pictures
    from IPython.display import publish_display_data

    with contextlib.suppress(Exception, KeyboardInterrupt):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), time_limit("a picture", DRAWING):
            shown = puzzle.show(answer)._repr_mimebundle_()
        publish_display_data(shown)


@dataclass(frozen=True)
class Code:
    """A program's text that shows itself in colour."""

    text: str
    language: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return highlight_text(self.text, self.language)


@dataclass(frozen=True)
class Solved:
    """That a puzzle is solved: in which language, how it was checked, its counts beside
    the best known answer's, the small delight, and what is solved by now."""

    puzzle: Puzzle
    language: str
    verdict: Verdict
    score: Score
    cloth: Cloth
    progress: Progress

    def __repr__(self) -> str:
        head = f"{self.puzzle.title}: solved in {self.language}. {self.verdict}."
        parts = (head, self.score, self.cloth, f"{self.progress.sentence}.")
        return "\n".join(text for text in map(str, parts) if text)

    def _repr_html_(self) -> str:
        title = html.escape(self.puzzle.title)
        head = (
            f"<div><b>{title}</b>: solved in {self.language}. "
            f"{self.verdict._repr_html_()}</div>"
        )
        counts = self.score._repr_html_()
        said = (
            f'<div style="opacity:.75;font-size:13px">'
            f"{html.escape(self.progress.sentence)}.</div>"
        )
        return head + counts + self.cloth._repr_html_() + said
