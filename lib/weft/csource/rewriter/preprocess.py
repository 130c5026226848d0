"""A program's source with its headers as one text, and columns of it mapped back.

From a column of a rewritten line back to the reader's line.

g++'s own preprocessor resolves macros, conditions and includes, whatever they
are. What it leaves is sorted here: the program's own text, which is rewritten,
and that of system headers and of kernels/simt, which is put aside meanwhile.
Lines keep their numbers, and `# line "file"` says where a file begins or goes on.
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


MARKER = re.compile(r'# (\d+) "((?:\\.|[^"\\])*)"((?: \d)*)')
_ASIDE = re.compile(r"^//@aside (\d+)$", re.M)
_QUOTED = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n"}
_GAP = 99  # blank lines that stand for what the preprocessor skipped, at most


@dataclass(frozen=True)
class PreprocessedSource:
    """Preprocessed text: `own` is the program's, with //@aside lines in it."""

    own: str
    aside: tuple[str, ...]  # the texts of system headers
    files: tuple[str, ...]  # every file read, system headers included

    def restore(self, own: str) -> str:
        """`own`, after it was rewritten, with the system headers back in place."""
        return _ASIDE.sub(lambda match: self.aside[int(match[1])], own)


def split(text: str, simt: str) -> PreprocessedSource:
    """Sort what `g++ -E -include SIMT/program.h` printed.

    The files under `simt` are not the program's own, and program.h is left out:
    the rewritten text includes it again, for its macros.
    """
    lines = text.split("\n")
    marks = [MARKER.fullmatch(line) for line in lines]
    # A system header's macro, too, marks its words as a system header's: 3.
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
    """The file that a `# line "file"` names, without the backslashes of g++."""

    def plain(match: re.Match[bytes]) -> bytes:
        word = match[1]
        return bytes([int(word, 8)]) if len(word) == 3 else _LETTERS.get(word, word)

    return os.fsdecode(_QUOTED.sub(plain, os.fsencode(name)))


def find_position(text: str, offset: int) -> tuple[str, int] | None:
    """The file and line at `offset` of a text with `# line "file"` in it."""
    before = text[:offset].split("\n")[:-1]
    for back, row in enumerate(reversed(before)):
        if mark := MARKER.fullmatch(row):
            return unquote_name(mark[2]), int(mark[1]) + back
    return None


def merge(
    host: PreprocessedSource, device: PreprocessedSource, kind: Callable[[int], str]
) -> PreprocessedSource:
    """What the two passes of nvcc saw, as one text.

    host, device: without and with __CUDA_ARCH__. Where they differ, device code
    is what the second saw and other functions what the first saw; between
    functions, whatever either of them saw, except for device code that only
    the first saw: that is for GPUs that lack something. kind(offset into
    device.own) is "device", "host" or "" for between.
    """
    a, b = host.own.split("\n"), device.own.split("\n")
    starts = [0]
    for line in b:
        starts.append(starts[-1] + len(line) + 1)
    out: list[str] = []
    for tag, i, i_end, j, j_end in difflib.SequenceMatcher(
        None, a, b, autojunk=False
    ).get_opcodes():
        ours, theirs = a[i:i_end], b[j:j_end]
        if tag != "equal":
            where = kind(starts[min(j, len(b) - 1)])
            empty = not any(line.strip() for line in theirs)
            between = where == "" and empty and "__device__" not in "".join(ours)
            theirs = ours if where == "host" or between else theirs
        out += theirs
    # Both passes read the same system headers in the same order, or the text
    # would name one that the device's list does not have.
    if host.aside != device.aside:
        return device
    files = tuple(sorted({*host.files, *device.files}))
    return PreprocessedSource("\n".join(out), device.aside, files)


def _after_program_h(marks: list[re.Match[str] | None], simt: str) -> int:
    inside = False
    for i, mark in enumerate(marks):
        if mark and mark[2] == f"{simt}/program.h" and mark[3].startswith(" 1"):
            inside = True
        elif inside and mark and mark[2] == "<command-line>":
            return i + 1
    raise ValueError(f"{simt}/program.h is not in the preprocessed text")


class _Sorter:
    """Takes the lines one by one and keeps the program's own at their numbers."""

    def __init__(self) -> None:
        self.own: list[str] = []
        self.aside: list[str] = []
        self._away: list[str] | None = None  # the system header's lines so far
        self._glue = False  # the next line continues the last one
        self._file = ""
        self._next = 0  # the number, in its file, of the line that comes next

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
        """A `# number "file" flags`."""
        if not own:
            self._away = [] if self._away is None else self._away
            self._away.append(text)
            return
        here = self._away is None and file == self._file
        here = here and flags[:2] not in (" 1", " 2") and number <= self._next + _GAP
        if here and number >= self._next:
            self.own += [""] * (number - self._next)
        elif here and not self.own[-1].startswith("#"):
            # Words of a macro, or what follows them: the line before goes on.
            self._glue = True
            return
        else:
            self.end_aside()
            # Flags say which file was entered or left: gcc counts them.
            self.own.append(text)
        self._file, self._next = file, number

    def end_aside(self) -> None:
        if self._away is not None:
            self.own.append(f"//@aside {len(self.aside)}")
            self.aside.append("\n".join(self._away))
            self._away = None
