/* dy_fp32.cuh -- dy of one image, built in shared memory in fp32. */
#ifndef WEFT_DY_FP32_CUH
#define WEFT_DY_FP32_CUH
#include "dy.cuh"

/* What the step left of one image. */
struct dy_image {
    const float *c2, *dp2; /* (196,64), (49,64) */
    const uint8_t *code2;  /* (49,64) */
};

static __device__ __forceinline__ struct dy_image
dy_image_of(const float *c2, const float *dp2, const uint8_t *code2,
            int image) {
    struct dy_image from;
    from.c2 = c2 + (size_t)image * PIXELS2 * C2;
    from.dp2 = dp2 + (size_t)image * PIXELS3 * C2;
    from.code2 = code2 + (size_t)image * PIXELS3 * C2;
    return from;
}

/* dy of four channels from `c` on of a window's pixel q. */
static __device__ __forceinline__ float4
dy_four(const struct dy_numbers *numbers, int c, float4 dp2, uchar4 code,
        float4 c2, int q) {
    const float4 a = *(const float4 *)(numbers->scale + c);
    const float4 b = *(const float4 *)(numbers->constant + c);
    const float4 s = *(const float4 *)(numbers->slope + c);
    return make_float4(dy_value(a.x, b.x, s.x, dp2.x, code.x == q, c2.x),
                       dy_value(a.y, b.y, s.y, dp2.y, code.y == q, c2.y),
                       dy_value(a.z, b.z, s.z, dp2.z, code.z == q, c2.z),
                       dy_value(a.w, b.w, s.w, dp2.w, code.w == q, c2.w));
}

/* dy of CHANNELS channels from `first` on; pixel (y,x) goes to dy_s + y * ROW +
 * x * PIXEL. A thread takes a window and four channels at a time, so that the
 * winner and its gradient are read once; THREADS threads share the image. */
template <int CHANNELS, int PIXEL, int ROW, int THREADS>
static __device__ __forceinline__ void
dy_fill(float *dy_s, const struct dy_numbers *numbers,
        const struct dy_image &from, int first) {
    enum { QUADS = CHANNELS / 4 };
#pragma unroll 2
    for (int i = threadIdx.x; i < PIXELS3 * QUADS; i += THREADS) {
        const int window = i / QUADS, quad = i % QUADS, c = first + 4 * quad;
        const int y = window / SIDE3 * 2, x = window % SIDE3 * 2;
        const float4 dp2 = *(const float4 *)(from.dp2 + window * C2 + c);
        const uchar4 code = *(const uchar4 *)(from.code2 + window * C2 + c);
        float4 c2[4];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int pixel = (y + q / 2) * SIDE2 + x + q % 2;
            c2[q] = *(const float4 *)(from.c2 + pixel * C2 + c);
        }
#pragma unroll
        for (int q = 0; q < 4; q++)
            *(float4 *)(dy_s + (y + q / 2) * ROW + (x + q % 2) * PIXEL +
                        4 * quad) = dy_four(numbers, c, dp2, code, c2[q], q);
    }
}

#endif
