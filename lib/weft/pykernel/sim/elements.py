"""How a rewritten kernel touches elements of arrays."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from . import names
from .names import POSITIVE, WHOLE
from .record import READ, SITES, WRITE, Entity, Place, Variant, position_of
from .syntax import (
    add,
    compare,
    load,
    make_and,
    make_constant,
    make_or,
    make_product,
    make_refusal,
    make_walrus,
    place_node,
    tuple_of,
)

if TYPE_CHECKING:
    from .program import Program


class Elements(ast.NodeTransformer):
    """What every part of the rewriting of one Variant needs, and its accesses."""

    def __init__(self, program: Program, variant: Variant) -> None:
        self.program, self.variant = program, variant
        self.checks, self.steps = program.checks, program.steps
        self.local = set(variant.kinds.of)
        self.used: set[str] = set()
        self.count = 0
        self.statement = 0  # the line in which the present one begins

    def own(self, name: str) -> ast.Name:
        """A name of the engine's that the function is made with."""
        self.used.add(name)
        return load(name)

    def temporary(self) -> str:
        """A local that no other piece of this function uses."""
        self.count += 1
        return f".{self.count}"

    def refuse(self, node: ast.AST, what: str) -> Any:
        """Raise the error for a line of this function."""
        source = self.program.source(self.variant.function)
        raise make_refusal(source, node, self.variant.function.__name__, what)

    def path(self, node: ast.expr) -> str | None:
        return names.path_of(self.variant.function, node, self.local)

    def meaning(self, node: ast.expr) -> Any:
        return names.find_meaning(self.variant.function, node, self.local)

    def place(self, kind: str, node: ast.AST, entity: Entity | None = None) -> Place:
        """A new Place at a node."""
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        made = Place(
            kind, text, self.variant.file, node.lineno, node.col_offset, entity
        )
        if isinstance(node, ast.expr):
            # Of x[i] += 1 the read comes first, and is what an error is about.
            self.variant.places.setdefault(position_of(node), made)
        made.statement = self.statement
        return made

    def site(self, kind: str, node: ast.AST, entity: Entity | None = None) -> Place:
        """A Place whose array is known: its number is that of a Site."""
        made = self.place(kind, node, entity)
        made.number = len(self.program.sites)
        self.program.sites.append(made)
        if len(self.program.sites) >= SITES // 2:
            self.refuse(node, f"a kernel has at most {SITES // 2} places with accesses")
        return made

    def number_of(self, place: Place) -> ast.Constant:
        """The number under which running code finds a Place."""
        self.program.places.append(place)
        return make_constant(len(self.program.places) - 1)

    # ---- elements ----

    def chain(self, node: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
        """a[i][j, k] as a and [i, j, k]."""
        parts: list[ast.expr] = []
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            here = base.slice
            parts = (here.elts if isinstance(here, ast.Tuple) else [here]) + parts
            base = base.value
        return base, parts

    def static(self, base: ast.expr, parts: list[ast.expr]) -> Entity | None:
        """The array whose one element this is, if that is known now."""
        entity = self.entity(base)
        if entity is None or not entity.inline or entity.ndim != len(parts):
            return None
        odd = (ast.Slice, ast.Starred, ast.Tuple)
        if any(isinstance(p, odd) or _is_odd(p) for p in parts):
            return None
        return entity

    def entity(self, node: ast.expr) -> Entity | None:
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.local:
            return self.variant.static.get(node.id)
        value = self.meaning(node)
        if isinstance(value, np.ndarray):
            return self.program.constant(node.id, value)
        return None

    def components(
        self, parts: list[ast.expr], site: Place
    ) -> tuple[list[ast.expr], list[ast.expr]]:
        """Each index to compute (and keep), and to use again; site.index gets both."""
        first: list[ast.expr] = []
        signed: list[ast.expr] = []
        for number, part in enumerate(parts):
            kind = self.variant.kinds(part)
            if isinstance(part, ast.Name) and kind and part.id in self.local:
                site.index.append(part.id)
                first.append(load(part.id))
            elif isinstance(part, ast.Constant) and kind == POSITIVE:
                site.index.append(part.value)
                first.append(make_constant(part.value))
            else:
                name = self.temporary()
                value = self.visit(part)
                if not kind:
                    value = add(
                        ast.Call(self.own(".ix"), [value], []), make_constant(0)
                    )
                site.index.append(name)
                first.append(make_walrus(name, value))
            if number and kind <= WHOLE:
                index = site.index[-1]
                assert isinstance(index, str)
                signed.append(compare(load(index), ast.GtE(), make_constant(0)))
        return first, signed

    def element(
        self,
        node: ast.Subscript,
        site: Place,
        index: tuple[list[ast.expr], list[ast.expr]],
        note: ast.expr | None = None,
    ) -> ast.Subscript:
        """.r[.log(row-major index * SITES + site) or index]"""
        entity = site.entity
        assert entity is not None
        first, tests = index
        tests, kind, sides = list(tests), "r", entity.shape
        tile = entity.origin == "shared" and entity.ndim > 1
        flat = first[0]
        for axis, part in enumerate(first[1:], 1):
            side = (
                make_constant(sides[axis])
                if tile
                else self.own(f".d{entity.number}_{axis}")
            )
            flat = add(make_product(flat, side), part)
        again = tuple_of([again_at(i) for i in site.index])
        if tile:  # by one number, which NumPy finds sooner
            kind, key = "f", self.temporary()
            flat, again = make_walrus(key, flat), load(key)
            for i, limit in zip(site.index[1:], sides[1:]):
                tests.append(compare(again_at(i), ast.Lt(), make_constant(limit)))
        packed = add(
            make_product(flat, make_constant(SITES)), make_constant(site.number)
        )
        if tests:
            again = ast.IfExp(make_and(*tests), again, make_constant("outside"))
        logged = ast.Call(self.own(".log"), [packed], [])
        found = make_or(logged, note, again) if note else make_or(logged, again)
        raw = f".{kind}{entity.number}"
        base = load(raw) if entity.origin == "local" else self.own(raw)
        return place_node(ast.Subscript(base, found, ast.Load()), node)

    def plain(self, node: ast.Subscript) -> ast.Subscript:
        """The access as it is: nothing is written down."""
        self.place(READ if isinstance(node.ctx, ast.Load) else WRITE, node)
        flat = self.flat(node)
        if flat is not None:
            return flat
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        return node

    def flat(self, node: ast.Subscript) -> ast.Subscript | None:
        """An element of a shared tile by one number, which NumPy finds sooner."""
        base, parts = self.chain(node)
        entity = self.static(base, parts)
        if self.checks or entity is None or entity.origin != "shared":
            return None
        if entity.ndim < 2 or not all(self.variant.kinds(part) for part in parts):
            return None
        number = self.visit(parts[0])
        for side, part in zip(entity.shape[1:], parts[1:]):
            number = add(make_product(number, make_constant(side)), self.visit(part))
        raw = self.own(f".f{entity.number}")
        return place_node(ast.Subscript(raw, number, node.ctx), node)

    def index(self, node: ast.expr) -> ast.expr:
        """What stands in brackets, as an expression."""
        if isinstance(node, ast.Slice):
            ends = [
                self.visit(e) if e else make_constant(None) for e in _slice_ends(node)
            ]
            return place_node(ast.Call(self.own(".slice"), ends, []), node)
        if isinstance(node, ast.Tuple):
            return place_node(tuple_of([self.index(e) for e in node.elts]), node)
        return self.visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        base, parts = self.chain(node)
        if not self.checks or (isinstance(base, ast.Attribute) and len(parts) == 1):
            return self.plain(node)
        entity = self.static(base, parts)
        if entity is not None:
            site = self.site(READ, node, entity)
            return self.element(node, site, self.components(parts, site))
        known = isinstance(base, ast.Name) and base.id not in self.local
        if known and self.entity(base) is None:
            return self.plain(node)
        number = self.number_of(self.place(READ, node))
        made = [self.visit(node.value), self.index(node.slice), number]
        return place_node(ast.Call(self.own(".get"), made, []), node)


def _slice_ends(node: ast.Slice) -> list[ast.expr | None]:
    return [node.lower, node.upper, node.step]


def again_at(part: str | int) -> ast.expr:
    """An index that is known by now: a local's name, or a number."""
    return load(part) if isinstance(part, str) else make_constant(part)


def _is_odd(node: ast.expr) -> bool:
    """A field's name, None, ... : no place of an element."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, (int, float))
