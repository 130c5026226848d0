"""Kernels run thread by thread in plain Python: sim(kernel)[grid, block](*args).

launch, schedule         a launch, and how its threads take turns
memory, numbers, warp    what threads find: arrays, C's arithmetic, other threads
rewrite, program         the kernel with its accesses noted and its waits as yields
syntax, names            ... its trees, what it may not have, what its names mean
intrinsics               ... what the language becomes, its own arrays included
elements                 ... its assignments, its reads and writes of elements
plain_loops, walks       ... its loops whose accesses are noted all at once
record, log, layout      what is recorded: Intervals of accesses, and their columns
judge, races, blocks     faults: within a block, and between blocks
counters                 costs
faults, watchdog         what ends a launch
"""

from __future__ import annotations

import time
from typing import Any

from ...base.arrays import ORDERS
from ...base.errors import ArgumentError
from ...report.html import show
from ...report.model import Report
from ..language import PythonKernel
from . import memory
from .launch import SimulatedLaunch, bind_arguments
from .program import RewrittenKernel

TIMEOUT = 20.0  # seconds for one block


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
    """A kernel, a Python function in the language of weft.cuda, to be run here.

    sim(kernel)[grid, block](*args) runs it for every thread and gives a Report:
    what it did wrong, and what it cost. [grid, block, stream, bytes] is taken too;
    the stream has no meaning here, bytes is dynamic shared memory. Arrays are NumPy's,
    torch's, or of any library that shares its memory; they are written in place.

    order: in which order threads, and blocks, run: "forward", "reverse", "shuffled",
    or a number that shuffles in its own way. checks: note every access and look for
    faults; False is several times faster and tells nothing. trace: keep what was noted
    in report.trace. steps: note also how many threads enter each straight piece of
    code, which counters.active_lanes needs (on with a trace; without, a launch takes a
    tenth less). timeout: seconds that one block may run. quiet: show
    nothing.

    An access out of bounds, a hang, a deadlock or an exception in a thread end the
    launch: KernelFault, or that exception; .report has what was found until then.
    Raises ArgumentError for what is no kernel, no launch or no argument of one.
    """
    if order not in ORDERS and (isinstance(order, (str, bool)) or int(order) != order):
        raise ArgumentError(
            f"order is {', '.join(ORDERS)} or a whole number, this is {order!r}"
        )
    made = SimulatedKernel(PythonKernel(kernel))
    made.order, made.timeout, made.quiet = order, timeout, quiet
    made.trace, made.steps = trace, trace if steps is None else steps
    made.checks = checks or trace or made.steps
    return made


class SimulatedKernel:
    """sim(kernel): give it a launch's shape in brackets."""

    order: str | int
    checks: bool
    trace: bool
    steps: bool
    timeout: float
    quiet: bool

    def __init__(self, kernel: PythonKernel) -> None:
        self.kernel = kernel

    def __getitem__(self, key: Any) -> SimulatedLauncher:
        return SimulatedLauncher(self, key)

    def __call__(self, *args: Any) -> Any:
        name = self.kernel.name
        raise ArgumentError(f"{name} is launched as sim({name})[grid, block](...)")

    def __repr__(self) -> str:
        return f"sim({self.kernel!r})"


class SimulatedLauncher:
    """sim(kernel)[grid, block]: give it the arguments."""

    def __init__(self, runner: SimulatedKernel, key: Any) -> None:
        self.runner = runner
        self.config = runner.kernel.config(key)

    def __call__(self, *args: Any, **named: Any) -> Report:
        # Here, as `import weft` should not wait for it.

        runner = self.runner
        kernel = runner.kernel
        bound = kernel.given(args, named)
        taken = [memory.convert_argument(kernel.name, n, v) for n, v in bound.items()]
        values = [value for value, _ in taken]
        program = program_for(runner, values)
        launch = SimulatedLaunch(kernel, program, self.config, values, runner.timeout)
        start = time.perf_counter()
        try:
            launch.run(runner.order)
        except Exception as error:
            raise launch.fail(error, time.perf_counter() - start) from None
        finally:
            for _, after in taken:
                after()
            launch.close()
        report = launch.report(time.perf_counter() - start)
        if not report.ok and not runner.quiet:
            show(report)
        return report


_programs: dict[Any, RewrittenKernel] = {}
KEPT = 256  # programs; the oldest goes first


def program_for(runner: SimulatedKernel, values: list[Any]) -> RewrittenKernel:
    """The kernel rewritten for such arguments: kept from before, or made now."""
    kinds, bound = bind_arguments(runner.kernel, values)
    modes = runner.checks, runner.steps, runner.trace
    key = (runner.kernel.function, kinds, modes)
    found = _programs.get(key)
    if found is None or not found.holds():
        made = RewrittenKernel(runner.kernel, bound, *modes)
        found = _programs[key] = made
        while len(_programs) > KEPT:
            del _programs[next(iter(_programs))]
    return found
