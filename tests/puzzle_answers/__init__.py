"""Right and wrong answers to the puzzles, with a file for each: threads/map.py, ...

    @right("guards")                    another style than the published answer
    @right("dot", taught=True)          one that a lesson or a hint teaches
    @wrong("guards", says="guard")      plausible; its refusal matches `says`
    right_c("guards", "...")            the same in CUDA C; similarly, wrong_c

test_puzzles.py checks all of them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weft import load_cuda


@dataclass(eq=False)
class Case:
    """An answer. given: a Python function, or CUDA C as a text. says: a pattern for a
    wrong answer's refusal; where: whether the refusal names an element or a thread.
    taught: whether a lesson or a hint teaches this method; if so, every score must
    allow it."""

    puzzle: str
    given: Any
    says: str = ""
    where: bool = True
    taught: bool = False

    @cached_property
    def answer(self) -> Any:
        """The argument of a puzzle's check(); the first use compiles C.

        A wrong answer in C is only for the CPU. There check() refuses it, but on a GPU
        it could end the whole process.
        """
        if not isinstance(self.given, str):
            return self.given
        target = "cpu" if self.says else None
        return load_cuda(self.given, target=target, name=str(self))

    @property
    def in_c(self) -> bool:
        return isinstance(self.given, str)

    def __str__(self) -> str:
        """The puzzle, the language and the kernel, as the name of a test."""
        if self.in_c:
            return f"{self.puzzle}-c-{_kernel(self.given)}"
        return f"{self.puzzle}-{self.given.__name__}"


RIGHT: list[Case] = []
WRONG: list[Case] = []


def right(puzzle: str, taught: bool = False) -> Callable[[Any], Any]:
    """Register a right answer in Python."""

    def register(function: Any) -> Any:
        RIGHT.append(Case(puzzle, function, taught=taught))
        return function

    return register


def wrong(puzzle: str, says: str, where: bool = True) -> Callable[[Any], Any]:
    """Register a wrong answer in Python; says: a regular expression."""

    def register(function: Any) -> Any:
        WRONG.append(Case(puzzle, function, says, where))
        return function

    return register


def right_c(puzzle: str, source: str) -> None:
    """Register a right answer in CUDA C."""
    RIGHT.append(Case(puzzle, source))


def wrong_c(puzzle: str, source: str, says: str, where: bool = True) -> None:
    """Register a wrong answer in CUDA C; says: a regular expression."""
    WRONG.append(Case(puzzle, source, says, where))


def _kernel(source: str) -> str:
    return re.search(r"__global__\s+void\s+(\w+)", source)[1]


for _path in sorted(Path(__file__).parent.glob("*/[a-z]*.py")):
    importlib.import_module(f".{_path.parent.name}.{_path.stem}", __name__)
