"""One sentence for a usual mistake in a cell."""

from __future__ import annotations

import difflib
import re

_CUDA = [
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "__syncthreads"),
    *("__syncwarp", "__shfl_down_sync", "__shfl_xor_sync", "__shfl_sync"),
    *("__shfl_up_sync", "__ballot_sync", "__any_sync", "__all_sync", "__popc"),
    *("__activemask", "__shared__", "__global__", "__device__", "__constant__"),
    *("__restrict__", "__threadfence", "__ldg", "__launch_bounds__"),
    *("atomicAdd", "atomicSub", "atomicMax", "atomicMin", "atomicExch", "atomicCAS"),
    *("fminf", "fmaxf", "sqrtf", "rsqrtf", "expf", "logf", "powf", "sinf", "cosf"),
    *("fabsf", "floorf", "ceilf", "fmaf", "tanhf", "make_float2", "make_float4"),
    *("unsigned", "float", "double", "int", "return", "const", "printf"),
]
_PYTHON = {
    "True": "C writes true",
    "False": "C writes false",
    "None": "C has no None: use nullptr for a pointer, or a number",
    "elif": "C writes else if",
    "def": "a cell of %%cuda holds CUDA C, not Python",
    "range": "C counts with for (int i = 0; i < n; i++)",
    "len": "an array does not know its length in C: pass it as a parameter",
    "self": "a cell of %%cuda holds CUDA C, not Python",
    "print": 'C prints with printf("%d\\n", i)',
    "pass": "C needs nothing there: an empty body is {}",
    "lambda": "C++ writes [=](float x) { return ...; }",
    "cuda": "CUDA C needs no cuda. before threadIdx and the like",
    "math": "C needs no math.: sqrtf(x), expf(x)",
    "np": "NumPy is Python's: in C write the loop, or a function such as sqrtf(x)",
}
_HEADERS = {
    **dict.fromkeys(
        ("half", "__half", "half2", "__half2", "__float2half"), "cuda_fp16.h"
    ),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16", "__nv_bfloat162"), "cuda_bf16.h"),
    **dict.fromkeys(("curandState", "curand_init"), "curand_kernel.h"),
    **dict.fromkeys(("cg", "cooperative_groups"), "cooperative_groups.h"),
}
_HOST = (
    "a cell holds what runs on the GPU, and Python does the rest: launch with "
    "name[grid, block](...); a whole program runs with python -m weft run"
)
_PTX = (
    '#include "ptx.cuh" has tensor cores, asynchronous copies and more, each with a '
    "twin for the CPU; with --gpu the cell runs on a GPU"
)


def find_hint(message: str, line: str, source: str) -> str:
    """What probably was meant; "" if nobody can tell.

    message: the compiler's; line: the one it is about; source: the whole cell.
    """
    if message.startswith("inline PTX"):
        return _PTX
    for test in (_unknown_name, _hint_python, _hint_types, _hint_syntax):
        found = test(message, line, source)
        if found:
            return found
    return ""


def find_near_name(name: str, source: str = "") -> str:
    """The name of CUDA's, or of the source's, that `name` probably should be."""
    squeezed = name.strip("_").lower()
    for known in _CUDA:
        if known.strip("_").lower() == squeezed and known != name:
            return known
    own = sorted({w for w in re.findall(r"\b[A-Za-z_]\w*\b", source) if w != name})
    close = difflib.get_close_matches(name, [*_CUDA, *own], 1, 0.8)
    return close[0] if close else ""


def _unknown_name(message: str, line: str, source: str) -> str:
    match = re.search(
        r"'(\w+)'(?: was not declared| does not name a type| has not been declared)"
        r"|identifier \"(\w+)\" is undefined|'(\w+)' in namespace",
        message,
    )
    if not match:
        return ""
    name = match[1] or match[2] or match[3]
    if name in _PYTHON:
        return _PYTHON[name]
    if re.match(r"cuda(?:Texture|Surface)|tex[123]D|surf[123]D", name):
        return "textures are not simulated on the CPU: this needs a GPU (--gpu)"
    if "does not name a type" in message and not line.rstrip().endswith((";", "{")):
        return f"{_PYTHON['def']}: launch kernels in the next cell"
    if name.startswith("cuda") and name[4:5].isupper():
        return _HOST
    if name in _HEADERS:
        return f"#include <{_HEADERS[name]}> declares it"
    if re.search(rf"\b__(device|global)__[^;{{]*\b{name}\s*\(", source):
        return f"{name} stands further down: C wants it before its first use"
    if "did you mean" in message:
        return (
            ""
            if find_near_name(name) == ""
            else f"CUDA writes it {find_near_name(name)}"
        )
    meant = find_near_name(name, source)
    if not meant:
        return ""
    return f"CUDA writes it {meant}" if meant in _CUDA else f"did you mean {meant}?"


def _hint_python(message: str, line: str, source: str) -> str:
    code = line.split('"')[0]
    pointer = "invalid type argument" in message or 'operand of "*"' in message
    if pointer and re.search(r"[\w)\]]\s*\*\*\s*[\w(]", code):
        return "C has no **: write x * x, or powf(x, y)"
    if re.search(r"^\s*(?:def|class \w+\(|import|from)\b.*", line):
        return _PYTHON["def"]
    if "preprocessing directive" in message or re.search(
        r"stray '#'|\"#\" not expected", message
    ):
        return "C writes comments with //"
    if line.startswith("%%"):
        return "%%cuda is a cell's first line, and there is one of it"
    if re.search(r"^\s*for\s+\w+\s+in\b", line):
        return _PYTHON["range"]
    # `a = b // 2` is a comment in C; g++ complains on this line or the next.
    for one in source.splitlines():
        if re.search(r"=[^;/]*[\w)\]]\s*//\s*[\w(]+\s*;?\s*$", one) and (
            "expected" in message
        ):
            return "// begins a comment in C; / divides whole numbers without a rest"
    if re.search(r"^\s*(?:for|while|if)\b[^({]*:\s*$|^\s*else\s*:", line):
        return "C wants ( ) around a condition, and { } instead of a colon"
    return ""


_FORMATS = "%d int, %u unsigned, %f float and double, %lld long long, %zu size_t, %p"


def _hint_types(message: str, line: str, source: str) -> str:
    if re.search(r"format '?%|format \"?%|format specifies", message):
        return f"printf's formats: {_FORMATS}"
    if "48 KB of static" in message:
        return (
            "extern __shared__ float tile[]; takes its size from the launch: "
            "name[grid, block, bytes](...)"
        )
    if re.search(r"\bextern\s+__shared__\s+\w+\s*\[", line):
        return "the type is missing: extern __shared__ float tile[];"
    if "overloaded" in message and re.search(r"\b(?:max|min)\b", message):
        return "both must have one type: fmaxf(x, 0.0f) for float, max(i, 0) for int"
    if re.search(r"no (?:matching function|instance).*\batomic", message):
        return "it takes an address and a number of that type: atomicAdd(&x[0], 1.0f)"
    if re.search(r"variable length array|must have a constant value", message):
        return (
            "an array in a kernel has a size known when it compiles: constexpr int N, "
            "or extern __shared__ with bytes in the launch"
        )
    if re.search(r"size of array '.*' is not an integral constant", message):
        return "extern __shared__ float s[]; takes its size: name[grid, block, bytes]"
    if re.search(
        r"invalid operands.*'(?:float|double)'.*'%'|modulo|to binary 'operator%'",
        message,
    ):
        return "% is for whole numbers; fmodf(x, y) is the one for float"
    if re.search(r"read-only|must be a modifiable lvalue", message):
        return "it is const: what a kernel writes must be a parameter without const"
    if "__host__ function" in message or 'host function("' in message:
        return "write __device__ before the function that a kernel calls"
    if re.search(
        r"invalid types '.*' for array subscript|must have pointer-to-object type",
        message,
    ):
        return "only an array or a pointer can be indexed: look for a missing *"
    missing = re.search(r"No such file or directory|cannot open source file", message)
    if missing and re.search(r"\bc?u(?:blas|dnn|fft|sparse|solver)\w*\.h\b", message):
        return "that library is called by the host: in Python use torch"
    if missing and re.search(r"curand_kernel\.h", message):
        return "on a GPU pip install nvidia-curand brings it; --cpu has its own"
    if missing and re.search(r"\b(?:cuda/|cub/|thrust/|cute/|cutlass/)", message):
        return "NVIDIA's C++ libraries are not simulated on the CPU: this needs a GPU"
    if missing:
        return "%%cuda_header name.cuh makes a header that cells can include"
    return ""


def _hint_syntax(message: str, line: str, source: str) -> str:
    code = re.sub(r'"(?:\\.|[^"\\])*"|//.*', "", line)
    for opening, closing in ("()", "[]"):
        if "expected" in message and code.count(opening) != code.count(closing):
            what = f"the {opening} and {closing} of this line"
            if not re.search(r"^\s*for\b", code):
                return f"count {what}: one of them has no partner"
    if "unterminated #" in message or "#endif for this directive" in message:
        return "its #endif is missing"
    if re.search(r"extended character|unrecognized token", message):
        return "that character only looks like C's: write it anew, \" ' - and the like"
    if re.search(r"expected '?(?:,' or ')?;'?|expected a \";\"", message):
        return "a statement ends with ;"
    if re.search(r"expected '}' at end|'{' is never closed", message):
        return "count the { and }: one of them has no partner"
    if re.search(r"expected declaration before '}'", message):
        return "there is one } too many"
    return ""
