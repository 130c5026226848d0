/* simt_check.h -- the watch build's own calls, as plain C.
 *
 * Programs and cells that are compiled with SIMT_CHECK are watched while their
 * kernels run. Their errors and costs are collected until a caller fetches
 * them. All functions may be called from any thread. */
#ifndef SIMT_CHECK_H
#define SIMT_CHECK_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Discard all findings and counters, so that the next report starts from
 * nothing. */
void simt_check_begin(void);

/* Return all results since simt_check_begin() as JSON text, or NULL if memory
 * runs out. The caller must free it with simt_check_free().
 *
 *     {"modules": ["/path/lib.so", ...],
 *      "findings": [{"kind", "text", "site": [module, offset] | null,
 *                    "file", "line", "column", "other_site", "kernel",
 *                    "block": [x, y, z] | null, "thread", "other", "array",
 *                    "index", "count",
 *                    "barriers": {"last", "at": [{"file", "line", "visits",
 *                                                 "before": [visits, ...]}]}
 *                                | null,
 *                    "one_warp"}],
 *      "kernels": [{"name", "launches", "grid": [x, y, z], "block", "blocks",
 *                   "threads", "warps", "barriers", "copied",
 *                   "copied_past", "shared",
 *                   "sites": [{"site", "kind": "read" | "write" | "atomic",
 *                              "space": "global" | "shared" | "local" | "",
 *                              "array", "size", "accesses", "requests",
 *                              "sectors", "wavefronts", "needed"}],
 *                   "steps": [{"site", "threads", "executions"}]}],
 *      "library": the illegal access of a function of cuBLAS or another
 *                 library by this thread, as text, or ""}
 *
 * A site is a place in a module's code. It consists of the module's number in
 * "modules" and of the instruction's offset in the file's own addresses, as
 * addr2line expects them. It is null if the place is unknown. "file" is "" and
 * "line" and "column" are 0 unless the compiler supplied them. "thread",
 * "other", "index" and "array" may be null like "block". Kinds are those of
 * weft.report.KINDS. "index" is a number, or a list of them if the array is
 * declared with several sides. "barriers" lists the barriers that the block of
 * a race had left by then. For each of them, "visits" is the number of times
 * that the block had left it. "before" has the visits of all barriers when the
 * block last left this one. "last" is the index in "at" of the barrier that it
 * left last, or -1. "one_warp" is whether the two threads of each such race are
 * in the same warp.
 *
 * Kernels are summed over their launches; grid and block are those of the last
 * launch. The numbers of a site are those of weft.report.Place, "size" is in
 * bytes, and "needed" is the number of wavefronts without bank conflicts. A
 * step is a basic block of the kernel: "threads" is the number of threads that
 * reached it, in "executions" executions by warps. "copied" is the number of
 * bytes copied by cp.async. "copied_past" is the sum, over these bytes, of the
 * barriers that the block met while each was in flight. "shared" is the static
 * shared memory of a block. */
char *simt_check_report(void);
void simt_check_free(char *report);

/* Switch counters or the checks for races on (1, the default) or off (0).
 * Kernels are faster without them. */
void simt_check_counters(int on);
void simt_check_races(int on);

/* Allocate `size` bytes of device memory, filled with 0xff, for an array of a
 * launch's caller with elements of `element` bytes. The array is called `name`
 * unless it is a parameter of the kernel. initialised: 1 if its bytes count as
 * written. Return NULL if memory runs out. */
void *simt_check_alloc(size_t size, size_t element, const char *name,
                       int initialised);
void simt_check_release(void *memory);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
