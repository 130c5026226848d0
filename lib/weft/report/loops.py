"""The loops of a source in CUDA C, by its lines."""

from __future__ import annotations

import re

from ..csource.scanner import BLANK, DIRECTIVE, RewriteError, Text
from .turns import Loop

_BRANCH = re.compile(r"\s*(?:if|else|for|while|do|switch|case|default|return)\b")
_BARRIER = re.compile(r"\b__syncthreads\w*")
_WORDS = re.compile(r"\b(for|while|do)\b")


def find_cuda_loops(source: str, first: int = 1) -> list[Loop]:
    """The loops of a text whose first line has that number; those alone whose bodies
    are in braces: a barrier and an access are two statements."""
    text = Text(source, "")
    spans = []
    for word in _WORDS.finditer(text.code):
        try:
            spans.append(_find_span(text, word))
        except RewriteError:
            continue
    return _nest_loops(text, first, [span for span in spans if span])


def _find_span(text: Text, word: re.Match[str]) -> tuple[int, int, int] | None:
    """Return where a loop begins and its body's braces; None if it has no braces."""
    at = text.skip(word.end())
    if word[1] != "do":
        if text.code[at : at + 1] != "(":
            return None
        at = text.skip(text.close(at, "(", ")") + 1)
    if text.code[at : at + 1] != "{":
        return None
    return word.start(), at, text.close(at, "{", "}")


def _nest_loops(
    text: Text, first: int, spans: list[tuple[int, int, int]]
) -> list[Loop]:
    code = DIRECTIVE.sub(_blank_comments, text.code.replace(BLANK, " "))
    barriers = [one.start() for one in _BARRIER.finditer(code)]
    loops: list[Loop] = []
    ends: list[tuple[int, Loop]] = []  # of the loops that are open
    for start, brace, end in spans:
        while ends and ends[-1][0] < start:
            ends.pop()
        lines = [first + code.count("\n", 0, at) for at in (start, brace, end)]
        once = _list_once(code[brace + 1 : end], lines[1])
        waits = once & {first + code.count("\n", 0, at) for at in barriers}
        outer = ends[-1][1] if ends else None
        loops.append(Loop(lines[0], lines[2], once, waits, outer))
        ends.append((end, loops[-1]))
    return loops


def _list_once(body: str, line: int) -> frozenset[int]:
    """The lines of what each turn runs once, in a body that begins at `line`."""
    if re.search(r"\b(?:continue|goto)\b", body):
        return frozenset()
    found: set[int] = set()
    start = depth = 0
    for mark in re.finditer(r"[;{}()]", body):
        depth += (mark[0] in "{(") - (mark[0] in "})")
        if depth or mark[0] in "(){":
            continue
        statement = body[start : mark.start()]
        if not _BRANCH.match(statement) and "{" not in statement:
            begin = start + len(statement) - len(statement.lstrip())
            ends = [line + body.count("\n", 0, at) for at in (begin, mark.start())]
            found.update(range(ends[0], ends[1] + 1))
        start = mark.end()
    return frozenset(found)


def _blank_comments(directive: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", directive[0])
