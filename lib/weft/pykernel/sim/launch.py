"""A launch of a Python kernel on the simulator.

The functions determine the kinds of the arguments, the order of the threads, and the
arrays that overlap. SimulatedLaunch runs the blocks and reports the result.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ...base.errors import ArgumentError, KernelFault
from ...report.model import Finding, Report
from ...report.places import unflatten, write_index
from ...toolchain.launch_config import LaunchConfig
from ..language import PythonKernel
from . import faults, memory, warp
from .judge import Judge
from .layout import GLOBAL, LOCAL, SHARED, Entity, Trace, TracedArray
from .log import Log, Spread, site_of
from .memory import CASTS, Accesses, ArrayView
from .names import kind_of, list_rebound
from .numbers import NUMBERS, math_function
from .plain_loops import LoopShapes
from .program import RewrittenKernel
from .schedule import Watchdog, run_barriers, run_block, run_plain


def bind_arguments(
    kernel: PythonKernel, args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return a key that selects the program, and each parameter's Entity or kind."""
    key: list[Any] = []
    bound: list[Any] = []
    numbers = itertools.count()
    for name, value in zip(kernel.parameters, args):
        if isinstance(value, np.ndarray):
            kind = value.ndim, value.dtype
            key.append(kind)
            bound.append(Entity(next(numbers), name, "parameter", *kind))
        else:
            key.append(kind_of(value))
            bound.append(key[-1])
    return tuple(key), tuple(bound)


def order_threads(
    config: LaunchConfig, order: str | int
) -> Iterator[tuple[int, list[Any]]]:
    """Yield each block and its threads, (x, y, z, number), in order of execution."""
    (nx, ny, nz), (gx, gy, gz) = config.block, config.grid
    indices = itertools.product(range(nz), range(ny), range(nx))
    threads = [(x, y, z, number) for number, (z, y, x) in enumerate(indices)]
    count = gx * gy * gz
    if order in ("forward", "reverse"):
        step = 1 if order == "forward" else -1
        threads = threads[::step]
        for block in range(count)[::step]:
            yield block, threads
    else:
        rng = np.random.default_rng(0 if order == "shuffled" else int(order))
        for block in rng.permutation(count).tolist():
            yield block, [threads[i] for i in rng.permutation(len(threads)).tolist()]


def number_memories(arrays: Sequence[np.ndarray]) -> dict[int, tuple[int, int]]:
    """Map each array's id() to (number of its memory, offset in this memory in bytes).

    Only overlapping arrays share a numbered memory; every other array has (-1, 0).
    """
    indices = [i for i, array in enumerate(arrays) if array.size]
    bounds = sorted((*np.lib.array_utils.byte_bounds(arrays[i]), i) for i in indices)
    memories = {id(a): (-1, 0) for a in arrays}
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
                memories[id(arrays[index])] = (number, low - group[0][0])
    return memories


def linear_number(index: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    """Return the number of a block or thread; x varies fastest."""
    return (index[2] * shape[1] + index[1]) * shape[0] + index[0]


class SimulatedLaunch:
    """One launch: its arrays, its log, and its blocks, one after another."""

    def __init__(
        self,
        kernel: PythonKernel,
        program: RewrittenKernel,
        config: LaunchConfig,
        args: Sequence[Any],
        timeout: float,
    ) -> None:
        self.kernel, self.program, self.config = kernel, program, config
        self.timeout = timeout
        self.places = program.places
        self.accesses = Accesses(program.places)
        self.blocks = config.grid[0] * config.grid[1] * config.grid[2]
        self.arrays: list[TracedArray] = []
        self.raws: dict[int, np.ndarray] = {}  # raw arrays, by entity number
        self.numbers: dict[int, int] = {}  # indices in self.arrays, by entity number
        self.findings: dict[Any, Finding] = {}
        self.at: tuple[int, int, int] | None = None
        self.names: dict[tuple[int, int], dict[str, int]] = {}
        self.trace: Trace | None = None
        self.at_end: list[int] = []  # threads of the block that reached the end
        # Threads that returned early from a helper since the last barrier.
        self.left: set[int] = set()
        self._room: np.ndarray | None = None
        self.spread: dict[int, Spread] = {}  # layouts, by array number
        self.env: dict[str, Any] = {**CASTS, **NUMBERS, **program.constants}
        self.args = self._arrange(args)
        self._judge: Judge | None = None
        self.log: Log | None = None
        if program.checks:
            self._record()
        self._fill_environment()

    # ---- arrays ----

    def _arrange(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Number the arrays; return the arguments as the kernel receives them."""
        checks = self.program.checks
        values = []
        shared = number_memories([a for a in args if isinstance(a, np.ndarray)])
        entities = iter([e for e in self.program.entities if e.origin == "parameter"])
        for name, value in zip(self.kernel.parameters, args):
            if not isinstance(value, np.ndarray):
                values.append(value)
                continue
            entity = next(entities)
            where = shared[id(value)]
            self._register(entity, name, GLOBAL, value, True, *where)
            if where[0] >= 0 and not value.flags.c_contiguous:
                self._spread(value)
            values.append(self._view(entity) if checks else value)
        for entity in self.program.entities:
            if entity.origin == "constant":
                self._register(entity, entity.name, GLOBAL, entity.value, True)
            elif entity.origin == "shared":
                self._add_shared(entity)
            elif entity.origin == "local":
                self._add_local(entity)
        return tuple(values)

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
            TracedArray(name, space, raw.shape, raw.dtype, written, number, offset)
        )

    def _spread(self, raw: np.ndarray) -> None:
        """Number the last array's elements by their places in its span of memory.

        The array's record then has one dimension, which covers the whole span.
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

    def _view(self, entity: Entity) -> ArrayView:
        return ArrayView(
            self.raws[entity.number], self.numbers[entity.number], entity.name
        )

    def _add_shared(self, entity: Entity) -> None:
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

    def _add_local(self, entity: Entity) -> None:
        pattern = np.empty(entity.shape, entity.dtype)
        memory.poison(pattern)
        self._register(entity, entity.name, LOCAL, pattern, False)
        number = self.numbers[entity.number]

        def create() -> ArrayView:
            return ArrayView(pattern.copy(), number, entity.name)

        self.env[f".new{entity.number}"] = (
            create if self.program.checks else pattern.copy
        )

    # ---- names of the rewritten code ----

    def _fill_environment(self) -> None:
        grid, block = self.config.grid, self.config.block
        for axis, sides in enumerate(zip(block, grid)):
            self.env[f".n{'xyz'[axis]}"], self.env[f".g{'xyz'[axis]}"] = sides
        for entity in self.program.entities:
            raw = self.raws[entity.number]
            self.env[f".r{entity.number}"] = raw
            self.env[f".v{entity.number}"] = self._view(entity)
            if entity.origin == "shared":
                self.env[f".f{entity.number}"] = raw.reshape(-1)
            for axis, side in enumerate(raw.shape):
                self.env[f".d{entity.number}_{axis}"] = side
        self.env |= {
            ".get": self.accesses.get,
            ".put": self.accesses.put,
            ".put_field": self.accesses.put_field,
            ".atomic": self.accesses.atomic,
            ".atomic_plain": self.accesses.atomic_plain,
            ".ix": operator.index,
            **{".slice": slice, ".zip": zip, ".len": len},
            ".names": self.keep_names,
            ".came_to_end": self.came_to_end,
            ".leaves": self.left.add,
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
        self.log = self.accesses.log = Log(sites, self.spread)
        self._judge = Judge(self.arrays, sites, self.config.grid, self.config.block)
        self._judge.places, self._judge.sources = self.places, self.program.sources
        self.env[".log"] = self.log.entries.append
        self.env |= {name: LoopShapes(self.log.shapes) for name in self.program.loops}
        self.env[".val"] = self.log.values.append
        if self.program.trace:
            grid, block = self.config.grid, self.config.block
            self.trace = Trace(self.kernel.name, grid, block, self.arrays, sites)
            self.trace.names = self.names
            tree = self.program.source(self.kernel.function).tree
            self.trace.passing = list_rebound(tree)

    def came_to_end(self, number: int) -> None:
        """Record that a thread reached the kernel's end.

        A thread that returned early from a helper since the last barrier is omitted.
        """
        if number not in self.left:
            self.at_end.append(number)

    def keep_names(self, number: int, variables: dict[str, Any]) -> None:
        """Keep the values of a thread's integer variables when the thread ends."""
        assert self.at is not None
        self.names[linear_number(self.at, self.config.grid), number] = {
            name: int(value)
            for name, value in variables.items()
            if name[0] != "."
            and isinstance(value, (int, np.integer))
            and not isinstance(value, bool)
        }

    # ---- execution ----

    def run(self, order: str | int) -> None:
        """Run every block. Exceptions of threads propagate to the caller."""
        schedule = run_block if self.program.general else run_barriers
        if not self.program.variants[0].yields:
            schedule = run_plain
        with np.errstate(all="ignore"), Watchdog(self.timeout) as watch:
            for block, threads in order_threads(self.config, order):
                watch.begin()
                self.at_end.clear()
                self.left.clear()
                self.at = unflatten(block, self.config.grid)
                for entity in self.program.entities:
                    # At the start of a block, its shared memory is uninitialised.
                    if entity.origin == "shared":
                        memory.poison(self.raws[entity.number])
                schedule(self, block, self._build_body(), self.args, threads)
            self.at = None
            self.judge()

    def close(self) -> None:
        """Release the arrays, which references in `env` would keep alive in a cycle."""
        self.env.clear()

    def _build_body(self) -> Callable:
        """Return the kernel as a function for the current block."""
        assert self.at is not None
        self.env[".bx"], self.env[".by"], self.env[".bz"] = self.at
        for variant in reversed(self.program.callers_first):
            function = variant.function
            cells = zip(function.__code__.co_freevars, function.__closure__ or ())
            scope = self.env | {name: cell.cell_contents for name, cell in cells}
            make = FunctionType(variant.maker, function.__globals__)
            self.env[f".h{variant.number}"] = make(*[scope[n] for n in variant.uses])
        return self.env[".h0"]

    def end_interval(
        self, block: int, number: int, warps: bool, barrier: int = -1
    ) -> None:
        """End an interval of a block, at the barrier whose place has this number."""
        if self.log is None:
            return
        self.log.end(block, number, warps, barrier)
        if self.log.full():
            self.judge()

    def judge(self) -> None:
        """Move the intervals from the log to the judge."""
        if self.log is None or self._judge is None:
            return
        known = self._judge.repeats.find if self.trace is None else None
        for interval in self.log.take(known):
            self._judge.interval(interval)
            if self.trace is not None:
                self.trace.intervals.append(interval)

    # ---- findings ----

    def opens(self, block: int, waiting: dict[int, int]) -> None:
        """Check a barrier that is about to release its waiting threads.

        waiting: for each of these threads, the place at which it waits.

        Reports a fault if they wait at several places, or if other threads reached the
        kernel's end on a path past the barrier. As on a GPU, the barrier does not wait
        for threads that have returned.
        """
        self.left.clear()
        by_place: dict[int, list[int]] = {}
        for number, place in waiting.items():
            by_place.setdefault(place, []).append(number)
        gone = sorted(self.at_end)
        if self.program.checks and ((waiting and gone) or len(by_place) > 1):
            finding = warp.make_barrier_finding(
                self.places, by_place, gone, block, self.config.grid, self.config.block
            )
            self._add((tuple(sorted(by_place)), bool(gone)), finding)

    def _add(self, key: Any, finding: Finding) -> None:
        """Keep the first finding for each key, and count repetitions."""
        known = self.findings.setdefault(key, finding)
        if known is not finding:
            self.findings[key] = dataclasses.replace(known, count=known.count + 1)

    def meet(
        self, block: int, waits: dict[int, tuple], sources: dict[int, int], size: int
    ) -> None:
        """Report a fault if waiting lanes of a warp depend on absent lanes.

        waits: for each waiting thread, its call.
        sources: for each lane, the lane that it reads.
        size: number of threads in the block.
        """
        if not self.program.checks:
            return
        _, place, mask, *_ = next(iter(waits.values()))
        call = warp.Call(list(waits), mask, sources, self.at_end, size)
        if absence := warp.describe_absent(call):
            grid, threads = self.config.grid, self.config.block
            finding = warp.make_finding(
                self.places[place], *absence, unflatten(block, grid), grid, threads
            )
            self._add(("absent-lane", place), finding)

    def report(self, seconds: float) -> Report:
        """Return the report of the launch so far."""
        findings, counters = list(self.findings.values()), None
        if self._judge is not None:
            judge_findings, counters = self._judge.finish()
            findings += judge_findings
        return Report(
            *(self.kernel.name, self.config.grid, self.config.block, findings),
            *(counters, self.trace, seconds, self.program.sources),
        )

    def fail(self, error: BaseException, seconds: float) -> BaseException:
        """Return an exception, with a .report, that explains the end of the launch."""
        end = faults.explain(error, self)
        if self.log is not None and self.at is not None:
            refused = isinstance(error, IndexError) and end.finding is not None
            self.log.end_early(linear_number(self.at, self.config.grid), refused)
            self.judge()
        report = self.report(seconds)
        if end.finding is None:
            raised = faults.improve_error(error, self)
            if end.thread is not None and self.at is not None:
                raised.add_note(
                    f"in thread {write_index(end.thread, self.config.block)} of block "
                    f"{write_index(self.at, self.config.grid)} of {self.kernel.name}"
                )
        else:
            report.findings.insert(0, end.finding)
            text = f"{self.kernel.name}: {end.finding.text}"
            raised = KernelFault(text, self.kernel.name, self.at, end.thread)
        raised.report = report  # type: ignore[attr-defined]
        return faults.shorten_error(raised).with_traceback(end.frames)
