"""Answers to the puzzle broadcast."""

from weft import cuda

from .. import right, right_c, wrong


@right("broadcast", taught=True)
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
