"""A kernel or a whole program under the check build: what it does wrong, what it costs.

report = inspect(kernel)[grid, block](*args)
python -m weft inspect PROG.cu [-- arguments]

carets      where on the reader's line an access stands
loops       the loops of a source
shifts      ... and which way a shift by too much goes
raw         what the runtime saw, as reports on the reader's lines
cells       ... of a notebook's cell
kernels     inspect()
command     python -m weft inspect
"""

from __future__ import annotations

from typing import Any


def inspect(
    kernel: Any,
    *,
    order: str | int = "forward",
    quiet: bool = False,
    timeout: float | None = None,
) -> Any:
    """A kernel to be watched: inspect(kernel)[grid, block](*args).

    kernel: of load_cuda() or %%cuda, or cuda_c(k): its CUDA C runs on the CPU under the
    check build. A plain Python function runs on the simulator: sim(kernel). The launch
    takes what kernel[grid, block](...) takes and gives a Report of what it did wrong
    and of what each line cost. Arrays on a GPU are copied to the host and back.

    order: in which order threads, and blocks, run: "forward", "reverse", "shuffled", or
    a number that shuffles in its own way. quiet: do not show what was found. timeout:
    seconds that the launch may take (60; 0: no limit).

    What ends a launch (an access out of bounds, a deadlock, ...) raises KernelFault:
    its .report has what was found until then, and the arrays are as they were.
    """
    # It imports PyTorch.
    from .kernels import inspected

    return inspected(kernel, order, quiet, timeout)
