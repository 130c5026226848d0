/* waits.cpp -- the element for which a thread waits: it reads the element again
 * and again, and the value does not change. Only volatile and atomic reads
 * count, since no other read can end a wait. */
#include <stdio.h>
#include <string.h>

#include "hooks.h"
#include "launch.h"

namespace simt::SIMT_FIBERS {

enum { LOOKS_OF_A_WAIT = 100 }; // fewer equal reads in a row are not a wait

/* Return the element's bytes. Other threads may be writing them. */
__attribute__((no_sanitize("thread"))) static uint64_t
value_at(const Access &access) {
    uint64_t value = 0;
    memcpy(&value, (const void *)access.address, access.size);
    return value;
}

void note_look(Checker *checker, const Fiber *self, const Access &access) {
    Look *look = &checker->looks[self->thread.linear];
    const uint64_t value = value_at(access);
    const bool again = look->count && look->access.address == access.address &&
                       look->value == value;
    look->count = again ? look->count + (look->count < ~0u) : 1;
    look->access = access;
    look->value = value;
}

/* Write the name of the element at an access: "flag[3]". */
static void name_element(const Job *job, const Access &access, char *text,
                         size_t size) {
    Array array;
    if (!array_at(job, access.space, access.offset, &array)) {
        snprintf(text, size, "memory at %p", (const void *)access.address);
        return;
    }
    const unsigned element = array.element ? array.element : access.size;
    const long long index =
        (long long)(access.offset - array.offset) / (long long)element;
    snprintf(text, size, "%s%s", Called(array).text,
             Subscript(index, array.sides).text);
}

void describe_wait(const Worker *worker, const Fiber *self, char *text,
                   size_t size) {
    *text = 0;
    if (!worker->checker || !self) return;
    const Look &look = worker->checker->looks[self->thread.linear];
    if (look.count < LOOKS_OF_A_WAIT) return;
    char element[160];
    name_element(worker->job, look.access, element, sizeof element);
    // The type is unknown. Small values are counts or flags, and the others are
    // floats, or several fields.
    const bool small = look.value < 1 << 16;
    snprintf(text, size,
             small
                 ? "; it waits for %s, whose value was %llu at each of %u reads"
                 : "; it waits for %s, whose value was 0x%llx at each of %u "
                   "reads",
             element, (unsigned long long)look.value, look.count);
}

} // namespace simt::SIMT_FIBERS
