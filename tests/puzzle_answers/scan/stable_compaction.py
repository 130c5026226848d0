"""Answers to the puzzle stable_compaction."""

from numpy import int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("stable_compaction")
def by_shuffles(out, count, a, n):
    i = cuda.threadIdx.x
    lane = cuda.laneid
    counts = cuda.shared.array(32, int32)
    keeps = int32(0)
    x = int32(0)
    if i < n:
        x = a[i]
        if x % 2 == 0:
            keeps = int32(1)
    place = keeps
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(0xFFFFFFFF, place, step)
        if lane >= step:
            place += before
        step *= 2
    if lane == 31:
        counts[i // 32] = place
    cuda.syncthreads()
    begin = 0
    for warp in range(cuda.blockDim.x // 32):
        if warp < i // 32:
            begin += counts[warp]
    if keeps:
        out[begin + place - 1] = x
    if i == cuda.blockDim.x - 1:
        count[0] = begin + place


right_c(
    "stable_compaction",
    """__global__ void keep(int *out, int *count, const int *a, int n) {
    __shared__ int begins[6];
    const unsigned i = threadIdx.x, warp = i / 32, lower = (1u << i % 32) - 1;
    const int x = i < n ? a[i] : 1;
    const bool keeps = x % 2 == 0;
    const unsigned votes = __ballot_sync(~0u, keeps);
    if (i == 0) begins[0] = 0;
    if (i % 32 == 0) begins[warp + 1] = __popc(votes);
    __syncthreads();
    if (i == 0) for (int w = 1; w <= blockDim.x / 32; w++) begins[w] += begins[w - 1];
    __syncthreads();
    if (keeps) out[begins[warp] + __popc(votes & lower)] = x;
    if (i == 0) count[0] = begins[blockDim.x / 32];
}""",
)


@wrong("stable_compaction", says=r"(?s)out\[\d+\] is .*expected|writes .* to out")
def only_the_warp_before(out, count, a, n):
    i = cuda.threadIdx.x
    counts = cuda.shared.array(32, int32)
    x = int32(1)
    if i < n:
        x = a[i]
    votes = cuda.ballot_sync(0xFFFFFFFF, x % 2 == 0)
    if cuda.laneid == 0:
        counts[i // 32] = cuda.popc(votes)
    cuda.syncthreads()
    if i == 0:
        total = 0
        for warp in range(cuda.blockDim.x // 32):
            total += counts[warp]
        count[0] = total
    begin = 0
    if i >= 32:
        begin = counts[i // 32 - 1]
    if x % 2 == 0:
        out[begin + cuda.popc(votes & cuda.lanemask_lt())] = x


@wrong("stable_compaction", says="no barrier between the write and the read")
def without_a_barrier(out, count, a, n):
    i = cuda.threadIdx.x
    counts = cuda.shared.array(32, int32)
    x = int32(1)
    if i < n:
        x = a[i]
    votes = cuda.ballot_sync(0xFFFFFFFF, x % 2 == 0)
    if cuda.laneid == 0:
        counts[i // 32] = cuda.popc(votes)
    begin = 0
    for warp in range(i // 32):
        begin += counts[warp]
    if x % 2 == 0:
        out[begin + cuda.popc(votes & cuda.lanemask_lt())] = x
    if i == cuda.blockDim.x - 1:
        count[0] = begin + counts[i // 32]


@wrong("stable_compaction", says=r"out\[\d+\] is .*expected|allows")
def by_atomics_in_any_order(out, count, a, n):
    i = cuda.threadIdx.x
    counts = cuda.shared.array(32, int32)
    if i == 0:
        counts[0] = 0
    cuda.syncthreads()
    if i < n:
        x = a[i]
        if x % 2 == 0:
            out[cuda.atomic.add(counts, 0, 1)] = x
    cuda.syncthreads()
    if i == 0:
        count[0] = counts[0]


wrong_c(
    "stable_compaction",
    """__global__ void keep(int *out, int *count, const int *a, int n) {
    __shared__ int counts[32];
    const unsigned i = threadIdx.x, warp = i / 32, upto = ~0u >> (31 - i % 32);
    const int x = i < n ? a[i] : 1;
    const unsigned votes = __ballot_sync(~0u, x % 2 == 0);
    if (i % 32 == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int begin = 0;
    for (int w = 0; w < warp; w++) begin += counts[w];
    if (x % 2 == 0) out[begin + __popc(votes & upto)] = x;
    if (i == blockDim.x - 1) count[0] = begin + counts[warp];
}""",
    says="out|writes",
)
