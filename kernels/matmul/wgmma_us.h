/* wgmma_us.h -- about how many microseconds the wgmma rungs take, for who picks
 * a rung: by rates measured on an H200 and this device's multiprocessors. a and
 * b lie as the rung wants them, copies are not counted. */
#ifndef WEFT_MATMUL_WGMMA_US_H
#define WEFT_MATMUL_WGMMA_US_H
#include "matmul.h"

double matmul_wgmma_bf16_us(const struct product *q); // fp16 as well
double matmul_wgmma_tf32_us(const struct product *q);
double matmul_wgmma_3xtf32_us(const struct product *q);

#endif
