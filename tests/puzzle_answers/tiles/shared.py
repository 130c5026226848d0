"""Answers to the puzzle shared."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("shared", taught=True)
def waits_for_nobody(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        s[t] = a[i]
    cuda.syncthreads()
    if i < n:
        out[i] = s[t] * s[t] * s[t]


@right("shared", taught=True)
def takes_it_three_times(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        s[t] = a[i]
        out[i] = s[t] * s[t] * s[t]


@right("shared", taught=True)
def by_a_neighbour(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 4
    if first + t < n:
        s[t] = a[first + t]
    cuda.syncthreads()
    if first + 3 - t < n:
        out[first + 3 - t] = s[3 - t] ** 3


right_c(
    "shared",
    """__global__ void cube_shared(float *out, const float *a, int n) {
    __shared__ float s[4];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? a[i] : 0.0f;
    __syncthreads();
    if (i < n) out[i] = s[threadIdx.x] * s[threadIdx.x] * s[threadIdx.x];
}""",
)


@wrong("shared", says="missing guard")
def no_guard(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    s[t] = a[i]
    cuda.syncthreads()
    out[i] = s[t] * s[t] * s[t]


@wrong("shared", says=r"s\[4\]")
def global_index_in_s(out, a, n):
    s = cuda.shared.array(4, float32)
    i = cuda.blockIdx.x * 4 + cuda.threadIdx.x
    if i < n:
        s[i] = a[i]
        out[i] = s[i] * s[i] * s[i]


@wrong("shared", says="global index is needed")
def local_index(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    if t < n:
        s[t] = a[t]
        out[t] = s[t] * s[t] * s[t]


@wrong("shared", says="global index is needed")
def brings_the_first_four(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        s[t] = a[t]
        out[i] = s[t] * s[t] * s[t]


@wrong("shared", says="no barrier between")
def neighbour_without_a_barrier(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    first = cuda.blockIdx.x * 4
    if first + t < n:
        s[t] = a[first + t]
    if first + 3 - t < n:
        out[first + 3 - t] = s[3 - t] ** 3


@wrong("shared", says="barrier")
def barrier_under_the_guard(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        s[t] = a[i]
        cuda.syncthreads()
        out[i] = s[t] * s[t] * s[t]


@wrong("shared", says="an end that comes one too early")
def stops_one_early(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n - 1:
        s[t] = a[i]
        out[i] = s[t] * s[t] * s[t]


@wrong("shared", says="elements from 8 on are never written")
def eight_numbers_only(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < min(n, 8):
        s[t] = a[i]
        out[i] = s[t] * s[t] * s[t]


@wrong("shared", says="no elements of shared memory .*at least 8", where=False)
def straight(out, a, n):
    i = cuda.blockIdx.x * 4 + cuda.threadIdx.x
    if i < n:
        number = a[i]
        out[i] = number * number * number


wrong_c(
    "shared",
    """__global__ void cube_shared(float *out, const float *a, int n) {
    __shared__ float s[4];
    const int t = threadIdx.x, i = blockIdx.x * 4 + t;
    s[t] = a[i];
    if (i < n) out[i] = s[t] * s[t] * s[t];
}""",
    says="guard",
)


@wrong("shared", says="reads no elements of shared memory .*least 8", where=False)
def written_and_never_read(out, a, n):
    s = cuda.shared.array(4, float32)
    t = cuda.threadIdx.x
    i = cuda.blockIdx.x * 4 + t
    if i < n:
        number = a[i]
        s[t] = number
        out[i] = number * number * number
