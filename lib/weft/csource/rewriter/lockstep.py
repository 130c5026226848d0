"""Warp-synchronous code of old: lanes that go on in step without a __syncwarp().

Kernels from before 2017 add the halves of a warp by

    volatile float *s = shared;
    s[i] += s[i + 32];
    s[i] += s[i + 16];

and count on all lanes reading before one writes. `volatile` is how they say it.
Such a statement becomes s[i] += simt::lockstep([&] { return s[i + 32]; }), which
has the lanes that are here together meet before the write and after it.
"""

from __future__ import annotations

import re

from ..scanner import RewriteError, Text, replace_spans

_POINTER = r"(?:\s|\*|\bconst\b|\b__restrict__\b)*\*(?:\s|\bconst\b|\b__restrict__\b)*"
_VOLATILE = re.compile(
    rf"\bvolatile\b[\w\s:]*{_POINTER}(?P<pointer>\w+)"
    r"|\b__shared__\b[\w\s]*\bvolatile\b[\w\s]*?\b(?P<after>\w+)\s*\["
    r"|\bvolatile\b[\w\s]*\b__shared__\b[\w\s]*?\b(?P<before>\w+)\s*\["
)
_CLASS = re.compile(r"\b(?:struct|class|union)\b[^;{}()]*\Z")
_ASSIGNED = r"\b(?P<name>{names})\s*\[[^;{{}}=]*\]\s*(?:[-+*/|&^]|<<|>>)?=(?!=)"


def rewrite_lockstep(text: Text) -> str:
    scopes: dict[str, list[range]] = {}
    for match in _VOLATILE.finditer(text.code):
        scopes.setdefault(match[match.lastgroup], []).append(
            _scope_before(text, match.end())
        )
    if not scopes:
        return text.raw

    def is_volatile(match: re.Match[str]) -> bool:
        return any(match.start() in scope for scope in scopes[match["name"]])

    names = "|".join(map(re.escape, sorted(scopes)))
    reads = re.compile(rf"\b(?P<name>{names})\s*\[")
    edits = []
    for match in re.finditer(_ASSIGNED.format(names=names), text.code):
        end = text.code.find(";", match.end())
        value = text.code[match.end() : end]
        # One statement, on its own, that reads what other lanes write.
        balanced = value.count("(") == value.count(")")
        plain = balanced and not re.search(r"[{}#]", value)
        if not (end > 0 and plain and is_volatile(match)):
            continue
        if any(
            is_volatile(read) for read in reads.finditer(text.code, match.end(), end)
        ):
            # s[i]=s[j]; has no space of its own that would follow `return`.
            space = "" if value[0].isspace() else " "
            before = f" simt::lockstep([&] {{ return{space}"
            edits.append((match.end(), match.end(), before))
            edits.append((end, end, "; })"))
    return replace_spans(text, edits)


def _scope_before(text: Text, offset: int) -> range:
    """Where the name that is declared before `offset` means what it does there.

    A parameter's is its function's body, that of any other the rest of the braces
    around it, or of the file: so it is for a class's member.
    """
    opened: list[int] = []
    for match in re.finditer(r"[(){}]", text.code[:offset]):
        if match.group() in "({":
            opened.append(match.start())
        elif opened:
            opened.pop()
    everything = range(offset, len(text.code))
    if not opened:
        return everything
    kind = text.code[opened[-1]]
    if kind == "{" and _CLASS.search(text.code, 0, opened[-1]):
        return everything
    closing = {"(": ")", "{": "}"}[kind]
    try:
        end = text.close(opened[-1], kind, closing)
        if kind == "{":
            return range(offset, end)
        start = text.body(end + 1)
        return range(start, text.close(start, "{", "}")) if start else range(0)
    except RewriteError:  # braces in branches of an #if
        return everything
