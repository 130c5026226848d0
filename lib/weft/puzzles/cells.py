"""The cells of a notebook that puzzles become; lessons.py puts them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import nbformat
from nbformat import NotebookNode

from .groups import GROUPS, LessonError, load
from .puzzle import Puzzle

TAG = "puzzle"  # of every cell made here: `make notebooks` writes them anew


def make_cells(words: Iterable[str], answered: bool) -> list[NotebookNode]:
    """The cells of puzzles; answered: with the answers, not with the stubs.

    words: names of puzzles or of groups. Raises LessonError for one that is neither.
    """
    names = [name for word in words for name in _find_puzzles(word)]
    return [cell for name in names for cell in _puzzle_cells(load(name), answered)]


def _find_puzzles(word: str) -> tuple[str, ...]:
    """The puzzles that a word names."""
    known = {name: (name,) for names in GROUPS.values() for name in names} | GROUPS
    if word not in known:
        raise LessonError(f"no puzzles {word!r}; there are {', '.join(known)}")
    return known[word]


def _puzzle_cells(puzzle: Puzzle, answered: bool) -> Iterator[NotebookNode]:
    """One puzzle: what is asked, the goal, the answer, its check, help."""
    name, kernel = puzzle.name, puzzle.kernel_name
    yield _make_cell(name, "asked", describe_puzzle(puzzle))
    yield _make_cell(name, "goal", f"puzzles.{name}.goal()", code=True)
    text = puzzle.solved_text if answered else puzzle.stub
    yield _make_cell(name, "answer", text, code=True)
    yield _make_cell(name, "check", f"puzzles.{name}.check({kernel})", code=True)
    yield _make_cell(name, "help", help_for(puzzle))


def describe_puzzle(puzzle: Puzzle) -> str:
    """What is asked, in words and as NumPy."""
    return f"### {puzzle.title}\n\n{puzzle.text}\n\n{_fence_code(puzzle.spec_text)}"


def help_for(puzzle: Puzzle) -> str:
    """What is folded away: the hints, each inside the one before, how to see what an
    answer does, the stub in CUDA C, and the answer."""
    hints = ""
    for number, hint in reversed(list(enumerate(puzzle.hints))):
        title = "Another hint" if number else "Hint"
        hints = _fold_text(title, f"{hint}\n\n{hints}".rstrip())
    answer = _fence_code(puzzle.solved_text)
    call = f"puzzles.{puzzle.name}.show({puzzle.kernel_name})"
    parts = [hints, _fold_text("A picture of what your answer does", _fence_code(call))]
    if puzzle.is_kernel:
        in_c = f"%%cuda\n{puzzle.cuda_c_stub}"
        parts.append(_fold_text("The stub in CUDA C", _fence_code(in_c, "c")))
        answer += "\n\n" + _fold_text(
            "In CUDA C", _fence_code(puzzle.cuda_c_answer, "c")
        )
    parts.append(_fold_text("Answer", answer))
    return "\n".join(parts)


def _fold_text(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{inside}\n</details>"


def _fence_code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def _make_cell(name: str, part: str, text: str, code: bool = False) -> NotebookNode:
    """A cell with the tag and with an id that stays the same."""
    make = nbformat.v4.new_code_cell if code else nbformat.v4.new_markdown_cell
    made = make(text, id=f"puzzle-{name.replace('_', '-')}-{part}")
    made.metadata["tags"] = [TAG]
    return made
