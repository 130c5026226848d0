/* dy_fp32.cuh -- dy of one image, built in shared memory in fp32. */
#ifndef WEFT_DY_FP32_CUH
#define WEFT_DY_FP32_CUH
#include "common/ptx.cuh"
#include "dy.cuh"

/* A step's results for one image. */
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

/* One thread's share of dy for CHANNELS channels: windows at a fixed distance,
 * all of the same four channels. The winners and their gradients stay in
 * registers until the numbers of dy.cuh exist. c2 stays in shared memory until
 * dy replaces it. */
template <int CHANNELS, int PIXEL, int ROW, int THREADS> struct dy_builder {
    enum {
        QUADS = CHANNELS / 4,
        STEP = THREADS / QUADS,
        ITEMS = CEIL_DIV(PIXELS3, STEP),
    };
    static_assert(THREADS % QUADS == 0, "a thread keeps its channels");
    float4 dp2[ITEMS];
    unsigned code[ITEMS]; /* winners of four channels, a byte each */

    /* Return the address of pixel q of a window in shared memory. */
    static __device__ __forceinline__ float *at(float *dy_s, int window,
                                                int q) {
        const int y = window / SIDE3 * 2 + q / 2,
                  x = window % SIDE3 * 2 + q % 2;
        return dy_s + y * ROW + x * PIXEL + threadIdx.x % QUADS * 4;
    }

    /* Start copying c2 to dy_s, where pixel (y,x) is y * ROW + x * PIXEL floats
     * after pixel (0,0). The caller commits. */
    static __device__ __forceinline__ void
    copy_c2(float *dy_s, const struct dy_image &from, int first) {
        const int c = first + threadIdx.x % QUADS * 4;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int window = threadIdx.x / QUADS + i * STEP;
            if (window >= PIXELS3) break;
            const int corner = window / SIDE3 * 2 * SIDE2 + window % SIDE3 * 2;
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const int pixel = corner + q / 2 * SIDE2 + q % 2;
                copy16_async(at(dy_s, window, q), from.c2 + pixel * C2 + c);
            }
        }
    }

    __device__ __forceinline__ void load_dp2(const struct dy_image &from,
                                             int first) {
        const int c = first + threadIdx.x % QUADS * 4;
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int window = threadIdx.x / QUADS + i * STEP;
            if (window >= PIXELS3) break;
            dp2[i] = *(const float4 *)(from.dp2 + window * C2 + c);
            code[i] = *(const unsigned *)(from.code2 + window * C2 + c);
        }
    }

    /* Replace c2 with dy. Each thread converts only the numbers that it copied,
     * so it need not wait for others. */
    __device__ __forceinline__ void
    build(float *dy_s, const struct dy_numbers *numbers, int first) const {
        const int c = first + threadIdx.x % QUADS * 4;
        const float4 scale = *(const float4 *)(numbers->scale + c);
        const float4 constant = *(const float4 *)(numbers->constant + c);
        const float4 slope = *(const float4 *)(numbers->slope + c);
        copy_wait<0>();
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int window = threadIdx.x / QUADS + i * STEP;
            if (window >= PIXELS3) break;
            const float4 d = dp2[i];
            const unsigned won = code[i];
#pragma unroll
            for (unsigned q = 0; q < 4; q++) {
                float4 *v = (float4 *)at(dy_s, window, q);
                const float4 c2 = *v;
                *v = make_float4(dy_value(scale.x, constant.x, slope.x, d.x,
                                          (won & 255) == q, c2.x),
                                 dy_value(scale.y, constant.y, slope.y, d.y,
                                          (won >> 8 & 255) == q, c2.y),
                                 dy_value(scale.z, constant.z, slope.z, d.z,
                                          (won >> 16 & 255) == q, c2.z),
                                 dy_value(scale.w, constant.w, slope.w, d.w,
                                          won >> 24 == q, c2.w));
            }
        }
    }
};

#endif
