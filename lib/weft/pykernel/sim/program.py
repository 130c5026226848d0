"""A kernel and its helpers, rewritten and compiled for some kinds of arguments."""

from __future__ import annotations

import ast
import copy
import types
from typing import Any

import numpy as np

from ...base.errors import ArgumentError
from ..language import FunctionSource, PythonKernel, source_of, value_of
from ..trees import get_name, list_bound
from . import names
from .layout import AccessPlace, Entity, Position, Variant, position_of
from .names import ANY, Kinds, load
from .rewrite import Rewriter
from .rewrite_calls import BARRIERS, WAITING, parse_declaration

MAX_STATIC = 48 << 10  # maximum bytes of shared memory with a size in the source


class RewrittenKernel:
    """A kernel as code that the engine can run.

    bindings: for each parameter, an Entity (for an array) or a kind (names.py).
    checks: whether to log accesses.
    steps: whether to also log entries into straight pieces of code.
    trace: whether to keep each thread's integer variables when it ends.
    sites: the places whose arrays are known, in the order of their Sites.
    places: the places to which running code refers by their index here.
    """

    def __init__(
        self,
        kernel: PythonKernel,
        bindings: tuple[Any, ...],
        checks: bool,
        steps: bool,
        trace: bool,
    ) -> None:
        self.kernel = kernel
        self.checks, self.steps, self.trace = checks, steps, trace
        self.sites: list[AccessPlace] = []
        self.places: list[AccessPlace] = []
        self.loops: list[str] = []  # names of the loops' LoopShapes
        self.entities: list[Entity] = [b for b in bindings if isinstance(b, Entity)]
        self.constants: dict[str, Any] = {}
        self.variants: list[Variant] = []
        self._variants: dict[Any, Variant] = {}
        self._sources: dict[types.FunctionType, FunctionSource] = {}
        self._memory: dict[tuple[types.FunctionType, Position], Entity] = {}
        self._waits: dict[types.FunctionType, bool | None] = {}
        self._meanings: dict[tuple[types.FunctionType, str], Any] = {}
        self.general = False  # whether any thread waits other than at syncthreads()
        self._enlist(self.variant(kernel.function, bindings))
        built = 0
        while built < len(self.variants):  # rewriting a variant may append others
            self._build(self.variants[built])
            built += 1
        self.codes = {v.code: v for v in self.variants if v.code}
        self.callers_first = self._callers_first()
        self._check_static()

    def _callers_first(self) -> list[Variant]:
        """Return the variants in an order in which callers precede callees."""
        order: list[Variant] = []

        def add(variant: Variant) -> None:
            for name in variant.uses:
                if name.startswith(".h"):
                    add(self.variants[int(name[2:])])
            if variant not in order:
                order.insert(0, variant)

        add(self.variants[0])
        return order

    def holds(self) -> bool:
        """Return whether every name still has the value that the new code uses."""
        for (function, name), value in self._meanings.items():
            try:
                if value_of(function, name) is not value:
                    return False
            except LookupError:
                return False
        return True

    @property
    def sources(self) -> list[FunctionSource]:
        """The sources of the kernel and its helpers."""
        return list(self._sources.values())

    def source(self, function: types.FunctionType) -> FunctionSource:
        """Return the source of a function; check its syntax at the first call."""
        if function not in self._sources:
            source = source_of(function)
            # Decorators run when the function is defined, not in its threads.
            source.tree.decorator_list.clear()
            names.check(source, function.__name__, function is self.kernel.function)
            self._sources[function] = source
            self._remember(function, source.tree)
        return self._sources[function]

    def _remember(self, function: types.FunctionType, tree: ast.FunctionDef) -> None:
        local = names.locals_of(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id not in local:
                try:
                    self._meanings[function, node.id] = value_of(function, node.id)
                except LookupError:
                    continue

    # ---- variants ----

    def variant(
        self, function: types.FunctionType, bindings: tuple[Any, ...]
    ) -> Variant:
        """Return a function's variant. bindings: an Entity or a kind per parameter."""
        key = (function, bindings)
        if key not in self._variants:
            waits = self.waits(function)  # this call also rejects recursion
            self._variants[key] = self._analyse(function, bindings)
            self._variants[key].yields = waits
        return self._variants[key]

    def _analyse(
        self, function: types.FunctionType, bindings: tuple[Any, ...]
    ) -> Variant:
        source = self.source(function)
        tree = copy.deepcopy(source.tree)
        parameters = [a.arg for a in tree.args.args]
        local = names.locals_of(tree)
        bound = list_bound(tree)
        static = {
            name: binding
            for name, binding in zip(parameters, bindings)
            if isinstance(binding, Entity) and name not in bound
        }
        variant = Variant(function, -1, tree, source.file, bindings, static)
        for node in ast.walk(tree):
            if name := get_name(node):
                for call in ast.walk(node.value):
                    if not isinstance(call, ast.Call):
                        continue
                    path = names.path_of(function, call.func, local)
                    if path in ("shared.array", "local.array"):
                        entity = self.memory(variant, call, name)
                        if call is node.value and bound.count(name) == 1:
                            static[name] = entity
        variant.kinds = Kinds(
            tree,
            {n: b if isinstance(b, int) else ANY for n, b in zip(parameters, bindings)},
            lambda node: names.path_of(function, node, local),
            lambda node: names.find_meaning(function, node, local),
            lambda node, kinds: self._find_result_kind(node, variant, kinds),
        )
        return variant

    def _find_result_kind(self, node: ast.Call, caller: Variant, kinds: Kinds) -> int:
        helper = names.helper_of(kinds.value_of(node.func))
        return self._find_called(node, caller, kinds).kinds.result if helper else ANY

    def _find_called(self, node: ast.Call, caller: Variant, kinds: Kinds) -> Variant:
        function = names.helper_of(kinds.value_of(node.func))
        parameters = [a.arg for a in self.source(function).tree.args.args]
        bindings: dict[str, Any] = dict.fromkeys(parameters, ANY)
        for name, arg in zip(parameters, node.args):
            entity = caller.static.get(arg.id) if isinstance(arg, ast.Name) else None
            usable = entity is not None and entity.origin != "local"
            bindings[name] = entity if usable else kinds(arg)
        return self.variant(function, tuple(bindings.values()))

    def callee(self, node: ast.Call, caller: Variant, kinds: Kinds) -> Variant:
        """Return the variant that a helper's call runs, and append it for rewriting."""
        variant = self._find_called(node, caller, kinds)
        self._enlist(variant)
        return variant

    def _enlist(self, variant: Variant) -> None:
        if variant.number < 0:
            variant.number = len(self.variants)
            self.variants.append(variant)

    def _build(self, variant: Variant) -> None:
        rewriter = Rewriter(self, variant)
        body = rewriter.function()
        free = variant.function.__code__.co_freevars
        variant.uses = sorted({*rewriter.used, *free})
        for index, value in enumerate(variant.function.__defaults__ or ()):
            self.constants[f".default{variant.number}_{index}"] = value
        parameters = [ast.arg(name) for name in variant.uses]
        arguments = ast.arguments([], parameters, None, [], [], None, [])
        maker = ast.FunctionDef(
            ".make", arguments, [body, ast.Return(load(body.name))], []
        )
        maker.type_params = []
        module = ast.Module([ast.copy_location(maker, body)], [])
        ast.fix_missing_locations(module)
        module_code = compile(module, variant.file, "exec", dont_inherit=True)
        variant.maker = _compile_code(module_code, ".make")
        variant.code = _compile_code(variant.maker, body.name)

    # ---- waiting ----

    def waits(self, function: types.FunctionType) -> bool:
        """Return whether a function or its helpers wait; reject recursion."""
        if self._waits.get(function, False) is None:
            source, name = self.source(function), function.__name__
            what = "a helper cannot call itself; write a loop instead"
            raise names.make_refusal(source, source.tree, name, what)
        if function not in self._waits:
            self._waits[function] = None
            tree = self.source(function).tree
            local = names.locals_of(tree)
            waits = False
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    waits = self._call_waits(function, node, local) or waits
                elif isinstance(node, ast.While):
                    waits = self.spins(function, node, local) or waits
            self._waits[function] = waits
        return bool(self._waits[function])

    def _call_waits(
        self, function: types.FunctionType, node: ast.Call, local: set[str]
    ) -> bool:
        path = names.path_of(function, node.func, local)
        if path in WAITING:
            self.general = self.general or path != "syncthreads"
            return True
        helper = names.helper_of(names.find_meaning(function, node.func, local))
        return path is None and helper is not None and self.waits(helper)

    def spins(
        self, function: types.FunctionType, node: ast.While, local: set[str]
    ) -> bool:
        """Return whether a loop may wait for another thread's write.

        A loop may do so if its condition, or the body of an endless loop, reads memory.
        """

        def path(call: ast.AST) -> str:
            if not isinstance(call, ast.Call):
                return ""
            return names.path_of(function, call.func, local) or ""

        def helps(call: ast.AST) -> bool:
            if not isinstance(call, ast.Call):
                return False
            value = names.find_meaning(function, call.func, local)
            return names.helper_of(value) is not None

        waits = any(path(n) in {"syncthreads", *BARRIERS} for n in ast.walk(node))
        endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
        nodes = ast.walk(node) if endless else ast.walk(node.test)
        looks = any(
            path(n).startswith("atomic.")
            or (isinstance(n, ast.Subscript) and not isinstance(n.value, ast.Attribute))
            or helps(n)
            for n in nodes
        )
        spins = looks and not waits
        self.general = self.general or spins
        return spins

    # ---- arrays and constants ----

    def memory(self, variant: Variant, node: ast.Call, name: str = "") -> Entity:
        """Return the Entity that a call of shared.array or local.array creates."""
        key = (variant.function, position_of(node))
        if key not in self._memory:
            function, local = variant.function, names.locals_of(variant.tree)
            path = names.path_of(function, node.func, local) or ""
            source = self.source(function)
            shape, dtype = parse_declaration(function, source, node, path)
            origin = path.partition(".")[0]
            kind = origin, len(shape), dtype, shape
            self._memory[key] = self._add_entity(name or origin, *kind)
        return self._memory[key]

    def _add_entity(self, name: str, *kind: Any) -> Entity:
        self.entities.append(Entity(len(self.entities), name, *kind))
        return self.entities[-1]

    def constant(self, name: str, value: np.ndarray) -> Entity:
        """Return the Entity of a global array that the kernel reads."""
        for entity in self.entities:
            if entity.value is value:
                return entity
        kind = "constant", value.ndim, value.dtype, (), value
        return self._add_entity(name, *kind)

    def scalar(self, rewriter: Rewriter, value: np.number) -> ast.expr:
        """Return the name of a constant such as float32(0), created only once."""
        name = f".c{len(self.constants)}"
        for known, other in self.constants.items():
            if type(other) is type(value) and other.tobytes() == value.tobytes():
                name = known
        self.constants[name] = value
        return rewriter.own(name)

    def _check_static(self) -> None:
        fixed = [e for e in self.entities if e.origin == "shared" and not e.dynamic]
        used = sum(int(np.prod(e.shape)) * e.dtype.itemsize for e in fixed)
        if used > MAX_STATIC:
            each = ", ".join(f"{e.name} {e.shape} {e.dtype}" for e in fixed)
            raise ArgumentError(
                f"{self.kernel.name}: {used} bytes of shared memory ({each}), but "
                f"arrays with a size in the source have at most {MAX_STATIC} (48 KB): "
                f"shape 0 takes the size from the launch, up to 227 KB"
            )


def _compile_code(code: types.CodeType, name: str) -> types.CodeType:
    codes = [c for c in code.co_consts if isinstance(c, types.CodeType)]
    return next(c for c in codes if c.co_name == name)
