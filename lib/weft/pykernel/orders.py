"""First rungs of sort and topk, as Python functions.

The kernels of a bitonic sort match kernels/sort/01_bitonic.cu line by line.
count_nibbles(), scan_counts() and scatter_nibbles() are the simplest form of the radix
sort in 02_three_kernels.cu. exchange_pairs() is the simplest form of topk's rung
"sort", and keep_largest() that of its rung "heap_a_warp". The arguments follow the
rules of bodies.py.
"""

from numpy import int32, int64

from .. import cuda
from .bodies import THREADS

PAIR_TILE = 2 * THREADS  # words that a block sorts in shared memory
DIGITS = 16  # values of 4 bits

# ---- topk ----


def exceeds(a, b):
    """Return whether a is larger than b; NaN is larger than all other numbers."""
    return a > b or (a != a and b == b)


def precedes(x, a, b, end):
    """Return whether x[a] comes before x[b] in topk's order.

    Equal numbers keep their order. Places from `end` on are missing and come last.
    """
    if a >= end or b >= end:
        return a < b
    if exceeds(x[a], x[b]):
        return True
    return a < b and not exceeds(x[b], x[a])


def number_places(places, rows, cols, padded):
    """Write the place in x (rows,cols) of each column, int32, to places (rows,padded).

    padded: a power of 2. Columns past the end have places past the row.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < rows * padded:
        places[i] = i // padded * cols + i % padded


def exchange_pairs(places, x, rows, cols, padded, size, stride):
    """Do a step of a bitonic sort of each row of places, the largest number first.

    The step sorts runs of `size` places, every second run in ascending order. The
    places of a pair are `stride` apart. One thread per pair.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i >= rows * padded // 2:
        return
    lower = 2 * i - (i & (stride - 1))
    end = (lower // padded + 1) * cols
    a = places[lower]
    b = places[lower + stride]
    falls = (lower % padded & size) == 0
    if precedes(x, b, a, end) == falls:
        places[lower] = b
        places[lower + stride] = a


def write_first(values, indices, x, places, rows, cols, padded, k):
    """Write each row's first k places as keep_largest() does. One thread per place."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < rows * k:
        row = i // k
        place = places[row * padded + i % k]
        values[i] = x[place]
        indices[i] = place - row * cols


def keep_largest(values, indices, x, rows, cols, k):
    """Write the k largest numbers of each row of x (rows,cols).

    values (rows,k): these numbers, the largest first.
    indices: int64 (rows,k), their columns. Equal numbers are sorted by column.
    One thread per row.
    """
    row = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row >= rows:
        return
    first = row * cols
    best = row * k
    for i in range(cols):
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


def scatter_values(dx, dvalues, indices, rows, cols, k):
    """Write dvalues (rows,k) to dx (rows,cols), 0 before the launch, at the indices.

    indices: int64 (rows,k). One thread per value.
    """
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < rows * k:
        dx[i // k * cols + indices[i]] = dvalues[i]


# ---- sort: keys ----


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


# ---- sort: a bitonic network ----


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

    Word i of the first half of each `length` words meets word i counted from the end.
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
        cuda.syncthreads()  # the previous step's words are stored
        exchange_mirrored(words_s, cuda.threadIdx.x, length, count - first)
        d = length // 4
        while d > 0:
            cuda.syncthreads()  # the previous step's words are stored
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
        cuda.syncthreads()  # the previous step's words are stored
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


# ---- sort: a radix sort ----


def find_nibble(key, shift, is_float, flips):
    """Return the 4 bits of the key's rank from bit `shift` upwards."""
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
    """Sort the keys x (count) by one digit into y, and `values` into sorted_values.

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
