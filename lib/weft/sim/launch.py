"""A launch of a Python kernel on the simulator."""

from __future__ import annotations

import dataclasses
import operator
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..jit.config import Config
from ..jit.faults import KernelFault
from ..native import ArgumentError
from ..python_kernel import PythonKernel
from ..report import Finding, Report, named, position
from . import atomics, faults, memory
from .judge import Judge
from .kinds import ANY, POSITIVE, WHOLE
from .log import Log, Spread, site_of
from .memory import View
from .numbers import NUMBERS, cast, math_function
from .places import SITES, Entity, Place
from .program import Program
from .record import ATOMIC, GLOBAL, LOCAL, READ, SHARED, WRITE, Array, Trace
from .schedule import run_barriers, run_block, run_plain
from .watchdog import Watchdog

_CASTS = {
    f".cast_{np.dtype(name).name}": cast(np.dtype(name))
    for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
}


class Launch:
    """One launch: its arrays, its log, and the blocks one after another."""

    def __init__(
        self,
        kernel: PythonKernel,
        program: Program,
        config: Config,
        args: Sequence[Any],
        timeout: float,
    ) -> None:
        self.kernel, self.program, self.config = kernel, program, config
        self.timeout = timeout
        self.places = program.places
        self.blocks = config.grid[0] * config.grid[1] * config.grid[2]
        self.arrays: list[Array] = []
        self.raws: dict[int, np.ndarray] = {}  # by entity
        self.numbers: dict[int, int] = {}  # of the launch's arrays, by entity
        self.findings: dict[Any, Finding] = {}
        self.at: tuple[int, int, int] | None = None
        self.names: dict[tuple[int, int], dict[str, int]] = {}
        self.trace: Trace | None = None
        self._room: np.ndarray | None = None
        self.spread: dict[int, Spread] = {}  # by the numbers of arrays
        self.env: dict[str, Any] = {**_CASTS, **NUMBERS, **program.constants}
        self.args = self._arrange(args)
        self._judge: Judge | None = None
        self.log: Log | None = None
        if program.checks:
            self._record()
        self._environment()

    # ---- arrays ----

    def _arrange(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Number the arrays; the arguments as the kernel gets them."""
        checks = self.program.checks
        given = []
        memories = _memories([a for a in args if isinstance(a, np.ndarray)])
        names = iter(self.kernel.parameters)
        entities = iter([e for e in self.program.entities if e.origin == "parameter"])
        for value in args:
            name = next(names)
            if not isinstance(value, np.ndarray):
                given.append(value)
                continue
            entity = next(entities)
            where = memories[id(value)]
            self._register(entity, name, GLOBAL, value, True, *where)
            if where[0] >= 0 and not value.flags.c_contiguous:
                self._spread(value)
            given.append(self._view(entity) if checks else value)
        for entity in self.program.entities:
            if entity.origin == "constant":
                self._register(entity, entity.name, GLOBAL, entity.value, True)
            elif entity.origin == "shared":
                self._shared(entity)
            elif entity.origin == "local":
                self._local(entity)
        return tuple(given)

    def _register(
        self,
        entity: Entity,
        name: str,
        space: str,
        raw: np.ndarray,
        written: bool,
        number: int = -1,
        offset: int = 0,
    ) -> None:
        self.raws[entity.number] = raw
        self.numbers[entity.number] = len(self.arrays)
        self.arrays.append(
            Array(name, space, raw.shape, raw.dtype, written, number, offset)
        )

    def _spread(self, raw: np.ndarray) -> None:
        """Number the last array's elements by where they lie in a memory it shares.

        What is told of it is then one row of all elements that it spans.
        """
        size = raw.dtype.itemsize
        low, high = np.lib.array_utils.byte_bounds(raw)
        if any(step % size for step in raw.strides):
            return
        first = raw.__array_interface__["data"][0] - low
        steps = tuple(step // size for step in raw.strides)
        self.spread[len(self.arrays) - 1] = (raw.shape, steps, first // size)
        last = self.arrays[-1]
        self.arrays[-1] = dataclasses.replace(last, shape=((high - low) // size,))

    def _view(self, entity: Entity) -> View:
        return View(self.raws[entity.number], self.numbers[entity.number], entity.name)

    def _shared(self, entity: Entity) -> None:
        if not entity.dynamic:
            raw = np.empty(entity.shape, entity.dtype)
            self._register(entity, entity.name, SHARED, raw, False)
            return
        size = self.config.shared
        if size < entity.dtype.itemsize:
            raise ArgumentError(
                f"{self.kernel.name}: {entity.name} takes its size from the launch, "
                f"which gives {size} bytes: {self.kernel.name}[grid, block, stream, "
                f"bytes]"
            )
        if self._room is None:
            self._room = np.empty(-(-size // 16) * 2, np.complex128).view(np.uint8)
        count = size // entity.dtype.itemsize
        raw = self._room[: count * entity.dtype.itemsize].view(entity.dtype)
        self._register(entity, entity.name, SHARED, raw, False, 1 << 20)

    def _local(self, entity: Entity) -> None:
        pattern = np.empty(entity.shape, entity.dtype)
        memory.poison(pattern)
        self._register(entity, entity.name, LOCAL, pattern, False)
        number = self.numbers[entity.number]
        if self.program.checks:
            made: Callable[[], Any]
            made = lambda: View(pattern.copy(), number, entity.name)  # noqa: E731
        else:
            made = pattern.copy
        self.env[f".new{entity.number}"] = made

    # ---- what code finds by name ----

    def _environment(self) -> None:
        grid, block = self.config.grid, self.config.block
        for axis, sides in enumerate(zip(block, grid)):
            self.env[f".n{'xyz'[axis]}"], self.env[f".g{'xyz'[axis]}"] = sides
        for entity in self.program.entities:
            raw = self.raws[entity.number]
            self.env[f".r{entity.number}"] = raw
            self.env[f".v{entity.number}"] = self._view(entity)
            for axis, side in enumerate(raw.shape):
                self.env[f".d{entity.number}_{axis}"] = side
        self.env |= {
            ".get": self.get,
            ".put": self.put,
            ".put_field": self.put_field,
            ".atomic": self.atomic,
            ".atomic_plain": self.atomic_plain,
            ".ix": operator.index,
            ".slice": slice,
            ".names": self.keep_names,
        }
        for variant in self.program.variants:
            for name in variant.uses:
                if name.startswith(".math_"):
                    self.env[name] = math_function(name[6:])

    def _record(self) -> None:
        sites = [
            site_of(p, self.numbers[p.entity.number] if p.entity else -1)
            for p in self.program.sites
        ]
        self.log = Log(sites, self.spread)
        self._judge = Judge(self.arrays, sites, self.config.grid, self.config.block)
        self.env[".log"] = self.log.entries.append
        self.env[".val"] = self.log.values.append
        if self.program.trace:
            grid, block = self.config.grid, self.config.block
            self.trace = Trace(self.kernel.name, grid, block, self.arrays, sites)
            self.trace.names = self.names

    # ---- accesses to arrays that are known when they happen ----

    def get(self, array: Any, index: Any, number: int) -> Any:
        """array[index], written down."""
        if type(array) is not View:
            return array[index]
        place = self.places[number]
        found = array.find(index, place)
        if type(found) is View:
            return found
        key, element = found
        self._note(place, READ, array, element)
        return array.raw[key]

    def put(self, value: Any, array: Any, index: Any, number: int) -> None:
        """array[index] = value, written down."""
        if type(array) is not View:
            array[index] = value
            return
        place = self.places[number]
        found = array.find(index, place)
        if type(found) is View:
            raise TypeError(f"{array.name} is written element by element: {place.text}")
        key, element = found
        if array.raw.dtype.kind in "iu":
            value = _CASTS[f".cast_{array.raw.dtype.name}"](value)
        assert self.log is not None
        self._note(place, WRITE, array, element)
        self.log.values.append(value)
        array.raw[key] = value

    def put_field(
        self, value: Any, array: Any, index: Any, number: int, field: str
    ) -> None:
        """array[index].field = value, written down as a write of the element."""
        if type(array) is not View:
            array[index][field] = value
            return
        place = self.places[number]
        found = array.find(index, place)
        if type(found) is View:
            raise TypeError(f"a field is one of an element: {place.text}")
        key, element = found
        assert self.log is not None
        self._note(place, WRITE, array, element)
        self.log.values.append(field)  # two threads may write two fields
        array.raw[key][field] = value

    def atomic(
        self, name: str, array: Any, index: Any, value: Any, new: Any, number: int
    ) -> Any:
        """An atomic update, written down."""
        place = self.places[number]
        if type(array) is not View:
            raise TypeError(f"cuda.atomic.{name} takes an array, this is {array!r:.40}")
        found = array.find(index, place)
        if type(found) is View:
            raise TypeError(f"cuda.atomic.{name} takes one index per dimension")
        key, element = found
        self._note(place, ATOMIC, array, element)
        return atomics.update(array.raw, key, name, value, new, _CASTS)

    def atomic_plain(
        self, name: str, array: Any, index: Any, value: Any, new: Any, number: int
    ) -> Any:
        """An atomic update."""
        return atomics.update(array, index, name, value, new, _CASTS)

    def _note(self, place: Place, kind: str, array: View, element: int) -> None:
        log = self.log
        assert log is not None
        site = log.site(place, array.array)
        log.entries.append(element * SITES + site)

    def keep_names(self, number: int, found: dict[str, Any]) -> None:
        """What a thread's whole-number names hold as it ends."""
        assert self.at is not None
        self.names[_linear(self.at, self.config.grid), number] = {
            name: int(value)
            for name, value in found.items()
            if name[0] != "."
            and isinstance(value, (int, np.integer))
            and not isinstance(value, bool)
        }

    # ---- running ----

    def run(self, order: str | int) -> None:
        """Run every block; what a thread raises comes through."""
        with np.errstate(all="ignore"), Watchdog(self.timeout) as watch:
            for block, threads in _orders(self.config, order):
                watch.begin()
                self.at = position(block, self.config.grid)
                for raw in self._blank():
                    memory.poison(raw)
                body = self._make()
                schedule = self._schedule()
                schedule(self, block, body, self.args, threads)
            self.at = None
            self.judge()

    def _blank(self) -> list[np.ndarray]:
        """What is empty as a block begins."""
        entities = self.program.entities
        return [self.raws[e.number] for e in entities if e.origin == "shared"]

    def _schedule(self) -> Callable:
        if not self.program.variants[0].yields:
            return run_plain
        return run_block if self.program.general else run_barriers

    def _make(self) -> Callable:
        """The kernel as a function, for the block that begins."""
        assert self.at is not None
        self.env[".bx"], self.env[".by"], self.env[".bz"] = self.at
        for variant in reversed(self.program.callers_first):
            function = variant.function
            scope = _scope(function, self.env)
            made = FunctionType(variant.maker, function.__globals__)(
                *[scope(name) for name in variant.uses]
            )
            self.env[f".h{variant.number}"] = made
        return self.env[".h0"]

    def ended(self, block: int, number: int, warps: bool) -> None:
        """An interval of a block is over."""
        if self.log is None:
            return
        self.log.end(block, number, warps)
        if self.log.full():
            self.judge()

    def judge(self) -> None:
        """Hand over what was written down."""
        if self.log is None or self._judge is None:
            return
        for interval in self.log.take():
            self._judge.interval(interval)
            if self.trace is not None:
                self.trace.intervals.append(interval)

    # ---- what was found ----

    def uneven(self, block: int, waiting: dict[int, int], gone: Sequence[int]) -> None:
        """Some threads wait at a barrier and others elsewhere, or nowhere."""
        if not self.program.checks:
            return
        by_place: dict[int, list[int]] = {}
        for number, place in waiting.items():
            by_place.setdefault(place, []).append(number)
        main = max(by_place, key=lambda place: len(by_place[place]))
        place = self.places[main]
        rest = {p: n for p, n in by_place.items() if p != main}
        key = ("barrier", main, tuple(sorted(rest)), bool(gone))
        known = self.findings.get(key)
        if known is not None:
            self.findings[key] = _again(known)
            return
        threads = self.config.block
        here = by_place[main]
        text = f"{_several(here, threads)} of block {self._block(block)} "
        text += f"{_wait(here)} at the barrier of line {place.line}"
        others = [
            f"{_several(n, threads)} {_wait(n)} at that of line {self.places[p].line}"
            for p, n in rest.items()
        ]
        if gone:
            others.append(
                f"{_several(gone, threads)} {'has' if len(gone) == 1 else 'have'} "
                f"returned and will never come"
            )
        text += f", but {' and '.join(others)}"
        missing = gone or next(iter(rest.values()))
        self.findings[key] = Finding(
            "barrier",
            text,
            *(place.file, place.line, place.column),
            block=position(block, self.config.grid),
            thread=position(missing[0], threads),
            other=position(here[0], threads),
        )

    def _block(self, block: int) -> str:
        return named(position(block, self.config.grid), self.config.grid)

    def report(self, seconds: float) -> Report:
        """What the launch did, so far."""
        findings, counters = list(self.findings.values()), None
        if self._judge is not None:
            seen, counters = self._judge.finish()
            findings += seen
        return Report(
            self.kernel.name,
            self.config.grid,
            self.config.block,
            findings,
            counters,
            self.trace,
            seconds,
            self.program.sources,
        )

    def fail(self, error: BaseException, seconds: float) -> BaseException:
        """The exception to raise for what ended the launch; .report has the rest."""
        scene = faults.Scene(
            self.kernel.name,
            self.config.grid,
            self.config.block,
            self.program.codes,
            self.raws,
            self.at,
            self.timeout,
            self.config.shared,
            {e.name for e in self.program.entities if e.dynamic},
        )
        end = faults.explain(error, scene)
        if self.log is not None and self.at is not None:
            block = _linear(self.at, self.config.grid)
            self.log.end_early(
                block, isinstance(error, IndexError) and bool(end.finding)
            )
            self.judge()
        report = self.report(seconds)
        if end.finding is None:
            raised = faults.better(error, end, scene)
            if end.thread is not None and end.block is not None:
                raised.add_note(
                    f"in thread {named(end.thread, self.config.block)} of block "
                    f"{named(end.block, self.config.grid)} of {self.kernel.name}"
                )
            raised.report = report  # type: ignore[attr-defined]
            return faults.shortened(raised).with_traceback(end.frames)
        report.findings.insert(0, end.finding)
        name = self.kernel.name
        fault = KernelFault(f"{name}: {end.finding.text}", name, end.block, end.thread)
        fault.report = report  # type: ignore[attr-defined]
        return faults.shortened(fault).with_traceback(end.frames)


def bindings(
    kernel: PythonKernel, args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(a key that says which program fits, what its parameters are bound to)."""
    key, bound, number = [], [], 0
    for name, value in zip(kernel.parameters, args):
        if isinstance(value, np.ndarray):
            key.append((value.ndim, value.dtype))
            bound.append(Entity(number, name, "parameter", value.ndim, value.dtype))
            number += 1
            continue
        kind = ANY
        if type(value) is int:
            kind = POSITIVE if value >= 0 else WHOLE
        key.append(kind)
        bound.append(kind)
    return tuple(key), tuple(bound)


def _scope(function: FunctionType, env: dict[str, Any]) -> Callable[[str], Any]:
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))

    def find(name: str) -> Any:
        return cells[name].cell_contents if name in cells else env[name]

    return find


def _orders(config: Config, order: str | int) -> Iterator[tuple[int, list[Any]]]:
    """(block, its threads as (x, y, z, number)) in the order in which they run."""
    (nx, ny, nz), (gx, gy, gz) = config.block, config.grid
    threads = [
        (x, y, z, (z * ny + y) * nx + x)
        for z in range(nz)
        for y in range(ny)
        for x in range(nx)
    ]
    count = gx * gy * gz
    if order == "forward":
        for block in range(count):
            yield block, threads
    elif order == "reverse":
        threads.reverse()
        for block in reversed(range(count)):
            yield block, threads
    else:
        rng = np.random.default_rng(0 if order == "shuffled" else int(order))
        for block in rng.permutation(count).tolist():
            yield block, [threads[i] for i in rng.permutation(len(threads)).tolist()]


def _memories(arrays: Sequence[np.ndarray]) -> dict[int, tuple[int, int]]:
    """For each array by id(): the number of the memory it shares, and its offset.

    (-1, 0) for a memory of its own.
    """
    bounds = sorted(
        (
            (*np.lib.array_utils.byte_bounds(a), i)
            for i, a in enumerate(arrays)
            if a.size
        ),
    )
    found = {id(a): (-1, 0) for a in arrays}
    groups: list[list[tuple[int, int, int]]] = []
    end = -1
    for low, high, index in bounds:
        if low < end:
            groups[-1].append((low, high, index))
        else:
            groups.append([(low, high, index)])
        end = max(end, high)
    for number, group in enumerate(groups):
        if len(group) > 1:
            for low, _, index in group:
                found[id(arrays[index])] = (number, low - group[0][0])
    return found


def _linear(index: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    return (index[2] * shape[1] + index[1]) * shape[0] + index[0]


def _again(found: Finding) -> Finding:
    return dataclasses.replace(found, count=found.count + 1)


def _several(numbers: Sequence[int], block: tuple[int, int, int]) -> str:
    shown = [named(position(n, block), block) for n in sorted(numbers)[:3]]
    if len(numbers) == 1:
        return f"thread {shown[0]}"
    if len(numbers) <= 3:
        return f"threads {', '.join(shown[:-1])} and {shown[-1]}"
    return f"{len(numbers)} threads ({', '.join(shown)} ...)"


def _wait(numbers: Sequence[int]) -> str:
    return "waits" if len(numbers) == 1 else "wait"


def clock() -> float:
    """Seconds, from some beginning."""
    return time.perf_counter()


def say(text: str) -> None:
    """Tell the reader, beside what the program prints."""
    print(text, file=sys.stderr)
