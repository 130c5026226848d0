"""What a puzzle's parts look like: a program's text, the verdict of a right answer."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..figures.highlight import highlighted

if TYPE_CHECKING:
    from ..check import Verdict
    from .cloth import Cloth
    from .progress import Progress
    from .puzzle import Puzzle
    from .score import Score


@dataclass(frozen=True)
class Code:
    """A program's text that shows itself in colour."""

    text: str
    language: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return highlighted(self.text, self.language)


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
