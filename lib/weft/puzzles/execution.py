"""The puzzles of lesson 07b: warps, and blocks that work on one result.

warp_sum                         lanes that exchange numbers
histogram, histogram_private     threads that count in one array, or per block
scan_blocks, scan_add            running sums over many blocks, in two launches
compact                          some of the numbers, in order and without gaps
"""

import numpy as np
from numpy import float32, int32

from weft import cuda

from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_warp_sum(a):
    return [a[i : i + 32].sum() for i in range(0, len(a), 32)]


def sum_by_shuffles(out, a, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    ### BEGIN SOLUTION
    half = 16
    while half > 0:
        v += cuda.shfl_down_sync(0xFFFFFFFF, v, half)
        half //= 2
    if i < n and i % 32 == 0:
        out[i // 32] = v
    ### END SOLUTION


WARP_SUM = Puzzle(
    text=(
        "`out[w]` is the sum of the 32 numbers of `a` that belong to warp `w` of the "
        "grid. The last warp may have fewer numbers, and an extra block has none. Use "
        "no shared memory and no [barrier](glossary.ipynb#barrier): let the "
        "[lanes](glossary.ipynb#lane) pass their numbers to each other."
    ),
    spec=spec_warp_sum,
    answer=sum_by_shuffles,
    checks=dict(
        outputs={"out": "cdiv(n, 32)"},
        inputs={"a": "n"},
        launch=[blocks_of(32), blocks_of(64), blocks_of(96, 1)],
        # 1025 numbers need 33 warps: i // 31 is right for the first 31 warps.
        sizes=every_size([1, 2, 3, 31, 32, 33, 64, 127], 1025),
    ),
    drawn=dict(n=32),
    launch=(1, 32),
    hints=[
        "`cuda.shfl_down_sync(0xFFFFFFFF, v, 16)` is the `v` of the lane 16 further "
        "up. Which sums do the lanes have after each has added that to its own number?",
        "Lanes 0 to 15 have sums of two numbers. Repeat this with 8, 4, 2, 1. All 32 "
        "lanes must reach each of these calls.",
        "At the end, one lane has the sum of its warp. Which lane is it, and which "
        "element of `out` belongs to its warp?",
    ],
    better=(
        "Five rounds, by 16, 8, 4, 2 and 1: each number is read once, and only the sum "
        "is written. With `shfl_xor_sync`, every lane would have the sum."
    ),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 32,
        "shared_writes": 0,
        "barriers": 0,
        "atomics": 0,
    },
)


def spec_histogram(counts, a):
    return counts + np.bincount(a, minlength=8)


def count_all(counts, a, n):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(counts, a[i], 1)
    ### END SOLUTION


def kinds(rng, shape):
    """Return random integers from 0 to 7."""
    return rng.integers(0, 8, shape)


HISTOGRAM = Puzzle(
    text=(
        "`a` has `n` integers from 0 to 7. Count how often each occurs: `counts[k]`, "
        "zero at first, grows by 1 for every k in `a`. Read each number once; the "
        "grid may have an extra block."
    ),
    spec=spec_histogram,
    answer=count_all,
    checks=dict(
        inout={"counts": "int32[8]"},
        inputs={"a": "int32[n]"},
        data={"a": kinds, "counts": lambda shape: np.zeros(shape)},
        launch=[blocks_of(8), blocks_of(32, 1)],
        sizes=every_size([97, 1, 2, 3, 7, 8, 9, 31, 33], 1009),
    ),
    drawn=dict(n=16),
    launch=(2, 8),
    hints=[
        "`counts[k] += 1` is three steps: read, add, write. What happens if two "
        "threads do that at the same time?",
        "`cuda.atomic.add(array, index, value)` does all three as one step.",
    ],
    better="Each number is read once, and costs one atomic operation.",
    limits={"reads.a": lambda n: n, "lanes.a": 8},
)


def count_in_blocks(counts, a, n):
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    mine = cuda.shared.array(8, int32)  # this block's counts
    ### BEGIN SOLUTION
    if t < 8:
        mine[t] = 0
    cuda.syncthreads()
    if i < n:
        cuda.atomic.add(mine, a[i], 1)
    cuda.syncthreads()
    if t < 8:
        cuda.atomic.add(counts, t, mine[t])
    ### END SOLUTION


HISTOGRAM_PRIVATE = Puzzle(
    name="histogram_private",
    title="Private histogram",
    text=(
        "Compute the same histogram more cheaply: atomic operations on global memory "
        "are expensive if many threads update the same element. Let each block count "
        "in shared memory, and then add its 8 counts to `counts`. That takes 8 atomic "
        "operations on `counts` for each block, even for one that has no numbers."
    ),
    spec=spec_histogram,
    answer=count_in_blocks,
    checks=dict(
        inout={"counts": "int32[8]"},
        inputs={"a": "int32[n]"},
        data={"a": kinds, "counts": lambda shape: np.zeros(shape)},
        # Blocks of 64 have two warps.
        launch=[blocks_of(16), blocks_of(32, 1), blocks_of(64)],
        sizes=every_size([1, 2, 3, 15, 16, 17, 31, 33, 97], 1009),
    ),
    drawn=dict(n=30),
    launch=(2, 16),
    hints=[
        "What does shared memory contain when a block begins? Some threads must store "
        "zeros in `mine`, and all threads must wait for that.",
        "Many threads of the block update the same element of `mine`. These updates "
        "are atomic, too, but cheap.",
        "After all threads have counted, the first 8 threads each add one count to "
        "`counts`. Other blocks do the same at the same time.",
    ],
    better=(
        "A block costs 8 atomic operations in global memory, however many numbers it "
        "counts. All others are in shared memory."
    ),
    scored=dict(n=32),
    limits={
        "reads.a": lambda n: n,
        "lanes.a": 8,  # a compiler may split a read: for t < 8, and for others
        "atomics.counts": lambda blocks: 8 * blocks,
    },
)


def spec_scan_blocks(a):
    parts = [np.cumsum(a[i : i + 32]) for i in range(0, len(a), 32)]
    return np.concatenate(parts), [part[-1] for part in parts]


def scan_each_block(out, totals, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v = float32(0)
    if i < n:
        v = a[i]
    ### BEGIN SOLUTION
    step = 1
    while step < 32:
        previous = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        if lane >= step:
            v += previous
        step *= 2
    if i < n:
        out[i] = v
    if lane == 31 and i - 31 < n:
        totals[cuda.blockIdx.x] = v
    ### END SOLUTION


SCAN_BLOCKS = Puzzle(
    title="Scan of blocks",
    text=(
        "Running sums over many blocks take two launches. This is the first: each "
        "block of 32 threads writes to `out` the running sums of its own 32 numbers, "
        "and their total to `totals[block]`. The last block may have fewer numbers, "
        "and an extra block may have none."
    ),
    spec=spec_scan_blocks,
    answer=scan_each_block,
    checks=dict(
        outputs={"out": "n", "totals": "cdiv(n, 32)"},
        inputs={"a": "n"},
        launch=[blocks_of(32), blocks_of(32, 1)],
        sizes=every_size([1, 2, 3, 31, 32, 33, 63, 97], 1009),
    ),
    drawn=dict(n=48),
    launch=(2, 32),
    hints=[
        "`cuda.shfl_up_sync(0xFFFFFFFF, v, 1)` is the `v` of the previous lane. After "
        "adding it, each lane has the sum of two numbers, except lane 0, which has no "
        "previous lane.",
        "Repeat this with the lanes 2, 4, 8 and 16 back. Every lane must reach "
        "the call; only those with such a lane before them add the result.",
        "A lane past the end contributes a 0. What does the last lane have at the end, "
        "in a block that is not full?",
    ],
    better=(
        "Five rounds of shuffles, by 1, 2, 4, 8 and 16: no shared memory and no "
        "barrier. Each number is read once."
    ),
    scored=dict(n=64, launch=(2, 32)),
    limits={"reads.a": lambda n: n, "lanes.a": 32},
)


def spec_scan_add(out, totals):
    offset = np.cumsum(totals) - totals
    return out + np.repeat(offset, 32)[: len(out)]


def add_what_came_before(out, totals, n):
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    offset = float32(0)
    for block in range(cuda.threadIdx.x, cuda.blockIdx.x, 32):
        offset += totals[block]
    half = 16
    while half > 0:
        offset += cuda.shfl_xor_sync(0xFFFFFFFF, offset, half)
        half //= 2
    if i < n:
        out[i] += offset
    ### END SOLUTION


def first_launch(n):
    """Return scan_blocks' output (out, totals) for n numbers; n determines the numbers.

    The numbers are small, so that running sums of 80 numbers have two digits and fit a
    drawn cell.
    """
    return spec_scan_blocks(np.random.default_rng(n).integers(-3, 6, n))


SCAN_ADD = Puzzle(
    title="Complete scan",
    text=(
        "This is the second launch: `out` contains the running sums of each block of "
        "32, and `totals` the sum of each block. To every number of `out`, add the "
        "totals of all earlier blocks, so that `out` has the running sums of all "
        "numbers. A block reads each total at most once; the grid may have an extra "
        "block."
    ),
    spec=spec_scan_add,
    answer=add_what_came_before,
    checks=dict(
        inout={"out": "n"},
        inputs={"totals": "cdiv(n, 32)"},
        data={
            "out": lambda n: first_launch(n)[0],
            "totals": lambda n: first_launch(n)[1],
        },
        launch=[blocks_of(32), blocks_of(32, 1)],
        # 1090 numbers need 35 blocks, more than a warp has lanes.
        sizes=every_size([1, 2, 3, 31, 32, 33, 97, 1090]),
    ),
    drawn=dict(n=80),
    launch=(3, 32),
    hints=[
        "Block 0 adds nothing, block 1 adds the first total, and block 2 adds the "
        "first two. The 32 lanes of a block can share the reads.",
        "Lane `t` adds up those of the totals t, t + 32, ... that belong to earlier "
        "blocks. Now each lane has a part of the sum, and all lanes need the whole "
        "sum.",
        "There are two ways to add up over a warp, with `down` and with `xor`. One of "
        "them leaves the sum in every lane.",
    ],
    better=(
        "The lanes share the totals, one read each, and shuffles with `xor` give every "
        "lane the sum."
    ),
    limits={"reads.totals": lambda blocks: sum(range(blocks))},
)


def spec_compact(a):
    return a[a > 0]


def keep_positive(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    ### BEGIN SOLUTION
    votes = cuda.ballot_sync(0xFFFFFFFF, v > 0)
    offset = cuda.popc(votes & cuda.lanemask_lt())
    if v > 0:
        out[begin[cuda.blockIdx.x] + offset] = v
    ### END SOLUTION


def chosen(n, kept):
    """Return a mask of the numbers to keep; n and kept determine it."""
    mask = np.zeros(n, bool)
    mask[np.random.default_rng([n, kept]).permutation(n)[:kept]] = True
    return mask


def signed(rng, n, kept):
    """Return n multiples of 1/4: `kept` above zero, a zero, and negative ones."""
    mask = chosen(n, kept)
    x = np.where(mask, 1, -1) * rng.integers(1, 40, n) / 4
    x[np.flatnonzero(~mask)[:1]] = 0
    return x


def first_places(n, kept):
    """Return, for each block, the count of numbers kept by the blocks before it."""
    counts = np.add.reduceat(chosen(n, kept), np.arange(0, n, 32), dtype=np.int32)
    return np.cumsum(counts) - counts


COMPACT = Puzzle(
    text=(
        "`out` gets the numbers of `a` that are above 0, in order and without gaps. "
        "Blocks have 32 threads, and the grid may have an extra block. "
        "`begin[block]` is the place in `out` of the block's first kept number: a scan "
        "has already counted how many numbers the blocks before it keep."
    ),
    spec=spec_compact,
    answer=keep_positive,
    checks=dict(
        outputs={"out": "kept"},
        inputs={"a": "n", "begin": "int32[cdiv(n, 32)]"},
        data={"a": signed, "begin": first_places},
        terms=0,  # each number is copied bit by bit
        launch=[blocks_of(32), blocks_of(32, 1)],
        sizes=[
            *[(1, 1), (3, 1), (31, 30), (32, 16), (33, 33), (100, 41)],
            *[(n, n // 2 + 1) for n in every_size([2])],
            (1009, 600),
        ],
    ),
    drawn=dict(n=48, kept=26),
    launch=(2, 32),
    hints=[
        "A number goes to place `begin[block]` plus the number of earlier lanes that "
        "keep theirs. How does a lane find that number?",
        "`cuda.ballot_sync(0xFFFFFFFF, v > 0)` evaluates the condition in all 32 lanes "
        "and returns the same 32 bits to each, bit k for lane k.",
        "`cuda.lanemask_lt()` has a bit for each lower lane, and `cuda.popc(bits)` "
        "counts bits.",
    ],
    better=(
        "One ballot and a count of bits: no shared memory, no barrier. A kept number "
        "is already in a register."
    ),
    limits={
        "reads.a": lambda n: 3 * n,  # one read to vote, one to choose, one to store
        # A first read has 24 lanes on average: 32 in one block and 16 in the other. The
        # limit is half of that, since only lanes that keep their number make the later
        # reads.
        "lanes.a": 12,
    },
)
