"""The watch build's counters of cp.async copies, and the alignment of its tiles."""

import numpy as np
import pytest

from weft import inspect, load_cuda

RING = """
#include <cuda_pipeline.h>
/* out = the column sums of x (tiles,32), reversed. x passes through STAGES tiles. */
__global__ void ring(float *out, const float *x, int tiles) {
    __shared__ float x_s[STAGES][32];
    const int i = threadIdx.x;
    float sum = 0;
    for (int t = -AHEAD; t < tiles; t++) {
        if (t >= 0) {
            __pipeline_wait_prior(WAIT);
            __syncthreads();
        }
        const int next = t + AHEAD;
        if (next < tiles)
            __pipeline_memcpy_async(&x_s[next % STAGES][i], &x[32 * next + i], 4);
        __pipeline_commit();
        if (t >= 0) sum += x_s[t % STAGES][31 - i];
    }
    out[i] = sum;
}
"""


def ring(tiles, **sizes):
    text = RING
    for name, size in sizes.items():
        text = text.replace(name.upper(), str(size))
    x, out = np.random.rand(tiles, 32).astype("f4"), np.zeros(32, "f4")
    kernel = load_cuda(text, target="cpu").ring
    report = inspect(kernel, quiet=True)[1, 32](out, x, tiles).verify()
    np.testing.assert_allclose(out, x.sum(0)[::-1], rtol=1e-5)
    return report.counters


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_a_copy_is_ahead_by_the_tiles_before_its_own(ahead):
    counters = ring(10, stages=ahead + 1, ahead=ahead, wait=ahead - 1)
    # The first copies are requested together.
    ahead_of_each = [min(t, ahead - 1) for t in range(10)]
    assert counters.copies_ahead == np.mean(ahead_of_each)
    assert (counters.copied, counters.shared) == (10 * 128, (ahead + 1) * 128)


def test_a_kernel_that_waits_for_all_copies_has_none_ahead():
    counters = ring(10, stages=3, ahead=2, wait=0)
    assert counters.copies_ahead == 0 and counters.copied == 10 * 128


def test_a_kernel_without_copies_has_none_ahead():
    text = "__global__ void set(float *x) { x[threadIdx.x] = 1; }"
    launch = inspect(load_cuda(text, target="cpu"), quiet=True)[1, 32]
    counters = launch(np.zeros(32, "f4")).counters
    assert (counters.copied, counters.copies_ahead, counters.shared) == (0, 0, 0)


ALIGNED = """
__global__ void places(unsigned long long *at) {
    __shared__ __align__(1024) short one_s[520];
    __shared__ char small_s[3];
    __shared__ __align__(1024) short other_s[4], next_s[4];
    one_s[0] = small_s[0] = other_s[0] = next_s[0] = 1;
    at[0] = (size_t)one_s, at[1] = (size_t)other_s, at[2] = (size_t)next_s;
}
"""


def test_arrays_aligned_to_1024_bytes_begin_at_multiples_of_them():
    kernel = load_cuda(ALIGNED, target="cpu").places
    plain, watched = np.zeros((2, 3), np.uint64)
    kernel[1, 1](plain)
    inspect(kernel, quiet=True)[1, 1](watched).verify()
    assert not (plain % 1024).any() and not (watched % 1024).any()
