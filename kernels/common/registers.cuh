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

/* A block of WIDTH threads, each of which keeps GROUPS groups of four of each
 * of ARRAYS arrays. With 8, 16 or 32 numbers in all, a thread has 32, 40 or 64
 * registers. */
template <int WIDTH, int GROUPS, int ARRAYS> struct holder {
    enum {
        width = WIDTH,
        warps = WIDTH / WARP,
        groups = GROUPS,
        kept = GROUPS * ARRAYS,
        threads = kept <= 2 ? THREADS_PER_SM
        : kept <= 4         ? THREADS_PER_SM / 4 * 3
                            : THREADS_PER_SM / 2,
        blocks = threads > WIDTH ? threads / WIDTH : 1
    };
};

/* Return the number of elements of each of `arrays` arrays that the largest
 * block holds. */
static inline unsigned count_held(unsigned arrays) { return 32768 / arrays; }

/* Return launch(h) for the smallest holder h of `count` numbers of each of
 * ARRAYS arrays, 1 or 2. `count` is at most count_held(ARRAYS). On an H200, 512
 * threads are faster than 1024 threads with half as many numbers each. */
template <int ARRAYS, class Launch>
static int launch_holder(unsigned count, Launch launch) {
    enum { MOST = 8 / ARRAYS };
    if (count > 512 * 4 * MOST) return launch(holder<1024, MOST, ARRAYS>());
    if (count > 512 * 4 * 4) return launch(holder<512, MOST, ARRAYS>());
    if (count > 512 * 4 * 2) return launch(holder<512, 4, ARRAYS>());
    if (count > 256 * 4 * 2) return launch(holder<512, 2, ARRAYS>());
    if (count > 128 * 4 * 2) return launch(holder<256, 2, ARRAYS>());
    return launch(holder<128, 2, ARRAYS>());
}

#endif
