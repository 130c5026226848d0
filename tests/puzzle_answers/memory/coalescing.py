"""Answers to the puzzle coalescing."""

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("coalescing", taught=True)
def in_turns(out, a, n, each):
    start = cuda.blockIdx.x * cuda.blockDim.x * each + cuda.threadIdx.x
    for turn in range(each):
        i = start + turn * cuda.blockDim.x
        if i < n:
            out[i] = 2 * a[i]


right_c(
    "coalescing",
    """__global__ void grid_stride(float *out, const float *a, int n, int each) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        out[i] = a[i] + a[i];
}""",
)


@wrong("coalescing", says="16 sectors of a.*allows 4", where=False)
def still_stretches(out, a, n, each):
    for k in range(each):
        i = cuda.grid(1) * each + k
        if i < n:
            out[i] = a[i] * 2


@wrong("coalescing", says="guard")
def turns_without_guard(out, a, n, each):
    for turn in range(each):
        i = cuda.grid(1) + turn * cuda.gridsize(1)
        out[i] = 2 * a[i]


@wrong("coalescing", says="written|threadIdx")
def one_block_only(out, a, n, each):
    for turn in range(each):
        i = cuda.threadIdx.x + turn * cuda.blockDim.x
        if i < n:
            out[i] = 2 * a[i]


@wrong("coalescing", says="reads 512.*allows 256", where=False)
def every_block_does_all(out, a, n, each):
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        out[i] = 2 * a[i]


@wrong("coalescing", says="written")
def drawn_size_only(out, a, n, each):
    for turn in range(4):
        i = cuda.threadIdx.x + 32 * turn
        if i < min(n, 128):
            out[i] = 2 * a[i]


@wrong("coalescing", says="elements from 128 on are never written")
def four_for_each(out, a, n, each):
    first = cuda.blockIdx.x * cuda.blockDim.x * 4 + cuda.threadIdx.x
    for turn in range(4):
        i = first + turn * cuda.blockDim.x
        if i < n:
            out[i] = 2 * a[i]


wrong_c(
    "coalescing",
    """__global__ void stretches(float *out, const float *a, int n, int each) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    for (int i = first; i < min(first + each, n); i++) out[i] = 2 * a[i];
}""",
    says="16 sectors of a",
    where=False,
)
