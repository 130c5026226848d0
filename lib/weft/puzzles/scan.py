"""The puzzles of lesson 09c: each thread must find out where its output begins.

stable_compaction     the even numbers of a block, in order
the_hang              a chained scan that must end in any order of blocks
segmented_scan        running sums that restart at marked places
"""

import numpy as np
from numpy import float32, int32

from weft import cuda

from .execution import chosen
from .instance import blocks_of, every_size
from .puzzle import Puzzle


def spec_stable_compaction(a):
    even = a[a % 2 == 0]
    return even, [len(even)]


def keep_even(out, count, a, n):
    i = cuda.threadIdx.x
    counts = cuda.shared.array(32, int32)
    x = a[i] if i < n else int32(1)
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
    if i == cuda.blockDim.x - 1:
        count[0] = begin + counts[i // 32]
    ### END SOLUTION


def make_parities(rng, n, kept):
    """Return n whole numbers of both signs, of which `kept` are even."""
    return 2 * rng.integers(-4, 16, n) + np.where(chosen(n, kept), 0, 1)


STABLE_COMPACTION = Puzzle(
    title="Stable compaction",
    text=(
        "`out` gets the even numbers of `a`, in order and without gaps, and `count[0]` "
        "their count. One block has several [warps](glossary.ipynb#warp), and at least "
        "`n` threads; `counts` has room for a count from each warp. Read each number "
        "once, without atomic operations."
    ),
    spec=spec_stable_compaction,
    answer=keep_even,
    checks=dict(
        outputs={"out": "int32[kept]", "count": "int32[1]"},
        inputs={"a": "int32[n]"},
        data={"a": make_parities},
        launch=[lambda n: (1, 128), lambda n: (1, 160)],
        sizes=[
            *[(48, 26), (1, 1), (3, 1), (31, 30), (33, 33), (64, 40), (96, 50)],
            *[(n, n // 2 + 1) for n in every_size([2])],
            *[(100, 41), (127, 90), (128, 128), (128, 1), (128, 64)],
        ],
    ),
    drawn=dict(n=48, kept=26),
    launch=(1, 128),
    hints=[
        "`cuda.ballot_sync(0xFFFFFFFF, x % 2 == 0)` has a bit for each lane that keeps "
        "its number, and `cuda.popc(bits)` counts bits. `cuda.lanemask_lt()` has a bit "
        "for each lower lane.",
        "A number's place is the count of the earlier warps, plus that of the earlier "
        "lanes of its own warp. The first of the two is an exclusive scan of a "
        "few numbers.",
        "One lane of each warp stores its warp's count in `counts`. All threads must "
        "wait before they read the counts of other warps.",
        "A thread adds up `counts[warp]` for all warps before its own, which is the "
        "warp `i // 32`.",
    ],
    better=(
        "A ballot and a count of bits replace the scan of a warp. Only one count per "
        "warp is left, and one barrier."
    ),
    limits={
        "reads.a": lambda n: n,
        "writes.out": lambda kept: kept,
        "barriers": 4,  # one for each of the four warps
        "atomics": 0,
    },
)


def spec_the_hang(a):
    return np.cumsum(a), np.ones(len(a)), [len(a)]


def wait_by_block(out, ready, ticket, a):
    i = cuda.blockIdx.x
    while i > 0 and cuda.atomic.add(ready, i - 1, 0) == 0:
        pass
    cuda.threadfence()
    out[i] = a[i] if i == 0 else out[i - 1] + a[i]
    cuda.threadfence()
    cuda.atomic.exch(ready, i, 1)


def wait_by_ticket(out, ready, ticket, a):
    ### BEGIN SOLUTION
    i = cuda.atomic.add(ticket, 0, 1)
    ### END SOLUTION
    while i > 0 and cuda.atomic.add(ready, i - 1, 0) == 0:
        pass
    cuda.threadfence()
    out[i] = a[i] if i == 0 else out[i - 1] + a[i]
    cuda.threadfence()
    cuda.atomic.exch(ready, i, 1)


THE_HANG = Puzzle(
    title="The hang",
    text=(
        "In this [scan](glossary.ipynb#scan), each number has a block of one thread, "
        "which waits until the previous number is `ready`. If the blocks begin in "
        "another order, the kernel never ends. Change one line: `ticket[0]` is 0 at "
        "first, and must be the number of blocks at the end."
    ),
    spec=spec_the_hang,
    answer=wait_by_ticket,
    start=wait_by_block,
    checks=dict(
        outputs={"out": "int32[n]"},
        inout={"ready": "int32[n]", "ticket": "int32[1]"},
        inputs={"a": "int32[n]"},
        data={
            "a": lambda rng, shape: rng.integers(-9, 10, shape),
            "ready": lambda shape: np.zeros(shape),
            "ticket": lambda shape: np.zeros(shape),
        },
        launch=[lambda n: (n, 1)],
        # A processor does not run 300 blocks at the same time.
        sizes=every_size([10, 1, 2, 3, 31, 64], 300),
        timeout=4.0,  # a busy machine needs more than a second to detect the wait
    ),
    drawn=dict(n=10),
    launch=(10, 1),
    hints=[
        "Block 7 waits for block 6. What if block 6 has not begun, and cannot begin "
        "until another block has ended?",
        "CUDA guarantees no order. But a block that runs can find out how many "
        "blocks began before it.",
        "`cuda.atomic.add(ticket, 0, 1)` adds 1, and returns the previous number.",
    ],
    better=(
        "A block takes its number when it begins. So each number that it waits for "
        "belongs to a block that has begun, and the first block waits for no other."
    ),
    limits={
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
    v = a[i] if i < n else float32(0)
    begins = heads[i] if i < n else int32(0)
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
        data={"a": lambda rng, shape: rng.integers(-3, 6, shape), "heads": make_heads},
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
        "The merged part contains a head if either part does. Merge the sums first, "
        "since they need the right part's own mark.",
    ],
    better=(
        "This is the scan of a warp, with a pair instead of a number: five rounds of "
        "two shuffles each."
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
