"""Answers to the puzzle zip."""

from weft import cuda

from .. import right, right_c, wrong


@right("zip", taught=True)
def started_with_one(out, a, b):
    i = cuda.threadIdx.x
    total = a[i]
    total += b[i]
    out[i] = total


right_c(
    "zip",
    """__global__ void add_pairs(float *out, const float *a, const float *b) {
    const int i = threadIdx.x;
    out[i] = a[i] + b[i];
}""",
)


@wrong("zip", says="a read where b is needed")
def one_array_twice(out, a, b):
    i = cuda.threadIdx.x
    out[i] = a[i] + a[i]


@wrong("zip", says=r"out\[\d+\] is")
def first_of_b(out, a, b):
    i = cuda.threadIdx.x
    out[i] = a[i] + b[0]


@wrong("zip", says="begins too early")
def neighbour_of_b(out, a, b):
    i = cuda.threadIdx.x
    out[i] = a[i] + b[i - 1]


@wrong("zip", says=r"out\[\d+\] is")
def multiplied(out, a, b):
    i = cuda.threadIdx.x
    out[i] = a[i] * b[i]


@wrong("zip", says="inputs must stay")
def into_an_input(out, a, b):
    i = cuda.threadIdx.x
    a[i] += b[i]
    out[i] = a[i]


@wrong("zip", says="elements from 4 on are never written")
def for_the_drawn_four(out, a, b):
    i = cuda.threadIdx.x
    if i < 4:
        out[i] = a[i] + b[i]


@wrong("zip", says="needs 4 rounds over out", where=False)
def pairs_by_the_first(out, a, b):
    if cuda.threadIdx.x == 0:
        for i in range(cuda.blockDim.x):
            out[i] = a[i] + b[i]
