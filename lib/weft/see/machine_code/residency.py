"""occupancy(kernel, threads=256): the number of blocks that fit on a multiprocessor.

A running block occupies a block slot, thread slots, registers and shared memory. The
resource that runs out first is the limit. LIMITS lists the sizes by compute capability,
from the CUDA C++ Programming Guide, "Compute Capabilities":
docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities. Registers and
shared memory are allocated as in cuda_occupancy.h of the CUDA Toolkit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from ...base.errors import ArgumentError
from ...base.style import DIM, READ, REFERENCE, SHARED, THREAD, WIDTH
from ...base.text import count_things
from ..pictures.svg import FILL, SMALL, box, document, label, make_bundle, remark, rule
from ..pictures.touches import listed
from . import compilation
from .compilation import find_usage

WARP = 32
REGISTERS = 64 << 10  # registers of a multiprocessor; also the maximum for a block
REGISTERS_THREAD = 255
REGISTERS_STEP = 256  # a warp gets registers in multiples of this number
PARTITIONS = 4  # partitions of a multiprocessor, among which its registers are divided
THREADS_BLOCK = 1024
KB = 1024


@dataclass(frozen=True)
class Limits:
    """The limits of a multiprocessor. blocks, threads, shared (bytes): its totals.

    shared_block: the maximum shared memory of a block in bytes. reserved: bytes of
    shared memory that CUDA takes for each block. step: shared memory is allocated in
    multiples of this number of bytes.
    """

    name: str
    blocks: int
    threads: int
    shared: int
    shared_block: int
    reserved: int = 1 * KB
    step: int = 128

    @property
    def warps(self) -> int:
        return self.threads // WARP


LIMITS = {
    "7.5": Limits("Turing", 16, 1024, 64 * KB, 64 * KB, reserved=0, step=256),
    "8.0": Limits("Ampere", 32, 2048, 164 * KB, 163 * KB),
    "8.6": Limits("Ampere", 16, 1536, 100 * KB, 99 * KB),
    "8.9": Limits("Ada", 24, 1536, 100 * KB, 99 * KB),
    "9.0": Limits("Hopper", 32, 2048, 228 * KB, 227 * KB),
    "10.0": Limits("Blackwell", 32, 2048, 228 * KB, 227 * KB),
    "12.0": Limits("Blackwell", 24, 1536, 100 * KB, 99 * KB),
}


def limits_of(arch: str) -> Limits:
    """Return the limits of "sm_90" or "sm_90a"; raise ArgumentError if unknown."""
    digits = re.sub(r"\D", "", arch)
    limits = LIMITS.get(f"{digits[:-1]}.{digits[-1:]}")
    if limits is None:
        names = ", ".join(f"sm_{name.replace('.', '')}" for name in LIMITS)
        raise ArgumentError(f"arch={arch!r}: limits are known only for {names}")
    return limits


@dataclass(frozen=True)
class Occupancy:
    """A launch's block size and resources on one kind of GPU, and its occupancy there.

    threads: threads per block. registers: registers per thread. shared: bytes of shared
    memory per block, static and dynamic.
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
        """The number of blocks that each resource allows; None for unused resources."""
        limits = self.limits
        return {
            "threads": limits.warps // self.warps_each,
            "blocks": limits.blocks,
            "registers": _limit_by_registers(self.registers, self.warps_each),
            "shared memory": _limit_by_shared(self.shared, limits),
        }

    @property
    def warps_each(self) -> int:
        """The number of warps in a block; the last one may be partial."""
        return -(-self.threads // WARP)

    @property
    def blocks(self) -> int:
        """The number of blocks on a multiprocessor; 0 if the launch is refused."""
        return min(count for count in self.fits.values() if count is not None)

    @property
    def binding(self) -> list[str]:
        """The resources that run out first; several if they run out together."""
        return [name for name, count in self.fits.items() if count == self.blocks]

    @property
    def warps(self) -> int:
        return self.blocks * self.warps_each

    @property
    def occupancy(self) -> float:
        """Resident warps divided by the possible maximum, 0 to 1."""
        return self.warps / self.limits.warps

    def with_threads(self, threads: int) -> Occupancy:
        """Return the occupancy of the same kernel with another block size."""
        return replace(self, threads=threads)

    def sweep(self) -> list[Occupancy]:
        """Return the occupancy for all block sizes of whole warps."""
        sizes = range(WARP, THREADS_BLOCK + 1, WARP)
        return [self.with_threads(threads) for threads in sizes]

    def best(self) -> Occupancy:
        """Return the occupancy for the smallest block size that maximizes it."""
        return max(self.sweep(), key=lambda one: (one.occupancy, -one.threads))

    def next(self) -> str:
        """Describe the saving that makes room for one more block.

        Returns "" unless registers or shared memory alone are the limit.
        """
        fits = "one more block fits at"
        if self.binding == ["registers"] and self.blocks:
            for count in range(self.registers - 1, 0, -1):
                if _limit_by_registers(count, self.warps_each) > self.blocks:
                    less = self.registers - count
                    return f"{fits} {count} registers a thread, {less} fewer"
        if self.binding == ["shared memory"] and self.blocks:
            limits = self.limits
            room = limits.shared // (self.blocks + 1) // limits.step * limits.step
            room -= limits.reserved
            if room > 0:
                less = self.shared - room
                return f"{fits} {room} bytes of shared memory, {less} fewer"
        return ""

    def sentence(self) -> str:
        """Summarise the occupancy in one line."""
        head = f"{self.name} on {self.arch} ({self.limits.name})"
        if not self.blocks:
            return f"{head}: cannot be launched"
        return (
            f"{head}: {self.occupancy:.0%} occupancy, bound by {listed(self.binding)}"
        )

    def resident(self) -> str:
        """Describe a multiprocessor's resident blocks, or why there are none."""
        if not self.blocks:
            return self._explain_refusal()
        return (
            f"{count_things(self.blocks, 'block')} of {self.threads} threads on a "
            f"multiprocessor at once, {self.warps} of {self.limits.warps} warps"
        )

    def uses(self) -> str:
        """Write the resources of a thread and of a block."""
        shared = f"{self.shared} bytes of shared memory"
        return f"{self.registers} registers a thread, {shared} a block"

    def _explain_refusal(self) -> str:
        if "shared memory" in self.binding:
            needs = f"a block requires {self.shared} bytes of shared memory"
            return f"{needs}; the maximum is {self.limits.shared_block}"
        return (
            f"{self.threads} threads with {self.registers} registers each exceed "
            f"the {REGISTERS} of a multiprocessor"
        )

    def __repr__(self) -> str:
        fits = [
            f"{name} {'no limit' if count is None else count}"
            + " (binds)" * (name in self.binding)
            for name, count in self.fits.items()
        ]
        best, hint = self.best(), self.next()
        out = [
            self.sentence(),
            f"  {self.resident()}",
            f"  room for blocks: {', '.join(fits)}",
            f"  {self.uses()}",
            f"  highest: {best.occupancy:.0%}, first at {best.threads} threads a block",
        ]
        return "\n".join([*out, *[f"  {hint}"] * bool(hint)])

    def svg(self) -> str:
        """Draw the picture: room by resource, resident warps, and all block sizes."""
        top = [label(0, 16, self.sentence(), 13, bold=True)]
        top.append(label(0, 34, self.resident(), 12))
        body, y = _draw_room(self, 62.0)
        strip, y = _draw_warps(self, y + 30)
        chart, y = _draw_sizes(self, y + 24)
        foot = remark(0, y + 22, "; ".join(filter(None, (self.uses(), self.next()))))
        whole = "".join([*top, body, strip, chart, foot])
        return document(WIDTH, y + 32, whole, repr(self))

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return make_bundle(self.svg(), repr(self))


def occupancy(
    kernel: Any = None,
    *args: Any,
    threads: int | None = None,
    shared: int = 0,
    registers: int | None = None,
    arch: str | None = None,
) -> Occupancy:
    """Return a kernel's Occupancy: the number of blocks that fit, and the limit.

        occupancy(saxpy, threads=256)            a kernel, as for ptx()
        occupancy(registers=40, shared=16 << 10, threads=256, arch="sm_80")

    threads: threads per block; None: the smallest size with the highest occupancy.
    shared: bytes of shared memory per block; for a kernel, only of dynamic shared
    memory. registers: registers per thread, instead of the kernel's own number.
    arch: an architecture; None: that of this machine's GPU, or sm_90 without a GPU.
    Raises ArgumentError for sizes that no GPU supports.
    """
    arch = compilation.checked_arch(arch)
    _check_whole("shared", shared, 0, 1 << 30)
    name = "a kernel"
    if kernel is not None:
        name, usage = find_usage(kernel, args, arch)
        shared += usage.shared
        registers = usage.registers if registers is None else registers
    if registers is None:
        raise ArgumentError("occupancy() takes a kernel or registers=, such as 32")
    _check_whole("registers", registers, 0, REGISTERS_THREAD)
    if threads is None:
        return Occupancy(name, arch, WARP, registers, shared).best()
    _check_whole("threads", threads, 1, THREADS_BLOCK)
    return Occupancy(name, arch, threads, registers, shared)


def _limit_by_registers(registers: int, warps: int) -> int | None:
    """Return the number of blocks, of `warps` each, that have enough registers.

    As in cuda_occupancy.h, each warp's registers are in one of four partitions. CUDA
    refuses the launch unless each partition has room for an equal share of the block's
    warps, rounded up.
    """
    if not registers:
        return None
    each = -(-registers * WARP // REGISTERS_STEP) * REGISTERS_STEP
    if each * (-(-warps // PARTITIONS) * PARTITIONS) > REGISTERS:
        return 0
    return REGISTERS // PARTITIONS // each * PARTITIONS // warps


def _limit_by_shared(shared: int, limits: Limits) -> int | None:
    """Return the number of blocks that fit into shared memory."""
    each = -(-(shared + limits.reserved) // limits.step) * limits.step
    if not each:
        return None
    return 0 if shared > limits.shared_block else limits.shared // each


def _check_whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"{name}={value!r}: expected a whole number")
    if not low <= value <= high:
        raise ArgumentError(f"{name}={value}: expected {low} to {high}")


LEFT = 130  # x of the bars, in pixels
BAR = 22
COLOURS = {"threads": THREAD, "blocks": "currentColor"}
COLOURS |= {"registers": READ, "shared memory": SHARED}


def _draw_room(one: Occupancy, y: float) -> tuple[str, float]:
    """Draw a bar for each resource; its length is the number of blocks that fit."""
    out = [remark(0, y, "room for blocks")]
    counts = [count for count in one.fits.values() if count is not None]
    # A resource far from the limit would squeeze the bars that matter.
    most = max(min(max(counts), 2 * max(one.blocks, 1) + 2), 4)
    scale = (WIDTH - LEFT - 230) / most
    for name, count in one.fits.items():
        y += 10
        colour, binds = COLOURS[name], name in one.binding
        length = most if count is None else min(count, most)
        out.append(label(LEFT - 10, y + 15, name, 12, anchor="end", bold=binds))
        cut = count is None or count > most
        look = dict(colour=colour, fill=FILL * (1 if binds else 0.4))
        look["stroke"] = 2 if binds else 0.8
        look |= {"edge": "currentColor", "strength": DIM} if cut else {}
        out.append(box(LEFT, y, max(length * scale, 1), BAR, **look))
        note = "no limit" if count is None else count_things(count, "block")
        note += ": binds" * binds + " (longer than drawn)" * (cut and count is not None)
        out.append(label(LEFT + length * scale + 8, y + 15, note, 12, bold=binds))
        y += BAR
    path = f"M{LEFT + one.blocks * scale:.1f} 68V{y + 6:.1f}"
    out.append(rule(path, opacity=f"{DIM}").replace("/>", f" {REFERENCE}/>"))
    return "".join(out), y


def _draw_warps(one: Occupancy, y: float) -> tuple[str, float]:
    """Draw a place for each possible warp, filled if a resident block uses it."""
    out = [remark(0, y, "places for warps")]
    step = (WIDTH - LEFT) / one.limits.warps
    side = min(step - 2, 18)
    for place in range(one.limits.warps):
        x = LEFT + place * step
        look: dict[str, Any] = dict(strength=DIM)
        if place < one.warps:
            block = place // one.warps_each
            # Adjacent blocks differ in opacity, so that each can be counted.
            look = dict(colour=THREAD, fill=FILL * (1.6 if block % 2 else 0.7))
        out.append(box(x, y - 12, side, side, **look))
    return "".join(out), y - 12 + side


def _draw_sizes(one: Occupancy, y: float) -> tuple[str, float]:
    """Plot occupancy against block size, marking the requested size."""
    high, sweep = 96.0, one.sweep()
    out = [remark(0, y + 12, "occupancy")]
    out.append(remark(0, y + 26, "by block size"))
    step = (WIDTH - LEFT) / len(sweep)
    base = y + high
    for share in (0.5, 1.0):
        at = base - share * (high - 8)
        out.append(rule(f"M{LEFT} {at:.1f}H{WIDTH}", opacity=".25"))
        out.append(label(LEFT - 10, at + 4, f"{share:.0%}", SMALL, anchor="end"))
    for number, size in enumerate(sweep):
        x, tall = LEFT + number * step, size.occupancy * (high - 8)
        selected = size.warps_each == one.warps_each
        colour = THREAD if selected else "currentColor"
        look = dict(colour=colour, fill=FILL * (2 if selected else 0.5), radius=1)
        tip = f"{size.threads} threads: {size.occupancy:.0%}, {size.binding[0]}"
        bar = box(x + 2, base - tall, step - 4, max(tall, 0.5), **look)
        out.append(f"<g><title>{tip}</title>{bar}</g>")
        if selected or size.threads % 128 == 0:
            look = dict(bold=selected, anchor="middle")
            out.append(label(x + step / 2, base + 14, str(size.threads), SMALL, **look))
    return "".join(out), base + 16
