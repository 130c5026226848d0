"""Messages for what no runner accepts: unknown names, and arguments.

What was probably meant by a name that the language of a kernel does not have.

What no runner of a Python kernel takes as an argument, said in the same words.
"""

from __future__ import annotations

import ast
import difflib
import functools
import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ... import cuda
from ...base.errors import ArgumentError

VECTORS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
NUMBERS = ("laneid", "warpsize")
_CLASSES = ("shared", "local", "const", "atomic")
# Names from elsewhere, without dots, underscores and capitals.
_ELSEWHERE = {
    **dict.fromkeys(("synchronize", "sync", "barrier", "wait"), "syncthreads"),
    **{"sharedzeros": "shared.array", "sharedempty": "shared.array"},
    **{"localzeros": "local.array", "localempty": "local.array"},
    **{"atomiccas": "atomic.cas", "ballot": "ballot_sync", "shfl": "shfl_sync"},
    **{"any": "any_sync", "all": "all_sync", "lane": "laneid"},
}
LISTED = "weft.cuda lists what there is"


def explain_unknown(path: str) -> tuple[str, str]:
    """(what is wrong, a hint) for cuda.<path>, which is nothing as it stands.

    path: "threadidx.x", "syncthread", or "syncthreads" where a number should be.
    """
    base, _, axis = path.partition(".")
    if path in VECTORS:
        return f"cuda.{path} is three numbers", f"write cuda.{path}.x (or .y, .z)"
    if base in VECTORS:
        return f"cuda.{base} has no {axis}", f"it has cuda.{base}.x, .y and .z"
    if path in list_names():
        return f"cuda.{path} does nothing until it is called", call(path)
    meant = find_near_name(path)
    hint = f"did you mean cuda.{meant}?" if meant else LISTED
    if not meant and callable(getattr(math, path, None)):
        hint = f"did you mean math.{path}?"
    return f"there is no cuda.{path}", hint


def find_near_name(name: str) -> str:
    """The name of the language that `name` probably should be; "" if none is near."""
    base, _, axis = name.partition(".")
    if axis and axis in "xyz":
        vectors = {_bare_name(one): one for one in VECTORS}
        found = difflib.get_close_matches(_bare_name(base), vectors, 1, 0.6)
        return f"{vectors[found[0]]}.{axis}" if found else ""
    bare = _bare_name(name)
    known = {_bare_name(one): one for one in list_names()} | _ELSEWHERE
    found = difflib.get_close_matches(bare, known, 1, 0.75)
    return known[found[0]] if found else ""


def without_cuda(name: str) -> str:
    """The name of the language, "threadIdx", that stands without its cuda.; or ""."""
    return (
        name if name in (*VECTORS, *NUMBERS, *_CLASSES) or name in list_names() else ""
    )


def call(path: str) -> str:
    """How a function of the language is called: "write cuda.popc(x)"; how a number of
    it is read: "write cuda.laneid, without brackets"."""
    function = functools.reduce(getattr, path.split("."), cuda)
    if not callable(function):
        return f"write cuda.{path}, without brackets"
    arguments = ", ".join(inspect.signature(function).parameters)
    return f"write cuda.{path}({arguments})"


def _bare_name(name: str) -> str:
    return name.replace(".", "").replace("_", "").lower()


@functools.cache
def list_names() -> tuple[str, ...]:
    """Everything that a kernel may write after cuda."""
    found = [f"{vector}.{axis}" for vector in VECTORS for axis in "xyz"]
    found += NUMBERS
    for name, value in vars(cuda).items():
        if name in _CLASSES:
            found += [f"{name}.{one}" for one in vars(value) if one[0] != "_"]
        elif hasattr(value, "__wrapped__"):  # a function of kernels
            found.append(name)
    return tuple(found)


_LISTS = (list, set, frozenset, range, bytearray)
_WANTED = "want an array, a tensor, a number or a tuple of numbers"
_INT = "want a whole number of 64 bits"
_NUMBERS = "want float32, int32 or the like"


def explain_unfit(value: Any, name: str = "x") -> str:
    """Why no kernel takes this value for its parameter `name`; "" if one may.

    The end of a sentence that begins with the name: "is a list, which ...".
    """
    if isinstance(value, torch.Tensor):
        return _of_tensor(value, name)
    if isinstance(value, np.ndarray):
        return _of_array(value, name)
    if isinstance(value, (bool, np.bool_, np.void)):
        return ""
    if isinstance(value, (int, np.integer)):
        most = 2**64 if isinstance(value, np.uint64) else 2**63
        return "" if -(2**63) <= value < most else f"= {value}: {_INT}"
    if isinstance(value, (np.longdouble, np.clongdouble)):
        return f"is a {type(value).__name__}, which no GPU has: pass float({name})"
    if isinstance(value, (float, complex, np.number)):
        return ""
    if isinstance(value, tuple):
        other = [v for v in value if not isinstance(v, (numbers.Number, tuple))]
        kind = _describe_kind(other[0]) if other else ""
        only = f"holds {kind}: a tuple may hold numbers; pass arrays one by one"
        return only if other else ""
    if isinstance(value, _LISTS):
        return (
            f"is {_describe_kind(value)}, which a kernel cannot read: pass "
            f"np.array({name}) and "
            f"look at that array after the launch"
        )
    spoken = ("__cuda_array_interface__", "__array_interface__", "__dlpack__")
    if isinstance(value, type) or not any(hasattr(value, one) for one in spoken):
        return f"is {_describe_kind(value)}: {_WANTED}"
    return ""  # each runner looks at the array that it makes of it


def refuse(
    kernel: str, named: dict[str, Any], written: Callable[[], Sequence[str]]
) -> None:
    """Raise ArgumentError for the first argument that no runner takes.

    named: the arguments by parameter. written: gives the parameters into whose
    elements the kernel stores; asked only where an array is read-only.
    """
    for name, value in named.items():
        if why := explain_unfit(value, name):
            raise ArgumentError(f"{kernel}: {name} {why}")
        read_only = isinstance(value, np.ndarray) and not value.flags.writeable
        if read_only and name in written():
            raise ArgumentError(
                f"{kernel}: {name} is read-only, and {kernel} writes into it: pass "
                f"{name}.copy()"
            )


def list_written(tree: ast.FunctionDef) -> list[str]:
    """The names into whose elements a function stores, itself or by an atomic."""
    found = []
    for node in ast.walk(tree):
        target: Any = None
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            target = node.value
        elif isinstance(node, ast.Call) and "atomic." in ast.unparse(node.func):
            target = node.args[0] if node.args else None
        while isinstance(target, ast.Subscript):  # x[row][col]
            target = target.value
        if isinstance(target, ast.Name):
            found.append(target.id)
    return found


def _of_array(array: np.ndarray, name: str) -> str:
    dtype = array.dtype
    if isinstance(array, np.ma.MaskedArray):
        return (
            f"is a masked array, whose mask no kernel sees: pass {name}.data, or "
            f"{name}.filled(...)"
        )
    if dtype.hasobject:
        return f"holds Python objects, which no kernel reads: {_NUMBERS}"
    wide = dtype in (np.longdouble, np.clongdouble)
    if dtype.kind not in "biufcV" or (wide and dtype.itemsize > 8):
        return f"holds {dtype}, which no kernel reads: {_NUMBERS}"
    if not dtype.isnative:
        return (
            f"holds {dtype}, numbers in the byte order of other machines: pass "
            f"{name}.astype(np.{dtype.name})"
        )
    return "" if array.ndim else _flatten_targets(name)


def _of_tensor(tensor: torch.Tensor, name: str) -> str:
    if tensor.layout != torch.strided:
        return f"is a {tensor.layout} tensor: want .to_dense()"
    if tensor.requires_grad:
        return (
            "requires a gradient, which would not see what a kernel writes: pass its "
            ".detach()"
        )
    if tensor.is_conj() or tensor.is_neg():
        return "is only to be negated or conjugated: .resolve_conj()"
    if tensor.device.type not in ("cpu", "cuda"):
        return f"is on {tensor.device}: want the CPU or CUDA"
    if not hasattr(np, kind := str(tensor.dtype)[6:]):
        return f"holds {kind}, which no Python kernel reads: want {name}.float()"
    return "" if tensor.ndim else _flatten_targets(name)


def _flatten_targets(name: str) -> str:
    return (
        f"has no dimensions: pass {name}.reshape(1) for an array of one element, or "
        f"{name}.item() for the number"
    )


def _describe_kind(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
