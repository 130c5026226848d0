"""The errors that a reader may catch: every one is a sentence, without a traceback.

Short, from tracebacks.py, is why a notebook shows the message alone.
"""

from __future__ import annotations

from typing import Any

from .tracebacks import Short


class KernelError(Short, RuntimeError):
    """A C function of the lab failed; the message is weft_last_error()."""


class ArgumentError(KernelError, ValueError):
    """An argument makes no sense; nothing was launched."""


class OutOfMemory(KernelError, MemoryError):
    """There was not enough memory on the target."""


class DeviceLost(KernelError):
    """A kernel faulted and took the CUDA context with it: restart the kernel."""


class BuildError(Short, RuntimeError):
    """The library could not be built; the message holds the compiler's own."""


class Mismatch(Short, AssertionError):
    """A kernel gave a wrong answer or touched what it must not.

    From check() it also has, where they are known: array, index, block, thread,
    got, want, sizes (by name), grid, launch_block, guess, wrong and total (how many
    elements), report (the simulator's).
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "facts":
            raise AttributeError(name)
        return self.facts.get(name)


class KernelFault(KernelError):
    """A kernel did what it must not, or did not end; its launch was ended.

    Its arrays are as they were before the launch, unless it ran in place.
    kernel: its name; block, thread: which of them, (x, y, z), or None. report: what
    was seen until then, where launches are watched. kind: the runtime's number.
    """

    def __init__(
        self,
        message: str,
        kernel: str = "",
        block: tuple[int, int, int] | None = None,
        thread: tuple[int, int, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.kernel, self.block, self.thread = kernel, block, thread
        self.report: Any = None  # a weft Report
        self.kind = 0
