"""First rungs of memory-bound ops, as Python functions.

The ops are copy, transpose, reduce, softmax, layernorm, rmsnorm, compact, histogram,
bincount and scan. Each function matches its rung in kernels/<op> line by line. The
arguments follow the rules of bodies.py.
"""

import math

from numpy import float32, uint32

from .. import cuda
from .bodies import THREADS, TILE, row_max, row_sum


def copy_words(y, x, count):
    """Copy x (count), of any type, to y with a thread per number.

    With arrays of uint8, this is the rung "byte".
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        y[i] = x[i]


def transpose(y, x, rows, cols):
    """Write x (rows,cols) transposed to y (cols,rows), with a thread per number."""
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < rows and col < cols:
        y[col * rows + row] = x[row * cols + col]


def transpose_tiled(y, x, rows, cols):
    """Transpose as transpose() does, with a tile per block of TILE x TILE threads."""
    tile = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    if row < rows and col < cols:
        tile[ty, tx] = x[row * cols + col]
    cuda.syncthreads()  # the tile is complete
    row = cuda.blockIdx.x * TILE + ty  # row of y
    col = cuda.blockIdx.y * TILE + tx
    if row < cols and col < rows:
        y[row * rows + col] = tile[tx, ty]


def add_each(sum, x, count):
    """Add the numbers of x (count) to sum (1), which is 0 before the launch."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        cuda.atomic.add(sum, 0, x[i])


def number_at(x, i, count):
    """Return number i of x, or -0 past its end, since x + -0 is x for every x."""
    return x[i] if i < count else float32(-0.0)


def add_tree(sum, x, count):
    """Add as add_each() does, but first in a tree in each block of THREADS threads."""
    numbers_s = cuda.shared.array(THREADS, float32)
    own = cuda.threadIdx.x
    numbers_s[own] = number_at(x, cuda.blockIdx.x * THREADS + own, count)
    cuda.syncthreads()  # all numbers are stored
    half = THREADS // 2
    while half > 0:
        if own < half:
            numbers_s[own] += numbers_s[own + half]
        cuda.syncthreads()  # the sums of this round are complete
        half //= 2
    if own == 0:
        cuda.atomic.add(sum, 0, numbers_s[0])


def copy_to_each(dx, dsum, count):
    """Store dsum[0] in each number of dx (count)."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        dx[i] = dsum[0]


def softmax(y, x, rows, cols):
    """Compute y (rows,cols), the softmax of each row of x, with a thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    most = row_max(x, first, cols)
    sum = row_sum(x, first, cols, most)
    for j in range(cols):
        y[first + j] = math.exp(x[first + j] - most) / sum


def softmax_dx(dx, dy, y, rows, cols):
    """Compute dx = y * (dy - sum(dy * y)), row by row, with a thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    dot = float32(0)
    for j in range(cols):
        dot += dy[first + j] * y[first + j]
    for j in range(cols):
        dx[first + j] = y[first + j] * (dy[first + j] - dot)


def normalize_by_thread(
    y, total, mean, rstd, x, residual, weight, bias, rows, cols, eps, centred
):
    """Compute y, total (rows,cols), mean and rstd (rows), with a thread per row.

    centred: 1 for layernorm. For rmsnorm it is 0, and so is each mean. eps: float32.
    """
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    sum = float32(0)
    for i in range(cols):
        total[first + i] = x[first + i] + residual[first + i]
        sum += total[first + i]
    m = sum / float32(cols) if centred else float32(0)
    squares = float32(0)
    for i in range(cols):
        distance = total[first + i] - m
        squares += distance * distance
    r = float32(1) / math.sqrt(squares / float32(cols) + eps)
    for i in range(cols):
        y[first + i] = (total[first + i] - m) * r * weight[i] + bias[i]
    mean[row] = m
    rstd[row] = r


def differentiate_by_thread(dx, dy, x, weight, mean, rstd, rows, cols, centred):
    """Compute dx (rows,cols) for normalize_by_thread(), with a thread per row."""
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    m = mean[row]
    r = rstd[row]
    plain = float32(0)
    scaled = float32(0)
    for i in range(cols):
        g = dy[first + i] * weight[i]
        plain += g
        scaled += g * ((x[first + i] - m) * r)
    plain = plain / float32(cols) if centred else float32(0)
    scaled /= float32(cols)
    for i in range(cols):
        g = dy[first + i] * weight[i]
        xhat = (x[first + i] - m) * r
        dx[first + i] = r * (g - plain - xhat * scaled)


def add_rows(dweight, dbias, dy, x, mean, rstd, rows, cols):
    """Compute dweight and dbias (cols) for normalize_by_thread().

    A thread per column adds all rows; kernels/norm/08_weights.cu adds pieces of 64.
    """
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if col >= cols:
        return
    scaled = float32(0)
    plain = float32(0)
    for row in range(rows):
        i = row * cols + col
        plain += dy[i]
        scaled += dy[i] * ((x[i] - mean[row]) * rstd[row])
    dweight[col] = scaled
    dbias[col] = plain


def keep_each(y, kept, x, count, threshold):
    """Write the numbers of x (count) above `threshold` to y (count), in any order.

    kept: int64 (1), 0 before the launch; receives the count. A thread per number.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count and x[i] > threshold:
        y[cuda.atomic.add(kept, 0, 1)] = x[i]


def count_global(counts, x, count):
    """Add the number of bytes of each value in x (count), uint8, to counts (256).

    counts: int64, 0 before the launch. A thread per byte.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        cuda.atomic.add(counts, x[i], 1)


def count_shared(counts, x, count):
    """Count as count_global() does, but first separately in each block of THREADS."""
    counts_s = cuda.shared.array(THREADS, uint32)
    counts_s[cuda.threadIdx.x] = 0
    cuda.syncthreads()  # all counts are 0
    step = cuda.gridDim.x * THREADS
    first = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    for i in range(first, count, step):
        cuda.atomic.add(counts_s, x[i], uint32(1))
    cuda.syncthreads()  # all bytes are counted
    own = counts_s[cuda.threadIdx.x]
    if own > 0:
        cuda.atomic.add(counts, cuda.threadIdx.x, own)


def count_keys(counts, x, count, bins):
    """Add the number of each value below `bins` in x (count), int32, to counts (bins).

    counts: int64, 0 before the launch. Other values are ignored. A thread per number.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count and 0 <= x[i] < bins:
        cuda.atomic.add(counts, x[i], 1)


def kogge_stone(own, sums):
    """Return the sum of `own` over all earlier threads; sums[-1] is the total."""
    i = cuda.threadIdx.x
    sums[i] = own
    d = 1
    while d < THREADS:
        cuda.syncthreads()  # the previous step has stored its sums
        left = sums[i - d] if i >= d else float32(0)
        cuda.syncthreads()  # all threads have read their left sums
        sums[i] += left
        d *= 2
    cuda.syncthreads()  # all sums are complete
    return sums[i - 1] if i > 0 else float32(0)


def brent_kung(own, sums):
    """Return the sums of kogge_stone(), but move up and down a tree of sums."""
    i = cuda.threadIdx.x
    sums[i] = own
    d = 1
    while d < THREADS:
        right = (i + 1) * 2 * d - 1
        cuda.syncthreads()  # the previous step has stored its sums
        if right < THREADS:
            sums[right] += sums[right - d]
        d *= 2
    d = THREADS // 4
    while d > 0:
        left = (i + 1) * 2 * d - 1
        cuda.syncthreads()  # the previous step has stored its sums
        if left + d < THREADS:
            sums[left + d] += sums[left]
        d //= 2
    cuda.syncthreads()  # all sums are complete
    return sums[i - 1] if i > 0 else float32(0)


def add_tiles(sums, x, count, reverse):
    """Compute sums (tiles), the sum of each tile of x (count). One block per tile.

    reverse: 1 to number the tiles and the elements from the end.
    """
    sums_s = cuda.shared.array(THREADS, float32)
    i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    own = float32(0)
    if i < count:
        own = x[count - 1 - i if reverse else i]
    kogge_stone(own, sums_s)
    if cuda.threadIdx.x == 0:
        sums[cuda.blockIdx.x] = sums_s[THREADS - 1]


def scan_tiles(y, x, earlier, count, exclusive, reverse):
    """Compute y, the running sums of x (count). One block per tile.

    earlier (tiles): the sum of all earlier tiles.
    exclusive: 1 to sum only the numbers before each place.
    """
    sums_s = cuda.shared.array(THREADS, float32)
    i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    place = count - 1 - i if reverse else i
    own = float32(0)
    if i < count:
        own = x[place]
    before = earlier[cuda.blockIdx.x] + kogge_stone(own, sums_s)
    if i < count:
        y[place] = before if exclusive else before + own


def scan_tiles_brent_kung(y, x, earlier, count, exclusive, reverse):
    """Compute y as scan_tiles() does, but with the sums of brent_kung()."""
    sums_s = cuda.shared.array(THREADS, float32)
    i = cuda.blockIdx.x * THREADS + cuda.threadIdx.x
    place = count - 1 - i if reverse else i
    own = float32(0)
    if i < count:
        own = x[place]
    before = earlier[cuda.blockIdx.x] + brent_kung(own, sums_s)
    if i < count:
        y[place] = before if exclusive else before + own
