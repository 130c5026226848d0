"""Options of both compilers, and compiled cells on disk.

for_cpu() selects the --flags that concern g++; split_defines() separates macros.

load_program() caches NVRTC's programs under the hash of all their inputs. Each program
is one file: a line of JSON, then the machine code, then the PTX.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from ..base import store
from ..base.errors import ArgumentError
from ..base.paths import COMMON
from ..csource import diagnostics
from ..csource.diagnostics import CompileError, Diagnostic
from ..csource.scanner import INCLUDE
from ..toolchain import build, keys
from .gpu import nvrtc
from .gpu.nvrtc import CompiledProgram, Usage

# Options for g++: macros, folders, warnings, optimisation, language, machine.
_GXX = re.compile(r"-[DUIOWgfm].*|-std=.*|-w|-pedantic|-pthread|-iquote.*|-include")
_GXX_PAIRS = ("-D", "-U", "-I", "-iquote", "-include", "-isystem")
# Options of NVRTC and nvcc that do not apply to a CPU.
_NVCC = re.compile(
    r"--?(?:use_fast_math|lineinfo|device-debug|G|maxrregcount|arch|gencode|fmad|ftz"
    r"|prec-div|prec-sqrt|gpu-architecture|extra-device-vectorization|rdc|dlto"
    r"|extended-lambda|expt-[\w-]+|ptxas-options|Xptxas|diag-[\w-]+|minimal"
    r"|device-as-default-execution-space|default-device|restrict|split-compile)"
    r"(?:=.*)?"
)
_NVCC_PAIRS = ("-Xptxas", "-maxrregcount", "--maxrregcount", "-arch", "-gencode")


def split(text: str | Sequence[str]) -> list[str]:
    """Return flags as a list; a string is split as by a shell, but no shell runs.

    Raises ArgumentError for an unclosed quote.
    """
    if not isinstance(text, str):
        return [str(flag) for flag in text]
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ArgumentError(f"flags {text!r}: {error}") from None


def for_cpu(flags: Sequence[str]) -> list[str]:
    """Return the flags for g++; raise ArgumentError for an unknown option."""
    out, todo = [], list(flags)
    while todo:
        flag = todo.pop(0)
        if flag in _NVCC_PAIRS:
            todo = todo[1:]
        elif _NVCC.fullmatch(flag):
            continue
        elif flag in _GXX_PAIRS:
            if not todo:
                raise ArgumentError(f"the flag {flag} needs a value after it")
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
    """Return flags of for_cpu() without -D and -U, and these two as lines of C.

    The lines are placed after Weft's own headers, and so do not affect the headers.
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


CELL = "cell"


def load_program(
    source: str,
    name: str,
    arch: str,
    flags: Sequence[str],
    expressions: Sequence[str],
    headers: Mapping[str, str],
) -> tuple[CompiledProgram, bool]:
    """Return nvrtc.compile()'s program, and whether it was cached. Raises CompileError.

    name: name of the source in messages. The source is compiled under the name CELL, so
        the same cell run as number 7 and as number 8 shares one program.
    """
    path = _stored_path(source, arch, flags, expressions, headers)
    found = _read(path) if store.has_file(path) else None
    if found:
        os.utime(path)  # mark as recently used: prune() deletes the oldest files first
        return found, True
    try:
        made = nvrtc.compile(source, CELL, arch, flags, expressions, headers)
    except nvrtc.Rejected as error:
        found = _of_the_source(diagnostics.parse_nvrtc(error.log, CELL))
        raise CompileError(found, source, name, error.log) from None
    _write(path, made)
    store.prune_at_exit()
    return made, False


def list_includes(source: str, folders: Sequence[str]) -> list[Path]:
    """List the files that `#include` names, directly or indirectly, found in folders.

    The toolkit's files are left out, since the toolkit's version covers them.
    """
    found: list[Path] = []
    todo = [(source, [Path(folder) for folder in folders])]
    while todo:
        text, where = todo.pop()
        for match in INCLUDE.finditer(text):
            for folder in where:
                path = folder / match["name"]
                if path.is_file() and path not in found:
                    found.append(path)
                    text = path.read_text(errors="replace")
                    todo.append((text, [path.parent, *where]))
                    break
    return found


def _of_the_source(found: list[Diagnostic]) -> list[Diagnostic]:
    """Drop NVRTC's lines about the requested names if there are other errors."""
    own = [one for one in found if one.file == "__nv_name_map"]
    others = [one for one in found if one not in own]
    if any(one.severity == "error" for one in others):
        return others
    return [*others, *(replace(one, file="", line=0, column=0) for one in own[:1])]


def _stored_path(source, arch, flags, expressions, headers) -> Path:
    options = nvrtc.default_options(arch, flags)
    given = [flag[2:] for flag in nvrtc.translate(flags) if flag.startswith("-I")]
    texts = [source, *headers.values()]
    files = list_includes(
        "\n".join(texts), [os.getcwd(), *given, str(build.KERNELS), str(COMMON)]
    )
    parts = [
        *(
            str(nvrtc.nvrtc_version()),
            keys.hash_sources(*keys.CELL),
            source,
            arch,
            *options,
        ),
        *("expressions", *expressions, "headers"),
        *(f"{key}\1{text}" for key, text in sorted(headers.items())),
        *("files", *(f"{file}\1{file.read_text(errors='replace')}" for file in files)),
    ]
    return store.cache_folder("cells") / f"{build._hash(*parts)}.cubin"


def _read(path: Path) -> CompiledProgram | None:
    """Read a file written by _write(); None if it is missing or damaged."""
    try:
        head, _, rest = path.read_bytes().partition(b"\n")
        about = json.loads(head)
        cubin, ptx = about.pop("sizes")
        numbers = about.pop("usage")
        if len(rest) != cubin + ptx:
            return None
        usage = {kernel: Usage(**values) for kernel, values in numbers.items()}
        return CompiledProgram(
            rest[:cubin], rest[cubin:].decode(), usage=usage, **about
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, made: CompiledProgram) -> None:
    ptx = made.ptx.encode()
    about = {
        **{"sizes": [len(made.cubin), len(ptx)], "lowered": dict(made.lowered)},
        "log": made.log,
        **{"usage": {kernel: asdict(u) for kernel, u in made.usage.items()}},
        "seconds": made.seconds,
    }
    store.write(path, json.dumps(about).encode() + b"\n" + made.cubin + ptx)
