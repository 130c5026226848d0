/* cooperative.cu -- blocks that wait for each other, tiles, and reductions. */
#include <cooperative_groups.h>
#include <stdio.h>

namespace cg = cooperative_groups;

__global__ void prefix(int *data, int n) {
    cg::grid_group grid = cg::this_grid();
    const int i = grid.thread_rank();
    for (int step = 1; step < n; step *= 2) {
        const int left = i >= step ? data[i - step] : 0;
        grid.sync();
        data[i] += left;
        grid.sync();
    }
}

__global__ void tiles(int *out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    int sum = block.thread_rank();
    for (int o = tile.size() / 2; o > 0; o /= 2) sum += tile.shfl_down(sum, o);
    if (tile.thread_rank() == 0) out[tile.meta_group_rank()] = sum;
}

int main() {
    int n = 128, *data, h[128];
    cudaMalloc(&data, sizeof h);
    for (int &x : h) x = 1;
    cudaMemcpy(data, h, sizeof h, cudaMemcpyHostToDevice);
    void *args[] = {&data, &n};
    cudaLaunchCooperativeKernel((void *)prefix, dim3(4), dim3(32), args, 0, 0);
    cudaMemcpy(h, data, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", h[0], h[63], h[127]);
    tiles<<<1, 32>>>(data);
    cudaMemcpy(h, data, sizeof h, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", h[0], h[1], h[2], h[3]);
}
