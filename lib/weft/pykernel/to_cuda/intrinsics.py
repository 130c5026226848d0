"""Types of what a kernel calls of the language: barriers, warps, atomics, bits."""

from __future__ import annotations

import ast
from typing import Any

from ..language import spelling
from . import meaning
from .types import BOOL, F64, FLOAT, INT, U32, Array, Scalar, note_write, promote
from .unit import ANY, Span, Unit, merge

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


def count(unit: Unit, node: ast.Call, *counts: int) -> None:
    if len(node.args) not in counts or any(
        isinstance(a, ast.Starred) for a in node.args
    ):
        wanted = " or ".join(map(str, counts))
        found = unit.meaning(node.func)
        language = (
            isinstance(found, meaning.Cuda) and found.path in spelling.list_names()
        )
        unit.fail(
            f"{ast.unparse(node.func)} takes {wanted} "
            f"argument{'s' * (counts[-1] != 1)} here, {len(node.args)} are given",
            spelling.call(found.path) if language else "count the arguments",
            node,
        )


def type_call(walk: Any, path: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if path in SYNC:
        wanted, kind = SYNC[path]
        count(unit, node, wanted)
        for arg in args:
            walk.scalar(arg)
        return kind, (0, None)
    if path == "syncwarp":
        count(unit, node, 0, 1)
        for arg in args:
            walk.whole(arg, "a mask")
        return None, ANY
    if path in SHUFFLES:
        count(unit, node, 3)
        kinds = [walk.scalar(arg) for arg in args]
        walk.whole(args[0], "a mask")
        walk.whole(args[2], "a lane")
        return kinds[1], walk.span(args[1])
    if path in (*BITS, "brev"):
        count(unit, node, 1)
        kind = walk.whole(args[0], f"what {path} looks at")
        return (INT, (0, 64)) if path in BITS else (kind, ANY)
    if path in ("fma", "selp"):
        count(unit, node, 3)
        kinds = [walk.scalar(arg) for arg in args]
        kind = kinds[1]
        for other in kinds[2:] if path == "selp" else [kinds[0], kinds[2]]:
            kind = promote(kind, other) or F64
        if path == "fma" and kind.whole:
            kind = FLOAT
        both = merge(walk.span(args[1]), walk.span(args[2]))
        return kind, both if path == "selp" else ANY
    if path == "cbrt":
        count(unit, node, 1)
        kind = walk.scalar(args[0])
        return (FLOAT if kind.whole else kind), ANY
    if path.startswith("atomic."):
        return _type_atomic(walk, path[7:], node)
    if path in ("shared.array", "local.array", "const.array_like"):
        what, hint = f"cuda.{path} stands alone on its line", f"name = cuda.{path}(...)"
    elif path in spelling.list_names():
        what, hint = f"cuda.{path}() does not become CUDA C", spelling.LISTED
    else:
        what, hint = spelling.explain_unknown(path)
    unit.fail(what, hint, node)


def _type_atomic(walk: Any, name: str, node: ast.Call) -> tuple[Any, Span]:
    unit, args = walk.unit, node.args
    if name == "compare_and_swap":
        count(unit, node, 3)
        index: list[ast.expr] = [ast.copy_location(ast.Constant(0), node)]
        values = args[1:]
    else:
        if name not in (*ATOMICS, "cas"):
            unit.fail(*spelling.explain_unknown(f"atomic.{name}"), node)
        count(unit, node, 4 if name == "cas" else 3)
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

    note_write(walk, kind, node)
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
