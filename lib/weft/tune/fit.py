"""Candidates compiled, several at once, and those that cannot do well left out.

What ptxas says of a kernel (registers, shared memory) tells how many of its warps a
multiprocessor holds. None: it cannot be launched. Far fewer than the others': nothing
is left to run while its warps wait for memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from ..base.errors import ArgumentError, DeviceLost, KernelError, OutOfMemory
from ..base.host import count_cores
from ..cells import CompileError
from ..see.machine_code.residency import Occupancy
from .sources import Source, bound
from .space import Candidate

STATIC = 48 << 10  # bytes that a kernel can declare
WORKERS = 16  # compilers at once, at most

Tick = Callable[[], object]


def compile_all(
    source: Source, candidates: Sequence[Candidate], arch: str, tick: Tick
) -> None:
    """Give each candidate its kernel, and what the kernel needs.

    One that does not compile is pruned (a static_assert says so of a combination that
    makes no sense), unless none does: then CompileError.
    """
    ready = [one for one in candidates if one.state == "ready"]
    errors = []
    for _, error in _map_candidates(lambda one: _make(source, one, arch), ready):
        if isinstance(error, CompileError):
            errors.append(error)
        elif error is not None:
            raise error
        tick()
    if errors and len(errors) == len(ready):
        raise errors[0]


def keep_occupied(candidates: Sequence[Candidate], least: float) -> None:
    """Prune those whose occupancy is below `least` of the best one's."""
    known = [one for one in candidates if one.state == "ready" and one.occupancy]
    best = max(known, key=lambda one: one.occupancy, default=None)
    for one in known:
        if one.occupancy < least * best.occupancy:
            one.out(
                "pruned",
                "occupancy",
                f"occupancy {one.occupancy:.1%}, less than {least:g} of the "
                f"{best.occupancy:.1%} of {best}",
            )


def _make(source: Source, one: Candidate, arch: str) -> None:
    try:
        one.kernel = source.make(one.constants)
        usage = source.usage(one.kernel, arch) if arch else None
    except CompileError as error:
        said = str(error) + error.log
        shared = "too much shared" in said or "48 KB of static" in said
        reason = "shared memory" if shared else "does not compile"
        one.out("pruned", reason, _first_line(error))
        raise
    except (ArgumentError, DeviceLost, OutOfMemory):
        raise
    except KernelError as error:  # machine code that the driver does not take
        one.out("pruned", "not launchable", _first_line(error))
        return
    one.run = bound(one.kernel, one)
    if usage is not None and one.shape is not None:
        _check_occupancy(one, source.name, usage, arch)


def _check_occupancy(one: Candidate, name: str, usage: Any, arch: str) -> None:
    """Note its occupancy; prune it if no block of it fits."""
    shared = usage.shared + one.shape.shared
    one.registers, one.shared = usage.registers, shared
    if usage.spill_stores or usage.spill_loads:
        one.more["spills"] = usage.spill_stores + usage.spill_loads
    try:
        room = Occupancy(name, arch, one.threads, usage.registers, shared)
        one.occupancy = room.occupancy
    except ArgumentError:  # a GPU whose limits nobody has written down
        return
    if usage.shared > STATIC:
        one.out(
            *("pruned", "shared memory"),
            f"{usage.shared} bytes of static shared memory, at most {STATIC} (48 KB): "
            f"use extern __shared__",
        )
    elif not room.blocks:
        why = room.resident().partition(": ")[2] or room.resident()
        one.out("pruned", " and ".join(room.binding), why)


def _map_candidates(
    work: Callable[[Candidate], None], candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, BaseException | None]]:
    """Do the work for all, in threads; (candidate, its error) as they are done.

    The first one alone: what all share (a precompiled header, a context) is made then.
    """
    for one in candidates[:1]:
        yield one, _error_of(work, one)
    with ThreadPoolExecutor(min(WORKERS, max(2, count_cores()))) as pool:
        stop = threading.Event()

        def unless_stopped(one: Candidate) -> BaseException | None:
            return None if stop.is_set() else _error_of(work, one)

        left: dict[Future, Candidate] = {
            pool.submit(unless_stopped, one): one for one in candidates[1:]
        }
        try:
            while left:
                done, _ = wait(left, return_when=FIRST_COMPLETED)
                for future in done:
                    yield left.pop(future), future.result()
        finally:  # also after Ctrl-C: none of those that wait begins
            stop.set()


def _error_of(work: Callable[[Candidate], None], one: Candidate) -> Exception | None:
    try:
        work(one)
    except Exception as error:
        return error
    return None


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    if getattr(error, "diagnostics", None):
        errors = [d for d in error.diagnostics if d.severity == "error"]
        if errors:
            line = f", line {errors[0].line}" if errors[0].line else ""
            return f"{errors[0].message}{line}"
    return lines[0] if lines else "the compiler ended without a word"
