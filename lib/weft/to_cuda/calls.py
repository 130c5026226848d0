"""Types of what a kernel calls: the language, Python, math, its helpers."""

from __future__ import annotations

import ast
import types as python_types
from typing import Any

import numpy as np

from . import meaning
from .types import (
    BOOL,
    CONST,
    F64,
    FLOAT,
    INT,
    LOCAL,
    SHARED,
    U32,
    Array,
    Scalar,
    join,
    of_dtype,
    promote,
)
from .unit import ANY, Span, Unit, merge

AXES = "xyz"
_VECTORS: dict[str, Span] = {
    "threadIdx": (0, 1023),
    "blockIdx": (0, None),
    "blockDim": (1, 1024),
    "gridDim": (1, None),
}
# Functions of math with one float argument that C has under the same name, or not.
_ONE = """acos acosh asin asinh atan atanh cbrt cos cosh erf erfc exp exp2 expm1 fabs
    lgamma log log10 log1p log2 sin sinh sqrt tan tanh"""
_TWO = "atan2 copysign fmod hypot pow remainder"
ONE = {name: name for name in _ONE.split()} | {"gamma": "tgamma"}
TWO = {name: name for name in _TWO.split()}
TESTS = ("isnan", "isinf", "isfinite")
WHOLE = ("floor", "ceil", "trunc")
# Of the warp and the block: arguments after which the result's type is known.
SYNC = {
    "syncthreads": (0, None),
    "syncthreads_count": (1, INT),
    "syncthreads_and": (1, INT),
    "syncthreads_or": (1, INT),
    "threadfence": (0, None),
    "threadfence_block": (0, None),
    "threadfence_system": (0, None),
    "nanosleep": (1, None),
    "all_sync": (2, BOOL),
    "any_sync": (2, BOOL),
    "eq_sync": (2, BOOL),
    "ballot_sync": (2, U32),
    "match_any_sync": (2, U32),
    "activemask": (0, U32),
    "lanemask_lt": (0, U32),
}
SHUFFLES = ("shfl_sync", "shfl_up_sync", "shfl_down_sync", "shfl_xor_sync")
BITS = ("popc", "clz", "ffs")
ATOMICS = (
    *("add", "sub", "min", "max", "nanmin", "nanmax", "and_", "or_", "xor", "exch"),
    *("inc", "dec"),
)


def attribute(path: str) -> tuple[Scalar, Span] | None:
    """The type of a name of the language that is a number; None: it is none."""
    base, _, axis = path.partition(".")
    if base in _VECTORS and axis in AXES and axis:
        return INT, _VECTORS[base]
    if path == "laneid":
        return INT, (0, 31)
    return (INT, (32, 32)) if path == "warpsize" else None


# ---- the index of a thread in the grid ------------------------------------------


def is_grid(unit: Unit, node: ast.AST) -> bool:
    """Whether it is cuda.grid(...) or cuda.gridsize(...)."""
    return isinstance(node, ast.Call) and unit.meaning(node.func) in (
        meaning.Cuda("grid"),
        meaning.Cuda("gridsize"),
    )


def dimensions(unit: Unit, node: ast.Call) -> int:
    """The 1, 2 or 3 of grid() and gridsize()."""
    name = ast.unparse(node.func)
    args = [*node.args, *(k.value for k in node.keywords)]
    value = constant(unit, args[0]) if len(args) == 1 else None
    if value not in (1, 2, 3):
        unit.fail(f"{name}() wants the number 1, 2 or 3", f"write {name}(1)", node)
    return value


def grid_part(walk: Any, node: ast.Subscript) -> tuple[Scalar, Span]:
    """cuda.grid(2)[0]"""
    count, index = dimensions(walk.unit, node.value), node.slice
    wanted = getattr(node, "unpacked", count)
    if not isinstance(index, ast.Constant) or wanted != count or count == 1:
        names = "one number" if count == 1 else f"{count} numbers"
        walk.unit.fail(
            f"{ast.unparse(node.value)} gives {names}",
            "i = cuda.grid(1); x, y = cuda.grid(2)",
            node,
        )
    if not (isinstance(index.value, int) and 0 <= index.value < count):
        walk.unit.fail(f"{ast.unparse(node)} is out of range", "", node)
    return INT, _grid_span(walk.unit, node.value)


def _grid_span(unit: Unit, node: ast.Call) -> Span:
    return (0 if unit.meaning(node.func).path == "grid" else 1), None


# ---- arrays ----------------------------------------------------------------------


def declared(walk: Any, name: str, node: ast.AST) -> Array | None:
    """The array that an assignment to `name` makes or names; None: it makes none."""
    unit = walk.unit
    if isinstance(node, ast.Name) and not unit.meaning_is_number(node):
        kind = walk.expr(node)
        return kind if isinstance(kind, Array) and not kind.shape else _view(walk, node)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _slice(walk, node)
    if not isinstance(node, ast.Call):
        return None
    found = unit.meaning(node.func)
    if not isinstance(found, meaning.Cuda):
        return None
    if found.path in ("shared.array", "local.array"):
        return _array(walk, name, found.path, node)
    if found.path == "const.array_like":
        return _constant_array(walk, name, node)
    return None


def _view(walk: Any, node: ast.Name) -> Array | None:
    kind = walk.expr(node)
    if not isinstance(kind, Array):
        return None
    walk.unit.fail(
        f"{node.id} is an array with a name already", f"write {node.id}", node
    )


def _slice(walk: Any, node: ast.Subscript) -> Array:
    kind = walk.expr(node.value)
    part = node.slice
    if not isinstance(kind, Array) or kind.ndim != 1 or part.step is not None:
        walk.unit.fail(
            f"{ast.unparse(node)} is a slice",
            "only x[start:] of a 1D array becomes a pointer; write a loop",
            node,
        )
    for bound in (part.lower, part.upper):
        if bound is not None:
            walk.whole(bound, "a slice's bound")
    return Array(kind.dtype, 1, kind.space, (), kind.root)


def _arguments(unit: Unit, node: ast.Call, names: tuple[str, ...]) -> list[ast.expr]:
    """Positional and keyword arguments in the order of `names`."""
    given = dict(zip(names, node.args))
    given |= {k.arg: k.value for k in node.keywords}
    if set(given) != set(names) or len(node.args) > len(names):
        unit.fail(
            f"{ast.unparse(node.func)} takes {', '.join(names)}",
            f"write {ast.unparse(node.func)}({', '.join(names)})",
            node,
        )
    return [given[name] for name in names]


def _array(walk: Any, name: str, path: str, node: ast.Call) -> Array:
    unit = walk.unit
    shape_node, dtype_node = _arguments(unit, node, ("shape", "dtype"))
    dtype = _dtype(unit, dtype_node)
    shape = shape_of(unit, shape_node)
    _walked(walk, shape_node)
    space = SHARED if path == "shared.array" else LOCAL
    if shape == (0,) and space == SHARED:
        return Array(dtype, 1, SHARED, (), name)
    if any(side < 1 for side in shape):
        unit.fail(
            f"an array of shape {shape} is empty",
            "sides are at least 1; shared memory of shape 0 is dynamic",
            shape_node,
        )
    return Array(dtype, len(shape), space, shape, name)


def shape_of(unit: Unit, node: ast.AST) -> tuple[int, ...]:
    """A shape that stands in the source; the numbers of it."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    values = [constant(unit, part) for part in parts]
    if len(values) == 1 and isinstance(values[0], tuple):
        values = list(values[0])
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            unit.fail(
                f"the shape {ast.unparse(node)} is not constant",
                "use numbers and globals, or dynamic shared memory: shape 0",
                node,
            )
    return tuple(int(value) for value in values)


def _walked(walk: Any, node: ast.AST) -> None:
    """Find the types in a shape, so that it can be written with its names."""
    for part in node.elts if isinstance(node, ast.Tuple) else [node]:
        if not isinstance(walk.unit.meaning(part), tuple):
            walk.scalar(part)


def constant(unit: Unit, node: ast.AST) -> Any:
    """The value of an expression of numbers and globals; None: it has no such."""
    names = {}
    for one in ast.walk(node):
        if isinstance(one, ast.Call):
            return None
        if isinstance(one, ast.Name):
            if unit.is_local(one.id):
                return None
            found = unit.meaning(one)
            if isinstance(found, meaning.Cuda):
                return 32 if meaning.dotted(node).endswith("warpsize") else None
            names[one.id] = found
    try:
        return eval(  # the reader's own expression, of the reader's own globals
            compile(ast.Expression(node), "constant", "eval"),
            {"__builtins__": {}},
            names,
        )
    except Exception:
        return None


def _dtype(unit: Unit, node: ast.AST) -> Scalar:
    found = node.value if isinstance(node, ast.Constant) else unit.meaning(node)
    kind = found if isinstance(found, Scalar) else None
    if kind is None and isinstance(found, (str, np.dtype)):
        kind = of_dtype(found)
    if kind is None and isinstance(found, meaning.Function):
        kind = {"int": of_dtype("int64"), "float": F64}.get(found.name)
    if kind is None:
        unit.fail(
            f"{ast.unparse(node)} is no type of an array",
            "use float32, int32 ...",
            node,
        )
    return kind


def _constant_array(walk: Any, name: str, node: ast.Call) -> Array:
    unit = walk.unit
    value = unit.meaning(node.args[0]) if len(node.args) == 1 else None
    dtype = of_dtype(value.dtype) if isinstance(value, np.ndarray) else None
    if dtype is None or value.size == 0:
        unit.fail(
            "const.array_like wants one NumPy array from outside of the kernel",
            "TABLE = np.array(...) above the kernel",
            node,
        )
    return Array(dtype, value.ndim, CONST, value.shape, name)


# ---- calls -----------------------------------------------------------------------


def range_arguments(unit: Unit, node: ast.AST) -> list[ast.expr] | None:
    """The one to three arguments of range(); None: it is no range()."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if unit.meaning(node.func) != meaning.Function("range"):
        return None
    return node.args if 1 <= len(node.args) <= 3 else None


def infer_statement(walk: Any, node: ast.Call) -> None:
    """A call whose result nobody wants."""
    unit = walk.unit
    if unit.meaning(node.func) == meaning.Function("print"):
        _print(walk, node)
        return
    node.statement = True
    walk.expr(node)


def infer(walk: Any, node: ast.Call) -> tuple[Any, Span]:
    """The type of a call."""
    unit = walk.unit
    found = unit.meaning(node.func)
    name = ast.unparse(node.func)
    if isinstance(found, meaning.Cuda):
        if is_grid(unit, node):
            if dimensions(unit, node) != 1:
                unit.fail(f"{name} gives several numbers", f"x, y = {name}(2)", node)
            return INT, _grid_span(unit, node)
        _no_keywords(unit, node)
        return _cuda(walk, found.path, node)
    _no_keywords(unit, node)
    if isinstance(found, Scalar):
        _count(unit, node, 1)
        kind = walk.scalar(node.args[0])
        keep = kind.whole and found.kind == "i"
        span = walk.span(node.args[0]) if keep else ANY
        return found, (0, None) if found.kind == "u" else span
    if isinstance(found, meaning.Function):
        return _function(walk, found.name, node)
    function = getattr(found, "py_func", found)
    if isinstance(function, python_types.FunctionType):
        return _helper(walk, function, node)
    if found is meaning.UNKNOWN and isinstance(node.func, ast.Attribute):
        unit.fail(
            f"{name}() works on a whole array or object",
            "one thread does one element: write the loop",
            node,
        )
    unit.fail(
        f"{name}() does not become CUDA C",
        "kernels call functions with def, math.* and the language of weft.cuda",
        node,
    )


def _no_keywords(unit: Unit, node: ast.Call) -> None:
    if node.keywords:
        unit.fail(
            "a keyword argument does not become CUDA C",
            "pass the arguments by their place",
            node.keywords[0].value,
        )


def _count(unit: Unit, node: ast.Call, *counts: int) -> None:
    if len(node.args) not in counts or any(
        isinstance(a, ast.Starred) for a in node.args
    ):
        wanted = " or ".join(map(str, counts))
        unit.fail(
            f"{ast.unparse(node.func)} takes {wanted} "
            f"argument{'s' * (counts[-1] != 1)} here, {len(node.args)} are given",
            "count the arguments",
            node,
        )


def _function(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if name in ("min", "max"):
        if len(args) < 2:
            unit.fail(
                f"{name}() of one array or list", f"write {name}(a, b) in a loop", node
            )
        kinds = [walk.scalar(arg) for arg in args]
        kind = kinds[0]
        for other in kinds[1:]:
            kind = join(kind, other) or unit.fail("no common type", "convert", node)
        spans = [walk.span(arg) for arg in args]
        choose = min if name == "min" else max
        ends = []
        for bounds in zip(*spans):
            low = bounds is not None and None not in bounds
            ends.append(choose(bounds) if low else None)
        known = [s[0] for s in spans if s[0] is not None]
        tops = [s[1] for s in spans if s[1] is not None]
        if name == "max" and known:
            ends[0] = max(known)
        if name == "min" and tops:
            ends[1] = min(tops)
        return kind, (ends[0], ends[1]) if kind.whole else ANY
    if name == "len":
        _count(unit, node, 1)
        kind = walk.expr(args[0])
        if isinstance(kind, Array) and kind.shape:
            return INT, (kind.shape[0],) * 2
        if unit.side(node):
            return INT, (0, None)
        unit.fail(
            f"len({ast.unparse(args[0])}) is not known in C",
            "pass the size as an argument",
            node,
        )
    if name in ("range", "print", "divmod"):
        hint = {"range": "for i in range(n):", "print": "on a line of its own"}
        unit.fail(
            f"{name}() has no place here", hint.get(name, "q, r = divmod(a, b)"), node
        )
    if name == "pow":
        _count(unit, node, 2)
        node.whole = ast.copy_location(ast.BinOp(args[0], ast.Pow(), args[1]), node)
        return walk.expr(node.whole), walk.span(node.whole)
    if name.startswith(("math.", "np.")):
        return _math(walk, name, node)
    _count(unit, node, 1)
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


def _math(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, base = walk.unit, name.split(".")[1]
    kinds = [walk.scalar(arg) for arg in node.args]
    if base in ONE or base in TESTS or base in WHOLE:
        _count(unit, node, 1)
    elif base in TWO:
        _count(unit, node, 2)
    else:
        unit.fail(
            f"{ast.unparse(node.func)} does not become CUDA C",
            "of math there are sqrt, exp, log, sin, cos, tanh, pow, floor, ...",
            node,
        )
    if base in TESTS:
        return BOOL, (0, 1)
    if base in WHOLE and name.startswith("math."):
        return INT, walk.span(node.args[0]) if kinds[0].whole else ANY
    # As the simulator: of the floats' own type, whatever whole numbers are there.
    floats = [k for k in kinds if not k.whole and not k.weak]
    kind = FLOAT
    for other in floats:
        kind = promote(kind, other) or F64
    return kind, ANY


def _helper(walk: Any, function: Any, node: ast.Call) -> tuple[Any, Span]:
    unit = walk.unit
    kinds = [walk.expr(arg) for arg in node.args]
    name = function.__name__
    code = function.__code__
    if name == "<lambda>":
        unit.fail("a lambda does not become CUDA C", f"def {name[1:-1]}(x):", node)
    if code.co_argcount != len(kinds) or function.__defaults__:
        unit.fail(
            f"{name} takes {code.co_argcount} arguments, {len(kinds)} are given",
            "give a value for every parameter; defaults do not become CUDA C",
            node,
        )
    if any(function is u.function for u in _callers(unit)):
        unit.fail(f"{name} calls itself", "write a loop", node)
    spelled = [
        Array(k.dtype, k.ndim, k.space if k.shape else "global", k.shape, "")
        if isinstance(k, Array)
        else k
        for k in kinds
    ]
    called = walk.program.helper(unit, function, spelled, node)
    unit.calls[node] = called
    called.callers.add(unit)
    for parameter, kind, arg in zip(called.parameters, kinds, node.args):
        if isinstance(kind, Scalar):
            low = walk.span(arg)[0]
            if called.ranges[parameter] == (0, None) and (low is None or low < 0):
                called.ranges[parameter] = ANY
                walk.changed()
        elif parameter in called.written:
            from .statements import wrote

            wrote(walk, kind, arg)
    if called.returns is None and not getattr(node, "statement", False):
        from .infer import Unknown

        raise Unknown(node)
    return called.returns, ANY


def _callers(unit: Unit) -> set[Unit]:
    found, todo = {unit}, [unit]
    while todo:
        for one in todo.pop().callers:
            if one not in found:
                found.add(one)
                todo.append(one)
    return found


def _cuda(walk: Any, path: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if path in SYNC:
        count, kind = SYNC[path]
        _count(unit, node, count)
        for arg in args:
            walk.scalar(arg)
        return kind, (0, None)
    if path == "syncwarp":
        _count(unit, node, 0, 1)
        for arg in args:
            walk.whole(arg, "a mask")
        return None, ANY
    if path in SHUFFLES:
        _count(unit, node, 3)
        kinds = [walk.scalar(arg) for arg in args]
        walk.whole(args[0], "a mask")
        walk.whole(args[2], "a lane")
        return kinds[1], walk.span(args[1])
    if path in (*BITS, "brev"):
        _count(unit, node, 1)
        kind = walk.whole(args[0], f"what {path} looks at")
        return (INT, (0, 64)) if path in BITS else (kind, ANY)
    if path in ("fma", "selp"):
        _count(unit, node, 3)
        kinds = [walk.scalar(arg) for arg in args]
        kind = kinds[1]
        for other in kinds[2:] if path == "selp" else [kinds[0], kinds[2]]:
            kind = promote(kind, other) or F64
        if path == "fma" and kind.whole:
            kind = FLOAT
        both = merge(walk.span(args[1]), walk.span(args[2]))
        return kind, both if path == "selp" else ANY
    if path == "cbrt":
        return _math(walk, "math.cbrt", node)
    if path.startswith("atomic."):
        return _atomic(walk, path[7:], node)
    unit.fail(
        f"cuda.{path}() does not become CUDA C"
        if path not in ("shared.array", "local.array", "const.array_like")
        else f"cuda.{path} stands alone on its line",
        "weft.cuda lists what there is"
        if "array" not in path
        else f"name = cuda.{path}(...)",
        node,
    )


def _atomic(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if name == "compare_and_swap":
        _count(unit, node, 3)
        index: list[ast.expr] = [ast.copy_location(ast.Constant(0), node)]
        values = args[1:]
    else:
        if name not in (*ATOMICS, "cas"):
            unit.fail(
                f"cuda.atomic has no {name}", "weft.cuda lists what there is", node
            )
        _count(unit, node, 4 if name == "cas" else 3)
        index = args[1].elts if isinstance(args[1], ast.Tuple) else [args[1]]
        values = args[2:]
    kind = walk.expr(args[0])
    if not isinstance(kind, Array):
        unit.fail(
            f"{ast.unparse(args[0])} is no array", f"cuda.atomic.{name}(x, i, v)", node
        )
    if index is not getattr(node, "index", None):
        node.index = index
    walk.indices(kind, index, node)
    for value in values:
        walk.scalar(value)
    from .statements import wrote

    wrote(walk, kind, node)
    _atomic_exists(unit, name, kind.dtype, node)
    return kind.dtype, (0, None) if kind.dtype.kind == "u" else ANY


def _atomic_exists(unit: Unit, name: str, kind: Scalar, node: ast.AST) -> None:
    if name in ("and_", "or_", "xor", "inc", "dec", "cas", "compare_and_swap"):
        possible = kind.kind in "iu" and kind.bits >= 32
        if name in ("inc", "dec"):
            possible = kind == U32
    else:
        possible = kind.bits >= 32
    if not possible:
        types = "uint32" if name in ("inc", "dec") else "int32, int64 and unsigned ones"
        floats = name in ("add", "sub", "min", "max", "nanmin", "nanmax", "exch")
        unit.fail(
            f"cuda.atomic.{name} of {kind}: CUDA has none",
            f"it is there for {types}{' and float32, float64' if floats else ''}",
            node,
        )


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
            walk.unit.fail(
                f"print(..., {word.arg}=...) does not become CUDA C",
                "sep and end as strings do",
                word.value,
            )
