"""Answers to the puzzle map."""

from weft import cuda

from .. import right, right_c, wrong


@right("map", taught=True)
def global_index(out, a):
    i = cuda.grid(1)
    number = a[i]
    out[i] = number + 10


right_c(
    "map",
    """__global__ void add_ten(float *out, const float *a) {
    out[threadIdx.x] = a[threadIdx.x] + 10.0f;
}""",
)


@wrong("map", says="every thread")
def always_the_first(out, a):
    out[cuda.threadIdx.x] = a[0] + 10


@wrong("map", says="chance")
def into_the_first(out, a):
    out[0] = a[cuda.threadIdx.x] + 10


@wrong("map", says="same number added to each: -10")
def copied(out, a):
    out[cuda.threadIdx.x] = a[cuda.threadIdx.x]


@wrong("map", says=r"out\[0\] is")
def expected_constants(out, a):
    i = cuda.threadIdx.x
    out[i] = i + 10


@wrong("map", says="right only at n=4")
def four_in_a_loop(out, a):
    for i in range(4):
        out[i] = a[i] + 10


@wrong("map", says="written before it is read")
def added_to_the_output(out, a):
    i = cuda.threadIdx.x
    out[i] += a[i] + 10


@wrong("map", says="inputs must stay")
def in_place(out, a):
    i = cuda.threadIdx.x
    a[i] += 10
    out[i] = a[i]


@wrong("map", says="wrong index rather than a missing guard")
def counted_from_one(out, a):
    i = cuda.threadIdx.x + 1
    out[i] = a[i] + 10


@wrong("map", says="writes 8 elements of a in all.*allows none", where=False)
def input_put_back(out, a):
    i = cuda.threadIdx.x
    before = a[i]
    a[i] = before + 10
    out[i] = a[i]
    a[i] = before


@wrong("map", says="needs 4 rounds over out", where=False)
def all_by_the_first(out, a):
    if cuda.threadIdx.x == 0:
        for i in range(cuda.blockDim.x):
            out[i] = a[i] + 10
