"""The exceptions for failed launches on the CPU: one sentence each, with advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.errors import KernelFault
from ...base.tracebacks import Short
from ...csource.diagnostics import CELL
from ...csource.signature import Param
from ..arguments import Array
from ..structs import CScalar
from .arena import Arena

if TYPE_CHECKING:
    from ..reached_arrays import Reached


NULL_PAGES = 64 << 10  # an address below this is that of a null pointer
NOBODY = 2**32 - 1  # the index if no single thread caused the fault
LAUNCH, ADDRESS, STACK, ARITHMETIC, ILLEGAL, ASSERT, TRAP = range(1, 8)
EXCEPTION, TIMEOUT, INTERRUPT, DEADLOCK = range(8, 12)
AS_BEFORE = ". Its arrays are as they were."
GUARD = ": guard the access with an if, or check the sizes of the launch"


class Stopped(Short, KeyboardInterrupt):
    """The exception for a launch stopped with Ctrl-C or the stop button."""


@dataclass(frozen=True)
class Fault:
    """The SIMT runtime's report on a failed launch (struct simt_fault)."""

    kind: int
    error: int
    address: int
    write: int  # 1: a store, 0: a load, -1: unknown
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    text: str


@dataclass(frozen=True)
class FaultScene:
    """The failed launch, with the names and places that explain an address."""

    kernel: str
    params: tuple[Param, ...]
    types: tuple[CScalar | None, ...]
    bound: Sequence[object]
    # The addresses of the pointers among `bound`, then of the reached arrays.
    addresses: Sequence[int]
    arena: Arena | None
    timeout: float
    reached: Reached | None = None

    def pointers(self) -> list[tuple[Param, CScalar | None, Array | None, int]]:
        """Return the pointers: parameters, types, arrays and the kernel's addresses."""
        bound_params = zip(self.params, self.types, self.bound)
        pointers = [(p, kind, value) for p, kind, value in bound_params if p.pointer]
        if (reached := self.reached) is not None:
            pointers += zip(reached.params, reached.types, reached.arrays)
        return [
            (p, kind, value if isinstance(value, Array) else None, address)
            for (p, kind, value), address in zip(pointers, self.addresses)
        ]


def explain(fault: Fault, scene: FaultScene) -> KernelFault:
    """Return the exception for a failed launch."""
    thread = f"thread {_write_index(fault.thread)} of block {_write_index(fault.block)}"
    texts = {
        ADDRESS: f"{thread} {_describe_address(fault, scene)}",
        STACK: f"{thread} used up its stack of 64 KB: make its local arrays smaller, "
        f"or end the recursion",
        ARITHMETIC: f"{thread} divided an integer by zero, or the smallest one by -1 "
        f"(a GPU would continue with an arbitrary number): check the divisor",
        ILLEGAL: f"{thread} reached code that is marked as unreachable: look for a "
        f"missing return or an undefined index",
        ASSERT: fault.text.replace(f"{CELL}:", "line "),
        TRAP: f"{thread} called __trap()",
        TIMEOUT: f"it ran longer than {scene.timeout:g} s and was stopped: look for a "
        f"loop that does not end, or allow more time with timeout= (--timeout)",
    }
    text = texts.get(fault.kind, fault.text).removeprefix(f"{scene.kernel}: ")
    message = f"{scene.kernel}: {text}{_describe_state(scene)}"
    places = (at if at[0] != NOBODY else None for at in (fault.block, fault.thread))
    error = KernelFault(message, scene.kernel, *places)
    error.kind = fault.kind
    return error


def make_stray_fault(address: int, scene: FaultScene) -> KernelFault:
    """Return the exception for an overwritten canary, which is found after a launch."""
    text = f"a thread wrote {_describe_nearest(address, scene)}{GUARD}"
    message = f"{scene.kernel}: {text}{_describe_state(scene)}"
    return KernelFault(message, scene.kernel)


def read_only(kernel: str, param: Param) -> KernelFault:
    """Return the exception for a store into a read-only array through a cast."""
    claim = f"it wrote into {param} through a cast that removes const"
    cause = f"but the array is read-only: pass a copy{AS_BEFORE}"
    return KernelFault(f"{kernel}: {claim}, {cause}", kernel)


def _describe_state(scene: FaultScene) -> str:
    if scene.arena is None:
        return ". It worked in place: its arrays may be partly written."
    return AS_BEFORE


def _describe_address(fault: Fault, scene: FaultScene) -> str:
    verb = {1: "wrote", 0: "read"}.get(fault.write, "touched")
    if fault.address < NULL_PAGES:
        nulls = [str(p) for p, _, a, _ in scene.pointers() if a is None]
        hint = f": None was passed for {', '.join(nulls)}" if nulls else ""
        return f"{verb} through a null pointer (address 0x{fault.address:x}){hint}"
    return f"{verb} {_describe_nearest(fault.address, scene)}{GUARD}"


def _describe_nearest(address: int, scene: FaultScene) -> str:
    """Describe an address: `out[1030], 6 elements past the end of its 1024`."""
    nearest: tuple[int, str] | None = None
    for param, kind, array, start in scene.pointers():
        if array is None:
            continue
        size = kind.size if kind else array.itemsize
        count = array.nbytes // size
        index = (address - start) // size
        beyond = index - count
        distance = max(-index, beyond + 1, 0)
        if scene.arena is not None and distance * size > (1 << 30):
            continue
        name = f"{param.name or 'an array'}[{index}]"
        if index < 0:
            text = f"{name}, {_count_elements(-index)} before its start"
        elif beyond >= 0:
            past = f"{_count_elements(beyond)} past" if beyond else "just past"
            text = f"{name}, {past} the end of its {count}"
        else:
            text = f"{name} of {count}, which is not allowed"
        if nearest is None or distance < nearest[0]:
            nearest = distance, text
    if nearest is None or (scene.arena is None and nearest[0] > 1 << 20):
        return f"address 0x{address:x}, which is in none of its arrays"
    return nearest[1]


def _count_elements(count: int) -> str:
    return f"{count} element{'s' * (count != 1)}"


def _write_index(index: tuple[int, int, int]) -> str:
    return "({},{},{})".format(*index)
