"""latency(kernel)[grid, block](*args): warps taking turns while loads are under way.

    latency(sum_rows)[4, 64](out, x, 64, 100)          a picture with a slider
    latency(sum_rows, memory=800)[4, 64](...)          slower memory
    latency(sum_rows)[4, 64](...).utilisation          {2: 0.004, 4: 0.009, ...}

The launch runs on the simulator; what its warps did is replayed under a model of one
multiprocessor, whose rules and numbers stand in pictures.issue. It knows nothing of
caches and bandwidth: it shows what hiding latency is, and is no forecast of times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...base.errors import ArgumentError
from ...base.text import count_things
from ...pykernel.language.kernel import PythonKernel
from ...pykernel.sim import sim
from . import latency as picture
from .instructions import programs
from .issue import Model, replay
from .show import Picture

if TYPE_CHECKING:
    from ...report.model import Report
    from .issue import Run

ISSUES = 160_000  # instructions that one picture may replay: half a second
WINDOW = 4  # loads from global memory, one after the other, that fit into the drawing


class Replayed(Picture):
    """The picture; runs: by number of resident warps, what the model did."""

    def __init__(self, drawing: Any, report: Report, runs: list[Run]) -> None:
        super().__init__(drawing, report)
        self.runs = {run.warps: run for run in runs}

    @property
    def utilisation(self) -> dict[int, float]:
        """By resident warps: the share of issue slots that were used."""
        return {warps: run.utilisation for warps, run in self.runs.items()}


class Latency:
    """A kernel to be replayed: [grid, block](*args) runs it and gives the picture."""

    def __init__(self, kernel: Any, model: Model, timeout: float) -> None:
        self.kernel, self.model, self.timeout = kernel, model, timeout
        try:
            self.python = PythonKernel(kernel)
        except ArgumentError as error:
            raise ArgumentError(
                f"{error}; latency() replays what the simulator notes of one"
            ) from None

    def __getitem__(self, key: Any) -> Callable[..., Replayed]:
        self.python.config(key)

        def run(*args: Any) -> Replayed:
            one = sim(self.kernel, trace=True, quiet=True, timeout=self.timeout)
            return replayed(one[key](*args), self.model)

        return run

    def __repr__(self) -> str:
        return f"latency({self.python.name})[grid, block](*args) draws a launch"


def latency(
    kernel: Any,
    *,
    memory: int = 400,
    shared: int = 30,
    arithmetic: int = 4,
    schedulers: int = 4,
    resident: int = 64,
    timeout: float = 3.0,
) -> Latency:
    """Draw how warps hide latency: latency(kernel)[grid, block](*args).

    kernel: a Python kernel. memory, shared, arithmetic: cycles until the result of a
    load from global or shared memory, or of a computation, can be used. schedulers: of
    a multiprocessor. resident: warps that it has room for. The slider goes from one
    block to as many as fit; each time the same work is done, by so many warps at once.
    timeout: seconds that one block may run. Raises ArgumentError for what does not fit
    and what the launch raises.
    """
    given = dict(memory=memory, shared=shared, arithmetic=arithmetic)
    given |= dict(schedulers=schedulers, resident=resident)
    for name, value in given.items():
        if not hasattr(value, "__index__") or not 1 <= value <= 100_000:
            raise ArgumentError(f"{name}={value!r}: want a whole number from 1 on")
    if resident > 128:
        raise ArgumentError(f"resident={resident}: at most 128 rows are drawn")
    return Latency(kernel, Model(**given), timeout)


def replayed(report: Report, model: Model) -> Replayed:
    """The picture of a launch that has run; report: with its trace."""
    trace = report.trace
    x, y, z = trace.block
    warps = -(-x * y * z // 32)
    fit = model.resident // warps
    if not fit:
        raise ArgumentError(
            f"a block of {x * y * z} threads has {warps} warps, and the "
            f"multiprocessor has room for {model.resident}"
        )
    stops = [1 << i for i in range(fit.bit_length())]
    total = stops[-1]  # blocks that are run at every stop
    most = max(16, ISSUES // (len(stops) * total * warps))
    blocks = programs(trace, report, most)
    if not any(any(block) for block in blocks):
        raise ArgumentError(f"{trace.kernel} touches no array: nothing to wait for")
    window = _choose_window(replay(blocks, total, total, model).cycles, model)
    runs = [replay(blocks, n, total, model, window) for n in stops]
    notes = _write_notes(blocks, total, warps, most)
    drawing = picture.draw(trace.kernel, runs, window, model, notes)
    return Replayed(drawing, report, runs)


def _choose_window(cycles: int, model: Model) -> int:
    """How much time is drawn: all of it, or a few loads one after the other."""
    long = WINDOW * model.memory
    return max(64, min(cycles, long)) if cycles > long else max(64, cycles)


def _write_notes(blocks: list, total: int, warps: int, most: int) -> str:
    said = f"The work: {count_things(total, 'block')} of {count_things(warps, 'warp')}"
    if len(blocks) < total:
        said += f" (the launch has {len(blocks)}: they come again)"
    elif len(blocks) > total:
        said += f" (the first ones of {len(blocks)})"
    longest = max(len(program) for block in blocks for program in block)
    if longest == most:
        return f"{said}; of each warp the first {most} instructions."
    return f"{said}; a warp has at most {count_things(longest, 'instruction')}."
