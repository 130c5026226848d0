"""--flags for both compilers: which option means something to which."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ..base.errors import ArgumentError

# Taken by g++: macros, folders, warnings, optimisation, language, machine.
_GXX = re.compile(r"-[DUIOWgfm].*|-std=.*|-w|-pedantic|-pthread|-iquote.*|-include")
_GXX_PAIRS = ("-D", "-U", "-I", "-iquote", "-include", "-isystem")
# NVRTC's and nvcc's, which a CPU has no use for.
_NVCC = re.compile(
    r"--?(?:use_fast_math|lineinfo|device-debug|G|maxrregcount|arch|gencode|fmad|ftz"
    r"|prec-div|prec-sqrt|gpu-architecture|extra-device-vectorization|rdc|dlto"
    r"|extended-lambda|expt-[\w-]+|ptxas-options|Xptxas|diag-[\w-]+|minimal"
    r"|device-as-default-execution-space|default-device|restrict|split-compile)"
    r"(?:=.*)?"
)
_NVCC_PAIRS = ("-Xptxas", "-maxrregcount", "--maxrregcount", "-arch", "-gencode")


def split(text: str | Sequence[str]) -> list[str]:
    """Flags as a list. A string is cut as a shell would; none ever sees it.

    Raises ArgumentError for an unclosed quote.
    """
    if not isinstance(text, str):
        return [str(flag) for flag in text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ArgumentError(f"flags {text!r}: {error}") from None


def for_cpu(flags: Sequence[str]) -> list[str]:
    """Those that g++ takes; ArgumentError for what is an option of neither."""
    out, todo = [], list(flags)
    while todo:
        flag = todo.pop(0)
        if flag in _NVCC_PAIRS:
            todo = todo[1:]
        elif _NVCC.fullmatch(flag):
            continue
        elif flag in _GXX_PAIRS:
            if not todo:
                raise ArgumentError(f"the flag {flag} wants a value after it")
            out += [flag, todo.pop(0)]
        elif re.fullmatch(r"-std=(?:c|gnu)\+\+(?:98|03|0x|11|1y|14)", flag):
            raise ArgumentError(f"{flag}: on the CPU a cell is C++17 or later")
        elif _GXX.fullmatch(flag):
            out.append(flag)
        else:
            raise ArgumentError(
                f"{flag!r} is no flag for a cell: -DNAME=value, -I folder, -O3, -W... "
                f"and NVRTC's are"
            )
    return out


def split_defines(flags: Sequence[str]) -> tuple[list[str], str]:
    """Flags of for_cpu() without -D and -U, and those as lines of C.

    As lines behind our own headers, as they do no harm to those.
    """
    more, lines, todo = [], [], list(flags)
    while todo:
        flag = todo.pop(0)
        if flag[:2] not in ("-D", "-U"):
            more.append(flag)
            continue
        name, given, value = (flag[2:] or todo.pop(0)).partition("=")
        value = value if given else "1"
        undef = flag[1] == "U"
        lines.append(f"#undef {name}" if undef else f"#define {name} {value}")
    return more, "".join(f"{line}\n" for line in lines)
