"""Preprocess a program with its headers, and map columns back to the reader's.

g++'s own preprocessor resolves all macros, conditions and includes. This module sorts
its output. The program's own text is rewritten, and the text of system headers and of
kernels/simt is set aside unchanged. Lines keep their numbers, and `# line "file"` marks
the place where a file begins or resumes.
"""

from __future__ import annotations

import bisect
import difflib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+|[^\w\s]')


def original_column(line: str, rewritten: str, column: int) -> int:
    """Return the column of `line` that became `column` of `rewritten` (in bytes)."""
    if line == rewritten or not column:
        return column
    old, new = list(_TOKEN.finditer(line)), list(_TOKEN.finditer(rewritten))
    position = len(rewritten.encode()[: column - 1].decode(errors="replace"))
    starts = [token.start() for token in new]
    index = max(bisect.bisect_right(starts, position) - 1, 0)
    matcher = difflib.SequenceMatcher(
        None, [t.group() for t in old], [t.group() for t in new], autojunk=False
    )
    old_index = None
    for tag, i1, _, j1, j2 in matcher.get_opcodes():
        if not j1 <= index < j2 and not (j1 == j2 == index):
            continue
        old_index = i1 + (index - j1) if tag == "equal" else min(i1, len(old) - 1)
    if old_index is None or not old:
        return 0
    token = old[min(old_index, len(old) - 1)]
    token_offset = position - new[index].start() if new else 0
    is_same = new and token.group() == new[index].group()
    # g++ points just past the statement that lacks its `;`.
    offset = token.start() + (min(token_offset, len(token.group())) if is_same else 0)
    return len(line[:offset].encode()) + 1


MARKER = re.compile(r'# (\d+) "((?:\\.|[^"\\])*)"((?: \d)*)')
_ASIDE = re.compile(r"^//@aside (\d+)$", re.M)
_QUOTED = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n"}
_GAP = 99  # maximum number of blank lines that replace skipped lines


@dataclass(frozen=True)
class PreprocessedSource:
    """A preprocessed program.

    own: the program's own text, in which //@aside lines replace the texts in `aside`.
    """

    own: str
    aside: tuple[str, ...]  # the texts of system headers
    files: tuple[str, ...]  # every file read, including system headers

    def restore(self, own: str) -> str:
        """Return the rewritten `own` with the system headers back in place."""
        return _ASIDE.sub(lambda match: self.aside[int(match[1])], own)


def split(text: str, simt: str) -> PreprocessedSource:
    """Separate the program's lines from those of headers in preprocessed text.

    text: the output of `g++ -E -include SIMT/program.h`. Files under `simt` are not the
    program's own. program.h is omitted, because the rewritten text includes it again
    for its macros.
    """
    lines = text.split("\n")
    marks = [MARKER.fullmatch(line) for line in lines]
    # Flag 3 marks system headers, and also the words of their macros.
    own = {m[2] for m in marks if m and "3" not in m[3]}
    own = {name for name in own if not name.startswith(("<", simt))}
    sorter = _Sorter()
    first = _after_program_h(marks, simt)
    for line, mark in zip(lines[first:], marks[first:], strict=True):
        if mark is None:
            sorter.line(line)
        else:
            sorter.mark(mark.group(), int(mark[1]), mark[2], mark[3], mark[2] in own)
    sorter.end_aside()
    files = {unquote_name(m[2]) for m in marks if m}
    names = sorted(name for name in files if not name.startswith("<"))
    return PreprocessedSource("\n".join(sorter.own), tuple(sorter.aside), tuple(names))


def unquote_name(name: str) -> str:
    """Return the file in a marker `# line "file"`, without g++'s backslashes."""

    def plain(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8)]) if len(code) == 3 else _LETTERS.get(code, code)

    return os.fsdecode(_QUOTED.sub(plain, os.fsencode(name)))


def find_position(text: str, offset: int) -> tuple[str, int] | None:
    """Return the file and line at `offset` of a text that contains `# line "file"`."""
    previous = text[:offset].split("\n")[:-1]
    for distance, row in enumerate(reversed(previous)):
        if mark := MARKER.fullmatch(row):
            return unquote_name(mark[2]), int(mark[1]) + distance
    return None


def merge(
    host: PreprocessedSource, device: PreprocessedSource, kind: Callable[[int], str]
) -> PreprocessedSource:
    """Merge the texts of nvcc's two passes into one.

    host, device: the texts without and with __CUDA_ARCH__. Where they differ, the place
        matters. In device code, the device's lines are used; in other functions, the
        host's. Between functions, the device's lines are used; if it has none there,
        the host's are kept unless they contain __device__. (Device code that appears
        only without __CUDA_ARCH__ is a substitute for GPUs that lack a feature.)
    kind: function that maps an offset into device.own to "device", "host", or ""
        between functions.
    """
    host_lines, device_lines = host.own.split("\n"), device.own.split("\n")
    starts = [0]
    for line in device_lines:
        starts.append(starts[-1] + len(line) + 1)
    merged: list[str] = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(
        None, host_lines, device_lines, autojunk=False
    ).get_opcodes():
        host_part, device_part = host_lines[i:i_end], device_lines[j:j_end]
        if tag != "equal":
            place = kind(starts[min(j, len(device_lines) - 1)])
            is_empty = not any(line.strip() for line in device_part)
            host_only = (
                place == "" and is_empty and "__device__" not in "".join(host_part)
            )
            device_part = host_part if place == "host" or host_only else device_part
        merged += device_part
    # Both passes must read the same system headers in the same order. Otherwise the
    # text could name a header that is missing from the device's list.
    if host.aside != device.aside:
        return device
    files = tuple(sorted({*host.files, *device.files}))
    return PreprocessedSource("\n".join(merged), device.aside, files)


def _after_program_h(marks: list[re.Match[str] | None], simt: str) -> int:
    in_program_h = False
    for i, mark in enumerate(marks):
        if mark and mark[2] == f"{simt}/program.h" and mark[3].startswith(" 1"):
            in_program_h = True
        elif in_program_h and mark and mark[2] == "<command-line>":
            return i + 1
    raise ValueError(f"{simt}/program.h is not in the preprocessed text")


class _Sorter:
    """The texts, sorted line by line; the program's own lines keep their numbers."""

    def __init__(self) -> None:
        self.own: list[str] = []
        self.aside: list[str] = []
        self._away: list[str] | None = None  # the system header's lines so far
        self._glue = False  # whether the next line continues the last one
        self._file = ""
        self._next = 0  # the number of the next line in its file

    def line(self, text: str) -> None:
        if self._away is not None:
            self._away.append(text)
            return
        if self._glue and not text.startswith("#"):
            self.own[-1] += text
        else:
            self.own.append(text)
            self._next += 1
        self._glue = False

    def mark(self, text: str, number: int, file: str, flags: str, own: bool) -> None:
        """Process a line `# number "file" flags`."""
        if not own:
            self._away = [] if self._away is None else self._away
            self._away.append(text)
            return
        near = self._away is None and file == self._file
        near = near and flags[:2] not in (" 1", " 2") and number <= self._next + _GAP
        if near and number >= self._next:
            self.own += [""] * (number - self._next)
        elif near and not self.own[-1].startswith("#"):
            # Words of a macro, or the text after them, continue the previous line.
            self._glue = True
            return
        else:
            self.end_aside()
            # The flags must stay: gcc uses them to count the files entered and left.
            self.own.append(text)
        self._file, self._next = file, number

    def end_aside(self) -> None:
        if self._away is not None:
            self.own.append(f"//@aside {len(self.aside)}")
            self.aside.append("\n".join(self._away))
            self._away = None
