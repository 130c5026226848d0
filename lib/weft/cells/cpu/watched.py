"""Launch a kernel under the watch build, and show the findings below the cell.

The runtime's memory contains the copies of the arrays. The runtime tracks where each
copy begins and ends, and which of its bytes have been written. It returns its findings
as JSON text (simt_check.h). Python parses the text into a report only on demand, so a
launch without errors costs only the time to write the text.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...base.errors import KernelFault, running_shell
from ...report import raw
from ...report.html import show
from ...report.model import CellSource, Finding, Report
from ...report.text import write_finding
from ..arguments import Array
from . import arena, faults
from .arena import Reached
from .launch import CpuLauncher, Prepared, ffi, open_runtime

if TYPE_CHECKING:
    from ..module import Cell


_last: WatchedLaunch | None = None
_gathering: list[list[Finding]] = []  # one list for each open gather()


def keep_report(launch: WatchedLaunch) -> None:
    """Store a launch's observations, and add its findings to all open gather()s."""
    global _last
    _last = launch
    if _gathering and not launch.ok:
        for findings in _gathering:
            findings += launch.report.findings


@contextlib.contextmanager
def gather() -> Iterator[list[Finding]]:
    """Yield a list that receives the findings of all watched launches in the block.

    The list includes findings that have been shown before.
    """
    findings: list[Finding] = []
    _gathering.append(findings)
    try:
        yield findings
    finally:
        _gathering.remove(findings)


def last_report() -> Report | None:
    """Return the Report of the last launch under the watch build, or None.

    The report contains the launch's errors and the cost of each source line.
    """
    return _last.report if _last is not None else None


def tell(module: Cell, launch: WatchedLaunch, always: bool = False) -> None:
    """Show the findings of a completed launch that are new in this run of the cell.

    always: also show findings that have been shown before.
    """
    if launch.ok:
        return
    running = running_shell()
    run = running.execution_count if running is not None else None
    new_findings = []
    for one in launch.report.findings:
        key = run, one.kind, one.file, one.line, one.column, one.array
        if always or key not in module.shown_findings:
            module.shown_findings.add(key)
            new_findings.append(one)
    if new_findings:
        shown_report = copy.copy(launch.report)
        shown_report.findings = new_findings
        show(shown_report)
        launch.report.cell = shown_report.cell


TIMEOUT = 60.0  # default time limit of a watched launch, in seconds
WAIT = re.compile(r"(?P<thread>thread .*?): ran longer .*?; it (?P<wait>waits .*)")
SLOWDOWN = "about 20 times slower than the plain build"
ENDING = {
    *("bounds", "use-after-free", "misaligned", "host-pointer", "deadlock", "hang"),
    "stack",
}

ffi.cdef("""
void simt_check_begin(void);
char *simt_check_report(void);
void simt_check_counters(int on);
void simt_check_races(int on);
void simt_check_free(char *report);
void *simt_check_alloc(size_t size, size_t element, const char *name, int initialised);
void simt_check_release(void *memory);
""")
_turn = threading.Lock()  # the runtime would mix up the data of concurrent launches


@dataclass
class WatchedLaunch:
    """The runtime's observations of one launch, as its JSON `text`.

    more: findings in addition to those in the text.
    """

    text: str
    readers: CellSource
    kernel: str
    shape: tuple[tuple[int, int, int], tuple[int, int, int]]
    seconds: float
    more: Sequence[Finding] = ()

    @property
    def ok(self) -> bool:
        """Whether there are no findings, without parsing a report."""
        return not self.count

    @functools.cached_property
    def count(self) -> int:
        """The number of findings, without parsing a report."""
        return len(raw.list_findings(self.text)) + len(self.more)

    @functools.cached_property
    def report(self) -> Report:
        """The findings, and the counters of each source line."""
        facts = self.kernel, self.shape, self.seconds, self.more
        return raw.launch_report(self.text, self.readers, *facts)


class CheckedLauncher(CpuLauncher):
    """A launcher for a library that was compiled with the watch build's flags.

    last: observations of the last launch.
    watch: called with each launch's WatchedLaunch.
    """

    def __init__(self, *args: Any, readers: CellSource, **options: Any) -> None:
        if options.get("timeout") is None:
            options["timeout"] = TIMEOUT
        super().__init__(*args, **options)
        self.readers = readers
        self.last: WatchedLaunch | None = None
        self.watch: Callable[[WatchedLaunch], None] = lambda launch: None

    def _fence(self, arrays: Sequence[Array | None], reached: Reached | None) -> Any:
        kinds = [t for p, t in zip(self.params, self.binder.types) if p.pointer]
        names = [""] * len(kinds)
        if reached is not None:
            kinds += reached.types
            names += [p.name for p in reached.params]
        sizes = [
            kind.size if kind else array.itemsize if array else 1
            for kind, array in zip(kinds, arrays)
        ]
        return CheckedArena(arrays, self._alignments(reached), sizes, names)

    def _run(self, launch: Prepared) -> None:
        simt = open_runtime()
        failure = None
        with _turn:
            simt.simt_check_begin()
            begin = time.perf_counter()
            try:
                super()._run(launch)
            except KernelFault as fault:
                # The traceback would keep the arrays alive.
                failure = fault.with_traceback(None)
            seconds = time.perf_counter() - begin
            text = raw_report()
        readers = self.readers
        shape = tuple(launch.config[:3]), tuple(launch.config[3:])
        more = [] if failure else faults.find_unset(launch, self.name, readers.texts)
        self.last = WatchedLaunch(text, readers, self.name, shape, seconds, more)
        self.watch(self.last)
        if failure is not None:
            raise _explain(failure, self.last, self.timeout)


class CheckedArena(arena.Arena):
    """The copies of a launch's arrays in memory that the runtime tracks.

    sizes: size in bytes of each array's elements.
    names: name of each array; "" for the kernel's own parameters, which the runtime
        names.
    """

    def __init__(
        self,
        arrays: Sequence[Array | None],
        align: Sequence[int],
        sizes: Sequence[int],
        names: Sequence[str],
    ) -> None:
        self.arrays, self.regions = arrays, []
        parts = arena.merge_spans(arrays, align)
        self._ends = [end for _, end, _ in parts]
        starts = {a.address: size for a, size in zip(arrays, sizes) if a}
        labels = {a.address: name.encode() for a, name in zip(arrays, names) if a}
        for start, end, _ in parts:
            nbytes = end - start
            memory = open_runtime().simt_check_alloc(
                nbytes, starts.get(start, 1), labels.get(start) or ffi.NULL, 1
            )
            if memory == ffi.NULL:
                self.release()
                text = f"no memory for a watched copy of {nbytes} bytes"
                raise MemoryError(f"{text}; --fast selects the plain build")
            at = int(ffi.cast("uintptr_t", memory))
            self.regions.append(arena.Region(at, nbytes, 0, at, start, nbytes))
            if nbytes:
                arena.move(at, start, nbytes)

    def find_overwritten(self) -> int | None:
        """Return None, since the runtime reports a stray access when it happens."""
        return None

    def release(self) -> None:
        """Return the memory to the runtime."""
        for region in self.regions:
            open_runtime().simt_check_release(ffi.cast("void *", region.base))
        self.regions = []


def raw_report() -> str:
    """Return the runtime's data since simt_check_begin(), as JSON (simt_check.h)."""
    text = open_runtime().simt_check_report()
    if text == ffi.NULL:
        raise MemoryError("no memory for the report of a watched launch")
    try:
        return ffi.string(text).decode(errors="replace")
    finally:
        open_runtime().simt_check_free(text)


def _explain(fault: KernelFault, launch: WatchedLaunch, timeout: float) -> KernelFault:
    """Return the fault with its source line, its findings and the report."""
    report = launch.report
    ending = next((one for one in report.findings if one.kind in ENDING), None)
    message, block, thread = str(fault), fault.block, fault.thread
    if ending is not None:
        text = ending.text
        if "ran longer than the limit" in text:
            text = _describe_end(text, timeout)
        message = _with_line(report, ending, f"{launch.kernel}: {text}")
        block, thread = ending.block, ending.thread
    else:  # for an assertion or a division by zero, the fault is clearer
        raised = (one for one in report.findings if one.kind == "exception")
        if ending := next(raised, None):
            text = re.sub(r" \(line \d+\)$", "", message.removesuffix(faults.AS_BEFORE))
            message = _with_line(report, ending, text)
    other_findings = [one for one in report.findings if one is not ending]
    parts = [message, *(write_finding(report, one) for one in other_findings[:3])]
    error = KernelFault("\n".join(parts), launch.kernel, block, thread)
    error.report, error.kind = report, fault.kind
    return error


def _describe_end(text: str, timeout: float) -> str:
    """Describe a launch that reached its time limit: a thread's wait, or advice."""
    if wait := WAIT.match(text):
        return f"after {timeout:g} s, {wait['thread']} still {wait['wait']}"
    return (
        f"it ran longer than {timeout:g} s under the watch build, {SLOWDOWN}, "
        f"and was stopped: allow more time with timeout= (--timeout), or run "
        f"it unwatched (--fast)"
    )


def _with_line(report: Report, one: Finding, text: str) -> str:
    """Return a sentence on a finding, its source line with a caret, and its cure."""
    rows = write_finding(report, one).splitlines()
    place = f" ({one.file}, line {one.line})" if one.line else ""
    return "\n".join([f"{text}{place}{faults.AS_BEFORE}", *rows[1:]])
