/* dy_lines.cuh -- dy.cuh's gradient of conv2's output, built in shared memory
 * as the kernels on tensor cores read it: NHWC in swizzled lines, rounded to T.
 *
 * A thread takes one chunk of channels of one window: one chunk of dp2 and of
 * code2 and four of c2 give four of dy. */
#ifndef WEFT_DY_LINES_CUH
#define WEFT_DY_LINES_CUH
#include "dy.cuh"
#include "lines.cuh"

/* What an image's dy is made of, besides the channels' numbers. */
struct dy_arrays {
    const void *c2, *dp2; /* T (batch,196,64), (batch,49,64) */
    const uint8_t *code2; /* (batch,49,64) */
    struct dy_sources sources;
};

static inline struct dy_arrays dy_arrays_of(const struct fused *f, int batch) {
    const struct dy_arrays a = {f->c2, f->dp2, f->code2, dy_from(f, batch)};
    return a;
}

/* dy of image `index`, of channels first .. first + CHANNELS, to `image`, whose
 * border is zero already. */
template <enum precision P, int CHANNELS, int THREADS>
static __device__ __forceinline__ void
fill_dy(char *image, const struct dy_arrays &from,
        const struct dy_numbers *numbers, int index, int first) {
    typedef typename element<P>::T T;
    typedef lines<T, CHANNELS> at;
    enum { N = CHUNK / (int)sizeof(T), STRIDE = THREADS / at::CHUNKS };
    static_assert(THREADS % at::CHUNKS == 0, "a thread's channels stay");
    const int chunk = threadIdx.x % at::CHUNKS, channel = first + chunk * N;
    float scale[N], constant[N], slope[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        scale[i] = numbers->scale[channel + i];
        constant[i] = numbers->constant[channel + i];
        slope[i] = numbers->slope[channel + i];
    }
    const T *c2 = (const T *)from.c2 + (size_t)index * PIXELS2 * C2 + channel;
    const T *dp2 = (const T *)from.dp2 + (size_t)index * PIXELS3 * C2 + channel;
    const uint8_t *code2 = from.code2 + (size_t)index * PIXELS3 * C2 + channel;
#pragma unroll 2 // loads of two windows in flight
    for (int window = threadIdx.x / at::CHUNKS; window < PIXELS3;
         window += STRIDE) {
        const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
        float g[N], c[4][N];
        uint32_t codes[2];
        load_chunk(g, dp2 + window * C2);
        codes[0] = *(const uint32_t *)(code2 + window * C2);
        if (N == 8) codes[1] = *(const uint32_t *)(code2 + window * C2 + 4);
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++)
            load_chunk(c[pixel],
                       c2 + ((y + pixel / 2) * SIDE2 + x + pixel % 2) * C2);
#pragma unroll
        for (int pixel = 0; pixel < 4; pixel++) {
            T dy[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                const int code = codes[i / 4] >> 8 * (i % 4) & 255;
                dy[i] = narrow<P>(dy_value(scale[i], constant[i], slope[i],
                                           g[i], code == pixel, c[pixel][i]));
            }
            store_chunk((T *)(image + at::at(y + 1 + pixel / 2,
                                             x + 1 + pixel % 2, chunk)),
                        dy);
        }
    }
}

#endif
