/* judge.cpp -- the errors of single accesses, and the sentences about them. */
#include <stdio.h>

#include "async_copies.h"
#include "hooks.h"
#include "report.h"

namespace simt::SIMT_FIBERS {

static const char *plural(unsigned long long n) { return n == 1 ? "" : "s"; }

enum { NULL_PAGES = 64 << 10 }; // a lower address comes from a null pointer

/* A finding being built: the thread, the access and its array. */
struct Case {
    Checker *checker;
    uint3 block, thread;
    const Access &access;
    bool has_array;
    Array array;
    unsigned element;
    long long index;
    char text[400];
    Found found;

    Case(Checker *checker, uint3 block, uint3 thread, const Access &access,
         const char *kind)
        : checker(checker), block(block), thread(thread), access(access),
          has_array(false), array(), element(0), index(0), text(), found() {
        found.kind = kind;
        found.site = access.site;
        found.block = &this->block;
        found.thread = &this->thread;
    }
    Case(Checker *checker, const Fiber *self, const Access &access,
         const char *kind)
        : Case(checker, checker->worker->index, self->thread.index, access,
               kind) {}

    /* Find the array, and its element at the address. */
    void look_up() {
        has_array = array_at(checker->job, access.space, access.offset, &array);
        if (!has_array) return;
        element = array.element && array.element <= 1 << 16 ? array.element
                                                            : access.size;
        const long long bytes = (long long)(access.offset - array.offset);
        index = bytes / element - (bytes % element < 0);
        found.array = array.name[0] ? array.name : 0;
        found.indexed = found.array != 0;
        found.index = index;
        found.sides = array.sides;
    }

    /* Write the sentence "thread 5 reads x[12]", followed by `rest`. */
    void say(const char *rest) { say(verb(access.kind), rest); }
    void say(const char *does, const char *rest) {
        const Who who(checker->job, block, thread);
        const Called called(array);
        char what[160];
        if (!has_array && !access.address)
            snprintf(what, sizeof what, "through a null pointer");
        else if (!has_array && access.address < NULL_PAGES)
            snprintf(what, sizeof what, "%zu byte%s past a null pointer",
                     (size_t)access.address, plural(access.address));
        else if (!has_array)
            snprintf(what, sizeof what, "memory at %p",
                     (const void *)access.address);
        else if (found.indexed)
            snprintf(what, sizeof what, "%s%s", called.text,
                     Subscript(index, array.sides).text);
        else
            snprintf(what, sizeof what, "element %lld of %s", index,
                     called.text);
        snprintf(text, sizeof text, "%s %s %s%s", who.text, does, what, rest);
        found.text = text;
    }

    void add() { add_finding(checker->job, found); }

    /* Keep the finding, and end the launch. */
    [[noreturn]] void end(cudaError_t error) {
        add();
        checker->job->fault_found = true;
        Worker *worker = checker->worker;
        simt_fault *fault =
            note_fault(worker, here(), SIMT_FAULT_ADDRESS, error, "%s", text);
        if (fault) {
            fault->address = access.address;
            fault->write = access.kind != READ;
        }
        abandon(worker);
    }
};

/* ---- outside of all arrays ---------------------------------------------- */

/* Write "x has 12 elements" or, without an index, the distance from the
 * array. */
static void say_bounds(const Case &c, char *out, size_t size) {
    const Called called(c.array);
    const unsigned long long count = c.array.size / c.element;
    if (!c.found.indexed) {
        const uintptr_t end = c.array.offset + c.array.size;
        const bool before = c.access.offset < c.array.offset;
        const unsigned long long far = before ? c.array.offset - c.access.offset
                                              : c.access.offset - end + 1;
        snprintf(out, size, ": %llu byte%s %s it", far, plural(far),
                 before ? "before" : "past");
    } else if (c.array.size % c.element) {
        snprintf(out, size, ": %s has %zu bytes, elements of %u", called.text,
                 c.array.size, c.element);
    } else {
        snprintf(out, size, ": %s has %llu element%s", called.text, count,
                 plural(count));
    }
}

[[noreturn]] static void out_of_bounds(Checker *checker, Fiber *self,
                                       Access access, const uint8_t *states) {
    // Find the first byte that is outside, to report it.
    unsigned inside = 0;
    while (inside < access.size && states[inside] & LIVE) inside++;
    Access told = access;
    if (inside) told.offset += inside;
    Case c(checker, self, told, "bounds");
    c.look_up();
    char rest[200] = "";
    if (c.has_array && c.array.freed && told.offset >= c.array.offset &&
        told.offset - c.array.offset < c.array.size) {
        c.found.kind = "use-after-free";
        const Called called(c.array);
        snprintf(rest, sizeof rest, ": %s was freed before", called.text);
    } else if (c.has_array) {
        say_bounds(c, rest, sizeof rest);
        if (access.space == SHARED &&
            told.offset >= checker->job->dynamic_shared &&
            c.array.offset == 0) {
            const size_t at = strlen(rest);
            snprintf(rest + at, sizeof rest - at,
                     ", since the launch gave %zu bytes of shared memory",
                     checker->job->dynamic_shared);
        }
    }
    c.say(rest);
    c.end(cudaErrorIllegalAddress);
}

/* ---- inside ------------------------------------------------------------- */

void tell_blank(Checker *checker, const Access &access, uint3 block,
                uint3 thread) {
    Case c(checker, block, thread, access, "uninitialised");
    c.look_up();
    if (count_known(checker->job, c.found)) return;
    c.say(access.space == SHARED
              ? ", which no thread of its block has written before"
              : ", which nobody has written before");
    c.add();
}

void tell_under_way(Checker *checker, const Fiber *self, const Access &access,
                    const Later *later, const uint3 *asker, bool coming) {
    Case c(checker, self, access, "unwaited");
    c.look_up();
    c.found.other = asker;
    c.found.other_site = later ? later->site : 0;
    if (count_known(checker->job, c.found)) return;
    char rest[200] = "";
    if (asker)
        snprintf(rest, sizeof rest, ": thread %s has asked for it",
                 Named(*asker, checker->job->block).text);
    const std::string text = std::string(coming ? "" : " before it is stored") +
                             ", and its copy was not waited for" + rest;
    c.say(text.c_str());
    c.add();
}

void tell_not_waited(Checker *checker, const Later *later, uint3 asker) {
    Access access = {};
    access.address = (uintptr_t)later->shared;
    access.offset = access.address - checker->shared;
    access.size = 4;
    access.site = later->site;
    access.space = SHARED;
    Case c(checker, checker->worker->index, asker, access, "unwaited");
    const bool known = later->bytes != 0;
    if (known) c.look_up();
    if (count_known(checker->job, c.found)) return;
    if (known) {
        c.say("asks for a copy of",
              ", and its copy was not waited for before the block's end");
    } else {
        const Who who(checker->job, c.block, asker);
        snprintf(c.text, sizeof c.text,
                 "%s asks for a product, and it was not waited for before the "
                 "block's end",
                 who.text);
        c.found.text = c.text;
    }
    c.add();
}

bool judge_states(Checker *checker, Fiber *self, const Access &access,
                  Mark mark, uint8_t *states) {
    bool live = true, written = false;
    for (unsigned i = 0; i < access.size; i++) {
        live &= (states[i] & LIVE) != 0;
        written |= (states[i] & WRITTEN) != 0;
    }
    if (!live) out_of_bounds(checker, self, access, states);
    const bool told = judge_under_way(checker, self, access, mark, states);
    // A struct is copied with its padding, so one written byte is enough.
    if (mark.effect & EFFECT_READS && !written && !told)
        note_blank(checker, self, access);
    if (!(mark.effect & EFFECT_WRITES)) return told;
    note_first_write(checker, self, access);
    for (unsigned i = 0; i < access.size; i++) states[i] |= BOTH;
    return told;
}

void judge_misaligned(Checker *checker, Fiber *self, const Access &access) {
    Case c(checker, self, access, "misaligned");
    c.look_up();
    char rest[120];
    snprintf(rest, sizeof rest,
             " with an access of %u bytes: its address is %llu bytes past a "
             "multiple of %u",
             access.size, (unsigned long long)(access.address % access.size),
             access.size);
    c.say(rest);
    c.end(cudaErrorMisalignedAddress);
}

/* ---- elsewhere ---------------------------------------------------------- */

[[noreturn]] static void not_the_devices(Checker *checker, Fiber *self,
                                         const Access &access) {
    const bool null = access.address < NULL_PAGES;
    // No process has memory at such an address, so it is not the host's,
    // either.
    const bool wild = access.address >> 47 != 0;
    Case c(checker, self, access, null || wild ? "bounds" : "host-pointer");
    c.say(null   ? ""
          : wild ? ": no memory is there"
                 : ": that is the host's memory");
    c.end(cudaErrorIllegalAddress);
}

/* Return whether an address belongs to the engine, or to a launch's
 * arguments. */
static bool is_engine(const Checker *checker, uintptr_t address) {
    const Worker *worker = checker->worker;
    return address - (uintptr_t)worker < sizeof *worker;
}

bool judge_elsewhere(Checker *checker, Fiber *self, Access *access, Mark mark) {
    const uintptr_t address = access->address;
    if (is_engine(checker, address)) return false;
    access->space = GLOBAL;
    Array *last = &checker->last;
    if (address - last->address >= last->size) {
        bool known = false;
        Array found;
        if (!find_variable(address, &found, &known) &&
            !find_host_memory(address, &found)) {
            // Tables and literals have no name, but reading them is harmless.
            if (known && !(mark.effect & EFFECT_WRITES)) return false;
            not_the_devices(checker, self, *access);
        }
        *last = found;
    }
    access->offset = last->offset + (address - last->address);
    return true;
}

} // namespace simt::SIMT_FIBERS
