"""Two texts side by side, line by line: a Python body and its CUDA C.

beside(source("lib/weft/pykernel/bodies/layers.py", "relu"),
       source("kernels/relu.cu", "relu_naive"), "Python", "CUDA C")
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import zip_longest

Pair = tuple[str | None, str | None]

# Words that lines of one language have, and those of the other do not.
_COMMON = {"const", "size_t", "float", "int", "static", "for", "if", "cuda", "in"}
_PYTHON = re.compile(r'#[^\n]*|""".*?(?:"""|$)', re.S)  # comments
_C = re.compile(r"//[^\n]*|/\*.*?(?:\*/|$)", re.S)
_MARKS = ("#", "//", "/*", '"""')  # how a comment begins
_CELL = "text-align:left;vertical-align:top;padding:0 1em 0 0;border:0"


def beside(left: str, right: str, *titles: str) -> Beside:
    """Two texts with what says the same at the same height.

    A statement and a comment stay whole, over as many lines as they have. The rest is
    a longest common subsequence, as of diff, weighed by the share of words in common
    (Needleman and Wunsch, J. Mol. Biol. 48(3), 1970).
    """
    a, b = list(_split_statements(left)), list(_split_statements(right))
    score = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            both = score[i + 1][j + 1] + _measure_likeness(a[i], b[j])
            score[i][j] = max(both, score[i + 1][j], score[i][j + 1])
    pairs: list[Pair] = []
    i = j = 0
    while i < len(a) and j < len(b):
        if score[i][j] == score[i + 1][j]:
            pairs.append((a[i], None))
            i += 1
        elif score[i][j] == score[i][j + 1]:
            pairs.append((None, b[j]))
            j += 1
        else:
            pairs.append((a[i], b[j]))
            i, j = i + 1, j + 1
    pairs += [(line, None) for line in a[i:]] + [(None, line) for line in b[j:]]
    return Beside(_close_gaps(pairs), titles or ("", ""))


class Beside:
    """What beside() gives: a table in a notebook, columns of text elsewhere.

    pairs: statements of both texts; None where the other text has nothing like it.
    """

    def __init__(self, pairs: list[Pair], titles: tuple[str, ...]) -> None:
        self.pairs, self.titles = pairs, titles

    def __repr__(self) -> str:
        rows: list[Pair] = [self.titles]  # type: ignore[list-item]
        for pair in self.pairs:
            rows += zip_longest(*[(side or "").split("\n") for side in pair])
        width = max(len(left or "") for left, _ in rows)
        lines = [f"{left or '':<{width}}  | {right or ''}" for left, right in rows]
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th style="{_CELL}">{html.escape(t)}</th>' for t in self.titles
        )
        texts = ["\n".join(side or "" for side in sides) for sides in zip(*self.pairs)]
        kinds = [_compile_comments(text) for text in texts]
        cells = (map(_render_cell, pair, kinds) for pair in self.pairs)
        rows = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
        return (
            '<div style="overflow-x:auto"><table style="border-collapse:collapse">'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        )


def _compile_comments(text: str) -> re.Pattern[str]:
    """What is a comment in this text, in Python or in C."""
    return _PYTHON if re.search(r"^\s*(def|class) \w+.*:$", text, re.M) else _C


def _split_statements(text: str) -> Iterator[str]:
    """The text in pieces of whole statements and whole comments."""
    piece: list[str] = []
    for line in text.rstrip().splitlines():
        piece.append(line)
        code = _compile_comments(text).sub(_blank_comment, "\n".join(piece))
        opened = sum(map(code.count, "([")) - sum(map(code.count, ")]"))
        if opened <= 0 and not re.search(r"[*+\-=?&|,\0]\s*$", code):
            yield "\n".join(piece)
            piece = []
    if piece:
        yield "\n".join(piece)


def _blank_comment(comment: re.Match[str]) -> str:
    """A comment as code; one that goes on is a NUL."""
    whole = comment[0].startswith(("#", "//")) or (
        len(comment[0]) > 5 and comment[0].endswith(('"""', "*/"))
    )
    return "" if whole else "\0"


def _measure_likeness(left: str, right: str) -> float:
    """0 to 1: the share of words that two pieces have in common."""
    if not left.strip() and not right.strip():
        return 0.1  # an empty line goes with an empty line
    remarks = [piece.lstrip().startswith(_MARKS) for piece in (left, right)]
    if remarks[0] != remarks[1]:
        return 0.0
    words = [set(re.findall(r"\w+", piece)) - _COMMON for piece in (left, right)]
    both = words[0] & words[1]
    share = 2 * len(both) / (len(words[0]) + len(words[1])) if both else 0.0
    return share / 2 if remarks[0] else share  # code decides


def _close_gaps(pairs: list[Pair]) -> list[Pair]:
    """Pieces that only one text has, beside those that only the other one has."""
    found: list[Pair] = []
    waiting: tuple[list[str], list[str]] = ([], [])
    for left, right in [*pairs, ("", "")]:
        if left is None or right is None:
            waiting[left is None].append(left if right is None else right or "")
            continue
        found += zip_longest(*waiting)
        waiting = [], []
        found.append((left, right))
    return found[:-1]


def _render_cell(text: str | None, comments: re.Pattern[str]) -> str:
    """A cell; comments are fainter than code."""
    marked = comments.sub(lambda found: f"\0{found[0]}\1", text or " ")
    shown = html.escape(marked).replace("\0", '<span style="opacity:.6">')
    shown = shown.replace("\1", "</span>") or "&nbsp;"
    return f'<td style="{_CELL};white-space:pre;font-family:monospace">{shown}</td>'
