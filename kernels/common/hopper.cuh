/* hopper.cuh -- the features of sm_90 for kernels that keep their copies in
 * flight: barriers in shared memory that also count bytes (mbarrier), copies of
 * whole boxes by one thread (TMA), registers that move between warps, and
 * clusters of blocks.
 *
 * A ring of stages, each with a barrier `full` and a barrier `empty`:
 *
 *     producer, one thread                  consumers
 *     mbarrier_wait(&empty[s], p ^ 1)       mbarrier_wait(&full[s], p)
 *     mbarrier_expect(&full[s], BYTES)      ... read the stage ...
 *     tma_load(stage, &map, &full[s], ...)  mbarrier_arrive(&empty[s])
 *
 * Here p is the parity of the stage's use: 0 at first, and it flips when s
 * returns to 0. Below sm_90 every function traps, so launchers reject such
 * devices.
 *
 * On the CPU target each function has a plain twin. A copy is performed only
 * when a thread waits for it, and a cluster has one block.
 *
 * Source:  PTX ISA, "mbarrier", "cp.async.bulk.tensor", "st.async",
 *          "setmaxnreg". */
#ifndef WEFT_HOPPER_CUH
#define WEFT_HOPPER_CUH
#include "ptx.cuh"
#include "tensor_map.cuh"
#if PTX_TWIN
#include "hopper_twin.h"
#endif

#define HOPPER (PTX_ARCH >= 900)
/* Whether the features of targets like sm_90a are available; sm_90 lacks
 * them. */
#if HOPPER &&                                                                 \
    (defined(__CUDA_ARCH_FEAT_SM90_ALL) || defined(__CUDA_ARCH_SPECIFIC__) || \
     defined(__CUDA_ARCH_FAMILY_SPECIFIC__))
#define HOPPER_SPECIFIC 1
#else
#define HOPPER_SPECIFIC 0
#endif

#if !PTX_TWIN
/* Convert a pointer to the shared-memory address that PTX expects. */
PTX_INLINE unsigned shared_address(const void *shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
#endif

/* Round `raw` up to a multiple of 1024 bytes, where swizzled boxes may start.
 * Request 1024 bytes more of dynamic shared memory than the boxes need. */
PTX_INLINE char *aligned_1024(void *raw) {
    return (char *)raw + (0u - (unsigned)(size_t)raw) % 1024;
}

/* Return the position of byte `at` of a swizzled box. In every eight rows of
 * 128 bytes, row r stores its 16-byte chunk i at the place of chunk i ^ r. So
 * eight lanes that read the same chunk of eight rows use all 32 banks. */
PTX_INLINE unsigned swizzled(unsigned at) { return at ^ (at >> 3 & 0x70); }

/* ---- barriers that count arrivals and bytes ------------------------------ */

/* A barrier in shared memory. A phase ends when all expected threads and all
 * expected bytes have arrived. The first phase is number 0. */
typedef uint64_t mbarrier;

/* Initialise a barrier; one thread calls this. The other threads may use the
 * barrier after that thread's fence_barrier_init() and a barrier of the block
 * (or cluster). */
PTX_INLINE void mbarrier_init(mbarrier *bar, int arrivals) {
#if PTX_TWIN
    hopper_twin::init(bar, arrivals);
#elif HOPPER
    asm volatile(
        "mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)),
        "r"(arrivals)
        : "memory");
#else
    __trap();
#endif
}

/* Arrive, and make the phase wait for `bytes` more bytes. */
PTX_INLINE void mbarrier_expect(mbarrier *bar, unsigned bytes) {
#if PTX_TWIN
    hopper_twin::arrive(bar, 1, (int)bytes);
#elif HOPPER
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     shared_address(bar)),
                 "r"(bytes)
                 : "memory");
#else
    __trap();
#endif
}

PTX_INLINE void mbarrier_arrive(mbarrier *bar) {
#if PTX_TWIN
    hopper_twin::arrive(bar, 1, 0);
#elif HOPPER
    asm volatile(
        "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar))
        : "memory");
#else
    __trap();
#endif
}

/* Arrive at the corresponding barrier of block `rank` of the cluster. */
PTX_INLINE void mbarrier_arrive_at(mbarrier *bar, unsigned rank) {
#if PTX_TWIN
    hopper_twin::arrive(bar, 1, 0);
    (void)rank;
#elif HOPPER
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(shared_address(bar)),
                 "r"(rank)
                 : "memory");
#else
    __trap();
#endif
}

/* Wait until the phase of this parity has ended. */
PTX_INLINE void mbarrier_wait(mbarrier *bar, unsigned parity) {
#if PTX_TWIN
    hopper_twin::wait(bar, parity);
#elif HOPPER
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 over, [%0], "
                 "%1;\n"
                 "@over bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(shared_address(bar)),
                 "r"(parity)
                 : "memory");
#else
    __trap();
#endif
}

/* Wait as mbarrier_wait() does, for values that blocks of the cluster have
 * sent. They are visible afterwards. */
PTX_INLINE void mbarrier_wait_cluster(mbarrier *bar, unsigned parity) {
#if PTX_TWIN
    hopper_twin::wait(bar, parity);
#elif HOPPER
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta."
                 "b64 over, [%0], %1;\n"
                 "@over bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}" ::"r"(shared_address(bar)),
                 "r"(parity)
                 : "memory");
#else
    __trap();
#endif
}

/* Make mbarrier_init() visible to copies and to the cluster. */
PTX_INLINE void fence_barrier_init() {
#if HOPPER
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

/* Make this thread's stores to shared memory visible to later TMA and wgmma
 * instructions. To include the stores of other threads, a barrier must follow
 * this call. */
PTX_INLINE void fence_proxy_async() {
#if HOPPER
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/* ---- copies of boxes and of pieces, each by one thread ------------------- */

/* Prefetch a map, so that the first copy need not wait for it. */
PTX_INLINE void tensor_map_fetch(const tensor_map *map) {
#if HOPPER
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
#else
    (void)map;
#endif
}

/* Load the box whose first element is (row,col) of matrix z. `bar` counts its
 * bytes, including those beyond the edges. */
PTX_INLINE void tma_load(void *shared, const tensor_map *map, mbarrier *bar,
                         int col, int row, int z) {
#if PTX_TWIN
    hopper_twin::load(shared, map, bar, col, row, z);
#elif HOPPER
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
                     shared_address(shared)),
                 "l"(map), "r"(shared_address(bar)), "r"(col), "r"(row), "r"(z)
                 : "memory");
#else
    __trap();
#endif
}

/* Load the same box into each block of the cluster whose bit in `blocks` is
 * set. The box and the barrier that counts its bytes have the same
 * addresses in each of these blocks. */
PTX_INLINE void tma_load_multicast(void *shared, const tensor_map *map,
                                   mbarrier *bar, int col, int row, int z,
                                   unsigned short blocks) {
#if PTX_TWIN
    hopper_twin::load(shared, map, bar, col, row, z);
    (void)blocks;
#elif HOPPER_SPECIFIC // on others, ptxas warns that it is slow
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, "
                 "%5}], [%2], %6;" ::"r"(shared_address(shared)),
                 "l"(map), "r"(shared_address(bar)), "r"(col), "r"(row), "r"(z),
                 "h"(blocks)
                 : "memory");
#else
    __trap();
#endif
}

/* Store a box; elements beyond the edges are dropped. The threads that wrote
 * the box must call fence_proxy_async() before the barrier that precedes this
 * store. */
PTX_INLINE void tma_store(const tensor_map *map, const void *shared, int col,
                          int row, int z) {
#if PTX_TWIN
    hopper_twin::store(map, shared, col, row, z);
#elif HOPPER
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, "
                 "{%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared_address(shared)), "r"(col), "r"(row), "r"(z)
                 : "memory");
#else
    __trap();
#endif
}

/* Load `bytes` bytes, a multiple of 16, into shared memory at an address that
 * is also a multiple of 16. `bar` counts them. No map is needed. */
PTX_INLINE void bulk_load(void *shared, const void *from, mbarrier *bar,
                          unsigned bytes) {
#if PTX_TWIN
    hopper_twin::load_piece(shared, from, bar, bytes);
#elif HOPPER
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::"
                 "bytes [%0], [%1], %3, [%2];" ::"r"(shared_address(shared)),
                 "l"(__cvta_generic_to_global(from)), "r"(shared_address(bar)),
                 "r"(bytes)
                 : "memory");
#else
    __trap();
#endif
}

/* Store `bytes` bytes, a multiple of 16, like tma_store(). */
PTX_INLINE void bulk_store(void *to, const void *shared, unsigned bytes) {
#if PTX_TWIN
    hopper_twin::store_piece(to, shared, bytes);
#elif HOPPER
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
            __cvta_generic_to_global(to)),
        "r"(shared_address(shared)), "r"(bytes)
        : "memory");
#else
    __trap();
#endif
}

/* Close a group: all stores issued since the last commit. */
PTX_INLINE void tma_store_commit() {
#if PTX_TWIN
    simt::later_commit(simt::STORES);
#elif HOPPER
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/* Wait until at most the N newest of this thread's groups still read shared
 * memory. Call it with 0 before the kernel ends. */
template <int N> PTX_INLINE void tma_store_wait() {
#if PTX_TWIN
    simt::later_wait(simt::STORES, N);
#elif HOPPER
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
#endif
}

/* ---- warps with different work ------------------------------------------- */

/* Set the number of registers per thread with setmaxnreg. All warps of a
 * warpgroup call it; N is a multiple of 8 from 24 to 240. */
#if HOPPER_SPECIFIC
template <int N> PTX_INLINE void registers_up() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> PTX_INLINE void registers_down() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
#else
template <int N> PTX_INLINE void registers_up() {}
template <int N> PTX_INLINE void registers_down() {}
#endif

/* Wait at barrier `number` (1 to 15) of the block for `threads` threads, which
 * must be whole warps. __syncthreads() uses number 0. */
PTX_INLINE void named_barrier(int number, int threads) {
#if PTX_TWIN
    hopper_twin::named_barrier(number, threads);
#else
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
#endif
}

/* ---- clusters ------------------------------------------------------------ */

PTX_INLINE unsigned cluster_rank() {
#if HOPPER
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#else
    return 0;
#endif
}

/* Store a float at the place of `shared` in block `rank` of the cluster. That
 * block's barrier at the place of `bar` counts its 4 bytes. */
PTX_INLINE void cluster_send(float *shared, float value, mbarrier *bar,
                             unsigned rank) {
#if PTX_TWIN
    *shared = value;
    hopper_twin::arrive(bar, 0, -4);
    (void)rank;
#elif HOPPER
    asm volatile("{\n"
                 ".reg .b32 there, counter;\n"
                 "mapa.shared::cluster.u32 there, %0, %3;\n"
                 "mapa.shared::cluster.u32 counter, %1, %3;\n"
                 "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 "
                 "[there], %2, [counter];\n"
                 "}" ::"r"(shared_address(shared)),
                 "r"(shared_address(bar)), "r"(__float_as_uint(value)),
                 "r"(rank)
                 : "memory");
#else
    __trap();
#endif
}

/* Arrive at, or wait for, a barrier of the cluster that all of its threads take
 * part in. A block must not end while others can still access its shared
 * memory. */
PTX_INLINE void cluster_arrive() {
#if HOPPER
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
#endif
}
PTX_INLINE void cluster_wait() {
#if PTX_TWIN
    __syncthreads();
#elif HOPPER
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

#endif
