"""The loops of a piece of machine code, from its labels and branches.

Dominators and natural loops, as in Aho, Lam, Sethi and Ullman, Compilers, 2nd edition,
9.6: a branch whose target comes before it on every way there closes a loop. A slow path
that lies behind the kernel's end and jumps back closes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .instructions import Instruction, Loop


def loops(code: Sequence[Instruction]) -> list[Loop]:
    """Every loop, by its head; `hot` are those that hold no other."""
    after = successors(code)
    before: list[list[int]] = [[] for _ in code]
    for at, nexts in enumerate(after):
        for to in nexts:
            before[to].append(at)
    parent, order = _dominators(code, after, before)
    found: dict[int, set[int]] = {}
    for at, nexts in enumerate(after):
        for to in nexts:
            if at in order and to in order and _dominates(to, at, parent, order):
                found.setdefault(to, {to}).update(_body(to, at, before))
    # A kernel ends in a branch to itself, which nothing reaches.
    made = [Loop(head, frozenset(body)) for head, body in sorted(found.items())]
    return [
        replace(
            loop,
            depth=sum(loop.body < other.body for other in made),
            hot=not any(other.body < loop.body for other in made),
        )
        for loop in made
    ]


def successors(code: Sequence[Instruction]) -> list[list[int]]:
    """Where each instruction may be followed by which."""
    labels = {name: at for at, one in enumerate(code) for name in one.labels}
    out = []
    for at, one in enumerate(code):
        nexts = [labels[name] for name in one.jumps if name in labels]
        last = at + 1 == len(code) or code[at + 1].function != one.function
        if one.falls and not last:
            nexts.append(at + 1)
        out.append(list(dict.fromkeys(nexts)))
    return out


def _dominators(
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
    walked = _reverse_postorder(starts, after)
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
                new = _meet(new, other, parent, order)
            if parent.get(at) != new:
                parent[at], changed = new, True
    return parent, order


def _reverse_postorder(starts: Sequence[int], after: list[list[int]]) -> list[int]:
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


def _meet(a: int, b: int, parent: dict[int, int], order: dict[int, int]) -> int:
    while a != b:
        while order[a] > order[b]:
            a = parent[a]
        while order[b] > order[a]:
            b = parent[b]
    return a


def _dominates(a: int, b: int, parent: dict[int, int], order: dict[int, int]) -> bool:
    while order[b] > order[a]:
        b = parent[b]
    return a == b


def _body(head: int, tail: int, before: list[list[int]]) -> set[int]:
    """What reaches the branch at `tail` without passing the head."""
    body, todo = {head, tail}, [tail] * (tail != head)
    while todo:
        for at in before[todo.pop()]:
            if at not in body:
                body.add(at)
                todo.append(at)
    return body
