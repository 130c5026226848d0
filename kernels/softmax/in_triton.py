"""softmax and its gradient in Triton: one program per row.

Before:  rung 7, the same idea in CUDA C, has a version for each range of lengths.
Idea:    a program holds its whole row in a block, whose length is the next power
         of two; a mask excludes the rest. Triton distributes the elements to
         threads, and turns max and sum into shuffles and shared memory.
Limit:   rows of more than 2^20 elements, which is the length of Triton's longest
         block.
"""

import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y, x, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + i
    # exp(-inf) is 0, so the elements past the end add nothing to the sum.
    v = tl.load(x + at, mask=i < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + at, e / tl.sum(e, axis=0), mask=i < cols)


@triton.jit
def softmax_backward_kernel(dx, dy, y, cols, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + i
    d = tl.load(dy + at, mask=i < cols, other=0.0)
    p = tl.load(y + at, mask=i < cols, other=0.0)
    tl.store(dx + at, p * (d - tl.sum(d * p, axis=0)), mask=i < cols)


def softmax(y, x, rows, cols):
    """Compute y (rows,cols), the softmax of each row of x (rows,cols)."""
    softmax_kernel[(rows,)](y, x, cols, BLOCK=triton.next_power_of_2(cols))


def softmax_backward(dx, dy, y, rows, cols):
    """Compute dx (rows,cols) = y * (dy - sum(dy * y)) with the sum of each row."""
    grid, block = (rows,), triton.next_power_of_2(cols)
    softmax_backward_kernel[grid](dx, dy, y, cols, BLOCK=block)
