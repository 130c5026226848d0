"""Compile candidates, time them in turn, and drop the slow ones early.

ptxas reports a kernel's registers and shared memory, which limit the number of its
warps on a multiprocessor. If no warp fits, the kernel cannot be launched. A kernel with
far fewer warps than other candidates has none to run while its warps wait for memory.

Timing is by successive halving: all candidates run for a short time, the slower half is
dropped, the others run twice as long, and so on (Karnin, Koren and Somekh, ICML 2013;
Jamieson and Talwalkar, AISTATS 2016, for tuning). The last few are timed until their
medians are reliable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import torch

from ..base.cores import count_cores
from ..base.errors import ArgumentError, DeviceLost, KernelError, OutOfMemory
from ..cells import CompileError
from ..see.machine_code.residency import Occupancy
from ..timing.clocks import WallTimer
from ..timing.race import SPREAD, Contender, race
from .sources import TunableSource, bound, usage_of
from .space import Candidate

STATIC = 48 << 10  # the largest static shared memory of a kernel, in bytes
WORKERS = 16  # maximum number of compilers that run at the same time

Tick = Callable[[], object]


def compile_all(
    source: TunableSource, candidates: Sequence[Candidate], arch: str, tick: Tick
) -> None:
    """Compile each candidate's kernel, and record its resources.

    A candidate that does not compile is pruned (a static_assert may reject an invalid
    combination). Raises CompileError if none compiles. tick: called after each
    candidate.
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
    """Prune candidates whose occupancy is below `least` times the best one's."""
    rated = [one for one in candidates if one.state == "ready" and one.occupancy]
    best = max(rated, key=lambda one: one.occupancy, default=None)
    for one in rated:
        if one.occupancy < least * best.occupancy:
            why = f"occupancy {one.occupancy:.1%}, less than {least:g} times the "
            one.out("pruned", "occupancy", f"{why}{best.occupancy:.1%} of {best}")


def _make(source: TunableSource, one: Candidate, arch: str) -> None:
    try:
        one.kernel = source.make(one.constants)
        usage = usage_of(one.kernel, arch) if arch else None
    except CompileError as error:
        text = str(error) + error.log
        shared = "too much shared" in text or "48 KB of static" in text
        reason = "shared memory" if shared else "does not compile"
        one.out("pruned", reason, _first_line(error))
        raise
    except (ArgumentError, DeviceLost, OutOfMemory):
        raise
    except KernelError as error:  # the driver rejected the machine code
        one.out("pruned", "not launchable", _first_line(error))
        return
    one.run = bound(one.kernel, one)
    if usage is not None and one.shape is not None:
        _check_occupancy(one, source.name, usage, arch)


def _check_occupancy(one: Candidate, name: str, usage: Any, arch: str) -> None:
    """Store a candidate's occupancy; prune it if no block fits on a multiprocessor."""
    shared = usage.shared + one.shape.shared
    one.registers, one.shared = usage.registers, shared
    if usage.spill_stores or usage.spill_loads:
        one.more["spills"] = usage.spill_stores + usage.spill_loads
    try:
        fit = Occupancy(name, arch, one.threads, usage.registers, shared)
        one.occupancy = fit.occupancy
    except ArgumentError:  # the limits of this GPU are unknown
        return
    if usage.shared > STATIC:
        why = f"{usage.shared} bytes of static shared memory, at most {STATIC} (48 KB)"
        one.out("pruned", "shared memory", f"{why}: use extern __shared__")
    elif not fit.blocks:
        why = fit.resident().partition(": ")[2] or fit.resident()
        one.out("pruned", " and ".join(fit.binding), why)


def _map_candidates(
    work: Callable[[Candidate], None], candidates: Sequence[Candidate]
) -> Iterator[tuple[Candidate, BaseException | None]]:
    """Call work() for all candidates in threads; yield each candidate and its error.

    The first candidate runs alone and creates the shared parts: a precompiled header, a
    context. The error is None after success.
    """
    for one in candidates[:1]:
        yield one, _catch_error(work, one)
    with ThreadPoolExecutor(min(WORKERS, max(2, count_cores()))) as pool:
        stop = threading.Event()

        def run_unless_stopped(one: Candidate) -> BaseException | None:
            return None if stop.is_set() else _catch_error(work, one)

        jobs = {pool.submit(run_unless_stopped, one): one for one in candidates[1:]}
        try:
            for job in as_completed(jobs):
                yield jobs[job], job.result()
        finally:  # even after Ctrl-C, no waiting candidate may begin
            stop.set()


def _catch_error(work: Callable[[Candidate], None], one: Candidate) -> Exception | None:
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
    return lines[0] if lines else "the compiler failed without a message"


# After two calls, candidates that are this many times slower than the fastest are out.
FAR = 3.0
NEAR = 1.01  # candidates within 1 % of the best are not dropped
FIRST = 3  # samples in the first round
MOST = 50  # samples in the last round that drops candidates
LAST = 3  # number of candidates that are timed until their medians are reliable
SECONDS = 0.6  # time for each of those candidates

RaceTick = Callable[[int], object]


def run_tournament(
    candidates: Sequence[Candidate],
    args: Sequence[Any],
    device: torch.device,
    timer: str,
    tick: RaceTick,
) -> None:
    """Time the ready candidates; the times of those in state "timed" are reliable.

    tick: called after each round with the number of candidates finished since the
    previous round.
    """
    runs = {str(one): one for one in candidates if one.state == "ready"}
    contenders = {
        name: Contender(lambda i, run=one.run: run(*args), checked=True)
        for name, one in runs.items()
    }
    _drop_far_slower(runs, contenders, device)
    samples, finished = FIRST, 0
    while True:
        alive = {n: c for n, c in contenders.items() if runs[n].state == "ready"}
        tick(len(runs) - len(alive) - finished)
        finished = len(runs) - len(alive)
        is_last = len(alive) <= LAST or samples > MOST
        limits = {"seconds": 60.0, "samples": samples, "spread": 0.0}
        if is_last:
            limits = {"seconds": SECONDS, "samples": 200, "spread": SPREAD}
        results = race(alive, device, timer, **limits)
        for name, timed in results.items():
            runs[name].timed = timed
        if is_last:
            break
        _drop_slower_half([runs[name] for name in alive], samples)
        samples *= 2
    for name in alive:
        runs[name].state = "timed"
    tick(len(alive))


def _drop_far_slower(
    runs: dict[str, Candidate], contenders: dict[str, Contender], device: torch.device
) -> None:
    """Drop candidates that are far slower than the fastest, after two calls of each."""
    clock, times = WallTimer(device), {}
    for name, contender in contenders.items():
        contender.turn()
        times[name] = min(clock.span(contender, 1) for _ in range(2))
    fastest = min(times.values())
    for name, us in times.items():
        # Below 50 µs, the host's launch dominates the time.
        if us > FAR * max(fastest, 50.0):
            runs[name].more["us_at_sight"] = us
            slower = us / fastest
            why = f"dropped after two calls: {slower:.1f} times the fastest's time"
            runs[name].out("dropped", "slow", why)


def _drop_slower_half(alive: list[Candidate], samples: int) -> None:
    """Drop the slower half, except candidates about as fast as the best."""
    alive.sort(key=lambda one: one.timed.us)
    best = alive[0].timed.us
    for one in alive[-(-len(alive) // 2) :]:
        if one.timed.us > NEAR * best:
            why = f"dropped after {samples} samples, in the slower half"
            one.out("dropped", "slow", why)
