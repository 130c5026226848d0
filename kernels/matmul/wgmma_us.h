/* wgmma_us.h -- estimates of the microseconds that the wgmma rungs take, for
 * code that picks a rung. They use rates measured on an H200 and this device's
 * multiprocessors. a and b have the layout that the rung needs; copies are not
 * counted. */
#ifndef WEFT_MATMUL_WGMMA_US_H
#define WEFT_MATMUL_WGMMA_US_H
#include "matmul.h"

double matmul_wgmma_bf16_us(const struct product *q); // fp16 as well
double matmul_wgmma_tf32_us(const struct product *q);
double matmul_wgmma_3xtf32_us(const struct product *q);

#endif
