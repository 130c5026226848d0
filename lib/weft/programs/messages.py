"""What g++ says of a rewritten program, as nvcc would say it of the program.

One place, one message, the line and a caret. What g++ finds in kernels/simt or in
the standard library is told at the program's own line that led there.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..csource.diagnostics import _clean
from ..csource.rewriter.columns import original_column
from ..csource.rewriter.preprocess import MARKER, unquote_name

LIMIT = 8  # errors shown; what follows the first is rarely news
_SAID = re.compile(
    r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<severity>fatal error|error|warning|note|sorry, unimplemented): "
    r"(?P<message>.*)$"
)
_WAY = re.compile(
    r"^(?:In file included|\s+(?:inlined )?)\s*from (?P<at>\S.*?:\d+)(?::\d+)?[,:]"
)
_REQUIRED = re.compile(r"^(?P<at>\S.*?:\d+)(?::\d+)?:\s+(?:required|recursively) ")


def rewrite_messages(said: str, simt: str, rewritten: str = "") -> str:
    """The errors in `said`, what g++ printed, on the lines of the program's files.

    simt: the folder of kernels/simt, whose files are not the program's
    rewritten: the text that g++ read, for the columns
    """
    errors: list[list] = []  # file, line, column, message
    way = ""  # the program's line that g++ came from
    foreign = None  # an error that is nowhere in the program, so far
    for row in said.splitlines():
        if found := _WAY.match(row) or _REQUIRED.match(row):
            way = way if way or _is_foreign(found["at"], simt) else found["at"]
            continue
        match = _SAID.match(row)
        if not match:
            continue
        at = [match["file"], int(match["line"]), int(match["column"] or 0)]
        ours = not _is_foreign(match["file"], simt)
        if match["severity"] == "note":
            if foreign is not None and ours:
                errors.append([*at, foreign])
                foreign = None
            continue
        if match["severity"] == "warning":
            way = ""
            continue
        if ours:
            errors.append([*at, match["message"]])
        elif way:
            file, line = way.rsplit(":", 1)
            errors.append([file, int(line), 0, match["message"]])
        else:
            foreign = match["message"]
        way = ""
    lines = _map_lines(rewritten)
    shown = list(dict.fromkeys(_show_line(*error, lines) for error in errors))
    if len(shown) > LIMIT:
        shown[LIMIT:] = [f"... and {len(shown) - LIMIT} more"]
    return "\n".join(shown) or said.strip()


def _is_foreign(file: str, simt: str) -> bool:
    return file.startswith((simt, "/usr/", "<")) or "/c++/" in file


def _map_lines(text: str) -> dict[tuple[str, int], str]:
    """The lines of the text that g++ read, by the file and line they stand for."""
    lines: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for row in text.split("\n") if text else ():
        if mark := MARKER.fullmatch(row):
            file, number = unquote_name(mark[2]), int(mark[1])
            continue
        if row.strip():
            lines.setdefault((file, number), row)
        number += 1
    return lines


def _show_line(file: str, line: int, column: int, message: str, lines: dict) -> str:
    try:
        source = Path(file).read_text(errors="replace").split("\n")[line - 1]
    except (OSError, IndexError):
        return f"{file}:{line}: error: {_clean(message)}"
    if column:
        column = original_column(source, lines.get((file, line), source), column)
    text = f"{file}:{line}:{f'{column}:' if column else ''} error: {_clean(message)}"
    text += f"\n    {source.expandtabs(4)}"
    if column:
        before = source.encode()[: column - 1].decode(errors="replace")
        text += f"\n    {' ' * len(before.expandtabs(4))}^"
    return text
