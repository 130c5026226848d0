"""Parts of `cuda` that a kernel has imported one by one, by their full names.

Numba's compiler knows cuda.threadIdx, and no threadIdx alone: the name stands for a
class of its own, which has no type. So a function that was written with such names is
compiled from its source again, with `cuda.` before them, line for line.
"""

from __future__ import annotations

import ast
import types

from ...base.errors import ArgumentError
from ..language.kernel import source_of

MODULE = "__cuda__"  # what the module is called in the new code


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
        module = ast.copy_location(ast.Name(MODULE, ast.Load()), node)
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
