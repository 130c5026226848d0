"""Which multiply-adds of a rung wait for a register bank, counted in its SASS.

The registers of a thread lie in two banks, the even and the odd ones, and an
instruction that reads two different ones of the same bank takes a cycle more. One that
the instruction before has marked .reuse in the same place is still at hand and is not
read. A model, found by trying: it is too strict by some per cent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import BuildError
from ...see.machine_code import sass
from ...see.machine_code.instructions import Code, Instruction, Loop
from ...toolchain.build import nvcc
from .code import rung_name, rung_path

# By nvcc 13.0 for sm_90: multiply-adds in a pass of the inner loop, those that wait.
COUNTED = {
    "registers_2d": (512, 375),
    "vectorised": (512, 152),
    "conflict_free": (512, 144),
    "warp_tiles": (512, 144),
    "double_buffer": (512, 369),
    "pipeline": (1024, 82),
    "tma": (1024, 55),
    "k_groups": (1024, 36),
}


@dataclass(frozen=True)
class RegisterWaits:
    """fmas: in a pass of the inner loop. waits: cycles lost there. told: whether the
    counts came with the lab."""

    fmas: int
    waits: int
    told: bool = False

    @property
    def ceiling(self) -> float:
        """The share of their peak that the multiply-adds can reach, 0 to 1."""
        return self.fmas / (self.fmas + self.waits)


def register_waits(rung: str | Path, told: bool = False) -> RegisterWaits:
    """Of a rung, compiled here, else as it was counted; BuildError if neither.

    rung: its name or the path of its file; of several kernels in it that with most
    registers. told: do not compile what was counted.
    """
    path = rung_path(rung)
    name = rung_name(path)
    try:
        if not nvcc() or (told and name in COUNTED):
            raise BuildError("not compiled")
        view = sass(str(path), f"matmul_{name}", arch="sm_90")
    except BuildError:
        if name in COUNTED:
            return RegisterWaits(*COUNTED[name], told=True)
        raise
    largest = max(view.kernels, key=lambda one: one.usage.registers)
    return counted(largest.code)


def counted(code: Code) -> RegisterWaits:
    """Of the loop with most multiply-adds, in the order in which they stand.

    Those of loops inside it do not count: who waits for a barrier in the loop over k
    has a loop of its own there.
    """
    fmas = waits = 0
    kept: dict[int, str] = {}
    for one in max((_list_own_fmas(code, loop) for loop in code.loops), key=len):
        sources = re.findall(r"\b(R\d+)(\.reuse)?", one.text)[1:]
        read = {name for at, (name, _) in enumerate(sources) if kept.get(at) != name}
        odd = sum(int(name[1:]) % 2 for name in read)
        waits += max(0, max(odd, len(read) - odd) - 1)
        kept = {at: name for at, (name, reuse) in enumerate(sources) if reuse}
        fmas += 1
    return RegisterWaits(fmas, waits)


def _list_own_fmas(code: Code, loop: Loop) -> list[Instruction]:
    inner = (other.body for other in code.loops if other.body < loop.body)
    own = loop.body.difference(*inner)
    those = (code.instructions[index] for index in sorted(own))
    return [one for one in those if one.opcode == "FFMA"]
