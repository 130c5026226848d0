"""Refuse the features of CUDA programs that a CPU lacks, and name their lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from . import scanner
from .preprocess import MARKER
from .scanner import RewriteError, ScannedText

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

# Headers of libraries that are not available for the CPU.
LIBRARIES = {
    "cublas.h": "cuBLAS's interface without handles (use cublas_v2.h)",
    "nvblas.h": "NVBLAS",
    "cudnn_": "cuDNN's second interface, of graphs,",
    "cufft": "this part of cuFFT",
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
    """Raise RewriteError for the first call to the driver API in `printed`.

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


# Libraries that run partly on the CPU, by the prefix of their functions' names.
_PARTS = {
    "cublasXt": "cuBLASXt",
    "cublasLt": "cuBLASLt",
    "cublas": "cuBLAS",
    "curand": "cuRAND",
    "cufft": "cuFFT",
    "cudnn": "cuDNN",
}
_UNKNOWN = re.compile(
    r"'(\w+)' (?:was not declared|has not been declared|does not name a type)"
)


def missing_name(message: str, headers: Path) -> str:
    """Explain that the CPU's part of a library lacks a name; "" for other messages.

    message: g++'s message about an unknown name
    headers: the folder with the libraries' headers. If one of them contains the name,
        the program only lacks an #include, and the result is "".
    """
    match = _UNKNOWN.match(message)
    name = match[1] if match else ""
    for start, library in _PARTS.items():
        if name.lower().startswith(start.lower()):
            texts = (path.read_text() for path in headers.glob("cu*.h"))
            if any(re.search(rf"\b{name}\b", text) for text in texts):
                return ""
            return f"{name} is not in the part of {library} that runs on the CPU"
    return ""


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
