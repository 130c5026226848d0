"""Rewrite __shared__ declarations and lockstep warps for the simt runtime.

Kernels from before 2017 sum the halves of a warp without a __syncwarp():

    volatile float *s = shared;
    s[i] += s[i + 32];
    s[i] += s[i + 16];

They rely on every lane reading before any lane writes, and mark this by `volatile`.
Such a statement becomes s[i] += simt::lockstep([&] { return s[i + 32]; }). The lanes
that reach it together then meet before the write and after it.

__shared__ declarations become members of a struct that the runtime places.

Refuse the features of CUDA programs that a CPU lacks, and name their line.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .. import scanner
from ..scanner import (
    ATTRIBUTE,
    BLANK,
    RewriteError,
    ScannedText,
    find_body,
    function_depths,
    on_one_line,
    replace_spans,
    split_commas,
)
from .preprocess import MARKER

_POINTER = r"(?:\s|\*|\bconst\b|\b__restrict__\b)*\*(?:\s|\bconst\b|\b__restrict__\b)*"
_VOLATILE = re.compile(
    rf"\bvolatile\b[\w\s:]*{_POINTER}(?P<pointer>\w+)"
    r"|\b__shared__\b[\w\s]*\bvolatile\b[\w\s]*?\b(?P<after>\w+)\s*\["
    r"|\bvolatile\b[\w\s]*\b__shared__\b[\w\s]*?\b(?P<before>\w+)\s*\["
)
_CLASS = re.compile(r"\b(?:struct|class|union)\b[^;{}()]*\Z")
_ASSIGNED = r"\b(?P<name>{names})\s*\[[^;{{}}=]*\]\s*(?:[-+*/|&^]|<<|>>)?=(?!=)"


def rewrite_lockstep(text: ScannedText) -> str:
    scopes: dict[str, list[range]] = {}
    for match in _VOLATILE.finditer(text.code):
        scopes.setdefault(match[match.lastgroup], []).append(
            _scope_before(text, match.end())
        )
    if not scopes:
        return text.raw

    def is_volatile(match: re.Match[str]) -> bool:
        return any(match.start() in scope for scope in scopes[match["name"]])

    names = "|".join(map(re.escape, sorted(scopes)))
    reads = re.compile(rf"\b(?P<name>{names})\s*\[")
    edits = []
    for match in re.finditer(_ASSIGNED.format(names=names), text.code):
        end = text.code.find(";", match.end())
        value = text.code[match.end() : end]
        # Rewrite only single statements that read elements that other lanes write.
        is_balanced = value.count("(") == value.count(")")
        is_plain = is_balanced and not re.search(r"[{}#]", value)
        if not (end > 0 and is_plain and is_volatile(match)):
            continue
        if any(
            is_volatile(read) for read in reads.finditer(text.code, match.end(), end)
        ):
            # In s[i]=s[j]; no space precedes the value, but `return` needs one.
            space = "" if value[0].isspace() else " "
            opening = f" simt::lockstep([&] {{ return{space}"
            edits.append((match.end(), match.end(), opening))
            edits.append((end, end, "; })"))
    return replace_spans(text, edits)


def _scope_before(text: ScannedText, offset: int) -> range:
    """Return the range in which a declaration that ends at `offset` is valid.

    For a parameter, this is the body of the function; for a class member, the rest of
    the file; for any other name, the rest of the enclosing braces or of the file.
    """
    open_brackets: list[int] = []
    for match in re.finditer(r"[(){}]", text.code[:offset]):
        if match.group() in "({":
            open_brackets.append(match.start())
        elif open_brackets:
            open_brackets.pop()
    rest_of_file = range(offset, len(text.code))
    if not open_brackets:
        return rest_of_file
    kind = text.code[open_brackets[-1]]
    if kind == "{" and _CLASS.search(text.code, 0, open_brackets[-1]):
        return rest_of_file
    try:
        end = text.close(open_brackets[-1])
        if kind == "{":
            return range(offset, end)
        start = find_body(text.code, end + 1)
        return range(start, text.close(start)) if start else range(0)
    except RewriteError:  # an #if may have unbalanced braces in its branches
        return rest_of_file


# Text that may precede __shared__: `static`, which has no effect here, and words that
# belong to the type.
_BEFORE_SHARED = re.compile(
    rf"(?:(?:{ATTRIBUTE.pattern}|\b[A-Za-z_]\w*(?:\s*::\s*\w+)*)\s*)+$"
)
_NOT_OF_THE_TYPE = re.compile(r"\b(?:extern|static|__device__|inline)\b")


def rewrite_shared(text: ScannedText) -> str:
    edits = []
    depths = function_depths(text.code)
    for number, match in enumerate(re.finditer(r"\b__shared__\b", text.code)):
        end = text.code.find(";", match.end())
        brace = text.code.find("{", match.end())
        if 0 <= brace < end:  # as in __shared__ struct { ... } s;
            end = text.code.find(";", text.close(brace))
        if end < 0:
            raise text.error(match.start(), "this __shared__ has no ;")
        start, head = _before_shared(text, match.start())
        at = match.end()
        in_function = depths(start)
        # `__shared__ extern` means the same as `extern __shared__`.
        extern = re.match(r"\s*extern\b", text.code[at:end])
        at += extern.end() if extern else 0
        kind = _NOT_OF_THE_TYPE.sub("", head).strip()
        if extern or re.search(r"\bextern\b", head):
            new = _rewrite_dynamic(text, start, at, end, in_function, kind)
            edits.append((start, end + 1, new))
            continue
        if not in_function:
            raise text.error(
                start, "move this __shared__ array into the kernel that uses it"
            )
        parts = split_commas(text.code, at, end)
        names = [_declared_name(text, *part) for part in parts]
        references = " ".join(
            f"[[maybe_unused]] auto &{n} = simt_{number}_arrays.{n};" for n in names
        )
        edits.append((start, at, f"struct simt_shared_{number} {{{kind}"))
        kind = f"simt_shared_{number}"
        member_names = " ".join(f"SIMT_NAMED({kind}, {name})" for name in names)
        tail = f"; }}; SIMT_SHARED(simt_{number}, {kind}, {member_names}); {references}"
        edits.append((end, end + 1, tail))
    return replace_spans(text, edits)


def _before_shared(text: ScannedText, end: int) -> tuple[int, str]:
    """Return the start of the declaration with a __shared__ at `end`, and its head."""
    line_start = max(text.code.rfind(c, 0, end) for c in "\n;{}")
    line = text.code[line_start + 1 : end].replace(BLANK, " ")
    match = _BEFORE_SHARED.search(line)
    if not match:
        return end, ""
    return line_start + 1 + match.start(), match.group()


def _rewrite_dynamic(
    text: ScannedText, start: int, at: int, end: int, in_function: bool, head: str
) -> str:
    """Return the replacement for `extern head __shared__ T name[];`."""
    raw, breaks = on_one_line(text, at, end)
    raw = f"{head} {raw}"
    match = re.fullmatch(
        r"\s*(?P<type>.*?[\s*&>])\s*(?P<name>\w+)\s*(?P<dims>\[\s*\].*?)\s*",
        ATTRIBUTE.sub(" ", raw),
    )
    if not match:
        raise text.error(start, "write it as: extern __shared__ T name[];")
    kind, name, dims = match["type"].strip(), match["name"], match["dims"]
    if not in_function:
        named = f"{name} SIMT_CALLED({name})"
        return f"static const simt::DynamicShared<{kind}> {named};{breaks}"
    return (
        f"[[maybe_unused]] {kind} (&{name}){dims} = "
        f'*({kind} (*){dims})simt::dynamic_shared("{name}", sizeof({kind}));{breaks}'
    )


def _declared_name(text: ScannedText, start: int, end: int) -> str:
    """Return the name that the declarator in [start, end) declares."""
    code = ATTRIBUTE.sub(" ", text.code[start:end].replace(BLANK, " "))
    code = re.sub(r"\b(?:struct|union|class|enum)\b.*\}", " ", code, flags=re.S)
    if "=" in code or "{" in code:
        raise text.error(start, "a __shared__ variable cannot be initialised")
    match = re.search(r"\b([A-Za-z_]\w*)\s*$", code.split("[")[0])
    if not match:
        raise text.error(start, "cannot find the name of this __shared__ variable")
    return match[1]


# ---- unsupported CUDA C --------------------------------------------------------------


ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b(?=[\s\w]*\()")
_FEATURES = [
    (r"\b(?:tex[123]D(?:fetch|Lod|Grad|Layered\w*)?|tex2Dgather|texCubemap\w*)\s*[(<]"
     r"|\bcudaTextureObject_t\b|\bcudaBindTexture\w*|\btexture\s*<",
     "textures do not run on the CPU"),
    (r"\bsurf(?:[123]D|Cubemap)\w*(?:read|write)\s*[(<]|\bcudaSurfaceObject_t\b"
     r"|\bsurface\s*<",
     "surfaces do not run on the CPU"),
]  # fmt: skip
_UNSUPPORTED = [(re.compile(pattern), message) for pattern, message in _FEATURES]

# Headers of libraries that have no CPU build here.
LIBRARIES = {
    "cublas": "cuBLAS",
    "cudnn": "cuDNN",
    "cufft": "cuFFT",
    "curand.h": "cuRAND's host interface",
    "cusparse": "cuSPARSE",
    "cusolver": "cuSOLVER",
    "nccl": "NCCL",
    "nvrtc": "NVRTC",
    "nvml": "NVML",
    "npp": "NPP",
    "cuda.h": "the driver API",
    "cudaProfiler.h": "the driver API",
    "thrust/": "Thrust",
    "cub/": "CUB",
    "cuda/": "libcu++",
    "cute/": "CuTe",
    "cutlass/": "CUTLASS",
    "mpi.h": "MPI",
    "GL/": "OpenGL",
    "cuda_gl_interop": "OpenGL",
    "cuda_egl": "EGL",
    "cudaEGL": "EGL",
    "cuda_d3d": "Direct3D",
    "vulkan/": "Vulkan",
    "GLFW/": "OpenGL",
    "torch/": "PyTorch",
}


def refuse(text: ScannedText) -> None:
    """Raise RewriteError if `text` has a construct that a CPU does not support."""
    for pattern, message in _UNSUPPORTED:
        if match := pattern.search(text.code):
            raise text.error(
                match.start(), f"{message}: '{match.group().strip('(< ')}'"
            )
    bodies = device_bodies(text)
    for match in ASM.finditer(text.code):
        if _is_within(bodies, match.start()) and not _is_empty(text, match.end()):
            raise text.error(match.start(), "inline PTX cannot run on the CPU")
    for match in scanner.LAUNCH.finditer(text.code):
        if _is_within(bodies, match.start()):
            raise text.error(
                match.start(),
                "a kernel that launches kernels (dynamic parallelism) does not run "
                "on the CPU",
            )


_DRIVER = re.compile(
    r"(?<![\w.>:])cu(?:Init|Device|Ctx|Module|Mem|Launch|Func|Stream|Event|GetError"
    r"|GetProc|Link|Tex|Surf|Array|Graph|Param|Occupancy|Pointer|Ipc|Library|Kernel"
    r"|Tensor|Driver|Profiler|Import|External)\w*(?=\s*\()"
)


def refuse_driver_api(printed: str, simt: str) -> None:
    """Raise RewriteError for the first call of the driver API in `printed`.

    printed: a preprocessed source with its line markers
    simt: the folder of kernels/simt, whose cuda.h declares only types
    """
    if not re.search(rf'"{re.escape(simt)}/(?:include/)?cuda\.h"', printed):
        return
    file, number = "", 0
    for row in printed.split("\n"):
        if mark := MARKER.fullmatch(row):
            is_own = not mark[2].startswith((simt, "<")) and "3" not in mark[3]
            file, number = mark[2] if is_own else "", int(mark[1])
            continue
        call = _DRIVER.search(scanner.NOT_CODE.sub("", row)) if file else None
        if call:
            raise RewriteError(
                f"{file}:{number}: {call.group()}(): the driver API does not run on "
                "the CPU: use the runtime API, or a GPU"
            )
        number += 1


def missing_header(name: str) -> str:
    """Explain why a header that g++ did not find is missing."""
    for start, library in LIBRARIES.items():
        if name.startswith(start):
            return f"{library} needs a GPU, and has no CPU version: '{name}'"
    return f"there is no '{name}' (-I DIR adds a folder to search)"


def device_bodies(text: ScannedText) -> list[tuple[int, int, str]]:
    """List the bodies of device functions: start, end, "device" or "both"."""
    bodies = []
    for match in re.finditer(r"\b__(?:global|device)__\b", text.code):
        brace = scanner.find_body(text.code, match.end())
        if brace is not None:
            head = max(text.code.rfind(c, 0, match.start()) for c in ";{}")
            is_host_too = re.search(r"\b__host__\b", text.code[head + 1 : brace])
            close = text.close(brace)
            bodies.append((brace, close, "both" if is_host_too else "device"))
    return bodies


def device_names(text: ScannedText) -> set[str]:
    """Return the names of functions and variables that only the device has."""
    names = set()
    for match in re.finditer(
        r"\b__(?:device|constant|managed)__\b([^;={(]*?)(\w+)\s*[\[(;={]", text.code
    ):
        if "__host__" not in match[1]:
            names.add(match[2])
    return names


def kind_of_code(text: ScannedText) -> Callable[[int], str]:
    """Return a function that maps an offset to "device", "host" or "" (neither)."""
    bodies = device_bodies(text)
    in_function = scanner.function_depths(text.code)

    def kind(offset: int) -> str:
        for start, end, owner in bodies:
            if start < offset < end and owner == "device":
                return "device"
        return "host" if in_function(offset) else ""

    return kind


def _is_within(bodies: list[tuple[int, int, str]], offset: int) -> bool:
    return any(start < offset < end for start, end, _ in bodies)


def _is_empty(text: ScannedText, offset: int) -> bool:
    """Return whether this asm() only keeps the compiler from moving code."""
    return bool(re.match(r'[\s\w]*\(\s*""', text.raw[offset:]))
