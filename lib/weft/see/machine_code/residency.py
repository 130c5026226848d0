"""occupancy(kernel, threads=256): how many blocks are on a multiprocessor at once.

Four things are handed out to blocks for as long as they run: places for blocks, places
for threads, registers and shared memory. What runs out first is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.errors import ArgumentError
from ...base.text import plural
from . import toolchain
from .limits import (
    PARTITIONS,
    REGISTERS,
    REGISTERS_STEP,
    REGISTERS_THREAD,
    THREADS_BLOCK,
    WARP,
    Limits,
    limits_of,
)
from .residency_picture import draw
from .sources import usage_of


@dataclass(frozen=True)
class Occupancy:
    """A launch's block on one kind of GPU, and what of it fits on a multiprocessor.

    threads: of a block. registers: of a thread. shared: bytes of a block, all of it.
    """

    name: str
    arch: str
    threads: int
    registers: int
    shared: int

    @property
    def limits(self) -> Limits:
        return limits_of(self.arch)

    @property
    def fits(self) -> dict[str, int | None]:
        """How many blocks each resource has room for; None: it is not needed."""
        limits = self.limits
        return {
            "threads": limits.warps // self.warps_each,
            "blocks": limits.blocks,
            "registers": _by_registers(self.registers, self.warps_each),
            "shared memory": _by_shared(self.shared, limits),
        }

    @property
    def warps_each(self) -> int:
        """Warps of a block; the last may be a part of one."""
        return -(-self.threads // WARP)

    @property
    def blocks(self) -> int:
        """Blocks that are resident at once; 0: the kernel cannot be launched so."""
        return min(count for count in self.fits.values() if count is not None)

    @property
    def binding(self) -> list[str]:
        """What runs out first; several if they do together."""
        return [name for name, count in self.fits.items() if count == self.blocks]

    @property
    def warps(self) -> int:
        return self.blocks * self.warps_each

    @property
    def occupancy(self) -> float:
        """Resident warps over those that could be, 0 to 1."""
        return self.warps / self.limits.warps

    def with_threads(self, threads: int) -> Occupancy:
        """The same kernel with another block size."""
        own = self.name, self.arch, threads, self.registers, self.shared
        return Occupancy(*own)

    def sweep(self) -> list[Occupancy]:
        """All block sizes of whole warps. Shared memory is left as it is."""
        sizes = range(WARP, THREADS_BLOCK + 1, WARP)
        return [self.with_threads(threads) for threads in sizes]

    def best(self) -> Occupancy:
        """The smallest block size with the highest occupancy."""
        return max(self.sweep(), key=lambda one: (one.occupancy, -one.threads))

    def next(self) -> str:
        """What one more block would take, where registers or shared memory bind."""
        if self.binding == ["registers"] and self.blocks:
            for registers in range(self.registers - 1, 0, -1):
                if _by_registers(registers, self.warps_each) > self.blocks:
                    return (
                        f"one block more fits at {registers} registers a thread, "
                        f"{self.registers - registers} fewer"
                    )
        if self.binding == ["shared memory"] and self.blocks:
            limits = self.limits
            room = limits.shared // (self.blocks + 1) // limits.step * limits.step
            less = self.shared - (room - limits.reserved)
            if room > limits.reserved:
                return (
                    f"one block more fits at {room - limits.reserved} bytes of shared "
                    f"memory, {less} fewer"
                )
        return ""

    def sentence(self) -> str:
        """What to see, in one line."""
        if not self.blocks:
            return f"{self._head()}: cannot be launched"
        which = " and ".join([", ".join(self.binding[:-1]), self.binding[-1]])
        which = which.removeprefix(" and ")
        return f"{self._head()}: {self.occupancy:.0%} occupancy, bound by {which}"

    def resident(self) -> str:
        """What is on a multiprocessor at once, or why nothing can be."""
        if not self.blocks:
            return self._refused()
        return (
            f"{plural(self.blocks, 'block')} of {self.threads} threads on a "
            f"multiprocessor at once, {self.warps} of {self.limits.warps} warps"
        )

    def uses(self) -> str:
        """What a thread and a block take."""
        return (
            f"{self.registers} registers a thread, {self.shared} bytes of shared "
            f"memory a block"
        )

    def _head(self) -> str:
        return f"{self.name} on {self.arch} ({self.limits.name})"

    def _refused(self) -> str:
        limits = self.limits
        if "shared memory" in self.binding:
            return (
                f"a block wants {self.shared} bytes of shared memory and can have "
                f"{limits.shared_block}"
            )
        return (
            f"{self.threads} threads of {self.registers} registers want more than the "
            f"{REGISTERS} of a multiprocessor"
        )

    def __repr__(self) -> str:
        fits = [
            f"{name} {'no limit' if count is None else count}"
            + " (binds)" * (name in self.binding)
            for name, count in self.fits.items()
        ]
        best, more = self.best(), self.next()
        out = [
            self.sentence(),
            f"  {self.resident()}",
            f"  room for blocks: {', '.join(fits)}",
            f"  {self.uses()}",
            f"  highest: {best.occupancy:.0%}, first at {best.threads} threads a block",
        ]
        return "\n".join([*out, *[f"  {more}"] * bool(more)])

    def svg(self) -> str:
        """The picture: room by resource, resident warps, all block sizes."""
        return draw(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.svg(), "text/plain": repr(self)}


def occupancy(
    kernel: Any = None,
    *args: Any,
    threads: int | None = None,
    shared: int = 0,
    registers: int | None = None,
    arch: str | None = None,
) -> Occupancy:
    """How many blocks of a kernel a multiprocessor holds, and what limits it.

        occupancy(saxpy, threads=256)            a kernel, as ptx() takes it
        occupancy(registers=40, shared=16 << 10, threads=256, arch="sm_80")

    threads: of a block; None: the smallest size with the highest occupancy. shared:
    bytes of a block: with a kernel, of dynamic shared memory beside its own. registers:
    of a thread, where they are not to be the kernel's. arch: None is the GPU here,
    else sm_90. Raises ArgumentError for sizes that no GPU has.
    """
    arch = toolchain.checked_arch(arch)
    _whole("shared", shared, 0, 1 << 30)
    name = "a kernel"
    if kernel is not None:
        name, usage = usage_of(kernel, args, arch)
        shared += usage.shared
        registers = usage.registers if registers is None else registers
    if registers is None:
        raise ArgumentError(
            "occupancy wants a kernel, or registers=, e.g. registers=32"
        )
    _whole("registers", registers, 0, REGISTERS_THREAD)
    if threads is None:
        return Occupancy(name, arch, WARP, registers, shared).best()
    _whole("threads", threads, 1, THREADS_BLOCK)
    return Occupancy(name, arch, threads, registers, shared)


def _by_registers(registers: int, warps: int) -> int | None:
    """Blocks of so many warps that the registers are enough for.

    As cuda_occupancy.h counts: whole warps go to one of four partitions each, and the
    launch is refused as if every partition had to take as many.
    """
    if not registers:
        return None
    each = -(-registers * WARP // REGISTERS_STEP) * REGISTERS_STEP
    if each * (-(-warps // PARTITIONS) * PARTITIONS) > REGISTERS:
        return 0
    return REGISTERS // PARTITIONS // each * PARTITIONS // warps


def _by_shared(shared: int, limits: Limits) -> int | None:
    """Blocks that shared memory has room for."""
    each = -(-(shared + limits.reserved) // limits.step) * limits.step
    if not each:
        return None
    return 0 if shared > limits.shared_block else limits.shared // each


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"{name}={value!r}: want a whole number")
    if not low <= value <= high:
        raise ArgumentError(f"{name}={value}: want {low} to {high}")
