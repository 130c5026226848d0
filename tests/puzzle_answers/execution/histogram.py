"""Answers to the puzzle histogram."""

from numpy import int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("histogram")
def private_at_once(counts, a, n):
    mine = cuda.shared.array(8, int32)
    if cuda.threadIdx.x < 8:
        mine[cuda.threadIdx.x] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if cuda.threadIdx.x < 8:
        cuda.atomic.add(counts, cuda.threadIdx.x, mine[cuda.threadIdx.x])


right_c(
    "histogram",
    """__global__ void count(int *counts, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(counts + a[i], 1);
}""",
)


@wrong("histogram", says=r"reads counts\[[^$]*at once: .*barrier alone")
def not_atomic(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        counts[a[i]] += 1


@wrong("histogram", says="guard.*would be 97; the last is 96")
def atomic_without_guard(counts, a, n):
    i = cuda.grid(1)
    cuda.atomic.add(counts, a[i], 1)


@wrong("histogram", says=r"counts\[0\] is 6, expected 3")
def first_block_again(counts, a, n):
    i = cuda.threadIdx.x
    if i < n:
        cuda.atomic.add(counts, a[i], 1)


@wrong("histogram", says="too low: 15 for 16")
def last_one_forgotten(counts, a, n):
    i = cuda.grid(1)
    if i < n - 1:
        cuda.atomic.add(counts, a[i], 1)


@wrong("histogram", says="reads 128.*allows 16", where=False)
def a_thread_for_each_count(counts, a, n):
    k = cuda.grid(1)
    if k < 8:
        times = 0
        for i in range(n):
            if a[i] == k:
                times += 1
        counts[k] = times


@wrong("histogram", says="too high: 58 for 16")
def adds_the_number(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(counts, i % 8, a[i])


@wrong("histogram", says="1 thread in each request to a", where=False)
def one_counts_all(counts, a, n):
    if cuda.grid(1) == 0:
        for i in range(n):
            counts[a[i]] += 1


wrong_c(
    "histogram",
    """__global__ void plain_add(int *counts, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) counts[a[i]]++;
}""",
    says=r"reads counts\[.*no barrier",
)
