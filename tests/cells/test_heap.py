"""malloc() and new in a cell's kernels: NULL when the device's heap is full."""

import numpy as np
import pytest

from weft.cells import load_cuda

SOURCE = """
__global__ void each(int *given, size_t bytes) {
    void *memory = malloc(bytes);
    given[threadIdx.x] = memory != 0;
    free(memory);
}
__global__ void together(int *given, size_t bytes) {
    char *memory = new char[bytes];
    given[threadIdx.x] = memory != 0;
    __syncthreads();
    delete[] memory;
}
"""


@pytest.fixture(scope="module", params=["watched", "plain"])
def k(request):
    return load_cuda(SOURCE, target="cpu", watched=request.param == "watched")


def count_allocations(kernel, bytes_, threads=64):
    is_allocated = np.full(threads, -1, np.int32)
    kernel[1, threads](is_allocated, bytes_)
    return int(is_allocated.sum())


def test_allocations_larger_than_the_heap_are_null(k):
    assert count_allocations(k.each, 1 << 30) == count_allocations(k.each, 2**63) == 0
    assert count_allocations(k.each, 1 << 20) == 64


def test_the_threads_share_8_mb_and_free_gives_it_back(k):
    for _ in range(3):
        assert count_allocations(k.together, 1 << 20) == 7
    assert count_allocations(k.together, 1 << 10) == 64
