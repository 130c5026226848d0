"""matmul in Triton: one program per tile of c.

Before:  rung 3 loads its tiles into shared memory, with two barriers per step.
Idea:    a program computes a tile of BM x BN. Each step loads two tiles and calls
         tl.dot(). Triton chooses the layouts, and inserts copies and barriers.
Limit:   a search on one GPU has chosen BM, BN and BK. tf32 stays far behind
         rung 31, which feeds the tensor cores by TMA.
"""

import triton
import triton.language as tl

# (BM, BN, BK, warps, stages of the pipeline), large tiles first. A search timed 33 such
# choices at m = k = n = 4096 and 1024. These were the fastest, or within 1 % of it for
# "ieee" at 4096 (NVIDIA H200, Triton 3.6.0, 2026-11-30).
TILES = {
    "ieee": [(128, 64, 32, 8, 3)],
    "tf32": [(256, 128, 32, 8, 3), (128, 64, 32, 4, 4)],
    "tf32x3": [(128, 64, 32, 4, 3), (64, 64, 32, 4, 3)],
    "16 bits": [(128, 256, 64, 8, 3), (64, 64, 32, 4, 3)],
}
PROGRAMS = 128  # minimum: with fewer, much of a large GPU would be idle


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


def choose_tiles(kind, m, n):
    """Return the largest tiles that give enough programs, or the smallest."""
    for tiles in TILES[kind]:
        if triton.cdiv(m, tiles[0]) * triton.cdiv(n, tiles[1]) >= PROGRAMS:
            break
    return tiles


def matmul(c, a, b, m, n, k, precision="fp32"):
    """Compute c (m,n) float32 = a (m,k) @ b (k,n), all of them row-major.

    precision: that of the products, "fp32", "tf32" or "3xtf32"; if a and b have 16
    bits, their products are exact.
    """
    kind = {"tf32": "tf32", "3xtf32": "tf32x3"}.get(precision, "ieee")
    bm, bn, bk, warps, stages = choose_tiles(
        "16 bits" if a.element_size() == 2 else kind, m, n
    )
    grid = (triton.cdiv(m, bm), triton.cdiv(n, bn))
    matmul_kernel[grid](
        c, a, b, m, n, k, kind,
        BM=bm, BN=bn, BK=bk, num_warps=warps, num_stages=stages,
    )  # fmt: skip
