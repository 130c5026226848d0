"""Answers to the puzzle map2d."""

from weft import cuda

from .. import right, right_c, wrong


@right("map2d", taught=True)
def left_early_2d(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row >= height or col >= width:
        return
    out[width * row + col] = 255 - a[width * row + col]


right_c(
    "map2d",
    """__global__ void invert(float *out, const float *a, int height, int width) {
    const int col = threadIdx.x, row = threadIdx.y;
    if (row < height && col < width) {
        out[row * width + col] = 255.0f - a[row * width + col];
    }
}""",
)


@wrong("map2d", says="guard")
def no_guard_2d(out, a, height, width):
    i = cuda.threadIdx.y * width + cuda.threadIdx.x
    out[i] = 255 - a[i]


@wrong("map2d", says="guard.*row would be 2; the last is 1")
def rows_unguarded(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if col < width:
        out[row * width + col] = 255 - a[row * width + col]


@wrong("map2d", says="guard.*column would be 2; the last is 1")
def columns_unguarded(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height:
        out[row * width + col] = 255 - a[row * width + col]


@wrong("map2d", says="writes 20 elements of out", where=False)
def guarded_by_the_flat_index(out, a, height, width):
    i = cuda.threadIdx.y * width + cuda.threadIdx.x
    if i < height * width:
        out[i] = 255 - a[i]


@wrong("map2d", says="guard.*column would be 2")
def either_guard(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height or col < width:
        out[row * width + col] = 255 - a[row * width + col]


@wrong("map2d", says="x and y swapped")
def x_for_the_row(out, a, height, width):
    row = cuda.threadIdx.x
    col = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = 255 - a[row * width + col]


@wrong("map2d", says="wrong index rather than a missing guard")
def rows_of_the_wrong_length(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * height + col] = 255 - a[row * height + col]


@wrong("map2d", says="a read along the wrong axis")
def turned(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = 255 - a[col * height + row]


@wrong("map2d", says="guard.*row would be 1; the last is 0")
def row_and_column_swapped_in_the_guard(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < width and col < height:
        out[row * width + col] = 255 - a[row * width + col]


@wrong("map2d", says="wrong index rather than a missing guard")
def rows_as_long_as_the_block(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    i = row * cuda.blockDim.x + col
    if row < height and col < width:
        out[i] = 255 - a[i]


@wrong("map2d", says="needs 4 rounds over out", where=False)
def one_for_all_places(out, a, height, width):
    if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0:
        for i in range(height * width):
            out[i] = 255 - a[i]


@wrong("map2d", says="guard")
def guarded_for_two_by_two(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < 2 and col < 2:
        out[row * width + col] = 255 - a[row * width + col]
