/* report.h -- findings that the watch build makes of a launch as a whole, and
 * the text that all of them become. */
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
    /* [module, offset], or null: where the instruction is that calls a hook
     * which returns to `pc`. */
    void place(const void *pc);
};

/* ---- faults.cpp --------------------------------------------------------- */

/* What ended the launch, if no hook has found it: a trap, a full stack, ... */
void found_fault(Job *job);
/* The threads of a block that are about to leave a barrier are not all of it,
 * or do not wait at one and the same. */
void found_uneven(Checker *checker);

/* ---- absent.cpp --------------------------------------------------------- */

/* The lanes in `group` meet: of those that their call names or reads, some may
 * take no part. */
void find_absent(Checker *checker, const Warp *warp, unsigned group);

/* ---- meetings.cpp ------------------------------------------------------- */

/* "lane 3", "lanes 0-15 and 20" */
std::string lanes_text(unsigned lanes);

/* ---- findings.cpp ------------------------------------------------------- */

/* A race that is none: a plain read that a compare-and-swap puts right. */
bool is_first_look(const Found &found);
void write_findings(Sink *sink); /* a JSON list */

/* ---- counters.cpp ------------------------------------------------------- */

void write_counters(Sink *sink); /* a JSON list of kernels */

/* ---- report.cpp --------------------------------------------------------- */

/* Write the report to the file that WEFT_CHECK_REPORT names, if there is
 * something new in it. */
void write_report_if_asked();

} // namespace
} // namespace simt
#endif
