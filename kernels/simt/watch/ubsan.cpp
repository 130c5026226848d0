/* ubsan.cpp -- the functions that code compiled with -fsanitize=bounds calls
 * for an index outside an array of known size. Such arrays are local arrays,
 * __shared__ arrays, and inner dimensions. */
#include <stdio.h>

#include "report.h"
#include "ubsan.h"

namespace simt::SIMT_FIBERS {

struct OutOfBounds {
    Spot spot;
    const Type *array, *index;
};

/* Return N from "'float [N]'" or "'float [N][M]'", or 0 if there is none. */
static unsigned long long count_of(const Type &type) {
    const char *bracket = strchr(type.name, '[');
    return bracket ? strtoull(bracket + 1, 0, 10) : 0;
}

static void out_of_bounds(const OutOfBounds *data, uintptr_t handle,
                          const void *pc) {
    Checker *checker = running_checker();
    if (!checker) return; // host code is not checked
    Fiber *self = here();
    Worker *worker = checker->worker;
    const long long index = value_of(*data->index, handle);
    const unsigned long long count = count_of(*data->array);
    char text[300];
    snprintf(text, sizeof text,
             "%s uses the index %lld of an array that has %llu element%s",
             Who(checker->job, worker->index, self->thread.index).text, index,
             count, count == 1 ? "" : "s");
    Found found = found_at(checker, self, data->spot, "bounds", pc);
    found.indexed = true;
    found.index = index;
    found.text = text;
    add_finding(checker->job, found);
    checker->job->fault_found = true;
    note_fault(worker, self, SIMT_FAULT_ADDRESS, cudaErrorIllegalAddress, "%s",
               text);
    abandon(worker);
}

} // namespace simt::SIMT_FIBERS

#pragma GCC visibility push(default)
extern "C" {
void __ubsan_handle_out_of_bounds(void *data, void *index) {
    simt::out_of_bounds((const simt::OutOfBounds *)data, (uintptr_t)index,
                        __builtin_return_address(0));
}
void __ubsan_handle_out_of_bounds_abort(void *data, void *index) {
    __ubsan_handle_out_of_bounds(data, index);
}
}
#pragma GCC visibility pop
