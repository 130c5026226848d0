"""polynomial and its gradient in Triton, which compiles them for a GPU.

A program computes BLOCK elements, and the mask excludes those past the end. The
functions have the parameters of weft.h without `rung` and `stream`. Arrays are
contiguous and have fewer than 2^31 elements.
"""

import triton
import triton.language as tl

BLOCK = 1024  # elements per program


@triton.jit
def polynomial_kernel(y, x, count, a0, a1, a2, a3, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < count)
    tl.store(y + i, ((a3 * v + a2) * v + a1) * v + a0, mask=i < count)


@triton.jit
def polynomial_backward_kernel(dx, dy, x, count, a1, a2, a3, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < count)
    slope = (3 * a3 * v + 2 * a2) * v + a1
    tl.store(dx + i, tl.load(dy + i, mask=i < count) * slope, mask=i < count)


def polynomial(y, x, count, a0, a1, a2, a3):
    """Compute y = a0 + a1 x + a2 x^2 + a3 x^3 for `count` elements."""
    grid = (triton.cdiv(count, BLOCK),)
    polynomial_kernel[grid](y, x, count, a0, a1, a2, a3, BLOCK=BLOCK)


def polynomial_backward(dx, dy, x, count, a1, a2, a3):
    """Compute dx = dy (a1 + 2 a2 x + 3 a3 x^2) for `count` elements."""
    grid = (triton.cdiv(count, BLOCK),)
    polynomial_backward_kernel[grid](dx, dy, x, count, a1, a2, a3, BLOCK=BLOCK)
