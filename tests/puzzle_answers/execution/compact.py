"""Answers to the puzzle compact."""

from numpy import float32, int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c

ALL = 0xFFFFFFFF


@right("compact")
def counted_in_shared(out, a, begin, n):
    keeps = cuda.shared.array(32, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    keeps[t] = 0
    if i < n and a[i] > 0:
        keeps[t] = 1
    cuda.syncthreads()
    if keeps[t] == 1:
        before = 0
        for k in range(t):
            before += keeps[k]
        out[begin[cuda.blockIdx.x] + before] = a[i]


right_c(
    "compact",
    """__global__ void by_votes(float *out, const float *a, const int *begin, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    unsigned who = __ballot_sync(0xFFFFFFFF, v > 0);
    int before = __popc(who & ((1u << threadIdx.x) - 1));
    if (v > 0) out[begin[blockIdx.x] + before] = v;
}""",
)


@wrong("compact", says="goes too far")
def with_gaps(out, a, begin, n):
    i = cuda.grid(1)
    if i < n and a[i] > 0:
        out[i] = a[i]


@wrong("compact", says="block 1 writes it")
def every_block_from_0(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    votes = cuda.ballot_sync(ALL, v > 0)
    if v > 0:
        out[cuda.popc(votes & cuda.lanemask_lt())] = v


@wrong("compact", says="goes too far")
def counts_itself(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(0)
    if i < n:
        v = a[i]
    votes = cuda.ballot_sync(ALL, v > 0)
    below = (2 << cuda.threadIdx.x) - 1
    if v > 0:
        out[begin[cuda.blockIdx.x] + cuda.popc(votes & below)] = v


@wrong("compact", says="block 1 writes it")
def keeps_zeros(out, a, begin, n):
    i = cuda.grid(1)
    v = float32(-1)
    if i < n:
        v = a[i]
    votes = cuda.ballot_sync(ALL, v >= 0)
    if v >= 0:
        out[begin[cuda.blockIdx.x] + cuda.popc(votes & cuda.lanemask_lt())] = v


@wrong("compact", says="names lanes 16-31, which take no part")
def vote_inside_the_guard(out, a, begin, n):
    i = cuda.grid(1)
    if i < n:
        votes = cuda.ballot_sync(ALL, a[i] > 0)
        if a[i] > 0:
            before = cuda.popc(votes & cuda.lanemask_lt())
            out[begin[cuda.blockIdx.x] + before] = a[i]


@wrong("compact", says="race.*in reverse")
def in_any_order(out, a, begin, n):
    taken = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        taken[0] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < n and a[i] > 0:
        out[begin[cuda.blockIdx.x] + cuda.atomic.add(taken, 0, 1)] = a[i]


@wrong("compact", says=r"out\[1\] is 1.75, expected 0.5")
def one_or_more(out, a, begin, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    votes = cuda.ballot_sync(ALL, v >= 1)
    if v >= 1:
        before = cuda.popc(votes & cuda.lanemask_lt())
        out[begin[cuda.blockIdx.x] + before] = v


@wrong("compact", says="reads 410 elements of a", where=False)
def counts_those_before(out, a, begin, n):
    i = cuda.grid(1)
    v = a[i] if i < n else float32(0)
    if v > 0:
        place = begin[cuda.blockIdx.x]
        for k in range(cuda.blockIdx.x * 32, i):
            if a[k] > 0:
                place += 1
        out[place] = v


@wrong("compact", says="1 thread in each request to a", where=False)
def one_keeps_all(out, a, begin, n):
    place = 0
    if cuda.grid(1) == 0:
        for k in range(n):
            if a[k] > 0:
                out[place] = a[k]
                place += 1


wrong_c(
    "compact",
    """__global__ void short_mask(float *out, const float *a, const int *begin, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? a[i] : 0;
    unsigned who = __ballot_sync(0xFFFFFFFF, v > 0);
    int before = __popc(who & ((1u << threadIdx.x) - 1) & 0xFFFF);
    if (v > 0) out[begin[blockIdx.x] + before] = v;
}""",
    says="chance",
)
