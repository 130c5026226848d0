/* cuda_library.cpp -- calls of NVIDIA's libraries; see cuda_library.h. */
#include "cuda_library.h"

#include <stdio.h>
#include <string.h>

#include "../watch/memory.h"
#include "cuda_graph_private.h"

namespace simt::SIMT_FIBERS {

static size_t reach(const Argument &a) {
    return (a.pieces - 1) * a.pitch + a.bytes;
}

/* Write the reason why a library may not access `a`. Return false if it may. */
static bool refuses(const Argument &a, char *text, size_t size) {
    if (!a.bytes || !a.pieces) return false;
    Allocation found;
    const bool known = find_allocation(a.at, &found);
    const bool on_host = a.access == Argument::HOST;
    char which[100] = "";
    if (known) describe(found, which, sizeof which);
    if (known && on_host && found.memory == DEVICE) {
        snprintf(text, size, "the host reads %s, which is device memory: %s",
                 a.name, which);
        return true;
    }
    if (on_host && a.at) return false;
    const char *verb = a.access == Argument::WRITE ? "writes" : "reads";
    if (!known) {
        if (a.at && !is_host_memory(a.at)) return false;
        if (a.at) locate((uintptr_t)a.at, which, sizeof which);
        snprintf(text, size, "%s %s at %p%s%s", verb, a.name, a.at, which,
                 !a.at    ? " (a null pointer)"
                 : *which ? ""
                          : ", which is host memory");
        return true;
    }
    const size_t left = found.address + found.size - (uintptr_t)a.at;
    if (reach(a) <= left) return false;
    snprintf(text, size, "%s %s: %zu bytes, %zu bytes past the end of %s", verb,
             a.name, reach(a), reach(a) - left, which);
    return true;
}

static void mark(const std::vector<Argument> &arguments) {
    if (!checking()) return;
    for (const Argument &a : arguments)
        for (size_t i = 0; a.access == Argument::WRITE && i < a.pieces; i++)
            mark_written((const char *)a.at + i * a.pitch, a.bytes);
}

/* A call in a graph. */
struct Call {
    std::vector<Argument> arguments;
    std::function<void()> work;
};

static void repeat(void *call) {
    ((const Call *)call)->work();
    mark(((const Call *)call)->arguments);
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

bool simt::may_access(const char *function, const std::vector<Argument> &all) {
    char reason[150];
    for (const Argument &a : all) {
        if (!refuses(a, reason, sizeof reason)) continue;
        const char *version = strstr(function, "_v2");
        const int length =
            (int)(version ? version - function : (long)strlen(function));
        simt_fault fault = {};
        fault.kind = SIMT_FAULT_LIBRARY;
        fault.error = cudaErrorIllegalAddress;
        fault.address = (uintptr_t)a.at;
        fault.write = a.access == Argument::WRITE;
        memset(fault.block, 0xff, sizeof fault.block);
        memset(fault.thread, 0xff, sizeof fault.thread);
        snprintf(fault.kernel, sizeof fault.kernel, "%.*s", length, function);
        snprintf(fault.text, sizeof fault.text, "%.80s: illegal address: %s",
                 fault.kernel, reason);
        report_fault(&fault);
        return false;
    }
    return true;
}

cudaError_t simt::submit(const char *function, cudaStream_t stream,
                         const std::vector<Argument> &arguments,
                         const std::function<void()> &work) {
    CUstream_st *recording;
    if (cudaError_t error = begin_work(stream, &recording)) return error;
    if (cudaError_t error = sticky_error()) return set_error(error);
    if (!may_access(function, arguments)) return cudaErrorIllegalAddress;
    if (!recording) {
        work();
        mark(arguments);
        return cudaSuccess;
    }
    auto call = std::make_shared<Call>(Call{arguments, work});
    Work node = host_work({repeat, call.get()});
    node.memory = call; // frees the call with the last copy of the work
    return add_work(recording, node);
}
