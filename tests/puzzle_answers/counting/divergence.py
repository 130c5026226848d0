"""Answers to the puzzle divergence."""

import numpy as np

from weft import cuda

from .. import right, right_c, wrong


@right("divergence", taught=True)
def halves_of_the_grid(out, a):
    me, half = cuda.grid(1), cuda.gridsize(1) // 2
    if me < half:
        out[2 * me] = np.sin(a[2 * me])
    else:
        i = 2 * (me - half) + 1
        out[i] = np.cos(a[i])


right_c(
    "divergence",
    """__global__ void every_second_warp(float *out, const float *a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = i % 32, warp = i / 32;
    int mine = warp / 2 * 64 + 2 * lane + warp % 2;
    if (warp % 2)
        out[mine] = cosf(a[mine]);
    else
        out[mine] = sinf(a[mine]);
}""",
)


@wrong("divergence", says="lanes.*at least 32", where=False)
def still_by_lane(out, a):
    i = cuda.grid(1)
    if i % 2 == 1:
        out[i] = np.cos(a[i])
    else:
        out[i] = np.sin(a[i])


@wrong("divergence", says=r"out\[1\]")
def only_the_branch_moved(out, a):
    i = cuda.grid(1)
    if i % 64 < 32:
        out[i] = np.sin(a[i])
    else:
        out[i] = np.cos(a[i])


@wrong("divergence", says=r"out\[0\]")
def sides_swapped(out, a):
    t = cuda.threadIdx.x % 64
    i = cuda.grid(1) - t + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = np.cos(a[i])
    else:
        out[i] = np.sin(a[i])


@wrong("divergence", says="chance")
def one_pair_of_warps(out, a):
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * cuda.blockDim.x + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = np.sin(a[i])
    else:
        out[i] = np.cos(a[i])


@wrong("divergence", says="threadIdx")
def first_block_only(out, a):
    t = cuda.threadIdx.x % 64
    i = cuda.threadIdx.x - t + 2 * (t % 32) + t // 32
    if t < 32:
        out[i] = np.sin(a[i])
    else:
        out[i] = np.cos(a[i])


@wrong("divergence", says="at least 8.*to adjacent places computes both", where=False)
def both_and_choose(out, a):
    i = cuda.grid(1)
    v = a[i]
    out[i] = cuda.selp(i % 2 == 0, np.sin(v), np.cos(v))
