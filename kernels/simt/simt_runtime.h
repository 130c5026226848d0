/* simt_runtime.h -- additional calls of the SIMT runtime, as plain C.
 *
 * CUDA C runs on the CPU on top of one shared library. This header has the
 * calls that do not exist in CUDA. They control the number of worker threads
 * and the order in which the threads of a block run. They also end launches at
 * a time limit or on Ctrl-C, and report a kernel's faults. All functions may be
 * called from any thread. */
#ifndef SIMT_RUNTIME_H
#define SIMT_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* other functions stay hidden */

/* Run blocks on `n` threads, including the caller's. 0 means
 * OMP_NUM_THREADS or, without this variable, one thread per core that this
 * process may use (sched_getaffinity). The setting takes effect at the next
 * launch. A cooperative launch, which needs one thread per block,
 * uses more. So does a launch in which no block makes progress, since its
 * blocks may wait for blocks that have not begun. */
void simt_set_threads(int n);

/* Return the number of threads that the next launch may use. */
int simt_threads(void);

/* The order of threads. A kernel that lacks a barrier may always give the right
 * result if its threads always run in the same order. So tests run a kernel in
 * several orders. In all orders but the first, shared memory is filled with
 * 0xff (NaN, -1) before every block. Otherwise, data of the previous block
 * could hide the mistake, too. */
enum simt_order {
    SIMT_FORWARD = 0, /* thread 0 first, block 0 first */
    SIMT_REVERSE = 1, /* the last thread and block first */
    SIMT_SHUFFLED = 2 /* a different random order in every block; this and any
                       * larger value is the seed */
};

/* Set the order of threads and blocks, starting with the next launch. */
void simt_set_order(int order);

/* Watch for Ctrl-C. Until the matching simt_watch_end(), SIGINT sets a flag and
 * then runs the previously installed handler, so Python still raises its
 * KeyboardInterrupt. Calls nest. A launch that is running or starts while the
 * flag is set ends early, even in the middle of an endless loop. Its error is
 * cudaErrorLaunchTimeout ("the launch timed out and was terminated"). If no
 * caller watches, every launch does so itself. */
void simt_watch_begin(void);

/* Return 1 if SIGINT has arrived since the outermost simt_watch_begin(), else
 * 0. */
int simt_interrupted(void);

/* Stop watching, and return the value of simt_interrupted(). The outermost call
 * restores the previous handler. The flag stays readable until the next
 * outermost simt_watch_begin(). */
int simt_watch_end(void);

/* ---- faults ------------------------------------------------------------- */

/* The kinds of faults, with their error numbers. A faulting thread ends its
 * launch, as on a GPU, but never the process. Signals on a kernel's stack are
 * caught while a launch runs; all others reach the previously installed
 * handlers. Values that the thread's block and the concurrent blocks have
 * written by then remain. */
enum simt_fault_kind {
    SIMT_FAULT_NONE = 0,
    SIMT_FAULT_LAUNCH = 1,     /* rejected before it began: 1, 9, 701, ... */
    SIMT_FAULT_ADDRESS = 2,    /* no memory at the address: 700; misaligned:
                                * 716 */
    SIMT_FAULT_STACK = 3,      /* a thread's stack is full: 719 */
    SIMT_FAULT_ARITHMETIC = 4, /* integer division by zero: 719 */
    SIMT_FAULT_ILLEGAL = 5,    /* an invalid instruction: 715 */
    SIMT_FAULT_ASSERT = 6,     /* assert(): 710 */
    SIMT_FAULT_TRAP = 7,       /* __trap(), or a misused barrier: 719 */
    SIMT_FAULT_EXCEPTION = 8,  /* an uncaught exception, including bad_alloc, or
                                * abort(): 719 */
    SIMT_FAULT_TIMEOUT = 9,    /* simt_set_timeout(): 702 */
    SIMT_FAULT_INTERRUPT = 10, /* Ctrl-C: 702 */
    SIMT_FAULT_DEADLOCK = 11,  /* all threads wait forever: 702 */
    SIMT_FAULT_LIBRARY = 12    /* a function of cuBLAS or another library may
                                * not access an argument: 700 */
};

/* The failure of a launch, described by its first fault. */
struct simt_fault {
    int kind;           /* enum simt_fault_kind */
    int error;          /* the cudaError_t that the launch returned */
    uintptr_t address;  /* ADDRESS, STACK: the accessed address; else 0 */
    int write;          /* 1: a store, 0: a load, -1: unknown */
    unsigned block[3];  /* blockIdx and threadIdx of the thread, x y z; */
    unsigned thread[3]; /* all ~0u if the fault is not that of one thread */
    char kernel[100];   /* the kernel's name */
    char text[256];     /* all of these in one line */
};

/* Return this thread's last failed launch. Its kind is SIMT_FAULT_NONE if there
 * is none. The result is valid until this thread's next launch. */
const struct simt_fault *simt_last_launch_fault(void);

/* Discard this thread's last failed launch, its last error, and the error that
 * the next synchronising call would report, even if it is sticky. */
void simt_clear_fault(void);

/* Return the text of simt_last_launch_fault(), or "" if there is none. */
const char *simt_last_fault(void);

/* End launches that take longer than `ms` milliseconds; 0, the default, means
 * no limit. The limit applies to all launches of the process, starting with the
 * next one. */
void simt_set_timeout(int ms);

/* Adopt the limits of GPUs of a compute capability: 7.5, 8.0, 8.6, 8.9 or
 * 9.0, the default. These are the shared memory of a block and of a
 * multiprocessor, and the threads of a multiprocessor. Return 0, or -1 for
 * another capability. */
int simt_set_capability(int major, int minor);

/* Set whether errors are sticky. 1: after a fault, a line on stderr reports it,
 * and all launches and calls return its error until the process ends, as on a
 * GPU. 0, the default: the error is reported once, and later calls succeed
 * again. */
void simt_set_sticky(int sticky);

/* Return the number of lines on stderr that have reported an error. An error is
 * a kernel's fault (while errors are sticky), or memory that was written past
 * its end or after it was freed. */
int simt_warnings(void);

/* Periodically report on stderr which kernel of a long program is running, for
 * users who watch the program on a terminal. */
void simt_show_life(void);

/* Report the place where the host accesses invalid memory, before the signal
 * ends the process as usual. */
void simt_tell_host_faults(void);

/* End a launch whose printf() calls print more than `bytes` bytes; 0, the
 * default, means no limit. */
void simt_set_most_printed(size_t bytes);

/* Return 1 if the caller is a CUDA thread, that is, if it runs inside a kernel,
 * else 0. */
int simt_on_device(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
