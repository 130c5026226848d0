"""A kernel written as a Python function, and errors that all runners share.

The first functions explain unknown names and unsuitable arguments. All runners (sim,
numba_jit, cuda_c) use them, and therefore report the same messages. PythonKernel then
provides the kernel's source, the meaning of its names, and the errors for invalid
kernels and launches.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .. import cuda
from ..base.errors import ArgumentError
from ..toolchain.launch_config import LaunchConfig, parse
from .trees import list_written

VECTORS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
NUMBERS = ("laneid", "warpsize")
_CLASSES = ("shared", "local", "const", "atomic")
# Names of other libraries, in lower case without dots and underscores, and ours.
_ELSEWHERE = {
    **dict.fromkeys(("synchronize", "sync", "barrier", "wait"), "syncthreads"),
    **{"sharedzeros": "shared.array", "sharedempty": "shared.array"},
    **{"localzeros": "local.array", "localempty": "local.array"},
    **{"atomiccas": "atomic.cas", "ballot": "ballot_sync", "shfl": "shfl_sync"},
    **{"any": "any_sync", "all": "all_sync", "lane": "laneid"},
}
LISTED = "weft.cuda lists all names"


def explain_unknown(path: str) -> tuple[str, str]:
    """Return (problem, hint) for cuda.<path>, which is not valid as written.

    path: a wrong name such as "threadidx.x" or "syncthread", or a valid name that is
        used wrongly, such as the function "syncthreads" as a number.
    """
    base, _, axis = path.partition(".")
    if path in VECTORS:
        return f"cuda.{path} is three numbers", f"write cuda.{path}.x (or .y, .z)"
    if base in VECTORS:
        return f"cuda.{base} has no {axis}", f"it has cuda.{base}.x, .y and .z"
    if path in list_names():
        return f"cuda.{path} does nothing until it is called", call(path)
    near = find_near_name(path)
    hint = f"did you mean cuda.{near}?" if near else LISTED
    if not near and callable(getattr(math, path, None)):
        hint = f"did you mean math.{path}?"
    return f"there is no cuda.{path}", hint


def find_near_name(name: str) -> str:
    """Return the most similar name in the language; "" if none is similar."""
    base, _, axis = name.partition(".")
    if axis and axis in "xyz":
        vectors = {_bare_name(one): one for one in VECTORS}
        matches = difflib.get_close_matches(_bare_name(base), vectors, 1, 0.6)
        return f"{vectors[matches[0]]}.{axis}" if matches else ""
    bare = _bare_name(name)
    known = {_bare_name(one): one for one in list_names()} | _ELSEWHERE
    matches = difflib.get_close_matches(bare, known, 1, 0.75)
    return known[matches[0]] if matches else ""


def without_cuda(name: str) -> str:
    """Return `name` if it lacks only the prefix cuda., as "threadIdx" does; else ""."""
    known = (*VECTORS, *NUMBERS, *_CLASSES, *list_names())
    return name if name in known else ""


def call(path: str) -> str:
    """Return advice on the use of a name, such as "write cuda.popc(x)".

    For a number such as cuda.laneid, it is "write cuda.laneid, without parentheses".
    """
    function = functools.reduce(getattr, path.split("."), cuda)
    if not callable(function):
        return f"write cuda.{path}, without parentheses"
    arguments = ", ".join(inspect.signature(function).parameters)
    return f"write cuda.{path}({arguments})"


def _bare_name(name: str) -> str:
    return name.replace(".", "").replace("_", "").lower()


@functools.cache
def list_names() -> tuple[str, ...]:
    """List all names that may follow `cuda.` in a kernel."""
    listed = [f"{vector}.{axis}" for vector in VECTORS for axis in "xyz"]
    listed += NUMBERS
    for name, value in vars(cuda).items():
        if name in _CLASSES:
            listed += [f"{name}.{one}" for one in vars(value) if one[0] != "_"]
        elif hasattr(value, "__wrapped__"):  # a function of the kernel language
            listed.append(name)
    return tuple(listed)


_LISTS = (list, set, frozenset, range, bytearray)
_VALUES = "pass an array, a tensor, a number or a tuple of numbers"
_INT = "pass a whole number of at most 64 bits"
_NUMBERS = "pass float32, int32 or the like"
_TUPLE = "a tuple may contain only numbers; pass arrays one by one"


def explain_unfit(value: Any, name: str = "x") -> str:
    """Return why no kernel accepts this value for parameter `name`, or "".

    The text completes a sentence that begins with the name: "is a list, which ...".
    """
    if isinstance(value, torch.Tensor):
        return _explain_tensor(value, name)
    if isinstance(value, np.ndarray):
        return _explain_array(value, name)
    if isinstance(value, (bool, np.bool_, np.void)):
        return ""
    if isinstance(value, (int, np.integer)):
        limit = 2**64 if isinstance(value, np.uint64) else 2**63
        return "" if -(2**63) <= value < limit else f"= {value}: {_INT}"
    if isinstance(value, (np.longdouble, np.clongdouble)):
        return f"is a {type(value).__name__}, which no GPU has: pass float({name})"
    if isinstance(value, (float, complex, np.number)):
        return ""
    if isinstance(value, tuple):
        for other in value:
            if not isinstance(other, (numbers.Number, tuple)):
                kind = _describe_kind(other)
                return f"contains {kind}: {_TUPLE}"
        return ""
    if isinstance(value, _LISTS):
        return (
            f"is {_describe_kind(value)}, which a kernel cannot read: pass "
            f"np.array({name}), and look at that array after the launch"
        )
    protocols = ("__cuda_array_interface__", "__array_interface__", "__dlpack__")
    if isinstance(value, type) or not any(hasattr(value, one) for one in protocols):
        return f"is {_describe_kind(value)}: {_VALUES}"
    return ""  # each runner converts the value to an array, and checks the array


def refuse_unfit(kernel: str, name: str, value: Any) -> None:
    """Raise ArgumentError if no kernel accepts this value for parameter `name`."""
    if why := explain_unfit(value, name):
        raise ArgumentError(f"{kernel}: {name} {why}")


def refuse(
    kernel: str, named: dict[str, Any], written: Callable[[], Sequence[str]]
) -> None:
    """Raise ArgumentError for the first argument that no runner accepts.

    named: the arguments by parameter name.
    written: a function that returns the names of the arrays that the kernel writes to.
        It is called only if an array is read-only.
    """
    for name, value in named.items():
        refuse_unfit(kernel, name, value)
        read_only = isinstance(value, np.ndarray) and not value.flags.writeable
        if read_only and name in written():
            raise ArgumentError(
                f"{kernel}: {name} is read-only, but {kernel} writes into it: pass "
                f"{name}.copy()"
            )


def _explain_array(array: np.ndarray, name: str) -> str:
    dtype = array.dtype
    if isinstance(array, np.ma.MaskedArray):
        return (
            f"is a masked array, whose mask no kernel sees: pass {name}.data, or "
            f"{name}.filled(...)"
        )
    if dtype.hasobject:
        return f"contains Python objects, which no kernel can read: {_NUMBERS}"
    wide = dtype in (np.longdouble, np.clongdouble)
    if dtype.kind not in "biufcV" or (wide and dtype.itemsize > 8):
        return f"contains {dtype}, which no kernel can read: {_NUMBERS}"
    if not dtype.isnative:
        return (
            f"contains {dtype}, numbers in the byte order of other machines: pass "
            f"{name}.astype(np.{dtype.name})"
        )
    return "" if array.ndim else _explain_no_dimensions(name)


def _explain_tensor(tensor: torch.Tensor, name: str) -> str:
    if tensor.layout != torch.strided:
        return f"is a {tensor.layout} tensor: pass its .to_dense()"
    if tensor.requires_grad:
        return (
            "requires a gradient, which would ignore a kernel's writes: pass its "
            ".detach()"
        )
    if tensor.is_conj() or tensor.is_neg():
        return "has a lazy .conj() or negation: pass .resolve_conj() or .resolve_neg()"
    if tensor.device.type not in ("cpu", "cuda"):
        return f"is on {tensor.device}: pass a tensor on the CPU or CUDA"
    if not hasattr(np, kind := str(tensor.dtype)[6:]):
        return f"contains {kind}, which no Python kernel can read: pass {name}.float()"
    return "" if tensor.ndim else _explain_no_dimensions(name)


def _explain_no_dimensions(name: str) -> str:
    return (
        f"has no dimensions: pass {name}.reshape(1) for an array of one element, or "
        f"{name}.item() for the number"
    )


def _describe_kind(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


@dataclass(frozen=True)
class FunctionSource:
    """A function's text, as written in its file or cell.

    first: number of the function's first line.
    text: its lines.
    tree: the syntax tree of the definition, with the file's line numbers and columns.
    """

    file: str
    first: int
    text: str
    tree: ast.FunctionDef

    def line(self, number: int) -> str:
        """Return a line of the file by its number; "" outside the function."""
        lines = self.text.splitlines()
        at = number - self.first
        return lines[at] if 0 <= at < len(lines) else ""


class PythonKernel:
    """A kernel as a plain function: its name, its parameters and its source.

    function: a Python function, or the result of Numba's @cuda.jit. Other values raise
        ArgumentError, and so does a parameter that is not a plain name.
    """

    def __init__(self, function: Any) -> None:
        self.function = plain_function(function)
        self.name = self.__name__ = self.function.__name__
        self.parameters = _list_parameters(self.function)

    @functools.cached_property
    def source(self) -> FunctionSource:
        """The kernel's source. Raises ArgumentError if there is none."""
        return source_of(self.function)

    def config(self, key: Any) -> LaunchConfig:
        """Parse the launch configuration, in Numba's order.

        The order is [grid, block, stream, bytes of shared memory]. The last two are
        optional. Stream 0, Numba's default, stands for torch's current stream.
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
        """Return the arguments by parameter; raise ArgumentError for an unsuitable one.

        named: arguments passed by keyword. Any such argument raises ArgumentError, too.
        """
        if named:
            order = ", ".join(self.parameters)
            raise ArgumentError(
                f"{self.name}: {next(iter(named))}= is a keyword: a launch takes its "
                f"arguments in their order, {self.name}[grid, block]({order})"
            )
        arguments = self.bind(args)
        refuse(self.name, arguments, self._written)
        return arguments

    def _written(self) -> list[str]:
        try:
            return list_written(self.source.tree)
        except ArgumentError:  # without its source, the kernel's writes are unknown
            return []

    def bind(self, args: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments by parameter; raise ArgumentError for a wrong count."""
        if len(args) != len(self.parameters):
            takes = ", ".join(self.parameters) or "none"
            raise ArgumentError(
                f"{self.name} takes {len(self.parameters)} arguments ({takes}), but "
                f"{len(args)} are given"
            )
        return dict(zip(self.parameters, args))

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)})>"


def plain_function(value: Any) -> types.FunctionType:
    """Return the Python function of a kernel, or of Numba's wrapper.

    Other values, such as a lambda, a class or a built-in function, raise ArgumentError.
    """
    # An object of Numba's @cuda.jit has the function as its py_func.
    function = getattr(value, "py_func", value)
    if isinstance(value, PythonKernel):
        function = value.function
    if not isinstance(function, types.FunctionType):
        kind = type(value).__name__
        raise ArgumentError(
            f"a kernel is a Python function: {value!r} is of type {kind}"
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
    """Return a function's text and tree; raise ArgumentError if it has no source."""
    name = function.__name__
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise ArgumentError(
            f"{name} has no source to read: define it in a cell or in a file"
        ) from None
    text = "".join(lines)
    indented = text[:1].isspace()
    # An indented function can be parsed below an `if`, with its columns unchanged.
    tree = ast.parse(f"if 1:\n{text}" if indented else text)
    ast.increment_lineno(tree, first - 1 - indented)
    body = tree.body[0].body if indented else tree.body  # type: ignore[attr-defined]
    if not isinstance(body[0], ast.FunctionDef):
        raise ArgumentError(f"{name} is not written with def")
    return FunctionSource(inspect.getsourcefile(function) or "", first, text, body[0])


def value_of(function: types.FunctionType, name: str) -> Any:
    """Return the current value of a nonlocal name; raise LookupError if it has none."""
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


def _list_parameters(function: types.FunctionType) -> tuple[str, ...]:
    parameters = inspect.signature(function).parameters.values()
    for one in parameters:
        if one.kind is not one.POSITIONAL_OR_KEYWORD or one.default is not one.empty:
            raise ArgumentError(
                f"{function.__name__}: the parameter {one} is not a plain name; a "
                f"kernel can have no other parameters"
            )
    return tuple(one.name for one in parameters)
