/* report.h -- findings that the watch build makes of a launch as a whole, and
 * the text of all findings. */
#ifndef SIMT_CHECK_REPORT_H
#define SIMT_CHECK_REPORT_H
#include <stdarg.h>
#include <stdio.h>

#include <string>

#include "check.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

/* Text that grows. */
struct Sink {
    std::string text;
    void print(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void quote(const char *string); /* as JSON */
    /* [module, offset], or null: the place of the instruction that calls a hook
     * which returns to `pc`. */
    void place(const void *pc);
};

/* ---- faults.cpp --------------------------------------------------------- */

/* The fault that ended the launch, if no hook has found it: a trap, a full
 * stack and so on. */
void found_fault(Job *job);
/* The threads that are about to leave a barrier are not all threads of the
 * block, or do not wait at the same one. */
void found_uneven(Checker *checker);

/* ---- absent.cpp --------------------------------------------------------- */

/* The lanes in `group` meet. Report lanes that their call names or reads and
 * that take no part. */
void find_absent(Checker *checker, const Warp *warp, unsigned group);

/* ---- meetings.cpp ------------------------------------------------------- */

/* "lane 3", "lanes 0-15 and 20" */
std::string lanes_text(unsigned lanes);

/* ---- findings.cpp ------------------------------------------------------- */

/* A harmless race: a plain read that a compare-and-swap corrects. */
bool is_first_look(const Found &found);
void write_findings(Sink *sink); /* a JSON list */

/* ---- counters.cpp ------------------------------------------------------- */

void write_counters(Sink *sink); /* a JSON list of kernels */

/* ---- report.cpp --------------------------------------------------------- */

/* Write the report to the file named by WEFT_CHECK_REPORT, if it has
 * changed. */
void write_report_if_asked();

} // namespace
} // namespace simt
#endif
