"""First rungs of memory-bound ops, as Python functions.

The ops are copy, transpose, reduce, softmax, layernorm, rmsnorm, compact, histogram,
bincount, topk, sort and scan. Each function matches its rung in kernels/<op> line by
line. keep_largest() is the simplest form of topk's rung 2, and count_nibbles() and
scatter_nibbles() are that of sort's rung 2. The arguments follow the rules of
bodies.py.
"""

import math

from numpy import float32, int32, int64, uint32

from .. import cuda
from .bodies import THREADS, TILE, row_max, row_sum


def copy_words(y, x, count):
    """Copy x (count), of any type, to y with a thread per number."""
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


def exceeds(a, b):
    """Return whether a is larger than b; NaN is larger than all other numbers."""
    return a > b or (a != a and b == b)


def keep_largest(values, indices, x, rows, columns, k):
    """Write the k largest numbers of each row of x (rows,columns).

    values (rows,k): these numbers, the largest first.
    indices: int64 (rows,k), their columns. Equal numbers are sorted by column.
    One thread per row.
    """
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * columns
    best = row * k
    for i in range(columns):
        own = x[first + i]
        place = min(i, k)  # count of the numbers kept so far
        while place > 0 and exceeds(own, values[best + place - 1]):
            if place < k:  # shift a smaller number; the last of k drops out
                values[best + place] = values[best + place - 1]
                indices[best + place] = indices[best + place - 1]
            place -= 1
        if place < k:
            values[best + place] = own
            indices[best + place] = i


PAIR_TILE = 2 * THREADS  # words that a block sorts in shared memory


def rank_key(key, is_float, flips):
    """Return the rank of a key, an int32 that has the order of the keys.

    key: the bits of an int, an unsigned int or, if is_float is 1, a float, as int32.
    flips: the bits of the rank to flip, which are those of find_flips().
    """
    rank = key
    if is_float:
        magnitude = key & 0x7FFFFFFF
        if key < 0:
            rank = -magnitude  # -0 has the rank of 0
        if magnitude > 0x7F800000:
            rank = 0x7FFFFFFF  # a NaN
    return rank ^ flips


def find_flips(is_unsigned, descending):
    """Return `flips` of rank_key(): the sign bit, or all bits, or all but the sign."""
    return (-(2**31) if is_unsigned else 0) ^ (-1 if descending else 0)


def exchange(words, low, high, count):
    """Put two words in order. A missing word, past the end, is the greatest."""
    if high < count:
        a = words[low]
        b = words[high]
        if a > b:
            words[low] = b
            words[high] = a


def exchange_mirrored(words, t, length, count):
    """Do the first step of a merge for pair t of words, which has `count` numbers.

    Word i of the first half of each `length` words meets word i from the end.
    """
    low = t // (length // 2) * length + t % (length // 2)
    exchange(words, low, low ^ (length - 1), count)


def exchange_apart(words, t, distance, count):
    """Do a later step of a merge for pair t; its words are `distance` apart."""
    low = t // distance * (2 * distance) + t % distance
    exchange(words, low, low + distance, count)


def sort_tiles(words, x, count, is_float, flips):
    """Sort each tile of PAIR_TILE keys of x (count), int32, with a block of THREADS.

    words: int64 (count). A word holds a key's rank and index: rank << 32 | index.
    """
    words_s = cuda.shared.array(PAIR_TILE, int64)
    first = cuda.blockIdx.x * PAIR_TILE
    for i in range(cuda.threadIdx.x, PAIR_TILE, THREADS):
        if first + i < count:
            rank = rank_key(x[first + i], is_float, flips)
            words_s[i] = int64(rank) << 32 | (first + i)
    length = 2
    while length <= PAIR_TILE:
        cuda.syncthreads()  # the words of the last step are stored
        exchange_mirrored(words_s, cuda.threadIdx.x, length, count - first)
        d = length // 4
        while d > 0:
            cuda.syncthreads()  # the words of the last step are stored
            exchange_apart(words_s, cuda.threadIdx.x, d, count - first)
            d //= 2
        length *= 2
    cuda.syncthreads()  # the tile is sorted
    for i in range(cuda.threadIdx.x, PAIR_TILE, THREADS):
        if first + i < count:
            words[first + i] = words_s[i]


def merge_tiles(words, count):
    """Do a merge's steps at distances of at most THREADS, with a block per tile."""
    words_s = cuda.shared.array(PAIR_TILE, int64)
    first = cuda.blockIdx.x * PAIR_TILE
    for i in range(cuda.threadIdx.x, PAIR_TILE, THREADS):
        if first + i < count:
            words_s[i] = words[first + i]
    d = THREADS
    while d > 0:
        cuda.syncthreads()  # the words of the last step are stored
        exchange_apart(words_s, cuda.threadIdx.x, d, count - first)
        d //= 2
    cuda.syncthreads()  # the tile is sorted
    for i in range(cuda.threadIdx.x, PAIR_TILE, THREADS):
        if first + i < count:
            words[first + i] = words_s[i]


def merge_mirrored(words, length, count):
    """Do the first step of a merge of words (count), with a thread per pair."""
    t = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    exchange_mirrored(words, t, length, count)


def merge_apart(words, distance, count):
    """Do a later step of a merge of words (count), with a thread per pair."""
    t = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    exchange_apart(words, t, distance, count)


def gather_keys(y, sorted_values, x, values, words, count):
    """Write the keys x (count) and their values in the order of the words."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < count:
        from_ = words[i] & 0x7FFFFFFF
        y[i] = x[from_]
        sorted_values[i] = values[from_]


DIGITS = 16  # values of 4 bits


def find_nibble(key, shift, is_float, flips):
    """Return the 4 bits of the key's rank that end at bit `shift`."""
    return rank_key(key, is_float, flips) >> shift & (DIGITS - 1)


def count_nibbles(counts, x, count, shift, is_float, flips):
    """Compute counts, int32 (DIGITS,tiles), of each digit in each tile of x (count).

    A block of THREADS counts a tile. The digits must have the order of the ranks as
    unsigned numbers, so the sign bit of `flips` is the opposite of rank_key()'s.
    """
    counts_s = cuda.shared.array(DIGITS, int32)
    own = cuda.threadIdx.x
    if own < DIGITS:
        counts_s[own] = 0
    cuda.syncthreads()  # all counts are 0
    i = cuda.blockIdx.x * THREADS + own
    if i < count:
        cuda.atomic.add(counts_s, find_nibble(x[i], shift, is_float, flips), 1)
    cuda.syncthreads()  # all keys of the tile are counted
    if own < DIGITS:
        counts[own * cuda.gridDim.x + cuda.blockIdx.x] = counts_s[own]


def scan_counts(counts, size):
    """Replace each of `size` counts with the sum of all before it, in one block."""
    sums_s = cuda.shared.array(THREADS, int32)
    share = (size + THREADS - 1) // THREADS  # counts of a thread
    first = cuda.threadIdx.x * share
    end = min(first + share, size)
    sum = 0
    for i in range(first, end):
        sum += counts[i]
    sums_s[cuda.threadIdx.x] = sum
    cuda.syncthreads()  # the sums of all shares are stored
    before = 0
    for thread in range(cuda.threadIdx.x):
        before += sums_s[thread]
    for i in range(first, end):
        own = counts[i]
        counts[i] = before
        before += own


def scatter_nibbles(y, sorted_values, firsts, x, values, count, shift, is_float, flips):
    """Write the keys x (count) and their values to their places in y, by one digit.

    firsts (DIGITS,tiles): the place of a tile's first key with a digit. A thread's key
    follows the equal digits of earlier threads, so equal keys keep their order.
    """
    digits_s = cuda.shared.array(THREADS, int32)
    own = cuda.threadIdx.x
    i = cuda.blockIdx.x * THREADS + own
    if i < count:
        digits_s[own] = find_nibble(x[i], shift, is_float, flips)
    cuda.syncthreads()  # the digits of the tile are stored
    if i < count:
        to = firsts[digits_s[own] * cuda.gridDim.x + cuda.blockIdx.x]
        for thread in range(own):
            if digits_s[thread] == digits_s[own]:
                to += 1
        y[to] = x[i]
        sorted_values[to] = values[i]


def kogge_stone(own, sums):
    """Return the sum of `own` over all earlier threads; sums[-1] is the total."""
    i = cuda.threadIdx.x
    sums[i] = own
    d = 1
    while d < THREADS:
        cuda.syncthreads()  # the last step has stored its sums
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
        cuda.syncthreads()  # the last step has stored its sums
        if right < THREADS:
            sums[right] += sums[right - d]
        d *= 2
    d = THREADS // 4
    while d > 0:
        left = (i + 1) * 2 * d - 1
        cuda.syncthreads()  # the last step has stored its sums
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
