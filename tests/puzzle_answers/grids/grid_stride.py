"""Answers to the puzzle grid_stride."""

from weft import cuda

from .. import right, right_c, wrong


@right("grid_stride", taught=True)
def while_there_are_numbers(out, a, n):
    i = cuda.grid(1)
    while i < n:
        number = a[i]
        out[i] = number * number
        i += cuda.gridsize(1)


@right("grid_stride", taught=True)
def a_stretch_for_each(out, a, n):
    threads = cuda.gridDim.x * cuda.blockDim.x
    each = (n + threads - 1) // threads
    first = cuda.grid(1) * each
    for i in range(first, min(first + each, n)):
        number = a[i]
        out[i] = number * number


right_c(
    "grid_stride",
    """__global__ void square_all(float *out, const float *a, int n) {
    const int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) {
        const float number = a[i];
        out[i] = number * number;
    }
}""",
)


@wrong("grid_stride", says="for which no threads are left")
def no_loop(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] * a[i]


@wrong("grid_stride", says="writes 27 elements of out", where=False)
def steps_of_a_block(out, a, n):
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(first, n, cuda.blockDim.x):
        out[i] = a[i] * a[i]


@wrong("grid_stride", says="writes 30 elements of out", where=False)
def every_block_does_all(out, a, n):
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        out[i] = a[i] * a[i]


@wrong("grid_stride", says="needs 7.5 rounds over out", where=False)
def one_thread_does_all(out, a, n):
    if cuda.grid(1) == 0:
        for i in range(n):
            number = a[i]
            out[i] = number * number


@wrong("grid_stride", says="last element is never written")
def ends_one_early(out, a, n):
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(first, n - 1, cuda.gridDim.x * cuda.blockDim.x):
        out[i] = a[i] * a[i]


@wrong("grid_stride", says="guard")
def as_many_rounds_for_all(out, a, n):
    threads = cuda.gridDim.x * cuda.blockDim.x
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for _ in range((n + threads - 1) // threads):
        out[i] = a[i] * a[i]
        i += threads


@wrong("grid_stride", says=r"No thread wrote out\[5\]")
def six_threads_only(out, a, n):
    first = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(first, n, 6):
        out[i] = a[i] * a[i]


@wrong("grid_stride", says="with n=1009")
def forty_rounds_at_most(out, a, n):
    i = cuda.grid(1)
    for _ in range(40):
        if i < n:
            number = a[i]
            out[i] = number * number
        i += cuda.gridsize(1)
