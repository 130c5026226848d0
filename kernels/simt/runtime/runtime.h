/* runtime.h -- declarations that the runtime's own files share; kernels do not
 * see them. */
#ifndef SIMT_RUNTIME_PRIVATE_H
#define SIMT_RUNTIME_PRIVATE_H
#include <pthread.h>

#include <atomic>
#include <mutex>

#include "../api/cuda_api.h"
#include "engine.h"
#include "simt_runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

enum {
    STATIC_SHARED = 48 << 10,  /* bytes of __shared__ arrays that a kernel may
                                  have, and of dynamic shared memory by
                                  default */
    DYNAMIC_SHARED = 227 << 10 /* after cudaFuncSetAttribute(), as on sm_90 */
};

/* One launch, shared by all its workers. */
struct Job {
    dim3 grid, block;
    size_t dynamic_shared;
    void (*body)(void *);
    void *closure;
    Kernel *kernel;
    unsigned number; /* of the launch, never 0 */
    int order;       /* enum simt_order */
    bool cooperative;
    uint64_t blocks, chunk;
    std::atomic<uint64_t> next;        /* the first block that no worker has
                                          taken */
    std::atomic<size_t> printed;       /* bytes, by printf() */
    std::atomic<unsigned> shared_used; /* bytes of shared memory allocated */
    unsigned shared_gaps;              /* of these, bytes between checked
                                          arrays */
    std::atomic<bool> failed;
    simt_fault fault;     /* the first one; the worker that set `failed` writes
                             it */
    bool fault_found;     /* the watch build has a finding for it */
    const void *fault_pc; /* where in a checked kernel; NULL: unknown */
};

/* A launch that was captured instead of run, with its own copy of its arguments
 * (cuda_graph.cpp keeps them). */
struct Recorded {
    Kernel *kernel;
    const Closure *calls;
    void *closure;
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    bool cooperative;
};

/* How a launch finds out whether its stream is being captured: it calls
 * `active` first, and a captured launch goes to `keep`, which owns it from then
 * on. NULL while nothing is captured. */
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

/* What the handler of a fault recorded. */
struct Signal {
    int number, write; /* write: as in simt_fault */
    uintptr_t address, stack_pointer;
    bool misaligned, unknown; /* unknown: the address cannot be determined */
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
#ifdef SIMT_SANITIZE
    void *host, *announced[MAX_THREADS]; /* fiber_sanitize.cpp's */
#endif
    std::atomic<unsigned> busy;  /* the launch it works on, 0: none */
    std::atomic<unsigned> poked; /* the launch in which it must yield */
    std::atomic<bool> looked_at; /* by the watchdog */
    pthread_t thread;            /* that it runs on while busy */
    uint64_t seen_steps;         /* the watchdog's: see share() */
    int turns_given, hot;        /* the same */
    volatile bool waiting;       /* at a grid barrier */
    Signal got;
    uintptr_t stopped_at; /* the instruction that a signal ended; 0: none */
    Checker *own_checker; /* made for its first checked launch */
    unsigned modes;       /* the processor's, of rounding and the like */
    bool asked;           /* a thread of the block has issued: asynchronous.h */
    unsigned long long blocks;            /* that it has begun to run */
    struct Pending *pending[MAX_THREADS]; /* by thread; NULL: none yet */
    Bulk *bulks;                          /* of the block, in their order */

    Fiber *fiber(int i) {
        return fiber_at((uintptr_t)slots + (uintptr_t)i * SIMT_STACK);
    }
};

/* The addresses of the fibers' stacks; bytes 0: they may be anywhere. */
struct Stacks {
    uintptr_t base, bytes;
};
extern __attribute__((visibility("hidden"))) Stacks fibers;

/* The worker of this thread while it runs blocks, else NULL. */
extern thread_local Worker *this_worker;

/* block.cpp */
Worker *create_worker();                   /* NULL: out of memory */
Worker *worker_number(int i);              /* the i-th of them, NULL past the
                                              last */
void run_blocks(Worker *worker, Job *job); /* until none is left */
void yield(Fiber *self); /* let the other threads of the block run */
/* Leave the block for good; its threads never continue. */
[[noreturn]] void abandon(Worker *worker);

/* pool.cpp */
std::mutex &launching();       /* held from the start of a launch to its end */
Worker *own_worker();          /* of the launching thread; NULL: out of
                                  memory */
bool have_workers(int number); /* whether that many, or as many more threads,
                                  failed */
void run_job(Job *job, int workers);
/* Let more workers join the running job: its blocks wait for others of it. */
void add_workers(Job *job, int number);

/* asynchronous.cpp: discard operations for which no thread has waited; `whole`:
 * the block has reached its end. */
void later_end_block(Worker *worker, bool whole);

/* grid.cpp */
bool prepare_grid(Job *job); /* false: there are not enough workers */
void leave_grid(Worker *worker);

/* signals.cpp */
void provide_stack(); /* gives this thread's handlers their own stack */
void catch_faults();
void release_faults(); /* held by both: launching() */

/* watchdog.cpp */
bool stopped(Worker *worker); /* the launch has a fault or must end */
void leave_if_stopped(Worker *worker);
void watch_launch(Job *job);
void unwatch_launch();
void forget_watchdog(); /* in a forked child */

/* faults.cpp */
/* Make this the launch's fault if it is the first one, for all of its threads
 * (`self` NULL) or for one. Returns the entry to complete, NULL if it is not
 * the first. */
simt_fault *note_fault(Worker *worker, const Fiber *self, int kind,
                       cudaError_t error, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void report_fault(const simt_fault *fault); /* to this thread's callers */
/* Return the error of a faulty launch that no call has reported yet, or
 * cudaSuccess. Synchronising calls and cudaGetLastError() report it once,
 * unless errors are sticky. Sticky errors are those of kernels that ran. */
cudaError_t pending_error();
cudaError_t sticky_error(); /* the error that every call must return, or
                               cudaSuccess */
/* Print "weft: ..." as a line on stderr, and make the program's exit status
 * nonzero. */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* runtime.cpp: return the Kernel behind a pointer to a __global__ function,
 * NULL if it is none. */
Kernel *kernel_of(const void *function);
/* Return the launch on top of this thread's stack, and remove the entries that
 * an abandoned thread could not remove. */
Launch *pending_launch();
void forget_launches(Launch *but);
unsigned launches_so_far();
const char *latest_kernel(); /* its name, NULL: none has run */
/* Return how many blocks a cooperative launch may have. */
int cooperative_limit();
/* Launch a captured launch again, with all its checks. Returns the error of a
 * launch that is refused. */
cudaError_t replay(const Recorded *recorded);
void forget(Recorded *recorded); /* free it */

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
