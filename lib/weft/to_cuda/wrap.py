"""Long lines of C, folded where a person would."""

from __future__ import annotations

import re

WIDTH = 80
_BREAKS = (r" \|\| ", r" && ", r" \? | : ", r", ", r" = ", r" [+-] ", r" \* ")


def wrap(line: str) -> list[str]:
    """The line in parts of at most WIDTH columns, if it can be cut into such.

    Cut at the operator that binds least and stands outside of most brackets; what
    follows is indented by four more.
    """
    if len(line) <= WIDTH or line.lstrip().startswith(("//", "#")) or '"' in line:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    depth, depths = 0, []
    for c in line:
        depth -= c in ")]"
        depths.append(depth)
        depth += c in "(["
    places = []
    for rank, pattern in enumerate(_BREAKS):
        for match in re.finditer(pattern, line):
            before = pattern in (r" \? | : ", r" [+-] ", r" \* ")
            at = (
                match.start() if before else len(match.group().rstrip()) + match.start()
            )
            if len(indent) < at <= WIDTH:
                places.append((depths[match.start()], rank, -at, at))
    if not places:
        return [line]
    at = min(places)[3]
    rest = wrap(indent + line[at:].lstrip())
    return [line[:at].rstrip(), *_level(rest, indent)]


def _level(lines: list[str], indent: str) -> list[str]:
    """Continuation lines one below the other."""
    return [indent + line.lstrip() for line in lines]
