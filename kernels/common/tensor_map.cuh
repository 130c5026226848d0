/* tensor_map.cuh -- maps that describe the layout of an array to the tensor
 * memory accelerator (TMA, sm_90). The host makes a map. A kernel receives it
 * by value as `const __grid_constant__ tensor_map map` and passes it to
 * tma_load() of hopper.cuh.
 *
 * All maps of the lab have three dimensions: columns, rows, and matrices of a
 * batch. Elements of a box beyond the edges of its matrix are loaded as 0 and
 * dropped when stored, so kernels need no code for edges.
 *
 * Source:  CUDA Driver API, "Tensor Map Object Management". */
#ifndef WEFT_TENSOR_MAP_CUH
#define WEFT_TENSOR_MAP_CUH
#include "ptx.cuh"

#ifdef __CUDACC_RTC__ // in a notebook's cell, the launching code makes the map
struct __align__(64) tensor_map {
    char bytes[128];
};
#else
enum tensor_type {
    TENSOR_FLOAT,
    TENSOR_TF32, /* float in memory; a load rounds to tf32 */
    TENSOR_BF16,
    TENSOR_F16,
};

/* An array in the form in which a kernel accesses it. Sizes are in elements,
 * not bytes. */
struct tensor {
    enum tensor_type type;
    const void *data;   /* 16-byte aligned; pitch and step are multiples of 16
                         * bytes */
    size_t cols, rows;  /* size of a matrix; elements beyond it count as
                         * zeros */
    size_t pitch;       /* elements from one row to the next */
    size_t batch, step; /* matrices, and elements from one to the next; with
                           step 0, z is always 0 */
};

/* The box that one load moves. If `swizzled`, a row has at most 128 bytes, and
 * shared memory stores its 16-byte chunks in another order: see swizzled() in
 * hopper.cuh. A swizzled box starts at a multiple of 1024 bytes, others at a
 * multiple of 128. */
struct tensor_box {
    int cols, rows; /* at most 256 each; cols a multiple of 16 bytes */
    int swizzled;
};

static inline size_t tensor_element(enum tensor_type type) {
    return type == TENSOR_BF16 || type == TENSOR_F16 ? 2 : 4;
}

#if PTX_TWIN
struct tensor_map {
    struct tensor array;
    struct tensor_box box;
};
#else
#include <cudaTypedefs.h>
typedef CUtensorMap tensor_map;
#endif

/* Reject layouts that TMA cannot handle; the driver would reject them without
 * giving a reason. */
static inline int tensor_map_check(const struct tensor *t,
                                   const struct tensor_box *box) {
    const size_t element = tensor_element(t->type);
    const size_t row = box->cols * element;
    const size_t step = t->batch > 1 ? t->step : 0; // a single matrix has no
                                                    // step
    WEFT_REQUIRE((size_t)t->data % 16 == 0 && t->pitch * element % 16 == 0 &&
                     step * element % 16 == 0,
                 "tensor map: address %p, pitch of %zu bytes, step of %zu "
                 "bytes, want multiples of 16",
                 t->data, t->pitch * element, step * element);
    WEFT_REQUIRE(
        box->cols >= 1 && box->cols <= 256 && box->rows >= 1 &&
            box->rows <= 256 && row % 16 == 0 && (row <= 128 || !box->swizzled),
        "tensor map: a box of %d rows of %d elements of %zu bytes%s", box->rows,
        box->cols, element, box->swizzled ? ", swizzled" : "");
    return WEFT_OK;
}

#if PTX_TWIN
static inline int tensor_map_make(tensor_map *map, const struct tensor *t,
                                  struct tensor_box box) {
    WEFT_TRY(tensor_map_check(t, &box));
    map->array = *t;
    map->box = box;
    return WEFT_OK;
}
#else
/* Find cuTensorMapEncodeTiled() without linking the driver's library. */
static inline int
tensor_map_encoder(PFN_cuTensorMapEncodeTiled_v12000 *encode) {
    static void *found; // a race is harmless: all threads store the same value
    if (!found) {
        cudaDriverEntryPointQueryResult result;
        void *entry = NULL;
#if CUDART_VERSION >= 12050
        WEFT_CUDA_TRY(cudaGetDriverEntryPointByVersion(
            "cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
            &result));
#else
        WEFT_CUDA_TRY(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry,
                                              cudaEnableDefault, &result));
#endif
        if (!entry)
            return weft_fail(WEFT_ECUDA, "no cuTensorMapEncodeTiled() in the "
                                         "driver: it wants CUDA 12 or later");
        found = entry;
    }
    *encode = (PFN_cuTensorMapEncodeTiled_v12000)found;
    return WEFT_OK;
}

static inline CUtensorMapDataType tensor_map_type(enum tensor_type type) {
    switch (type) {
    case TENSOR_TF32: return CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    case TENSOR_BF16: return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case TENSOR_F16: return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    default: return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    }
}

/* Make a map of `t` for transfers in boxes of shape `box`. Returns a
 * weft_status. */
static inline int tensor_map_make(tensor_map *map, const struct tensor *t,
                                  struct tensor_box box) {
    WEFT_TRY(tensor_map_check(t, &box));
    PFN_cuTensorMapEncodeTiled_v12000 encode = NULL;
    WEFT_TRY(tensor_map_encoder(&encode));
    const size_t element = tensor_element(t->type);
    const bool one = t->batch <= 1 || t->step == 0;
    const cuuint64_t sizes[3] = {t->cols, t->rows, one ? 1 : t->batch};
    const cuuint64_t strides[2] = {t->pitch * element,
                                   (one ? t->pitch : t->step) * element};
    const cuuint32_t boxes[3] = {(cuuint32_t)box.cols, (cuuint32_t)box.rows, 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = encode(
        map, tensor_map_type(t->type), 3, (void *)t->data, sizes, strides,
        boxes, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
        box.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return weft_fail(WEFT_ECUDA,
                         "cuTensorMapEncodeTiled: error %d for %zu matrices of "
                         "%zu x %zu at %p, pitch %zu, step %zu, boxes %d x %d",
                         (int)result, t->batch, t->rows, t->cols, t->data,
                         t->pitch, t->step, box.rows, box.cols);
    return WEFT_OK;
}
#endif
#endif // __CUDACC_RTC__

#endif
