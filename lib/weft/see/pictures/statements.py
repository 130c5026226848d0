"""What the statements of a kernel need: names, loads, and whether they compute."""

from __future__ import annotations

import ast
import bisect
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ...report.model import Source

FREE = {"range", "len", "int", "float", "bool", "array"}  # calls that do not compute
_SILENT = (ast.FunctionDef, ast.Import, ast.ImportFrom, ast.Global, ast.Pass)


@dataclass(eq=False)
class Statement:
    """A statement, or the head of a loop or branch.

    first, last: its lines. uses, makes: names that it reads outside of indices, and
    binds. indices: the names in each index, by (line, column) of the access. computes:
    it has an operator or a call outside of indices. decides: what follows waits for it.
    waits: it is a barrier.
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
    """The statements of some sources, by file and line."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._files: dict[str, tuple[list[int], list[Statement]]] = {}
        for source in sources:
            found = _read_statements(source.text, source.first)
            old = self._files.get(source.file, ([], []))[1]
            every = sorted(old + found, key=lambda s: s.first)
            self._files[source.file] = ([s.first for s in every], every)

    def at(self, file: str, line: int) -> Statement | None:
        """The statement that has this line."""
        firsts, every = self._files.get(file, ([], []))
        i = bisect.bisect_right(firsts, line) - 1
        return every[i] if i >= 0 and line <= every[i].last else None

    def within(self, file: str, first: int, last: int) -> Sequence[Statement]:
        """Those that begin on these lines."""
        firsts, every = self._files.get(file, ([], []))
        return every[
            bisect.bisect_left(firsts, first) : bisect.bisect_right(firsts, last)
        ]


def _read_statements(text: str, first: int) -> list[Statement]:
    lines = textwrap.dedent(text)
    moved = len(text.split("\n")[0]) - len(lines.split("\n")[0])
    try:
        tree = ast.parse(lines)
    except SyntaxError:
        return []
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or isinstance(node, _SILENT):
            continue
        head: ast.AST = node
        decides = isinstance(node, (ast.If, ast.While))
        if decides:
            head = node.test  # type: ignore[attr-defined]
        elif isinstance(node, ast.For):
            head = node.iter
        start = node.lineno + first - 1
        last = (getattr(head, "end_lineno", None) or node.lineno) + first - 1
        one = Statement(start, last, decides=decides)
        reader = _Reader(one, first, moved)
        if isinstance(node, ast.AugAssign):
            one.computes = True
            if isinstance(node.target, ast.Name):
                one.uses.add(node.target.id)
        reader.visit(head)
        if isinstance(node, ast.For):
            one.computes = False  # turns are unrolled, or counted in the shadow of work
            one.decides = False
        found.append(one)
    return found


class _Reader(ast.NodeVisitor):
    """Fills a Statement in."""

    def __init__(self, into: Statement, first: int, moved: int) -> None:
        self.into, self.first, self.moved = into, first, moved

    def visit_Name(self, node: ast.Name) -> None:
        into = self.into
        (into.uses if isinstance(node.ctx, ast.Load) else into.makes).add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        pass  # cuda.threadIdx.x lies in a register

    def visit_Subscript(self, node: ast.Subscript) -> None:
        names = {n.id for n in ast.walk(node.slice) if isinstance(n, ast.Name)}
        place = (node.lineno + self.first - 1, node.col_offset + self.moved)
        self.into.indices[place] = names
        for inner in ast.walk(node.slice):  # x[y[i]]: y is loaded, too
            if isinstance(inner, ast.Subscript):
                self.visit_Subscript(inner)
        if isinstance(node.value, ast.Name):
            kind = self.into.uses if isinstance(node.ctx, ast.Load) else self.into.makes
            kind.add(node.value.id)
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
