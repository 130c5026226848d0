"""Steps of the check build are the kernel's own, and none of the engine's."""

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
    seen = inspect(part)[blocks, 128](y, x, group).counters
    even = np.arange(128 * blocks) // group % 2 == 0
    assert np.array_equal(y, np.where(even, x / 16, x + 4))
    places = [place for place in seen.places if place.kind == "step"]
    assert sum(place.requests for place in places) == steps * 4 * blocks
    assert seen.active_lanes == pytest.approx(lanes)
    assert min(place.line for place in places) <= 3, "the first lines are no step"
