"""Rewrite the body of a kernel: log its accesses, and turn its waits into yields.

    acc += a[i] * b_s[ty, k]  ->  acc += .r1[.log(i * 4096 + 7) or i] * .f4[...]
    cuda.syncthreads()        ->  yield 12
    y = cuda.shfl_xor_sync(m, x, 1)  ->  y = (yield ("shfl_xor_sync", 13, m, x, 1))

.log() appends to an array of unsigned numbers, which rejects a negative index. NumPy
rejects an index past the end. Both errors precede the access itself. Files, lines and
columns remain those of the original source.
"""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING, Any

from .. import language
from ..trees import LOOP_HINT, as_range, explain_idle
from . import elements, names, rewrite_calls
from .elements import find_entity
from .layout import SITES, STEP, AccessPlace, Entity, Variant, position_of
from .names import assign, call, load, make_constant, make_refusal, place_node
from .numbers import TYPES, converted
from .plain_loops import is_simple, rewrite_plain_loop

if TYPE_CHECKING:
    from .program import RewrittenKernel

THREAD = (".tx", ".ty", ".tz", ".lin")  # the first parameters of every function
ELSE = "write the loop, or call math.*, cuda.* or a function with def"
SPIN = 1000  # number of loop turns after which each turn yields to other threads


class Rewriter(ast.NodeTransformer):
    """The rewriter of one Variant's function."""

    entity = elements.find_entity
    visit_Subscript = elements.rewrite_subscript
    visit_Assign = elements.rewrite_assign
    visit_AnnAssign = elements.rewrite_annotated
    visit_AugAssign = elements.rewrite_augmented

    def __init__(self, program: RewrittenKernel, variant: Variant) -> None:
        self.program, self.variant = program, variant
        self.checks, self.steps = program.checks, program.steps
        self.local = set(variant.kinds.of)
        self.used: set[str] = set()
        self.count = 0
        self.statement = 0  # first line of the current statement

    def own(self, name: str) -> ast.Name:
        """Return the node of an engine's name, and record that the function uses it."""
        self.used.add(name)
        return load(name)

    def call(self, name: str, *args: ast.expr) -> ast.Call:
        """Build a call of one of the engine's functions."""
        return ast.Call(self.own(name), list(args), [])

    def temporary(self) -> str:
        """Return a local name that is new in this function."""
        self.count += 1
        return f".{self.count}"

    def refuse(self, node: ast.AST, what: str) -> Any:
        """Raise ArgumentError for a line of this function."""
        source = self.program.source(self.variant.function)
        raise make_refusal(source, node, self.variant.function.__name__, what)

    def path(self, node: ast.expr) -> str | None:
        return names.path_of(self.variant.function, node, self.local)

    def meaning(self, node: ast.expr) -> Any:
        return names.find_meaning(self.variant.function, node, self.local)

    def place(
        self, kind: str, node: ast.AST, entity: Entity | None = None
    ) -> AccessPlace:
        """Return a new AccessPlace at a node."""
        text = ast.unparse(node) if isinstance(node, ast.expr) else ""
        start = self.variant.file, node.lineno, node.col_offset
        place = AccessPlace(kind, text, *start, entity)
        if isinstance(node, ast.expr):
            # For x[i] += 1, keep the read, which comes first and raises the errors.
            self.variant.places.setdefault(position_of(node), place)
        place.statement = self.statement
        return place

    def site(
        self, kind: str, node: ast.AST, entity: Entity | None = None
    ) -> AccessPlace:
        """Return a new AccessPlace with a known array and the number of its Site."""
        place = self.place(kind, node, entity)
        place.number = len(self.program.sites)
        self.program.sites.append(place)
        if len(self.program.sites) >= SITES // 2:
            self.refuse(node, f"a kernel has at most {SITES // 2} places with accesses")
        return place

    def number_of(self, place: AccessPlace) -> ast.Constant:
        """Return the number by which running code finds an AccessPlace."""
        self.program.places.append(place)
        return make_constant(len(self.program.places) - 1)

    def function(self) -> ast.FunctionDef:
        """Return the definition; the engine's parameters precede the kernel's."""
        tree = self.variant.tree
        body = self.suite(tree.body)
        if self.variant.number == 0 and self.records_ends():
            end = ast.Expr(self.call(".came_to_end", load(".lin")))
            body.append(place_node(end, tree.body[-1]))
        if self.program.trace and self.variant.number == 0:
            body.append(place_node(ast.Return(self.names()), tree.body[-1]))
        arguments = ast.arguments(
            args=[ast.arg(n) for n in (*THREAD, *(a.arg for a in tree.args.args))],
            defaults=[
                self.own(f".default{self.variant.number}_{i}")
                for i in range(len(tree.args.defaults))
            ],
            **{"posonlyargs": [], "kwonlyargs": [], "kw_defaults": []},
        )
        definition = ast.FunctionDef(tree.name, arguments, body, [])
        definition.type_params = []
        return place_node(definition, tree)

    def records_ends(self) -> bool:
        """Return whether to record the ends of threads, since others may be waiting."""
        return self.program.checks and self.program.variants[0].yields

    def names(self) -> ast.expr:
        """Build .names(.lin, locals()), which saves a thread's variables at its end."""
        return self.call(".names", load(".lin"), call("locals"))

    def suite(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Rewrite a list of statements."""
        statements: list[ast.stmt] = []
        starts = True
        for index, node in enumerate(body):
            self.statement = node.lineno
            is_text = isinstance(getattr(node, "value", None), ast.Constant)
            docstring = isinstance(node, ast.Expr) and is_text
            if self.steps and starts and not docstring:
                statements.append(self.step(body[index:]))
                starts = False
            result = self.visit(node)
            statements += result if isinstance(result, list) else [result]
            starts = starts or isinstance(node, (ast.If, ast.For, ast.While))
        return statements

    def step(self, body: list[ast.stmt]) -> ast.stmt:
        """Build a statement that logs the entry into a straight piece of code."""
        place = self.site(STEP, body[0])
        for node in body:
            if isinstance(node, (ast.If, ast.For, ast.While)):
                header = node.iter if isinstance(node, ast.For) else node.test
                place.last = header.end_lineno
                break
            place.last = node.end_lineno
        number = make_constant(place.number)
        return place_node(ast.Expr(self.call(".log", number)), body[0])

    # ---- statements ----

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        if self.variant.number and node.value is None and self.records_ends():
            leave = ast.Expr(self.call(".leaves", load(".lin")))
            return [place_node(leave, node), node]
        if self.variant.number == 0 and self.program.trace:
            return place_node(ast.Return(self.names()), node)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.stmt:
        node.test = self.visit(node.test)
        node.body, node.orelse = self.suite(node.body), self.suite(node.orelse)
        return node

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        node.iter = as_range(node.iter)
        if not isinstance(node.iter, ast.Call):
            self.refuse(node.iter, f"a for loop counts over range(...); {LOOP_HINT}")
        plain = is_simple(node) and not self.steps
        slow = copy.deepcopy(node) if plain else node
        slow.iter = self.visit(slow.iter)
        slow.body, slow.orelse = self.suite(slow.body), self.suite(slow.orelse)
        return (rewrite_plain_loop(self, node, slow) if plain else None) or slow

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        turns = f".turns{self.count}"
        self.count += 1
        spins = self.program.spins(self.variant.function, node, self.local)
        node.test = self.visit(node.test)
        count: list[ast.stmt] = [
            ast.AugAssign(ast.Name(turns, ast.Store()), ast.Add(), make_constant(1))
        ]
        if spins:
            place = self.number_of(self.place("spin", node))
            value = ast.Tuple([make_constant("spin"), place, load(turns)], ast.Load())
            test = ast.Compare(load(turns), [ast.Gt()], [make_constant(SPIN)])
            count.append(ast.If(test, [ast.Expr(ast.Yield(value))], []))
        for one in count:
            place_node(one, node.test)
        node.body = count + self.suite(node.body)
        node.orelse = self.suite(node.orelse)
        return [place_node(assign(turns, make_constant(0)), node.test), node]

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        if isinstance(node.value, (ast.Call, ast.Constant)):
            return self.generic_visit(node)
        if isinstance(node.value, (ast.Name, ast.Attribute)):
            self.visit(node.value)  # raises an error for cuda.syncthreads without ()
        way = explain_idle(node.value)
        self.refuse(node, f"this line does nothing ({way})")

    # ---- names and calls ----

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load) or node.id in self.local:
            return node
        path = self.path(node)
        if path is not None:
            return self.intrinsic(path, node)
        entity = find_entity(self, node)
        return node if entity is None else place_node(self.array(entity), node)

    def array(self, entity: Entity) -> ast.expr:
        """Return the name of a constant or shared array, or of its view with checks."""
        return self.own(f".{'v' if self.checks else 'r'}{entity.number}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        path = self.path(node)
        return self.intrinsic(path, node) if path else self.generic_visit(node)

    def intrinsic(self, path: str, node: ast.expr, number: bool = False) -> ast.expr:
        """Return the code for a name of the language, or raise ArgumentError.

        number: whether only a number is valid, so that threadIdx raises an error.
        """
        expression = None if number else rewrite_calls.rewrite_attribute(self, path)
        if expression is None:
            self.refuse(node, "{} ({})".format(*language.explain_unknown(path)))
        return place_node(expression, node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        for side in (node.left, node.right):
            if self.path(side) in language.VECTORS:
                self.intrinsic(self.path(side) or "", side, number=True)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        path = self.path(node.func)
        if path is not None:
            return place_node(rewrite_calls.rewrite_call(self, path, node), node)
        value = self.meaning(node.func)
        if names.is_foreign(value):
            what = f"a kernel cannot call {ast.unparse(node.func)}() ({ELSE})"
            self.refuse(node, what)
        name = names.math_name(value)
        if name is not None:
            node.func = place_node(self.own(f".math_{name}"), node.func)
            node.args = [self.visit(arg) for arg in node.args]
            return node
        is_integer = isinstance(value, type) and value in TYPES
        if names.is_number_type(value) and _is_number(node):
            kind = converted(value) if is_integer else value
            return place_node(self.program.scalar(self, kind(node.args[0].value)), node)
        if is_integer and len(node.args) == 1 and not node.keywords:
            node.func = place_node(self.own(f".to_{value.__name__}"), node.func)
            return self.generic_visit(node)
        if names.helper_of(value) is not None:
            return self.helper(node)
        return self.generic_visit(node)

    def helper(self, node: ast.Call) -> ast.expr:
        """Return a call of the rewritten helper."""
        callee = self.program.callee(node, self.variant, self.variant.kinds)
        node.func = place_node(self.own(f".h{callee.number}"), node.func)
        node.args = [load(n) for n in THREAD] + [self.visit(a) for a in node.args]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return place_node(ast.YieldFrom(node), node) if callee.yields else node


def _is_number(node: ast.Call) -> bool:
    value = node.args[0] if len(node.args) == 1 and not node.keywords else None
    return isinstance(value, ast.Constant) and isinstance(value.value, (int, float))
