"""Answers to the puzzle image_filter."""

from numpy import float32

from weft import cuda

from .. import right, right_c, wrong


@right("image_filter")
def steps_from_minus_one(y, x, height, width):
    col, row = cuda.grid(2)
    if row >= height or col >= width:
        return
    total = float32(0)
    for k in range(9):
        r = min(max(row + k // 3 - 1, 0), height - 1)
        c = min(max(col + k % 3 - 1, 0), width - 1)
        total += x[r * width + c]
    y[row * width + col] = total / float32(9)


right_c(
    "image_filter",
    """__global__ void blur(float *y, const float *x, int height, int width) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= height || col >= width) return;
    const int left = max(col - 1, 0), right = min(col + 1, width - 1);
    const int up = max(row - 1, 0), down = min(row + 1, height - 1);
    const float *above = x + up * width, *here = x + row * width,
                *below = x + down * width;
    y[row * width + col] =
        (above[left] + above[col] + above[right] + here[left] + here[col] +
         here[right] + below[left] + below[col] + below[right]) / 9.0f;
}""",
)


@wrong("image_filter", says="begins too early")
def no_border(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        total = float32(0)
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                total += x[r * width + c]
        y[row * width + col] = total / float32(9)


@wrong("image_filter", says="border is wrong, the rest right")
def only_those_that_exist(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        total, count = float32(0), 0
        for r in range(max(row - 1, 0), min(row + 2, height)):
            for c in range(max(col - 1, 0), min(col + 2, width)):
                total += x[r * width + c]
                count += 1
        y[row * width + col] = total / float32(count)


@wrong("image_filter", says="border is wrong, the rest right")
def zeros_beyond_the_border(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        total = float32(0)
        for r in range(max(row - 1, 0), min(row + 2, height)):
            for c in range(max(col - 1, 0), min(col + 2, width)):
                total += x[r * width + c]
        y[row * width + col] = total / float32(9)


@wrong("image_filter", says="wrong index rather than a missing guard")
def one_beyond_the_end(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        total = float32(0)
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                r_in, c_in = min(max(r, 0), height), min(max(c, 0), width)
                total += x[r_in * width + c_in]
        y[row * width + col] = total / float32(9)


@wrong("image_filter", says=r"y\[")
def two_by_two(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        total = float32(0)
        for r in range(row - 1, row + 1):
            for c in range(col - 1, col + 1):
                r_in, c_in = min(max(r, 0), height - 1), min(max(c, 0), width - 1)
                total += x[r_in * width + c_in]
        y[row * width + col] = total / float32(9)


@wrong("image_filter", says="written before it is read")
def added_up_in_the_output(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                r_in, c_in = min(max(r, 0), height - 1), min(max(c, 0), width - 1)
                y[row * width + col] += x[r_in * width + c_in] / float32(9)


@wrong("image_filter", says="9 times what it should be")
def a_sum_no_mean(y, x, height, width):
    col, row = cuda.grid(2)
    if row < height and col < width:
        total = float32(0)
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                r_in, c_in = min(max(r, 0), height - 1), min(max(c, 0), width - 1)
                total += x[r_in * width + c_in]
        y[row * width + col] = total


@wrong("image_filter", says="guard.*(row|column) would be")
def filter_without_a_guard(y, x, height, width):
    col, row = cuda.grid(2)
    total = float32(0)
    for r in range(row - 1, row + 2):
        for c in range(col - 1, col + 2):
            r_in, c_in = min(max(r, 0), height - 1), min(max(c, 0), width - 1)
            total += x[r_in * width + c_in]
    y[row * width + col] = total / float32(9)


@wrong("image_filter", says="needs 23.33 rounds over y", where=False)
def one_for_the_picture(y, x, height, width):
    col, row = cuda.grid(2)
    if col == 0 and row == 0:
        for i in range(height * width):
            total = float32(0)
            for r in range(i // width - 1, i // width + 2):
                for c in range(i % width - 1, i % width + 2):
                    down = min(max(r, 0), height - 1)
                    total += x[down * width + min(max(c, 0), width - 1)]
            y[i] = total / float32(9)


@wrong("image_filter", says="border is never written")
def border_left_out(y, x, height, width):
    col, row = cuda.grid(2)
    if 0 < row < height - 1 and 0 < col < width - 1:
        total = float32(0)
        for r in range(row - 1, row + 2):
            for c in range(col - 1, col + 2):
                total += x[r * width + c]
        y[row * width + col] = total / float32(9)
