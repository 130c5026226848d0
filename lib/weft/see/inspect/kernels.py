"""inspect(kernel)[grid, block](*args): one launch under the check build."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...base.arrays import ORDERS
from ...base.errors import ArgumentError
from ...cells.arguments import Array, Binder
from ...cells.cpu.launch import runtime
from ...cells.cpu.shown import tell
from ...cells.cpu.watched import TIMEOUT
from ...cells.module import Kernel, Launch, only
from ...pykernel.sim import sim
from ...pykernel.to_cuda.cuda_c import Runner
from ...report.model import Report

SEED = 2  # the runtime's first order that is random


def inspected(
    kernel: Any, order: str | int, quiet: bool, timeout: float | None
) -> Inspector | Any:
    """What inspect() gives for a kernel of any of the three kinds."""
    number = _order(order)
    limit = isinstance(timeout, (int, float)) and 0 <= timeout <= 86400
    if timeout is not None and not limit:
        raise ArgumentError(f"timeout={timeout!r}, want 0 (none) to 86400 seconds")
    kernel = only(kernel)
    if isinstance(kernel, (Kernel, Runner)):
        return Inspector(kernel, number, quiet, timeout)
    if isinstance(kernel, Launch):
        raise ArgumentError(
            "inspect(kernel)[grid, block](...): the brackets come after"
        )
    if not callable(kernel):
        raise ArgumentError(
            f"inspect() takes a kernel of %%cuda, load_cuda() or cuda_c(), or a Python "
            f"function: {kernel!r} is of type {type(kernel).__name__}"
        )
    more = {} if timeout is None else {"timeout": timeout}
    return sim(kernel, order=order, quiet=quiet, steps=True, **more)


class Inspector:
    """inspect(kernel): give it a launch's shape in brackets."""

    def __init__(
        self, kernel: Any, order: int, quiet: bool, timeout: float | None
    ) -> None:
        self.kernel, self.order = kernel, order
        self.quiet, self.timeout = quiet, timeout

    def __getitem__(self, key: Any) -> Any:
        if isinstance(self.kernel, Runner):
            return Inspection(self, self.kernel[key].prepared)
        found = self.kernel.at(key)
        if isinstance(found, Kernel):  # it was a template's arguments
            return Inspector(found, self.order, self.quiet, self.timeout)
        return Inspection(self, lambda args: (found, args))

    def __call__(self, *args: Any) -> Any:
        name = self.kernel.__name__
        raise ArgumentError(f"{name} is launched as inspect({name})[grid, block](...)")

    def __repr__(self) -> str:
        return f"inspect({self.kernel!r})"


class Inspection:
    """inspect(kernel)[grid, block]: give it the arguments.

    prepare: arguments -> the Launch, and what it takes.
    """

    def __init__(
        self,
        inspector: Inspector,
        prepare: Callable[[tuple[Any, ...]], tuple[Launch, tuple[Any, ...]]],
    ) -> None:
        self.inspector, self.prepare = inspector, prepare

    def __call__(self, *args: Any) -> Report:
        __tracebackhide__ = True
        launch, args = self.prepare(args)
        kernel, own = launch.kernel, self.inspector
        hosts, back = _on_host(kernel, args)
        launcher: Any = kernel.launcher("cpu", True)
        before = launcher.timeout
        launcher.timeout = TIMEOUT if own.timeout is None else own.timeout
        simt = runtime()
        simt.simt_set_order(own.order)
        try:
            launcher(launch.grid, launch.block, launch.shared, None, hosts)
        finally:
            simt.simt_set_order(0)
            launcher.timeout = before
        for tensor, host in back:
            tensor.copy_(host)
        seen = kernel._seen
        if not own.quiet:
            tell(kernel.module, seen, always=True)
        return seen.report


def _order(order: Any) -> int:
    """The order as the runtime has it."""
    if order in ORDERS and isinstance(order, str):
        return {"forward": 0, "reverse": 1}.get(order, SEED)
    if isinstance(order, bool) or not isinstance(order, int) or order < 0:
        raise ArgumentError(
            f"order is {', '.join(ORDERS)} or a whole number, this is {order!r}"
        )
    return SEED + order % (2**31 - SEED)


def _on_host(
    kernel: Kernel, args: Sequence[Any]
) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """The arguments with arrays of a GPU on the host, and which to copy back."""
    source = kernel.module.text()  # with its structs
    bound = Binder(kernel.__name__, kernel.params, source).bind(args)
    made: dict[int, Any] = {}
    back: dict[int, tuple[Any, Any]] = {}
    for arg, value, param in zip(args, bound, kernel.params):
        if not isinstance(value, Array) or value.device_type != "cuda":
            continue
        tensor = arg if isinstance(arg, torch.Tensor) else torch.as_tensor(arg)
        if id(arg) not in made:
            made[id(arg)] = tensor.detach().cpu()
        if not param.const:
            back[id(arg)] = tensor.detach(), made[id(arg)]
    return [made.get(id(arg), arg) for arg in args], list(back.values())
