/* pack.h -- copies of a and b in the layout that a rung needs.
 *
 * Vector loads and the tensor memory accelerator need rows that start at
 * multiples of 16 bytes; tensor cores need k to run along the rows. Instead of
 * a kernel for every layout, one pass copies the operands. It reads and writes
 * m k + k n elements once, whereas the product reads them many times. */
#ifndef WEFT_MATMUL_PACK_H
#define WEFT_MATMUL_PACK_H
#include "matmul.h"

/* Return the bytes of an element of a and b: 2 for the bf16 and fp16 rungs,
 * else 4. */
size_t matmul_element(const struct matmul_rung *rung);

/* Return the bytes of the copies that `rung` needs of q's operands, or 0 if it
 * needs none. Each copy starts at a multiple of 256 bytes. */
size_t matmul_pack_bytes(const struct product *q,
                         const struct matmul_rung *rung);

/* Make *q describe its operands as copied to `room`, an address that is a
 * multiple of 256, without copying anything. */
void matmul_pack_plan(struct product *q, const struct matmul_rung *rung,
                      void *room);

/* Change *q like matmul_pack_plan(), and queue the copies. Returns a
 * weft_status. */
int matmul_pack(struct product *q, const struct matmul_rung *rung, void *room,
                cudaStream_t stream);

#endif
