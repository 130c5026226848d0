/* winners.cuh -- the sums that conv1 needs from the gradient of its pooled
 * output.
 *
 * Idea:    conv1's weight gradient passes back through the pool, the ReLU and
 *          batch norm. Only the pixel that won a 2x2 window receives a
 *          gradient. So for each pooled pixel and channel, only the gradient d
 *          and the 3x3 patch x around the winner matter. conv1 needs the sums
 *          over the batch of d * x[tap] (nine) and of d (one). update_conv1.cuh
 *          computes the gradients from these sums. The gradient of conv1's
 *          output, four times the size of p1, is never stored.
 * Limit:   reads of shared memory, nine for every ten multiply-adds.
 *
 * A block adds in registers over all its images, then over its threads, and
 * stores the sums in a slot. */
#ifndef WEFT_WINNERS_H
#define WEFT_WINNERS_H
#include "image.cuh"

enum { SUMS = TAPS + 1, WINNERS = SUMS * C1 };

/* Add d * patch[tap] to acc[tap] and d to acc[9], for the pooled pixel (py,px)
 * whose winner is `code` (0..3 as 2 qy + qx; 4: none). */
static __device__ __forceinline__ void winner_add(float acc[SUMS], float d,
                                                  int code,
                                                  const float *image_s, int py,
                                                  int px) {
    // Lanes of a warp may have different winners. The four patches of a window
    // begin at neighbouring pixels of two rows, and so in different banks.
    const float mine = code < 4 ? d : 0.0f;
    const float *patch = image_s + (2 * py + (code >> 1 & 1)) * IMAGE_PITCH +
                         2 * px + (code & 1);
#pragma unroll
    for (int tap = 0; tap < TAPS; tap++)
        acc[tap] = fmaf(mine, patch[tap / 3 * IMAGE_PITCH + tap % 3], acc[tap]);
    acc[TAPS] += mine;
}

#endif
