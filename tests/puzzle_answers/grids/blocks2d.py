"""Answers to the puzzle blocks2d."""

from weft import cuda

from .. import right, right_c, wrong


@right("blocks2d", taught=True)
def by_grid_2d(out, a, height, width):
    col, row = cuda.grid(2)
    if col < width and row < height:
        out[row * width + col] = a[row * width + col] + col


right_c(
    "blocks2d",
    """__global__ void add_column_numbers(float *out, const float *a, int height,
                                   int width) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < height && col < width;
         row += gridDim.y * blockDim.y) {
        out[row * width + col] = a[row * width + col] + col;
    }
}""",
)


@wrong("blocks2d", says="threadIdx where the global index is needed")
def local_2d(out, a, height, width):
    col = cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + col


@wrong("blocks2d", says="one block is enough for height")
def local_rows(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + col


@wrong("blocks2d", says="guard.*row would be 5")
def blocks_2d_without_a_guard(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    out[row * width + col] = a[row * width + col] + col


@wrong("blocks2d", says="guard.*column would be 5")
def columns_of_blocks_unguarded(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height:
        out[row * width + col] = a[row * width + col] + col


@wrong("blocks2d", says="nothing orders these two")
def blocks_guarded_by_the_flat_index(out, a, height, width):
    col, row = cuda.grid(2)
    i = row * width + col
    if i < height * width:
        out[i] = a[i] + col


@wrong("blocks2d", says="x and y swapped")
def x_for_rows(out, a, height, width):
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    col = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + col


@wrong("blocks2d", says=r"No thread wrote out\[2, 0\]")
def one_side_for_both(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + col


@wrong("blocks2d", says="needs 2.5 rounds over out", where=False)
def one_for_all_blocks_2d(out, a, height, width):
    col, row = cuda.grid(2)
    if col == 0 and row == 0:
        for i in range(height * width):
            out[i] = a[i] + i % width


@wrong("blocks2d", says="wrong index rather than a missing guard")
def height_for_width(out, a, height, width):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < height and col < width:
        out[row * height + col] = a[row * height + col] + col


@wrong("blocks2d", says=r"right with blocks of \(3, 3\), and wrong with others")
def blocks_of_three(out, a, height, width):
    col = cuda.blockIdx.x * 3 + cuda.threadIdx.x
    row = cuda.blockIdx.y * 3 + cuda.threadIdx.y
    if row < height and col < width:
        out[row * width + col] = a[row * width + col] + col
