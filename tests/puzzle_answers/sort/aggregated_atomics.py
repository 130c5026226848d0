"""Answers to the puzzle aggregated_atomics."""

from numpy import int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("aggregated_atomics")
def by_ballots(counts, a, n):
    i = cuda.grid(1)
    x = int32(-1)
    if i < n:
        x = a[i]
    for k in range(counts.size):
        votes = cuda.ballot_sync(0xFFFFFFFF, x == k)
        if cuda.laneid == 0 and votes != 0:
            cuda.atomic.add(counts, k, cuda.popc(votes))


@right("aggregated_atomics")
def by_the_last_lane(counts, a, n):
    i = cuda.grid(1)
    x = int32(-1)
    if i < n:
        x = a[i]
    peers = cuda.match_any_sync(0xFFFFFFFF, x)
    if x >= 0 and 31 - cuda.clz(peers) == cuda.laneid:
        cuda.atomic.add(counts, x, cuda.popc(peers))


right_c(
    "aggregated_atomics",
    """__global__ void count(int *counts, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = i < n ? a[i] : -1;
    unsigned peers = __match_any_sync(~0u, x);
    bool first = __ffs(peers) - 1 == threadIdx.x % 32;
    if (first && x >= 0) atomicAdd(&counts[x], __popc(peers));
}""",
)


@wrong("aggregated_atomics", says="atomic updates of counts", where=False)
def each_lane_for_itself(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(counts, a[i], 1)


@wrong("aggregated_atomics", says=r"counts\[\d+\] is .*expected")
def all_lanes_add(counts, a, n):
    i = cuda.grid(1)
    x = int32(-1)
    if i < n:
        x = a[i]
    peers = cuda.match_any_sync(0xFFFFFFFF, x)
    if i < n:
        cuda.atomic.add(counts, x, cuda.popc(peers))


@wrong("aggregated_atomics", says=r"counts\[\d+\] is .*expected")
def the_first_adds_one(counts, a, n):
    i = cuda.grid(1)
    x = int32(-1)
    if i < n:
        x = a[i]
    peers = cuda.match_any_sync(0xFFFFFFFF, x)
    if i < n and peers & cuda.lanemask_lt() == 0:
        cuda.atomic.add(counts, x, 1)


@wrong("aggregated_atomics", says=r"counts\[\d+\] is .*expected")
def idle_lanes_count_as_zero(counts, a, n):
    i = cuda.grid(1)
    x = int32(0)
    if i < n:
        x = a[i]
    peers = cuda.match_any_sync(0xFFFFFFFF, x)
    if peers & cuda.lanemask_lt() == 0:
        cuda.atomic.add(counts, x, cuda.popc(peers))


@wrong("aggregated_atomics", says="lanes|never|wait|sync")
def idle_lanes_do_not_call(counts, a, n):
    i = cuda.grid(1)
    if i < n:
        peers = cuda.match_any_sync(0xFFFFFFFF, a[i])
        if peers & cuda.lanemask_lt() == 0:
            cuda.atomic.add(counts, a[i], cuda.popc(peers))


@wrong("aggregated_atomics", says="nothing orders|race|conflict|counts")
def without_atomics(counts, a, n):
    i = cuda.grid(1)
    x = int32(-1)
    if i < n:
        x = a[i]
    peers = cuda.match_any_sync(0xFFFFFFFF, x)
    if i < n and peers & cuda.lanemask_lt() == 0:
        counts[x] += cuda.popc(peers)


wrong_c(
    "aggregated_atomics",
    """__global__ void count(int *counts, const int *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = i < n ? a[i] : -1;
    unsigned peers = __match_any_sync(~0u, x);
    if (threadIdx.x % 32 == 0 && x >= 0) atomicAdd(&counts[x], __popc(peers));
}""",
    says=r"counts\[\d+\] is .*expected",
)
