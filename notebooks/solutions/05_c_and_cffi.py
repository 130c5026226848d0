"""Answers to the exercises of 05_c_and_cffi.ipynb, and mistakes that must not pass.

The answers in C stand in 05_c_and_cffi.c; a mistake is what to replace in one.
"""

import numpy as np


def safe_saxpy(saxpy, ffi, y, x, a):
    for v in (y, x):
        if v.dtype != np.float32 or v.ndim != 1 or not v.flags.c_contiguous:
            raise ValueError(f"want 1D contiguous float32, got {v.dtype} {v.shape}")
    if y.shape != x.shape:
        raise ValueError(f"y has {y.size} elements, x has {x.size}")
    saxpy(*(ffi.from_buffer("float[]", v) for v in (y, x)), a, y.size)


def _trusting(saxpy, ffi, y, x, a):
    saxpy(*(ffi.from_buffer("float[]", v) for v in (y, x)), a, y.size)


def _too_late(saxpy, ffi, y, x, a):
    _trusting(saxpy, ffi, y, x, a)
    safe_saxpy(lambda *_: None, ffi, y, x, a)


def _any_length(saxpy, ffi, y, x, a):
    safe_saxpy(lambda *_: None, ffi, y, np.resize(x, y.shape), a)
    _trusting(saxpy, ffi, y, x, a)


MISTAKES = {
    "swap": [
        ("*b = kept", "*b = *a"),  # both become b
        ("*a = *b;", ""),
        ("*b = kept", "b = (float *)&kept"),  # only the copy of the pointer
    ],
    "zeros": [
        ("*out = room", "out = &room"),  # the caller sees nothing
        ("calloc(n, sizeof(float))", "malloc(n * sizeof(float))"),
        ("if (room == NULL) return -1;", ""),
        ("return 0;", "return 1;"),
    ],
    "last_index": [
        ("i = n; i-- > 0;", "i = n - 1; i < n; i++"),  # only the last
        ("i = n; i-- > 0;", "i = 0; i < n; i++"),  # the first of them
        ("i = n; i-- > 0;", "i = n - 1; i >= 0; i--"),  # does not end
    ],
    "matmul_tn": [
        ("a[i * m + row]", "a[row * k + i]"),  # not transposed
        ("for (int at = 0; at < m * n; at++) c[at] = 0;", ""),
        ("at < m * n", "at < (m + 1) * n"),  # behind the end
    ],
    "safe_saxpy": [_trusting, _too_late, _any_length],
}
