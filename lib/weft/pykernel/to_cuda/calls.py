"""Infer the types of calls to weft.cuda, Python's builtins, math and helpers."""

from __future__ import annotations

import ast
import functools
import types as python_types
from dataclasses import replace
from typing import Any

from ..language import LISTED, call, explain_unknown, list_names
from .types import (
    BOOL,
    F64,
    FLOAT,
    GLOBAL,
    INT,
    U32,
    ArrayType,
    ScalarType,
    Unknown,
    join,
    note_write,
    promote,
)
from .unit import (
    ANY,
    UNKNOWN,
    KnownFunction,
    LanguageName,
    Span,
    Unit,
    evaluate_constant,
    merge,
)

FENCES = ("syncthreads", "threadfence", "threadfence_block", "threadfence_system")
# For barriers, fences and votes: (number of arguments, type of the result).
SYNC = {
    **dict.fromkeys(FENCES, (0, None)),
    **dict.fromkeys(("syncthreads_count", "syncthreads_and"), (1, INT)),
    **{"syncthreads_or": (1, INT), "nanosleep": (1, None)},
    **dict.fromkeys(("all_sync", "any_sync", "eq_sync"), (2, BOOL)),
    **dict.fromkeys(("ballot_sync", "match_any_sync"), (2, U32)),
    **dict.fromkeys(("activemask", "lanemask_lt"), (0, U32)),
}
SHUFFLES = ("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync")
BITS = ("popc", "clz", "ffs")
_COUNTS = dict.fromkeys((*SHUFFLES, "fma", "selp"), 3)
_COUNTS |= dict.fromkeys((*BITS, "brev", "cbrt"), 1)
ATOMICS = (
    *("add", "sub", "min", "max", "nanmin", "nanmax", "and_", "or_", "xor", "exch"),
    *("inc", "dec"),
)


def count(unit: Unit, node: ast.Call, *counts: int) -> None:
    starred = any(isinstance(arg, ast.Starred) for arg in node.args)
    if starred or len(node.args) not in counts:
        possible = " or ".join(map(str, counts))
        meaning = unit.meaning(node.func)
        language = isinstance(meaning, LanguageName) and meaning.path in list_names()
        unit.fail(
            f"{ast.unparse(node.func)} takes {possible} "
            f"argument{'s' * (counts[-1] != 1)} here, but {len(node.args)} are given",
            call(meaning.path) if language else "count the arguments",
            node,
        )


def type_call(walk: Any, path: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if path in _COUNTS:
        count(unit, node, _COUNTS[path])
    if path in SYNC:
        argument_count, kind = SYNC[path]
        count(unit, node, argument_count)
        for arg in args:
            walk.scalar(arg)
        return kind, (0, None)
    if path == "syncwarp":
        count(unit, node, 0, 1)
        for arg in args:
            walk.whole(arg, "a mask")
        return None, ANY
    if path in SHUFFLES:
        kinds = [walk.scalar(arg) for arg in args]
        walk.whole(args[0], "a mask")
        walk.whole(args[2], "a lane")
        return kinds[1], walk.span(args[1])
    if path in (*BITS, "brev"):
        kind = walk.whole(args[0], f"the argument of {path}")
        return (INT, (0, 64)) if path in BITS else (kind, ANY)
    if path in ("fma", "selp"):
        kinds = [walk.scalar(arg) for arg in args]
        kind = kinds[1]
        for other in kinds[2:] if path == "selp" else kinds:
            kind = promote(kind, other) or F64
        if path == "fma" and kind.whole:
            kind = FLOAT
        both = merge(walk.span(args[1]), walk.span(args[2]))
        return kind, both if path == "selp" else ANY
    if path == "cbrt":
        kind = walk.scalar(args[0])
        return (FLOAT if kind.whole else kind), ANY
    if path.startswith("atomic."):
        return _type_atomic(walk, path[7:], node)
    if path in ("shared.array", "local.array", "const.array_like"):
        what, hint = f"cuda.{path} needs a line of its own", f"name = cuda.{path}(...)"
    elif path in list_names():
        what, hint = f"cuda.{path}() does not become CUDA C", LISTED
    else:
        what, hint = explain_unknown(path)
    unit.fail(what, hint, node)


def _type_atomic(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if name == "compare_and_swap":
        count(unit, node, 3)
        index: list[ast.expr] = [ast.copy_location(ast.Constant(0), node)]
        values = args[1:]
    else:
        if name not in (*ATOMICS, "cas"):
            unit.fail(*explain_unknown(f"atomic.{name}"), node)
        count(unit, node, 4 if name == "cas" else 3)
        index = args[1].elts if isinstance(args[1], ast.Tuple) else [args[1]]
        values = args[2:]
    kind = walk.expr(args[0])
    if not isinstance(kind, ArrayType):
        what = f"{ast.unparse(args[0])} is not an array"
        unit.fail(what, f"cuda.atomic.{name}(x, i, v)", node)
    node.index = index
    walk.indices(kind, index, node)
    for value in values:
        walk.scalar(value)

    note_write(walk, kind, node)
    _atomic_exists(unit, name, kind.dtype, node)
    return kind.dtype, (0, None) if kind.dtype.kind == "u" else ANY


def _atomic_exists(unit: Unit, name: str, kind: ScalarType, node: ast.AST) -> None:
    floats = name in ("add", "sub", "min", "max", "nanmin", "nanmax", "exch")
    possible = kind.bits >= 32 and (floats or kind.kind in "iu")
    types = "int32, int64 and unsigned ones" + " and float32, float64" * floats
    if name in ("inc", "dec"):
        possible, types = kind == U32, "uint32"
    if not possible:
        what = f"CUDA has no cuda.atomic.{name} of {kind}"
        unit.fail(what, f"it exists for {types}", node)


AXES = "xyz"
_VECTORS: dict[str, Span] = {
    "threadIdx": (0, 1023),
    "blockIdx": (0, None),
    "blockDim": (1, 1024),
    "gridDim": (1, None),
}
# Functions of math with one float argument, with their names in C.
_ONE = """acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp2 expm1 fabs
    lgamma log log10 log1p log2 sin sinh sqrt tan tanh"""
_TWO = "atan2 copysign fmod hypot pow remainder"
ONE = {name: name for name in _ONE.split()} | {"gamma": "tgamma"}
TWO = {name: name for name in _TWO.split()}
TESTS = ("isnan", "isinf", "isfinite")
WHOLE = ("floor", "ceil", "trunc")


def type_attribute(path: str) -> tuple[ScalarType, Span] | None:
    """Return the type and range of a number in weft.cuda; None for other names."""
    base, _, axis = path.partition(".")
    if base in _VECTORS and axis in AXES and axis:
        return INT, _VECTORS[base]
    if path == "laneid":
        return INT, (0, 31)
    return (INT, (32, 32)) if path == "warpsize" else None


# ---- the index of a thread in the grid ------------------------------------------


def is_grid(unit: Unit, node: ast.AST) -> bool:
    """Return whether a node is cuda.grid(...) or cuda.gridsize(...)."""
    return isinstance(node, ast.Call) and unit.meaning(node.func) in (
        LanguageName("grid"),
        LanguageName("gridsize"),
    )


def count_dimensions(unit: Unit, node: ast.Call) -> int:
    """Return the argument of grid() or gridsize(): 1, 2 or 3."""
    name = ast.unparse(node.func)
    args = [*node.args, *(k.value for k in node.keywords)]
    value = evaluate_constant(unit, args[0]) if len(args) == 1 else None
    if value not in (1, 2, 3):
        unit.fail(f"{name}() takes the number 1, 2 or 3", f"write {name}(1)", node)
    return value


def grid_part(walk: Any, node: ast.Subscript) -> tuple[ScalarType, Span]:
    """Return the type and range of an element such as cuda.grid(2)[0]."""
    count, index = count_dimensions(walk.unit, node.value), node.slice
    unpacked = getattr(node, "unpacked", count)
    if not isinstance(index, ast.Constant) or unpacked != count or count == 1:
        names = "one number" if count == 1 else f"{count} numbers"
        hint = "i = cuda.grid(1); x, y = cuda.grid(2)"
        walk.unit.fail(f"{ast.unparse(node.value)} gives {names}", hint, node)
    if not (isinstance(index.value, int) and 0 <= index.value < count):
        walk.unit.fail(f"{ast.unparse(node)} is out of range", "", node)
    return INT, _grid_span(walk.unit, node.value)


def _grid_span(unit: Unit, node: ast.Call) -> Span:
    return (0 if unit.meaning(node.func).path == "grid" else 1), None


# ---- calls -----------------------------------------------------------------------


def range_arguments(unit: Unit, node: ast.AST) -> list[ast.expr] | None:
    """Return the one to three arguments of range(); None for other nodes."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    is_range = unit.meaning(node.func) == KnownFunction("range")
    return node.args if is_range and 1 <= len(node.args) <= 3 else None


def infer_statement(walk: Any, node: ast.Call) -> None:
    """Infer the types of a call whose result is unused."""
    unit = walk.unit
    if unit.meaning(node.func) == KnownFunction("print"):
        _print(walk, node)
        return
    node.statement = True
    walk.expr(node)


def infer(walk: Any, node: ast.Call) -> tuple[Any, Span]:
    """Infer the type and range of a call."""
    unit = walk.unit
    meaning = unit.meaning(node.func)
    name = ast.unparse(node.func)
    if is_grid(unit, node):
        if count_dimensions(unit, node) != 1:
            unit.fail(f"{name} gives several numbers", f"x, y = {name}(2)", node)
        return INT, _grid_span(unit, node)
    if node.keywords:
        what, hint = "a keyword argument", "pass the arguments by position"
        unit.fail(f"{what} does not become CUDA C", hint, node.keywords[0].value)
    if isinstance(meaning, LanguageName):
        return type_call(walk, meaning.path, node)
    if isinstance(meaning, ScalarType):
        count(unit, node, 1)
        kind = walk.scalar(node.args[0])
        keep = kind.whole and meaning.kind == "i"
        span = walk.span(node.args[0]) if keep else ANY
        return meaning, (0, None) if meaning.kind == "u" else span
    if isinstance(meaning, KnownFunction):
        return _type_function(walk, meaning.name, node)
    function = getattr(meaning, "py_func", meaning)
    if isinstance(function, python_types.FunctionType):
        return _type_helper(walk, function, node)
    if meaning is UNKNOWN and isinstance(node.func, ast.Attribute):
        hint = "one thread handles one element: write the loop"
        unit.fail(f"{name}() works on a whole array or object", hint, node)
    hint = "kernels call functions with def, math.* and the language of weft.cuda"
    unit.fail(f"{name}() does not become CUDA C", hint, node)


def _type_function(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if name in ("min", "max"):
        if len(args) < 2:
            hint = f"write {name}(a, b) in a loop"
            unit.fail(f"{name}() of one array or list", hint, node)
        kinds = [walk.scalar(arg) for arg in args]
        kind = kinds[0]
        for other in kinds[1:]:
            kind = join(kind, other) or unit.fail("no common type", "convert", node)
        lows, tops = zip(*(walk.span(arg) for arg in args))
        if name == "min":
            known = [top for top in tops if top is not None]
            span = None if None in lows else min(lows), min(known, default=None)
        else:
            known = [low for low in lows if low is not None]
            span = max(known, default=None), None if None in tops else max(tops)
        return kind, span if kind.whole else ANY
    if name == "len":
        count(unit, node, 1)
        kind = walk.expr(args[0])
        if isinstance(kind, ArrayType) and kind.shape:
            return INT, (kind.shape[0],) * 2
        if unit.side(node):
            return INT, (0, None)
        array = ast.unparse(args[0])
        if not isinstance(kind, ArrayType):
            what = f"{array} is a number, not an array: it has no length"
            unit.fail(what, "look at the order of the arguments", node)
        what = f"len({array}) is not known in C"
        unit.fail(what, "pass the size as an argument", node)
    if name in ("range", "print", "divmod"):
        hints = {"range": "for i in range(n):", "print": "on a line of its own"}
        hint = hints.get(name, "q, r = divmod(a, b)")
        unit.fail(f"{name}() cannot be used here", hint, node)
    if name == "pow":
        count(unit, node, 2)
        node.whole = ast.copy_location(ast.BinOp(args[0], ast.Pow(), args[1]), node)
        return walk.expr(node.whole), walk.span(node.whole)
    if name.startswith(("math.", "np.")):
        return _type_math(walk, name, node)
    count(unit, node, 1)
    kind = walk.scalar(args[0])
    low, high = walk.span(args[0])
    if name == "abs":
        if kind.kind == "b":
            kind = INT
        return kind, (max(low or 0, 0), None) if kind.whole else ANY
    if name == "bool":
        return BOOL, (0, 1)
    if name == "float":
        return FLOAT, ANY
    wide = kind if kind.whole and kind.bits == 64 and not kind.weak else INT
    if name == "int" and kind == U32:
        wide = U32
    return wide, (low, high) if kind.whole else ANY


def _type_math(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, base = walk.unit, name.split(".")[1]
    kinds = [walk.scalar(arg) for arg in node.args]
    if base in ONE or base in TESTS or base in WHOLE:
        count(unit, node, 1)
    elif base in TWO:
        count(unit, node, 2)
    else:
        hint = (
            "available functions include sqrt, exp, log, sin, cos, tanh, pow and floor"
        )
        unit.fail(f"{ast.unparse(node.func)} does not become CUDA C", hint, node)
    if base in TESTS:
        return BOOL, (0, 1)
    if base in WHOLE and name.startswith("math."):
        return INT, walk.span(node.args[0]) if kinds[0].whole else ANY
    # As on the simulator, integer arguments do not affect the result's type.
    floats = [k for k in kinds if not k.whole]
    return functools.reduce(promote, floats, FLOAT), ANY


def _type_helper(walk: Any, function: Any, node: ast.Call) -> tuple[Any, Span]:
    unit = walk.unit
    kinds = [walk.expr(arg) for arg in node.args]
    name = function.__name__
    code = function.__code__
    if name == "<lambda>":
        unit.fail("a lambda does not become CUDA C", f"def {name[1:-1]}(x):", node)
    if code.co_argcount != len(kinds) or function.__defaults__:
        hint = "give a value for every parameter; defaults do not become CUDA C"
        what = f"takes {code.co_argcount} arguments, but {len(kinds)} are given"
        unit.fail(f"{name} {what}", hint, node)
    if any(function is u.function for u in _list_callers(unit)):
        unit.fail(f"{name} calls itself", "write a loop", node)
    callee = walk.program.helper(function, [_as_parameter(kind) for kind in kinds])
    unit.calls[node] = callee
    callee.callers.add(unit)
    for parameter, kind, arg in zip(callee.parameters, kinds, node.args):
        if isinstance(kind, ScalarType):
            low = walk.span(arg)[0]
            if callee.ranges[parameter] == (0, None) and (low is None or low < 0):
                callee.ranges[parameter] = ANY
                walk.changed()
        elif parameter in callee.written:
            note_write(walk, kind, arg)
    if callee.returns is None and not getattr(node, "statement", False):
        raise Unknown(node)
    return callee.returns, ANY


def _as_parameter(kind: Any) -> Any:
    """Return the type of a helper's parameter for an argument of this type."""
    if not isinstance(kind, ArrayType):
        return kind
    return replace(kind, space=kind.space if kind.shape else GLOBAL, root="")


def _list_callers(unit: Unit) -> set[Unit]:
    callers, todo = {unit}, [unit]
    while todo:
        for one in todo.pop().callers:
            if one not in callers:
                callers.add(one)
                todo.append(one)
    return callers


def _print(walk: Any, node: ast.Call) -> None:
    for arg in node.args:
        if isinstance(arg, ast.JoinedStr):
            for part in arg.values:
                if isinstance(part, ast.FormattedValue):
                    walk.scalar(part.value)
        elif not (isinstance(arg, ast.Constant) and isinstance(arg.value, str)):
            walk.scalar(arg)
    for word in node.keywords:
        text = isinstance(word.value, ast.Constant) and word.value.value
        if word.arg not in ("sep", "end") or not isinstance(text, str):
            what = f"print(..., {word.arg}=...) does not become CUDA C"
            walk.unit.fail(what, "only sep and end, as strings, do", word.value)
