"""From a column of a rewritten line back to the reader's line."""

from __future__ import annotations

import bisect
import difflib
import re

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|[^\w\s]')


def original_column(line: str, rewritten: str, column: int) -> int:
    """The column of `line` that became this one of `rewritten` (both in bytes)."""
    if line == rewritten or not column:
        return column
    old, new = list(_TOKEN.finditer(line)), list(_TOKEN.finditer(rewritten))
    at = len(rewritten.encode()[: column - 1].decode(errors="replace"))
    starts = [token.start() for token in new]
    index = max(bisect.bisect_right(starts, at) - 1, 0)
    matcher = difflib.SequenceMatcher(
        None, [t.group() for t in old], [t.group() for t in new], autojunk=False
    )
    best = None
    for tag, i1, _, j1, j2 in matcher.get_opcodes():
        if not j1 <= index < j2 and not (j1 == j2 == index):
            continue
        best = i1 + (index - j1) if tag == "equal" else min(i1, len(old) - 1)
    if best is None or not old:
        return 0
    token = old[min(best, len(old) - 1)]
    within = at - new[index].start() if new else 0
    same = new and token.group() == new[index].group()
    # g++ points just behind what lacks its `;`.
    offset = token.start() + (min(within, len(token.group())) if same else 0)
    return len(line[:offset].encode()) + 1
