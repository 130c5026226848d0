/* simt_runtime.h -- the SIMT runtime's own calls, as plain C.
 *
 * CUDA C runs on the CPU on top of one shared library. What CUDA itself has
 * no name for is here: how many worker threads, in which order the threads of
 * a block take their turns, and how Ctrl-C ends a long launch. All functions
 * may be called from any thread. */
#ifndef SIMT_RUNTIME_H
#define SIMT_RUNTIME_H
#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default) /* the rest of the library stays hidden \
                                      */

/* Run blocks on `n` threads, the caller's included; 0: one per core that this
 * process may use (sched_getaffinity). Takes effect at the next launch. */
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
 * out and was terminated"); blocks that have begun are finished first. Every
 * launch watches by itself if nobody else does. */
void simt_watch_begin(void);

/* 1 if SIGINT came since the outermost simt_watch_begin(), else 0. */
int simt_interrupted(void);

/* Stop listening; returns what simt_interrupted() said. The outermost call
 * restores the previous handler. The flag stays readable until the next
 * outermost simt_watch_begin(). */
int simt_watch_end(void);

/* Why this thread's last failed launch failed, in one line with the block's
 * index in it where there is one; "" if none has. */
const char *simt_last_fault(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
