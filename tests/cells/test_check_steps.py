"""The watch build counts the kernel's own steps, but none of the engine's."""

import numpy as np
import pytest

from weft import inspect, load_cuda

SOURCE = """
__global__ void part(float *y, const float *x, int group) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    if (i / group % 2 == 0)
        for (int turn = 0; turn < 4; turn++) v = v * 0.5f;
    else
        for (int turn = 0; turn < 4; turn++) v = v + 1;
    y[i] = v;
}
"""


@pytest.mark.parametrize("group, steps, lanes", [(1, 10, 19.2), (32, 6, 32)])
def test_first_lines_two_loops_and_last_lines(group, steps, lanes):
    part, blocks = load_cuda(SOURCE).part, 3
    x, y = np.ones(128 * blocks, np.float32), np.zeros(128 * blocks, np.float32)
    counts = inspect(part)[blocks, 128](y, x, group).counters
    even = np.arange(128 * blocks) // group % 2 == 0
    assert np.array_equal(y, np.where(even, x / 16, x + 4))
    places = [place for place in counts.places if place.kind == "step"]
    assert sum(place.requests for place in places) == steps * 4 * blocks
    assert counts.active_lanes == pytest.approx(lanes)
    assert min(place.line for place in places) <= 3, "the first lines are no step"


ATOMICS = """
#include <cuda/atomic>
__global__ void add_float(float *y, const int *x) { atomicAdd(y, (float)x[I]); }
__global__ void most(int *y, const int *x) { atomicMax(&y[I % 8], x[I]); }
__global__ void exchange(int *y, const int *x) { y[I] = atomicExch(&y[I], x[I]); }
__global__ void swap(int *y, const int *x) { y[I] = atomicCAS(&y[I], x[I], 3); }
__global__ void object(int *y, const int *x) {
    cuda::atomic_ref<int> sum(y[I]);
    if (sum.load() < 9) sum.fetch_add(x[I]);
    y[I] += sum.exchange(x[I]);
}
""".replace("I]", "blockIdx.x * blockDim.x + threadIdx.x]").replace(
    "I %", "threadIdx.x %"
)


@pytest.mark.parametrize("name", ["add_float", "most", "exchange", "swap", "object"])
def test_the_parts_of_an_atomic_are_no_steps(name):
    """Some lanes find the value that they would write; they must not diverge."""
    kernel, x = getattr(load_cuda(ATOMICS), name), np.arange(256, dtype=np.int32) % 3
    y = np.zeros(256, np.float32 if name == "add_float" else np.int32)
    assert inspect(kernel)[2, 128](y, x).counters.active_lanes == 32
