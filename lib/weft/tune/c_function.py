"""A plain C function as a Python callable: a tunable kernel that needs no GPU.

The function is compiled like the lab's own C (-O3 for this processor, OpenMP), or
loaded from the cache. Arrays are checked like a kernel's, but the function's accesses
are not: an access outside an array may crash the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cffi import FFI

from ..base import store
from ..base.errors import ArgumentError
from ..cells import CompileError
from ..cells.arguments import Binder
from ..csource import scanner, signature
from ..csource.diagnostics import CELL, parse_gcc
from ..csource.signature import Signature
from ..toolchain import build, tools
from ..toolchain.tools import cpu_flags

# A definition at the start of a line; static functions are not visible outside.
_DEFINED = re.compile(
    r"^(?!static\b|typedef\b|return\b|else\b)[a-z][\w \t\n]*[\s*](\w+)\s*\([^(){};]*\)"
    r"\s*\{",
    re.M,
)
_FLAGS = ["-std=gnu11", "-O3", "-fopenmp", "-Wno-psabi", "-shared", "-fPIC"]
_SHOWN = ["-fdiagnostics-color=never", "-fno-diagnostics-show-caret"]


class CFunction:
    """The function that load_c() returns; call it with its arrays and numbers."""

    def __init__(self, kind: Signature, path: Path) -> None:
        self.signature, self.__name__ = kind, kind.name
        self._binder = Binder(kind.name, kind.params)
        ffi = FFI()
        words = ", ".join(map(str, kind.params)) or "void"
        parameters = re.sub(r"\b(__)?restrict(__)?\b", "", words)
        try:
            ffi.cdef(f"{kind.returns} {kind.name}({parameters});")
        except Exception as error:  # cffi's parser raises several kinds of exceptions
            first = str(error).splitlines()[0]
            raise ArgumentError(f"{kind.name}: cffi cannot parse it: {first}") from None
        # The library stays open while this object exists.
        self._library = ffi.dlopen(str(path))
        self._call = getattr(self._library, kind.name)
        self._types = [*ffi.typeof(self._call).args]
        self._ffi = ffi

    def __call__(self, *args: Any) -> Any:
        __tracebackhide__ = True
        values = []
        for kind, bound in zip(self._types, self._binder.bind(args)):
            if kind.kind == "pointer":
                values.append(self._ffi.cast(kind, bound.address if bound else 0))
            else:
                values.append(bound[0])
        return self._call(*values)


def is_c(text: str) -> bool:
    """Return whether `text` is plain C, not CUDA C, and defines a callable function."""
    code = scanner.blank_comments(text)
    return "__global__" not in code and bool(_DEFINED.search(code))


def load_c(
    source: str, name: str | None, flags: Sequence[str] = (), called: str = "C"
) -> CFunction:
    """Load the function `name`, by default the only one that is not static.

    called: the source's name in messages. Raises CompileError or ArgumentError.
    """
    functions = _list_functions(source)
    if name is None and len(functions) == 1:
        name = next(iter(functions))
    if name not in functions:
        names = ", ".join(functions) or "none"
        raise ArgumentError(f"{called} has these functions: {names}; pass one as name=")
    return CFunction(functions[name], _build_library(source, flags, called))


def _list_functions(source: str) -> dict[str, Signature]:
    code = re.sub(r"\brestrict\b", "__restrict__", scanner.blank_comments(source))
    functions = {}
    for match in _DEFINED.finditer(code):
        head = match.group().rstrip("{")
        for function in signature.parse(f"__global__ {head} {{}}"):
            functions[function.name] = function
    return functions


def _build_library(source: str, flags: Sequence[str], called: str) -> Path:
    tool, march = build.find_tool("g++"), build.Flavour.here("cpu").march
    command = [tool, "-x", "c", *_FLAGS, f"-march={march}", *_SHOWN, *flags]
    version = build.version_of(tool), cpu_flags()
    digest = build._hash(source, *version, *command)
    path = store.cache_folder("tuned") / f"{digest}.so"
    if store.has_file(path):
        os.utime(path)
        return path
    with store.replace_file(path) as temporary:
        text = f'#line 1 "{CELL}"\n{source}'
        process = tools.run([*command, "-", "-lm", "-o", str(temporary)], text)
        if process.returncode:
            errors = parse_gcc(process.stderr)
            errors = [replace(e, file="") if e.file == CELL else e for e in errors]
            raise CompileError(errors, source, called, process.stderr)
        os.chmod(temporary, 0o755)
    store.prune_at_exit()
    return path
