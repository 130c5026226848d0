/* cublasLt.cpp -- cuBLASLt's handles and descriptions; see cublasLt.h. */
#include <string.h>

#include "cublasLt_types.h"

using namespace weft_blas;

/* ---- descriptions: structs in the program's opaque memory -----------------
 */

namespace {

struct Preference {
    unsigned search, reduction, alignment[4];
    uint64_t workspace, mask;
    float waves;
};

/* The place of an attribute in a struct. */
struct Place {
    int attribute;
    size_t offset, size;
};

#define PLACE(id, T, member) \
    {CUBLASLT_##id, offsetof(T, member), sizeof(((T *)0)->member)}
const std::vector<Place> places_of(const Layout &) {
    return {PLACE(MATRIX_LAYOUT_TYPE, Layout, type),
            PLACE(MATRIX_LAYOUT_ORDER, Layout, order),
            PLACE(MATRIX_LAYOUT_ROWS, Layout, rows),
            PLACE(MATRIX_LAYOUT_COLS, Layout, columns),
            PLACE(MATRIX_LAYOUT_LD, Layout, ld),
            PLACE(MATRIX_LAYOUT_BATCH_COUNT, Layout, count),
            PLACE(MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, stride),
            PLACE(MATRIX_LAYOUT_PLANE_OFFSET, Layout, plane),
            PLACE(MATRIX_LAYOUT_BATCH_MODE, Layout, mode)};
}
const std::vector<Place> places_of(const Operation &) {
    return {
        PLACE(MATMUL_DESC_COMPUTE_TYPE, Operation, compute),
        PLACE(MATMUL_DESC_SCALE_TYPE, Operation, scale),
        PLACE(MATMUL_DESC_POINTER_MODE, Operation, pointers),
        PLACE(MATMUL_DESC_TRANSA, Operation, transa),
        PLACE(MATMUL_DESC_TRANSB, Operation, transb),
        PLACE(MATMUL_DESC_TRANSC, Operation, transc),
        PLACE(MATMUL_DESC_FILL_MODE, Operation, fill),
        PLACE(MATMUL_DESC_EPILOGUE, Operation, epilogue),
        PLACE(MATMUL_DESC_BIAS_POINTER, Operation, bias),
        PLACE(MATMUL_DESC_BIAS_BATCH_STRIDE, Operation, bias_stride),
        PLACE(MATMUL_DESC_EPILOGUE_AUX_POINTER, Operation, aux),
        PLACE(MATMUL_DESC_EPILOGUE_AUX_LD, Operation, aux_ld),
        PLACE(MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, Operation, aux_stride),
        PLACE(MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, Operation, alpha_stride),
        PLACE(MATMUL_DESC_SM_COUNT_TARGET, Operation, multiprocessors),
        PLACE(MATMUL_DESC_A_SCALE_POINTER, Operation, unsupported[0]),
        PLACE(MATMUL_DESC_B_SCALE_POINTER, Operation, unsupported[1]),
        PLACE(MATMUL_DESC_C_SCALE_POINTER, Operation, unsupported[2]),
        PLACE(MATMUL_DESC_D_SCALE_POINTER, Operation, unsupported[3]),
        PLACE(MATMUL_DESC_AMAX_D_POINTER, Operation, unsupported[4]),
        PLACE(MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, Operation, aux_type),
        PLACE(MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, Operation,
              unsupported[5]),
        PLACE(MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, Operation, unsupported[6]),
        PLACE(MATMUL_DESC_FAST_ACCUM, Operation, fast),
        PLACE(MATMUL_DESC_BIAS_DATA_TYPE, Operation, bias_type)};
}
const std::vector<Place> places_of(const Preference &) {
    return {PLACE(MATMUL_PREF_SEARCH_MODE, Preference, search),
            PLACE(MATMUL_PREF_MAX_WORKSPACE_BYTES, Preference, workspace),
            PLACE(MATMUL_PREF_REDUCTION_SCHEME_MASK, Preference, reduction),
            PLACE(MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Preference, alignment[0]),
            PLACE(MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Preference, alignment[1]),
            PLACE(MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Preference, alignment[2]),
            PLACE(MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Preference, alignment[3]),
            PLACE(MATMUL_PREF_MAX_WAVES_COUNT, Preference, waves),
            PLACE(MATMUL_PREF_IMPL_MASK, Preference, mask)};
}
const std::vector<Place> places_of(const Transform &) {
    return {PLACE(MATRIX_TRANSFORM_DESC_SCALE_TYPE, Transform, scale),
            PLACE(MATRIX_TRANSFORM_DESC_POINTER_MODE, Transform, pointers),
            PLACE(MATRIX_TRANSFORM_DESC_TRANSA, Transform, transa),
            PLACE(MATRIX_TRANSFORM_DESC_TRANSB, Transform, transb)};
}
#undef PLACE

/* Return the attribute's place if `size` bytes at `buffer` fit it, or NULL. */
const Place *find_place(const std::vector<Place> &places, int attribute,
                        const void *buffer, size_t size) {
    for (const Place &place : places)
        if (place.attribute == attribute)
            return buffer && size == place.size ? &place : 0;
    return 0;
}

/* Begin a description in `opaque`, which is the program's memory. */
template <class T, class Opaque>
cublasStatus_t begin(Opaque *opaque, const T &value) {
    static_assert(sizeof(T) <= sizeof(Opaque), "the description is too large");
    if (!opaque) return CUBLAS_STATUS_INVALID_VALUE;
    memset(opaque, 0, sizeof *opaque);
    memcpy(opaque, &value, sizeof value);
    return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Opaque>
cublasStatus_t create(Opaque **opaque, const T &value) {
    if (!opaque) return CUBLAS_STATUS_INVALID_VALUE;
    return begin(*opaque = new Opaque, value);
}

Layout make_layout(int type, uint64_t rows, uint64_t columns, int64_t ld) {
    Layout layout = {};
    layout.type = type;
    layout.rows = rows, layout.columns = columns, layout.ld = ld;
    layout.count = 1;
    return layout;
}

Operation make_operation(int compute, int scale) {
    Operation operation = {};
    operation.compute = compute, operation.scale = scale;
    operation.fill = CUBLAS_FILL_MODE_FULL;
    operation.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    operation.aux_type = operation.bias_type = -1;
    return operation;
}

Preference make_preference() {
    Preference preference = {};
    preference.reduction = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (unsigned &bytes : preference.alignment) bytes = 256;
    preference.mask = UINT64_MAX;
    return preference;
}

} // namespace

#define ATTRIBUTES(name, Description, Attribute, T)                       \
    cublasStatus_t cublasLt##name##Destroy(Description description) {     \
        delete description;                                               \
        return CUBLAS_STATUS_SUCCESS;                                     \
    }                                                                     \
    cublasStatus_t cublasLt##name##SetAttribute(                          \
        Description description, Attribute attribute, const void *buffer, \
        size_t size) {                                                    \
        const std::vector<Place> places = places_of(T());                 \
        const Place *place = find_place(places, attribute, buffer, size); \
        if (!description || !place) return CUBLAS_STATUS_INVALID_VALUE;   \
        memcpy((char *)description + place->offset, buffer, size);        \
        return CUBLAS_STATUS_SUCCESS;                                     \
    }                                                                     \
    cublasStatus_t cublasLt##name##GetAttribute(                          \
        Description description, Attribute attribute, void *buffer,       \
        size_t size, size_t *written) {                                   \
        for (const Place &place : places_of(T())) {                       \
            if (place.attribute != (int)attribute) continue;              \
            if (!description ||                                           \
                (size ? !buffer || size != place.size : !written))        \
                return CUBLAS_STATUS_INVALID_VALUE;                       \
            if (size)                                                     \
                memcpy(buffer, (char *)description + place.offset, size); \
            if (written) *written = place.size;                           \
            return CUBLAS_STATUS_SUCCESS;                                 \
        }                                                                 \
        return CUBLAS_STATUS_INVALID_VALUE;                               \
    }
ATTRIBUTES(MatrixLayout, cublasLtMatrixLayout_t,
           cublasLtMatrixLayoutAttribute_t, Layout)
ATTRIBUTES(MatmulDesc, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t,
           Operation)
ATTRIBUTES(MatmulPreference, cublasLtMatmulPreference_t,
           cublasLtMatmulPreferenceAttributes_t, Preference)
ATTRIBUTES(MatrixTransformDesc, cublasLtMatrixTransformDesc_t,
           cublasLtMatrixTransformDescAttributes_t, Transform)

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayout_t layout,
                                        cudaDataType type, uint64_t rows,
                                        uint64_t columns, int64_t ld) {
    return begin(layout, make_layout(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
    return create(layout, make_layout(type, rows, columns, ld));
}
cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDesc_t operation,
                                      cublasComputeType_t compute,
                                      cudaDataType scale) {
    return begin(operation, make_operation(compute, scale));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation,
                                        cublasComputeType_t compute,
                                        cudaDataType scale) {
    return create(operation, make_operation(compute, scale));
}
cublasStatus_t
cublasLtMatmulPreferenceInit(cublasLtMatmulPreference_t preference) {
    return begin(preference, make_preference());
}
cublasStatus_t
cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    return create(preference, make_preference());
}
cublasStatus_t
cublasLtMatrixTransformDescInit(cublasLtMatrixTransformDesc_t operation,
                                cudaDataType scale) {
    return begin(operation, Transform{scale, 0, 0, 0});
}
cublasStatus_t
cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *operation,
                                  cudaDataType scale) {
    return create(operation, Transform{scale, 0, 0, 0});
}

/* ---- handles ------------------------------------------------------------ */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = (cublasLtHandle_t)handles.create();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    return handles.destroy(handle) ? CUBLAS_STATUS_SUCCESS
                                   : CUBLAS_STATUS_NOT_INITIALIZED;
}

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }
size_t cublasLtGetCudartVersion(void) { return CUDART_VERSION; }

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value) {
    return get_property(type, value);
}
const char *cublasLtGetStatusName(cublasStatus_t status) {
    return status_name(status);
}
const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status_text(status);
}
