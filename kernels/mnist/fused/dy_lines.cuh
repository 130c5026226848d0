/* dy_lines.cuh -- dy.cuh's gradient of conv2's output, built in shared memory
 * in the layout that the kernels on tensor cores read. The layout is NHWC in
 * swizzled lines, rounded to T.
 *
 * First, copies are started: c2 goes to the place of dy, and dp2 and the
 * winners go to a separate stage. When these and the channels' numbers have
 * arrived, each thread processes one chunk of channels of a window. It computes
 * four chunks of dy from one chunk of dp2 and four of c2. */
#ifndef WEFT_DY_LINES_CUH
#define WEFT_DY_LINES_CUH
#include "dy.cuh"
#include "lines.cuh"

/* The inputs of an image's dy, except for the channels' numbers. */
struct dy_arrays {
    const void *c2, *dp2; /* T (batch,196,64), (batch,49,64) */
    const uint8_t *code2; /* (batch,49,64) */
    struct dy_sources sources;
};

static inline struct dy_arrays dy_arrays_of(const struct fused *f, int batch) {
    const struct dy_arrays a = {f->c2, f->dp2, f->code2, dy_from(f, batch)};
    return a;
}

/* The dp2 and code2 of an image, in flight. */
template <class T> struct dy_stage {
    enum {
        DP2 = FEATURES * (int)sizeof(T), /* size in bytes; the codes follow */
        BYTES = DP2 + FEATURES,
    };
};

/* Start copying the inputs of the dy of image `index`. c2 goes to `image`,
 * where dy later replaces it, and the other inputs go to `stage`. */
template <class T, int THREADS>
static __device__ __forceinline__ void
fetch_c2(char *image, const struct dy_arrays &from, int index) {
    copy_image<T, C2, THREADS>(image, (const T *)from.c2 +
                                          (size_t)index * PIXELS2 * C2);
}
template <class T, int THREADS>
static __device__ __forceinline__ void
fetch_dp2(char *stage, const struct dy_arrays &from, int index) {
    enum { CHUNKS = C2 * (int)sizeof(T) / CHUNK, CODES = C2 / CHUNK };
    const size_t at = (size_t)index * PIXELS3 * C2;
    const char *dp2 = (const char *)((const T *)from.dp2 + at);
    for (int i = threadIdx.x; i < PIXELS3 * CHUNKS; i += THREADS)
        copy16_async(stage + i * CHUNK,
                     dp2 + i / CHUNKS * C2 * sizeof(T) + i % CHUNKS * CHUNK);
    stage += dy_stage<T>::DP2;
    for (int i = threadIdx.x; i < PIXELS3 * CODES; i += THREADS)
        copy16_async(stage + i * CHUNK,
                     from.code2 + at + i / CODES * C2 + i % CODES * CHUNK);
}

/* Convert c2 in `image` to dy. The copies of all threads must be complete. */
template <enum precision P, int THREADS>
static __device__ __forceinline__ void
make_dy(char *image, const char *stage, const struct dy_numbers *numbers) {
    typedef typename element<P>::T T;
    typedef lines<T, C2> at;
    enum { N = CHUNK / (int)sizeof(T), STRIDE = THREADS / at::CHUNKS };
    static_assert(THREADS % at::CHUNKS == 0, "a thread keeps its chunk");
    const int chunk = threadIdx.x % at::CHUNKS, channel = chunk * N;
    float scale[N], constant[N], slope[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        scale[i] = numbers->scale[channel + i];
        constant[i] = numbers->constant[channel + i];
        slope[i] = numbers->slope[channel + i];
    }
    const T *dp2 = (const T *)stage + channel;
    const uint32_t *code2 =
        (const uint32_t *)(stage + dy_stage<T>::DP2 + channel);
    for (int window = threadIdx.x / at::CHUNKS; window < PIXELS3;
         window += STRIDE) {
        const int y = window / SIDE3 * 2 + 1, x = window % SIDE3 * 2 + 1;
        float g[N];
        uint32_t codes[N / 4];
        load_chunk(g, dp2 + window * C2);
#pragma unroll
        for (int i = 0; i < N / 4; i++) codes[i] = code2[window * C2 / 4 + i];
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++) {
            T *place =
                (T *)(image + at::at(y + pixel / 2, x + pixel % 2, chunk));
            float c2[N];
            T dy[N];
            load_chunk(c2, place);
#pragma unroll
            for (int i = 0; i < N; i++) {
                const int code = codes[i / 4] >> 8 * (i % 4) & 255;
                dy[i] = narrow<P>(dy_value(scale[i], constant[i], slope[i],
                                           g[i], code == pixel, c2[i]));
            }
            store_chunk(place, dy);
        }
    }
}

#endif
