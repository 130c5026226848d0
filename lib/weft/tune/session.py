"""Run one call of autotune(), from reading the kernel's parameters to the winner.

Session.path(), read() and write() store earlier results: a file in the cache for each
kernel, device and set of sizes. The files can be recreated in seconds, so they are
pruned and cleared together with all other files of the cache.

ptxas reports a kernel's registers and shared memory, which limit the number of its
warps on a multiprocessor. If no warp fits, the kernel cannot be launched. If a kernel
has far fewer warps than other candidates, all of its warps often wait for memory
simultaneously.

Timing is by successive halving: all candidates run for a short time, the slower half is
dropped, the others run twice as long, etc. (Karnin, Koren and Somekh, ICML 2013;
Jamieson and Talwalkar, AISTATS 2016, for tuning). The last few are timed until their
medians are reliable.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from ..base import store
from ..base.device import count_cores
from ..base.errors import (
    ArgumentError,
    BuildError,
    DeviceLost,
    KernelError,
    KernelFault,
    Mismatch,
    OutOfMemory,
)
from ..base.progress import Progress, remark
from ..base.text import count_things
from ..cells import CompileError
from ..cells.gpu import loader as gpu
from ..cells.gpu import nvrtc
from ..see.machine_code.compilation import default_arch
from ..see.machine_code.residency import Occupancy
from ..timing import device_name
from ..timing.clocks import WallTimer
from ..timing.race import SPREAD, Contender, race
from ..toolchain.build import _hash
from .right import Arguments, ReferenceAnswer
from .sources import TunableSource, bound, is_cuda, parameters_of, usage_of, written_of
from .tuned import Candidate, Tuned, counts_of, require_some, rows_of

FORM = 1  # the version of the stored format and of the measurement


def read(path: Path) -> dict[str, Any] | None:
    """Return the contents that write() stored; None if missing or damaged."""
    try:
        contents = json.loads(path.read_text())
        contents["rows"], contents["best"]
        os.utime(path)  # this marks the file as used; pruning starts with the oldest
        return contents
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, found: dict[str, Any]) -> None:
    """Write the file completely or not at all; without it, the next call measures."""
    with contextlib.suppress(OSError):
        store.write(path, json.dumps(found))
        store.prune_at_exit()


def _write_size(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    return repr(value)


PRECISIONS = {
    **{torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"},
    torch.float64: "fp64",
}


class Session:
    """One call of autotune(): the candidates, and the arguments for their launches."""

    def __init__(
        self,
        source: TunableSource,
        candidates: list[Candidate],
        excluded: int,
        device: torch.device,
        target: str,
        progress: bool,
    ) -> None:
        self.source, self.candidates, self.excluded = source, candidates, excluded
        self.device, self.target, self.progress = device, target, progress
        self.arguments: Arguments

    @property
    def ready(self) -> list[Candidate]:
        return [one for one in self.candidates if one.state == "ready"]

    def inspect(
        self, args: Sequence[Any], outputs: Sequence[str] | None, inout: Sequence[str]
    ) -> None:
        """Read the kernel's parameters from the first candidate that compiles."""
        kernel, first_error = None, None
        for one in self.ready:
            try:
                kernel = self.source.make(one.constants)
                break
            except BuildError as error:
                first_error = first_error or error
        if kernel is None:
            raise first_error
        names = parameters_of(kernel)
        written = written_of(kernel) if outputs is None else outputs
        if written is None:
            written = [n for n in names[:1] if n not in inout] or (["0"] * (not names))
        self.arguments = Arguments(args, names, written, inout)
        self.launched = is_cuda(kernel)

    def path(self, settings: Sequence[Any]) -> Path | None:
        """Return the file for the result of these candidates, device and sizes.

        settings: other values that determine the result. Returns None if nothing is
        timed, or if the candidates' sources are unknown.
        """
        if self.target == "cpu" and self.launched:
            return None
        try:
            texts = [self.source.texts_to_hash(one) for one in self.ready]
        except BuildError:  # a candidate does not compile
            return None
        if any(text is None for text in texts):
            return None
        compiler = "" if nvrtc.explain_missing() else str(nvrtc.nvrtc_version())
        parts = [str(FORM), device_name(self.device), compiler, *map(repr, settings)]
        parts += map(_write_size, self.arguments.values)
        for one, text in zip(self.ready, texts):
            parts += [str(one), repr(one.shape), *text]
        return _choose_folder() / f"{_hash(*parts)}.json"

    def recall(self, path: Path, check: Any, terms: float | None) -> Tuned | None:
        """Return the earlier result if its winner still passes the check, else None."""
        data = read(path)
        best = data["best"] if data else None
        one = next((c for c in self.ready if c.constants == best), None)
        if one is None:
            return None
        try:
            kernel = self.source.make(one.constants)
            run = bound(kernel, one)
            ReferenceAnswer(check, self.arguments, terms).require(run)
        except (BuildError, Mismatch):
            return None
        stored = (data["rows"], data["counts"], self.target, self._shapes(one))
        return Tuned(self.source.name, one.constants, kernel, run, *stored, cached=True)

    def compile(self, occupancy: float) -> None:
        """Compile all ready candidates, and prune those with low occupancy."""
        ready = self.ready
        with self._bar("compile", len(ready)) as bar:
            compile_all(self.source, ready, self._arch(), bar.update)
        keep_occupied(self.candidates, occupancy)
        require_some(self.candidates, self.excluded)

    def check(self, check: Any, terms: float | None) -> None:
        """Mark the wrong candidates; raise Mismatch if all are wrong."""
        answer, ready = ReferenceAnswer(check, self.arguments, terms), self.ready
        wrong: list[Candidate] = []
        with self._bar("check", len(ready)) as bar:
            for one in ready:
                try:
                    one.more["error"] = answer.require(one.run)
                except DeviceLost as error:
                    error.add_note(f"autotune: the candidate is {one}")
                    raise
                except (Mismatch, KernelFault) as error:
                    wrong.append(one)
                    one.out("wrong", "wrong", str(error).splitlines()[0])
                except KernelError as error:  # CUDA refused the launch
                    one.out("pruned", "not launchable", str(error).splitlines()[0])
                bar.update()
        if wrong and not self.ready:
            raise Mismatch(
                f"{self.source.name}: all {count_things(len(wrong), 'candidate')} are "
                f"wrong, so none is timed; {wrong[0]}: {wrong[0].why}"
            ) from None
        if wrong and self.progress:
            message = f"{count_things(len(wrong), 'candidate')} wrong, and not timed"
            first = f"{wrong[0]}: {wrong[0].why}"
            remark(f"{self.source.name}: {message}; {first}")
        require_some(self.candidates, self.excluded)

    def race(self, timer: str, path: Path | None) -> Tuned:
        """Time the candidates that passed; return the winner and all rows."""
        stopped, is_timed = False, self.target == "cuda" or not self.launched
        ready = self.ready
        if is_timed:
            try:
                with self._bar("time", len(ready)) as bar:
                    run_tournament(
                        *(ready, self.arguments.own(), self.device),
                        timer or ("graph" if self.target == "cuda" else "wall"),
                        bar.update,
                    )
            except KeyboardInterrupt:
                stopped = True
                for one in ready:
                    if one.timed and one.state == "ready":
                        one.state = "timed"
        else:
            for one in ready:
                one.state = "right"
        passed = [one for one in ready if one.state in ("timed", "right")]
        if not passed:
            raise KeyboardInterrupt("autotune: nothing was timed yet")
        best = min(passed, key=lambda one: one.timed.us) if is_timed else passed[0]
        kind = self.arguments.at(self.arguments.written[0]).dtype
        kind = PRECISIONS.get(kind, str(kind).removeprefix("torch."))
        rows = rows_of(self.source.name, self.candidates, self.target, kind)
        counts = counts_of(self.candidates, self.excluded)
        if path and not stopped:
            write(path, {"best": best.constants, "rows": rows, "counts": counts})
        return Tuned(
            *(self.source.name, best.constants, best.kernel, best.run, rows, counts),
            *(self.target, self._shapes(best), False, stopped),
        )

    def _shapes(self, one: Candidate) -> tuple[Any, ...]:
        """Return the arguments' shapes; () if the candidate has no grid."""
        values = self.arguments.values if one.shape is not None else ()
        arrays = [isinstance(value, torch.Tensor) for value in values]
        return tuple(tuple(v.shape) if a else None for v, a in zip(values, arrays))

    def _arch(self) -> str:
        """Return the architecture that candidates must suit; "" if none is known."""
        if not self.launched or nvrtc.explain_missing():
            return ""
        if self.target == "cuda":
            return gpu.name_arch(self.device.index or 0)
        return default_arch()

    def _bar(self, what: str, total: int) -> Progress:
        title = f"{self.source.name}: {what}"
        options = {"quiet": not self.progress, "delay": 0.5}
        return Progress(title, total, "candidates", **options)


def _choose_folder() -> Path:
    """Return the folder of earlier results: weft.keep()'s, else that of the cache."""
    if os.environ.get(store.KEEP):
        with contextlib.suppress(OSError):  # the drive may no longer be mounted
            return store.kept_folder("tuned")
    return store.cache_folder("tuned")


# ---- compilation and timing ----------------------------------------------------------


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


# After two calls, candidates that are this many times slower than the fastest are
# dropped.
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
        contender.run_once()
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
