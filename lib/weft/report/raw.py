"""Convert the watch build's JSON to reports on the reader's lines.

kernels/simt/watch/simt_check.h documents the JSON. It gives places as offsets in
libraries, which places.py maps to lines. The mapping takes a few milliseconds, so it
runs only when a report is viewed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ..base.paths import COMMON, KERNELS, SIMT
from .costs import CostPlace, Counters
from .cures import IN_PLACE, UPDATE, guard, in_c, of_one_warp
from .model import Finding, Listing, ProgramReport, Report
from .places import (
    Frame,
    Index,
    find_column,
    find_element,
    find_line,
    find_places,
    list_following,
    one_statement,
    one_way,
    only_array,
    plain_callee,
    split_subscript,
)
from .turns import Barriers, Turns, add_turns, find_cuda_loops, find_turns

_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/local/include/", "/opt/", f"{SIMT}/")
# A function in these files counts as one instruction, so its cost is the caller's.
_INSTRUCTIONS = {
    *(str(COMMON / name) for name in ("ptx.cuh", "hopper.cuh", "hopper_twin.h")),
    str(KERNELS / "matmul" / "wgmma.cuh"),
}
_PLACES = ("site", "other_site")
_UNNAMED = re.compile(r"(.*) uses the index (-?\d+) of an array that has")
_LONGEST = 1 << 12  # maximum size of a basic block, in bytes
_NEAR = 40  # number of lines above an access that are searched for its guard


class Readers(Protocol):
    """A selection of the files that belong to the reader."""

    def name(self, file: str) -> str:
        """Return the display name of a file; "" if it is not the reader's."""
        ...

    def sources(self, names: Sequence[str]) -> list[Listing]:
        """Return the texts of the named files; omit files without a known text."""
        ...


class Files:
    """The files of a program, without those of the system, kernels/simt and PTX.

    File names are paths relative to the working folder.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = Path(folder or os.getcwd())
        self.name = functools.cache(self._name)

    def _name(self, file: str) -> str:
        path = os.path.normpath(self.folder / file)
        if path in _INSTRUCTIONS or path.startswith(_SYSTEM):
            return ""
        if not os.path.isfile(path):
            return ""
        return path.removeprefix(f"{self.folder}{os.sep}")

    def sources(self, names: Sequence[str]) -> list[Listing]:
        listings = []
        for name in names:
            with contextlib.suppress(OSError):
                text = (self.folder / name).read_text(errors="replace")
                listings.append(Listing(name, 1, text))
        return listings


def launch_report(
    text: str,
    readers: Readers,
    kernel: str,
    shape: tuple[Index, Index],
    seconds: float = 0.0,
    more: Sequence[Finding] = (),
) -> Report:
    """Return the report of one launch of a cell's kernel.

    shape: grid and block of the launch. more: findings in addition to those in `text`.
    """
    parsed = _Raw(text, readers)
    counters = Counters()
    for entry in parsed.raw["kernels"]:
        counters = parsed.counters(entry)
    findings = [dataclasses.replace(f, kernel="") for f in parsed.findings()]
    findings += more
    sources = readers.sources(_rank_files(findings, [counters]))
    return Report(kernel, *shape, findings, counters, None, seconds, sources)


def program_report(text: str, readers: Readers, program: str) -> ProgramReport:
    """Return the report of a program, with each kernel's launches summed."""
    parsed = _Raw(text, readers)
    findings = parsed.findings()
    kernels = []
    for entry in parsed.raw["kernels"]:
        counters = parsed.counters(entry)
        grid, block = _parse_index(entry.get("grid")), _parse_index(entry.get("block"))
        files = [place.file for place in counters.places if place.file]
        if files:
            counters.file = max(set(files), key=files.count)
        launch = grid or (1, 1, 1), block or (1, 1, 1), [], counters
        kernels.append(Report(entry["name"], *launch))
        kernels[-1].launches = entry.get("launches", 1)
    names = _rank_files(findings, [kernel.counters for kernel in kernels])
    sources = readers.sources(names)
    for report in kernels:
        report.sources = sources
    return ProgramReport(program, findings, kernels, sources)


def list_findings(text: str) -> list[dict[str, Any]]:
    """Return the findings of the JSON text, without looking up their places."""
    return json.loads(text)["findings"]


# ---- details ------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Where:
    """A place in one of the reader's files.

    compiled: the compiler's column. callee: the inlined function that made the access.
    """

    file: str = ""
    line: int = 0
    compiled: int = 0
    callee: str = ""


class _Raw:
    """The parsed JSON and the source places of its sites."""

    def __init__(self, text: str, readers: Readers) -> None:
        self.raw = json.loads(text)
        self.readers = readers
        self._frames = self._look_up_frames()
        self._texts: dict[str, list[Listing]] = {}

    def _look_up_frames(self) -> dict[tuple[int, int], list[Frame]]:
        sites = [f.get(key) for f in self.raw["findings"] for key in _PLACES]
        for kernel in self.raw["kernels"]:
            entries = (*kernel.get("sites", ()), *kernel.get("steps", ()))
            sites += [entry["site"] for entry in entries]
        offsets_of: dict[int, set[int]] = {}
        for module, offset, *_ in filter(None, sites):
            offsets_of.setdefault(module, set()).add(offset)
        frames = {}
        for module, offsets in offsets_of.items():
            places = find_places(self.raw["modules"][module], offsets)
            frames |= {(module, offset): found for offset, found in places.items()}
        return frames

    def where(self, site: Sequence[int] | None) -> _Where:
        """Return the innermost place of a site within the reader's source."""
        frames = self._frames.get((site[0], site[1]), []) if site else []
        inner = ""
        for depth, frame in enumerate(frames):
            if name := self.readers.name(frame.file):
                compiled = 0 if depth else frame.column
                return _Where(name, frame.line, compiled, inner)
            inner = plain_callee(frame.function) or inner
        return _Where()

    def line(self, place: _Where) -> str:
        """Return the text of the reader's line."""
        return find_line(self._listings(place.file), place.file, place.line)

    def _listings(self, file: str) -> list[Listing]:
        """Return the text of one of the reader's files."""
        if file not in self._texts:
            self._texts[file] = self.readers.sources([file])
        return self._texts[file]

    def column(self, place: _Where, array: str = "") -> int:
        return find_column(self.line(place), place.compiled, array, place.callee)

    # ---- findings

    def findings(self) -> list[Finding]:
        """Return the findings, merged by place because the compiler duplicates code."""
        merged: dict[Any, Finding] = {}
        for raw in self.raw["findings"]:
            finding = self._finding(raw)
            key = (finding.kind, finding.kernel, finding.array, finding.thread is None)
            key += (finding.file, finding.line, finding.column)
            key += (finding.other_file, finding.other_line)
            # If the rewriter changed much of the line, finding.column may be wrong.
            key += (raw.get("column"),)
            if not finding.line:
                key += (finding.text,)
            if other := merged.get(key):
                count = other.count + finding.count
                both = other.one_warp and finding.one_warp
                finding = dataclasses.replace(other, count=count, one_warp=both)
            merged[key] = finding
        return [self._add_cure(one) for one in of_one_warp(list(merged.values()))]

    def _finding(self, raw: Mapping[str, Any]) -> Finding:
        place, array = self.where(raw.get("site")), raw.get("array") or ""
        if raw["kind"] == "stack" and not place.line and raw.get("site"):
            # A function with a large frame overflows the stack at its first call, which
            # is outside the reader's source.
            module, start = raw["site"]
            place = self._first(module, start, start + _LONGEST)
        other_place = self.where(raw.get("other_site"))
        name = self.readers.name(raw.get("file") or "")
        # For a fault of array bounds, the compiler passes the line and the column.
        if raw.get("line") and name:
            place = _Where(name, raw["line"], raw.get("column") or 0)
        file, line, column = place.file, place.line, 0
        index, text = raw.get("index"), raw["text"]
        if line:
            column = self.column(place, array)
            text = one_way(text, self.line(place), place.compiled)
        if not array and index is not None and line:
            array = only_array(self.line(place), column)
            if array:
                text = _UNNAMED.sub(rf"\1 uses {array}[\2]: {array} has", text)
        finding = Finding(
            kind=raw["kind"],
            text=text,
            file=file,
            line=line,
            column=column,
            block=_parse_index(raw.get("block")),
            thread=_parse_index(raw.get("thread")),
            other=_parse_index(raw.get("other")),
            array=array or None,
            index=_parse_index(index),
            count=raw.get("count", 1),
            other_line=other_place.line,
            kernel=raw.get("kernel") or "",
            other_file=other_place.file if other_place.file != file else "",
        )
        if finding.kind == "race" and line:
            turns = self._turns(raw, finding)
            finding = dataclasses.replace(
                finding,
                text=add_turns(finding.text, turns) if turns else finding.text,
                pattern=self._pattern(finding, other_place),
                turns=turns,
                one_warp=bool(raw.get("one_warp")),
            )
        return finding

    def _add_cure(self, finding: Finding) -> Finding:
        """Return the finding with its usual cure added."""
        cure = self._guard(finding) if finding.kind == "bounds" and finding.line else ""
        if not cure:
            waits = self._barriers(finding.kernel)
            cure = in_c(finding, self._space(finding.array or ""), waits)
        return dataclasses.replace(finding, cure=cure)

    def _turns(self, raw: Mapping[str, Any], finding: Finding) -> Turns | None:
        """Return the loop turns of a race's two accesses; None if they are unknown."""
        barriers = raw.get("barriers")
        if not barriers or finding.other_file or not finding.other_line:
            return None
        at = barriers["at"]
        if any(self.readers.name(place["file"]) != finding.file for place in at):
            return None
        lines = [place["line"] for place in at]
        record = Barriers(
            lines[barriers["last"]] if at else 0,
            {place["line"]: place["visits"] for place in at},
            {place["line"]: dict(zip(lines, place["before"])) for place in at},
        )
        loops = []
        for source in self._listings(finding.file):
            loops += find_cuda_loops(source.text, source.first)
        return find_turns(loops, record, finding.line, finding.other_line)

    def _guard(self, finding: Finding) -> str:
        """Return the guard against an access outside an array; "" if there is none."""
        if "since the launch gave" in finding.text:
            return ""
        array, numbers = (
            finding.array or "",
            range(finding.line - _NEAR, finding.line + 1),
        )
        lines = [self.line(_Where(finding.file, n)) for n in numbers if n > 0]
        parts = split_subscript(lines[-1], finding.column, array)
        return guard(array, parts, finding.index or (), "\n".join(lines), "if ({})")

    def _barriers(self, kernel: str) -> bool:
        """Return whether a kernel has reached any barrier."""
        kernels = self.raw["kernels"]
        return any(k.get("barriers") and k["name"] == kernel for k in kernels)

    def _pattern(self, finding: Finding, other_place: _Where) -> str:
        """Return a race's pattern, or "".

        UPDATE is the pattern of s[0] += 1, and IN_PLACE is that of x[i] = x[i + 1].
        """
        if finding.other_file or not other_place.line:
            return ""
        other_column = self.column(other_place, finding.array or "")
        ends = (finding.line, finding.column), (other_place.line, other_column)
        in_place = " reads " in finding.text and " writes " in finding.text
        if ends[0] == ends[1]:
            moves = in_place and _copies_in_array(
                self.line(other_place), finding.array or ""
            )
            return IN_PLACE if moves else UPDATE
        (first, start), (end_line, end_column) = sorted(ends)
        numbers = range(first, end_line + 1)
        rows = [self.line(_Where(finding.file, number)) for number in numbers]
        if not one_statement(rows, start, end_column):
            return ""
        texts = [find_element(rows[at - first], column) for at, column in ends]
        if texts[0] and texts[0] == texts[1]:
            return UPDATE
        return IN_PLACE if in_place else ""

    def _space(self, array: str) -> str:
        for kernel in self.raw["kernels"]:
            for site in kernel.get("sites", ()):
                if site.get("array") == array:
                    return site["space"]
        return ""

    # ---- counters

    def counters(self, kernel: Mapping[str, Any]) -> Counters:
        """Return a kernel's counters by place in the reader's source."""
        places: dict[Any, CostPlace] = {}
        for raw in kernel.get("sites", ()):
            _gather(places, self._place(raw))
        steps = kernel.get("steps", ())
        places_of = self._steps([raw["site"] for raw in steps])
        for raw, place in zip(steps, places_of):
            if place.line:
                at = dict(file=place.file, line=place.line, column=place.compiled)
                counts = raw["threads"], raw["executions"]
                _gather(places, CostPlace(*counts, kind="step", last=place.line, **at))
        names = ("blocks", "threads", "warps", "barriers")
        names += ("copied", "copied_past", "shared")
        sums = {name: kernel.get(name, 0) for name in names}
        return Counters(**sums, places=list(places.values()))

    def _steps(self, sites: Sequence[Sequence[int]]) -> list[_Where]:
        """Return the places of steps.

        A kernel's first step begins in the code that calls the kernel. The step's place
        is therefore the first place in the reader's source before the next step.
        """
        ends = sorted((site[0], site[1]) for site in sites if site)
        places = []
        for site in sites:
            place = self.where(site)
            if not place.line and site:
                following = ends.index((site[0], site[1])) + 1
                stop = site[1] + _LONGEST
                if following < len(ends) and ends[following][0] == site[0]:
                    stop = min(stop, ends[following][1])
                place = self._first(site[0], site[1], stop)
            places.append(place)
        return places

    def _first(self, module: int, start: int, end: int) -> _Where:
        """Return the reader's first place between two offsets."""
        path = self.raw["modules"][module]
        offsets = list_following(path, start, end)
        for at, frames in find_places(path, offsets).items():
            self._frames[module, at] = frames
        places = (self.where((module, at)) for at in offsets)
        return next((place for place in places if place.line), _Where())

    def _place(self, raw: Mapping[str, Any]) -> CostPlace:
        source, array = self.where(raw["site"]), raw.get("array") or ""
        wavefronts = raw.get("wavefronts") or 0
        at = dict(file=source.file, line=source.line)
        at["column"] = self.column(source, array) if source.line else 0
        access = dict(kind=raw["kind"], space=raw["space"], array=array)
        counts = raw["accesses"], raw["requests"]
        place = CostPlace(*counts, **access, **at, size=raw.get("size") or 0)
        if place.space == "global":
            place.sectors = raw.get("sectors") or 0
        if place.space == "shared":
            place.wavefronts = wavefronts
            place.conflicts = wavefronts - (raw.get("needed") or 0)
        return place


def _copies_in_array(line: str, array: str) -> bool:
    """Return whether a line copies one array element to another: x[i] = x[i + 1].

    The function compares texts: after rewriting, both columns may belong to one.
    """
    matches = list(re.finditer(rf"\b{re.escape(array)}(?=\s*\[)", line))
    starts = [len(line[: match.start()].encode()) for match in matches]
    texts = [find_element(line, start) for start in starts]
    ends = [match.start() + len(text) for match, text in zip(matches, texts)]
    is_set = any(re.match(r"\s*=(?!=)", line[end:]) for end in ends)
    return is_set and len(set(texts)) > 1


def _gather(places: dict[Any, CostPlace], place: CostPlace) -> None:
    """Add a place to `places`. Sum equal places, since compilers duplicate code."""
    key = place.kind, place.space, place.array, place.size
    key += place.file, place.line, place.column
    if places.setdefault(key, place) is not place:
        places[key].add(place)


def _rank_files(findings: Sequence[Finding], counters: Sequence[Any]) -> list[str]:
    """Return the files named in findings and counters, the most frequent first."""
    files = [finding.file for finding in findings]
    files += [place.file for total in counters for place in total.places]
    unique = dict.fromkeys(file for file in files if file)
    return sorted(unique, key=lambda file: -files.count(file))


def _parse_index(value: int | Sequence[int] | None) -> Index | None:
    """Return an index from JSON, which may be a single number, as a tuple."""
    value = (value,) if isinstance(value, int) else value
    return None if value is None else tuple(value)
