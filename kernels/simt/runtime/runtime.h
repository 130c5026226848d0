/* runtime.h -- declarations shared by the files of the runtime; kernels do not
 * include it. */
#ifndef SIMT_RUNTIME_PRIVATE_H
#define SIMT_RUNTIME_PRIVATE_H
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "../api/cuda_api.h"
#include "engine.h"
#include "simt_runtime.h"

namespace simt::SIMT_FIBERS {

enum {
    STATIC_SHARED = 48 << 10, /* maximum bytes of a kernel's __shared__ arrays,
                                 and of dynamic shared memory by default */
};

/* The limits of GPUs of a compute capability. Source: CUDA C++ Programming
 * Guide, "Technical Specifications per Compute Capability". */
struct Capability {
    int major, minor;
    int block_kb;                   /* dynamic shared memory of a block, after
                                     * cudaFuncSetAttribute() */
    int multiprocessor_kb, threads; /* of a multiprocessor */
};

/* Return this runtime's limits, which simt_set_capability() sets. */
const Capability *capability();

/* One launch, shared by all its workers. */
struct Job {
    dim3 grid, block;
    size_t dynamic_shared;
    void (*body)(void *);
    void *closure;
    Kernel *kernel;
    unsigned number; /* number of the launch, never 0 */
    int order;       /* enum simt_order */
    bool cooperative;
    uint64_t blocks, chunk;
    std::atomic<uint64_t> next;        /* first block that no worker has
                                        * claimed */
    std::atomic<bool> shared_claims;   /* whether a worker without blocks takes
                                        * those that others have claimed */
    std::atomic<size_t> printed;       /* bytes printed by printf() */
    std::atomic<unsigned> shared_used; /* bytes of shared memory allocated */
    unsigned shared_gaps;              /* bytes of these between checked
                                          arrays */
    std::atomic<bool> failed;
    simt_fault fault;     /* the first fault; written by the worker that set
                             `failed` */
    bool fault_found;     /* whether the watch build has reported the fault */
    const void *fault_pc; /* place of the fault in a checked kernel; NULL:
                           * unknown */
};

/* A launch that was captured instead of run, with a copy of its arguments
 * (cuda_graph.cpp keeps these objects). */
struct Recorded {
    Kernel *kernel;
    const Closure *calls;
    void *closure;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    bool cooperative;
};

/* The interface through which a launch determines whether its stream is being
 * captured. The launch calls `active` first. A captured launch goes to `keep`,
 * which then owns it. NULL while nothing is being captured. */
struct Capture {
    bool (*active)(cudaStream_t stream);
    void (*keep)(Recorded *recorded);
};
extern std::atomic<const Capture *> capture;

/* A copy that completes at a barrier, and the thread that issued it. */
struct Bulk {
    const void *barrier;
    Thread thread;
    Bulk *next;
    struct Later *later() { return (struct Later *)(this + 1); }
};

/* The information that a fault's handler recorded. */
struct Signal {
    int number, write; /* `write` has the values of simt_fault */
    uintptr_t address, stack_pointer;
    bool misaligned, unknown; /* unknown: the address cannot be determined */
};

/* A CPU thread that runs blocks, with its block and the stacks of the block's
 * threads. */
struct Worker : Block {
    Job *job;
    Fiber main; /* the worker itself, which waits for its block to end */
    char *slots;
    int guarded;          /* number of slots with a guard page */
    unsigned vain, spins; /* consecutive unsuccessful turns; total number of
                           * spins */
    uint64_t seen;        /* the block's progress() when `vain` was 0 */
    unsigned meetings;    /* warp primitives completed in this block */
    Thread identity[MAX_THREADS], turns[MAX_THREADS];
    dim3 identity_dim;
    int identity_order;
    Warp warps[MAX_THREADS / WARP];
    void *contexts; /* used by fiber_ucontext.cpp */
#ifdef SIMT_SANITIZE
    void *host, *announced[MAX_THREADS]; /* used by fiber_sanitize.cpp */
#endif
    std::atomic<unsigned> busy;  /* number of the launch that the worker is
                                  * running, or 0 */
    std::atomic<unsigned> poked; /* number of the launch in which the worker
                                  * must yield */
    std::atomic<bool> looked_at; /* whether the watchdog is accessing it */
    pthread_t thread;            /* the worker's thread while it is busy */
    uint64_t seen_steps;         /* for the watchdog: see share() */
    int turns_given, hot;        /* for the watchdog: see share() */
    volatile bool waiting;       /* whether it waits at a grid barrier */
    volatile bool switching;     /* whether swapcontext() is running, whose
                                  * stack cannot be unwound */
    Signal got;
    uintptr_t stopped_at; /* instruction at which a signal ended it, or 0 */
    Checker *own_checker; /* created for the worker's first checked launch */
    unsigned modes;       /* the processor's floating-point modes, such as
                           * rounding */
    bool asked;           /* whether a thread of the block has issued an
                           * operation (asynchronous.h) */
    unsigned long long blocks;            /* blocks that have begun */
    std::atomic<uint64_t> next, end;      /* claimed blocks that it has not
                                           * begun; none if next >= end */
    struct Pending *pending[MAX_THREADS]; /* by thread; NULL: none yet */
    Bulk *bulks;                          /* copies of the block, in order */

    Fiber *fiber(int i) {
        return fiber_at((uintptr_t)slots + (uintptr_t)i * SIMT_STACK);
    }
};

/* The address range of the fibers' stacks. bytes 0: they may be anywhere. */
struct Stacks {
    uintptr_t base, bytes;
};
extern __attribute__((visibility("hidden"))) Stacks fibers;

/* The worker of this thread while it runs blocks, else NULL. */
extern thread_local Worker *this_worker;

/* block.cpp */
Worker *create_worker();                   /* NULL: out of memory */
Worker *worker_number(int i);              /* worker number i, or NULL past the
                                              last */
void run_blocks(Worker *worker, Job *job); /* run blocks until none is left */
void yield(Fiber *self); /* let the other threads of the block run */
/* Leave the block permanently; its threads never continue. */
[[noreturn]] void abandon(Worker *worker);

/* pool.cpp */
std::mutex &launching();       /* held from the start of a launch to its end */
Worker *own_worker();          /* the launching thread's worker; NULL: out of
                                  memory */
bool have_workers(int number); /* whether `number` workers exist or can be
                                  started */
void run_job(Job *job, int workers);
/* Let more workers join the running job, because its blocks wait for other
 * blocks of the job. */
void add_workers(Job *job, int number);

/* asynchronous.cpp: discard the operations for which no thread has waited.
 * `whole`: whether the block has reached its end. */
void later_end_block(Worker *worker, bool whole);

/* grid.cpp */
bool prepare_grid(Job *job); /* false: there are too few workers */
void leave_grid(Worker *worker);

/* signals.cpp */
void provide_stack(); /* give this thread's handlers an alternate stack */
void catch_faults();
void release_faults(); /* both require launching() to be held */

/* watchdog.cpp */
/* Return whether the launch has a fault or must end. self: the running thread,
 * or NULL. */
bool stopped(Worker *worker, const Fiber *self = 0);
void leave_if_stopped(Worker *worker, const Fiber *self = 0);
void watch_launch(Job *job);
void unwatch_launch();
void forget_watchdog(); /* for a forked child */

/* faults.cpp */
/* Record a fault of a thread, or of all threads if `self` is NULL. If it is the
 * first, it becomes the launch's fault. Return the entry to complete, or NULL
 * if it is not the first. */
simt_fault *note_fault(Worker *worker, const Fiber *self, int kind,
                       cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void report_fault(const simt_fault *fault); /* report a fault to this thread's
                                             * callers */
/* Return the error of a faulty launch that no call has reported yet, or
 * cudaSuccess. Synchronising calls and cudaGetLastError() report it once,
 * unless errors are sticky. Sticky errors are those of kernels that ran. */
cudaError_t pending_error();
cudaError_t sticky_error(); /* the error that every call must return, or
                               cudaSuccess */
/* Print "weft: ..." as a line on stderr, and make the program's exit status
 * nonzero. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* runtime.cpp: return the Kernel that belongs to a pointer to a __global__
 * function, or NULL if there is none. */
Kernel *kernel_of(const void *function);
/* Return the innermost of this thread's pending launches, or NULL. */
Launch *pending_launch();
/* Make `but` the innermost pending launch again. This drops the entries that
 * abandoned threads could not remove. */
void forget_launches(Launch *but);
unsigned launches_so_far();
const char *latest_kernel(); /* name of the last kernel run; NULL: none has
                              * run */
/* Return the maximum number of blocks of a cooperative launch. */
int cooperative_limit();
/* Repeat a captured launch, with all its checks. Return the error of a launch
 * that is rejected. */
cudaError_t replay(const Recorded *recorded);
void forget(Recorded *recorded); /* frees the launch */

/* fiber_ucontext.cpp: storage for the contexts of a worker's fibers. */
void create_contexts(Worker *worker);

/* interrupt.cpp */
extern std::atomic<bool> interrupt_seen;
void forget_watches(); /* for a forked child */

/* cuda_api.cpp: make `error` this thread's last error, and return it. */
cudaError_t set_error(cudaError_t error);

} // namespace simt::SIMT_FIBERS
#endif
