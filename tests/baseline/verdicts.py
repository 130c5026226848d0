"""Puzzles: the verdict and the message on each answer, in Python and in CUDA C.

The answers are the published ones, and the right and wrong ones of the corpus.
"""

from __future__ import annotations

import argparse
import contextlib
import io
from collections.abc import Callable
from typing import Any

from baseline.corpora import RIGHT, WRONG
from baseline.texts import normalised
from tqdm import tqdm

from weft import cuda_c, puzzles


def record(options: argparse.Namespace) -> dict[str, Any]:
    """Return an entry for each answer: solved, not solved, or the error that refuses
    it."""
    entries: dict[str, Any] = {}
    for puzzle in tqdm(list(puzzles), "published answers", disable=None):
        entries[f"{puzzle.name} published"] = verdict(puzzle, lambda p=puzzle: p.answer)
        if puzzle.is_kernel:
            entries[f"{puzzle.name} published in C"] = verdict(
                puzzle, lambda p=puzzle: cuda_c(p.answer)
            )
    for case in tqdm([*RIGHT, *WRONG], "answers", disable=None):
        puzzle = puzzles[case.puzzle]
        entries[f"{case}"] = verdict(puzzle, lambda c=case: c.answer)
    return entries


def verdict(puzzle: Any, answer: Callable[[], Any]) -> dict[str, str]:
    """Compile an answer; return the verdict of the puzzle's check() on it."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            solved = puzzle.check(answer())
        except Exception as error:
            return {"verdict": type(error).__name__, "text": normalised(str(error))}
    if solved is None:
        return {"verdict": "not solved", "text": normalised(output.getvalue())}
    text = f"{solved.language}. {solved.verdict}. {solved.score}"
    return {"verdict": "solved", "text": normalised(text)}
