/* conv1.cu -- conv1, batch norm, ReLU and pool in one pass over the images.
 *
 * Idea:    batch norm's mean and variance are known beforehand (bn1.cuh), so
 *          batch norm is one multiply-add at the end of each sum. Since it is
 *          affine, the maximum of a window can be selected before it (or the
 *          minimum if batch norm's weight is negative). conv1's weights take
 *          that sign, so the maximum always wins. The kernel writes a quarter
 *          of conv1's output.
 * Limit:   multiply-adds, 36 for each value written; at B = 64 the launch, and
 *          the latency from the order to the image to the first
 *          multiply-add. */
#include "bn1.cuh"
#include "element.cuh"
#include "launch.cuh"

/* A block works on half an image. A thread slides over seven windows of a row
 * of windows, for four channels. The neighbouring threads have the other
 * channels, so a warp's simultaneous writes are contiguous. */
enum {
    THREADS = 128, /* 16 strips, of which the last two are idle */
    CHANNELS = 4,
    HALF_ROWS = SIDE2 / 2,       /* rows of windows */
    IN_ROWS = 2 * HALF_ROWS + 2, /* rows of the bordered image, which make
                                  * THREADS items */
    GROUPS = C1 / CHANNELS,      /* number of threads across the channels */
    STRIP = SIDE2 / 2,           /* windows of a thread */
};

/* Compute the four convolutions of one window and return the largest. *code
 * receives its index; the first of equal values wins. */
static __device__ __forceinline__ float
window_max(int *code, const float in[4][4], const float w[TAPS]) {
    float y[4];
#pragma unroll
    for (int q = 0; q < 4; q++) {
        y[q] = 0.0f;
#pragma unroll
        for (int tap = 0; tap < TAPS; tap++)
            y[q] = fmaf(w[tap], in[q / 2 + tap / 3][q % 2 + tap % 3], y[q]);
    }
    const float upper = fmaxf(y[0], y[1]), lower = fmaxf(y[2], y[3]);
    const int in_upper = y[1] > y[0] ? 1 : 0, in_lower = y[3] > y[2] ? 3 : 2;
    *code = lower > upper ? in_lower : in_upper;
    return fmaxf(upper, lower);
}

/* Load two columns of the image into in[row][to] and in[row][to + 1]. */
static __device__ __forceinline__ void two_columns(float in[4][4], int to,
                                                   const float *image_s) {
#pragma unroll
    for (int row = 0; row < 4; row++) {
        const float2 two = *(const float2 *)(image_s + row * IMAGE_PITCH);
        in[row][to] = two.x, in[row][to + 1] = two.y;
    }
}

/* Process a strip of seven windows whose upper left input is image_s; p1 and
 * code1 belong to the strip's first window and channel. */
template <enum precision P>
static __device__ __forceinline__ void
strip(typename element<P>::T *p1, uint8_t *code1, const float *image_s,
      const float w[CHANNELS][TAPS], const struct affine a[CHANNELS]) {
    float in[4][4];
    two_columns(in, 0, image_s);
#pragma unroll
    for (int x = 0; x < STRIP; x++) {
        two_columns(in, 2, image_s + 2 * x + 2);
        float out[CHANNELS];
        unsigned codes = 0;
#pragma unroll
        for (int c = 0; c < CHANNELS; c++) {
            int code;
            const float y = window_max(&code, in, w[c]);
            out[c] = fmaf(y, a[c].scale, a[c].shift);
            codes |= (unsigned)(out[c] > 0.0f ? code : 4) << 8 * c;
            out[c] = relu(out[c]);
        }
        store4<P>(p1 + x * C1, out);
        *(unsigned *)(code1 + x * C1) = codes;
#pragma unroll
        for (int row = 0; row < 4; row++)
            in[row][0] = in[row][2], in[row][1] = in[row][3];
    }
}

/* Load half an image into shared memory, one item per thread. fetch_half()
 * starts the load, put_half() stores the item; other work may come between. */
static __device__ __forceinline__ unsigned
fetch_half(const struct fused_run *run, int first, int half, int thread) {
    return fetch_item(image_at(run, first + half / 2),
                      half % 2 * 2 * HALF_ROWS + thread / ROW_ITEMS,
                      thread % ROW_ITEMS);
}
static __device__ __forceinline__ void put_half(float *image_s, unsigned pixels,
                                                int half, int thread,
                                                float mean, float std) {
    const int row = thread / ROW_ITEMS;
    put_item(image_s + row * IMAGE_PITCH, pixels,
             half % 2 * 2 * HALF_ROWS + row, thread % ROW_ITEMS, mean, std);
}

template <enum precision P>
static __global__ void __launch_bounds__(THREADS)
    conv1(typename element<P>::T *p1, uint8_t *code1,
          const struct fused_run *run, const struct bn1 *bn1,
          const float *weights, float mean, float std, int batch, int ahead) {
    __shared__ __align__(16) float image_s[IN_ROWS * IMAGE_PITCH];
    const int thread = threadIdx.x;
    const int first_channel = thread % GROUPS * CHANNELS;
    const int row = thread / GROUPS / 2, half_row = thread / GROUPS % 2;

    // If one step follows another, run->next was written long ago, whereas the
    // previous kernel writes run->first.
    const int first = ahead ? run->next : run->first;
    int half = blockIdx.x;
    unsigned pixels = fetch_half(run, first, half, thread);
    pdl_wait();
    pdl_trigger();
    float w[CHANNELS][TAPS];
    struct affine a[CHANNELS];
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++) {
        float four[CHANNELS];
        load4(four, weights + tap * C1 + first_channel);
        for (int c = 0; c < CHANNELS; c++) w[c][tap] = four[c];
    }
    for (int c = 0; c < CHANNELS; c++) {
        a[c] = bn1->affine[first_channel + c];
        for (int tap = 0; tap < TAPS; tap++) w[c][tap] *= a[c].sign;
    }
    put_half(image_s, pixels, half, thread, mean, std);
    __syncthreads();
    for (;;) {
        const int next = half + gridDim.x;
        if (next < 2 * batch) pixels = fetch_half(run, first, next, thread);
        if (row < HALF_ROWS) {
            const size_t to = (size_t)half * (PIXELS2 / 2) * C1 +
                              (row * SIDE2 + half_row * STRIP) * C1 +
                              first_channel;
            strip<P>(p1 + to, code1 + to,
                     image_s + 2 * row * IMAGE_PITCH + 2 * STRIP * half_row, w,
                     a);
        }
        if (next >= 2 * batch) break;
        half = next;
        __syncthreads(); // all threads have read the previous half
        put_half(image_s, pixels, half, thread, mean, std);
        __syncthreads();
    }
}

template <enum precision P>
static int launch(struct fused *f, int batch, int ahead, cudaStream_t stream) {
    typedef typename element<P>::T T;
    const int most = f->blocks * 5; // all of these are resident at once
    const int blocks = 2 * batch < most ? 2 * batch : most;
    LAUNCH(f, conv1<P>, blocks, THREADS, 0, stream, (T *)f->p1, f->code1,
           (const struct fused_run *)f->run, (const struct bn1 *)bn1_of(f),
           (const float *)f->params + CONV1_W, f->mean, f->std, batch, ahead);
    return WEFT_OK;
}

int fused_conv1(struct fused *f, int batch, int ahead, cudaStream_t stream) {
    switch (f->precision) {
    case FP32: return launch<FP32>(f, batch, ahead, stream);
    case TF32: return launch<TF32>(f, batch, ahead, stream);
    case BF16: return launch<BF16>(f, batch, ahead, stream);
    case FP16: return launch<FP16>(f, batch, ahead, stream);
    }
    return weft_fail(WEFT_EINVAL, "mnist: conv1 in precision %d", f->precision);
}
