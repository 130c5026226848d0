"""Answers to the exercises of 06_cuda_c.ipynb, and mistakes that must not pass.

The answers in CUDA C stand in 06_cuda_c.cu; a mistake is what to replace in one.
"""

from utils import cdiv


def grid_for(rows, cols, block):
    return cdiv(cols, block[0]), cdiv(rows, block[1])


MISTAKES = {
    "grid_for": [
        lambda rows, cols, block: (cdiv(rows, block[0]), cdiv(cols, block[1])),
        lambda rows, cols, block: (cols // block[0], rows // block[1]),
        lambda rows, cols, block: (cols // block[0] + 1, rows // block[1] + 1),
    ],
    "reverse": [
        ("if (i < n) ", "if (i < n + 1) "),
        ("x[n - 1 - i]", "x[n - i]"),
        ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),
    ],
    "transpose": [
        ("out[col * rows + row]", "out[row * cols + col]"),
        ("row < rows && ", ""),
        ("out[col * rows + row]", "out[col * cols + row]"),
    ],
    "count_above": [
        ("atomicAdd(count, mine)", "*count = mine"),  # the last one wins
        ("i += gridDim.x * blockDim.x", "i += blockDim.x"),
        ("i += gridDim.x * blockDim.x", "i += n"),  # one element each
        ("x[i] > limit", "x[i] < limit"),
        ("i < n", "i <= n"),
    ],
}
