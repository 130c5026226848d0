"""Answers to the puzzles of lesson 01: right ones in other styles, and wrong ones."""

import numpy as np
from numpy import float32

from weft import cuda

from . import right, right_c, wrong, wrong_c

# ---- map -------------------------------------------------------------------------


@right("map")
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


# ---- zip -------------------------------------------------------------------------


@right("zip")
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


@wrong("zip", says="a read where b is due")
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


# ---- guards ------------------------------------------------------------------------


@right("guards")
def left_early(out, a, n):
    i = cuda.threadIdx.x
    if i >= n:
        return
    out[i] = a[i] + 10


right_c(
    "guards",
    """__global__ void add_ten_guarded(float *out, const float *a, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = a[i] + 10.0f;
}""",
)


@wrong("guards", says="guard")
def no_guard(out, a, n):
    i = cuda.threadIdx.x
    out[i] = a[i] + 10


@wrong("guards", says="guard")
def one_too_many(out, a, n):
    i = cuda.threadIdx.x
    if i <= n:
        out[i] = a[i] + 10


@wrong("guards", says="last element is never written")
def one_too_few(out, a, n):
    i = cuda.threadIdx.x
    if i < n - 1:
        out[i] = a[i] + 10


@wrong("guards", says="guard.*element would be 1, the last is 0")
def guarded_for_four(out, a, n):
    i = cuda.threadIdx.x
    if i < 4:
        out[i] = a[i] + 10


@wrong("guards", says="guard")
def guard_of_the_block(out, a, n):
    i = cuda.threadIdx.x
    if i < cuda.blockDim.x:
        out[i] = a[i] + 10


@wrong("guards", says="guard")
def read_before_the_guard(out, a, n):
    i = cuda.threadIdx.x
    number = a[i] + 10
    if i < n:
        out[i] = number


@wrong("guards", says="writes 16 elements of out", where=False)
def round_and_round(out, a, n):
    i = cuda.threadIdx.x % n
    out[i] = a[i] + 10


@wrong("guards", says="writes 16 elements of out", where=False)
def all_the_rest_at_the_last(out, a, n):
    i = min(cuda.threadIdx.x, n - 1)
    out[i] = a[i] + 10


@wrong("guards", says="writes 64 elements of out", where=False)
def every_thread_does_all(out, a, n):
    for i in range(n):
        out[i] = a[i] + 10


@wrong("guards", says="needs 4 rounds over out", where=False)
def one_for_all(out, a, n):
    if cuda.threadIdx.x == 0:
        for i in range(n):
            out[i] = a[i] + 10


wrong_c(
    "guards",
    """__global__ void add_ten_guarded(float *out, const float *a, int n) {
    out[threadIdx.x] = a[threadIdx.x] + 10.0f;
}""",
    says="guard",
)


# ---- map2d --------------------------------------------------------------------------


@right("map2d")
def left_early_2d(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row >= height or col >= width:
        return
    out[width * row + col] = a[width * row + col] + 10


right_c(
    "map2d",
    """__global__ void add_ten_2d(float *out, const float *a, int height, int width) {
    const int col = threadIdx.x, row = threadIdx.y;
    if (row < height && col < width) {
        out[row * width + col] = a[row * width + col] + 10.0f;
    }
}""",
)


@wrong("map2d", says="guard")
def no_guard_2d(out, a, height, width):
    i = cuda.threadIdx.y * width + cuda.threadIdx.x
    out[i] = a[i] + 10


@wrong("map2d", says="guard.*row would be 2, the last is 1")
def rows_unguarded(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("map2d", says="guard.*column would be 2, the last is 1")
def columns_unguarded(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height:
        out[row * width + col] = a[row * width + col] + 10


@wrong("map2d", says="writes 20 elements of out", where=False)
def guarded_by_the_flat_index(out, a, height, width):
    i = cuda.threadIdx.y * width + cuda.threadIdx.x
    if i < height * width:
        out[i] = a[i] + 10


@wrong("map2d", says="guard.*column would be 2")
def either_guard(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height or col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("map2d", says="x and y swapped")
def x_for_the_row(out, a, height, width):
    row = cuda.threadIdx.x
    col = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("map2d", says="wrong index rather than a missing guard")
def rows_of_the_wrong_length(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * height + col] = a[row * height + col] + 10


@wrong("map2d", says="a read along the wrong axis")
def turned(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[col * height + row] + 10


@wrong("map2d", says="guard.*row would be 1, the last is 0")
def row_and_column_swapped_in_the_guard(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < width and col < height:
        out[row * width + col] = a[row * width + col] + 10


@wrong("map2d", says="wrong index rather than a missing guard")
def rows_as_long_as_the_block(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    i = row * cuda.blockDim.x + col
    if row < height and col < width:
        out[i] = a[i] + 10


@wrong("map2d", says="needs 4 rounds over out", where=False)
def one_for_all_places(out, a, height, width):
    if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0:
        for i in range(height * width):
            out[i] = a[i] + 10


@wrong("map2d", says="guard")
def guarded_for_two_by_two(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < 2 and col < 2:
        out[row * width + col] = a[row * width + col] + 10


# ---- broadcast ----------------------------------------------------------------------


@right("broadcast")
def kept_in_locals(out, a, b, height, width):
    col, row = cuda.threadIdx.x, cuda.threadIdx.y
    if row < height and col < width:
        from_a, from_b = a[row], b[col]
        out[row * width + col] = from_b + from_a


right_c(
    "broadcast",
    """__global__ void add_outer(float *out, const float *a, const float *b, int height,
                          int width) {
    const int col = threadIdx.x, row = threadIdx.y;
    if (row >= height || col >= width) return;
    out[row * width + col] = a[row] + b[col];
}""",
)


@wrong("broadcast", says="row and column .* are swapped")
def row_and_column_swapped(out, a, b, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[col] + b[row]


@wrong("broadcast", says="transposed result")
def stored_turned(out, a, b, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[col * width + row] = a[row] + b[col]


@wrong("broadcast", says="guard.*row would be 2")
def only_columns_guarded(out, a, b, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if col < width:
        out[row * width + col] = a[row] + b[col]


@wrong("broadcast", says="wrong index rather than a missing guard")
def flat_in_both(out, a, b, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        i = row * width + col
        out[i] = a[i] + b[i]


@wrong("broadcast", says="rows from 1 on are wrong")
def only_the_first_row(out, a, b, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[0] + b[col]


@wrong("broadcast", says="needs 4 rounds over out", where=False)
def one_for_the_table(out, a, b, height, width):
    if cuda.threadIdx.x == 0 and cuda.threadIdx.y == 0:
        for i in range(height * width):
            out[i] = a[i // width] + b[i % width]


@wrong("broadcast", says=r"No thread wrote out\[0, 1\]")
def only_the_diagonal(out, a, b, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width and row == col:
        out[row * width + col] = a[row] + b[col]


# ---- blocks --------------------------------------------------------------------------


@right("blocks")
def by_grid(out, a, n):
    i = cuda.grid(1)
    if i < n:
        out[i] = a[i] + 10


@right("blocks")
def one_block_after_another(out, a, n):
    before = 0
    for _ in range(cuda.blockIdx.x):
        before += cuda.blockDim.x
    i = before + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


right_c(
    "blocks",
    """__global__ void add_ten_blocks(float *out, const float *a, int n) {
    const int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    out[i] = a[i] + 10.0f;
}""",
)


@wrong("blocks", says="threadIdx where the global index is due")
def local_index(out, a, n):
    i = cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


@wrong("blocks", says="guard")
def blocks_without_a_guard(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = a[i] + 10


@wrong("blocks", says="blockIdx where the global index is due")
def block_number_only(out, a, n):
    i = cuda.blockIdx.x
    if i < n:
        out[i] = a[i] + 10


@wrong("blocks", says="No thread wrote")
def block_and_thread_added(out, a, n):
    i = cuda.blockIdx.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


@wrong("blocks", says="block 3: .*\nNo thread wrote")
def blocks_of_four(out, a, n):
    i = cuda.blockIdx.x * 4 + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


@wrong("blocks", says="No thread wrote")
def times_the_number_of_blocks(out, a, n):
    i = cuda.blockIdx.x * cuda.gridDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


@wrong("blocks", says="last block, which is not full")
def last_block_missing(out, a, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n // cuda.blockDim.x * cuda.blockDim.x:
        out[i] = a[i] + 10


@wrong("blocks", says="begins too early")
def counted_from_block_one(out, a, n):
    i = (cuda.blockIdx.x - 1) * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        out[i] = a[i] + 10


@wrong("blocks", says="needs 8 rounds over out", where=False)
def one_for_all_blocks(out, a, n):
    if cuda.grid(1) == 0:
        for i in range(n):
            out[i] = a[i] + 10


wrong_c(
    "blocks",
    """__global__ void add_ten_blocks(float *out, const float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = a[i] + 10.0f;
}""",
    says="guard",
)


# ---- blocks2d -----------------------------------------------------------------------


@right("blocks2d")
def by_grid_2d(out, a, height, width):
    col, row = cuda.grid(2)
    if col < width and row < height:
        out[row * width + col] = a[row * width + col] + 10


right_c(
    "blocks2d",
    """__global__ void add_ten_blocks_2d(float *out, const float *a, int height,
                                  int width) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < height && col < width;
         row += gridDim.y * blockDim.y) {
        out[row * width + col] = a[row * width + col] + 10.0f;
    }
}""",
)


@wrong("blocks2d", says="threadIdx where the global index is due")
def local_2d(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("blocks2d", says="one block is enough for height")
def local_rows(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("blocks2d", says="guard.*row would be 5")
def blocks_2d_without_a_guard(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    out[row * width + col] = a[row * width + col] + 10


@wrong("blocks2d", says="guard.*column would be 5")
def columns_of_blocks_unguarded(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height:
        out[row * width + col] = a[row * width + col] + 10


@wrong("blocks2d", says="writes 28 elements of out", where=False)
def blocks_guarded_by_the_flat_index(out, a, height, width):
    col, row = cuda.grid(2)
    i = row * width + col
    if i < height * width:
        out[i] = a[i] + 10


@wrong("blocks2d", says="x and y swapped")
def x_for_rows(out, a, height, width):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    col = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("blocks2d", says=r"No thread wrote out\[2, 0\]")
def one_side_for_both(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + 10


@wrong("blocks2d", says="needs 2.5 rounds over out", where=False)
def one_for_all_blocks_2d(out, a, height, width):
    col, row = cuda.grid(2)
    if col == 0 and row == 0:
        for i in range(height * width):
            out[i] = a[i] + 10


@wrong("blocks2d", says="wrong index rather than a missing guard")
def height_for_width(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height and col < width:
        out[row * height + col] = a[row * height + col] + 10


# ---- grid_stride --------------------------------------------------------------------


@right("grid_stride")
def while_there_are_numbers(out, a, n):
    i = cuda.grid(1)
    while i < n:
        number = a[i]
        out[i] = number * number
        i += cuda.gridsize(1)


@right("grid_stride")
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


# ---- image_filter_numpy -----------------------------------------------------------


@right("image_filter_numpy")
def rows_then_columns(x):
    around = np.pad(x, 1, mode="edge")
    rows = around[:-2] + around[1:-1] + around[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


@right("image_filter_numpy")
def row_by_row(x):
    height = len(x)
    columns = np.pad(x, ((0, 0), (1, 1)), mode="edge")
    sums = columns[:, :-2] + columns[:, 1:-1] + columns[:, 2:]
    rows = [
        sums[max(r - 1, 0)] + sums[r] + sums[min(r + 1, height - 1)]
        for r in range(height)
    ]
    return np.stack(rows) / 9


@right("image_filter_numpy")
def windows(x):
    around = np.pad(x, 1, mode="edge")
    return np.lib.stride_tricks.sliding_window_view(around, (3, 3)).mean(axis=(2, 3))


@right("image_filter_numpy")
def by_picked_rows_and_columns(x):
    height, width = x.shape
    total = np.zeros_like(x)
    for up in (-1, 0, 1):
        for left in (-1, 0, 1):
            rows = np.clip(np.arange(height) + up, 0, height - 1)
            columns = np.clip(np.arange(width) + left, 0, width - 1)
            total += x[rows][:, columns]
    return total / 9


@wrong("image_filter_numpy", says="loops over the pixels", where=False)
def copied_from_the_reference(x):
    height, width = x.shape
    around = np.pad(x, 1, mode="edge")
    means = [around[r : r + 3, c : c + 3].mean() for r, c in np.ndindex(x.shape)]
    return np.reshape(means, (height, width))


@wrong("image_filter_numpy", says="loops over the pixels", where=False)
def pixel_by_pixel(x):
    height, width = x.shape
    y = np.zeros_like(x)
    for row in range(height):
        for col in range(width):
            for up in -1, 0, 1:
                for left in -1, 0, 1:
                    r = min(max(row + up, 0), height - 1)
                    c = min(max(col + left, 0), width - 1)
                    y[row, col] += x[r, c] / 9
    return y


@wrong("image_filter_numpy", says="border is wrong, the rest right")
def zeros_around(x):
    around = np.pad(x, 1)
    height, width = x.shape
    shifted = [around[r : r + height, c : c + width] for r, c in np.ndindex(3, 3)]
    return sum(shifted) / 9


@wrong("image_filter_numpy", says=r"result\[0, 0\]")
def rolled_round(x):
    return sum(np.roll(x, shift, (0, 1)) for shift in np.ndindex(3, 3)) / 9


@wrong("image_filter_numpy", says=r"result\[0, 0\]")
def only_a_cross(x):
    around = np.pad(x, 1, mode="edge")
    up, down = around[:-2, 1:-1], around[2:, 1:-1]
    return (x + up + down + around[1:-1, :-2] + around[1:-1, 2:]) / 5


@wrong("image_filter_numpy", says="9 times what it should be")
def not_divided(x):
    around = np.pad(x, 1, mode="edge")
    rows = around[:-2] + around[1:-1] + around[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]


@wrong("image_filter_numpy", says="shape", where=False)
def smaller_than_it_was(x):
    rows = x[:-2] + x[1:-1] + x[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9


@wrong("image_filter_numpy", says="inputs must stay")
def over_the_input(x):
    around = np.pad(x, 1, mode="edge")
    rows = around[:-2] + around[1:-1] + around[2:]
    x[:] = (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / 9
    return x


# ---- image_filter -----------------------------------------------------------------


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
