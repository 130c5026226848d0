"""Answers to the puzzle stable_partition."""

from numpy import int32

from weft import cuda

from .. import right, right_c, wrong, wrong_c


@right("stable_partition")
def by_match(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    digit = int32(4)
    x = int32(0)
    if i < n:
        x = a[i]
        digit = x % 4
    peers = cuda.match_any_sync(0xFFFFFFFF, digit)
    place = cuda.popc(peers & cuda.lanemask_lt())
    for smaller in range(3):
        votes = cuda.ballot_sync(0xFFFFFFFF, digit == smaller)
        if smaller < digit:
            place += cuda.popc(votes)
    if i < n:
        out[i - lane + place] = x


@right("stable_partition")
def by_two_bits(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    x = int32(3)
    if i < n:
        x = a[i]
    place = lane
    for bit in range(2):
        ones = cuda.ballot_sync(0xFFFFFFFF, (x >> bit) & 1 == 1)
        zeros = 0xFFFFFFFF ^ ones
        place = cuda.popc(zeros & cuda.lanemask_lt())
        if (x >> bit) & 1 == 1:
            place = cuda.popc(zeros) + cuda.popc(ones & cuda.lanemask_lt())
        # The lane at each place searches for the lane whose number goes there.
        source = 0
        for other in range(32):
            if cuda.shfl_sync(0xFFFFFFFF, place, other) == lane:
                source = other
        x = cuda.shfl_sync(0xFFFFFFFF, x, source)
    if i < n:
        out[i] = x


right_c(
    "stable_partition",
    """__global__ void partition(int *out, const int *a, int n) {
    const int lane = threadIdx.x, i = blockIdx.x * 32 + lane, x = i < n ? a[i] : 0;
    const unsigned lower = (1u << lane) - 1;
    int place = 0, begin = 0;
    for (int digit = 0; digit < 4; digit++) {
        unsigned votes = __ballot_sync(~0u, i < n && (x & 3) == digit);
        if ((x & 3) == digit) place = begin + __popc(votes & lower);
        begin += __popc(votes);
    }
    if (i < n) out[i - lane + place] = x;
}""",
)


@wrong("stable_partition", says=r"out\[\d+\] is .*expected")
def equals_in_reverse(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    x = int32(0)
    if i < n:
        x = a[i]
    higher = 0xFFFFFFFF ^ cuda.lanemask_lt() ^ (1 << lane)
    place = 0
    for digit in range(4):
        votes = cuda.ballot_sync(0xFFFFFFFF, i < n and x % 4 == digit)
        if digit < x % 4:
            place += cuda.popc(votes)
        if digit == x % 4:
            place += cuda.popc(votes & higher)
    if i < n:
        out[i - lane + place] = x


@wrong("stable_partition", says=r"(?s)out\[\d+\] is|out of|outside|writes")
def idle_lanes_vote(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    x = int32(0)
    if i < n:
        x = a[i]
    place = 0
    for digit in range(4):
        votes = cuda.ballot_sync(0xFFFFFFFF, x % 4 == digit)
        if digit < x % 4:
            place += cuda.popc(votes)
        if digit == x % 4:
            place += cuda.popc(votes & cuda.lanemask_lt())
    if i < n:
        out[i - lane + place] = x


@wrong("stable_partition", says=r"(?s)out\[\d+\] is|out of|outside|writes")
def counts_itself(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    x = int32(0)
    if i < n:
        x = a[i]
    place = 0
    for digit in range(4):
        votes = cuda.ballot_sync(0xFFFFFFFF, i < n and x % 4 == digit)
        if digit < x % 4:
            place += cuda.popc(votes)
        if digit == x % 4:
            place += cuda.popc(votes & (cuda.lanemask_lt() | (1 << lane)))
    if i < n:
        out[i - lane + place] = x


@wrong("stable_partition", says=r"out\[\d+\] is .*expected")
def sorts_the_whole_number(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    x = int32(1000)
    if i < n:
        x = a[i]
    place = 0
    for other in range(32):
        y = cuda.shfl_sync(0xFFFFFFFF, x, other)
        if y < x or (y == x and other < lane):
            place += 1
    if i < n:
        out[i - lane + place] = x


@wrong("stable_partition", says="atomic|allows|shared")
def an_atomic_counter(out, a, n):
    i = cuda.grid(1)
    lane = cuda.threadIdx.x
    following = cuda.shared.array(4, int32)
    x = int32(0)
    if i < n:
        x = a[i]
    begin = 0
    for digit in range(4):
        votes = cuda.ballot_sync(0xFFFFFFFF, i < n and x % 4 == digit)
        if lane == digit:
            following[digit] = begin
        begin += cuda.popc(votes)
    cuda.syncwarp()
    if i < n:
        out[i - lane + cuda.atomic.add(following, x % 4, 1)] = x


wrong_c(
    "stable_partition",
    """__global__ void partition(int *out, const int *a, int n) {
    const int lane = threadIdx.x, i = blockIdx.x * 32 + lane, x = i < n ? a[i] : 0;
    const unsigned lower = (1u << lane) - 1;
    int place = 0, begin = 0;
    for (int digit = 0; digit < 3; digit++) {
        unsigned votes = __ballot_sync(~0u, i < n && (x & 3) == digit);
        if ((x & 3) == digit) place = begin + __popc(votes & lower);
        begin += __popc(votes);
    }
    if (i < n) out[i - lane + place] = x;
}""",
    says=r"out\[\d+\]|writes",
)
