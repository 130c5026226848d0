/* report.h -- findings about a launch as a whole, and the text of all
 * findings. */
#ifndef SIMT_CHECK_REPORT_H
#define SIMT_CHECK_REPORT_H
#include <stdarg.h>
#include <stdio.h>

#include <string>

#include "check.h"

namespace simt::SIMT_FIBERS {

/* A text that grows. */
struct Sink {
    std::string text;
    void print(const char *format, ...) __attribute__((format(printf, 2, 3)));
    void quote(const char *string); /* write a JSON string */
    /* Write [module, offset], or null: the place of the hook call that returns
     * to `pc`. */
    void place(const void *pc);
};

/* ---- faults.cpp --------------------------------------------------------- */

/* Report the fault that ended the launch, such as a trap or a full stack, if no
 * hook has found it. */
void found_fault(Job *job);
/* Report that the threads about to leave a barrier are not all threads of the
 * block, or do not wait at the same barrier. */
void found_uneven(Checker *checker);

/* ---- absent.cpp --------------------------------------------------------- */

/* Report lanes that are absent from the call of the lanes in `group`, although
 * the call's mask includes them or a lane reads their values. */
void find_absent(Checker *checker, const Warp *warp, unsigned group);

/* ---- meetings.cpp ------------------------------------------------------- */

/* Return text such as "lane 3" or "lanes 0-15 and 20". */
std::string lanes_text(unsigned lanes);

/* ---- findings.cpp ------------------------------------------------------- */

/* Return whether a finding is a harmless race: a plain read that a
 * compare-and-swap corrects. */
bool is_first_look(const Found &found);
void write_findings(Sink *sink); /* writes a JSON list */

/* ---- counters.cpp ------------------------------------------------------- */

void write_counters(Sink *sink); /* write a JSON list of kernels */

/* ---- report.cpp --------------------------------------------------------- */

/* Write the report to the file named by WEFT_CHECK_REPORT, if it has
 * changed. */
void write_report_if_asked();

} // namespace simt::SIMT_FIBERS
#endif
