"""A kernel as the machine has it: instructions, the source lines behind them, counts.

read_ptx.py and read_sass.py make these from NVIDIA's text; loops.py finds the loops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

# What is counted, in the order in which it is told.
KINDS = (
    *("global load", "global store", "shared load", "shared store"),
    *("local load", "local store", "global atomic", "shared atomic"),
    *("FMA", "matrix", "special", "barrier", "branch", "other"),
)


@dataclass
class Instruction:
    """One instruction.

    text: as NVIDIA's tools write it. opcode: its name with all suffixes, LDG.E.128.
    guard: the predicate that lets it run, "@!P0", or "". labels: those before it.
    jumps: the labels that it may go to; falls: whether it may also go on to the next.
    file, line: of the source, "" and 0 where unknown. function: the subroutine that it
    is part of, "" in the kernel itself.
    """

    text: str
    opcode: str
    kind: str
    guard: str = ""
    labels: tuple[str, ...] = ()
    jumps: tuple[str, ...] = ()
    falls: bool = True
    file: str = ""
    line: int = 0
    function: str = ""

    @property
    def place(self) -> tuple[str, int]:
        return self.file, self.line

    @property
    def bits(self) -> int:
        """How wide one thread's access is: 128 for LDG.E.128 and ld.global.v4.f32."""
        parts = self.opcode.split(".")
        wide = [int(p) for p in parts if p in ("8", "16", "64", "128", "256")]
        wide += [int(p[1:]) for p in parts if p in ("U8", "S8", "U16", "S16")]
        if wide or parts[0].isupper():
            return wide[-1] if wide else 32
        each = [int(p[1:]) for p in parts if p[:1] in "bfus" and p[1:].isdigit()]
        vector = [int(p[1:]) for p in parts if p in ("v2", "v4", "v8")]
        return (each[-1] if each else 32) * (vector[-1] if vector else 1)


@dataclass(frozen=True)
class Loop:
    """A loop: the indices of its instructions, its head and how deep it lies (0, 1..).

    hot: no other loop lies inside it.
    """

    head: int
    body: frozenset[int]
    depth: int = 0
    hot: bool = True


@dataclass
class Code:
    """A kernel's instructions in one language, "ptx" or "sass", and its loops."""

    kernel: str
    language: str
    instructions: list[Instruction]
    text: str
    loops: list[Loop] = field(default_factory=list)

    @property
    def hot(self) -> list[Loop]:
        """The innermost loops, in the order of the code."""
        return [loop for loop in self.loops if loop.hot]

    def counts(self, loop: Loop | None = None) -> dict[str, int]:
        """How many instructions of each kind: of one pass of a loop, or of all."""
        those = self.instructions
        if loop is not None:
            those = [those[i] for i in sorted(loop.body)]
        return counted(those)

    def lines(self, indices: Iterable[int]) -> list[int]:
        """The source lines behind instructions, of the file that most are from."""
        places = [self.instructions[i].place for i in indices]
        files = Counter(file for file, line in places if line)
        if not files:
            return []
        file = files.most_common(1)[0][0]
        return sorted({line for at, line in places if at == file and line})


def counted(those: Iterable[Instruction]) -> dict[str, int]:
    """How many of each kind there are, in the order of KINDS."""
    found = Counter(one.kind for one in those)
    return {kind: found[kind] for kind in KINDS if found[kind]}


def told(counts: dict[str, int]) -> str:
    """8 global loads, 64 FMAs, 40 others"""
    words = []
    for kind, count in counts.items():
        plural = {"branch": "branches", "matrix": "matrix products"}.get(kind, kind)
        if kind == "special":
            plural = "special functions"
        elif plural == kind:
            plural += "s"
        one = {"matrix": "matrix product", "special": "special function"}
        words.append(f"{count} {plural if count != 1 else one.get(kind, kind)}")
    return ", ".join(words) or "nothing"
