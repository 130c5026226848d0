/* wgmma_us.h -- estimates of the time of the wgmma rungs in microseconds, for
 * code that selects a rung. They use rates measured on an H200 and this
 * device's number of multiprocessors. a and b have the layout that the rung
 * needs; copies are not counted. */
#ifndef WEFT_MATMUL_WGMMA_US_H
#define WEFT_MATMUL_WGMMA_US_H
#include "matmul.h"

double matmul_wgmma_bf16_us(const struct product *q); // also for fp16
double matmul_wgmma_tf32_us(const struct product *q);
double matmul_wgmma_3xtf32_us(const struct product *q);

#endif
