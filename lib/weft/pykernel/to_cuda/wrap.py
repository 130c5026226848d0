"""Long lines of C, folded where a person would."""

from __future__ import annotations

import re

WIDTH = 80
# From the one that binds least; ? and : begin a line, the others end one.
_BREAKS = (r"; ", r" \|\| ", r" && ", r" \? | : ", r", ", r" [+-] ", r" [*/] ", r" = ")

_ASSIGNED = re.compile(r"[^=;?\"]*? [-+*/%&|^]?= | *return ")


def wrap(line: str) -> list[str]:
    """The line in parts of at most WIDTH columns, if it can be cut into such.

    Cut at the operator that binds least and stands outside of most brackets; what
    follows is indented by four more, or to the bracket of an if or a loop.
    """
    if len(line) <= WIDTH or line.lstrip().startswith(("//", "#")) or '"' in line:
        return [line]
    head = re.match(r" *(?:} else )?(?:if|for|while) \(", line)
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    out = []
    while len(line) > WIDTH:
        at = _cut(line, len(indent))
        if not at:
            break
        out.append(line[:at].rstrip())
        starts = head or _ASSIGNED.match(line)
        if starts and len(out) == 1 and starts.end() < min(at, WIDTH // 2):
            indent = " " * starts.end()
        line = indent + line[at:].lstrip()
    return [*out, line]


def _cut(line: str, least: int) -> int:
    """Where to cut; 0: nowhere."""
    depth, depths = 0, []
    for c in line:
        depth -= c in ")]"
        depths.append(depth)
        depth += c in "(["
    places = []
    for rank, pattern in enumerate(_BREAKS):
        for match in re.finditer(pattern, line):
            before = "?" in match[0] or ":" in match[0]
            at = match.start() if before else match.start() + len(match[0].rstrip())
            if least < at <= WIDTH:
                # An assignment is cut at its = if that makes two lines of it.
                whole = at > least + 20 and least + len(line) - at <= WIDTH
                assigns = match[0] == " = " and not whole
                rank = -1 if match[0] == " = " and whole else rank
                places.append((assigns, depths[match.start()], rank, -at, at))
    return min(places)[-1] if places else 0
