"""Places in a source: lines, indices, and the column where an access begins.

The compiler's columns refer to the line after rewriting. They point at a bracket of
x[i] or at the `=` of an assignment, but a reader looks for the x. This module therefore
finds the column in the reader's line at which an access, or a shift, begins.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..csource.preprocess import original_column
from ..csource.scanner import find_close, find_open

if TYPE_CHECKING:
    from .model import Source


Index = tuple[int, ...]


def find_line(sources: Sequence[Source], file: str, number: int) -> str:
    """Return a line of a file, from `sources` or, if absent there, from linecache."""
    for source in sources:
        lines = source.text.splitlines()
        if source.file == file and 0 <= number - source.first < len(lines):
            return lines[number - source.first]
    return linecache.getline(file, number).rstrip("\n")


def text_before(source: str, column: int) -> str:
    """Return the text of a line before a column, counted in bytes of UTF-8."""
    return source.encode()[:column].decode(errors="ignore")


def unflatten(number: int, shape: Index) -> Index:
    """Return the index (x, y, z) of a linear number; x varies fastest."""
    x, y = shape[0], shape[1]
    return number % x, number // x % y, number // (x * y)


def write_index(index: Index, shape: Index) -> str:
    """Format the index of a thread or block: 4, (1,2) or (0,1,2).

    shape: shape of the enclosing block or grid; trailing dimensions of 1 are omitted.
    """
    sides = max([n for n, side in enumerate(shape, 1) if side > 1], default=1)
    return str(index[0]) if sides == 1 else f"({','.join(map(str, index[:sides]))})"


_INDEX = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*([xyz])\b")


def find_column(line: str, compiled: int = 0, array: str = "", callee: str = "") -> int:
    """Return the column (from 0, in bytes) at which an access begins.

    compiled: the compiler's column (from 1, in bytes; 0: unknown). array: the accessed
    array, by the reader's name. callee: the inlined function that makes the access, or
    "" if the line accesses the array directly.
    """
    at = original_offset(line, compiled)
    call = re.search(rf"\b{re.escape(callee)}\b", line) if callee else None
    if at is None and call:
        return len(line[: call.start()].encode())
    offset = None if at is None else _find_start(line, at)
    if array and (offset is None or not _is_named(line, offset, array)):
        # An array may be named x, like the x of threadIdx.x.
        indices = {m.start(2) for m in _INDEX.finditer(line)}
        matches = re.finditer(rf"\b{re.escape(array)}\b", line)
        places = [m.start() for m in matches if m.start() not in indices]
        origin = len(line) if at is None else at
        offset = min(places, key=lambda at: (abs(at - origin), at), default=offset)
    if offset is None:
        offset = len(line) - len(line.lstrip())
    return len(line[:offset].encode())


def only_array(line: str, column: int) -> str:
    """Return the array that has a single index at a column (from 0, in bytes), or "".

    The result is "" if there is no index, or if there are several: s[i][j].
    """
    element = find_element(line, column)
    indexed = re.match(r"\w+(?=\s*\[)", element)
    text = line.encode()[column:].decode(errors="ignore")[len(element) :]
    return indexed[0] if indexed and not text.lstrip().startswith("[") else ""


def find_element(line: str, column: int) -> str:
    """Return the expression x[i] that begins at a column (from 0, in bytes), or "".

    Only the first index is included.
    """
    text = line.encode()[column:].decode(errors="ignore")
    match = re.match(r"\w+\s*\[", text)
    return text[: find_close(text, match.end() - 1) + 1] if match else ""


def split_subscript(line: str, column: int, array: str) -> list[str]:
    """Return the indices of array[i][j] if it begins at a column, otherwise []."""
    text = line.encode()[column:].decode(errors="ignore")
    if not array or not re.match(rf"{re.escape(array)}\s*\[", text):
        return []
    parts, end = [], len(array)
    while bracket := re.compile(r"\s*\[").match(text, end):
        end = find_close(text, bracket.end() - 1) + 1
        if not end:
            break
        parts.append(text[bracket.end() : end - 1])
    return parts


def one_statement(rows: Sequence[str], start: int, end: int) -> bool:
    """Return whether no statement ends between two columns (from 0, in bytes).

    The first column is in the first row, the second in the last.
    """
    *first_rows, last_row = (row.encode() for row in rows)
    text = b"\n".join([*first_rows, last_row[:end]])[start:]
    return re.search(rb"[;{}]", text) is None


def plain_callee(function: str) -> str:
    """Return the plain name of a C++ function: atomicAdd for int atomicAdd(...)."""
    head = re.sub(r"<.*", "", function.partition("(")[0])
    name = re.search(r"(\w+)\s*$", head)
    return name[1] if name and name[1] != "operator" else ""


def original_offset(line: str, column: int) -> int | None:
    """Return the offset in the reader's line for a column of the rewritten line."""
    if not column:
        return None
    rewritten = _INDEX.sub(r"simt::\2(\1)", line)
    column = original_column(line, rewritten, column)
    at = len(line.encode()[: column - 1].decode(errors="ignore"))
    return at if column and at < len(line) else None


def _is_named(line: str, start: int, array: str) -> bool:
    """Return whether the text at `start` names the array, as s, (s), &s or t.s do."""
    return bool(re.match(rf"[\w.&*(\s>-]*?\b{re.escape(array)}\b", line[start:]))


def _find_start(line: str, at: int) -> int:
    """Return the start of the expression whose bracket or assignment is at `at`."""
    if line[at] == "]":
        return _find_lvalue(line, at + 1)
    if line[at] == "[":  # in a template, the compiler points at this bracket
        return _find_lvalue(line, at)
    if re.match(r"(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--", line[at:]):
        end = len(line[:at].rstrip())
        if end:
            return _find_lvalue(line, end)
    return at


def _find_lvalue(line: str, end: int) -> int:
    """Return the start of the x[i], s[i][j], p->x or *p that ends before `end`."""
    at = end
    while at > 0:
        character = line[at - 1]
        if character in ")]":
            at = max(find_open(line, at - 1), 0)  # 0 if an earlier line has the bracket
        elif character.isalnum() or character == "_":
            at = re.search(r"\w+$", line[:at]).start()  # type: ignore[union-attr]
            joint = re.search(r"(?:\.|->|::)\s*$", line[:at])
            if not joint:
                break
            at = joint.start()
        else:
            break
    while at > 0 and line[at - 1] == "*":
        if at > 1 and re.match(r"[\w)\]]\s*$", line[: at - 1][-1:]):
            break  # this `*` is a multiplication
        at -= 1
    return at


_BOTH = re.compile(r"(.*): <<: (.*); >>: (.*)")


def one_way(text: str, line: str, compiled: int) -> str:
    """Return the part of a text about << and >> that describes the reader's shift.

    Any other text is returned unchanged, as is a text about an unknown shift.
    compiled: the compiler's column (from 1, in bytes; 0: unknown).
    """
    shifts = _BOTH.fullmatch(text)
    if not shifts:
        return text
    signs = set(re.findall(r"<<|>>", line))
    at = original_offset(line, compiled)
    if at is not None and line[at : at + 2] in signs:
        signs = {line[at : at + 2]}
    if len(signs) != 1:
        return text
    head, left, right = shifts.groups()
    return f"{head}: {left if signs == {'<<'} else right}"
