/* simt_runtime.h -- the SIMT runtime's own calls, as plain C.
 *
 * CUDA C runs on the CPU on top of one shared library. What CUDA itself has
 * no name for is here: how many worker threads, in which order the threads of
 * a block take their turns, what a kernel did wrong, and how a time limit or
 * Ctrl-C ends a launch. All functions may be called from any thread. */
#ifndef SIMT_RUNTIME_H
#define SIMT_RUNTIME_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the rest of the library stays hidden \
                                      */

/* Run blocks on `n` threads, the caller's included; 0: one per core that this
 * process may use (sched_getaffinity). Takes effect at the next launch. More
 * run for a cooperative launch, which needs one for each of its blocks, and for
 * one whose blocks all stand still: they may be waiting for blocks that have
 * not begun. */
void simt_set_threads(int n);

/* How many threads the next launch may use. */
int simt_threads(void);

/* A kernel that lacks a barrier gives the right answer for ever if its threads
 * always run in the same order, so tests run it in several. In all but the
 * first, shared memory is filled with 0xff (NaN, -1) before every block: what
 * the one before left there would do the same. */
enum simt_order {
    SIMT_FORWARD = 0, /* thread 0 first, block 0 first */
    SIMT_REVERSE = 1, /* the last thread and block first */
    SIMT_SHUFFLED = 2 /* a different random order in every block; this and any
                       * larger value is the seed */
};

/* The order of threads and blocks from the next launch on. */
void simt_set_order(int order);

/* Listen for Ctrl-C: until the matching simt_watch_end(), SIGINT sets a flag
 * and then runs the handler that was installed before, so Python still raises
 * its KeyboardInterrupt. Calls nest. A launch that is running or starts while
 * the flag is set ends early with cudaErrorLaunchTimeout ("the launch timed
 * out and was terminated"), also in the middle of an endless loop. Every
 * launch watches by itself if nobody else does. */
void simt_watch_begin(void);

/* 1 if SIGINT came since the outermost simt_watch_begin(), else 0. */
int simt_interrupted(void);

/* Stop listening; returns what simt_interrupted() said. The outermost call
 * restores the previous handler. The flag stays readable until the next
 * outermost simt_watch_begin(). */
int simt_watch_end(void);

/* ---- what went wrong ---------------------------------------------------- */

/* A thread that does what it must not ends its launch, as on a GPU, and never
 * the process: signals on a kernel's stack are caught while a launch runs; all
 * others reach the handlers that were there before. What its block and the
 * blocks that run beside it have written by then stays written. */
enum simt_fault_kind {
    SIMT_FAULT_NONE = 0,
    SIMT_FAULT_LAUNCH = 1,     /* refused before it began: 1, 9, 701, ... */
    SIMT_FAULT_ADDRESS = 2,    /* no memory there: 700; misaligned: 716 */
    SIMT_FAULT_STACK = 3,      /* a thread's stack is full: 719 */
    SIMT_FAULT_ARITHMETIC = 4, /* integer division by zero: 719 */
    SIMT_FAULT_ILLEGAL = 5,    /* an instruction that is none: 715 */
    SIMT_FAULT_ASSERT = 6,     /* assert(): 710 */
    SIMT_FAULT_TRAP = 7,       /* __trap(), a barrier misused: 719 */
    SIMT_FAULT_EXCEPTION = 8,  /* uncaught, bad_alloc too, or abort(): 719 */
    SIMT_FAULT_TIMEOUT = 9,    /* simt_set_timeout(): 702 */
    SIMT_FAULT_INTERRUPT = 10, /* Ctrl-C: 702 */
    SIMT_FAULT_DEADLOCK = 11   /* all wait for what will not come: 702 */
};

/* How a launch failed; the first fault of it if there were several. */
struct simt_fault {
    int kind;           /* enum simt_fault_kind */
    int error;          /* the cudaError_t that the launch gave */
    uintptr_t address;  /* ADDRESS, STACK: what was accessed; else 0 */
    int write;          /* 1: it was a store, 0: a load, -1: unknown */
    unsigned block[3];  /* blockIdx and threadIdx of the thread, x y z; */
    unsigned thread[3]; /* all ~0u where it is not one thread's fault */
    char kernel[100];   /* the kernel's name */
    char text[256];     /* all of this in one line */
};

/* This thread's last failed launch; kind SIMT_FAULT_NONE if there is none. The
 * result is good until this thread's next launch. */
const struct simt_fault *simt_last_launch_fault(void);

/* Forget this thread's last failed launch, its last error, and the one that the
 * next call that synchronises would report; a sticky one too. */
void simt_clear_fault(void);

/* The text of simt_last_launch_fault(), "" if there is none. */
const char *simt_last_fault(void);

/* End launches that run longer than this many milliseconds; 0: no limit, which
 * is the default. For all launches of the process from the next one on. */
void simt_set_timeout(int ms);

/* 1: after a fault, all launches and calls return its error to the end of the
 * process, as on a GPU, and a line on stderr tells of it. 0, the default: it is
 * reported once, and then all is well again. */
void simt_set_sticky(int sticky);

/* How many lines on stderr have told of a kernel's fault (while they stick) or
 * of memory that was written past its end or after it was freed. */
int simt_warnings(void);

/* Tell on stderr, now and then, which kernel of a long program runs: for those
 * who watch it on a terminal. */
void simt_show_life(void);

/* Tell where the host touches memory that is not its own, before the signal
 * ends the process as ever. */
void simt_tell_host_faults(void);

/* End a launch whose printf() prints more bytes than this; 0, the default: no
 * limit. */
void simt_set_most_printed(size_t bytes);

/* 1 if the caller is a CUDA thread, that is if it runs inside a kernel. */
int simt_on_device(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
