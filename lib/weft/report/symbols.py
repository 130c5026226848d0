"""Map an offset in a library to the line and column of its source.

addr2line, installed with g++, takes a few milliseconds for all offsets of a library. It
returns files, lines and inlined calls, but no columns. This module reads the columns
from the library's line table, in about the same time. pyelftools can do both, but its
import takes ten times as long.

The DWARF standard, versions 4 and 5, section 6.2, defines the format of the table.
"""

from __future__ import annotations

import bisect
import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path


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
    """Return the offsets up to `end` at which the code moves to another line.

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
    # The sort is stable, so the last row of an address counts.
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
