/* fc1_tile.cuh -- the data of a block of fc1's forward pass, and the loads of
 * its operands to shared memory (fc1.cu).
 *
 * Banks:   a row is PAD = 16 bytes longer than necessary. Its STEP numbers are
 *          32, 128, 224 or 448 bytes. With 16 added, eight rows start in eight
 *          different 16-byte groups of 128 bytes, so no two of them share a
 *          bank. */
#ifndef WEFT_FC1_TILE_CUH
#define WEFT_FC1_TILE_CUH
#include "bn2.cuh"
#include "fragments.cuh"

/* The shape of a tile: ROWS images times OUTS outputs per block, PIXELS x
 * CHANNELS features at a time, in BUFFERS buffers. */
template <enum precision PRECISION, int ROWS_, int OUTS_, int PIXELS_,
          int CHANNELS_, int BUFFERS_>
struct fc1_tile {
    typedef typename element<PRECISION>::T T;
    static const enum precision P = PRECISION;
    enum {
        THREADS = 256,
        ROWS = ROWS_,
        OUTS = OUTS_,
        PIXELS = PIXELS_,
        CHANNELS = CHANNELS_,
        BUFFERS = BUFFERS_,
        GROUPS = C2 / CHANNELS,
        STEP = PIXELS * CHANNELS,
        PAD = 16 / (int)sizeof(T),
        PITCH = STEP + PAD,
        QUADS = STEP / 4,                    // quads in a row
        LOADS = ROWS * QUADS / THREADS,      // quads of m2 per thread
        PIECES = STEP * (int)sizeof(T) / 16, // 16-byte pieces in a row of
                                             // weights
        BUFFER = (ROWS + OUTS) * PITCH,
        BYTES = BUFFERS * BUFFER * (int)sizeof(T),
    };
    static_assert(ROWS * QUADS % THREADS == 0, "whole loads");
    static_assert(THREADS % (CHANNELS / 4) == 0, "a thread keeps its channels");
};

/* The arrays that the kernels read and write. */
struct fc1_arguments {
    const void *m2, *weights;
    struct bn2_sources bn2;
    float *hidden; /* (slot,batch,128) */
    int batch;
    int parts; /* parts of the 49 pixels; slot = part * GROUPS + group */
};

/* The features of this block's slot: pixels [pixel,end) of CHANNELS channels,
 * beginning with `channel`. */
struct fc1_slice {
    int channel, pixel, end;
};
template <class TILE>
static __device__ __forceinline__ struct fc1_slice fc1_slice_of(int slot,
                                                                int parts) {
    const int part = slot / TILE::GROUPS;
    struct fc1_slice slice;
    slice.channel = slot % TILE::GROUPS * TILE::CHANNELS;
    slice.pixel = PIXELS3 * part / parts;
    slice.end = PIXELS3 * (part + 1) / parts;
    return slice;
}

/* ---- loading ------------------------------------------------------------- */

/* Start copying the weights (OUTS,STEP) of pixels [pixel,pixel + PIXELS). */
template <class TILE>
static __device__ __forceinline__ void
fc1_copy_weights(typename TILE::T *to, const void *weights, int first_out,
                 int pixel, int channel) {
    typedef typename TILE::T T;
    enum { EACH = 16 / sizeof(T), PIECES = TILE::PIECES };
    const T *from = (const T *)weights + (size_t)first_out * FEATURES +
                    pixel * C2 + channel;
    for (int i = threadIdx.x; i < TILE::OUTS * PIECES; i += TILE::THREADS) {
        const int out = i / PIECES, k = i % PIECES * EACH;
        copy16_async(to + out * TILE::PITCH + k, from + (size_t)out * FEATURES +
                                                     k / TILE::CHANNELS * C2 +
                                                     k % TILE::CHANNELS);
    }
    copy_commit();
}

/* Load this thread's quads of m2 into registers, so that the loads are in
 * flight while the previous tile is multiplied. Images past the batch are zeros
 * and are not stored. */
template <class TILE>
static __device__ __forceinline__ void
fc1_fetch_rows(struct quad<typename TILE::T> *quads, const void *m2,
               int first_row, int batch, int pixel, int channel) {
    typedef typename TILE::T T;
#pragma unroll
    for (int i = 0; i < TILE::LOADS; i++) {
        const int at = threadIdx.x + i * TILE::THREADS;
        const int row = first_row + at / TILE::QUADS;
        const int k = at % TILE::QUADS * 4;
        const T *from = (const T *)m2 + (size_t)row * FEATURES +
                        (pixel + k / TILE::CHANNELS) * C2 + channel +
                        k % TILE::CHANNELS;
        quads[i] = {};
        if (row < batch) quad_load(&quads[i], from);
    }
}

/* Store the quads of fc1_fetch_rows() (ROWS,STEP) in shared memory after
 * applying BN2 and ReLU. */
template <class TILE>
static __device__ __forceinline__ void
fc1_place_rows(typename TILE::T *to, const struct quad<typename TILE::T> *quads,
               const float scale[4], const float shift[4]) {
#pragma unroll
    for (int i = 0; i < TILE::LOADS; i++) {
        const int at = threadIdx.x + i * TILE::THREADS;
        float v[4];
        quad_widen(v, quads[i]);
        for (int j = 0; j < 4; j++)
            v[j] = relu(bn2_value(v[j], scale[j], shift[j]));
        store4<TILE::P>(
            to + at / TILE::QUADS * TILE::PITCH + at % TILE::QUADS * 4, v);
    }
}

/* Add all tiles of the slot to `product`. Both kernels share this loop. */
template <class TILE, class PRODUCT>
static __device__ __forceinline__ void
fc1_accumulate(PRODUCT &product, typename TILE::T *shared,
               struct bn2_affine<TILE::THREADS, TILE::CHANNELS> *affine,
               const struct fc1_arguments &from) {
    typedef typename TILE::T T;
    const int first_row = blockIdx.x * TILE::ROWS;
    const int first_out = blockIdx.y * TILE::OUTS;
    const struct fc1_slice slice = fc1_slice_of<TILE>(blockIdx.z, from.parts);
    const int channel = slice.channel;

    // The weights are older than the previous kernel, so they need no wait.
    fc1_copy_weights<TILE>(shared + TILE::ROWS * TILE::PITCH, from.weights,
                           first_out, slice.pixel, channel);
    pdl_wait();
    pdl_trigger();
    struct quad<T> quads[TILE::LOADS];
    fc1_fetch_rows<TILE>(quads, from.m2, first_row, from.batch, slice.pixel,
                         channel);
    // Of the blocks that add up these channels' sums, one stores the totals.
    bn2_prepare(affine, from.bn2, channel,
                blockIdx.x == 0 && blockIdx.y == 0 && slice.pixel == 0);
    float scale[4], shift[4];
    load4(scale, affine->scale + threadIdx.x % (TILE::CHANNELS / 4) * 4);
    load4(shift, affine->shift + threadIdx.x % (TILE::CHANNELS / 4) * 4);

    int buffer = 0;
    for (int pixel = slice.pixel; pixel < slice.end; pixel += TILE::PIXELS) {
        T *a = shared + buffer * TILE::BUFFER,
          *w = a + TILE::ROWS * TILE::PITCH;
        fc1_place_rows<TILE>(a, quads, scale, shift);
        copy_wait<0>();
        // After the barrier the tile is complete, and all threads have read the
        // other buffer, which is two tiles old.
        __syncthreads();
        buffer = (buffer + 1) % TILE::BUFFERS;
        if (pixel + TILE::PIXELS < slice.end) {
            T *next = shared + buffer * TILE::BUFFER;
            fc1_copy_weights<TILE>(next + TILE::ROWS * TILE::PITCH,
                                   from.weights, first_out,
                                   pixel + TILE::PIXELS, channel);
            fc1_fetch_rows<TILE>(quads, from.m2, first_row, from.batch,
                                 pixel + TILE::PIXELS, channel);
        }
        product.add(a, w);
    }
}

#endif
