"""A kernel written as a Python function, and what a launch of it needs.

What every runner of such a kernel shares (sim, numba_jit, cuda_c): where its source
is, what its names mean, and the errors for what is not a kernel or not a launch.
"""

from __future__ import annotations

import ast
import builtins
import copy
import functools
import inspect
import itertools
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...base.errors import ArgumentError
from ...toolchain.config import LaunchConfig, parse
from . import messages as kernel_arguments

_OF_NUMBERS = (
    *(ast.Constant, ast.Name, ast.BinOp, ast.UnaryOp, ast.Tuple),
    *(ast.operator, ast.unaryop, ast.expr_context),
)


@dataclass(frozen=True)
class FunctionSource:
    """A function's text, as it stands in its file or cell.

    tree: its definition, with the file's own line numbers and columns. text: its
    lines, of which the first is number `first`.
    """

    file: str
    first: int
    text: str
    tree: ast.FunctionDef

    def line(self, number: int) -> str:
        """A line of the file by its number; "" outside of the function."""
        lines = self.text.splitlines()
        at = number - self.first
        return lines[at] if 0 <= at < len(lines) else ""


class PythonKernel:
    """A kernel as a plain function: its name, its parameters and its source.

    function: a Python function, or what Numba's @cuda.jit made of one. Raises
    ArgumentError if it is neither, or if its parameters are not all plain names.
    """

    def __init__(self, function: Any) -> None:
        self.function = plain_function(function)
        self.name = self.__name__ = self.function.__name__
        self.parameters = _list_parameters(self.function)

    @functools.cached_property
    def source(self) -> FunctionSource:
        """Where the kernel is written; ArgumentError if that is nowhere."""
        return source_of(self.function)

    def value_of(self, name: str) -> Any:
        """What a name means that is no local of the kernel; LookupError if nothing."""
        return value_of(self.function, name)

    def config(self, key: Any) -> LaunchConfig:
        """What stands in the brackets, in Numba's order.

        [grid, block, stream, bytes of shared memory]; the last two may be missing. A
        stream of 0, Numba's default, is torch's current one, as without any.
        """
        parts = key if isinstance(key, tuple) else (key,)
        if 3 <= len(parts) <= 4:
            grid, block, stream, *shared = parts
            if isinstance(stream, int) and stream == 0:
                stream = None
            parts = (grid, block, *(shared or [0]), stream)
        return parse(self.name, parts)

    def given(
        self, args: Sequence[Any], named: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """A launch's arguments by parameter; ArgumentError for what no runner takes.

        named: what was passed by keyword, which a launch has not.
        """
        if named:
            order = ", ".join(self.parameters)
            raise ArgumentError(
                f"{self.name}: {next(iter(named))}= is a keyword: a launch takes its "
                f"arguments in their order, {self.name}[grid, block]({order})"
            )
        given = self.bind(args)
        kernel_arguments.refuse(self.name, given, self._written)
        return given

    def _written(self) -> list[str]:
        try:
            return kernel_arguments.list_written(self.source.tree)
        except ArgumentError:  # no source to read
            return []

    def bind(self, args: Sequence[Any]) -> dict[str, Any]:
        """The arguments by parameter; ArgumentError if their count is not the same."""
        if len(args) != len(self.parameters):
            takes = ", ".join(self.parameters) or "none"
            raise ArgumentError(
                f"{self.name} takes {len(self.parameters)} arguments ({takes}), "
                f"{len(args)} are given"
            )
        return dict(zip(self.parameters, args))

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)})>"


def plain_function(value: Any) -> types.FunctionType:
    """The Python function that a kernel is, or that Numba wraps.

    ArgumentError where there is none: a lambda, a class, a built-in function.
    """
    function = getattr(value, "py_func", value)  # Numba's name for it
    if isinstance(value, PythonKernel):
        function = value.function
    if not isinstance(function, types.FunctionType):
        raise ArgumentError(
            f"a kernel is a Python function: {value!r} is of type "
            f"{type(value).__name__}"
        )
    if function.__name__ == "<lambda>":
        raise ArgumentError("a kernel is a function with a name: write it with def")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise ArgumentError(
            f"{function.__name__} is a generator or a coroutine: a kernel returns "
            f"nothing and has neither yield nor await"
        )
    return function


def source_of(function: Callable[..., Any]) -> FunctionSource:
    """The text and the tree of a function; ArgumentError if it has no source."""
    name = function.__name__
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise ArgumentError(
            f"{name} has no source to read: define it in a cell or in a file"
        ) from None
    text = "".join(lines)
    indented = text[:1].isspace()
    # Within an `if`, an indented function parses with its columns as they are.
    tree = ast.parse(f"if 1:\n{text}" if indented else text)
    ast.increment_lineno(tree, first - 1 - indented)
    body = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    if not isinstance(body[0], ast.FunctionDef):
        raise ArgumentError(f"{name} is not written with def")
    return FunctionSource(inspect.getsourcefile(function) or "", first, text, body[0])


def value_of(function: types.FunctionType, name: str) -> Any:
    """What a free name of a function means now; LookupError if it means nothing."""
    code = function.__code__
    if name in code.co_freevars and function.__closure__:
        cell = function.__closure__[code.co_freevars.index(name)]
        try:
            return cell.cell_contents
        except ValueError:
            raise LookupError(name) from None
    if name in function.__globals__:
        return function.__globals__[name]
    return vars(builtins)[name]


def with_constants(node: ast.expr, tree: ast.FunctionDef) -> ast.expr:
    """An expression without the function's own constants: N where it has N = 8.

    Such a name is assigned once, in the function's own body, from numbers.
    """
    bound = [
        n.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    ]
    known = {
        one.targets[0].id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign)
        and len(one.targets) == 1
        and isinstance(one.targets[0], ast.Name)
        and bound.count(one.targets[0].id) == 1
        and all(isinstance(part, _OF_NUMBERS) for part in ast.walk(one.value))
    }

    class Settle(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            value = known.pop(name.id, None)  # once: nothing is made of itself
            if value is None:
                return name
            made = self.visit(copy.deepcopy(value))
            known[name.id] = value
            return made

    return Settle().visit(copy.deepcopy(node))


def as_range(node: ast.expr) -> ast.expr:
    """What a loop runs over: range(-1, 2) for (-1, 0, 1), else as it was.

    Only for whole numbers at equal distances, which every runner counts.
    """
    if not isinstance(node, ast.Tuple):
        return node
    try:
        values = ast.literal_eval(node)
    except ValueError:
        return node
    if not values or any(type(v) is not int for v in values):
        return node
    step = values[1] - values[0] if len(values) > 1 else 1
    if not step or any(b - a != step for a, b in itertools.pairwise(values)):
        return node
    text = f"range({values[0]}, {values[-1] + step}" + f", {step}" * (step != 1) + ")"
    made = ast.parse(text, mode="eval").body
    for part in ast.walk(made):
        if isinstance(part, ast.expr):
            ast.copy_location(part, node)
    return made


# What to write instead of a loop over anything else.
LOOP_HINT = (
    "write for i in range(n), and index with i; values at no equal distances go into "
    "a cuda.const.array_like(...)"
)


def _list_parameters(function: types.FunctionType) -> tuple[str, ...]:
    found = inspect.signature(function).parameters.values()
    for one in found:
        if one.kind is not one.POSITIONAL_OR_KEYWORD or one.default is not one.empty:
            raise ArgumentError(
                f"{function.__name__}: the parameter {one} is not a plain name, which "
                f"is all that a kernel can have"
            )
    return tuple(one.name for one in found)
