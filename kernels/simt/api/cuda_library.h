/* cuda_library.h -- the runtime's interface for the CPU versions of NVIDIA's
 * libraries, in kernels/simt/libraries. Programs do not include it.
 *
 * On a GPU, such a library queues kernels on a stream, and these access only
 * device memory. submit() gives a library on the CPU the same rules. */
#ifndef SIMT_CUDA_LIBRARY_H
#define SIMT_CUDA_LIBRARY_H
#include <functional>
#include <mutex>
#include <set>
#include <vector>

#include "cuda_stream.h"

namespace simt {

/* An argument of a library's function: `pieces` pieces of `bytes` bytes, whose
 * starts are `pitch` bytes apart. A matrix by columns has its columns as
 * pieces, and one column's leading dimension, in bytes, as pitch. */
struct Argument {
    /* READ, WRITE: by the device; HOST: by the host, such as alpha */
    enum Access { READ, WRITE, HOST };
    const char *name; /* the name in the function's documentation */
    Access access;
    const void *at;
    size_t bytes, pieces = 1, pitch = 0;
};

#pragma GCC visibility push(default)

/* Return whether the library's function may access all of `arguments`. If not,
 * report it like a kernel's access out of bounds: one line on stderr in a whole
 * program, and cudaErrorIllegalAddress for later calls. An argument without
 * bytes is valid.
 *
 * Memory from cudaMalloc() and similar functions is always checked. A whole
 * program may not pass host memory that is neither pinned nor managed; a
 * process such as Python may, since its arrays count as device memory. */
bool may_access(const char *function, const std::vector<Argument> &arguments);

/* Do `work` in the order of `stream`: now or, if the stream captures, in each
 * launch of the graph. The arguments are checked with may_access(), and those
 * with the access WRITE then count as written. Return cudaSuccess, an earlier
 * kernel's error, cudaErrorIllegalAddress, or the error of an invalid stream
 * or capture. */
cudaError_t submit(const char *function, cudaStream_t stream,
                   const std::vector<Argument> &arguments,
                   const std::function<void()> &work);

#pragma GCC visibility pop

/* The valid handles to objects of one type. All functions may be called from
 * any thread. */
template <class T> class Handles {
    std::mutex lock;
    std::set<const void *> valid;

  public:
    T *create() {
        T *made = new T();
        std::lock_guard<std::mutex> guard(lock);
        valid.insert(made);
        return made;
    }
    /* Return the object, or NULL if the handle is invalid. */
    T *find(const void *handle) {
        std::lock_guard<std::mutex> guard(lock);
        return valid.count(handle) ? (T *)handle : 0;
    }
    /* Return false if the handle is invalid. */
    bool destroy(const void *handle) {
        T *object = find(handle);
        std::lock_guard<std::mutex> guard(lock);
        if (!object || !valid.erase(handle)) return false;
        delete object;
        return true;
    }
};

} // namespace simt
#endif
