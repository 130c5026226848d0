"""Read what `weft package` packs: the launchers of .cu files, or those of an op.

A launcher is a function of the host that starts kernels. Each becomes a function of
Python, which kernels/packaged/packaged.py calls.
"""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.errors import ArgumentError
from ..cells.structs import find_scalar
from ..csource import scanner, signature
from ..csource.signature import Param, Signature
from ..toolchain import build

MODULES = "packaged", "ops", "test"  # of each package
STREAMS = "cudaStream_t", "CUstream", "weft_stream"
# Names of a parameter that is the number of elements of the first array.
COUNTS = "n", "count", "size", "numel"
HIDDEN = "rung", "options"  # parameters of an op that a package sets


@dataclass
class Contents:
    """What is packed.

    sources: the files, or those of the lab's op. launchers: launchers.json's rows.
    wrapped: the launchers in each source, by its path. op: the op's name, or "".
    """

    name: str
    sources: list[Path]
    launchers: list[dict[str, Any]] = field(default_factory=list)
    wrapped: dict[Path, list[Signature]] = field(default_factory=dict)
    op: str = ""
    cubins: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def read_contents(source: str) -> Contents:
    """Return what `source` contains; raise ArgumentError if it cannot be packed."""
    path = Path(source)
    if path.suffix == ".cu" and path.is_file():
        contents = Contents(path.stem, [path])
    elif path.is_dir() and (files := sorted(path.glob("*.cu"))):
        contents = Contents(path.resolve().name, files)
    elif source in build.list_ops():
        contents = Contents(source, build.list_sources(source, "cuda"), op=source)
    else:
        ops = ", ".join(build.list_ops())
        text = "is no .cu file, no folder with .cu files and no op"
        raise ArgumentError(f"{source} {text}; the ops are {ops}")
    _check_name(contents.name)
    launchers = _read_op(contents) if contents.op else _read_files(contents)
    known = {}
    for one in launchers:
        if one.name in known:
            text = f"two launchers have the name {one.name}"
            raise ArgumentError(f"{source}: {text}, and Python has one function each")
        known[one.name] = describe_launcher(one)
    contents.launchers = list(known.values())
    for row in contents.launchers:
        forward = row["name"].removesuffix("_backward")
        if forward != row["name"] and forward not in known:
            row["returns"] = False
    return contents


def _check_name(name: str) -> None:
    reason = ""
    if not name.isidentifier() or keyword.iskeyword(name):
        reason = "is no Python identifier"
    elif name in sys.stdlib_module_names or name in ("weft", "numpy", "torch"):
        reason = "is the name of another package"
    if reason:
        raise ArgumentError(f"'{name}' {reason}: rename the file or the folder")


def _read_files(contents: Contents) -> list[Signature]:
    """Find the launchers of the files; raise ArgumentError for a kernel without one."""
    texts = {path: path.read_text() for path in contents.sources}
    kernels = [(path, one) for path in texts for one in signature.parse(texts[path])]
    files, bodies = ", ".join(map(str, texts)), ""
    for path, text in texts.items():
        found = signature.list_launchers(text)
        bodies += "".join(one.body for one in found)
        contents.wrapped[path] = [one.signature for one in found if one.is_callable]
    launchers = [one for found in contents.wrapped.values() for one in found]
    if not (kernels or launchers):  # a header may contain the kernels
        raise ArgumentError(f"{files}: there is no __global__ function to pack")
    for path, kernel in kernels:
        if not re.search(rf"\b{kernel.name}\b", bodies):
            call = f"{kernel.name}<<<grid, block, 0, stream>>>(...)"
            text = f"kernel {kernel.name} has no launcher"
            cure = f"write a function that starts it: {call}"
            raise ArgumentError(f"{path}:{kernel.line}: {text}: {cure}")
    if not launchers:
        text = "only main() and static functions start kernels, but Python needs others"
        raise ArgumentError(f"{files}: {text}")
    for one in launchers:
        _check_launcher(one)
    return launchers


def _check_launcher(one: Signature) -> None:
    reason = ""
    if one.returns not in ("void", "int", "cudaError_t"):
        reason = f"returns {one.returns}, expected void, int or cudaError_t"
    elif one.template:
        reason = "is a template: write a function that calls one of its instances"
    elif one.scope:
        reason = f"is in the namespace {one.scope[:-2]}: move it out"
    elif keyword.iskeyword(one.name) or one.name in MODULES:
        reason = "has a name that Python or the package uses: rename it"
    elif any(not param.name for param in one.params):
        reason = "has a parameter without a name"
    if reason:
        raise ArgumentError(f"the launcher {one.name} {reason}")


def _read_op(contents: Contents) -> list[Signature]:
    """Return the op's launchers in weft.h, with the parameters that a package shows."""
    header = (build.KERNELS / "weft.h").read_text()
    code, found = scanner.blank_comments(header), []
    for name in (contents.op, f"{contents.op}_backward"):
        match = re.search(rf"\bint weft_{name}\((?P<params>[^;]*?)\);", code)
        if not match:
            continue
        parts = scanner.split_commas(code, match.start("params"), match.end("params"))
        params = [
            signature.declare(text, word, {})
            for text, word in (
                re.fullmatch(r"(.*?)(\w+)", " ".join(code[a:b].split())).groups()
                for a, b in parts
            )
        ]
        found.append(Signature(name, tuple(params), (), 0, returns="int"))
    if not found:
        raise ArgumentError(f"weft.h has no launcher weft_{contents.op}")
    contents.wrapped[build.KERNELS / "weft.h"] = found
    shown = [[p for p in one.params if p.name not in HIDDEN] for one in found]
    return [Signature(f.name, (*p,), (), 0) for f, p in zip(found, shown)]


def describe_launcher(one: Signature) -> dict[str, Any]:
    """Return the row of launchers.json that describes a launcher.

    Its Python function returns the outputs ("returns") if the outputs are its first
    parameters, inputs follow, and each integer is a size that follows from the first
    input: its number of elements (n, count, size, numel), or its rows and cols.
    """
    params = [_describe_param(one, param) for param in one.params]
    roles = [p["role"] for p in params]
    integers = [
        p["name"] for p in params if p["role"] == "number" and p["code"] in "iIqQ"
    ]
    is_counted = len(integers) == 1 and integers[0] in COUNTS
    is_sized = is_counted or sorted(integers) == ["cols", "rows"]
    arrays = [role for role in roles if role in ("output", "input")]
    count = arrays.count("output")
    returns = is_sized and arrays == sorted(arrays, reverse=True) and "input" in arrays
    returns &= count == 1 or (count > 1 and one.name.endswith("_backward"))
    if returns:
        for param in params:
            if param["name"] in integers:
                param["role"] = "count" if is_counted else param["name"]
    for param in params:
        param["name"] += "_" * keyword.iskeyword(param["name"])
    return {"name": one.name, "returns": returns, "params": params, "c": str(one)}


def _describe_param(one: Signature, param: Param) -> dict[str, Any]:
    kind = find_scalar(param.type)
    row: dict[str, Any] = {"name": param.name}
    if param.type in STREAMS and not param.pointer:
        return row | {"role": "stream"}
    is_simple = kind is not None and kind.count == 1
    if param.pointer and (is_simple or param.type == "void"):
        dtypes = [d for d in kind.dtypes if d != "bytes8"] if kind else []
        return row | {"role": "input" if param.const else "output", "dtypes": dtypes}
    if not param.pointer and is_simple and kind.kind in ("int", "float", "bool"):
        return row | {"role": "number", "code": kind.code}
    raise ArgumentError(
        f"the launcher {one.name} has the parameter '{param}', and a package supports "
        f"pointers to numbers, numbers and cudaStream_t"
    )
