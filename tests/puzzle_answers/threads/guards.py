"""Answers to the puzzle guards."""

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("guards", taught=True)
def left_early(out, a, n):
    i = cuda.threadIdx.x
    if i >= n:
        return
    out[i] = a[i] / 2


right_c(
    "guards",
    """__global__ void halve_guarded(float *out, const float *a, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a[i] / 2.0f;
}""",
)


@wrong("guards", says="guard")
def no_guard(out, a, n):
    i = cuda.threadIdx.x
    out[i] = a[i] / 2


@wrong("guards", says="guard")
def one_too_many(out, a, n):
    i = cuda.threadIdx.x
    if i <= n:
        out[i] = a[i] / 2


@wrong("guards", says="last element is never written")
def one_too_few(out, a, n):
    i = cuda.threadIdx.x
    if i < n - 1:
        out[i] = a[i] / 2


@wrong("guards", says="guard.*element would be 1; the last is 0")
def guarded_for_four(out, a, n):
    i = cuda.threadIdx.x
    if i < 4:
        out[i] = a[i] / 2


@wrong("guards", says="guard")
def guard_of_the_block(out, a, n):
    i = cuda.threadIdx.x
    if i < cuda.blockDim.x:
        out[i] = a[i] / 2


@wrong("guards", says="guard")
def read_before_the_guard(out, a, n):
    i = cuda.threadIdx.x
    number = a[i] / 2
    if i < n:
        out[i] = number


@wrong("guards", says="writes 16 elements of out", where=False)
def round_and_round(out, a, n):
    i = cuda.threadIdx.x % n
    out[i] = a[i] / 2


@wrong("guards", says="writes 16 elements of out", where=False)
def all_the_rest_at_the_last(out, a, n):
    i = min(cuda.threadIdx.x, n - 1)
    out[i] = a[i] / 2


@wrong("guards", says="writes 64 elements of out", where=False)
def every_thread_does_all(out, a, n):
    for i in range(n):
        out[i] = a[i] / 2


@wrong("guards", says="needs 4 rounds over out", where=False)
def one_for_all(out, a, n):
    if cuda.threadIdx.x == 0:
        for i in range(n):
            out[i] = a[i] / 2


wrong_c(
    "guards",
    """__global__ void halve_guarded(float *out, const float *a, int n) {
    out[threadIdx.x] = a[threadIdx.x] / 2.0f;
}""",
    says="guard",
)
