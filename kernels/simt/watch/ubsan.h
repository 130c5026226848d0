/* ubsan.h -- the arguments passed by code compiled with -fsanitize=bounds and
 * similar options, in g++'s layout. */
#ifndef SIMT_CHECK_UBSAN_H
#define SIMT_CHECK_UBSAN_H
#include "check.h"

namespace simt::SIMT_FIBERS {

struct Type {
    uint16_t kind, info; /* kind 0 is an integer; its info is log2 of bits << 1
                          * | sign */
    char name[1];        /* "'float [12]'" */

    /* Return the number of bits; for kind 1, a floating-point number, this is
     * the info itself. */
    unsigned bits() const { return kind ? info : 1u << (info >> 1); }
    bool is_signed() const { return info & 1; }
};

struct Spot {
    const char *file;
    uint32_t line, column;
};

/* Return an integer of up to 64 bits, which is passed by value. */
inline long long value_of(const Type &type, uintptr_t handle) {
    if (type.bits() > 64) return 0; // no index is that large
    if (!type.is_signed() || type.bits() == 64) return (long long)handle;
    const unsigned above = 64 - type.bits();
    return (long long)(handle << above) >> above;
}

/* Return a finding of the running thread at a place that the compiler
 * supplied. */
inline Found found_at(const Checker *checker, const Fiber *self,
                      const Spot &spot, const char *kind, const void *pc) {
    Found found = {};
    found.kind = kind;
    found.pc = pc;
    found.file = spot.file;
    found.line = spot.line;
    found.column = spot.column;
    found.block = &checker->worker->index;
    found.thread = &self->thread.index;
    return found;
}

} // namespace simt::SIMT_FIBERS
#endif
