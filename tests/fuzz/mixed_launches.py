"""Launches of every kind with random arguments in one process, and its memory growth.

    cd tests; python -m fuzz.mixed_launches COUNT SEED

prints the growth of the process in MB, and stops at 1000.
"""

import contextlib
import os
import random
import sys
import warnings

from fuzz import launch_arguments

from weft import cuda, cuda_c, load_cuda, numba_jit, sim
from weft.csource.signature import parse

MOST = 20_000  # elements in the largest array
SOURCE = """
#include <cuda_fp16.h>
struct Pair { float x; int y; };
__global__ void add(float *y, const float *a, const float *b, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + b[i];
}
__global__ void every(unsigned char *bytes, double *d, float2 p, Pair s, bool yes,
                      char c, unsigned long long big, half h, int *whole, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || !yes) return;
    whole[i] = c + (int)p.x + s.y;
    d[i] = (double)big;
    bytes[i] = 1;
}
__global__ void rows(float4 *y, const float *__restrict__ x, float **table, void *any,
                     int rows, int cols) {
    const int i = threadIdx.x;
    if (i < rows * cols / 4) y[i].x = x[i];
}
"""


def add(y, a, b, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = a[i] + b[i]


def kernels():
    """Return (kernel, its parameters in CUDA C) for every runner on the CPU."""
    runners = []
    for options in ({}, {"watched": True}):
        cell = load_cuda(SOURCE, target="cpu", **options)
        every = [getattr(cell, name) for name in ("add", "every", "rows")]
        runners += [(kernel, kernel.params) for kernel in every]
    of_add = parse(SOURCE)[0].params
    simulated = sim(add, quiet=True), sim(add, quiet=True, trace=True)
    compiled = cuda_c(add), numba_jit(add)
    return runners + [(runner, of_add) for runner in (*simulated, *compiled)]


def launch(random, kernel, params):
    """Launch once, and ignore errors."""
    args = launch_arguments.arguments(random, params, MOST)
    shape = random.randint(1, 4), random.choice([1, 32])
    with contextlib.suppress(Exception):
        kernel[shape](*args)


def memory():
    """Return the resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def main(count, seed):
    warnings.simplefilter("ignore")
    source, launchers = random.Random(seed), kernels()
    for kernel, params in launchers:  # exclude one-time allocations from the growth
        launch(random.Random(0), kernel, params)
    start = memory()
    for _ in range(count):
        launch(source, *source.choice(launchers))
        if memory() - start > 1000:
            break
    print(round(memory() - start))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
