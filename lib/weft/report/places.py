"""Places in a source: lines, indices, and the column where an access begins.

The compiler's columns refer to the line after rewriting. They point at a bracket of
x[i] or at the `=` of an assignment, but a reader looks for the x. find_column()
therefore finds the column in the reader's line at which an access, or a shift, begins.

find_places() maps an offset in a library to the line and column of its source.
addr2line, installed with g++, takes a few milliseconds for all offsets of a library. It
returns files, lines and inlined calls, but no columns. This module reads the columns
from the library's line table, in about the same time. pyelftools can do both, but its
import takes ten times as long.

The DWARF standard, versions 4 and 5, section 6.2, defines the format of the table.
"""

from __future__ import annotations

import bisect
import linecache
import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
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


# ---- offsets in a library ------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """A place in the source. line, column: from 1 (0: unknown); columns in bytes.

    function: C++ name of the function ("" if unknown). file: path from the compiler.
    """

    function: str
    file: str
    line: int
    column: int = 0


@dataclass
class _Library:
    """The part of a library's frames and line table that has been read."""

    frames: dict[int, list[Frame]] = field(default_factory=dict)
    # (address, line, column) of each row; None until the table is read.
    rows: list[tuple[int, int, int]] | None = None


_libraries: dict[str, _Library] = {}
_aliases: dict[str, str] = {}


def note_alias(opened: str, path: str) -> None:
    """Record that the temporary library file `opened` is a copy of `path`."""
    _aliases[opened] = path


def find_places(module: str, offsets: Iterable[int]) -> dict[int, list[Frame]]:
    """Return the frames of each offset, the innermost (inlined last) first.

    module: the path of a library or executable. offsets: any byte of a call instruction
    identifies the call, but its return address does not. Unknown offsets have no
    frames. A file that is not a library, or lacks a line table, raises no error.
    """
    library = _libraries.setdefault(module, _Library())
    offsets = list(offsets)
    missing = sorted({at for at in offsets if at not in library.frames})
    if missing:
        path = _aliases.get(module, module)
        # A single update ensures that no other thread finds an offset without frames.
        frames = {at: [] for at in missing} | _find_frames(path, missing, library)
        library.frames.update(frames)
    return {at: library.frames[at] for at in offsets}


def list_following(module: str, offset: int, end: int, most: int = 32) -> list[int]:
    """Return the offsets between `offset` and `end` at which the code changes lines.

    At most `most` offsets are returned, and none past the end of the line table.
    """
    library = _libraries.setdefault(module, _Library())
    if library.rows is None:
        library.rows = line_table(_aliases.get(module, module))
    addresses: list[int] = []
    start = bisect.bisect_right(library.rows, (offset, 1 << 60, 0))
    for address, line, _ in library.rows[start:]:
        if not line or address >= end or len(addresses) == most:
            break
        addresses.append(address)
    return addresses


def _find_frames(
    path: str, offsets: list[int], library: _Library
) -> dict[int, list[Frame]]:
    tool = shutil.which("addr2line")
    if tool is None or not os.path.isfile(path):
        return {}
    process = subprocess.run(
        [tool, "-a", "-i", "-f", "-C", "-e", path],
        input="".join(f"{at:#x}\n" for at in offsets),
        text=True,
        capture_output=True,
    )
    if process.returncode:
        return {}
    if library.rows is None:
        library.rows = line_table(path)
    return {
        at: _with_column(at, frames, library.rows)
        for at, frames in _parse_answers(process.stdout.splitlines())
    }


def _parse_answers(lines: list[str]) -> Iterator[tuple[int, list[Frame]]]:
    """Parse addr2line's answers: an address, then pairs of function and place."""
    starts = [i for i, line in enumerate(lines) if re.fullmatch(r"0x\w+", line)]
    for start, stop in zip(starts, [*starts[1:], len(lines)]):
        pairs = zip(lines[start + 1 : stop : 2], lines[start + 2 : stop : 2])
        frames = []
        for function, place in pairs:
            file, _, line = place.partition(" (discriminator")[0].rpartition(":")
            if line.isdigit() and int(line):
                name = "" if function == "??" else function
                frames.append(Frame(name, file, int(line)))
        yield int(lines[start], 16), frames


def _with_column(
    at: int, frames: list[Frame], rows: list[tuple[int, int, int]]
) -> list[Frame]:
    """Return the frames, with the innermost frame's column from the line table."""
    i = bisect.bisect_right(rows, (at, 1 << 60, 0)) - 1
    if not frames or i < 0 or rows[i][1] != frames[0].line:
        return frames
    return [replace(frames[0], column=rows[i][2]), *frames[1:]]


# ---- the line table ----------------------------------------------------------------


def line_table(path: str) -> list[tuple[int, int, int]]:
    """Return an ELF file's sorted rows (address, line, column).

    Line 0 ends a sequence. The list is empty for a file that is not ELF, or that has no
    readable line table.
    """
    try:
        table = read_section(Path(path).read_bytes(), b".debug_line")
        rows = list(_list_rows(memoryview(table)))
    except (OSError, ValueError, IndexError, struct.error, zlib.error):
        return []
    # The sort is stable, so an address's last row remains its last.
    return sorted(rows, key=lambda row: row[0])


def read_section(data: bytes, name: bytes) -> bytes:
    """Return a section of a little-endian 64-bit ELF file; b"" if it is missing."""
    if data[:6] != b"\x7fELF\x02\x01":
        return b""
    (start,) = struct.unpack_from("<Q", data, 40)
    size, count, strings = struct.unpack_from("<HHH", data, 58)
    starts = range(start, start + count * size, size)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, at) for at in starts]
    names = heads[strings][4]
    for head in heads:
        at = names + head[0]
        if data[at : data.index(b"\0", at)] == name:
            section = data[head[4] : head[4] + head[5]]
            if head[2] & 0x800:  # SHF_COMPRESSED: the section is compressed with zlib
                return zlib.decompress(section[24:])
            return section
    return b""


class _ByteReader:
    """A reader that decodes numbers from bytes, one after another."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def number(self, size: int, signed: bool = False) -> int:
        self.at += size
        field = self.data[self.at - size : self.at]
        return int.from_bytes(field, "little", signed=signed)

    def uleb(self) -> int:
        result = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _list_rows(table: memoryview) -> Iterator[tuple[int, int, int]]:
    at = 0
    while at + 4 <= len(table):
        reader = _ByteReader(table[at:])
        length, width = reader.number(4), 4
        if length == 0xFFFFFFFF:
            length, width = reader.number(8), 8
        end = reader.at + length
        yield from _read_unit(_ByteReader(table[at + reader.at : at + end]), width)
        at += end


def _read_unit(reader: _ByteReader, width: int) -> Iterator[tuple[int, int, int]]:
    """Yield the rows of one line number program. width: size of an offset in bytes."""
    version = reader.number(2)
    if not 2 <= version <= 5:
        return
    if version == 5:
        reader.at += 2  # skip the sizes of an address and of a segment selector
    length = reader.number(width)
    program = reader.at + length
    min_length = reader.number(1)
    if version >= 4:
        reader.at += 1  # skip the maximum operations per VLIW instruction
    reader.at += 1  # skip the default of is_stmt
    # The smallest step of the line, the number of possible steps, and the first opcode
    # that changes both address and line.
    base, span, first = reader.number(1, True), reader.number(1), reader.number(1)
    # The number of operands of each opcode below `first`.
    operands = [reader.number(1) for _ in range(first - 1)]
    reader.at = program
    address, line, column = 0, 1, 0
    while reader.at < len(reader.data):
        code = reader.number(1)
        if code >= first:
            address += (code - first) // span * min_length
            line += base + (code - first) % span
            yield address, line, column
        elif code == 0:  # an extended opcode
            size = reader.uleb()
            stop = reader.at + size
            kind = reader.number(1)
            if kind == 1:  # DW_LNE_end_sequence
                yield address, 0, 0
                address, line, column = 0, 1, 0
            elif kind == 2:  # DW_LNE_set_address
                address = reader.number(size - 1)
            reader.at = stop
        elif code == 1:  # DW_LNS_copy
            yield address, line, column
        elif code == 2:  # DW_LNS_advance_pc
            address += reader.uleb() * min_length
        elif code == 3:  # DW_LNS_advance_line
            line += reader.sleb()
        elif code == 5:  # DW_LNS_set_column
            column = reader.uleb()
        elif code == 8:  # DW_LNS_const_add_pc
            address += (255 - first) // span * min_length
        elif code == 9:  # DW_LNS_fixed_advance_pc
            address += reader.number(2)
        else:
            for _ in range(operands[code - 1]):
                reader.uleb()
