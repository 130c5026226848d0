"""The puzzles of lesson 09c: each thread must find out where its output begins.

stable_compaction     the even numbers of a block, in order
the_hang              a chained scan that no schedule may hang
segmented_scan        running sums that begin again at marked places
"""

import numpy as np
from numpy import float32, int32

from weft import cuda

from ..check.cases import divide_up
from .execution import chosen
from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_stable_compaction(a):
    even = a[a % 2 == 0]
    return even, [len(even)]


def keep_even(out, count, a, n):
    i = cuda.threadIdx.x
    counts = cuda.shared.array(4, int32)
    x = int32(1)
    if i < n:
        x = a[i]
    ### BEGIN SOLUTION
    votes = cuda.ballot_sync(0xFFFFFFFF, x % 2 == 0)
    if cuda.laneid == 0:
        counts[i // 32] = cuda.popc(votes)
    cuda.syncthreads()
    begin = 0
    for warp in range(i // 32):
        begin += counts[warp]
    if x % 2 == 0:
        out[begin + cuda.popc(votes & cuda.lanemask_lt())] = x
    if i == 127:
        count[0] = begin + counts[3]
    ### END SOLUTION


def make_parities(rng, n, kept):
    """Return n whole numbers of both signs, of which `kept` are even."""
    return 2 * rng.integers(-20, 20, n) + np.where(chosen(n, kept), 0, 1)


STABLE_COMPACTION = Puzzle(
    title="Stable compaction",
    text=(
        "`out` gets the even numbers of `a`, in order and without gaps, and `count[0]` "
        "gets how many they are. One block of 128 threads, so four "
        "[warps](glossary.ipynb#warp), keeps up to 128 numbers. A "
        "[ballot](glossary.ipynb#ballot) counts those of a warp; `counts` is for the "
        "four warps. Read each number once, without atomic operations."
    ),
    spec=spec_stable_compaction,
    answer=keep_even,
    checks=dict(
        outputs={"out": "int32[kept]", "count": "int32[1]"},
        inputs={"a": "int32[n]"},
        data={"a": make_parities},
        launch=[lambda n: (1, 128)],
        sizes=[
            *[(70, 34), (1, 1), (3, 1), (31, 30), (32, 16), (33, 33), (64, 40)],
            *[(96, 50), (100, 41), (127, 90), (128, 128), (128, 1), (128, 64)],
        ],
    ),
    drawn=dict(n=70, kept=34),
    launch=(1, 128),
    hints=[
        "`cuda.ballot_sync(0xFFFFFFFF, x % 2 == 0)` has a bit for each lane that keeps "
        "its number, and `cuda.popc(bits)` counts bits. `cuda.lanemask_lt()` has a bit "
        "for each lower lane.",
        "A number's place is the count of the earlier warps, plus that of the earlier "
        "lanes of its own warp. The first of the two is an exclusive scan of four "
        "numbers.",
        "One lane of each warp stores its warp's count in `counts`. All threads must "
        "wait before they read the counts of other warps.",
        "Add up `counts[warp]` for all earlier warps: `for warp in range(i // 32)`.",
    ],
    better=(
        "A ballot is a scan of 32 bits in one instruction. Only four counts are left, "
        "with one barrier, and each thread adds up at most three of them."
    ),
    limits={
        "reads.a": lambda n: n,
        "writes.out": lambda kept: kept,
        "barriers": 4,
        "atomics": 0,
    },
)


def spec_the_hang(a, n):
    tiles = divide_up(n, 4)
    totals = np.cumsum(a)
    ends = np.minimum(4 * np.arange(1, tiles + 1), n) - 1
    return totals, totals[ends], np.ones(tiles), [tiles]


def wait_by_block(out, sums, ready, ticket, a, n):
    tile = cuda.blockIdx.x
    total = int32(0)
    if tile > 0:
        while cuda.atomic.add(ready, tile - 1, 0) == 0:
            pass
        cuda.threadfence()
        total = sums[tile - 1]
    for i in range(4 * tile, min(4 * tile + 4, n)):
        total += a[i]
        out[i] = total
    sums[tile] = total
    cuda.threadfence()
    cuda.atomic.exch(ready, tile, 1)


def wait_by_ticket(out, sums, ready, ticket, a, n):
    ### BEGIN SOLUTION
    tile = cuda.atomic.add(ticket, 0, 1)
    ### END SOLUTION
    total = int32(0)
    if tile > 0:
        while cuda.atomic.add(ready, tile - 1, 0) == 0:
            pass
        cuda.threadfence()
        total = sums[tile - 1]
    for i in range(4 * tile, min(4 * tile + 4, n)):
        total += a[i]
        out[i] = total
    sums[tile] = total
    cuda.threadfence()
    cuda.atomic.exch(ready, tile, 1)


THE_HANG = Puzzle(
    title="The hang",
    text=(
        "A [scan](glossary.ipynb#scan) in one launch: each block has one thread and a "
        "tile of four numbers. It waits until the tile before it is `ready`, and adds "
        "that tile's running sum. If the blocks begin in another order, the kernel "
        "never ends. `ticket[0]` is 0 at first, and counts the tiles that have been "
        "taken at the end. Change one line."
    ),
    spec=spec_the_hang,
    answer=wait_by_ticket,
    start=wait_by_block,
    checks=dict(
        outputs={"out": "int32[n]", "sums": "int32[cdiv(n, 4)]"},
        inout={"ready": "int32[cdiv(n, 4)]", "ticket": "int32[1]"},
        inputs={"a": "int32[n]"},
        data={
            "a": lambda rng, shape: rng.integers(-9, 10, shape),
            "ready": lambda shape: np.zeros(shape),
            "ticket": lambda shape: np.zeros(shape),
        },
        launch=[lambda n: (divide_up(n, 4), 1)],
        # With 300 blocks, not all of them run at the same time on a processor.
        sizes=[10, 1, 2, 3, 4, 5, 8, 33, 64, 1200],
        timeout=1.5,
    ),
    drawn=dict(n=10),
    launch=(3, 1),
    hints=[
        "Block 7 waits for block 6. What if block 6 has not begun, and cannot begin "
        "until another block has ended?",
        "The grid promises no order. But a block that runs can find out how many "
        "blocks began before it.",
        "`cuda.atomic.add(ticket, 0, 1)` adds 1, and returns the number before.",
    ],
    better=(
        "A block takes its number when it begins. So each tile that it waits for "
        "belongs to a block that has begun, and the first of them waits for nobody."
    ),
    limits={
        "reads.a": lambda n: n,
        "writes.out": lambda n: n,
        "atomics.ticket": lambda blocks: blocks,
    },
)


def spec_segmented_scan(a, heads):
    out = np.zeros(len(a))
    for i, x in enumerate(a):
        begins = heads[i] or i % 32 == 0
        out[i] = x if begins else out[i - 1] + x
    return out


def add_segments(out, a, heads, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    v, begins = float32(0), int32(0)
    if i < n:
        v = a[i]
        begins = heads[i]
    ### BEGIN SOLUTION
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(0xFFFFFFFF, v, step)
        begun = cuda.shfl_up_sync(0xFFFFFFFF, begins, step)
        if lane >= step:
            if begins == 0:
                v += before
            begins |= begun
        step *= 2
    if i < n:
        out[i] = v
    ### END SOLUTION


def make_heads(rng, shape):
    """Return marks of segments (0 or 1): some segments are short, some are long."""
    return rng.random(shape) < rng.choice([0.05, 0.3, 0.8], shape)


SEGMENTED_SCAN = Puzzle(
    title="Segmented scan",
    text=(
        "`out` gets the running sums of `a`, but they begin again wherever `heads[i]` "
        "is 1, and at the first number of each block of 32 threads. Read each number "
        "once, without shared memory. The grid may have an extra block."
    ),
    spec=spec_segmented_scan,
    answer=add_segments,
    checks=dict(
        outputs={"out": "n"},
        inputs={"a": "n", "heads": "int32[n]"},
        data={"heads": make_heads},
        launch=[blocks_of(32), blocks_of(32, 1)],
        sizes=every_size([40, 1, 2, 3, 31, 32, 33, 63, 97], 1009),
    ),
    drawn=dict(n=40),
    launch=(2, 32),
    hints=[
        "Two neighbouring parts merge, as in a scan. Whether a part contains a head is "
        "the second number of a pair.",
        "If the right part contains a head, its running sum stays as it is. Otherwise, "
        "the left part's sum is added.",
        "The merged part contains a head if either part does: `begins |= begun`. Do "
        "this after the sum, which needs the old `begins`.",
    ],
    better=(
        "The scan of a warp, with a pair in place of a number: five rounds of two "
        "shuffles each."
    ),
    scored=dict(n=64, launch=(2, 32)),
    limits={
        "reads.a": lambda n: n,
        "reads.heads": lambda n: n,
        "lanes.a": 32,
        "shared_writes": 0,
        "barriers": 0,
        "atomics": 0,
    },
)
