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
    """Return flags as a list; a string is split as a shell would, but no shell runs.

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
    selected, pending = [], list(flags)
    while pending:
        flag = pending.pop(0)
        if flag in _NVCC_PAIRS:
            pending = pending[1:]
        elif _NVCC.fullmatch(flag):
            continue
        elif flag in _GXX_PAIRS:
            if not pending:
                raise ArgumentError(f"the flag {flag} needs a value after it")
            selected += [flag, pending.pop(0)]
        elif re.fullmatch(r"-std=(?:c|gnu)\+\+(?:98|03|0x|11|1y|14)", flag):
            raise ArgumentError(f"{flag}: a cell on the CPU needs C++17 or later")
        elif _GXX.fullmatch(flag):
            selected.append(flag)
        else:
            known = "which accept -DNAME=value, -I folder, -O3, -W... and NVRTC's flags"
            raise ArgumentError(f"{flag!r} is not a flag of cells, {known}")
    return selected


def split_defines(flags: Sequence[str]) -> tuple[list[str], str]:
    """Return the flags of for_cpu() without -D and -U, and their macros as lines of C.

    The lines are placed after Weft's own headers, so they do not affect the headers.
    """
    options, lines, pending = [], [], list(flags)
    while pending:
        flag = pending.pop(0)
        if flag[:2] not in ("-D", "-U"):
            options.append(flag)
            continue
        name, equals, value = (flag[2:] or pending.pop(0)).partition("=")
        value = value if equals else "1"
        undef = flag[1] == "U"
        lines.append(f"#undef {name}" if undef else f"#define {name} {value}")
    return options, "".join(f"{line}\n" for line in lines)


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
        a cell that runs as number 7 and then as number 8 is compiled only once.
    """
    path = _stored_path(source, arch, flags, expressions, headers)
    cached = _read(path) if store.has_file(path) else None
    if cached:
        os.utime(path)  # this marks the file as used; prune() deletes the oldest first
        return cached, True
    try:
        program = nvrtc.compile(source, CELL, arch, flags, expressions, headers)
    except nvrtc.Rejected as error:
        errors = _drop_name_errors(diagnostics.parse_nvrtc(error.log, CELL))
        raise CompileError(errors, source, name, error.log) from None
    _write(path, program)
    store.prune_at_exit()
    return program, False


def list_includes(source: str, folders: Sequence[str]) -> list[Path]:
    """List the files in `folders` that a source includes, directly or indirectly.

    The toolkit's files are omitted, since the cache's key contains its version.
    """
    files: list[Path] = []
    pending = [(source, [Path(folder) for folder in folders])]
    while pending:
        text, search_folders = pending.pop()
        for match in INCLUDE.finditer(text):
            for folder in search_folders:
                path = folder / match["name"]
                if path.is_file() and path not in files:
                    files.append(path)
                    text = path.read_text(errors="replace")
                    pending.append((text, [path.parent, *search_folders]))
                    break
    return files


def _drop_name_errors(messages: list[Diagnostic]) -> list[Diagnostic]:
    """Drop messages about requested names; keep one of them if no error is left."""
    named = [one for one in messages if one.file == "__nv_name_map"]
    other = [one for one in messages if one not in named]
    if any(one.severity == "error" for one in other):
        return other
    return [*other, *(replace(one, file="", line=0, column=0) for one in named[:1])]


def _stored_path(source, arch, flags, expressions, headers) -> Path:
    options = nvrtc.default_options(arch, flags)
    folders = [flag[2:] for flag in nvrtc.translate(flags) if flag.startswith("-I")]
    texts = [source, *headers.values()]
    folders = [os.getcwd(), *folders, str(build.KERNELS), str(COMMON)]
    files = list_includes("\n".join(texts), folders)
    parts = [
        *(str(nvrtc.nvrtc_version()), keys.hash_sources(*keys.CELL), source, arch),
        *(*options, "expressions", *expressions, "headers"),
        *(f"{key}\1{text}" for key, text in sorted(headers.items())),
        *("files", *(f"{file}\1{file.read_text(errors='replace')}" for file in files)),
    ]
    return store.cache_folder("cells") / f"{build._hash(*parts)}.cubin"


def _read(path: Path) -> CompiledProgram | None:
    """Read a file written by _write(); None if it is missing or damaged."""
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        header = json.loads(head)
        cubin, ptx = header.pop("sizes")
        usage = {kernel: Usage(**one) for kernel, one in header.pop("usage").items()}
        if len(code) != cubin + ptx:
            return None
        parts = code[:cubin], code[cubin:].decode()
        return CompiledProgram(*parts, usage=usage, **header)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, program: CompiledProgram) -> None:
    ptx = program.ptx.encode()
    header = asdict(program) | {"sizes": [len(program.cubin), len(ptx)]}
    del header["cubin"], header["ptx"]
    store.write(path, json.dumps(header).encode() + b"\n" + program.cubin + ptx)
