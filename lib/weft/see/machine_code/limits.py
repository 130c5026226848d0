"""What a multiprocessor holds, by compute capability.

CUDA C++ Programming Guide, "Compute Capabilities", the table of technical
specifications: docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities.
How registers and shared memory are handed out: cuda_occupancy.h of the CUDA Toolkit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...base.errors import ArgumentError

WARP = 32
REGISTERS = 64 << 10  # of a multiprocessor, and at most of a block
REGISTERS_THREAD = 255
REGISTERS_STEP = 256  # a warp gets a multiple of so many
PARTITIONS = 4  # of a multiprocessor; a warp's registers lie in one of them
THREADS_BLOCK = 1024
KB = 1024


@dataclass(frozen=True)
class Limits:
    """blocks, threads, shared: of a multiprocessor, bytes for shared.

    shared_block: what one block can have if it asks for it. reserved: bytes that CUDA
    takes of shared memory for each block; step: a block gets a multiple of so many.
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
    """The limits of "sm_90" or "sm_90a"; ArgumentError if they are not known here."""
    digits = re.sub(r"\D", "", arch)
    found = LIMITS.get(f"{digits[:-1]}.{digits[-1:]}")
    if found is None:
        known = ", ".join(f"sm_{name.replace('.', '')}" for name in LIMITS)
        raise ArgumentError(f"arch={arch!r}: the limits known are those of {known}")
    return found
