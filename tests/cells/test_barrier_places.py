"""A barrier is identified by its place in the source, even if g++ copies it."""

import numpy as np

from weft import inspect, load_cuda

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void turn(int *b, int *a, int n) {
    cg::grid_group g = cg::this_grid();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = i;
    g.sync();
    if (i < n) b[i] = a[(i + 1) % n];
}
__global__ void grids(int n) {
    cg::grid_group g = cg::this_grid();
    if (threadIdx.x < n) g.sync();
    else g.sync();
}
__global__ void blocks(int n) {
    cg::thread_block g = cg::this_thread_block();
    if (threadIdx.x < n) g.sync();
    else cg::sync(g);
}
"""


def test_one_grid_barrier_is_one_though_the_compiler_copies_it():
    a, b = np.zeros((2, 1000), np.int32)
    cell = load_cuda(SOURCE, target="cpu")
    assert not inspect(cell.turn)[4, 256](b, a, 1000).findings
    assert (b == (np.arange(1000) + 1) % 1000).all()


def test_barriers_of_groups_in_two_branches_are_two(capsys):
    cell = load_cuda(SOURCE, target="cpu")
    for kernel, line in (cell.grids, 13), (cell.blocks, 18):
        (finding,) = inspect(kernel)[2, 32](16).findings
        assert finding.kind == "barrier"
        assert (finding.line, finding.other_line) == (line, line + 1)
        assert "16 threads (16, 17, 18 ...) wait at another" in finding.text
