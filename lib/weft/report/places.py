"""Places in a source: lines, indices, and the column where an access begins.

Lines of sources, and indices of threads and elements, as a report writes them.

Where on a line of the reader's source an access, or a shift, begins.

The compiler's columns are those of the rewritten line, and point at a bracket of x[i]
or at the `=` of what is written; a reader looks for the x.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..csource.rewriter.preprocess import original_column

if TYPE_CHECKING:
    from .model import Source


Index = tuple[int, ...]


def find_line(sources: Sequence[Source], file: str, number: int) -> str:
    """A line of one of these sources, or of a file that is not among them."""
    for source in sources:
        lines = source.text.splitlines()
        if source.file == file and 0 <= number - source.first < len(lines):
            return lines[number - source.first]
    return linecache.getline(file, number).rstrip("\n")


def text_before(source: str, column: int) -> str:
    """What stands in a line before a column, which counts bytes of UTF-8."""
    return source.encode()[:column].decode(errors="ignore")


def unflatten(number: int, shape: Index) -> Index:
    """The (x, y, z) of a linear number: x runs fastest."""
    x, y = shape[0], shape[1]
    return number % x, number // x % y, number // (x * y)


def write_index(index: Index, shape: Index) -> str:
    """A thread or block as a person would name it: 4, (1,2) or (0,1,2).

    shape: of its block or grid; sides of 1 at the end are left out.
    """
    sides = max([n for n, side in enumerate(shape, 1) if side > 1], default=1)
    return str(index[0]) if sides == 1 else f"({','.join(map(str, index[:sides]))})"


_INDEX = re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*([xyz])\b")
_OPENING = {"]": "[", ")": "("}


def find_column(line: str, compiled: int = 0, array: str = "", callee: str = "") -> int:
    """The column (from 0, in bytes) at which an access begins.

    compiled: the compiler's column (from 1, in bytes; 0: unknown). array: what is
    accessed, as the reader calls it. callee: the function that was inlined here and
    that makes the access; "" if the line does it itself.
    """
    at = original_offset(line, compiled)
    called = re.search(rf"\b{re.escape(callee)}\b", line) if callee else None
    if at is None and called:
        return len(line[: called.start()].encode())
    found = None if at is None else _start(line, at)
    if array and (found is None or not _is_named(line, found, array)):
        indices = {m.start(2) for m in _INDEX.finditer(line)}  # an array may be x
        every = re.finditer(rf"\b{re.escape(array)}\b", line)
        places = [m.start() for m in every if m.start() not in indices]
        near = len(line) if at is None else at
        found = min(places, key=lambda one: (abs(one - near), one), default=found)
    if found is None:
        found = len(line) - len(line.lstrip())
    return len(line[:found].encode())


def only_array(line: str, column: int) -> str:
    """The array that has its one index behind it at a column (from 0, in bytes); ""
    if none or several stand there: s[i][j]."""
    found = find_element(line, column)
    indexed = re.match(r"\w+(?=\s*\[)", found)
    rest = line.encode()[column:].decode(errors="ignore")[len(found) :]
    return indexed[0] if indexed and not rest.lstrip().startswith("[") else ""


def find_element(line: str, column: int) -> str:
    """The x[i] that begins at a column (from 0, in bytes), up to its first index; ""
    if none does."""
    text = line.encode()[column:].decode(errors="ignore")
    named = re.match(r"\w+(?=\s*\[)", text)
    depth = 0
    for at in range(named.end() if named else len(text), len(text)):
        depth += (text[at] == "[") - (text[at] == "]")
        if not depth and text[at] == "]":
            return text[: at + 1]
    return ""


def split_subscript(line: str, column: int, array: str) -> list[str]:
    """The indices of array[i][j], which begins at a column; [] if it does not."""
    rest = line.encode()[column:].decode(errors="ignore")
    if not array or not re.match(rf"{re.escape(array)}\s*\[", rest):
        return []
    parts, depth, start = [], 0, 0
    for at in range(len(array), len(rest)):
        depth += (rest[at] == "[") - (rest[at] == "]")
        if rest[at] == "[" and depth == 1:
            start = at + 1
        elif rest[at] == "]" and not depth:
            parts.append(rest[start:at])
        elif not depth and not rest[at].isspace():
            break
    return parts


def one_statement(rows: Sequence[str], start: int, end: int) -> bool:
    """Whether no statement ends between two columns (from 0, in bytes): the first is
    one of the first row, the other of the last."""
    *before, last = (row.encode() for row in rows)
    text = b"\n".join([*before, last[:end]])[start:]
    return re.search(rb"[;{}]", text) is None


def plain_callee(function: str) -> str:
    """The plain name of a function as C++ has it: atomicAdd of int atomicAdd(...)."""
    head = re.sub(r"<.*", "", function.partition("(")[0])
    name = re.search(r"(\w+)\s*$", head)
    return name[1] if name and name[1] != "operator" else ""


def original_offset(line: str, column: int) -> int | None:
    """The offset in the reader's line of a column of the rewritten line."""
    if not column:
        return None
    rewritten = _INDEX.sub(r"simt::\2(\1)", line)
    column = original_column(line, rewritten, column)
    at = len(line.encode()[: column - 1].decode(errors="ignore"))
    return at if column and at < len(line) else None


def _is_named(line: str, start: int, array: str) -> bool:
    """Whether the array is named by what begins there: s, (s), &s, t.s"""
    return bool(re.match(rf"[\w.&*(\s>-]*?\b{re.escape(array)}\b", line[start:]))


def _start(line: str, at: int) -> int:
    """Where the expression begins whose bracket or assignment operator is at `at`."""
    if line[at] == "]":
        return _find_lvalue(line, at + 1)
    if line[at] == "[":  # in a template
        return _find_lvalue(line, at)
    if re.match(r"(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--", line[at:]):
        before = len(line[:at].rstrip())
        if before:
            return _find_lvalue(line, before)
    return at


def _find_lvalue(line: str, end: int) -> int:
    """Where the x[i], s[i][j], p->x, or *p begins that ends before `end`."""
    at = end
    while at > 0:
        last = line[at - 1]
        if last in _OPENING:
            at = _find_opening(line, at - 1)
        elif last.isalnum() or last == "_":
            at = re.search(r"\w+$", line[:at]).start()  # type: ignore[union-attr]
            joint = re.search(r"(?:\.|->|::)\s*$", line[:at])
            if not joint:
                break
            at = joint.start()
        else:
            break
    while at > 0 and line[at - 1] == "*":
        if at > 1 and re.match(r"[\w)\]]\s*$", line[: at - 1][-1:]):
            break  # a product
        at -= 1
    return at


def _find_opening(line: str, at: int) -> int:
    """The offset of the bracket that the one at `at` closes; 0: on a line before."""
    depth = 0
    for i in range(at, -1, -1):
        depth += (line[i] == line[at]) - (line[i] == _OPENING[line[at]])
        if not depth:
            return i
    return 0


_BOTH = re.compile(r"(.*): <<: (.*); >>: (.*)")


def one_way(text: str, line: str, compiled: int) -> str:
    """The sentence for the shift in the reader's line; any other as it is.

    compiled: the compiler's column (from 1, in bytes; 0: unknown).
    """
    both = _BOTH.fullmatch(text)
    if not both:
        return text
    signs = set(re.findall(r"<<|>>", line))
    at = original_offset(line, compiled)
    if at is not None and line[at : at + 2] in signs:
        signs = {line[at : at + 2]}
    if len(signs) != 1:
        return text
    head, left, right = both.groups()
    return f"{head}: {left if signs == {'<<'} else right}"
