"""Rewrite the reads and assignments of array elements.

With checks, the new code logs each access. Without them, some accesses become faster.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from ..trees import get_name, split_chain
from .layout import READ, SITES, WRITE, AccessPlace, Entity
from .names import (
    POSITIVE,
    WHOLE,
    add,
    assign,
    compare,
    load,
    make_and,
    make_constant,
    make_or,
    make_product,
    make_walrus,
    place_node,
    tuple_of,
)

if TYPE_CHECKING:
    from .rewrite import Rewriter


def find_static(
    rewriter: Rewriter, base: ast.expr, parts: list[ast.expr]
) -> Entity | None:
    """Return the array if one element of a known array is accessed; else None."""
    entity = find_entity(rewriter, base)
    if entity is None or not entity.inline or entity.ndim != len(parts):
        return None
    composite = (ast.Slice, ast.Starred, ast.Tuple)
    if any(isinstance(p, composite) or _is_odd(p) for p in parts):
        return None
    return entity


def find_entity(rewriter: Rewriter, node: ast.expr) -> Entity | None:
    if not isinstance(node, ast.Name):
        return None
    if node.id in rewriter.local:
        return rewriter.variant.static.get(node.id)
    value = rewriter.meaning(node)
    if isinstance(value, np.ndarray):
        return rewriter.program.constant(node.id, value)
    return None


def rewrite_components(
    rewriter: Rewriter, parts: list[ast.expr], site: AccessPlace
) -> tuple[list[ast.expr], list[ast.expr]]:
    """Return the index expressions, and tests of the indices after the first.

    The tests ensure that these indices are not negative. The function also appends each
    index, as a name or a number, to site.index, for later code.
    """
    first: list[ast.expr] = []
    signed: list[ast.expr] = []
    for number, part in enumerate(parts):
        kind = rewriter.variant.kinds(part)
        if isinstance(part, ast.Name) and kind and part.id in rewriter.local:
            site.index.append(part.id)
            first.append(load(part.id))
        elif isinstance(part, ast.Constant) and kind == POSITIVE:
            site.index.append(part.value)
            first.append(make_constant(part.value))
        else:
            name = rewriter.temporary()
            value = rewriter.visit(part)
            if not kind:
                value = add(rewriter.call(".ix", value), make_constant(0))
            site.index.append(name)
            first.append(make_walrus(name, value))
        if number and kind <= WHOLE:
            index = again_at(site.index[-1])
            signed.append(compare(index, ast.GtE(), make_constant(0)))
    return first, signed


def build_element(
    rewriter: Rewriter,
    node: ast.Subscript,
    site: AccessPlace,
    index: tuple[list[ast.expr], list[ast.expr]],
    note: ast.expr | None = None,
) -> ast.Subscript:
    """Build .r[.log(row-major index * SITES + site) or index]."""
    entity = site.entity
    first, tests = index
    tests, kind, sides = list(tests), "r", entity.shape
    tile = entity.origin == "shared" and entity.ndim > 1
    flat = first[0]
    for axis, part in enumerate(first[1:], 1):
        own_side = f".d{entity.number}_{axis}"
        side = make_constant(sides[axis]) if tile else rewriter.own(own_side)
        flat = add(make_product(flat, side), part)
    position = tuple_of([again_at(i) for i in site.index])
    if tile:  # NumPy is faster if the index is a single number
        kind, key = "f", rewriter.temporary()
        flat, position = make_walrus(key, flat), load(key)
        for i, limit in zip(site.index[1:], sides[1:]):
            tests.append(compare(again_at(i), ast.Lt(), make_constant(limit)))
    packed = add(make_product(flat, make_constant(SITES)), make_constant(site.number))
    if tests:
        position = ast.IfExp(make_and(*tests), position, make_constant("outside"))
    logged = rewriter.call(".log", packed)
    access = make_or(logged, note, position) if note else make_or(logged, position)
    raw = f".{kind}{entity.number}"
    base = load(raw) if entity.origin == "local" else rewriter.own(raw)
    return place_node(ast.Subscript(base, access, ast.Load()), node)


def rewrite_plain(rewriter: Rewriter, node: ast.Subscript) -> ast.Subscript:
    """Rewrite an access without logging."""
    rewriter.place(READ if isinstance(node.ctx, ast.Load) else WRITE, node)
    flat = flatten_element(rewriter, node)
    if flat is not None:
        return flat
    node.value, node.slice = rewriter.visit(node.value), rewriter.visit(node.slice)
    return node


def flatten_element(rewriter: Rewriter, node: ast.Subscript) -> ast.Subscript | None:
    """Return a shared tile's element with one index, for speed; None for others."""
    base, parts = split_chain(node)
    entity = find_static(rewriter, base, parts)
    if rewriter.checks or entity is None or entity.origin != "shared":
        return None
    if entity.ndim < 2 or not all(rewriter.variant.kinds(part) for part in parts):
        return None
    number = rewriter.visit(parts[0])
    for side, part in zip(entity.shape[1:], parts[1:]):
        number = add(make_product(number, make_constant(side)), rewriter.visit(part))
    raw = rewriter.own(f".f{entity.number}")
    return place_node(ast.Subscript(raw, number, node.ctx), node)


def rewrite_index(rewriter: Rewriter, node: ast.expr) -> ast.expr:
    """Return a subscript's index as an expression."""
    if isinstance(node, ast.Slice):
        ends = [e or make_constant(None) for e in (node.lower, node.upper, node.step)]
        return place_node(rewriter.call(".slice", *map(rewriter.visit, ends)), node)
    if isinstance(node, ast.Tuple):
        parts = [rewrite_index(rewriter, e) for e in node.elts]
        return place_node(tuple_of(parts), node)
    return rewriter.visit(node)


def rewrite_subscript(rewriter: Rewriter, node: ast.Subscript) -> ast.expr:
    base, parts = split_chain(node)
    if not rewriter.checks or (isinstance(base, ast.Attribute) and len(parts) == 1):
        return rewrite_plain(rewriter, node)
    entity = find_static(rewriter, base, parts)
    if entity is not None:
        site = rewriter.site(READ, node, entity)
        index = rewrite_components(rewriter, parts, site)
        return build_element(rewriter, node, site, index)
    known = isinstance(base, ast.Name) and base.id not in rewriter.local
    if known and find_entity(rewriter, base) is None:
        return rewrite_plain(rewriter, node)
    number = rewriter.number_of(rewriter.place(READ, node))
    args = [rewriter.visit(node.value), rewrite_index(rewriter, node.slice), number]
    return place_node(rewriter.call(".get", *args), node)


def again_at(part: str | int) -> ast.expr:
    """Return an expression for a computed index: a local's name, or a number."""
    return load(part) if isinstance(part, str) else make_constant(part)


def _is_odd(node: ast.expr) -> bool:
    """Return whether a node cannot index an element: a field's name, None, ..."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, (int, float))


def rewrite_assign(rewriter: Rewriter, node: ast.Assign) -> Any:
    value = rewriter.visit(node.value)
    if len(node.targets) == 1 and is_element(node.targets[0]):
        return store_element(rewriter, node.targets[0], value, node)
    after = assign_raw(rewriter, node)
    node.targets = [
        rewrite_target(rewriter, target, after, node) for target in node.targets
    ]
    node.value = value
    return [node, *after]


def rewrite_annotated(rewriter: Rewriter, node: ast.AnnAssign) -> Any:
    if node.value is None:
        return place_node(ast.Pass(), node)
    assignment = ast.Assign([node.target], node.value)
    return rewrite_assign(rewriter, place_node(assignment, node))


def assign_raw(rewriter: Rewriter, node: ast.Assign) -> list[ast.stmt]:
    """Return the statement that assigns a local array's raw array to a variable."""
    entity = rewriter.variant.static.get(get_name(node))
    if entity is None or entity.origin != "local" or not rewriter.checks:
        return []
    raw = ast.Attribute(load(entity.name), "raw", ast.Load())
    return [place_node(assign(f".r{entity.number}", raw), node)]


def is_element(node: ast.expr) -> bool:
    """Return whether a target is an element, or a field of an element."""
    if isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Subscript)


def rewrite_target(
    rewriter: Rewriter, node: ast.expr, after: list[ast.stmt], place: ast.stmt
) -> ast.expr:
    """Return a target's replacement; add the statements that must follow to `after`."""
    if isinstance(node, (ast.Tuple, ast.List)):
        node.elts = [rewrite_target(rewriter, one, after, place) for one in node.elts]
        return node
    if not is_element(node):
        return node if isinstance(node, ast.Name) else rewriter.visit(node)
    name = rewriter.temporary()
    after.append(store_element(rewriter, node, load(name), place))
    return place_node(ast.Name(name, ast.Store()), node)


def store_element(
    rewriter: Rewriter, node: ast.expr, value: ast.expr, place: ast.stmt
) -> ast.stmt:
    """Return the statement node = value, with logging."""
    if _field_of(node) is not None:
        return store_field(rewriter, node, value, place)
    entity = find_static(rewriter, *split_chain(node))
    if not rewriter.checks:
        value = convert_value(rewriter, value, entity)
        return place_node(ast.Assign([rewrite_plain(rewriter, node)], value), place)
    if entity is not None:
        site = rewriter.site(WRITE, node, entity)
        index = rewrite_components(rewriter, split_chain(node)[1], site)
        return log_write(rewriter, node, site, index, value, place)
    number = rewriter.number_of(rewriter.place(WRITE, node))
    position = rewriter.visit(node.value), rewrite_index(rewriter, node.slice)
    put = rewriter.call(".put", value, *position, number)
    return place_node(ast.Expr(put), place)


def store_field(
    rewriter: Rewriter, node: ast.expr, value: ast.expr, place: ast.stmt
) -> ast.stmt:
    """Store into a structured array's field: x[i].re = value, x[i]["re"] = value."""
    element = node.value
    if not rewriter.checks:
        return place_node(ast.Assign([rewriter.generic_visit(node)], value), place)
    number = rewriter.number_of(rewriter.place(WRITE, node))
    position = rewriter.visit(element.value), rewrite_index(rewriter, element.slice)
    field = make_constant(_field_of(node))
    put = rewriter.call(".put_field", value, *position, number, field)
    return place_node(ast.Expr(put), place)


def log_write(
    rewriter: Rewriter,
    node: ast.Subscript,
    site: AccessPlace,
    index: tuple[list[ast.expr], list[ast.expr]],
    value: ast.expr,
    place: ast.stmt,
) -> ast.stmt:
    """Build .r[.log(...) or .val(v) or i] = (v := value)."""
    value = convert_value(rewriter, value, site.entity)
    name = rewriter.temporary()
    note = rewriter.call(".val", load(name))
    target = build_element(rewriter, node, site, index, note)
    target.ctx = ast.Store()
    return place_node(ast.Assign([target], make_walrus(name, value)), place)


def convert_value(
    rewriter: Rewriter, value: ast.expr, entity: Entity | None
) -> ast.expr:
    """Build code that converts a value to the array's integer type, wrapping as in C.

    Returns `value` unchanged if no array of integers is given.
    """
    if entity is None or entity.dtype.kind not in "iu":
        return value
    return rewriter.call(f".cast_{entity.dtype.name}", value)


def rewrite_augmented(rewriter: Rewriter, node: ast.AugAssign) -> Any:
    if _field_of(node.target) is not None:
        read = copy.deepcopy(node.target)
        read.ctx = ast.Load()
        value = ast.BinOp(rewriter.visit(read), node.op, rewriter.visit(node.value))
        return store_element(rewriter, node.target, place_node(value, node), node)
    if not isinstance(node.target, ast.Subscript):
        node.value = rewriter.visit(node.value)
        return node
    target = node.target
    base, parts = split_chain(target)
    entity = find_static(rewriter, base, parts)
    if not rewriter.checks and entity is None:
        node.target = rewrite_plain(rewriter, target)
        node.value = rewriter.visit(node.value)
        return node
    if entity is None:
        return update_dynamic(rewriter, node)
    if not rewriter.checks:
        return update_unchecked(rewriter, node, base, parts, entity)
    site = rewriter.site(READ, target, entity)
    index = rewrite_components(rewriter, parts, site)
    read = build_element(rewriter, target, site, index)
    value = place_node(ast.BinOp(read, node.op, rewriter.visit(node.value)), node)
    write = rewriter.site(WRITE, target, entity)
    write.index = site.index
    indices = [again_at(i) for i in site.index]
    return log_write(rewriter, target, write, (indices, index[1]), value, node)


def update_unchecked(
    rewriter: Rewriter,
    node: ast.AugAssign,
    base: ast.expr,
    parts: list[ast.expr],
    entity: Entity,
) -> ast.stmt:
    """Update an element without logging; compute the index only once."""
    target = node.target
    rewriter.place(READ, target)
    named = [rewriter.temporary() for _ in parts]
    bound = [make_walrus(n, rewriter.visit(p)) for n, p in zip(named, parts)]
    raw = rewriter.visit(base)
    read = place_node(ast.Subscript(raw, tuple_of(bound), ast.Load()), target)
    names = tuple_of([load(n) for n in named])
    store = place_node(ast.Subscript(raw, names, ast.Store()), target)
    value = place_node(ast.BinOp(read, node.op, rewriter.visit(node.value)), node)
    return place_node(ast.Assign([store], convert_value(rewriter, value, entity)), node)


def update_dynamic(rewriter: Rewriter, node: ast.AugAssign) -> ast.stmt:
    """Update an element of an array that is known only at run time."""
    target = node.target
    array, index = rewriter.temporary(), rewriter.temporary()
    read = rewriter.call(
        ".get",
        make_walrus(array, rewriter.visit(target.value)),
        make_walrus(index, rewrite_index(rewriter, target.slice)),
        rewriter.number_of(rewriter.place(READ, target)),
    )
    place_node(read, target)
    value = place_node(ast.BinOp(read, node.op, rewriter.visit(node.value)), node)
    number = rewriter.number_of(rewriter.place(WRITE, target))
    put = rewriter.call(".put", value, load(array), load(index), number)
    return place_node(ast.Expr(put), node)


def _field_of(node: ast.expr) -> str | None:
    """Return the field of an element that a target names; None if it is not a field."""
    if not isinstance(getattr(node, "value", None), ast.Subscript):
        return None
    if isinstance(node, ast.Attribute):
        return node.attr
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return key if isinstance(key, str) else None
