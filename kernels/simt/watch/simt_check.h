/* simt_check.h -- the watch build's own calls, as plain C.
 *
 * Programs and cells that are compiled with SIMT_CHECK are watched while their
 * kernels run: their errors and costs are collected here until a caller fetches
 * them. All functions may be called from any thread. */
#ifndef SIMT_CHECK_H
#define SIMT_CHECK_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Forget all findings and counters, so that the next report starts from
 * nothing. */
void simt_check_begin(void);

/* Return all results since then as JSON text, which the caller frees with
 * simt_check_free(). NULL: out of memory.
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
 *                   "steps": [{"site", "threads", "executions"}]}]}
 *
 * A site is a place in a module's code: the number of the module in "modules"
 * and the offset of the instruction in the file's own addresses, in the form
 * that addr2line takes; null: not known. "file", "line" and "column" are "" and
 * 0 unless the compiler supplied them. "thread", "other" and "index" may be
 * null like "block", and "array" too. Kinds are those of weft.report.KINDS.
 * "index" is a number, or a list of them if the array is declared with several
 * sides. "barriers" are those that the block of a race had left by then: how
 * often it left each, and all these counts when it last left this one. "last"
 * is the number in "at" of the one that it left last, -1: none. "one_warp":
 * whether the two threads of each such race are of one warp.
 *
 * Kernels are summed over their launches; grid and block are those of the last
 * launch. The numbers of a site are those of weft.report.Place, "size" is in
 * bytes, and "needed" is the number of wavefronts without bank conflicts. A
 * step is a basic block of the kernel: "threads" came to it, in "executions"
 * executions by warps. "copied" is the number of bytes copied by cp.async.
 * "copied_past" is the sum, over these bytes, of the barriers that the block
 * met while each was under way. "shared" is the static shared memory of a
 * block. */
char *simt_check_report(void);
void simt_check_free(char *report);

/* 0: kernels run without counters or races, and cost less; 1, the default. */
void simt_check_counters(int on);
void simt_check_races(int on);

/* Allocate device memory for an array of a launch's caller. The array is called
 * `name` unless it is a parameter of the kernel. initialised: 1 if its bytes
 * count as written. The memory is filled with 0xff. NULL: out of memory. */
void *simt_check_alloc(size_t size, size_t element, const char *name,
                       int initialised);
void simt_check_release(void *memory);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
