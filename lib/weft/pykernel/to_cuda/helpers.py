"""The few functions that a translated kernel may bring along."""

from __future__ import annotations

import re

_WHOLE_DIV = """\
/* a // b as in Python: rounded down. */
static __device__ T floor_div(T a, T b) {
    const T q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}"""
_WHOLE_MOD = """\
/* a % b as in Python: with the sign of b. */
static __device__ T floor_mod(T a, T b) {
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}"""
_FLOAT_DIV = """\
/* a // b as in Python: rounded down, whatever a / b is rounded to. */
static __device__ T floor_div(T a, T b) {
    if (b == 0) return a / b;
    T r = FMOD(a, b);
    T q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1;
    if (q == 0) return COPYSIGN(0, a / b);
    const T whole = FLOOR(q);
    return q - whole > HALF ? whole + 1 : whole;
}"""
_FLOAT_MOD = """\
/* a % b as in Python: with the sign of b. */
static __device__ T floor_mod(T a, T b) {
    const T r = FMOD(a, b);
    if (r == 0) return COPYSIGN(r, b);
    return (b < 0) != (r < 0) ? r + b : r;
}"""
_POWER = """\
/* a ** b for a b that is not negative. */
static __device__ T power(T a, int b) {
    T result = 1;
    for (; b > 0; b >>= 1) {
        if (b & 1) result *= a;
        a *= a;
    }
    return result;
}"""
_LEAST = """\
/* The WORD of two as in Python: the first of equals, and of a NaN and a number. */
static __device__ T NAME(T a, T b) { return b SIGN a ? b : a; }"""
_LANEID = """\
/* The thread's number in its warp, for blocks of any shape. */
static __device__ int laneid() {
    const unsigned row = threadIdx.z * blockDim.y + threadIdx.y;
    return (row * blockDim.x + threadIdx.x) % warpSize;
}"""
_ATOMIC = """\
/* *address = the WORD of it and value, in one step; returns what it was.
 * NAN_RULE */
static __device__ T NAME(T *address, T value) {
    BITS *bits = (BITS *)address, seen = *(volatile BITS *)bits;
    for (;;) {
        const T old = TO_FLOAT(seen);
        if (STOP) return old;
        const BITS found = atomicCAS(bits, seen, TO_BITS(value));
        if (found == seen) return old;
        seen = found;
    }
}"""
_STOP = {
    "atomic_min": "old <= value || old != old",
    "atomic_max": "old >= value || old != old",
    "atomic_nanmin": "old <= value || value != value",
    "atomic_nanmax": "old >= value || value != value",
}
_FLOATS = {
    "float": ("unsigned", "__uint_as_float", "__float_as_uint"),
    "double": ("unsigned long long", "__longlong_as_double", "__double_as_longlong"),
}


def write_helper(name: str, type_: str = "") -> str:
    """The text of a helper for a C type."""
    if name == "laneid":
        return _LANEID
    if name.startswith("atomic_"):
        return _write_atomic(name, type_)
    if name.endswith("imum"):
        small = name == "minimum"
        text = _LEAST.replace("NAME", name).replace("SIGN", "<" if small else ">")
        text = text.replace("WORD", "smaller" if small else "larger")
        return _write_typed(text, type_)
    text = {"floor_div": _WHOLE_DIV, "floor_mod": _WHOLE_MOD, "power": _POWER}[name]
    if type_ in ("float", "double"):
        text = _FLOAT_DIV if name == "floor_div" else _FLOAT_MOD
    end = "f" if type_ == "float" else ""
    for word in ("FMOD", "FLOOR", "COPYSIGN"):
        text = text.replace(word, word.lower() + end)
    text = text.replace("(0, a / b)", f"(0.0{end}, a / b)")
    text = text.replace("HALF", f"0.5{end}")
    return _write_typed(text, type_)


def _write_atomic(name: str, type_: str) -> str:
    bits, to_float, to_bits = _FLOATS[type_]
    rule = "A NaN gives way." if "nan" in name else "A NaN stays."
    text = _ATOMIC.replace("NAN_RULE", rule).replace("NAME", name)
    text = text.replace("WORD", "smaller" if name.endswith("min") else "larger")
    text = text.replace("STOP", _STOP[name]).replace("TO_FLOAT", to_float)
    return _write_typed(text.replace("TO_BITS", to_bits).replace("BITS", bits), type_)


def _write_typed(text: str, type_: str) -> str:
    return re.sub(r"\bT\b", type_, text)
