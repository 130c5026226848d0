"""The watch build counts a vector's load as one request, as on a GPU."""

import numpy as np

from weft import inspect, load_cuda

SOURCE = """
__global__ void apart4(float *out, const float4 *b) {
    float4 v = b[threadIdx.x];
    out[threadIdx.x] = v.w * (v.x + v.y + v.z);
}
__global__ void apart2(float *out, const float *b) {
    float2 v = ((const float2 *)b)[threadIdx.x];
    out[threadIdx.x] = v.x - v.y;
}
"""


def test_a_vector_whose_members_are_used_is_loaded_at_once():
    module = load_cuda(SOURCE)
    b, out = np.random.default_rng(0).random((32, 4), np.float32), np.zeros(32, "f")
    counters = inspect(module.apart4)[1, 32](out, b).counters
    assert np.allclose(out, b[:, 3] * b[:, :3].sum(1), rtol=1e-6)
    assert counters.requests["b"] == 1 and counters.sectors["b"] == 16
    counters = inspect(module.apart2)[1, 32](out, b).counters
    assert np.array_equal(out, b.reshape(-1, 2)[:32, 0] - b.reshape(-1, 2)[:32, 1])
    assert counters.requests["b"] == 1 and counters.sectors["b"] == 8
