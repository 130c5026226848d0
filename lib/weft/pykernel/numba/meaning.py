"""Names in a kernel: in full, misspelt ones refused, and what Numba takes them for.

Parts of `cuda` that a kernel has imported one by one, by their full names.

Numba's compiler knows cuda.threadIdx, and no threadIdx alone: the name stands for a
class of its own, which has no type. So a function that was written with such names is
compiled from its source again, with `cuda.` before them, line for line.

Names of the language that a kernel writes wrongly, before Numba sees them.

What the names in a kernel mean, as Numba and its simulator are told.

A kernel is written in the names of weft.cuda, and calls plain functions. Numba wants
its own module and device functions instead, and its simulator, which is another
process, wants all of it by value. read() says what there is; build() makes a function
of it for the GPU, serialise_kernel() what is sent to the simulator.
"""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import marshal
import numbers
import pickle
import sys
import types
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import cuda
from ... import cuda as language
from ...base.errors import ArgumentError
from ..language import (
    VECTORS,
    explain_unknown,
    find_near_name,
    list_names,
    plain_function,
    source_of,
    without_cuda,
)

CUDA_NAME = "__cuda__"  # what the module is called in the new code


def in_full(function: types.FunctionType, names: dict[str, str]) -> types.CodeType:
    """The function's code with MODULE.threadIdx for threadIdx.

    names: what each name is in the module, {"threadIdx": "threadIdx"}. All names that
    are no locals are globals in the new code. ArgumentError without a source.
    """
    source = source_of(function)
    tree = _Longer(names).visit(_strip_defaults(source.tree))
    old = function.__code__
    made = compile(
        ast.Module([tree], []), old.co_filename, "exec", 0, dont_inherit=True
    )
    code = next(c for c in made.co_consts if isinstance(c, types.CodeType))
    if code.co_varnames != old.co_varnames:
        raise ArgumentError(
            f"{function.__name__} is not what its file says by now: import it again"
        )
    return code


class _Longer(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        module = ast.copy_location(ast.Name(CUDA_NAME, ast.Load()), node)
        full = ast.Attribute(module, self.names[node.id], ast.Load())
        return ast.copy_location(full, node)


def _strip_defaults(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Without what is computed where the function is defined."""
    tree.decorator_list, tree.returns = [], None
    arguments = tree.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None
    if hasattr(tree, "type_params"):  # Python 3.12
        tree.type_params = []
    return tree


def refuse(function: types.FunctionType, modules: Container[str]) -> None:
    """ArgumentError at cuda.threadidx, cuda.syncthread() and the like, as sim has it.

    modules: the function's names for cuda. A function without a source is let through.
    """
    try:
        source = source_of(function)
    except ArgumentError:
        return
    inner: set[ast.AST] = set()
    for node in ast.walk(source.tree):
        if node in inner or not isinstance(node, ast.Attribute):
            continue
        path, base = node.attr, node.value
        while isinstance(base, ast.Attribute):
            inner.add(base)
            path, base = f"{base.attr}.{path}", base.value
        if not isinstance(base, ast.Name) or base.id not in modules or _is_known(path):
            continue
        if find_near_name(path) or path.split(".")[0] in VECTORS:
            what, hint = explain_unknown(path)
            text = source.line(node.lineno).strip()
            raise ArgumentError(
                f"{function.__name__}, line {node.lineno}: {what} ({hint}): {text}"
            )


def explain_undefined(name: str) -> str:
    """What to say of a name that means nothing."""
    if language := without_cuda(name):
        return f"{name} is not defined: a kernel writes cuda.{language}"
    return f"{name} is not defined"


def _is_known(path: str) -> bool:
    """Whether it is in the language, or in Numba's own module."""
    return path in list_names() or any(
        _has(module, path) for module in (cuda, sys.modules.get("numba.cuda"))
    )


def _has(module: Any, path: str) -> bool:
    try:
        functools.reduce(getattr, path.split("."), module)
    except Exception:  # weft.cuda's own names say that they are for kernels
        return module is cuda and path in VECTORS
    return module is not None


CUDA, MODULE, HELPER, VALUE = "cuda", "module", "helper", "value"
_CONSTANTS = "Numba takes numbers, tuples and arrays of numbers from outside"


@dataclass
class KernelPart:
    """A kernel, or a function that it calls.

    names: what its free names mean, as (kind, what): CUDA and the name of something in
    the module ("" for the module itself), MODULE and its name, HELPER and a Part,
    VALUE and the value. watched: where these were found, and what was there.
    """

    function: types.FunctionType
    names: dict[str, tuple[str, Any]] = field(default_factory=dict)
    watched: list[tuple[Any, str, Any]] = field(default_factory=list)

    def parts(self) -> Iterator[KernelPart]:
        """This one and all that it calls, each once."""
        seen: dict[int, KernelPart] = {}
        waiting: list[KernelPart] = [self]
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen[id(one)] = one
                waiting += [what for kind, what in one.names.values() if kind == HELPER]
        return iter(seen.values())

    def stale(self) -> bool:
        """Whether a name means something else by now: a cell was run again."""
        return any(
            _value_now(where, name) is not was for where, name, was in self.watched
        )

    def uses(self) -> Iterator[tuple[str, int]]:
        """What of weft.cuda is used, and on which line: ("shfl_sync", 12)."""
        for one in self.parts():
            module, line = False, one.function.__code__.co_firstlineno
            for code in _walk_codes(one.function.__code__):
                for step in dis.get_instructions(code):
                    if step.positions and step.positions.lineno:
                        line = step.positions.lineno
                    if module and step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                        yield step.argval, line
                    kind, what = one.names.get(_loaded_name(step), ("", ""))
                    module = kind == CUDA and not what
                    if kind == CUDA and what:
                        yield what, line


def read(function: types.FunctionType) -> KernelPart:
    """What the names in a kernel mean now, and in all that it calls.

    Raises ArgumentError for a name that means nothing, or nothing to Numba.
    """
    known = _map_language()
    done: dict[types.FunctionType, KernelPart] = {}
    root = _read(function, function.__name__, known, done)
    root.watched = [entry for part in done.values() for entry in part.watched]
    return root


def build(
    root: KernelPart, cuda: Any, device: Callable[[Any], Any]
) -> types.FunctionType:
    """The kernel as a function in which `cuda` is Numba's module.

    device: makes of a function that it calls what Numba can call.
    """
    made: dict[int, types.FunctionType] = {
        id(p): _rename_function(p) for p in root.parts()
    }
    wrapped = {key: device(f) for key, f in made.items() if key != id(root)}
    wrapped.setdefault(id(root), made[id(root)])  # for a kernel that calls itself
    for part in root.parts():
        function = made[id(part)]
        meant = {n: _value_of(m, cuda, wrapped) for n, m in part.names.items()}
        function.__globals__.update(meant, **{CUDA_NAME: cuda})
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or ()
        ):
            cell.cell_contents = meant[name]
    return made[id(root)]


def serialise_kernel(root: KernelPart) -> bytes:
    """The kernel for another process of this Python: what child.py makes one of."""
    parts = list(root.parts())
    numbers_of = {id(part): number for number, part in enumerate(parts)}
    sent = []
    for part in parts:
        names = {}
        for name, (kind, what) in part.names.items():
            names[name] = kind, _convert_sent(root, name, kind, what, numbers_of)
        function = part.function
        defaults = pickle.dumps((function.__defaults__, function.__kwdefaults__))
        sent.append((marshal.dumps(function.__code__), defaults, names))
    return pickle.dumps(sent)


# ---- reading --------------------------------------------------------------------


def _read(
    function: types.FunctionType,
    kernel: str,
    known: dict[int, str],
    done: dict[types.FunctionType, KernelPart],
) -> KernelPart:
    if function in done:
        return done[function]
    part = done[function] = KernelPart(function)
    for name, line in _free(function).items():
        where = _place(function, name)
        value = _value_now(where, name)
        if value is _NOTHING:
            if hasattr(builtins, name):
                continue
            raise ArgumentError(f"{kernel}, line {line}: {explain_undefined(name)}")
        part.watched.append((where, name, value))
        if id(value) in known:
            part.names[name] = CUDA, known[id(value)]
        elif isinstance(value, types.ModuleType):
            part.names[name] = MODULE, value.__name__
        elif isinstance(getattr(value, "py_func", value), types.FunctionType):
            helper = plain_function(value)
            part.names[name] = HELPER, _read(helper, kernel, known, done)
        elif (constant := _constant_of(value)) is not _NOTHING:
            part.names[name] = VALUE, constant
        else:
            raise ArgumentError(
                f"{kernel}, line {line}: {name} is of type {type(value).__name__}: "
                f"{_CONSTANTS}"
            )
    modules = [name for name, what in part.names.items() if what == (CUDA, "")]
    refuse(function, modules)
    return part


def _map_language() -> dict[int, str]:
    """What is weft.cuda's or Numba's, by identity: "" for the module itself."""
    known: dict[int, str] = {}
    names = [n for n, v in vars(language).items() if _is_ours(v)]
    for module in (sys.modules.get("numba.cuda"), language):
        if module is None:
            continue
        for name in names:
            if (value := getattr(module, name, None)) is not None:
                known[id(value)] = name
        known[id(module)] = ""
    return known


def _is_ours(value: Any) -> bool:
    return getattr(value, "__module__", "") == language.__name__


_NOTHING = object()


def _free(function: types.FunctionType) -> dict[str, int]:
    """The names that are no locals, and the line where each is read first."""
    found: dict[str, int] = {}
    line = function.__code__.co_firstlineno
    for code in _walk_codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.positions and step.positions.lineno:
                line = step.positions.lineno
            own = step.opname != "LOAD_DEREF" or (
                step.argval in function.__code__.co_freevars
            )
            if own and (name := _loaded_name(step)):
                found.setdefault(name, line)
    for name in function.__code__.co_freevars:
        found.setdefault(name, line)
    return found


def _walk_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _walk_codes(constant)


def _loaded_name(step: dis.Instruction) -> str:
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
    return step.argval if step.opname in loads else ""


def _place(function: types.FunctionType, name: str) -> Any:
    free = function.__code__.co_freevars
    if name in free and function.__closure__:
        return function.__closure__[free.index(name)]
    return function.__globals__


def _value_now(where: Any, name: str) -> Any:
    if isinstance(where, dict):
        return where.get(name, _NOTHING)
    try:
        return where.cell_contents
    except ValueError:
        return _NOTHING


def _constant_of(value: Any) -> Any:
    """The value if Numba takes it from outside of a kernel."""
    if isinstance(value, type):
        known = issubclass(value, (np.generic, numbers.Number))
        return value if known or value in (range, tuple) else _NOTHING
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    if isinstance(value, np.generic | np.dtype):
        return value
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biufc" else _NOTHING
    if isinstance(value, tuple):
        return _NOTHING if _NOTHING in map(_constant_of, value) else value
    if isinstance(value, types.BuiltinFunctionType | np.ufunc):
        return value  # from math import sqrt
    if type(value).__module__.startswith("numba."):
        # numba.float32 and the like: NumPy's of that name means the same.
        name = {"boolean": "bool_"}.get(str(value), str(value))
        return getattr(np, name, _NOTHING)
    return _NOTHING


# ---- making ---------------------------------------------------------------------


def _rename_function(part: KernelPart) -> types.FunctionType:
    """The function with names of its own, which mean nothing yet."""
    old = part.function
    short = {n: what for n, (kind, what) in part.names.items() if kind == CUDA and what}
    code = in_full(old, short) if short else old.__code__
    cells = tuple(types.CellType() for _ in code.co_freevars)
    inside = {"__name__": old.__module__ or "__main__", "__builtins__": builtins}
    made = types.FunctionType(code, inside, old.__name__, None, cells or None)
    made.__qualname__ = old.__name__
    made.__defaults__, made.__kwdefaults__ = old.__defaults__, old.__kwdefaults__
    return made


def _value_of(meaning: tuple[str, Any], cuda: Any, wrapped: dict[int, Any]) -> Any:
    kind, what = meaning
    if kind == CUDA:
        return getattr(cuda, what) if what else cuda
    if kind == MODULE:
        return sys.modules[what]
    return wrapped[id(what)] if kind == HELPER else what


def _convert_sent(
    root: KernelPart, name: str, kind: str, what: Any, numbers_of: dict
) -> Any:
    if kind == HELPER:
        return numbers_of[id(what)]
    if kind != VALUE:
        return what
    try:
        return pickle.dumps(what)
    except Exception as error:
        raise ArgumentError(
            f"{root.function.__name__}: {name} cannot be sent to the simulator: {error}"
        ) from None
