/* ubsan.h -- the arguments that code compiled with -fsanitize=bounds and the
 * like passes, in g++'s layout. */
#ifndef SIMT_CHECK_UBSAN_H
#define SIMT_CHECK_UBSAN_H
#include "check.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

struct Type {
    uint16_t kind,
        info;     /* kind 0: an integer; info: log2 of bits << 1 | sign */
    char name[1]; /* "'float [12]'" */

    /* Of an integer, or of kind 1, a floating-point number: its info is the
     * bits. */
    unsigned bits() const { return kind ? info : 1u << (info >> 1); }
    bool is_signed() const { return info & 1; }
};

struct Spot {
    const char *file;
    uint32_t line, column;
};

/* An integer of up to 64 bits as it is passed: by value. */
inline long long value_of(const Type &type, uintptr_t handle) {
    if (type.bits() > 64) return 0; // nobody counts that far
    if (!type.is_signed() || type.bits() == 64) return (long long)handle;
    const unsigned above = 64 - type.bits();
    return (long long)(handle << above) >> above;
}

/* A finding of the running thread at a spot that the compiler supplied. */
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

} // namespace
} // namespace simt
#endif
