"""A Python kernel with other values of the names that it takes from its module."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from ..base.errors import ArgumentError
from ..pykernel.language.kernel import plain_function


def with_globals(
    function: types.FunctionType, constants: Mapping[str, Any]
) -> types.FunctionType:
    """The function with other values of names that it, or what it calls, takes from
    its module or from around it. Raises ArgumentError for a name that none uses."""
    function = plain_function(function)
    used: set[str] = set()
    made = _rebind_function(function, dict(constants), used, {})
    unused = [name for name in constants if name not in used]
    if unused:
        raise ArgumentError(
            f"{function.__name__} does not use the constant {unused[0]}: it has to be "
            f"a name that the kernel takes from its module"
        )
    return made


def _rebind_function(
    function: types.FunctionType,
    constants: dict[str, Any],
    used: set[str],
    done: dict[int, Any],
) -> types.FunctionType:
    if id(function) in done:
        return done[id(function)]
    code = function.__code__
    used |= constants.keys() & {*code.co_names, *code.co_freevars}
    scope = dict(function.__globals__)
    cells = tuple(
        types.CellType(constants[name]) if name in constants else cell
        for name, cell in zip(code.co_freevars, function.__closure__ or ())
    )
    made = types.FunctionType(
        *(code, scope, function.__name__, function.__defaults__, cells)
    )
    made.__doc__, made.__module__ = function.__doc__, function.__module__
    made.__qualname__ = function.__qualname__
    done[id(function)] = made
    for name in code.co_names:
        value = scope.get(name)
        own = isinstance(value, types.FunctionType)
        if own and value.__module__ == function.__module__:
            scope[name] = _rebind_function(value, constants, used, done)
    scope.update({n: v for n, v in constants.items() if n in code.co_names})
    return made
