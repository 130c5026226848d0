"""What was probably meant by a name that the language of a kernel does not have."""

from __future__ import annotations

import difflib
import functools
import inspect
import math

from ... import cuda

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
