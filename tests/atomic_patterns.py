"""Patterns of atomic additions to ints by the 32 lanes of a warp, and their costs.

PATTERNS: (indices, sectors, wavefronts). sectors: the cost in global memory, measured
by Nsight Compute on an H200 (l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum).
wavefronts: the cost in shared memory, the number of lanes that access the busiest bank.
"""

_FEW = [
    *(27, 63, 29, 32, 24, 4, 0, 47, 10, 41, 40, 9, 21, 13, 4, 32),
    *(63, 10, 18, 58, 61, 63, 0, 48, 10, 54, 51, 21, 54, 6, 46, 46),
]
_MANY = [
    *(61, 140, 36, 7, 14, 122, 222, 20, 59, 147, 170, 19, 228, 22, 188, 248),
    *(200, 207, 233, 172, 36, 201, 21, 54, 203, 26, 52, 82, 171, 194, 154, 193),
]
PATTERNS = {
    "one element": ([0] * 32, 32, 32),
    "neighbours": (list(range(32)), 4, 1),
    "two at one, others far apart": ([0, *range(0, 992, 32)], 32, 32),
    "64 bins": (_FEW, 17, 4),
    "256 bins": (_MANY, 21, 3),
}
