"""A kernel's instructions, the source lines behind them, their counts and their loops.

read_ptx.py and read_sass.py build these from NVIDIA's text. find_loops() uses
dominators and natural loops, as in Aho, Lam, Sethi and Ullman, Compilers, 2nd edition,
9.6: a branch whose target comes before it on every path there closes a loop. A slow
path that lies behind the kernel's end and jumps back closes none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

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
class CodeLoop:
    """A loop: the indices of its instructions, its head and how deep it lies (0, 1..).

    hot: no other loop lies inside it.
    """

    head: int
    body: frozenset[int]
    depth: int = 0
    hot: bool = True


@dataclass
class KernelCode:
    """A kernel's instructions in one language, "ptx" or "sass", and its loops."""

    kernel: str
    language: str
    instructions: list[Instruction]
    text: str
    loops: list[CodeLoop] = field(default_factory=list)

    @property
    def hot(self) -> list[CodeLoop]:
        """The innermost loops, in the order of the code."""
        return [loop for loop in self.loops if loop.hot]

    def counts(self, loop: CodeLoop | None = None) -> dict[str, int]:
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


def find_loops(code: Sequence[Instruction]) -> list[CodeLoop]:
    """Every loop, by its head; `hot` are those that hold no other."""
    after = list_successors(code)
    before: list[list[int]] = [[] for _ in code]
    for at, nexts in enumerate(after):
        for to in nexts:
            before[to].append(at)
    parent, order = _find_dominators(code, after, before)
    found: dict[int, set[int]] = {}
    for at, nexts in enumerate(after):
        for to in nexts:
            if at in order and to in order and _is_dominator(to, at, parent, order):
                found.setdefault(to, {to}).update(_find_body(to, at, before))
    # A kernel ends in a branch to itself, which nothing reaches.
    made = [CodeLoop(head, frozenset(body)) for head, body in sorted(found.items())]
    return [
        replace(
            loop,
            depth=sum(loop.body < other.body for other in made),
            hot=not any(other.body < loop.body for other in made),
        )
        for loop in made
    ]


def list_successors(code: Sequence[Instruction]) -> list[list[int]]:
    """List, for each instruction, those that may follow it."""
    labels = {name: at for at, one in enumerate(code) for name in one.labels}
    out = []
    for at, one in enumerate(code):
        nexts = [labels[name] for name in one.jumps if name in labels]
        last = at + 1 == len(code) or code[at + 1].function != one.function
        if one.falls and not last:
            nexts.append(at + 1)
        out.append(list(dict.fromkeys(nexts)))
    return out


def _find_dominators(
    code: Sequence[Instruction], after: list[list[int]], before: list[list[int]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Each one's nearest dominator, and its number in reverse postorder.

    Cooper, Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001. The root, -1,
    leads to the kernel's first instruction and to each subroutine's.
    """
    starts = [
        at
        for at, one in enumerate(code)
        if at == 0 or code[at - 1].function != one.function
    ]
    walked = _list_reverse_postorder(starts, after)
    order = {at: number for number, at in enumerate(walked)} | {-1: -1}
    parent = {-1: -1} | {at: -1 for at in starts}
    changed = True
    while changed:
        changed = False
        for at in walked:
            if at in starts:
                continue
            known = [b for b in before[at] if b in parent]
            new = known[0]
            for other in known[1:]:
                new = _intersect(new, other, parent, order)
            if parent.get(at) != new:
                parent[at], changed = new, True
    return parent, order


def _list_reverse_postorder(starts: Sequence[int], after: list[list[int]]) -> list[int]:
    seen, out = set(starts), []
    stack = [(at, iter(after[at])) for at in starts]
    while stack:
        at, rest = stack[-1]
        to = next((n for n in rest if n not in seen), None)
        if to is None:
            out.append(at)
            stack.pop()
        else:
            seen.add(to)
            stack.append((to, iter(after[to])))
    return out[::-1]


def _intersect(a: int, b: int, parent: dict[int, int], order: dict[int, int]) -> int:
    while a != b:
        while order[a] > order[b]:
            a = parent[a]
        while order[b] > order[a]:
            b = parent[b]
    return a


def _is_dominator(
    a: int, b: int, parent: dict[int, int], order: dict[int, int]
) -> bool:
    while order[b] > order[a]:
        b = parent[b]
    return a == b


def _find_body(head: int, tail: int, before: list[list[int]]) -> set[int]:
    """List what reaches the branch at `tail` without passing the loop's head."""
    body, todo = {head, tail}, [tail] * (tail != head)
    while todo:
        for at in before[todo.pop()]:
            if at not in body:
                body.add(at)
                todo.append(at)
    return body
