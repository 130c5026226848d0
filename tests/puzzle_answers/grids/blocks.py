"""Answers to the puzzle blocks."""

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("blocks", taught=True)
def by_grid(out, a, b, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] - b[i]


@right("blocks", taught=True)
def in_a_grid_stride_loop(out, a, b, n):
    for i in range(cuda.grid(1), n, cuda.gridsize(1)):
        out[i] = a[i] - b[i]


@right("blocks")
def one_block_after_another(out, a, b, n):
    before = 0
    for _ in range(cuda.blockIdx.x):
        before += cuda.blockDim.x
    i = before + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


right_c(
    "blocks",
    """__global__ void subtract_blocks(float *out, const float *a, const float *b,
                                int n) {
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    out[i] = a[i] - b[i];
}""",
)


@wrong("blocks", says="threadIdx where the global index is needed")
def local_index(out, a, b, n):
    i = cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says="guard")
def blocks_without_a_guard(out, a, b, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = a[i] - b[i]


@wrong("blocks", says="blockIdx where the global index is needed")
def block_number_only(out, a, b, n):
    i = cuda.blockIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says="blockIdx.x without blockDim.x: each block begins one element")
def block_and_thread_added(out, a, b, n):
    i = cuda.blockIdx.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says=r"literal 4 where .*blocks of 3, no thread writes out\[3\]")
def blocks_of_four(out, a, b, n):
    i = cuda.blockIdx.x * 4 + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says=r"literal 3 where .* two threads write out\[3\] and none out\[7")
def blocks_of_three(out, a, b, n):
    i = cuda.blockIdx.x * 3 + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says="gridDim.x where blockDim.x is needed")
def times_the_number_of_blocks(out, a, b, n):
    i = cuda.blockIdx.x * cuda.gridDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says="last block, which is not full")
def last_block_missing(out, a, b, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n // cuda.blockDim.x * cuda.blockDim.x:
        out[i] = a[i] - b[i]


@wrong("blocks", says="begins too early")
def counted_from_block_one(out, a, b, n):
    i = (cuda.blockIdx.x - 1) * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says="needs 8 rounds over out", where=False)
def one_for_all_blocks(out, a, b, n):
    if cuda.grid(1) == 0:
        for i in range(n):
            out[i] = a[i] - b[i]


wrong_c(
    "blocks",
    """__global__ void subtract_blocks(float *out, const float *a, const float *b,
                                int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = a[i] - b[i];
}""",
    says="guard",
)


# The reported n is 97, not 9.
@wrong("blocks", says=r"from 37 on are never written \(with n=97, ")
def blocks_and_threads_swapped(out, a, b, n):
    i = cuda.blockIdx.x + cuda.blockDim.x * cuda.threadIdx.x
    if i < n:
        out[i] = a[i] - b[i]


@wrong("blocks", says=r"writes \d+ elements of out .* allows", where=False)
def as_if_for_two_blocks(out, a, b, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for j in range(i, n, 2 * cuda.blockDim.x):
        out[j] = a[j] - b[j]
