"""Loops over range() in C."""

from __future__ import annotations

import ast
from typing import Any

from . import calls
from .text import C
from .types import SHARED, Array
from .unit import Function


class Loops:
    """The part of a Writer that writes `for`."""

    unit: Any
    to: Any

    def _check_loops(self) -> None:
        unit = self.unit
        for name, loops in unit.scope.loop_names.items():
            bodies = {id(loop.body) for loop in loops}
            if name in unit.parameters:
                unit.fail(
                    f"{name} is a parameter and a loop's variable",
                    "give the loop another name",
                    loops[0].target,
                )
            for use in unit.scope.uses.get(name, ()):
                within = bodies & {block for block, _ in use.path}
                if not within and not use.store:
                    unit.fail(
                        f"{name} is used outside of its loop, where C has none",
                        "assign it to another name within the loop",
                        use.node,
                    )
            for loop in loops:
                for inner in ast.walk(ast.Module(loop.body, [])):
                    if isinstance(inner, ast.For) and inner in loops:
                        unit.fail(
                            f"a loop over {name} within a loop over {name}",
                            "give one of them another name",
                            inner.target,
                        )

    def _For(self, one: ast.For) -> None:
        args = calls.range_arguments(self.unit, one.iter)
        start, stop = (None, args[0]) if len(args) == 1 else args[:2]
        step = args[2] if len(args) == 3 else None
        type_ = self._type(one.target.id)
        name = self.output.name(self.unit, one.target.id)
        first = self.to.value(start, type_).text if start is not None else "0"
        end = self._bound(one, stop, "end", type_)
        test, turn = self._step(one, name, end, step, type_)
        head = f"for ({type_} {name} = {first}; {test}; {turn})"
        if self._body(head, one.body, self._header(one)):
            self.put("}", one.end_lineno)

    def _bound(self, one: ast.For, node: ast.AST, word: str, type_: str) -> C:
        """A bound of range(), which Python computes once and C in every turn."""
        found = self.to.signed(self.to.expr(node))
        if found.type in ("unsigned", "unsigned long long"):
            found = C(f"({type_}){found.within(13)}", 13, type_)
        if not self._moves(one, node):
            return found
        name = f"{one.target.id}_{word}"
        while self.unit.is_local(name):
            name += "_"
        self.put(f"const {type_} {name} = {found.text};")
        return C(name, 14, type_)

    def _moves(self, one: ast.For, node: ast.AST) -> bool:
        stored = {
            n.id
            for statement in one.body
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        return any(
            self._moved(part, stored | {one.target.id}) for part in ast.walk(node)
        )

    def _moved(self, part: ast.AST, stored: set[str]) -> bool:
        """Whether a part of a bound may change while the loop runs."""
        unit = self.unit
        if isinstance(part, ast.Name):
            return part.id in stored
        if isinstance(part, ast.Call):
            same = [Function(name) for name in ("min", "max", "len")]
            return not calls.is_grid(unit, part) and unit.meaning(part.func) not in same
        kind = unit.types.get(part.value) if isinstance(part, ast.Subscript) else None
        if not isinstance(kind, Array):
            return False
        return kind.root in unit.written or kind.space == SHARED

    def _step(self, one, name: str, end: C, step, type_: str) -> tuple[str, str]:
        below, above = f"{name} < {end.within(10)}", f"{name} > {end.within(10)}"
        if step is None:
            return below, f"{name}++"
        low, high = self.unit.spans[step]
        if (low, high) == (1, 1):
            return below, f"{name}++"
        if (low, high) == (-1, -1):
            return above, f"{name}--"
        if high is not None and high < 0:
            if isinstance(step, ast.UnaryOp):
                return above, f"{name} -= {self.to.expr(step.operand).text}"
            return above, f"{name} += {self._bound(one, step, 'step', type_).text}"
        bound = (
            self._bound(one, step, "step", type_)
            if self._moves(one, step)
            else (self.to.expr(step))
        )
        turn = f"{name} += {bound.text}"
        if low is not None and low >= 0:
            return below, turn
        return f"{bound.within(10)} > 0 ? {below} : {above}", turn
