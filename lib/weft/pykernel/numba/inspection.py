"""Numba's types and PTX for a kernel, and its errors as one sentence.

The module explains errors of Numba's compiler, and names the line of the user's source.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from ...base.errors import ArgumentError, KernelError
from ...cells.gpu import driver
from ..language import PythonKernel
from . import arguments, meaning
from .meaning import KernelPart


def compile_ptx(
    kernel: PythonKernel, args: Sequence[Any], cc: tuple[int, int], lines: bool = False
) -> str:
    """Return the PTX for arguments like `args`, for the compute capability `cc`.

    lines: whether to include the lines of the Python source. The instructions do not
        depend on it.

    Raises ArgumentError if Numba does not accept the kernel, and KernelError if Numba
    or NVVM is missing.
    """

    def compiled(cuda: Any, function: Any, types: tuple[Any, ...]) -> str:
        return cuda.compile_ptx(function, types, cc=cc, lineinfo=lines)[0]

    return _read(kernel, args, cc, compiled)


def infer_types(kernel: PythonKernel, args: Sequence[Any]) -> dict[str, str]:
    """Return the type of each of the kernel's names, for arguments like `args`.

    The names are in the order of the text: {"c": "float32[1D]", "acc": "float32", ...}.
    The entry of a name that changes its type lists both types: "int64, float64". Raises
    the errors of compile_ptx().
    """
    cc = (8, 0)

    def typed(cuda: Any, function: Any, types: tuple[Any, ...]) -> Any:
        compiler = importlib.import_module("numba.cuda.compiler")
        none = importlib.import_module("numba").void
        return compiler.compile_cuda(function, none, types, cc=cc).type_annotation

    typemap = _read(kernel, args, cc, typed).typemap
    kinds_of: dict[str, dict[str, None]]
    kinds_of = {name: {} for name in kernel.function.__code__.co_varnames}
    for name, kind in typemap.items():  # Numba renames later assignments to a: a.1, a.2
        if (base := name.partition(".")[0]) in kinds_of:
            kinds_of[base][_name_type(kind)] = None
    return {name: ", ".join(kinds) for name, kinds in kinds_of.items() if kinds}


def numba_types(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return Numba's type of each argument that check_arguments() returned."""
    import numba

    return tuple(_type_of(numba, value) for value in values)


def _name_type(kind: Any) -> str:
    """Return a type's name for messages; a constant has the type of its value."""
    kind = getattr(kind, "literal_type", kind)
    if hasattr(kind, "dtype") and hasattr(kind, "ndim"):
        return f"{kind.dtype}[{kind.ndim}D]"
    return str(kind)


def _read(
    kernel: PythonKernel,
    args: Sequence[Any],
    cc: tuple[int, int],
    look: Callable[[Any, Any, tuple[Any, ...]], Any],
) -> Any:
    """Return look(numba.cuda, kernel, argument types); raise explained errors."""
    part = meaning.read(kernel.function)
    checked = arguments.check_arguments(kernel.name, kernel.given(args))
    try:
        from numba import cuda
    except Exception as error:
        raise KernelError(f"Numba cannot be imported: {error}") from None
    if "simulator" in cuda.jit.__module__:
        raise KernelError(
            "numba.cuda is Numba's simulator in this process and compiles nothing, "
            "since NUMBA_ENABLE_CUDASIM was set when it was imported"
        )
    function = meaning.build(part, cuda, cuda.jit(device=True))
    type_list = numba_types(checked)
    try:
        with _fix_capability(cc):
            return look(cuda, function, type_list)
    except Exception as error:
        raise explain(kernel.name, part, error) from None


def _type_of(numba: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        like = np.empty((0,) * value.dim(), str(value.dtype)[6:])
        layout = "C" if value.is_contiguous() else "A"
        return numba.typeof(like).copy(layout=layout)
    return numba.typeof(value)


@contextlib.contextmanager
def _fix_capability(cc: tuple[int, int]) -> Iterator[None]:
    """Provide the compute capability that Numba, for helpers, would read from a GPU."""
    if torch.cuda.is_available():
        yield
        return
    dispatcher = importlib.import_module("numba.cuda.dispatcher")
    real = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=cc)
    try:
        yield
    finally:
        dispatcher.get_current_device = real


_NOISE = re.compile(
    r"^(Failed in|During:|File \"|There (is|are) \d+ candidate|- Of which|>>>|raised "
    r"from|Enable logging|This error may have|<source elided>|\^|With argument)"
)

# ptxas's message; the pattern matches it with each of Numba's linkers.
_TOO_MUCH_SHARED = re.compile(
    r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max"
)
# Plain words for Numba's messages that are hard to understand.
_PLAIN = {
    "insert_unresolved_ref": "it does not support this kind of recursive function",
    "return_dynamic_user_exc": "an exception in a kernel takes only constants",
    "must have void return type": "a kernel returns nothing: it writes into an array",
}


def explain(kernel: str, part: KernelPart, error: BaseException) -> Exception:
    """Return an exception that explains why compiling or launching a kernel failed.

    It is an ArgumentError if Numba does not accept the kernel. Errors of the driver
    become DeviceLost, OutOfMemory or KernelError.
    """
    if isinstance(error, KernelError):
        return error
    if match := _TOO_MUCH_SHARED.search(str(error)):
        need, limit = (int(number, 16) for number in match.groups())
        return KernelError(
            f"{kernel}: its shared arrays need {need} bytes, but a block has {limit} "
            f"for arrays of a fixed shape"
        )
    if status := _find_status(error):
        try:
            driver.check(status, f"launching {kernel}")
        except KernelError as failure:
            return failure
    if not _is_compilers(error):
        kind = type(error).__name__
        return KernelError(f"{kernel}: {kind}: {_message_sentence(error)}")
    where = _describe_place(part, error)
    return ArgumentError(f"{kernel}{where}: Numba: {_message_sentence(error)}")


# Messages of the driver, nvJitLink and ptxas about PTX from a newer CUDA.
_TOO_NEW = re.compile(
    r"UNSUPPORTED_PTX_VERSION|unsupported \.version|PTX was compiled", re.I
)


def is_ptx_too_new(error: BaseException) -> bool:
    """Return whether a driver rejected PTX because a newer CUDA generated it."""
    one: BaseException | None = error
    while one is not None:
        code = getattr(one, "code", None)
        if getattr(code, "value", code) == 222 or _TOO_NEW.search(str(one)):
            return True
        one = one.__cause__ or one.__context__
    return False


def _is_compilers(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"NumbaError", "UnsupportedBytecodeError"}:
        return True
    # Numba's compiler does not catch Python's errors about a name or a type.
    return isinstance(error, (AttributeError, NotImplementedError, TypeError))


def _message_sentence(error: BaseException) -> str:
    """Return, as a sentence, the line of Numba's message that describes the problem."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    for part, plain in _PLAIN.items():
        if part in text:
            return plain
    lines = [line.strip() for line in text.splitlines()]
    messages = [line for line in lines if line and not _NOISE.match(line)]
    if not messages:
        return type(error).__name__
    if messages[0].startswith("No implementation of function"):
        return _tidy_message(_no_implementation(messages[0], text))
    return _tidy_message(messages[0])


def _no_implementation(line: str, text: str) -> str:
    """Return a sentence about a missing operation, from Numba's candidates for it."""
    kind = r"Function\(<(?:built-in )?(?:function|class|ufunc)"
    match = re.search(rf"{kind} '?([\w.]+)", line)
    name = match[1] if match else ""
    call = re.search(r">>> \w+\((.*)\)", text)
    type_list = call[1] if call else ""
    why = re.findall(r"Numba(?:Type|Value)Error: (.+)", text)
    if name in ("getitem", "setitem"):
        if why:  # Numba tries values, then types: the last reason is about types
            return why[-1]
        what = "read by an index" if name == "getitem" else "stored in an element"
        return f"this cannot be {what}: {type_list}"
    if name in ("shared.array", "local.array"):
        return (
            f"an array's shape must be a constant (a number, or a global that is one) "
            f"and its dtype a type: array({type_list})"
        )
    if name in ("zeros", "empty", "ones", "full", "array"):
        return (
            "a kernel cannot create such arrays: pass one to it, or use "
            "cuda.shared.array or cuda.local.array"
        )
    return f"a kernel has no {name or 'function'}({type_list})"


def _tidy_message(text: str) -> str:
    text = re.sub(r"Literal\[\w+\]\((.*?)\)", r"\1", text)
    text = re.sub(r"array\((\w+), (\d)d, \w\)", r"\1[\2D]", text)
    text = re.sub(r"\.?\. Raised from .*$", "", text)
    return text.strip().rstrip(".")


# ---- places in the source -------------------------------------------------------


def _describe_place(part: KernelPart, error: BaseException) -> str:
    """Return `, line 12 (c[i] = x.foo)` for the innermost line of the user's source."""
    files = {one.function.__code__.co_filename for one in part.parts()}
    matches = re.findall(r'(?:File "| at )([^"\n]+?)"?,? (?:line |\()(\d+)', str(error))
    places = [(file, int(line)) for file, line in matches]
    places += [
        (str(getattr(loc, "filename", "")), getattr(loc, "line", 0) or 0)
        for loc in _walk_locations(error)
    ]
    for file, line in places:
        full = next((f for f in files if f == file or f.endswith(f"/{file}")), None)
        if line and full:
            source = linecache.getline(full, line).strip()
            return f", line {line} ({source})" if source else f", line {line}"
    return ""


def _walk_locations(error: BaseException) -> Iterator[Any]:
    """Yield Numba's Loc objects in an exception and in its traceback's frames."""
    visited: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in visited:
        visited.add(id(one))
        if type(loc := getattr(one, "loc", None)).__name__ == "Loc":
            yield loc
        frames = [frame for frame, _ in traceback.walk_tb(one.__traceback__)]
        for frame in reversed(frames):
            for name in ("loc", "inst", "constraint", "stmt", "expr", "self"):
                value = frame.f_locals.get(name)
                candidates = (value, getattr(value, "__dict__", {}).get("loc"))
                yield from (loc for loc in candidates if type(loc).__name__ == "Loc")
        one = one.__cause__ or one.__context__


def _find_status(error: BaseException) -> int:
    """Return the CUresult in an exception of the driver; 0 if there is none."""
    code = getattr(error, "code", None)
    if code is not None and type(error).__name__ == "CudaAPIError":
        return int(getattr(code, "value", code))
    match = re.search(r"CUDA_ERROR_\w+", str(error))
    if not match or type(error).__name__ not in ("CUDAError", "CudaAPIError"):
        return 0
    try:
        from cuda.bindings import driver as binding

        return int(getattr(binding.CUresult, match.group()).value)
    except (ImportError, AttributeError):
        return 0
