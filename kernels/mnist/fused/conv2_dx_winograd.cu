/* conv2_dx_winograd.cu -- the gradient of conv2's input in strict fp32 in
 * Winograd's form, reduced to the sums that conv1 needs (winners.cuh).
 *
 * Idea:    use the form of the forward pass (winograd.cuh), from 64 channels of
 *          dy to 16 of p1, with the taps reversed. Two blocks share an image.
 *          Both build all of its dy, and transform 16 channels at a time, since
 *          V of all channels does not fit in shared memory.
 * Limit:   barriers between transforms and products, with one block per SM.
 * Shared:  196 KB: 64 for U, 61 for V and later the products, 61 for dy, 7 for
 *          the input image and the codes of its winners.
 * Lesson:  notebooks/15b_mnist_gpu.ipynb. */
/* g++: -O1 */
#include "conv2_dx_fp32.cuh"
#include "launch.cuh"
#include "winograd.cuh"

enum { IN = 16 /* channels of p1 per block */, CUTS = C1 / IN, CHUNK = 16 };
typedef winograd_shape<C2, IN, CHUNK> shape;
typedef dy_builder<C2, shape::PIXEL, shape::ROW, shape::THREADS> builder_t;

/* The places of a block's arrays in shared memory, in floats. */
enum {
    NUMBERS_AT = shape::U,
    WORK_AT = NUMBERS_AT + 2 * dy_scratch<shape::THREADS>::DOUBLES,
    DY_AT = WORK_AT + shape::WORK,
    PIXELS_AT = DY_AT + shape::IMAGE,
    CODES_AT = PIXELS_AT + IMAGE_SIZE,
    SHARED = CODES_AT + PIXELS2 * IN / 4,
};

/* Add an image's winner sums. A thread has one channel and every few windows.
 */
static __device__ __forceinline__ void
add_window_winners(float sums[SUMS], const float *m_s, const uint8_t *codes_s,
                   const float *image_s) {
    const int c = threadIdx.x % IN;
    for (int window = threadIdx.x / IN; window < PIXELS3;
         window += shape::THREADS / IN) {
        float dp1[4][1];
        winograd_window<shape, 1>(dp1, m_s + window * shape::M_WINDOW + c);
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const int y = window / SIDE3 * 2 + q / 2;
            const int x = window % SIDE3 * 2 + q % 2;
            winner_add(sums, dp1[q][0], codes_s[(y * SIDE2 + x) * IN + c],
                       image_s, y, x);
        }
    }
}

/* Compute IN channels of each image. CUTS consecutive blocks share an image and
 * a slot. */
static __global__ void __launch_bounds__(shape::THREADS, 1)
    conv2_dx_winograd(struct conv2_dx_arrays a) {
    typedef shape S;
    extern __shared__ __align__(16) float shared[];
    float *u_s = shared, *work_s = shared + WORK_AT, *dy_s = shared + DY_AT;
    float *image_s = shared + PIXELS_AT;
    uint8_t *codes_s = (uint8_t *)(shared + CODES_AT);
    double *totals = (double *)(shared + NUMBERS_AT);
    struct dy_numbers *numbers = (struct dy_numbers *)totals;
    const int first = blockIdx.x % CUTS * IN, slot = blockIdx.x / CUTS;
    const int step = gridDim.x / CUTS;
    const struct winograd_place at = winograd_place<S, IN>();
    // Each thread converts one item of the input image.
    static_assert(IMAGE_ROWS * ROW_ITEMS <= (int)S::THREADS, "one item");
    const int row = threadIdx.x / ROW_ITEMS;
    // Of these inputs, only dp2 and its sums come from the previous kernel.
    builder_t builder;
    struct dy_image from = dy_image_of(a.c2, a.dp2, a.code2, slot);
    builder.copy_c2(dy_s + S::at(0, 0), from, 0);
    copy_commit();
    dy_add_early(totals, a.dy);
    winograd_weights<S, C2, IN>(u_s, a.weights + first, C1);
    clear_border<S>(dy_s);
    pdl_wait();
    pdl_trigger();
    builder.load_dp2(from, 0);
    dy_add_late<S::THREADS>(totals, a.dy);
    dy_finish<DY_STORE>(numbers, totals, a.dy);

    float sums[SUMS];
    for (int i = 0; i < SUMS; i++) sums[i] = 0.0f;
    for (int image = slot; image < a.batch; image += step) {
        builder.build(dy_s + S::at(0, 0), numbers, 0);
        __syncthreads(); // dy is complete, and codes_s has been read
        copy_codes<S, IN>(codes_s,
                          a.code1 + (size_t)image * PIXELS2 * C1 + first);
        copy_commit();
        const unsigned pixels =
            fetch_item(image_of(a.run, image), row, threadIdx.x % ROW_ITEMS);
        const int next = image + step;
        float acc[WINDOWS][COLUMNS];
        winograd_clear(acc);
#pragma unroll 1
        for (int chunk = 0; chunk < S::CHUNKS; chunk++) {
            winograd_image<S, CHUNK>(work_s, dy_s + chunk * CHUNK);
            __syncthreads();
            if (chunk == 0 && row < IMAGE_ROWS) // the pixels have arrived
                put_item(image_s + row * IMAGE_PITCH, pixels, row,
                         threadIdx.x % ROW_ITEMS, a.mean, a.std);
            if (chunk == S::CHUNKS - 1 && next < a.batch) {
                from = dy_image_of(a.c2, a.dp2, a.code2, next);
                builder.copy_c2(dy_s + S::at(0, 0), from, 0);
                builder.load_dp2(from, 0);
            }
            winograd_product<S, IN, CHUNK>(acc, work_s,
                                           u_s + chunk * CHUNK * IN, at);
            __syncthreads(); // V has been read
        }
        copy_commit();
        copy_wait<1>(); // the codes have arrived
        winograd_reduce<S>(work_s, acc, at);
        add_window_winners(sums, work_s, codes_s, image_s);
    }
    write_winners<S, IN>(a.winners + slot * WINNERS + first, work_s, sums);
}

int fused_conv2_dx_winograd(struct fused *f, int batch, cudaStream_t stream) {
    const int slots = smallest(f->blocks / CUTS, batch, WINNER_SLOTS);
    f->winners.count = slots;
    LAUNCH(f, conv2_dx_winograd, slots * CUTS, shape::THREADS,
           SHARED * sizeof(float), stream, conv2_dx_arrays_of(f, batch));
    return WEFT_OK;
}
