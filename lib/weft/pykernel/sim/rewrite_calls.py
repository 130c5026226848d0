"""Rewrite the names and calls of the kernel language.

The module also evaluates the shape and type of cuda.shared.array and cuda.local.array.
"""

from __future__ import annotations

import ast
import functools
import math
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import language
from ..language import FunctionSource
from ..trees import with_constants
from . import names
from .layout import ATOMIC, FENCE
from .names import add, load, make_constant, make_product, make_refusal, tuple_of
from .warp import FULL, WARP

if TYPE_CHECKING:
    from .rewrite import Rewriter


MAX_LOCAL = 512 << 10  # bytes of local memory per thread of a GPU


def parse_declaration(
    function: FunctionType, source: FunctionSource, node: ast.Call, path: str
) -> tuple[tuple[int, ...], np.dtype]:
    """Return the (shape, type) of an array; raise ArgumentError at its line.

    path: "shared.array" or "local.array". node: the call of cuda.<path>.
    """
    refuse = functools.partial(make_refusal, source, node, function.__name__)
    args = dict(zip(("shape", "dtype"), node.args))
    args |= {k.arg: k.value for k in node.keywords if k.arg}
    if set(args) != {"shape", "dtype"}:
        raise refuse(f"cuda.{path} takes a shape and a type")
    evaluate = functools.partial(_evaluate_constant, function, source)
    shape = evaluate(args["shape"], f"the shape of cuda.{path}")
    dtype = evaluate(args["dtype"], f"the type of cuda.{path}")
    sides = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    valid = all(isinstance(s, (int, np.integer)) and s >= 0 for s in sides)
    if not valid or (0 in sides and (sides != (0,) or path == "local.array")):
        raise refuse(f"cuda.{path} cannot have shape {shape!r}")
    try:
        kind = np.dtype(getattr(dtype, "name", dtype))
    except TypeError:
        kind = None
    if kind is None or kind.hasobject or kind.kind not in "biufcV":
        raise refuse(f"cuda.{path} cannot have elements of type {dtype!r}")
    sides = tuple(int(s) for s in sides)
    size = math.prod(sides) * kind.itemsize
    if path == "local.array" and size > MAX_LOCAL:
        limit = f"a thread has at most {MAX_LOCAL} (512 KB)"
        raise refuse(f"cuda.local.array of {size} bytes: {limit}")
    return sides, kind


def _evaluate_constant(
    function: FunctionType, source: FunctionSource, node: ast.expr, what: str
) -> Any:
    """Evaluate an expression before the launch; error messages call it `what`."""
    free = zip(function.__code__.co_freevars, function.__closure__ or ())
    scope = {k: cell.cell_contents for k, cell in free}
    node = with_constants(node, source.tree)
    refuse = functools.partial(make_refusal, source, node, function.__name__)
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if unknown := used & names.locals_of(source.tree):
        raise refuse(
            f"{what} must be known before the launch, and {min(unknown)} is not: use "
            f"a constant (or shape 0 and the launch's fourth number)"
        )
    compiled = compile(ast.Expression(node), "<constant>", "eval")
    try:
        return eval(compiled, function.__globals__, scope)
    except Exception as error:
        raise refuse(str(error)) from None


_VECTORS = {"threadIdx": "t", "blockIdx": "b", "blockDim": "n", "gridDim": "g"}
_AXES = {f"{name}.{a}": f".{v}{a}" for name, v in _VECTORS.items() for a in "xyz"}

# Functions that wait, with their argument counts. Those in BARRIERS wait for the block
# and take a value. Those in EXCHANGES wait for lanes of the warp and first take a mask.
BARRIERS = {"syncthreads_count": 1, "syncthreads_and": 1, "syncthreads_or": 1}
EXCHANGES = {
    **{"shfl_sync": 3, "shfl_up_sync": 3, "shfl_down_sync": 3, "shfl_xor_sync": 3},
    **{"all_sync": 2, "any_sync": 2, "eq_sync": 2, "ballot_sync": 2},
    **{"match_any_sync": 2, "match_all_sync": 2},
}
WAITING = {"syncthreads": 0, "syncwarp": 1, "activemask": 0, **BARRIERS, **EXCHANGES}
FENCES = {"threadfence": True, "threadfence_system": True, "threadfence_block": False}
NUMBERS = {"popc": 1, "clz": 1, "ffs": 1, "brev": 1, "fma": 3, "cbrt": 1, "selp": 3}
ATOMICS = {
    **dict.fromkeys(("add", "sub", "min", "max", "nanmin", "nanmax"), 3),
    **dict.fromkeys(("and_", "or_", "xor", "exch", "inc", "dec"), 3),
    **{"cas": 4, "compare_and_swap": 3},
}


def rewrite_attribute(rewriter: Rewriter, path: str) -> ast.expr | None:
    """Return an expression for a number such as threadIdx.x; None for other paths."""
    if path in _AXES:
        build = load if path.startswith("threadIdx") else rewriter.own
        return build(_AXES[path])
    if path == "laneid":
        return ast.BinOp(load(".lin"), ast.BitAnd(), make_constant(WARP - 1))
    if path == "warpsize":
        return make_constant(WARP)
    if path in _VECTORS:
        axes = [rewrite_attribute(rewriter, f"{path}.{a}") for a in "xyz"]
        return rewriter.call(".Dim3", *axes)
    return None


def rewrite_call(rewriter: Rewriter, path: str, node: ast.Call) -> ast.expr:
    """Return the replacement for a call of the language; report unknown calls."""
    for form in _FORMS:
        result = form(rewriter, path, node)
        if result is not None:
            return result
    what, hint = language.explain_unknown(path)
    if rewrite_attribute(rewriter, path) is not None:
        what, hint = f"cuda.{path} is not a function", "leave out its parentheses"
    return rewriter.refuse(node, f"{what} ({hint})")


def _bind_arguments(
    rewriter: Rewriter, path: str, node: ast.Call, count: int
) -> list[ast.expr]:
    if node.keywords or len(node.args) != count:
        given = len(node.args) + len(node.keywords)
        rewriter.refuse(
            node,
            f"cuda.{path} takes {count} positional argument{'s' * (count != 1)}, but "
            f"{given} {'is' if given == 1 else 'are'} given ({language.call(path)})",
        )
    return [rewriter.visit(arg) for arg in node.args]


def _rewrite_grid(rewriter: Rewriter, path: str, node: ast.Call) -> ast.expr | None:
    if path not in ("grid", "gridsize"):
        return None
    number = node.args[0] if len(node.args) == 1 else None
    if not isinstance(number, ast.Constant) or number.value not in (1, 2, 3):
        rewriter.refuse(node, f"cuda.{path} takes the number 1, 2 or 3")
    kind, axes = "b" if path == "grid" else "g", []
    for axis in "xyz"[: number.value]:
        value = make_product(rewriter.own(f".{kind}{axis}"), rewriter.own(f".n{axis}"))
        axes.append(add(value, load(f".t{axis}")) if path == "grid" else value)
    return tuple_of(axes)


def _rewrite_memory(rewriter: Rewriter, path: str, node: ast.Call) -> ast.expr | None:
    if path == "const.array_like":
        entity = rewriter.entity(node.args[0]) if len(node.args) == 1 else None
        if entity is None:
            what = "cuda.const.array_like takes the name of a global NumPy array"
            rewriter.refuse(node, what)
        return rewriter.visit(node.args[0])
    if path not in ("shared.array", "local.array"):
        return None
    entity = rewriter.program.memory(rewriter.variant, node)
    if entity.origin == "local":
        return rewriter.call(f".new{entity.number}")
    return rewriter.array(entity)


def _rewrite_wait(rewriter: Rewriter, path: str, node: ast.Call) -> ast.expr | None:
    if path not in WAITING:
        return None
    place = rewriter.number_of(rewriter.place(path, node))
    if path == "syncthreads":
        _bind_arguments(rewriter, path, node, 0)
        return ast.Yield(place)
    if path == "syncwarp" and not node.args:
        args = [make_constant(FULL)]
    else:
        args = _bind_arguments(rewriter, path, node, WAITING[path])
    if path not in BARRIERS:
        args += [make_constant(None)] * (3 - len(args))
    return ast.Yield(ast.Tuple([make_constant(path), place, *args], ast.Load()))


def _rewrite_atomic(rewriter: Rewriter, path: str, node: ast.Call) -> ast.expr | None:
    family, _, name = path.partition(".")
    if family != "atomic" or name not in ATOMICS:
        return None
    args = _bind_arguments(rewriter, path, node, ATOMICS[name])
    if name == "compare_and_swap":
        name, args = "cas", [args[0], make_constant(0), args[1], args[2]]
    place = rewriter.place(ATOMIC, node)
    element = ast.Subscript(*node.args[:2], ast.Load())
    place.text = ast.unparse(node if name == "cas" else element)
    number = rewriter.number_of(place)
    function = ".atomic" if rewriter.checks else ".atomic_plain"
    args += [make_constant(None)] * (4 - len(args))
    return rewriter.call(function, make_constant(name), *args, number)


def _rewrite_plain(rewriter: Rewriter, path: str, node: ast.Call) -> ast.expr | None:
    if path in FENCES:
        _bind_arguments(rewriter, path, node, 0)
        if not (FENCES[path] and rewriter.checks):
            return make_constant(None)
        site = rewriter.site(FENCE, node)
        return rewriter.call(".log", make_constant(site.number))
    if path == "nanosleep":
        (ns,) = _bind_arguments(rewriter, path, node, 1)
        return ast.IfExp(ns, make_constant(None), make_constant(None))
    if path == "lanemask_lt":
        lane = rewrite_attribute(rewriter, "laneid")
        bit = ast.BinOp(make_constant(1), ast.LShift(), lane)
        return ast.BinOp(bit, ast.Sub(), make_constant(1))
    if path in NUMBERS:
        args = _bind_arguments(rewriter, path, node, NUMBERS[path])
        return rewriter.call(f".{path}", *args)
    return None


_FORMS = _rewrite_grid, _rewrite_memory, _rewrite_wait, _rewrite_atomic, _rewrite_plain
