"""The loops of a source, and the loop turn in which an access happened.

The module finds the loops of CUDA C and Python sources by line. It then derives the
turn of an access from the barriers that its block has left.

The two accesses of a race happen between the same barriers, and often in two turns of a
loop. One thread still reads data of the previous turn, while another thread writes data
for the next turn. If every turn has a barrier, visits to the barrier count the turns.
Code below the last barrier belongs to that barrier's turn, and code above it to the
next turn.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..csource.scanner import BLANK, RewriteError, ScannedText, blank_directives

_BRANCH = re.compile(r"\s*(?:if|else|for|while|do|switch|case|default|return)\b")
_BARRIER = re.compile(r"\b__syncthreads\w*")
_WORDS = re.compile(r"\b(for|while|do)\b")


def find_cuda_loops(source: str, first: int = 1) -> list[SourceLoop]:
    """Find the loops of a CUDA C text whose first line has the number `first`.

    Loops without braces are skipped: they cannot contain a barrier and an access.
    """
    text = ScannedText(source, "")
    spans = []
    for word in _WORDS.finditer(text.code):
        with contextlib.suppress(RewriteError):
            spans.append(_find_span(text, word))
    return _nest_loops(text, first, [span for span in spans if span])


def _find_span(text: ScannedText, word: re.Match[str]) -> tuple[int, int, int] | None:
    """Return the offsets of a loop's start and braces; None if it has no braces."""
    at = text.skip(word.end())
    if word[1] != "do":
        if text.code[at : at + 1] != "(":
            return None
        at = text.skip(text.close(at) + 1)
    if text.code[at : at + 1] != "{":
        return None
    return word.start(), at, text.close(at)


def _nest_loops(
    text: ScannedText, first: int, spans: list[tuple[int, int, int]]
) -> list[SourceLoop]:
    code = blank_directives(text.code.replace(BLANK, " "))
    barriers = [mark.start() for mark in _BARRIER.finditer(code)]
    loops: list[SourceLoop] = []
    ends: list[tuple[int, SourceLoop]] = []  # the end of each open loop, and the loop
    for start, brace, end in spans:
        while ends and ends[-1][0] < start:
            ends.pop()
        lines = [first + code.count("\n", 0, at) for at in (start, brace, end)]
        once_lines = _list_lines_once(code[brace + 1 : end], lines[1])
        waits = once_lines & {first + code.count("\n", 0, at) for at in barriers}
        outer = ends[-1][1] if ends else None
        loops.append(SourceLoop(lines[0], lines[2], once_lines, waits, outer))
        ends.append((end, loops[-1]))
    return loops


def _list_lines_once(body: str, line: int) -> frozenset[int]:
    """List the lines that each turn runs once. line: number of the first line."""
    if re.search(r"\b(?:continue|goto)\b", body):
        return frozenset()
    numbers: set[int] = set()
    start = depth = 0
    for mark in re.finditer(r"[;{}()]", body):
        depth += (mark[0] in "{(") - (mark[0] in "})")
        if depth or mark[0] in "(){":
            continue
        statement = body[start : mark.start()]
        if not _BRANCH.match(statement) and "{" not in statement:
            offset = start + len(statement) - len(statement.lstrip())
            ends = [line + body.count("\n", 0, at) for at in (offset, mark.start())]
            numbers.update(range(ends[0], ends[1] + 1))
        start = mark.end()
    return frozenset(numbers)


NOUNS = {"reads": "read", "writes": "write", "updates": "update"}
_RACE = re.compile(
    r"(?P<one>.*? (?P<does>reads|writes|updates) .*?) while "
    r"(?P<other>thread .*? (?P<did>reads|writes|updates) it.*?): "
    r"(?P<missing>no barrier between .*?)(?P<rest> \(.*\))?"
)


@dataclass(frozen=True)
class SourceLoop:
    """A loop of a source. first, last: its first and last line, including the head.

    once: lines that each turn runs exactly once. waits: those lines of `once` that call
    a function with a barrier's name. outer: the enclosing loop.
    """

    first: int
    last: int
    once: frozenset[int]
    waits: frozenset[int]
    outer: SourceLoop | None = None

    def __contains__(self, line: int) -> bool:
        return self.first <= line <= self.last


@dataclass
class Barriers:
    """The barriers that a block has left, by line.

    last: line of the last barrier; 0: none yet. visits: number of times that each
    barrier was left. before: for each barrier, `visits` when it was last left.
    """

    last: int = 0
    visits: Mapping[int, int] = field(default_factory=dict)
    before: Mapping[int, Mapping[int, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Sequence[int]) -> Barriers:
        """Return the record of a block that left barriers at these lines in order."""
        visits: dict[int, int] = {}
        before: dict[int, Mapping[int, int]] = {}
        for line in lines:
            visits[line] = visits.get(line, 0) + 1
            before[line] = dict(visits)
        return cls(lines[-1] if lines else 0, visits, before)


@dataclass(frozen=True)
class Turns:
    """The line of a loop and the turns of two accesses in it, counted from 1."""

    loop: int
    one: int
    other: int


def find_turns(
    loops: Sequence[SourceLoop], barriers: Barriers, line: int, other_line: int
) -> Turns | None:
    """Return the turns of two accesses between the same barriers; None if unknown."""
    around = [loop for loop in loops if line in loop and other_line in loop]
    for loop in sorted(around, key=lambda loop: loop.last - loop.first):
        counting = min(loop.once & barriers.visits.keys() or loop.waits, default=0)
        if not counting:
            continue
        at = loop, loops, barriers, counting
        one, other = _turn(*at, line), _turn(*at, other_line)
        return Turns(loop.first, one, other) if one and other else None
    return None


def _turn(
    loop: SourceLoop,
    loops: Sequence[SourceLoop],
    barriers: Barriers,
    counting: int,
    line: int,
) -> int:
    """Return the turn in which a line runs next; 0 if unknown.

    counting: the line of a barrier that each turn reaches once.
    """
    outer, last, visited = loop.outer, barriers.last, barriers.visits.keys()
    if outer and all(n in loop for n in outer.waits | outer.once & visited):
        return 0  # the start of the outer loop's next turn is unknown
    if last not in loop:
        return int(line < counting)
    inner = [other for other in loops if other.first in loop and other is not loop]
    if line == last or any(line in other and last in other for other in inner):
        return 0  # the line may run in this turn, the next, or an inner loop's
    before = [at for n, at in barriers.before.items() if n not in loop]
    turns = barriers.visits.get(counting, 0)
    turns -= max((at.get(counting, 0) for at in before), default=0)
    turns += counting > last  # the block has yet to reach this turn's barrier
    return turns + (line < last)


def add_turns(text: str, turns: Turns) -> str:
    """Insert the turns of a race's two accesses into the sentence about the race."""
    race = _RACE.fullmatch(text)
    if race is None:
        return text
    one, other, missing = race["one"], race["other"], race["missing"]
    loop = f"of the loop at line {turns.loop}"
    if turns.one == turns.other:
        sentence = f"{one} while {other}, both in turn {turns.one} {loop}: {missing}"
        return f"{sentence}{race['rest'] or ''}"
    sides = [(turns.one, race["does"]), (turns.other, race["did"])]
    (_, former), (_, latter) = sorted(sides, key=lambda side: side[0])
    comma = "," if " at line " in one else ""
    return (
        f"{one}{comma} in turn {turns.one} {loop}{comma} while {other}{comma} in turn "
        f"{turns.other}: no barrier between the {NOUNS[former]} and the next turn's "
        f"{NOUNS[latter]}{race['rest'] or ''}"
    )


@functools.lru_cache(maxsize=64)  # called for every race of a launch
def find_python_loops(tree: ast.AST) -> tuple[SourceLoop, ...]:
    """List the loops of a Python function. The result is cached by tree."""
    return tuple(_loops_below(tree, None))


def _loops_below(node: ast.AST, outer: SourceLoop | None) -> Iterator[SourceLoop]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.For, ast.While)):
            once_lines = _list_once(child)
            waits = {n.lineno for n in ast.walk(child) if _is_barrier(n)}
            ends = child.lineno, child.end_lineno or child.lineno
            loop = SourceLoop(*ends, once_lines, once_lines & waits, outer)
            yield loop
            yield from _loops_below(child, loop)
        else:
            yield from _loops_below(child, outer)


def _is_barrier(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name.startswith("syncthreads")


def _list_once(loop: ast.For | ast.While) -> frozenset[int]:
    """Return the lines of the simple statements directly in the loop's body."""
    if any(isinstance(node, ast.Continue) for node in ast.walk(loop)):
        return frozenset()
    simple = ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign
    lines: set[int] = set()
    for statement in loop.body:
        if isinstance(statement, simple):
            last = statement.end_lineno or statement.lineno
            lines.update(range(statement.lineno, last + 1))
    return frozenset(lines)
