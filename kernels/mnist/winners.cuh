/* winners.cuh -- all that conv1 needs of the gradient of its pooled output.
 *
 * Idea:    conv1's weight gradient goes back through the pool, the ReLU and
 *          batch norm. Only the pixel that won a 2x2 window receives anything,
 *          so of each pooled pixel and channel the gradient d and the 3x3 patch
 *          x around the winner matter: the sums over the batch of d * x[tap]
 *          (nine) and of d (one). update.cu turns them into the gradients; the
 *          gradient of conv1's output, four times the size of p1, never exists.
 * Binds:   shared memory reads: nine for each ten multiply-adds.
 *
 * A block calls winner_add() or winner_sums() for each of its images, adding up
 * in registers, and winner_store() once at its end. */
#ifndef WEFT_WINNERS_H
#define WEFT_WINNERS_H
#include "image.cuh"

enum { SUMS = TAPS + 1, WINNERS = SUMS * C1 };

/* acc[tap] += d * patch[tap] and acc[9] += d for the pooled pixel (py,px) whose
 * winner is `code` (0..3 as 2 qy + qx; 4: none). */
static __device__ __forceinline__ void winner_add(float acc[SUMS], float d,
                                                  int code,
                                                  const float *image_s, int py,
                                                  int px) {
    // Lanes of a warp have different winners: of a window four patches, which
    // begin at neighbouring pixels of two rows, and so in different banks.
    const float mine = code < 4 ? d : 0.0f;
    const float *patch = image_s + (2 * py + (code >> 1 & 1)) * IMAGE_PITCH +
                         2 * px + (code & 1);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
        acc[tap] = fmaf(mine, patch[tap / 3 * IMAGE_PITCH + tap % 3], acc[tap]);
    acc[TAPS] += mine;
}

/* The same for all pooled pixels of an image and channel `lane`, shared among
 * `warps` warps: dp1_s[pixel * pitch + channel] in shared memory (complete: the
 * caller has synchronised), code1 (196,32) of this image in global memory. */
static __device__ __forceinline__ void
winner_sums(float acc[SUMS], const float *dp1_s, int pitch,
            const uint8_t *code1, const float *image_s, int lane, int warp,
            int warps) {
#pragma unroll 4
    for (int pixel = warp; pixel < PIXELS2; pixel += warps)
        winner_add(acc, dp1_s[pixel * pitch + lane], code1[pixel * C1 + lane],
                   image_s, pixel / SIDE2, pixel % SIDE2);
}

/* Adds up the block's warps in their order: slot (10,32), lane = channel.
 * scratch_s holds warps * WINNERS floats; all threads of the block call it. */
static __device__ __forceinline__ void
winner_store(float *slot, float *scratch_s, const float acc[SUMS], int lane,
             int warp, int warps) {
    __syncthreads(); // what scratch_s held before has been read
    for (int i = 0; i < SUMS; i++)
        scratch_s[(warp * SUMS + i) * C1 + lane] = acc[i];
    __syncthreads();
    for (int i = warp * 32 + lane; i < WINNERS; i += warps * 32) {
        float sum = 0.0f;
        for (int w = 0; w < warps; w++) sum += scratch_s[w * WINNERS + i];
        slot[i] = sum;
    }
}

#endif
