/* registers.cuh -- rows, or slices of rows, that a block keeps in registers.
 *
 * A block has only as many threads as its numbers need. Each thread has many
 * loads in flight, and a multiprocessor holds many blocks. While some of them
 * wait at a barrier, others load and store. */
#ifndef WEFT_REGISTERS_CUH
#define WEFT_REGISTERS_CUH
#include "rows.cuh"

/* The threads that a multiprocessor holds. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || \
    __CUDA_ARCH__ == 1000 || __CUDA_ARCH__ == 1030
#define THREADS_PER_SM 2048
#elif __CUDA_ARCH__ < 800
#define THREADS_PER_SM 1024
#else
#define THREADS_PER_SM 1536
#endif

/* Groups of four that a thread keeps: of one array, or of each of two. */
enum { GROUPS = 4, GROUPS_OF_BOTH = 2 };

/* A block of `width` threads, each of which keeps GROUPS groups of four. A
 * multiprocessor holds two of the largest blocks with 32 registers per thread.
 * Smaller blocks leave a quarter of it free, so a thread has 40 registers. */
template <int WIDTH, int GROUPS> struct holder {
    enum {
        width = WIDTH,
        warps = WIDTH / WARP,
        groups = GROUPS,
        blocks = (WIDTH > 512 ? THREADS_PER_SM : THREADS_PER_SM / 4 * 3) / WIDTH
    };
};

/* Return the number of elements that the largest block holds. */
static inline unsigned count_held(unsigned groups) { return 4096 * groups; }

/* Return launch(h) for the smallest holder h of `count` numbers, which are at
 * most count_held(GROUPS). */
template <int GROUPS, class Launch>
static int launch_holder(unsigned count, Launch launch) {
    const unsigned threads = CEIL_DIV(count, 4u * GROUPS);
    if (threads > 512) return launch(holder<1024, GROUPS>());
    if (threads > 256) return launch(holder<512, GROUPS>());
    if (threads > 128) return launch(holder<256, GROUPS>());
    return launch(holder<128, GROUPS>());
}

/* Return how many blocks of the kernel run simultaneously, at most `most`. */
template <class Kernel>
static unsigned count_blocks(Kernel kernel, unsigned threads, unsigned most) {
    return min(count_resident(kernel, threads, 0, 2), most);
}

#endif
