"""Resolve the names in a kernel, and report misspelled names.

A kernel uses the names of weft.cuda, and calls plain functions. Numba requires its own
module and device functions instead. Numba's simulator runs in another process, which
receives copies of the functions and values. read() resolves the names. build() creates
a function for the GPU, and serialise_kernel() creates the bytes for the simulator.

Numba's compiler accepts cuda.threadIdx, but not threadIdx alone, which is a class
without a type. in_full() therefore compiles a function with such names again, from its
source, with `cuda.` before these names. The lines keep their numbers.
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

CUDA_NAME = "__cuda__"  # the module's name in the new code


def in_full(function: types.FunctionType, names: dict[str, str]) -> types.CodeType:
    """Return the function's code with MODULE.threadIdx instead of threadIdx.

    names: maps each name to its name in the module: {"threadIdx": "threadIdx"}.

    All nonlocal names are globals in the new code. Raises ArgumentError if the function
    has no source, or if the source has changed.
    """
    source = source_of(function)
    tree = _Longer(names).visit(_strip_defaults(source.tree))
    old, module = function.__code__, ast.Module([tree], [])
    module_code = compile(module, old.co_filename, "exec", dont_inherit=True)
    code = next(c for c in module_code.co_consts if isinstance(c, types.CodeType))
    if code.co_varnames != old.co_varnames:
        raise ArgumentError(
            f"{function.__name__} no longer matches its file: import it again"
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
    """Remove all expressions that run when the function is defined."""
    tree.decorator_list, tree.returns = [], None
    arguments = tree.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg):
            node.annotation = None
    if hasattr(tree, "type_params"):  # Python 3.12 or later
        tree.type_params = []
    return tree


def refuse(function: types.FunctionType, modules: Container[str]) -> None:
    """Raise ArgumentError for misspelled names such as cuda.threadidx, as sim does.

    modules: the function's names for cuda. A function without a source is accepted.
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
    """Return the message about a name that is not defined."""
    if known := without_cuda(name):
        return f"{name} is not defined: write cuda.{known} in a kernel"
    return f"{name} is not defined"


def _is_known(path: str) -> bool:
    """Return whether the path is in the language, or in Numba's module."""
    return path in list_names() or any(
        _has(module, path) for module in (language, sys.modules.get("numba.cuda"))
    )


def _has(module: Any, path: str) -> bool:
    try:
        functools.reduce(getattr, path.split("."), module)
    except Exception:  # outside kernels, many names of weft.cuda raise an error
        return module is language and path in VECTORS
    return module is not None


CUDA, MODULE, HELPER, VALUE = "cuda", "module", "helper", "value"
_CONSTANTS = "Numba accepts numbers, tuples and arrays of numbers from outside"


@dataclass
class KernelPart:
    """A kernel, or a function that it calls.

    names: the meaning of each free name, as a pair (kind, what). For kind CUDA, `what`
        is a name in the module, or "" for the module itself. For MODULE, it is the
        module's name, for HELPER a KernelPart, and for VALUE the value.
    watched: the scope of each name, the name, and its value when it was resolved.
    """

    function: types.FunctionType
    names: dict[str, tuple[str, Any]] = field(default_factory=dict)
    watched: list[tuple[Any, str, Any]] = field(default_factory=list)

    def parts(self) -> Iterator[KernelPart]:
        """Iterate over this part and all parts that it calls, without repetition."""
        visited: dict[int, KernelPart] = {}
        waiting: list[KernelPart] = [self]
        while waiting:
            one = waiting.pop()
            if id(one) not in visited:
                visited[id(one)] = one
                waiting += [what for kind, what in one.names.values() if kind == HELPER]
        return iter(visited.values())

    def stale(self) -> bool:
        """Return whether a name has a new value, for example after a cell ran again."""
        return any(_value_now(at, name) is not old for at, name, old in self.watched)

    def uses(self) -> Iterator[tuple[str, int]]:
        """Yield each name of weft.cuda in use, with its line: ("shfl_sync", 12)."""
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
    """Resolve the current names in a kernel and in all functions that it calls.

    An undefined name, or one that Numba cannot use, raises ArgumentError.
    """
    language_names = _map_language()
    resolved: dict[types.FunctionType, KernelPart] = {}
    root = _read(function, function.__name__, language_names, resolved)
    root.watched = [entry for part in resolved.values() for entry in part.watched]
    return root


def build(
    root: KernelPart, cuda: Any, device: Callable[[Any], Any]
) -> types.FunctionType:
    """Return the kernel as a function in which `cuda` is Numba's module.

    device: converts a called function to one that Numba can call.
    """
    copy = {id(part): _rename_function(part) for part in root.parts()}
    callables = {key: device(f) for key, f in copy.items() if key != id(root)}
    callables.setdefault(id(root), copy[id(root)])  # a kernel may call itself
    for part in root.parts():
        function = copy[id(part)]
        values = {n: _value_of(m, cuda, callables) for n, m in part.names.items()}
        function.__globals__.update(values, **{CUDA_NAME: cuda})
        free = function.__code__.co_freevars
        for name, cell in zip(free, function.__closure__ or ()):
            cell.cell_contents = values[name]
    return copy[id(root)]


def serialise_kernel(root: KernelPart) -> bytes:
    """Return the kernel as bytes, from which child.py rebuilds it."""
    parts = list(root.parts())
    numbers_of = {id(part): number for number, part in enumerate(parts)}
    serialised = []
    for part in parts:
        names = {}
        for name, (kind, what) in part.names.items():
            names[name] = kind, _convert_sent(root, name, kind, what, numbers_of)
        function = part.function
        defaults = pickle.dumps((function.__defaults__, function.__kwdefaults__))
        serialised.append((marshal.dumps(function.__code__), defaults, names))
    return pickle.dumps(serialised)


# ---- resolving names ------------------------------------------------------------


def _read(
    function: types.FunctionType,
    kernel: str,
    language_names: dict[int, str],
    resolved: dict[types.FunctionType, KernelPart],
) -> KernelPart:
    if function in resolved:
        return resolved[function]
    part = resolved[function] = KernelPart(function)
    for name, line in _list_free(function).items():
        where = _find_scope(function, name)
        value = _value_now(where, name)
        if value is _NOTHING:
            if hasattr(builtins, name):
                continue
            raise ArgumentError(f"{kernel}, line {line}: {explain_undefined(name)}")
        part.watched.append((where, name, value))
        if id(value) in language_names:
            part.names[name] = CUDA, language_names[id(value)]
        elif isinstance(value, types.ModuleType):
            part.names[name] = MODULE, value.__name__
        elif isinstance(getattr(value, "py_func", value), types.FunctionType):
            helper = plain_function(value)
            part.names[name] = HELPER, _read(helper, kernel, language_names, resolved)
        elif (constant := _accept_constant(value)) is not _NOTHING:
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
    """Map the ids of weft.cuda's and Numba's objects to names, and modules to ""."""
    language_names: dict[int, str] = {}
    own = vars(language).items()
    names = [n for n, v in own if getattr(v, "__module__", "") == language.__name__]
    for module in filter(None, (sys.modules.get("numba.cuda"), language)):
        for name in names:
            if (value := getattr(module, name, None)) is not None:
                language_names[id(value)] = name
        language_names[id(module)] = ""
    return language_names


_NOTHING = object()
_CONSTANT_TYPES = (
    *(bool, int, float, complex, str, np.generic, np.dtype),
    *(types.BuiltinFunctionType, np.ufunc),  # sqrt after `from math import sqrt`
)


def _list_free(function: types.FunctionType) -> dict[str, int]:
    """Return the nonlocal names, with the line of each name's first use."""
    first_lines: dict[str, int] = {}
    line, free = function.__code__.co_firstlineno, function.__code__.co_freevars
    for code in _walk_codes(function.__code__):
        for step in dis.get_instructions(code):
            if step.positions and step.positions.lineno:
                line = step.positions.lineno
            own = step.opname != "LOAD_DEREF" or step.argval in free
            if own and (name := _loaded_name(step)):
                first_lines.setdefault(name, line)
    for name in free:
        first_lines.setdefault(name, line)
    return first_lines


def _walk_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _walk_codes(constant)


def _loaded_name(step: dis.Instruction) -> str:
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
    return step.argval if step.opname in loads else ""


def _find_scope(function: types.FunctionType, name: str) -> Any:
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


def _accept_constant(value: Any) -> Any:
    """Return the value if Numba accepts it as a kernel's global; else _NOTHING."""
    if isinstance(value, type):
        number = issubclass(value, (np.generic, numbers.Number))
        return value if number or value in (range, tuple) else _NOTHING
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "biufc" else _NOTHING
    if isinstance(value, tuple):
        return _NOTHING if _NOTHING in map(_accept_constant, value) else value
    if value is None or isinstance(value, _CONSTANT_TYPES):
        return value
    if type(value).__module__.startswith("numba."):
        # numba.float32 and similar types have the names of NumPy's types.
        name = {"boolean": "bool_"}.get(str(value), str(value))
        return getattr(np, name, _NOTHING)
    return _NOTHING


# ---- building functions ---------------------------------------------------------


def _rename_function(part: KernelPart) -> types.FunctionType:
    """Return a copy of the function whose globals are a new, empty dictionary."""
    old = part.function
    short = {n: what for n, (kind, what) in part.names.items() if kind == CUDA and what}
    code = in_full(old, short) if short else old.__code__
    cells = tuple(types.CellType() for _ in code.co_freevars)
    inside = {"__name__": old.__module__ or "__main__", "__builtins__": builtins}
    copy = types.FunctionType(code, inside, old.__name__, None, cells or None)
    copy.__qualname__ = old.__name__
    copy.__defaults__, copy.__kwdefaults__ = old.__defaults__, old.__kwdefaults__
    return copy


def _value_of(meaning: tuple[str, Any], cuda: Any, callables: dict[int, Any]) -> Any:
    kind, what = meaning
    if kind == CUDA:
        return getattr(cuda, what) if what else cuda
    if kind == MODULE:
        return sys.modules[what]
    return callables[id(what)] if kind == HELPER else what


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
            f"{root.function.__name__}: cannot send {name} to the simulator: {error}"
        ) from None
