/* names.cpp -- the names of threads, blocks and arrays in a sentence. */
#include <stdio.h>

#include <mutex>

#include "report.h"

namespace simt::SIMT_FIBERS {

const char *verb(Kind kind) {
    return kind == READ ? "reads" : kind == WRITE ? "writes" : "updates";
}

uint3 position(uint64_t number, dim3 size) {
    return {(unsigned)(number % size.x), (unsigned)(number / size.x % size.y),
            (unsigned)(number / size.x / size.y)};
}

Named::Named(uint3 i, dim3 shape) {
    if (shape.z > 1)
        snprintf(text, sizeof text, "(%u,%u,%u)", i.x, i.y, i.z);
    else if (shape.y > 1)
        snprintf(text, sizeof text, "(%u,%u)", i.x, i.y);
    else
        snprintf(text, sizeof text, "%u", i.x);
}

Who::Who(const Job *job, uint3 block, uint3 thread) {
    const Named t(thread, job->block), b(block, job->grid);
    if (job->blocks == 1)
        snprintf(text, sizeof text, "thread %s", t.text);
    else
        snprintf(text, sizeof text, "thread %s of block %s", t.text, b.text);
}

Called::Called(const Array &array) {
    static const char *const kinds[] = {
        "cudaMalloc",    "cudaMallocManaged",    "pinned host memory",
        "of the launch", "malloc() in a kernel", "a variable",
        "shared memory"};
    if (array.name[0])
        snprintf(text, sizeof text, "%s", array.name);
    else
        snprintf(text, sizeof text, "an array of %zu bytes (%s)", array.size,
                 kinds[array.origin]);
}

Subscript::Subscript(long long index, const Sides &sides, const char *between) {
    long long parts[4] = {index};
    int count = 1;
    for (; count < 4 && sides.inner[count - 1]; count++) {
        long long row = 1; // number of elements in a row
        for (int i = count - 1; i < 3 && sides.inner[i]; i++)
            row *= sides.inner[i];
        const long long rest = parts[count - 1];
        parts[count - 1] = rest / row - (rest % row < 0);
        parts[count] = rest - parts[count - 1] * row;
    }
    int at = snprintf(text, sizeof text, "[%lld", parts[0]);
    for (int i = 1; i < count; i++)
        at +=
            snprintf(text + at, sizeof text - at, "%s%lld", between, parts[i]);
    snprintf(text + at, sizeof text - at, "]");
}

/* ---- parameters --------------------------------------------------------- */

void name_parameters(Job *job) {
    const Kernel *kernel = job->kernel;
    for (int i = 0; i < kernel->parameters_count; i++) {
        const Parameter &p = kernel->parameters[i];
        const uintptr_t offset = (uintptr_t)p.value - arena.base;
        if (!p.value || offset >= arena.bytes) continue;
        name_array(offset, p.name, p.length, p.element);
    }
}

void checked_parameters(Kernel *kernel, const char *names,
                        const Parameter *values, int count) {
    static std::mutex &lock = *new std::mutex;
    std::lock_guard<std::mutex> guard(lock);
    if (kernel->parameters_count != count) {
        Parameter *room = new Parameter[count]; // never freed, like the kernel
        kernel->parameters = room;
        kernel->parameters_count = count;
    }
    for (int i = 0; i < count; i++) {
        const int length = (int)strcspn(names, ",");
        kernel->parameters[i] = values[i];
        kernel->parameters[i].name = names;
        kernel->parameters[i].length = length;
        names += length + strspn(names + length, ", ");
    }
}

/* ---- shared arrays ------------------------------------------------------ */

void name_shared(const Job *job, const SharedMember &array, unsigned offset) {
    static std::mutex &lock = *new std::mutex;
    std::lock_guard<std::mutex> guard(lock);
    SharedName *known = job->kernel->shared_names, *old = 0;
    for (SharedName *n = known; n; n = n->next) {
        if (n->launch != job->number)
            old = n;
        else if (n->offset == offset && !strcmp(n->name, array.name))
            return;
    }
    SharedName *mine = old ? old : new SharedName();
    mine->name = array.name;
    mine->offset = offset;
    mine->size = array.size;
    mine->element = array.element;
    mine->sides = array.sides;
    __atomic_store_n(&mine->launch, job->number, __ATOMIC_RELEASE);
    if (old) return;
    mine->next = known;
    __atomic_store_n(&job->kernel->shared_names, mine, __ATOMIC_RELEASE);
}

static void fill_shared(const SharedName &name, Array *array) {
    *array = {};
    array->offset = name.offset;
    array->size = name.size;
    array->element = name.element;
    array->sides = name.sides;
    array->origin = FROM_SHARED;
    snprintf(array->name, sizeof array->name, "%s", name.name);
}

/* Return the distance in bytes of an offset from an array's nearest byte. */
static size_t distance(const SharedName &name, uintptr_t offset) {
    if (offset < name.offset) return name.offset - offset;
    const uintptr_t end = name.offset + name.size;
    return offset < end ? 0 : offset - end + 1;
}

static bool shared_at(const Job *job, uintptr_t offset, Array *found) {
    const SharedName *best = 0;
    for (const SharedName *n = job->kernel->shared_names; n; n = n->next)
        // Of arrays that share dynamic memory, choose the array that was named
        // first.
        if (n->launch == job->number &&
            (!best || distance(*n, offset) <= distance(*best, offset)))
            best = n;
    if (best) fill_shared(*best, found);
    return best;
}

bool array_at(const Job *job, Space space, uintptr_t offset, Array *found) {
    if (space == GLOBAL)
        return find_array(offset, found) || nearest_array(offset, found);
    if (space != SHARED) return false;
    if (shared_at(job, offset, found)) return true;
    if (offset >= job->dynamic_shared + 128) return false;
    *found = {};
    found->size = job->dynamic_shared;
    found->origin = FROM_SHARED;
    snprintf(found->name, sizeof found->name, "shared memory");
    return true;
}

} // namespace simt::SIMT_FIBERS
