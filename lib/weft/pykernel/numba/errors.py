"""What Numba's compiler and the driver say, in one sentence at the reader's line."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from typing import Any

from ...base.errors import ArgumentError, KernelError
from ...cells.gpu import driver
from .meaning import KernelPart

_NOISE = re.compile(
    r"^(Failed in|During:|File \"|There (is|are) \d+ candidate|- Of which|>>>|raised "
    r"from|Enable logging|This error may have|<source elided>|\^|With argument)"
)

# ptxas, through whichever linker Numba has found.
_TOO_MUCH_SHARED = re.compile(
    r"uses too much shared data \((0x[0-9a-f]+) bytes, (0x[0-9a-f]+) max"
)
# What Numba lets its reader guess.
_PLAIN = {
    "insert_unresolved_ref": "a function that calls itself, in a way it does not know",
    "return_dynamic_user_exc": "an exception in a kernel takes constants only",
    "must have void return type": "a kernel returns nothing: it writes into an array",
}


def explain(kernel: str, part: KernelPart, error: BaseException) -> Exception:
    """The exception for what compiling or launching a kernel has raised.

    ArgumentError where the kernel is not what Numba takes; DeviceLost, OutOfMemory or
    KernelError from the driver.
    """
    if isinstance(error, KernelError):
        return error
    if found := _TOO_MUCH_SHARED.search(str(error)):
        need, most = (int(number, 16) for number in found.groups())
        return KernelError(
            f"{kernel}: its shared arrays need {need} bytes, a block has {most} for "
            f"arrays of a fixed shape"
        )
    status = _find_status(error)
    if status:
        try:
            driver.check(status, f"launching {kernel}")
        except KernelError as found:
            return found
    if not _is_compilers(error):
        return KernelError(
            f"{kernel}: {type(error).__name__}: {_message_sentence(error)}"
        )
    where = _describe_place(part, error)
    return ArgumentError(f"{kernel}{where}: Numba: {_message_sentence(error)}")


def _is_compilers(error: BaseException) -> bool:
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"NumbaError", "UnsupportedBytecodeError"}:
        return True
    # Numba's compiler lets through what Python itself raises about a name or a type.
    return isinstance(error, (AttributeError, NotImplementedError, TypeError))


def _message_sentence(error: BaseException) -> str:
    """The one line of Numba's message that says what is wrong."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    for part, plain in _PLAIN.items():
        if part in text:
            return plain
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not _NOISE.match(line)]
    if not said:
        return type(error).__name__
    if said[0].startswith("No implementation of function"):
        return _tidy_message(_no_implementation(said[0], text))
    return _tidy_message(said[0])


def _no_implementation(line: str, text: str) -> str:
    """Which operation there is none of, and why, from a page of candidates."""
    found = re.search(
        r"Function\(<(?:built-in )?(?:function|class|ufunc) '?([\w.]+)", line
    )
    name = found[1] if found else ""
    call = re.search(r">>> \w+\((.*)\)", text)
    given = call[1] if call else ""
    why = re.findall(r"Numba(?:Type|Value)Error: (.+)", text)
    if name in ("getitem", "setitem"):
        if why:  # the last ones are said of types, not of single values
            return why[-1]
        what = "read by an index" if name == "getitem" else "stored there"
        return f"this cannot be {what}: {given}"
    if name in ("shared.array", "local.array"):
        return (
            f"an array's shape must be a constant (a number, or a global that is one) "
            f"and its dtype a type: array({given})"
        )
    if name in ("zeros", "empty", "ones", "full", "array"):
        return (
            "a kernel makes no new arrays: pass one to it, or use cuda.shared.array or "
            "cuda.local.array"
        )
    return f"a kernel has no {name or 'function'}({given})"


def _tidy_message(text: str) -> str:
    text = re.sub(r"Literal\[\w+\]\((.*?)\)", r"\1", text)
    text = re.sub(r"array\((\w+), (\d)d, \w\)", r"\1[\2D]", text)
    text = re.sub(r"\.?\. Raised from .*$", "", text)
    return text.strip().rstrip(".")


# ---- where ----------------------------------------------------------------------


def _describe_place(part: KernelPart, error: BaseException) -> str:
    """ ", line 12 (c[i] = x.foo)": the innermost line of the reader's functions."""
    files = {one.function.__code__.co_filename for one in part.parts()}
    said = re.findall(r'(?:File "| at )([^"\n]+?)"?,? (?:line |\()(\d+)', str(error))
    found = [(file, int(line)) for file, line in said]
    found += [
        (str(getattr(loc, "filename", "")), getattr(loc, "line", 0) or 0)
        for loc in _walk_locations(error)
    ]
    for file, line in found:
        full = next((f for f in files if f == file or f.endswith(f"/{file}")), None)
        if line and full:
            source = linecache.getline(full, line).strip()
            return f", line {line} ({source})" if source else f", line {line}"
    return ""


def _walk_locations(error: BaseException) -> Iterator[Any]:
    """Numba's Loc objects in an exception and in the frames it came through."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        if type(loc := getattr(one, "loc", None)).__name__ == "Loc":
            yield loc
        frames = []
        trace = one.__traceback__
        while trace is not None:
            frames.append(trace.tb_frame)
            trace = trace.tb_next
        for frame in reversed(frames):
            held = frame.f_locals
            for name in ("loc", "inst", "constraint", "stmt", "expr", "self"):
                value = held.get(name)
                near = (value, getattr(value, "__dict__", {}).get("loc"))
                yield from (loc for loc in near if type(loc).__name__ == "Loc")
        one = one.__cause__ or one.__context__


def _find_status(error: BaseException) -> int:
    """The CUresult in an exception of the driver; 0 if there is none."""
    code = getattr(error, "code", None)
    if code is not None and type(error).__name__ == "CudaAPIError":
        return int(getattr(code, "value", code))
    found = re.search(r"CUDA_ERROR_\w+", str(error))
    if not found or type(error).__name__ not in ("CUDAError", "CudaAPIError"):
        return 0
    try:
        from cuda.bindings import driver as binding

        return int(getattr(binding.CUresult, found.group()).value)
    except (ImportError, AttributeError):
        return 0
