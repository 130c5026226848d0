"""Turn the simulator's trace into the instructions that each warp issues.

steps_of() finds the order in which the threads of a warp go through a kernel together.
A warp that diverges executes both sides of a branch one after the other and reconverges
after it. It leaves a loop together with its last thread. A step's place is therefore
its line and the path of loops around it, each with its iteration (turn). Steps of
different threads with the same place happen together.

Statements records, for each statement of a kernel, its names and loads, and whether it
computes. programs() models the instructions without a GPU compiler. One
instruction represents each access to global or shared memory and each barrier. Another
represents each statement that has an operator or a call outside of an index.
Indices and the counting in a `for` loop are free, and local arrays are in registers. An
instruction waits for the values that it uses. As in compiled code, loads move to the
front of a straight piece of code. They do not move past a store to the same kind of
memory. Iterations of a loop do not overlap (`#pragma unroll 1`).
"""

from __future__ import annotations

import ast
import bisect
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...pykernel.sim.layout import (
    ATOMIC,
    GLOBAL,
    LOCAL,
    READ,
    SHARED,
    STEP,
    WRITE,
    Interval,
    Site,
    Trace,
)
from ...pykernel.sim.warp import WARP
from ...report.model import Report, Source

Place = tuple  # (interval, (line of a loop, turn), ..., (line, site))


@dataclass(frozen=True)
class WarpStep:
    """One step of a warp: its site, its interval, and the lanes that take part."""

    site: int
    interval: int
    lanes: np.ndarray


@dataclass
class _Loop:
    first: int
    last: int
    turn: int = 0
    seen: set[int] = field(default_factory=set)


def find_source_loops(text: str, first: int) -> list[tuple[int, int]]:
    """Return each loop's first and last line; the source starts at line `first`."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        return []
    nodes = [n for n in ast.walk(tree) if isinstance(n, (ast.For, ast.While))]
    return sorted(
        (n.lineno + first - 1, (n.end_lineno or n.lineno) + first - 1) for n in nodes
    )


def steps_of(
    intervals: Sequence[Interval],
    sites: Sequence[Site],
    loops: Sequence[tuple[int, int]],
    warp: int,
    every: bool = False,
) -> list[WarpStep]:
    """Return the steps of one warp of one block, in order.

    intervals: the barrier intervals of that block. every: whether to return both STEP
    sites and accesses; otherwise, accesses are steps only if there are no STEP sites.
    """
    steps = [i for i, site in enumerate(sites) if site.kind == STEP]
    has_steps = any(np.isin(part.site, steps).any() for part in intervals)
    lanes: dict[Place, set[int]] = {}
    stacks: dict[int, list[_Loop]] = {}
    for part in intervals:
        keep = part.thread // WARP == warp
        at_step = np.isin(part.site, steps)
        at_access = part.element >= 0
        keep &= at_step | at_access if every else at_step if has_steps else at_access
        order = np.argsort(part.thread[keep], kind="stable")
        rows = zip(part.thread[keep][order].tolist(), part.site[keep][order].tolist())
        for thread, site in rows:
            stack = stacks.setdefault(thread, [])
            place = (part.number, *_record_step(stack, site, sites[site].line, loops))
            lanes.setdefault(place, set()).add(thread % WARP)
    return [
        WarpStep(place[-1][1], place[0], np.array(sorted(lanes[place])))
        for place in sorted(lanes)
    ]


def _record_step(
    stack: list[_Loop], site: int, line: int, loops: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Record a thread's step to a site; return the site's loops and iterations."""
    chain = [loop for loop in loops if loop[0] <= line <= loop[1]]
    matches = [(one.first, one.last) == loop for one, loop in zip(stack, chain)]
    same = [*matches, False].index(False)
    del stack[same:]
    # A second visit to a site begins the loop's next iteration.
    if stack and site in stack[-1].seen:
        stack[-1].turn += 1
        stack[-1].seen.clear()
    stack += [_Loop(*loop) for loop in chain[same:]]
    for loop in stack:
        loop.seen.add(site)
    return [*((loop.first, loop.turn) for loop in stack), (line, site)]


# Calls for which the model issues no instruction.
FREE = {"range", "len", "int", "float", "bool", "array"}
_SILENT = (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Global, ast.Pass)


@dataclass(eq=False)
class Statement:
    """A statement, or the head of a loop or branch.

    first, last: the first and last line. uses, makes: the names that it reads outside
    of indices, and those that it binds. indices: the names in each index, by (line,
    column) of the access. computes: whether it has an operator or a call outside of
    indices. decides: whether the following statements wait for it. waits: whether it is
    a barrier.
    """

    first: int
    last: int
    uses: set[str] = field(default_factory=set)
    makes: set[str] = field(default_factory=set)
    indices: dict[tuple[int, int], set[str]] = field(default_factory=dict)
    computes: bool = False
    decides: bool = False
    waits: bool = False


class Statements:
    """The statements of several sources, by file and line."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._files: dict[str, tuple[list[int], list[Statement]]] = {}
        for source in sources:
            new = _read_statements(source.text, source.first)
            old = self._files.get(source.file, ([], []))[1]
            statements = sorted(old + new, key=lambda s: s.first)
            self._files[source.file] = ([s.first for s in statements], statements)

    def at(self, file: str, line: int) -> Statement | None:
        """Return the statement that contains this line; None if there is none."""
        firsts, statements = self._files.get(file, ([], []))
        i = bisect.bisect_right(firsts, line) - 1
        return statements[i] if i >= 0 and line <= statements[i].last else None

    def within(self, file: str, first: int, last: int) -> Sequence[Statement]:
        """Return the statements that begin on these lines."""
        firsts, statements = self._files.get(file, ([], []))
        start, stop = bisect.bisect_left(firsts, first), bisect.bisect(firsts, last)
        return statements[start:stop]


def _read_statements(text: str, first: int) -> list[Statement]:
    lines = textwrap.dedent(text)
    indent = len(text.split("\n")[0]) - len(lines.split("\n")[0])
    try:
        tree = ast.parse(lines)
    except SyntaxError:
        return []
    statements = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, _SILENT):
            continue
        decides = isinstance(node, (ast.If, ast.While))
        head: ast.AST = getattr(node, "test", node) if decides else node
        if isinstance(node, ast.For):
            head = node.iter
        start = node.lineno + first - 1
        last = (getattr(head, "end_lineno", None) or node.lineno) + first - 1
        statement = Statement(start, last, decides=decides)
        reader = _Reader(statement, first, indent)
        if isinstance(node, ast.AugAssign):
            statement.computes = True
            if isinstance(node.target, ast.Name):
                statement.uses.add(node.target.id)
        reader.visit(head)
        if isinstance(node, ast.For):
            # A loop's head costs nothing: compilers unroll the loop, or count its
            # iterations during other work.
            statement.computes = False
        statements.append(statement)
    return statements


class _Reader(ast.NodeVisitor):
    """A visitor that fills in a Statement."""

    def __init__(self, into: Statement, first: int, indent: int) -> None:
        self.into, self.first, self.indent = into, first, indent

    def visit_Name(self, node: ast.Name) -> None:
        into = self.into
        (into.uses if isinstance(node.ctx, ast.Load) else into.makes).add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        pass  # cuda.threadIdx.x, for example, is in a register

    def visit_Subscript(self, node: ast.Subscript) -> None:
        names = {n.id for n in ast.walk(node.slice) if isinstance(n, ast.Name)}
        place = (node.lineno + self.first - 1, node.col_offset + self.indent)
        self.into.indices[place] = names
        for inner in ast.walk(node.slice):  # x[y[i]] also loads y
            if isinstance(inner, ast.Subscript):
                self.visit_Subscript(inner)
        if isinstance(node.value, ast.Name):
            self.visit_Name(ast.Name(node.value.id, node.ctx))
        else:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        inner = [*node.args, *(k.value for k in node.keywords)]
        named = any(isinstance(n, ast.Name) for a in inner for n in ast.walk(a))
        if named and called not in FREE:
            self.into.computes = True
        self.into.waits |= called == "syncthreads"
        for argument in inner:
            self.visit(argument)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.into.computes = True
        self.generic_visit(node)

    visit_Compare = visit_BoolOp = visit_UnaryOp = visit_BinOp  # type: ignore


ARITHMETIC, STORE, BARRIER = "arithmetic", "store", "barrier"


@dataclass(frozen=True)
class IssuedInstruction:
    """An instruction of a warp: GLOBAL, SHARED (loads), ARITHMETIC, STORE or BARRIER.

    after: the indices of the warp's instructions whose results it needs. line: its line
    in the source; 0 for a barrier.
    """

    kind: str
    after: tuple[int, ...] = ()
    line: int = 0


Program = tuple[IssuedInstruction, ...]


def programs(trace: Trace, report: Report | None, most: int) -> list[list[Program]]:
    """Return the instructions of each block's warps, at most `most` for each warp.

    The result has a list for each block, and warps that behave alike share a program.
    """
    sources = list(report.sources) if report else []
    loops = [line for s in sources[:1] for line in find_source_loops(s.text, s.first)]
    writer = _Writer(trace, Statements(sources), most)
    warps = -(-int(np.prod(trace.block)) // WARP)
    parts: dict[int, list] = {}
    for part in trace.intervals:
        parts.setdefault(part.block, []).append(part)
    cache: dict[tuple, Program] = {}
    result = []
    for _, intervals in sorted(parts.items()):
        result.append([])
        for warp in range(warps):
            paths = (_follow_path(p, trace.sites, loops, warp) for p in intervals)
            ways = tuple(paths)
            if ways not in cache:
                cache[ways] = writer.program(ways)
            result[-1].append(cache[ways])
    return result


def _follow_path(
    part, sites: Sequence[Site], loops: Sequence[tuple[int, int]], warp: int
) -> tuple[int, ...]:
    """Return the sites that a warp reaches in an interval, in order."""
    rows = part.thread // WARP == warp
    thread, site = part.thread[rows], part.site[rows]
    if not len(site):
        return ()
    lanes, lengths = np.unique(thread, return_counts=True)
    if (lengths == lengths[0]).all() and (np.diff(thread) != 0).sum() == len(lanes) - 1:
        table = site.reshape(len(lanes), -1)
        if (table == table[0]).all():
            return tuple(table[0].tolist())
    return tuple(s.site for s in steps_of([part], sites, loops, warp, every=True))


class _Writer:
    """A builder of the programs of a launch's warps."""

    def __init__(self, trace: Trace, statements: Statements, most: int) -> None:
        self.sites, self.arrays = trace.sites, trace.arrays
        self.statements, self.most = statements, most

    def program(self, ways: Sequence[Sequence[int]]) -> Program:
        """Return the instructions of a warp that takes these paths between barriers."""
        self.out: list[IssuedInstruction] = []
        self.made: dict[str, tuple[int, ...]] = {}
        self.decided: tuple[int, ...] = ()
        # The remaining statements of the piece of code that was entered last.
        self.ahead: list[Statement] = []
        self.stored: dict[str, int] = {}  # the last store to each kind of memory
        self.begun = 0  # the first instruction of the straight piece of code
        for number, way in enumerate(ways):
            if number:
                self._add_instruction(BARRIER, ())
                self._finish_piece()
            self._write_interval(way)
            self._finish_piece()
            if len(self.out) >= self.most:
                break
        return tuple(self.out[: self.most])

    def _write_interval(self, way: Sequence[int]) -> None:
        now: Statement | None = None
        accesses: list[Site] = []
        for number in way:
            site = self.sites[number]
            if site.kind == STEP:
                self._write_statement(now, accesses)
                now, accesses = None, []
                self._write_rest()
                self._finish_piece()
                statements = self.statements.within(site.file, site.line, site.last)
                self.ahead = [*statements]
            else:
                statement = self.statements.at(site.file, site.line)
                if statement is None or statement is not now:
                    self._write_statement(now, accesses)
                    now, accesses = statement, []
                    while statement in self.ahead:
                        earlier = self.ahead.pop(0)
                        if earlier is not statement:
                            self._write_statement(earlier, ())
                accesses.append(site)
                if statement is None:
                    self._write_statement(None, accesses)
                    accesses = []
            if len(self.out) >= self.most:
                return
        self._write_statement(now, accesses)
        self._write_rest()

    def _write_rest(self) -> None:
        """Write the remaining statements of a piece of code, up to a barrier."""
        while self.ahead:
            one = self.ahead.pop(0)
            if one.waits:
                return
            self._write_statement(one, ())

    def _write_statement(
        self, statement: Statement | None, accesses: Sequence[Site]
    ) -> None:
        """Write a statement's loads, then its computation, then its stores."""
        if statement is None and not accesses:
            return
        statement = statement or Statement(0, 0, computes=False)
        sites = [s for s in accesses if self.arrays[s.array].space != LOCAL]
        loads: list[int] = []
        for site in sites:
            if site.kind == READ:
                inputs = self._write_index(statement, site, loads)
                space = self.arrays[site.array].space
                loads.append(self._add_instruction(space, inputs, site.line))
        value = set(loads).union(*(self.made.get(name, ()) for name in statement.uses))
        if statement.computes:
            value = {self._add_instruction(ARITHMETIC, value, statement.first)}
        for site in sites:
            if site.kind == ATOMIC:
                inputs = value | set(self._write_index(statement, site, ()))
                space = self.arrays[site.array].space
                value = {self._add_instruction(space, inputs, site.line)}
        for site in sites:
            if site.kind == WRITE:
                inputs = value | set(self._write_index(statement, site, loads))
                store = self._add_instruction(STORE, inputs, site.line)
                self.stored[self.arrays[site.array].space] = store
        for name in statement.makes:
            self.made[name] = tuple(sorted(value))
        if statement.decides:
            self.decided = tuple(value)

    def _write_index(
        self, statement: Statement, site: Site, loads: Sequence[int]
    ) -> tuple[int, ...]:
        """Return the instructions that supply the address of an access."""
        names = statement.indices.get((site.line, site.column), ())
        inputs = [n for name in names for n in self.made.get(name, ())]
        # The index contains an access, as in x[y[i]].
        inner = "[" in site.text.partition("[")[2]
        return (*inputs, *(loads if inner else ()))

    def _finish_piece(self) -> None:
        """Complete the piece of code: move loads, and their inputs, to the front."""
        first, out = self.begun, self.out
        piece = range(first, len(out))
        early: set[int] = set()
        for number in reversed(piece):
            if out[number].kind in (GLOBAL, SHARED) or number in early:
                early.add(number)
                early.update(n for n in out[number].after if n >= first)
        order = [n for n in piece if n in early] + [n for n in piece if n not in early]
        place = {number: first + i for i, number in enumerate(order)}

        def renumber(after: Iterable[int]) -> tuple[int, ...]:
            return tuple(sorted(place.get(n, n) for n in after))

        out[first:] = [replace(out[n], after=renumber(out[n].after)) for n in order]
        self.made = {name: renumber(after) for name, after in self.made.items()}
        self.decided = renumber(self.decided)
        self.stored = {}
        self.begun = len(out)

    def _add_instruction(self, kind: str, after, line: int = 0) -> int:
        stores = [self.stored[kind]] if kind in self.stored else []
        inputs = {*after, *self.decided, *stores}
        self.out.append(IssuedInstruction(kind, tuple(sorted(inputs)), line))
        self.decided = ()
        return len(self.out) - 1


__all__ = ["ARITHMETIC", "BARRIER", "GLOBAL", "SHARED", "STORE", "IssuedInstruction"]
__all__ += ["Program", "programs"]
