"""Run kernels thread by thread in plain Python: sim(kernel)[grid, block](*args).

launch, schedule         run a launch, whose threads take turns; end a late one
memory, numbers, warp    arrays, C's arithmetic, and communication in a warp
rewrite, program         rewrite a kernel: accesses are logged, waits become yields
names                    rewriting: the meaning of names, and the limits of the syntax
rewrite_calls            rewriting: calls of the language, and the kernel's arrays
elements                 rewriting: assignments, and reads and writes of elements
plain_loops, walks       rewriting: loops whose accesses are logged together
log, layout              the records: Intervals of accesses, and their columns
judge, races, blocks     faults: within a block, and between blocks
counters                 costs
faults                   the reasons why a launch ends early
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ...base.arrays import ORDERS
from ...base.errors import ArgumentError
from ...report.html import show
from ...report.model import Report
from ..language import PythonKernel
from . import memory
from .launch import SimulatedLaunch, bind_arguments
from .program import RewrittenKernel

TIMEOUT = 20.0  # time limit in seconds for one block


def sim(
    kernel: Any,
    *,
    order: str | int = "forward",
    checks: bool = True,
    trace: bool = False,
    steps: bool | None = None,
    timeout: float = TIMEOUT,
    quiet: bool = False,
) -> SimulatedKernel:
    """Return a runner that executes a kernel of the weft.cuda language in this process.

    sim(kernel)[grid, block](*args) runs the kernel for every thread and returns a
    Report of its faults and costs. [grid, block, stream, bytes] is also accepted. The
    stream is ignored, and `bytes` is the size of dynamic shared memory. Arrays may come
    from NumPy, torch, or any library that shares its memory. The kernel writes into the
    arrays themselves.

    order: order of threads and of blocks: "forward", "reverse", "shuffled", or a number
        that seeds a shuffle.
    checks: whether to record every access and look for faults. trace and steps imply
        this. Without all three, a launch is several times faster and reports nothing.
    trace: whether to keep the records in report.trace.
    steps: whether to also record how many threads enter each straight piece of code.
        counters.active_lanes requires these records. The default is the value of trace.
        Without steps, a launch takes a tenth less time.
    timeout: time limit in seconds for one block.
    quiet: whether to suppress the report that a launch with findings shows.

    An access out of bounds, a hang, a deadlock or an exception in a thread ends the
    launch. The launch then raises KernelFault, or the thread's exception, with the
    findings so far in .report. An invalid kernel, launch or argument raises
    ArgumentError.
    """
    if order not in ORDERS and (isinstance(order, (str, bool)) or int(order) != order):
        raise ArgumentError(
            f"order must be {', '.join(ORDERS)} or a whole number, not {order!r}"
        )
    steps = trace if steps is None else steps
    modes = checks or trace or steps, steps, trace
    return SimulatedKernel(PythonKernel(kernel), order, *modes, timeout, quiet)


@dataclass(eq=False, repr=False)
class SimulatedKernel:
    """The result of sim(kernel); [grid, block] returns its launcher."""

    kernel: PythonKernel
    order: str | int
    checks: bool
    steps: bool
    trace: bool
    timeout: float
    quiet: bool

    def __getitem__(self, key: Any) -> SimulatedLauncher:
        return SimulatedLauncher(self, key)

    def __call__(self, *args: Any) -> Any:
        name = self.kernel.name
        raise ArgumentError(f"{name} is launched as sim({name})[grid, block](...)")

    def __repr__(self) -> str:
        return f"sim({self.kernel!r})"


class SimulatedLauncher:
    """The result of sim(kernel)[grid, block]; a call with arguments is a launch."""

    def __init__(self, runner: SimulatedKernel, key: Any) -> None:
        self.runner = runner
        self.config = runner.kernel.config(key)

    def __call__(self, *args: Any, **named: Any) -> Report:
        runner = self.runner
        kernel = runner.kernel
        bound = kernel.given(args, named)
        pairs = [memory.convert_argument(kernel.name, n, v) for n, v in bound.items()]
        values = [value for value, _ in pairs]
        program = program_for(runner, values)
        launch = SimulatedLaunch(kernel, program, self.config, values, runner.timeout)
        start = time.perf_counter()
        try:
            launch.run(runner.order)
        except Exception as error:
            raise launch.fail(error, time.perf_counter() - start) from None
        finally:
            for _, copy_back in pairs:
                copy_back()
            launch.close()
        report = launch.report(time.perf_counter() - start)
        if not report.ok and not runner.quiet:
            show(report)
        return report


_programs: dict[Any, RewrittenKernel] = {}
KEPT = 256  # maximum number of programs kept; the oldest is dropped first


def program_for(runner: SimulatedKernel, values: list[Any]) -> RewrittenKernel:
    """Return the kernel, rewritten for such arguments, from the cache if possible."""
    kinds, bound = bind_arguments(runner.kernel, values)
    modes = runner.checks, runner.steps, runner.trace
    key = (runner.kernel.function, kinds, modes)
    program = _programs.get(key)
    if program is None or not program.holds():
        program = _programs[key] = RewrittenKernel(runner.kernel, bound, *modes)
        while len(_programs) > KEPT:
            del _programs[next(iter(_programs))]
    return program
