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

from .cuda_text import Text, edit

_POINTER = r"(?:\s|\*|\bconst\b|\b__restrict__\b)*\*(?:\s|\bconst\b|\b__restrict__\b)*"
_VOLATILE = re.compile(
    rf"\bvolatile\b[\w\s:]*{_POINTER}(?P<pointer>\w+)"
    r"|\b__shared__\b[\w\s]*\bvolatile\b[\w\s]*?\b(?P<after>\w+)\s*\["
    r"|\bvolatile\b[\w\s]*\b__shared__\b[\w\s]*?\b(?P<before>\w+)\s*\["
)
_ASSIGNED = r"\b(?:{names})\s*\[[^;{{}}=]*\]\s*(?:[-+*/|&^]|<<|>>)?=(?!=)"


def lockstep(text: Text) -> str:
    found = [m[m.lastgroup] for m in _VOLATILE.finditer(text.code)]
    if not found:
        return text.raw
    names = "|".join(map(re.escape, sorted(set(found))))
    reads = re.compile(rf"\b(?:{names})\s*\[")
    edits = []
    for match in re.finditer(_ASSIGNED.format(names=names), text.code):
        end = text.code.find(";", match.end())
        value = text.code[match.end() : end]
        # One statement, on its own, that reads what other lanes write.
        balanced = value.count("(") == value.count(")")
        plain = balanced and not re.search(r"[{}#]", value)
        if end > 0 and plain and reads.search(value):
            edits.append((match.end(), match.end(), " simt::lockstep([&] { return"))
            edits.append((end, end, "; })"))
    return edit(text, edits)
