"""Answers to the puzzle wide_loads."""

from numpy import uint32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("wide_loads")
def mask_of_each_byte(out, a, n):
    i = cuda.grid(1)
    if i < (n + 3) // 4:
        mask = uint32(0)
        for k in range(4):
            if 4 * i + k < n:
                mask |= uint32(255) << uint32(8 * k)
        out[i] = a[i] ^ mask


right_c(
    "wide_loads",
    """__global__ void negative(unsigned *out, const unsigned *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, left = n - 4 * i;
    if (left <= 0) return;
    out[i] = left >= 4 ? ~a[i] : a[i] ^ ((1u << 8 * left) - 1);
}""",
)


@wrong("wide_loads", says=r"out\[7\] is .*expected")
def no_tail(out, a, n):
    i = cuda.grid(1)
    if 4 * i < n:
        out[i] = a[i] ^ uint32(0xFFFFFFFF)


@wrong("wide_loads", says=r"No thread wrote out\[7\]")
def whole_words_only(out, a, n):
    i = cuda.grid(1)
    if i < n // 4:
        out[i] = a[i] ^ uint32(0xFFFFFFFF)


@wrong("wide_loads", says="guard")
def guard_of_pixels(out, a, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] ^ (uint32(0xFFFFFFFF) >> uint32(8 * (max(4 * i + 4 - n, 0) % 4)))


@wrong("wide_loads", says=r"out\[7\] is .*expected")
def unused_bytes_first(out, a, n):
    i = cuda.grid(1)
    if 4 * i < n:
        unused = max(4 * i + 4 - n, 0)
        out[i] = a[i] ^ (uint32(0xFFFFFFFF) << uint32(8 * unused))


@wrong("wide_loads", says="reads 126 elements of a.*allows 32", where=False)
def a_load_for_each_pixel(out, a, n):
    i = cuda.grid(1)
    if 4 * i < n:
        word = uint32(0)
        for k in range(min(4, n - 4 * i)):
            pixel = (a[i] >> uint32(8 * k)) & uint32(255)
            word |= (uint32(255) - pixel) << uint32(8 * k)
        out[i] = word


wrong_c(
    "wide_loads",
    """__global__ void negative(unsigned *out, const unsigned *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i < n) out[i] = ~a[i];
}""",
    says=r"out\[7\] is .*expected",
)
