/* groups.cu -- tiles of several warps, cuda::barrier, pipelines of a block, and
 * arguments with destructors. */
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda/barrier>
#include <cuda/pipeline>

namespace cg = cooperative_groups;

__global__ void tiles(int *out) {
    __shared__ cg::block_tile_memory<256> scratch;
    auto block = cg::this_thread_block(scratch);
    auto tile = cg::tiled_partition<64>(block);
    const int sum = cg::reduce(tile, (int)block.thread_rank(), cg::plus<int>());
    const bool any = tile.any(block.thread_rank() == 70);
    for (int turn = 0; turn < 3; turn++) tile.sync();
    if (tile.thread_rank() == 0)
        out[tile.meta_group_rank()] = sum + 100000 * any;
}

/* All threads add 1; half of them drop out, and the others add 1 again. */
__global__ void phases(int *out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int sum;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        sum = 0;
    }
    __syncthreads();
    auto token = bar.arrive();
    atomicAdd(&sum, 1);
    bar.wait(std::move(token));
    bar.arrive_and_wait();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
    if (threadIdx.x % 2) return bar.arrive_and_drop();
    bar.arrive_and_wait();
    atomicAdd(&sum, 1);
    bar.arrive_and_wait();
    if (threadIdx.x == 0) out[blockIdx.x] += 1000 * sum;
}

/* The second warp copies tiles, two ahead, and the first warp adds them. */
__global__ void pipelined(const int *in, int *out, int count) {
    enum { STAGES = 2, WIDTH = 32 };
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, STAGES>
        state;
    __shared__ int tile[STAGES][WIDTH];
    const bool copies = threadIdx.x >= WIDTH;
    auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state,
                                    copies ? cuda::pipeline_role::producer
                                           : cuda::pipeline_role::consumer);
    const int i = threadIdx.x % WIDTH;
    int sum = 0;
    for (int t = 0; t < count; t++) {
        if (copies) {
            pipe.producer_acquire();
            cuda::memcpy_async(&tile[t % STAGES][i], &in[t * WIDTH + i],
                               sizeof(int), pipe);
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            sum += tile[t % STAGES][(i + 1) % WIDTH];
            pipe.consumer_release();
        }
    }
    if (!copies) atomicAdd(out, sum);
}

/* Only the host runs the destructor; no thread does. */
struct Owner {
    int *memory;
    Owner() { cudaMallocManaged(&memory, sizeof *memory); }
    ~Owner() { cudaFree(memory); }
};
__global__ void owned(Owner owner) { atomicAdd(owner.memory, 1); }

int main() {
    int *out, *in;
    cudaMallocManaged(&out, 16 * sizeof *out);
    cudaMallocManaged(&in, 320 * sizeof *in);
    for (int i = 0; i < 320; i++) in[i] = i;
    tiles<<<1, 256>>>(out);
    phases<<<2, 96>>>(out + 4);
    pipelined<<<1, 64>>>(in, out + 6, 10);
    cudaDeviceSynchronize();
    for (int i = 0; i < 7; i++) printf("%d ", out[i]);
    // The host destroys only the copies that were the kernel's argument, after
    // its end.
    char place[sizeof(Owner)];
    Owner *owner = new (place) Owner;
    int *counted = owner->memory;
    owned<<<2, 32>>>(*owner);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    return counted == 0;
}
