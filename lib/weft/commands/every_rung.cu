/* every_rung.cu -- run each matmul rung once per case, for a sanitizer.
 *
 *     every_rung LIBRARY [RUNG...]
 *
 * The inputs are small integers, so c is exact in every precision. A C program
 * starts instantly, whereas Python would take half a minute under the
 * sanitizer. Build with nvcc for the GPU's library, with g++ for the CPU's. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weft.h"

#ifdef __NVCC__
#include <cuda_runtime.h>
enum { TARGET = WEFT_CUDA };
static void *device_copy(const void *from, size_t bytes) {
    void *to = NULL;
    if (cudaMalloc(&to, bytes) != cudaSuccess) exit(2);
    if (from) cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
    return to;
}
static void fetch_and_free(void *to, void *from, size_t bytes) {
    if (to) cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
    cudaFree(from);
}
static int device_sm(void) {
    int device = 0, major = 0, minor = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    return 10 * major + minor;
}
#else
enum { TARGET = WEFT_CPU };
static void *device_copy(const void *from, size_t bytes) {
    void *to = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return from ? memcpy(to, from, bytes) : to;
}
static void fetch_and_free(void *to, void *from, size_t bytes) {
    if (to) memcpy(to, from, bytes);
    free(from);
}
static int device_sm(void) { return 1000; }
#endif

struct matmul_case {
    int m, n, k, trans_a, trans_b, batch;
    float beta;
    int bias, relu;
};

/* Sizes: less than a tile, several tiles with remainders, transposed rows of 16
 * bytes, a k so long that rungs split it, few columns. */
static const struct matmul_case cases[] = {
    {7, 5, 3, 0, 0, 1, 0.0f, 0, 0},    {133, 261, 37, 0, 0, 1, 2.0f, 1, 1},
    {64, 72, 40, 1, 1, 2, 0.0f, 1, 0}, {40, 24, 2100, 0, 1, 1, 0.0f, 0, 0},
    {300, 9, 70, 0, 0, 1, 0.0f, 0, 1},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* Functions of the library. */
static const struct weft_rung *(*rungs)(int *);
static const char *(*last_error)(void);
static int (*sync)(weft_stream);
static int (*matmul)(int, float *, const void *, const void *, int, int, int,
                     const struct weft_matmul_options *, weft_stream);
static int (*workspace)(int, size_t *, const void *, const void *, int, int,
                        int, const struct weft_matmul_options *);

/* Store `value` (-2 to 2) as number i, in `precision`; return its size in
 * bytes. */
static int put(void *at, size_t i, int value, const char *precision) {
    static const uint16_t fp16[] = {0xC000, 0xBC00, 0, 0x3C00, 0x4000};
    static const uint16_t bf16[] = {0xC000, 0xBF80, 0, 0x3F80, 0x4000};
    const int is_fp16 = !strcmp(precision, "fp16");
    if (is_fp16 || !strcmp(precision, "bf16")) {
        ((uint16_t *)at)[i] = (is_fp16 ? fp16 : bf16)[value + 2];
        return 2;
    }
    ((float *)at)[i] = (float)value;
    return 4;
}

/* Return the operand's number at (z,row,col), independent of its layout. */
static int number(int z, int row, int col, int seed) {
    const unsigned mixed = (unsigned)(z * 31 + row * 7 + col * 3 + seed);
    return (int)(mixed * 2654435761u >> 16) % 5 - 2;
}

/* Return `batch` matrices of (rows,cols) on the device, transposed or not. */
static void *operand(int batch, int rows, int cols, int transposed, int seed,
                     const char *precision) {
    const size_t count = (size_t)batch * rows * cols;
    void *const host = calloc(count, 4);
    size_t element = 4;
    for (int z = 0; z < batch; z++)
        for (int row = 0; row < rows; row++)
            for (int col = 0; col < cols; col++) {
                const int at = transposed ? col * rows + row : row * cols + col;
                element =
                    (size_t)put(host, (size_t)z * rows * cols + (size_t)at,
                                number(z, row, col, seed), precision);
            }
    void *const there = device_copy(host, count * element);
    free(host);
    return there;
}

static float expected(const struct matmul_case *q, int z, int row, int col) {
    int sum = 0;
    for (int i = 0; i < q->k; i++)
        sum += number(z, row, i, 1) * number(z, i, col, 2);
    float c = (float)sum;
    if (q->beta != 0.0f) c += q->beta * (float)number(z, row, col, 3);
    if (q->bias) c += (float)number(0, 0, col, 4);
    return q->relu && c < 0.0f ? 0.0f : c;
}

/* Return the number of wrong elements in c (batch,m,n). */
static int count_wrong(const struct matmul_case *q, const float *c) {
    int wrong = 0;
    for (int z = 0; z < q->batch; z++)
        for (int row = 0; row < q->m; row++)
            for (int col = 0; col < q->n; col++)
                wrong += *c++ != expected(q, z, row, col);
    return wrong;
}

/* Return c for a rung that must not read it: uninitialised, so that a sanitizer
 * detects reads. The wgmma rungs, and rungs that may choose one of them, store
 * through the tensor memory accelerator. initcheck (13.0) does not count this
 * store as a write, so the c of these rungs is filled with NaN. */
static void *blank(const char *name, size_t size) {
    if (strncmp(name, "wgmma", 5) && strncmp(name, "tuned_", 6))
        return device_copy(NULL, size);
    void *const nan = malloc(size);
    memset(nan, 0xFF, size);
    void *const there = device_copy(nan, size);
    free(nan);
    return there;
}

static int run(int rung, const char *name, const char *precision,
               const struct matmul_case *q) {
    const size_t size = sizeof(float) * q->batch * q->m * q->n;
    void *const a = operand(q->batch, q->m, q->k, q->trans_a, 1, precision);
    void *const b = operand(q->batch, q->k, q->n, q->trans_b, 2, precision);
    void *const bias = operand(1, 1, q->n, 0, 4, "fp32");
    float *const c =
        (float *)(q->beta != 0.0f ? operand(q->batch, q->m, q->n, 0, 3, "fp32")
                                  : blank(name, size));
    struct weft_matmul_options options = {};
    options.trans_a = q->trans_a;
    options.trans_b = q->trans_b;
    options.alpha = 1.0f;
    options.beta = q->beta;
    options.bias = q->bias ? (const float *)bias : NULL;
    options.relu = q->relu;
    options.batch = q->batch;
    options.stride_a = (ptrdiff_t)q->m * q->k;
    options.stride_b = (ptrdiff_t)q->k * q->n;
    options.stride_c = (ptrdiff_t)q->m * q->n;
    size_t bytes = 0;
    int status = workspace(rung, &bytes, a, b, q->m, q->n, q->k, &options);
    options.workspace = bytes ? device_copy(NULL, bytes) : NULL;
    options.workspace_bytes = bytes;
    if (status == WEFT_OK)
        status = matmul(rung, c, a, b, q->m, q->n, q->k, &options, NULL);
    if (status == WEFT_OK) status = sync(NULL);
    float *const host = (float *)malloc(size);
    fetch_and_free(host, c, size);
    const int wrong = status == WEFT_OK ? count_wrong(q, host) : 0;
    if (status != WEFT_OK) printf("%s\n", last_error());
    if (wrong)
        printf("%d of m = %d, n = %d, k = %d are wrong\n", wrong, q->m, q->n,
               q->k);
    free(host);
    fetch_and_free(NULL, a, 0);
    fetch_and_free(NULL, b, 0);
    fetch_and_free(NULL, bias, 0);
    if (bytes) fetch_and_free(NULL, options.workspace, 0);
    return status != WEFT_OK || wrong;
}

/* Return whether `rung` is among the names; true if there are no names. */
static int named(const char *rung, int count, char **names) {
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], rung)) return 1;
    return count == 0;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0); // progress appears line by line
    void *const library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) {
        printf("every_rung LIBRARY [RUNG...]: %s\n", argc > 1 ? dlerror() : "");
        return 2;
    }
    *(void **)&rungs = dlsym(library, "weft_rungs");
    *(void **)&last_error = dlsym(library, "weft_last_error");
    *(void **)&sync = dlsym(library, "weft_sync");
    *(void **)&matmul = dlsym(library, "weft_matmul");
    *(void **)&workspace = dlsym(library, "weft_matmul_workspace");
    int count = 0, failed = 0;
    const struct weft_rung *const table = rungs(&count);
    for (int i = 0, index = 0; i < count; i++) {
        const struct weft_rung *const rung = table + i;
        if (strcmp(rung->op, "matmul")) continue;
        const int number_of_rung =
            index++; // the index also counts rungs of other targets
        if (!(rung->targets & TARGET) || rung->sm > device_sm() ||
            !named(rung->rung, argc - 2, argv + 2))
            continue;
        int bad = 0;
        for (int j = 0; j < CASES; j++)
            bad |= run(number_of_rung, rung->rung, rung->precision, cases + j);
        printf("%s: %s\n", bad ? "WRONG" : "done", rung->rung);
        failed |= bad;
    }
    return failed;
}
