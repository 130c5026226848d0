"""The cells of a notebook that puzzles become; lessons.py puts them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import nbformat
from nbformat import NotebookNode

from .groups import GROUPS, load
from .puzzle import Puzzle
from .stubs import LessonError

TAG = "puzzle"  # of every cell made here: `make notebooks` writes them anew


def cells(words: Iterable[str], answered: bool) -> list[NotebookNode]:
    """The cells of puzzles; answered: with the answers, not with the stubs.

    words: names of puzzles or of groups. Raises LessonError for one that is neither.
    """
    names = [name for word in words for name in _named(word)]
    return [cell for name in names for cell in _of(load(name), answered)]


def _named(word: str) -> tuple[str, ...]:
    """The puzzles that a word names."""
    known = {name: (name,) for names in GROUPS.values() for name in names} | GROUPS
    if word not in known:
        raise LessonError(f"no puzzles {word!r}; there are {', '.join(known)}")
    return known[word]


def _of(puzzle: Puzzle, answered: bool) -> Iterator[NotebookNode]:
    """One puzzle: what is asked, the goal, the answer, its check, help."""
    name, kernel = puzzle.name, puzzle.kernel_name
    yield _cell(name, "asked", asked(puzzle))
    yield _cell(name, "goal", f"puzzles.{name}.goal()", code=True)
    text = puzzle.solved_text if answered else puzzle.stub
    yield _cell(name, "answer", text, code=True)
    yield _cell(name, "check", f"puzzles.{name}.check({kernel})", code=True)
    yield _cell(name, "help", help_for(puzzle))


def asked(puzzle: Puzzle) -> str:
    """What is asked, in words and as NumPy."""
    return f"### {puzzle.title}\n\n{puzzle.text}\n\n{_fenced(puzzle.spec_text)}"


def help_for(puzzle: Puzzle) -> str:
    """What is folded away: the hints, each inside the one before, how to see what an
    answer does, the stub in CUDA C, and the answer."""
    hints = ""
    for number, hint in reversed(list(enumerate(puzzle.hints))):
        title = "Another hint" if number else "Hint"
        hints = _folded(title, f"{hint}\n\n{hints}".rstrip())
    answer = _fenced(puzzle.solved_text)
    call = f"puzzles.{puzzle.name}.show({puzzle.kernel_name})"
    parts = [hints, _folded("A picture of what your answer does", _fenced(call))]
    if puzzle.is_kernel:
        in_c = f"%%cuda\n{puzzle.cuda_c_stub}"
        parts.append(_folded("The stub in CUDA C", _fenced(in_c, "c")))
        answer += "\n\n" + _folded("In CUDA C", _fenced(puzzle.cuda_c_answer, "c"))
    parts.append(_folded("Answer", answer))
    return "\n".join(parts)


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{inside}\n</details>"


def _fenced(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


def _cell(name: str, part: str, text: str, code: bool = False) -> NotebookNode:
    """A cell with the tag and with an id that stays the same."""
    make = nbformat.v4.new_code_cell if code else nbformat.v4.new_markdown_cell
    made = make(text, id=f"puzzle-{name.replace('_', '-')}-{part}")
    made.metadata["tags"] = [TAG]
    return made
