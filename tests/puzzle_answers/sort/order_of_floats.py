"""Answers to the puzzle order_of_floats."""

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("order_of_floats")
def by_sign(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        x = bits[i]
        if x & 127 > 124:
            keys[i] = 127
        elif x < 128:
            keys[i] = x
        else:
            keys[i] = -(x & 127)


right_c(
    "order_of_floats",
    """__global__ void make(int *keys, const int *bits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = bits[i], size = x % 128;
    keys[i] = size > 124 ? 127 : x == size ? size : -size;
}""",
)

SAYS = r"keys\[\d+\] is .*expected"


@wrong("order_of_floats", says=SAYS)
def the_bits_themselves(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        keys[i] = bits[i]


@wrong("order_of_floats", says=SAYS)
def negatives_are_complements(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        x = bits[i]
        size = x & 127
        if size > 124:
            size = 127
        elif x > 127:
            size = ~size
        keys[i] = size


@wrong("order_of_floats", says=SAYS)
def nan_has_a_sign(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        x = bits[i]
        size = x & 127
        if size > 124:
            size = 127
        if x > 127:
            size = -size
        keys[i] = size


@wrong("order_of_floats", says=SAYS)
def nan_is_only_one_number(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        x = bits[i]
        size = x & 127
        if size == 126:
            size = 127
        elif x > 127:
            size = -size
        keys[i] = size


@wrong("order_of_floats", says=SAYS)
def infinity_is_nan(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        x = bits[i]
        size = x & 127
        if size >= 124:
            size = 127
        elif x > 127:
            size = -size
        keys[i] = size


@wrong("order_of_floats", says=SAYS)
def negatives_grow_with_their_bits(keys, bits, n):
    i = cuda.grid(1)
    if i < n:
        x = bits[i]
        size = x & 127
        if size > 124:
            size = 127
        elif x > 127:
            size = x - 256
        keys[i] = size


wrong_c(
    "order_of_floats",
    """__global__ void make(int *keys, const int *bits, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = bits[i], size = x & 127;
    keys[i] = size > 124 ? 127 : x > 128 ? ~size : size;
}""",
    says=SAYS,
)
