"""Local variables that are read before anything is written to them.

The watched build fills local variables with a pattern (GCC 12 and later), as a float
-1.69e38: so large that a sum with usual numbers leaves every bit of it as it is. Where
an array holds it after a launch, and none did before, a thread has stored what was in
such a variable. What changes the pattern, as max() does, and integers go unseen.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...csource import signature
from ...report.model import Finding
from ...toolchain import build
from ..arguments import Array
from . import arena

if TYPE_CHECKING:
    from .launch import Prepared

_FLOAT, _DOUBLE = 0xFEFEFEFE, 0xFEFEFEFEFEFEFEFE
_PATTERN = np.uint32(_FLOAT).view(np.float32)
FLOATS = ("float32", "float64")


@functools.cache
def unset_flags() -> tuple[str, ...]:
    """What makes g++ fill local variables; () if it cannot."""
    version = re.search(r"(\d+)\.\d+\.\d+", build.version_of(build.find_tool("g++")))
    is_new = version is not None and int(version[1]) >= 12
    return ("-ftrivial-auto-var-init=pattern",) if is_new else ()


def find(launch: Prepared, kernel: str, texts: Mapping[str, str]) -> list[Finding]:
    """One finding for each array that a launch stored an unset variable into.

    texts: the cell and its headers, by their names.
    """
    made: list[Finding] = []
    for (param, _, array, _), yes in zip(launch.scene.pointers(), launch.written):
        if not yes or array is None or array.dtype not in FLOATS:
            continue
        stored = _find_stored(launch, array)
        if not stored.size:
            continue
        if any(map(_known_before, launch.arrays)):
            return []
        file, line, column, names = _find_declared(kernel, texts)
        first = int(stored[0])
        made.append(
            Finding(
                "uninitialised",
                f"{param.name}[{first}] got {_PATTERN:g}, which the watched build puts "
                f"into local variables: {names or 'one'} is read before anything is "
                f"written to it",
                *(file, line, column),
                array=param.name,
                index=(first, 0, 0),
                count=int(stored.size),
                cure="give it a value where it is declared, as in float a[4][4] = {};",
            )
        )
    return made


def _find_stored(launch: Prepared, array: Array) -> np.ndarray:
    """The indices where the copy of an array holds the pattern."""
    fenced = launch.scene.arena
    assert fenced is not None
    return _list_indices(fenced.memory_of(array), array.dtype)


def _known_before(array: Array | None) -> bool:
    """Whether an array held the pattern before the launch, to be copied from there."""
    if array is None or array.dtype not in FLOATS:
        return False
    return (
        _list_indices(arena.view_memory(array.address, array.nbytes), array.dtype).size
        > 0
    )


def _list_indices(data: memoryview, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return np.flatnonzero(np.frombuffer(data, np.uint32) == _FLOAT)
    found = np.frombuffer(data, np.uint64)
    as_double = found.view(np.float64) == float(_PATTERN)  # a float's that became one
    return np.flatnonzero((found == _DOUBLE) | as_double)


# ---- which one -------------------------------------------------------------------

_DECLARATION = re.compile(
    r"(?<=[;{})])\s*(?P<type>(?:\w[\w:]*(?:<[^;<>]*>)?\s+)+)(?P<names>[A-Za-z_][^;=(){}]*);"
)
_OTHERS = {
    *("return", "goto", "using", "typedef", "struct", "class", "delete", "throw"),
    *("else", "case", "__shared__", "__device__", "__constant__", "extern", "static"),
    *("const", "constexpr", "namespace", "friend", "public", "private", "break"),
    *("int", "unsigned", "signed", "char", "short", "long", "bool", "dim3", "size_t"),
    *("int2", "int3", "int4", "uint2", "uint3", "uint4", "uint"),
}


def _find_declared(kernel: str, texts: Mapping[str, str]) -> tuple[str, int, int, str]:
    """Where the kernel declares locals without a value: file, line, column of the
    first, and their names; ("", 0, 0, "") if there are none."""
    for file, text in texts.items():
        code = signature.DIRECTIVE.sub(
            signature.fill_spaces, signature.blank_comments(text)
        )
        found = list(_list_locals(code, kernel))
        if found:
            names = [name for name, _ in found]
            at = found[0][1]
            line = code.count("\n", 0, at) + 1
            column = len(text[text.rfind("\n", 0, at) + 1 : at].encode())
            return file, line, column, _one_of(names)
    return "", 0, 0, ""


def _list_locals(code: str, kernel: str) -> Iterator[tuple[str, int]]:
    head = re.search(rf"\b{re.escape(kernel)}\s*\([^;{{]*\{{", code)
    if not head:
        return
    end = signature.close(code, head.end() - 1)
    for match in _DECLARATION.finditer(code, head.end() - 1, end):
        if _OTHERS & set(re.findall(r"\w+", match["type"])):
            continue
        for name in re.finditer(r"(?:^|,)\s*(\w+)", match["names"]):
            yield name[1], match.start("names") + name.start(1)


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"
