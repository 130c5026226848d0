/* nccl.c -- a sum over devices by NCCL: afterwards, each device has the sum of
 * all arrays. On a single device it is a copy.
 *
 * Manual: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/ */
#include "vendor.h"

/* cdef: NCCL's declarations, and ours */
typedef struct ncclComm *ncclComm_t;
const char *ncclGetErrorString(int status);
int ncclCommInitAll(ncclComm_t *comms, int count, const int *devices);
int ncclAllReduce(const void *in, void *out, size_t n, int type, int op,
                  ncclComm_t comm, void *stream);

/* out (n) = the sum over devices of in (n), float32; here only device 0. */
int nccl_sum(void **plan, float *out, const float *in, size_t n);
/* cdef: ... to here. */

enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

int nccl_sum(void **plan, float *out, const float *in, size_t n) {
    const int device = 0;
    if (!*plan) TRY(ncclCommInitAll((ncclComm_t *)plan, 1, &device));
    return ncclAllReduce(in, out, n, NCCL_FLOAT, NCCL_SUM, *plan, NULL);
}
