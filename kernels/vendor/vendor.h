/* vendor.h -- the declarations that the files of this folder share.
 *
 * Each file calls one library of NVIDIA's. It declares the few functions that
 * it needs, so that neither a toolkit nor its headers are necessary. cffi
 * parses the same declarations. lib/weft/toolchain/vendor.py compiles the file,
 * links it with the library, and opens both. Without a GPU, the library is
 * Weft's own version of it, which has the same symbols and runs on the host.
 *
 * Every function returns the library's status; 0 means success. A function that
 * takes `void **plan` creates its handle in the first call, where *plan is
 * NULL. Later calls reuse it. If the first call fails, *plan is unusable. */
#ifndef WEFT_VENDOR_H
#define WEFT_VENDOR_H
#include <stddef.h>
#include <stdint.h>

/* Return from the calling function if a call fails. */
#define TRY(call)                  \
    do {                           \
        const int status = (call); \
        if (status) return status; \
    } while (0)

/* cdef: lib/weft/toolchain/vendor.py parses from here ... */

/* c (m,n) = a (m,k) @ b (k,n), all row-major float32. bias: (n), for a product
 * with an epilogue. workspace: device memory of `bytes` bytes. choice: which of
 * the library's proposed algorithms to use, counted from 0. */
struct product {
    float *c;
    const float *a, *b, *bias;
    int m, n, k, choice;
    void *workspace;
    size_t bytes;
};
/* cdef: ... to here. */
#endif
