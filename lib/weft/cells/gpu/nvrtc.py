"""NVRTC, NVIDIA's compiler as a library: CUDA C text to machine code.

NVRTC needs no GPU: `compile(source, arch="sm_90a")` works wherever the library is
installed. pip installs it as nvidia-cuda-nvrtc. A cell that nvcc accepts should compile
here, too. nvcc's implicit includes (fixed-width integers, INFINITY, FLT_MAX) are
therefore provided, and the C headers of teaching programs exist but are empty.

The functions and options used are the same in CUDA 12 and 13:
https://docs.nvidia.com/cuda/nvrtc/
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cffi import FFI

from ...base.errors import BuildError
from ...base.paths import COMMON, KERNELS
from ...base.progress import PATIENCE, Progress
from ...csource import scanner, signature
from ...toolchain.tools import pip_command
from ..headers import HEADERS, NAME, NEEDS_ATOMIC, REDEFINES, std_headers

ffi = FFI()
ffi.cdef("""
typedef struct _nvrtcProgram *nvrtcProgram;
const char *nvrtcGetErrorString(int result);
int nvrtcVersion(int *major, int *minor);
int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetSupportedArchs(int *archs);
int nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                       int count, const char *const *headers,
                       const char *const *names);
int nvrtcDestroyProgram(nvrtcProgram *program);
int nvrtcCompileProgram(nvrtcProgram program, int count, const char *const *options);
int nvrtcAddNameExpression(nvrtcProgram program, const char *expression);
int nvrtcGetLoweredName(nvrtcProgram program, const char *expression,
                        const char **name);
int nvrtcGetPTXSize(nvrtcProgram program, size_t *size);
int nvrtcGetPTX(nvrtcProgram program, char *ptx);
int nvrtcGetCUBINSize(nvrtcProgram program, size_t *size);
int nvrtcGetCUBIN(nvrtcProgram program, char *cubin);
int nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size);
int nvrtcGetProgramLog(nvrtcProgram program, char *log);
""")

_COMPILATION = 6  # NVRTC_ERROR_COMPILATION: the log contains the errors
_PACKAGE = "nvidia-cuda-nvrtc"


class Rejected(BuildError):
    """The exception for a source that NVRTC rejects; `log` has NVRTC's messages."""

    def __init__(self, log: str):
        super().__init__(log)
        self.log = log


@dataclass(frozen=True)
class Usage:
    """A kernel's resources, from ptxas: registers per thread, the rest in bytes."""

    registers: int = 0
    shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0


@dataclass(frozen=True)
class CompiledProgram:
    """A compiled source. lowered: the mangled name of each requested expression."""

    cubin: bytes
    ptx: str
    lowered: Mapping[str, str]
    log: str  # the compiler's warnings
    # The usage of each kernel, by mangled name.
    usage: Mapping[str, Usage] = field(default_factory=dict)


def compile(
    source: str,
    name: str = "cell",
    arch: str = "sm_80",
    flags: Sequence[str] = (),
    expressions: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> CompiledProgram:
    """Compile CUDA C to machine code for `arch`, such as sm_90a.

    name: name of the source in messages.
    flags: options in nvcc's spelling.
    expressions: the requested kernels, or instances of templates: "fill<float, 16>".
    headers: text of each header by name; `#include "name"` prefers it to any file.

    Raises Rejected for an erroneous source, and BuildError if NVRTC is missing or does
    not support the architecture or an option.
    """
    _check_arch(arch)
    headers = headers or {}
    own_texts = [source, *headers.values()]
    texts = {**HEADERS, **headers}
    options = default_options(arch, flags, "\n".join(own_texts))
    requested = {e: e for e in expressions}
    source = _LAMBDA.sub(lambda match: " " * len(match.group()), source)
    try:
        return _compile(source, name, options, requested, texts)
    except Rejected as error:
        # This error means that a kernel has the name of a CUDA function, such as all or
        # max.
        if _OVERLOADED in error.log:
            requested = _cast_to_types(expressions, own_texts)
            return _compile(source, name, options, requested, texts)
        if not _only_constexpr(error.log, source):
            raise
        # nvcc evaluates constexpr functions without __device__ at compile time; NVRTC
        # treats them as host functions. This option applies only if all errors are of
        # this kind, so it hides no missing __device__.
        options.append("--device-as-default-execution-space")
        return _compile(source, name, options, requested, texts)


# The pattern of the __device__ in [=] __device__ (int i) { ... }. nvcc accepts it with
# --extended-lambda, and NVRTC never does, since it compiles device code only.
_LAMBDA = re.compile(r"(?<=\])[ \t]*(?:__(?:device|host)__[ \t]*)+(?=[({])")


def explain_missing() -> str:
    """Explain why NVRTC cannot be used, and how to fix it; "" if it can be used."""
    try:
        _open_library()
    except BuildError as error:
        return str(error)
    return ""


def nvrtc_version() -> tuple[int, int]:
    """Return the CUDA version of the NVRTC in use, such as (13, 0)."""
    return _read_version(_open_library())


def list_architectures() -> list[str]:
    """List NVRTC's targets: sm_75, sm_80 ..., all without suffix letters."""
    count = ffi.new("int *")
    _check(_open_library().nvrtcGetNumSupportedArchs(count))
    archs = ffi.new("int[]", count[0])
    _check(_open_library().nvrtcGetSupportedArchs(archs))
    return [f"sm_{arch}" for arch in archs]


def default_options(arch: str, flags: Sequence[str], source: str = "") -> list[str]:
    """Return NVRTC's options: nvcc's defaults, the user's flags, the header folders."""
    user_flags = translate(flags)
    options = [f"--gpu-architecture={arch}", "-lineinfo", "--ptxas-options=-v"]
    if nvrtc_version() >= (12, 9):
        # On a machine with a driver, newer versions of NVRTC cache their results, and
        # ptxas omits its report for cached ones. stored.py caches both.
        options.append("--no-cache")
    if not any(re.match(r"--?std=", flag) for flag in user_flags):
        options.append("-std=c++17")
    std = std_headers(scanner.blank_comments(source))
    options += [f"--pre-include={name}" for name in (NAME, *std)]
    if not re.search(NEEDS_ATOMIC, source):
        # Without this macro, cooperative_groups.h includes <cuda/atomic> for a few
        # functions, and parsing takes 0.9 s instead of 0.05 s.
        options.append("-D_CG_LIMIT_INCLUDED_DEPENDENCIES")
    if any(m["name"].startswith(REDEFINES) for m in scanner.INCLUDE.finditer(source)):
        # Warning 47 reports the incompatible redefinition of a macro.
        options.append("--diag-suppress=47")
    return [*options, *user_flags, *(f"-I{path}" for path in include_folders())]


def translate(flags: Sequence[str]) -> list[str]:
    """Translate flags from nvcc's spelling to NVRTC's.

    An option and its value become one word. Options for the host's optimisation or
    warnings are dropped, since the user may pass the same flags to both compilers.
    """
    translated: list[str] = []
    pending = list(flags)
    while pending:
        flag = pending.pop(0)
        if flag in ("-I", "-D", "-U") and pending:
            translated.append(flag + pending.pop(0))
        elif flag in ("-iquote", "-isystem") and pending:
            translated.append(f"-I{pending.pop(0)}")
        elif flag in ("-Xptxas", "-maxrregcount", "-std", "-include") and pending:
            translated.append(f"{flag}={pending.pop(0)}")
        elif flag in ("-arch", "-gencode") and pending:
            pending.pop(0)  # drop -arch: the GPU of the launch determines the target
        elif not _HOST_ONLY.fullmatch(flag):
            translated.append(flag)
    return translated


_HOST_ONLY = re.compile(
    r"-O\w*|-W\w[\w=-]*|-g\w*|-f(?!mad|tz)[\w=-]+|-m(?!axrreg|inimal)[\w=.-]+"
    r"|-pthread|-pedantic|--?(?:arch|gencode|gpu-architecture)=.*|--expt-[\w-]+"
)


@functools.cache
def include_folders() -> tuple[str, ...]:
    """Return the folders of Weft's headers, and those of the toolkit that exist."""
    from cuda.pathfinder import find_nvidia_header_directory

    folders = {str(KERNELS): None, str(COMMON): None}
    for part in ("cudart", "cccl", "nvcc", "curand"):
        try:
            folder = find_nvidia_header_directory(part)
        except Exception:  # an older pathfinder may not support this part
            folder = None
        if folder:
            folders[folder] = None
    return tuple(folders)


# ---- one compilation ----------------------------------------------------------


_OVERLOADED = "cannot determine which instance of overloaded function"


def _cast_to_types(expressions: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """Return the kernels' names with parameter types, which select an overload."""
    names = {e: e for e in expressions}
    for kernel in [s for text in texts for s in signature.parse(text)]:
        kinds = ((p.const * "const ", p.type, p.pointer * "*") for p in kernel.params)
        types = ", ".join(f"{const}{kind} {star}" for const, kind, star in kinds)
        name = kernel.scope + kernel.name
        if name in names:
            names[name] = f"(void (*)({types})){name}"
    return names


def _compile(source, name, options, requested, texts) -> CompiledProgram:
    library = _open_library()
    new = ffi.new("nvrtcProgram *")
    kept = [_make_strings(some) for some in (texts.values(), texts.keys(), options)]
    headers, names, arguments = (ffi.new("char *[]", one) for one in kept)
    inputs = source.encode(), name.encode(), len(texts), headers, names
    _check(library.nvrtcCreateProgram(new, *inputs))
    program = new[0]
    try:
        for expression in requested.values():
            _check(library.nvrtcAddNameExpression(program, expression.encode()))
        with Progress(f"compiling {name} with NVRTC", delay=PATIENCE):
            status = library.nvrtcCompileProgram(program, len(options), arguments)
        log = _read_text(program, "ProgramLog")
        if status == _COMPILATION:
            raise Rejected(_remove_ptxas(log))
        if status:
            raise BuildError(f"NVRTC: {log.strip() or _describe_error(status)}")
        cubin, ptx = _get(program, "CUBIN"), _read_text(program, "PTX")
        lowered = {e: _lower_name(program, text) for e, text in requested.items()}
        usage = parse_usage(log)
        return CompiledProgram(cubin, ptx, lowered, _remove_ptxas(log), usage)
    finally:
        library.nvrtcDestroyProgram(new)


def parse_usage(log: str) -> dict[str, Usage]:
    """Return each kernel's Usage, by mangled name, from ptxas's messages in the log."""
    usage = {}
    pieces = re.split(r"Compiling entry function '([^']+)'", log)
    for kernel, text in zip(pieces[1::2], pieces[2::2]):
        found = {name: re.search(pattern, text) for name, pattern in _USAGE.items()}
        numbers = {name: int(match[1]) for name, match in found.items() if match}
        usage[kernel] = Usage(**numbers)
    return usage


_USAGE = {  # the pattern of each field of Usage in ptxas's messages
    **{"registers": r"Used (\d+) registers", "shared": r"(\d+) bytes smem"},
    **{"stack": r"(\d+) bytes stack frame", "spill_loads": r"(\d+) bytes spill loads"},
    "spill_stores": r"(\d+) bytes spill stores",
}


def _remove_ptxas(log: str) -> str:
    """Return the log without ptxas's resource lines and NVRTC's closing remark."""
    noise = re.compile(r"ptxas( info|  )|Remark: The warnings can be suppressed")
    lines = [line for line in log.splitlines() if not noise.match(line)]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    for long, short in _SHORTER.items():
        text = re.sub(long, short, text)
    return text


_HOST_FUNCTION = "a __host__ function"
# The full messages recommend an option that would hide a missing __device__.
_SHORTER = {
    r"A function without execution space annotations .* in JIT mode": (
        f"{_HOST_FUNCTION}: it is marked neither __device__ nor __global__"
    ),
    r"A namespace scope variable without memory space annotations .* in JIT mode": (
        "a __host__ variable: it is marked neither __device__ nor __constant__"
    ),
}


def _only_constexpr(log: str, source: str) -> bool:
    """Return whether every error is about a constexpr function without __device__."""
    lines = source.splitlines()
    errors = re.findall(r"^.*?\((\d+)\): (?:catastrophic )?error: (.*)$", log, re.M)
    return bool(errors) and all(
        _HOST_FUNCTION in message
        and int(line) <= len(lines)
        and "constexpr" in lines[int(line) - 1]
        for line, message in errors
    )


def _lower_name(program: Any, expression: str) -> str:
    name = ffi.new("char const **")
    _check(_open_library().nvrtcGetLoweredName(program, expression.encode(), name))
    return ffi.string(name[0]).decode()


def _get(program: Any, part: str) -> bytes:
    size = ffi.new("size_t *")
    library = _open_library()
    _check(getattr(library, f"nvrtcGet{part}Size")(program, size))
    data = ffi.new("char[]", size[0])
    _check(getattr(library, f"nvrtcGet{part}")(program, data))
    return bytes(ffi.buffer(data))


def _read_text(program: Any, part: str) -> str:
    return _get(program, part).rstrip(b"\0").decode(errors="replace")


def _make_strings(texts: Any) -> list[Any]:
    """Return char arrays; the caller must keep them while C uses their addresses."""
    return [ffi.new("char[]", text.encode()) for text in texts]


# ---- the library --------------------------------------------------------------


@functools.cache
def _open_library() -> Any:
    """Open NVRTC of torch's CUDA release, otherwise the newest version found."""
    from cuda import pathfinder

    release = _torch_cuda()
    try:
        path = pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path
        library = ffi.dlopen(path)
    except Exception as error:  # the exceptions depend on pathfinder's version
        first = (str(error).splitlines() or [type(error).__name__])[0]
        cure = pip_command(_PACKAGE)
        raise BuildError(f"no NVRTC ({first}): {cure}") from None
    if release in (None, _read_version(library)[0]):
        return library
    for file in _list_candidates(release):
        try:
            return ffi.dlopen(file)
        except OSError:
            continue
    return library


def _list_candidates(major: int) -> list[str]:
    """Return files installed by pip that may be NVRTC of CUDA release `major`."""
    paths = []
    for name in (f"nvidia-cuda-nvrtc-cu{major}", "nvidia-cuda-nvrtc"):
        try:
            files = importlib.metadata.files(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        paths += [str(f.locate()) for f in files if f.name == f"libnvrtc.so.{major}"]
    return [*paths, f"libnvrtc.so.{major}"]


def _torch_cuda() -> int | None:
    import torch

    return int(torch.version.cuda.split(".")[0]) if torch.version.cuda else None


def _read_version(lib: Any) -> tuple[int, int]:
    major, minor = ffi.new("int *"), ffi.new("int *")
    if lib.nvrtcVersion(major, minor):
        raise BuildError("NVRTC does not report its version")
    return major[0], minor[0]


def _check_arch(arch: str) -> None:
    supported = list_architectures()
    if arch.rstrip("af") not in supported:
        version, known = ".".join(map(str, nvrtc_version())), ", ".join(supported)
        raise BuildError(
            f"NVRTC {version} does not compile for {arch}, only for {known}. "
            f"A newer GPU needs a newer NVRTC ({pip_command(_PACKAGE)} --upgrade)"
        )


def _check(status: int) -> None:
    if status:
        raise BuildError(f"NVRTC: {_describe_error(status)}")


def _describe_error(status: int) -> str:
    return ffi.string(_open_library().nvrtcGetErrorString(status)).decode()
