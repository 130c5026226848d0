"""Headers for cells: the session's headers, and headers included implicitly.

All cells of a session can include a header written by %%cuda_header name.cuh.

nvcc includes <stdint.h>, <math.h> and <limits.h> in every source, so kernels use
uint32_t and INFINITY without including anything. NVRTC has no host headers, so a
prelude supplies these names. Teaching programs include <stdio.h> for printf, which is
built into NVRTC: that header exists, but is empty.

nvcc also accepts the parts of the host's C++ library that need neither memory nor
exceptions: std::numeric_limits, std::move, std::is_same_v. g++ has them, too. For NVRTC
they come from NVIDIA's C++ library, cuda::std. A cell that names std:: gets these
headers without including them, as under nvcc.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ..base.errors import ArgumentError
from ..csource.scanner import INCLUDE

_texts: dict[str, str] = {}
version = 0  # incremented by each change


def add(name: str, text: str) -> None:
    """Add a header for later cells to include, or replace the header of that name.

    The name may contain folders ("tiles/load.cuh"). Raises ArgumentError for names with
    an unknown suffix, and for names such as "../a.cuh" or "/a.cuh".
    """
    global version
    if not re.fullmatch(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*\.(?:cuh?|hpp|h|inc)", name):
        cure = "use letters, digits, - and _, and end in .cuh or .h, e.g. tiles.cuh"
        raise ArgumentError(f"{name!r} is not a header name: {cure}")
    if _texts.get(name) != text:
        _texts[name] = text
        version += 1


def select_used(source: str, folder: Path | None = None) -> dict[str, str]:
    """Return the headers that `source` includes, directly or indirectly, by name.

    folder: folder of the source's file, if there is one; headers included in quotes are
        also searched for in it.
    """

    def read(bracket: str, name: str) -> str | None:
        text = _texts.get(name)
        if text is None and folder and bracket == '"':
            text = _read_beside(folder, name)
        return text

    return follow_includes(source, read)


def follow_includes(source: str, read: Callable[..., str | None]) -> dict[str, str]:
    """Return the headers, by name, that `source` includes, directly or indirectly.

    read: function that takes a bracket (" or <) and a name; returns the text or None
    """
    included: dict[str, str] = {}
    texts = [source]
    while texts:
        for match in INCLUDE.finditer(texts.pop()):
            name = match["name"]
            text = None if name in included else read(match["bracket"], name)
            if text is not None:
                included[name] = text
                texts.append(text)
    return included


def _read_beside(folder: Path, name: str) -> str | None:
    """Return the text of a header in `folder`; None if it is not in the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        return None
    path = folder / name
    return path.read_text() if path.is_file() else None


NAME = "weft_prelude.h"

# Sources without these names do not need <cuda/atomic> in cooperative_groups.h.
NEEDS_ATOMIC = r"\b(thread_scope|(reduce_store|reduce_update)_async|\w+_scan_update)\b"

# Headers whose names begin with one of these define the macros below differently.
REDEFINES = ("cuda/", "cub/", "thrust/", "curand")

_INTEGERS = {
    **{"int8_t": "signed char", "uint8_t": "unsigned char"},
    **{"int16_t": "short", "uint16_t": "unsigned short"},
    **{"int32_t": "int", "uint32_t": "unsigned int"},
    # NVIDIA's C++ library defines the same types under NVRTC; other types would clash.
    **{"int64_t": "long long", "uint64_t": "unsigned long long"},
    **{"intptr_t": "long long", "uintptr_t": "unsigned long long"},
}

# Macros of C17 5.2.4.2 and 7.12, and of POSIX's <math.h>, for x86-64 and Arm Linux.
MACROS = {
    **{"CHAR_BIT": "8", "SCHAR_MIN": "(-128)", "SCHAR_MAX": "127"},
    **{"UCHAR_MAX": "255", "SHRT_MIN": "(-32768)", "SHRT_MAX": "32767"},
    **{"USHRT_MAX": "65535", "INT_MIN": "(-2147483647 - 1)", "INT_MAX": "2147483647"},
    **{"UINT_MAX": "4294967295U", "LONG_MAX": "9223372036854775807L"},
    **{"LONG_MIN": "(-9223372036854775807L - 1)"},
    **{"ULONG_MAX": "18446744073709551615UL", "LLONG_MAX": "9223372036854775807LL"},
    **{"LLONG_MIN": "(-9223372036854775807LL - 1)"},
    **{"ULLONG_MAX": "18446744073709551615ULL"},
    **{"INT8_MIN": "(-128)", "INT8_MAX": "127", "UINT8_MAX": "255"},
    **{"INT16_MIN": "(-32768)", "INT16_MAX": "32767", "UINT16_MAX": "65535"},
    **{"INT32_MIN": "(-2147483647 - 1)", "INT32_MAX": "2147483647"},
    **{"UINT32_MAX": "4294967295U", "INT64_MIN": "(-9223372036854775807L - 1)"},
    **{"INT64_MAX": "9223372036854775807L", "UINT64_MAX": "18446744073709551615UL"},
    **{"SIZE_MAX": "18446744073709551615UL"},
    **{"FLT_RADIX": "2", "FLT_DIG": "6", "FLT_MANT_DIG": "24"},
    **{"FLT_MIN": "1.17549435e-38F", "FLT_MAX": "3.40282347e+38F"},
    **{"FLT_EPSILON": "1.19209290e-07F", "DBL_DIG": "15", "DBL_MANT_DIG": "53"},
    **{"DBL_MIN": "2.2250738585072014e-308", "DBL_MAX": "1.7976931348623157e+308"},
    **{"DBL_EPSILON": "2.2204460492503131e-16"},
    **{"HUGE_VALF": "__int_as_float(0x7f800000)", "NAN": "__int_as_float(0x7fc00000)"},
    "INFINITY": "__int_as_float(0x7f800000)",
    "HUGE_VAL": "__longlong_as_double(0x7ff0000000000000LL)",
    **{"M_E": "2.7182818284590452354", "M_LOG2E": "1.4426950408889634074"},
    **{"M_LOG10E": "0.43429448190325182765", "M_LN2": "0.69314718055994530942"},
    **{"M_LN10": "2.30258509299404568402", "M_PI": "3.14159265358979323846"},
    **{"M_PI_2": "1.57079632679489661923", "M_PI_4": "0.78539816339744830962"},
    **{"M_1_PI": "0.31830988618379067154", "M_2_PI": "0.63661977236758134308"},
    **{"M_2_SQRTPI": "1.12837916709551257390", "M_SQRT2": "1.41421356237309504880"},
    **{"M_SQRT1_2": "0.70710678118654752440"},
}
MACRO_LINES = "".join(
    f"#ifndef {n}\n#define {n} {v}\n#endif\n" for n, v in MACROS.items()
)

_C = (
    *("assert", "ctype", "errno", "float", "limits", "math", "stdbool", "stddef"),
    *("stdint", "stdio", "stdlib", "string", "time"),
)
_EMPTY = [
    *(f"{name}.h" for name in _C),
    *(f"c{name}" for name in _C),
    *("cuda_runtime.h", "device_launch_parameters.h"),
]


# The <cmath> functions that both compilers support for float and double.
_MATH = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt"),
    *("ceil", "copysign", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1"),
    *("fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "hypot", "isfinite"),
    *("isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "pow", "round"),
    *("sin", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc"),
)
_USINGS = "".join(f"using ::{name};\n" for name in _MATH)
_CMATH = f"#pragma once\nnamespace std {{\n{_USINGS}}}\n"
_MIN_MAX = """#pragma once
namespace std {
template <class T> __host__ __device__ constexpr const T &min(const T &a, const T &b) {
    return b < a ? b : a;
}
template <class T> __host__ __device__ constexpr const T &max(const T &a, const T &b) {
    return a < b ? b : a;
}
}
"""

# Headers that declare names in std under g++, and in cuda::std under NVRTC.
_STD = (
    *("array", "bit", "concepts", "initializer_list", "limits", "numeric", "optional"),
    *("ratio", "span", "tuple", "type_traits", "utility", "variant"),
)
_HEADER_OF = {
    **{name: name for name in _STD},
    **dict.fromkeys(("exchange", "forward", "move", "pair", "swap"), "utility"),
    **{"numeric_limits": "limits", "min": "weft_min_max.h", "max": "weft_min_max.h"},
    **dict.fromkeys(_MATH, "cmath"),
}


def std_headers(code: str) -> list[str]:
    """List the headers that declare the std:: names in `code` ("std::move": utility).

    code: a source text without comments and strings. Unknown names are assumed to be in
        <type_traits>.
    """
    names = re.findall(r"(?<!cuda::)\bstd::(\w+)", code)
    return sorted({_HEADER_OF.get(name, "type_traits") for name in names})


# Headers that `#include <name>` finds before any file: CPU_HEADERS for g++, HEADERS for
# NVRTC.
CPU_HEADERS = {
    "cmath": _CMATH,
    # <algorithm> would include <cstdlib>.
    "weft_min_max.h": "#include <bits/stl_algobase.h>\n",
}
_TYPES = "".join(f"typedef {ctype} {name};\n" for name, ctype in _INTEGERS.items())
_USE_CUDA = "namespace std { using namespace cuda::std; }\n"
HEADERS = {
    NAME: f"#pragma once\n{_TYPES}{MACRO_LINES}",
    **dict.fromkeys(_EMPTY, ""),
    **{name: f"#include <cuda/std/{name}>\n{_USE_CUDA}" for name in _STD},
    **{"cmath": _CMATH, "weft_min_max.h": _MIN_MAX},
}
