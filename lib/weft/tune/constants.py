"""A constant's value put into CUDA C, wherever the source defines it.

    enum { BM = 128, BN = 128 };    #define TILE 16    constexpr int STAGES = 4;

The value is replaced where it stands, so that a kernel is tuned as it is. A name that
the source uses and does not define becomes -DNAME=value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..base.errors import ArgumentError
from ..csource import signature

_OPEN, _CLOSE = "([{", ")]}"


def with_values(
    source: str, constants: Mapping[str, Any], elsewhere: str = ""
) -> tuple[str, list[str]]:
    """The source with these values, and flags for names that it does not define.

    elsewhere: the text of headers, which may use a name too. Raises ArgumentError for
    a constant that nothing depends on.
    """
    code = signature.blank_comments(source)
    spans: list[tuple[int, int, str]] = []
    flags = []
    for name, value in constants.items():
        text = str(int(value)) if isinstance(value, bool) else str(value)
        found = list(_find_definitions(code, name))
        used = len(re.findall(rf"\b{name}\b", code)) - len(found)
        if used <= 0 and not re.search(rf"\b{name}\b", elsewhere):
            raise ArgumentError(_describe_unused(code, name, bool(found)))
        spans += [(start, end, text) for start, end in found]
        flags += [] if found else [f"-D{name}={text}"]
    for start, end, text in sorted(spans, reverse=True):
        source = source[:start] + text + source[end:]
    return source, flags


def _find_definitions(code: str, name: str) -> Iterator[tuple[int, int]]:
    """Where the values of a constant stand."""
    macro = rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+(\S[^\n]*?)[ \t]*$"
    for match in re.finditer(macro, code, re.M):
        yield match.span(1)
    for match in re.finditer(rf"\b{name}\s*=(?!=)\s*", code):
        before = code[: match.start()]
        enum = _inside_enum(before)
        declared = re.search(r"\bconst(?:expr)?\b[^;{}()]*$", before)
        if enum or declared:
            end = _end(code, match.end())
            yield match.end(), match.end() + len(code[match.end() : end].rstrip())


def _inside_enum(before: str) -> bool:
    """Whether the text ends between the braces of an enum."""
    opened = before.rfind("{")
    if opened < 0 or "}" in before[opened:] or ";" in before[opened:]:
        return False
    return bool(re.search(r"\benum\b[\w\s:]*$", before[:opened]))


def _end(code: str, start: int) -> int:
    """Where an expression ends: before a comma, a semicolon or a bracket outside it."""
    depth = 0
    for i in range(start, len(code)):
        if code[i] in _OPEN:
            depth += 1
        elif code[i] in _CLOSE:
            depth -= 1
        if depth < 0 or (depth == 0 and code[i] in ",;"):
            return i
    return len(code)


def _describe_unused(code: str, name: str, defined: bool) -> str:
    if defined:
        return f"{name} is defined in the source, and nothing depends on it"
    words = set(re.findall(r"[A-Za-z_]\w*", code))
    near = difflib.get_close_matches(name, words, 1, 0.6)
    hint = f": did you mean {near[0]}?" if near else ""
    return f"the source does not use the constant {name}{hint}"
