"""What becomes of assignments in a rewritten kernel."""

from __future__ import annotations

import ast
import copy
from typing import Any

from .elements import Elements, again_at
from .record import READ, WRITE, Entity, Place
from .syntax import assign, load, make_constant, make_walrus, place_node, tuple_of


class Stores(Elements):
    """Assignments, plain and augmented, to names, elements and fields."""

    def visit_Assign(self, node: ast.Assign) -> Any:
        value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            node.value = value
            return [node, *self.raw_of(node)]
        after: list[ast.stmt] = []
        if len(node.targets) == 1 and self.is_element(node.targets[0]):
            return self.store(node.targets[0], value, node)
        node.targets = [self.target(target, after, node) for target in node.targets]
        node.value = value
        return [node, *after]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return place_node(ast.Pass(), node)
        return self.visit_Assign(
            place_node(ast.Assign([node.target], node.value), node)
        )

    def raw_of(self, node: ast.Assign) -> list[ast.stmt]:
        """For a local array of the thread's own: its raw array under its own name."""
        entity = self.variant.static.get(node.targets[0].id)
        if entity is None or entity.origin != "local" or not self.checks:
            return []
        raw = ast.Attribute(load(entity.name), "raw", ast.Load())
        return [place_node(assign(f".r{entity.number}", raw), node)]

    def is_element(self, node: ast.expr) -> bool:
        """Whether a target is an element, or a field of one."""
        if isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Subscript)

    def target(
        self, node: ast.expr, after: list[ast.stmt], place: ast.stmt
    ) -> ast.expr:
        """What stands for a target; what is then left to do goes into `after`."""
        if isinstance(node, (ast.Tuple, ast.List)):
            node.elts = [self.target(one, after, place) for one in node.elts]
            return node
        if not self.is_element(node):
            return node if isinstance(node, ast.Name) else self.visit(node)
        name = self.temporary()
        after.append(self.store(node, load(name), place))
        return place_node(ast.Name(name, ast.Store()), node)

    def store(self, node: ast.expr, value: ast.expr, place: ast.stmt) -> ast.stmt:
        """node = value, written down."""
        if _field_of(node) is not None:
            return self.store_field(node, value, place)
        assert isinstance(node, ast.Subscript)
        base, parts = self.chain(node)
        entity = self.static(base, parts)
        if not self.checks:
            if entity is not None and entity.dtype.kind in "iu":
                value = self.converted(value, entity)
            return place_node(ast.Assign([self.plain(node)], value), place)
        if entity is not None:
            site = self.site(WRITE, node, entity)
            index = self.components(parts, site)
            return self.written(node, site, index, value, place)
        number = self.number_of(self.place(WRITE, node))
        made = [value, self.visit(node.value), self.index(node.slice), number]
        return place_node(ast.Expr(ast.Call(self.own(".put"), made, [])), place)

    def store_field(self, node: ast.expr, value: ast.expr, place: ast.stmt) -> ast.stmt:
        """x[i].re = value, x[i]["re"] = value: of a structured array's element."""
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        element = node.value
        if not self.checks:
            return place_node(ast.Assign([self.generic_visit(node)], value), place)
        assert isinstance(element, ast.Subscript)
        number = self.number_of(self.place(WRITE, node))
        found = [self.visit(element.value), self.index(element.slice)]
        made = [value, *found, number, make_constant(_field_of(node))]
        return place_node(ast.Expr(ast.Call(self.own(".put_field"), made, [])), place)

    def written(
        self,
        node: ast.Subscript,
        site: Place,
        index: tuple[list[ast.expr], list[ast.expr]],
        value: ast.expr,
        place: ast.stmt,
    ) -> ast.stmt:
        """.r[.log(...) or .val(v) or i] = (v := value)"""
        entity = site.entity
        assert entity is not None
        if entity.dtype.kind in "iu":
            value = self.converted(value, entity)
        name = self.temporary()
        note = ast.Call(self.own(".val"), [load(name)], [])
        target = self.element(node, site, index, note)
        target.ctx = ast.Store()
        return place_node(ast.Assign([target], make_walrus(name, value)), place)

    def converted(self, value: ast.expr, entity: Entity) -> ast.expr:
        """A value as C stores it in whole numbers: it wraps, and never raises."""
        return ast.Call(self.own(f".cast_{entity.dtype.name}"), [value], [])

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if _field_of(node.target) is not None:
            read = copy.deepcopy(node.target)
            read.ctx = ast.Load()
            value = ast.BinOp(self.visit(read), node.op, self.visit(node.value))
            return self.store(node.target, place_node(value, node), node)
        if not isinstance(node.target, ast.Subscript):
            node.value = self.visit(node.value)
            return node
        target = node.target
        base, parts = self.chain(target)
        entity = self.static(base, parts)
        if not self.checks and entity is None:
            node.target, node.value = self.plain(target), self.visit(node.value)
            return node
        if entity is None:
            return self.augmented(node)
        if not self.checks:
            return self.augmented_plain(node, base, parts, entity)
        site = self.site(READ, target, entity)
        index = self.components(parts, site)
        read = self.element(target, site, index)
        value = place_node(ast.BinOp(read, node.op, self.visit(node.value)), node)
        write = self.site(WRITE, target, entity)
        write.index = site.index
        again = [again_at(i) for i in site.index]
        return self.written(target, write, (again, index[1]), value, node)

    def augmented_plain(
        self, node: ast.AugAssign, base: ast.expr, parts: list[ast.expr], entity: Entity
    ) -> ast.stmt:
        """The same where nothing is written down; the index is computed once."""
        target = node.target
        self.place(READ, target)
        named = [self.temporary() for _ in parts]
        bound = [make_walrus(n, self.visit(p)) for n, p in zip(named, parts)]
        raw = self.visit(base)
        read = place_node(ast.Subscript(raw, tuple_of(bound), ast.Load()), target)
        again = tuple_of([load(n) for n in named])
        store = place_node(ast.Subscript(raw, again, ast.Store()), target)
        value = place_node(ast.BinOp(read, node.op, self.visit(node.value)), node)
        if entity.dtype.kind in "iu":
            value = self.converted(value, entity)
        return place_node(ast.Assign([store], value), node)

    def augmented(self, node: ast.AugAssign) -> ast.stmt:
        """The same for an array that is known when it runs."""
        target = node.target
        assert isinstance(target, ast.Subscript)
        array, index = self.temporary(), self.temporary()
        found = [
            make_walrus(array, self.visit(target.value)),
            make_walrus(index, self.index(target.slice)),
            self.number_of(self.place(READ, target)),
        ]
        read = ast.Call(self.own(".get"), found, [])
        value = place_node(
            ast.BinOp(place_node(read, target), node.op, self.visit(node.value)), node
        )
        number = self.number_of(self.place(WRITE, target))
        put = ast.Call(self.own(".put"), [value, load(array), load(index), number], [])
        return place_node(ast.Expr(put), node)


def _field_of(node: ast.expr) -> str | None:
    """The field of an element that a target is; None if it is none."""
    if not isinstance(getattr(node, "value", None), ast.Subscript):
        return None
    if isinstance(node, ast.Attribute):
        return node.attr
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return key if isinstance(key, str) else None
