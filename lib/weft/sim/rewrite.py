"""The body of a kernel, with its accesses written down and its waits as yields.

    acc += a[i] * b_s[ty, k]  ->  acc += .r1[.log(i * 4096 + 7) or i] * .r4[...]
    cuda.syncthreads()        ->  yield 12
    y = cuda.shfl_xor_sync(m, x, 1)  ->  y = (yield ("xor", 13, m, x, 1))

.log is the append of an array of unsigned numbers: a negative index is refused by it,
one past the end by NumPy, both before anything is touched. File, lines and columns stay
those of the reader.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from . import intrinsics, names
from .kinds import WHOLE
from .nodes import add, assign, at, call, const, either, load, mul, tuple_of, walrus
from .places import SITES, Entity, Place, Variant, position
from .record import READ, STEP, WRITE
from .syntax import refusal

if TYPE_CHECKING:
    from .program import Program

THREAD = (".tx", ".ty", ".tz", ".lin")  # what every function is handed first
SPIN = 1000  # turns of a loop after which it lets others run, each turn


class Rewriter(ast.NodeTransformer):
    """Rewrites one Variant."""

    def __init__(self, program: Program, variant: Variant) -> None:
        self.program, self.variant = program, variant
        self.checks, self.steps = program.checks, program.steps
        self.local = set(variant.kinds.of)
        self.used: set[str] = set()
        self.count = 0

    # ---- small things ----

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
        raise refusal(source, node, self.variant.function.__name__, what)

    def path(self, node: ast.expr) -> str | None:
        return names.path_of(self.variant.function, node, self.local)

    def meaning(self, node: ast.expr) -> Any:
        return names.meaning(self.variant.function, node, self.local)

    def place(self, kind: str, node: ast.AST, entity: Entity | None = None) -> Place:
        """A new Place at a node."""
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        made = Place(
            kind, text, self.variant.file, node.lineno, node.col_offset, entity
        )
        if isinstance(node, ast.expr):
            # Of x[i] += 1 the read comes first, and is what an error is about.
            self.variant.places.setdefault(position(node), made)
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
        return const(len(self.program.places) - 1)

    # ---- the function ----

    def function(self) -> ast.FunctionDef:
        """The definition, with the engine's parameters before the reader's."""
        tree = self.variant.tree
        body = self.suite(tree.body)
        if self.program.trace and self.variant.number == 0:
            body.append(at(ast.Return(self.names()), tree.body[-1]))
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.arg(n) for n in THREAD]
            + [ast.arg(a.arg) for a in tree.args.args],
            kwonlyargs=[],
            kw_defaults=[],
            defaults=[
                self.own(f".default{self.variant.number}_{i}")
                for i in range(len(tree.args.defaults))
            ],
        )
        made = ast.FunctionDef(tree.name, arguments, body, [])
        made.type_params = []
        return at(made, tree)

    def names(self) -> ast.expr:
        """.names(.lin, locals()): what a thread's names hold as it ends."""
        return ast.Call(self.own(".names"), [load(".lin"), call("locals")], [])

    def suite(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Statements, each as those it becomes."""
        made: list[ast.stmt] = []
        starts = True
        for index, node in enumerate(body):
            docstring = isinstance(node, ast.Expr) and isinstance(
                node.value, ast.Constant
            )
            if self.steps and starts and not docstring:
                made.append(self.step(body[index:]))
                starts = False
            result = self.visit(node)
            made += result if isinstance(result, list) else [result]
            starts = starts or isinstance(node, (ast.If, ast.For, ast.While))
        return made

    def step(self, body: list[ast.stmt]) -> ast.stmt:
        """The entry of a straight piece of code, written down."""
        last = body[0].lineno
        for node in body:
            if isinstance(node, (ast.If, ast.For, ast.While)):
                header = node.iter if isinstance(node, ast.For) else node.test
                last = header.end_lineno
                break
            last = node.end_lineno
        made = self.site(STEP, body[0])
        made.last = last
        number = const(made.number)
        return at(ast.Expr(ast.Call(self.own(".log"), [number], [])), body[0])

    # ---- statements ----

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        if self.variant.number == 0 and self.program.trace:
            return at(ast.Return(self.names()), node)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.stmt:
        node.test = self.visit(node.test)
        node.body, node.orelse = self.suite(node.body), self.suite(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        if not isinstance(node.iter, ast.Call):
            self.refuse(node.iter, "a for loop counts over range(...)")
        node.iter = self.visit(node.iter)
        node.body, node.orelse = self.suite(node.body), self.suite(node.orelse)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        turns = f".turns{self.count}"
        self.count += 1
        spins = self.program.spins(self.variant.function, node, self.local)
        node.test = self.visit(node.test)
        count: list[ast.stmt] = [
            ast.AugAssign(ast.Name(turns, ast.Store()), ast.Add(), const(1))
        ]
        if spins:
            place = self.number_of(self.place("spin", node))
            value = ast.Tuple([const("spin"), place, load(turns)], ast.Load())
            test = ast.Compare(load(turns), [ast.Gt()], [const(SPIN)])
            count.append(ast.If(test, [ast.Expr(ast.Yield(value))], []))
        for one in count:
            at(one, node.test)
        node.body = count + self.suite(node.body)
        node.orelse = self.suite(node.orelse)
        return [at(assign(turns, const(0)), node.test), node]

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
            return at(ast.Pass(), node)
        return self.visit_Assign(at(ast.Assign([node.target], node.value), node))

    def raw_of(self, node: ast.Assign) -> list[ast.stmt]:
        """For a local array of the thread's own: its raw array under its own name."""
        entity = self.variant.static.get(node.targets[0].id)
        if entity is None or entity.origin != "local" or not self.checks:
            return []
        raw = ast.Attribute(load(entity.name), "raw", ast.Load())
        return [at(assign(f".r{entity.number}", raw), node)]

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
        return at(ast.Name(name, ast.Store()), node)

    def store(self, node: ast.expr, value: ast.expr, place: ast.stmt) -> ast.stmt:
        """node = value, written down."""
        if _field(node) is not None:
            return self.store_field(node, value, place)
        assert isinstance(node, ast.Subscript)
        base, parts = self.chain(node)
        entity = self.static(base, parts)
        if not self.checks:
            if entity is not None and entity.dtype.kind in "iu":
                value = self.converted(value, entity)
            return at(ast.Assign([self.plain(node)], value), place)
        if entity is not None:
            site = self.site(WRITE, node, entity)
            index = self.components(parts, site)
            return self.written(node, site, index, value, place)
        number = self.number_of(self.place(WRITE, node))
        made = [value, self.visit(node.value), self.index(node.slice), number]
        return at(ast.Expr(ast.Call(self.own(".put"), made, [])), place)

    def store_field(self, node: ast.expr, value: ast.expr, place: ast.stmt) -> ast.stmt:
        """x[i].re = value, x[i]["re"] = value: of a structured array's element."""
        assert isinstance(node, (ast.Attribute, ast.Subscript))
        element = node.value
        if not self.checks:
            return at(ast.Assign([self.generic_visit(node)], value), place)
        assert isinstance(element, ast.Subscript)
        number = self.number_of(self.place(WRITE, node))
        found = [self.visit(element.value), self.index(element.slice)]
        made = [value, *found, number, const(_field(node))]
        return at(ast.Expr(ast.Call(self.own(".put_field"), made, [])), place)

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
        return at(ast.Assign([target], walrus(name, value)), place)

    def converted(self, value: ast.expr, entity: Entity) -> ast.expr:
        """A value as C stores it in whole numbers: it wraps, and never raises."""
        return ast.Call(self.own(f".cast_{entity.dtype.name}"), [value], [])

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if _field(node.target) is not None:
            read = copy.deepcopy(node.target)
            read.ctx = ast.Load()
            value = ast.BinOp(self.visit(read), node.op, self.visit(node.value))
            return self.store(node.target, at(value, node), node)
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
            # The index is computed once.
            self.place(READ, target)
            named = [self.temporary() for _ in parts]
            bound = [walrus(n, self.visit(p)) for n, p in zip(named, parts)]
            raw = self.visit(base)
            read = at(ast.Subscript(raw, tuple_of(bound), ast.Load()), target)
            again = tuple_of([load(n) for n in named])
            store = at(ast.Subscript(raw, again, ast.Store()), target)
            value = at(ast.BinOp(read, node.op, self.visit(node.value)), node)
            if entity.dtype.kind in "iu":
                value = self.converted(value, entity)
            return at(ast.Assign([store], value), node)
        site = self.site(READ, target, entity)
        index = self.components(parts, site)
        read = self.element(target, site, index)
        value = at(ast.BinOp(read, node.op, self.visit(node.value)), node)
        write = self.site(WRITE, target, entity)
        write.index = site.index
        again_index = [load(i) if isinstance(i, str) else const(i) for i in site.index]
        return self.written(target, write, (again_index, index[1]), value, node)

    def augmented(self, node: ast.AugAssign) -> ast.stmt:
        """The same for an array that is known when it runs."""
        target = node.target
        assert isinstance(target, ast.Subscript)
        array, index = self.temporary(), self.temporary()
        read = call(
            ".get",
            walrus(array, self.visit(target.value)),
            walrus(index, self.index(target.slice)),
            self.number_of(self.place(READ, target)),
        )
        value = at(ast.BinOp(at(read, target), node.op, self.visit(node.value)), node)
        number = self.number_of(self.place(WRITE, target))
        self.own(".get")
        put = ast.Call(self.own(".put"), [value, load(array), load(index), number], [])
        return at(ast.Expr(put), node)

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
            elif isinstance(part, ast.Constant) and kind == 2:
                site.index.append(part.value)
                first.append(const(part.value))
            else:
                name = self.temporary()
                value = self.visit(part)
                if not kind:
                    value = add(ast.Call(self.own(".ix"), [value], []), const(0))
                site.index.append(name)
                first.append(walrus(name, value))
            if number and kind <= WHOLE:
                index = site.index[-1]
                assert isinstance(index, str)
                signed.append(ast.Compare(load(index), [ast.GtE()], [const(0)]))
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
        first, signed = index
        flat = first[0]
        for axis, part in enumerate(first[1:], 1):
            flat = add(mul(flat, self.own(f".d{entity.number}_{axis}")), part)
        packed = add(mul(flat, const(SITES)), const(site.number))
        again = tuple_of(
            [load(i) if isinstance(i, str) else const(i) for i in site.index]
        )
        if signed:
            test = signed[0] if len(signed) == 1 else ast.BoolOp(ast.And(), signed)
            again = ast.IfExp(test, again, const("negative"))
        logged = ast.Call(self.own(".log"), [packed], [])
        key = either(logged, note, again) if note else either(logged, again)
        raw = f".r{entity.number}"
        base = load(raw) if entity.origin == "local" else self.own(raw)
        return at(ast.Subscript(base, key, ast.Load()), node)

    def plain(self, node: ast.Subscript) -> ast.Subscript:
        """The access as it is: nothing is written down."""
        self.place(READ if isinstance(node.ctx, ast.Load) else WRITE, node)
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        return node

    def index(self, node: ast.expr) -> ast.expr:
        """What stands in brackets, as an expression."""
        if isinstance(node, ast.Slice):
            ends = [self.visit(e) if e else const(None) for e in _ends(node)]
            return at(ast.Call(self.own(".slice"), ends, []), node)
        if isinstance(node, ast.Tuple):
            return at(tuple_of([self.index(e) for e in node.elts]), node)
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
        return at(ast.Call(self.own(".get"), made, []), node)

    # ---- names and calls ----

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id in self.local:
            return node
        path = self.path(node)
        if path is not None:
            return self.intrinsic(path, node)
        entity = self.entity(node)
        if entity is not None:
            kind = "v" if self.checks else "r"
            return at(self.own(f".{kind}{entity.number}"), node)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        path = self.path(node)
        return self.intrinsic(path, node) if path else self.generic_visit(node)

    def intrinsic(self, path: str, node: ast.expr) -> ast.expr:
        made = intrinsics.attribute(self, path)
        if made is None:
            self.refuse(node, f"cuda.{path} is no number: call it, or use .x .y .z")
        return at(made, node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        path = self.path(node.func)
        if path is not None:
            return at(intrinsics.called(self, path, node), node)
        value = self.meaning(node.func)
        name = names.math_name(value)
        if name is not None:
            node.func = at(self.own(f".math_{name}"), node.func)
            node.args = [self.visit(arg) for arg in node.args]
            return node
        if names.is_number_type(value) and _is_number(node):
            return at(self.program.number(self, value(node.args[0].value)), node)
        if names.helper_of(value) is not None:
            return self.helper(node)
        return self.generic_visit(node)

    def helper(self, node: ast.Call) -> ast.expr:
        """A call of a function that is rewritten itself."""
        callee = self.program.callee(node, self.variant, self.variant.kinds)
        node.func = at(self.own(f".h{callee.number}"), node.func)
        node.args = [load(n) for n in THREAD] + [self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return at(ast.YieldFrom(node), node) if callee.yields else node


def _ends(node: ast.Slice) -> list[ast.expr | None]:
    return [node.lower, node.upper, node.step]


def _field(node: ast.expr) -> str | None:
    """The field of an element that a target is; None if it is none."""
    if not isinstance(getattr(node, "value", None), ast.Subscript):
        return None
    if isinstance(node, ast.Attribute):
        return node.attr
    key = node.slice.value if isinstance(node.slice, ast.Constant) else None
    return key if isinstance(key, str) else None


def _is_odd(node: ast.expr) -> bool:
    """A field's name, None, ... : no place of an element."""
    return isinstance(node, ast.Constant) and not isinstance(node.value, (int, float))


def _is_number(node: ast.Call) -> bool:
    value = node.args[0] if len(node.args) == 1 and not node.keywords else None
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float))
