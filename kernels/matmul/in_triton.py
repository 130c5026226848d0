"""matmul in Triton: one program per tile of c.

Before:  rung 3 loads its tiles into shared memory, with two barriers per step.
Idea:    a program computes a tile of BM x BN. Each step loads two tiles and calls
         tl.dot(). Triton chooses the layouts, and inserts copies and barriers.
Limit:   BM, BN and BK are fixed, and no search has chosen them.
"""

import triton
import triton.language as tl

BM, BN, BK = 64, 64, 32


@triton.jit
def matmul_kernel(
    c, a, b, m, n, k, KIND: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * BM + tl.arange(0, BM))[:, None]
    col = (tl.program_id(1) * BN + tl.arange(0, BN))[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, k, BK):
        i, j = k0 + tl.arange(0, BK)[None, :], k0 + tl.arange(0, BK)[:, None]
        a_tile = tl.load(a + row * k + i, mask=(row < m) & (i < k), other=0.0)
        b_tile = tl.load(b + j * n + col, mask=(j < k) & (col < n), other=0.0)
        acc = tl.dot(a_tile, b_tile, acc, input_precision=KIND)
    tl.store(c + row * n + col, acc, mask=(row < m) & (col < n))


def matmul(c, a, b, m, n, k, precision="fp32"):
    """Compute c (m,n) float32 = a (m,k) @ b (k,n), all of them row-major.

    precision: that of the products, "fp32", "tf32" or "3xtf32"; if a and b have 16
    bits, their products are exact.
    """
    kind = {"tf32": "tf32", "3xtf32": "tf32x3"}.get(precision, "ieee")
    grid = (triton.cdiv(m, BM), triton.cdiv(n, BN))
    matmul_kernel[grid](c, a, b, m, n, k, kind, BM=BM, BN=BN, BK=BK)
