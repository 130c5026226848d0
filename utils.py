"""The names that lessons use: each first cell runs `from utils import *`.

This is a thin layer over the weft package. It works from any folder.
"""

from __future__ import annotations

import difflib
import math
import os
import re

import numpy as np
import torch
from numpy import (
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

import weft
from weft import (
    autotune,
    bench,
    check,
    compare_guesses,
    cuda,
    cuda_c,
    inspect,
    last_report,
    latency,
    load_cuda,
    numba_jit,
    nvtx_range,
    occupancy,
    predict,
    profile,
    ptx,
    puzzles,
    sass,
    show,
    sim,
    timeline,
    to_cuda,
    torch_kernels,
)
from weft.base.paths import ROOT
from weft.lessons.exercises import exercise
from weft.report.html import highlight_text, table

__all__ = [
    "ROOT",
    "autotune",
    "bench",
    "bool_",
    "cdiv",
    "check",
    "compare_guesses",
    "cuda",
    "cuda_c",
    "exercise",
    "float32",
    "float64",
    "inspect",
    "int8",
    "int16",
    "int32",
    "int64",
    "last_report",
    "latency",
    "listing",
    "load_cuda",
    "math",
    "np",
    "numba_jit",
    "nvtx_range",
    "occupancy",
    "predict",
    "profile",
    "ptx",
    "puzzles",
    "sass",
    "show",
    "sim",
    "size",
    "source",
    "table",
    "timeline",
    "to_cuda",
    "torch",
    "torch_kernels",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "weft",
]


def cdiv(a: int, b: int) -> int:
    """Return a / b rounded up: the number of blocks of `b` threads for `a` elements."""
    return -(-a // b)


def size(full: int, small: int) -> int:
    """Return the size of an example: `full`, or `small` if WEFT_SMALL=1 is set.

    The tests set WEFT_SMALL, since they run every lesson and must be quick.
    """
    return small if os.environ.get("WEFT_SMALL") == "1" else full


def source(path: str, name: str | None = None) -> str:
    """Return the text of a file of the lab, or of one function in it.

    path: relative to the top of the checkout, e.g. "kernels/relu.cu". name: a C,
    CUDA or Python function; the text includes its comment or decorators. If the
    file has no such function, ValueError lists the functions of the file.
    """
    text = (ROOT / path).read_text()
    if name is None:
        return text
    lines = text.splitlines()
    is_definition = _defines_python if path.endswith(".py") else _defines
    starts = [i for i, line in enumerate(lines) if is_definition(line, name)]
    if not starts:
        names = sorted(set(re.findall(r"^[a-z][^;=]*?\b(\w+)\([^;]*$", text, re.M)))
        raise ValueError(f"{path} has no function '{name}'; it has {', '.join(names)}")
    first = last = starts[0]
    prefix = r"\s*(/\*| \*|//|#|@|template)|\s*(static|extern)\b[^;{}]*$"
    while first > 0 and re.match(prefix, lines[first - 1]):
        first -= 1
    indent = len(lines[last]) - len(lines[last].lstrip())
    closing = "}" if not path.endswith(".py") else None
    if closing and "{" in lines[last] and lines[last].endswith("}"):
        return "\n".join(lines[first : last + 1]) + "\n"  # the function is one line
    while last + 1 < len(lines) and not _ends(lines[last + 1], indent, closing):
        last += 1
    if closing:
        last += 1  # include the closing brace
    return "\n".join(lines[first : last + 1]).rstrip() + "\n"


def listing(path: str, name: str | None = None, against: str | None = None) -> None:
    """Show a file of the lab, or one function in it, in colour.

    against: another function of that file, another path, or both as "path:function".
    If given, listing() shows only the differences between the two.
    """
    text, language = source(path, name), "python" if path.endswith(".py") else "cuda"
    if against:
        other = _source_against(against, path)
        text, language = _diff(other, text, against, name or path), "diff"
    try:
        from IPython import get_ipython
        from IPython.display import HTML, display
    except ImportError:
        get_ipython = None
    if get_ipython and get_ipython():
        display(HTML(highlight_text(text, language)))
    else:
        print(text)


def _source_against(against: str, path: str) -> str:
    """Return the text with which listing() compares the file."""
    if "/" not in against:
        return source(path, against)
    file, _, name = against.partition(":")
    return source(file, name or None)


def _defines_python(line: str, name: str) -> bool:
    return bool(re.match(rf"\s*(async def|def|class) {re.escape(name)}\b", line))


def _defines(line: str, name: str) -> bool:
    if line.rstrip().endswith((";", "\\")):
        return False  # a declaration, a call, or part of a macro
    pattern = rf".*\b{re.escape(name)}\s*\("
    return bool(re.match(pattern, line)) and not re.match(r"\s*(/\*|\*|//|#)", line)


def _ends(line: str, indent: int, closes: str | None) -> bool:
    if closes:
        return line.startswith(" " * indent + closes)
    if line.lstrip().startswith(")"):  # the end of a signature of several lines
        return False
    return bool(line.strip()) and len(line) - len(line.lstrip()) <= indent


def _diff(old: str, new: str, old_name: str, new_name: str) -> str:
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), old_name, new_name, lineterm=""
    )
    return "\n".join(lines)
