/* runtime.h -- what the runtime's own files share. Kernels do not see this. */
#ifndef SIMT_RUNTIME_PRIVATE_H
#define SIMT_RUNTIME_PRIVATE_H
#include <atomic>

#include "cuda_api.h"
#include "engine.h"
#include "simt_runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum {
    STATIC_SHARED = 48 << 10,  /* bytes of __shared__ arrays a kernel may have,
                                * and of dynamic shared memory by default */
    DYNAMIC_SHARED = 227 << 10 /* after cudaFuncSetAttribute(), as on sm_90 */
};

struct Fault {
    cudaError_t error;
    char text[200];
};

/* One launch, as all its workers see it. */
struct Job {
    dim3 grid, block;
    size_t dynamic_shared;
    void (*body)(void *);
    void *closure;
    const char *kernel;
    unsigned number; /* of the launch, never 0 */
    int order;       /* enum simt_order */
    uint64_t blocks, chunk;
    std::atomic<uint64_t> next;        /* the first block nobody has taken */
    std::atomic<unsigned> shared_used; /* bytes of shared memory given out */
    std::atomic<bool> failed;
    Fault fault; /* the first one; whoever set `failed` writes it */
};

/* A CPU thread that runs blocks: its block, and the stacks of its threads. */
struct Worker : Block {
    Job *job;
    Fiber main; /* the worker itself, waiting for its block to end */
    char *slots;
    int guarded;          /* how many slots have their guard page */
    unsigned vain, spins; /* turns in vain in a row; spins in all */
    uint64_t seen;        /* the block's progress when `vain` was 0 */
    unsigned meetings;    /* warp primitives completed in this block */
    Thread identity[MAX_THREADS], turns[MAX_THREADS];
    dim3 identity_dim;
    int identity_order;
    Warp warps[MAX_THREADS / WARP];
    void *contexts; /* fiber_ucontext.cpp's */

    Fiber *fiber(int i) {
        return fiber_at((uintptr_t)slots + (uintptr_t)i * SIMT_STACK);
    }
};

/* block.cpp */
Worker *create_worker();                   /* NULL: out of memory */
void run_blocks(Worker *worker, Job *job); /* until none is left */
void note_fault(Job *job, cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* runtime.cpp: the Kernel behind a pointer to a __global__ function, NULL if it
 * is none. */
Kernel *kernel_of(const void *function);

/* fiber_ucontext.cpp: storage for the contexts of a worker's fibers. */
void create_contexts(Worker *worker);

/* interrupt.cpp */
extern std::atomic<bool> interrupt_seen;
void forget_watches(); /* in a forked child */

/* cuda_api.cpp: make `error` this thread's last error; returns it. */
cudaError_t set_error(cudaError_t error);

} // namespace
} // namespace simt
#endif
