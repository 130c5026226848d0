/* order.h -- the order of keys, for CUDA C and plain C.
 *
 * The rank of a key is an unsigned number that has the order of the keys. For
 * integers it differs in the sign bit; for floats, float_rank.h computes it.
 * The ranks of a descending order are the complements. */
#ifndef WEFT_SORT_ORDER_H
#define WEFT_SORT_ORDER_H
#include "../common/float_rank.h"
#include "../weft.h"

struct sort_order {
    uint32_t flips;    // the rank of an integer is key ^ flips
    uint32_t is_float; // 0 or 1
};

/* Return the order of a kind of keys. */
RANK_INLINE struct sort_order make_order(int kind, int descending) {
    const uint32_t mask = descending ? 0xffffffffu : 0;
    struct sort_order o;
    o.is_float = kind == WEFT_SORT_FLOAT;
    o.flips = (kind == WEFT_SORT_INT ? 0x80000000u : 0) ^ mask;
    return o;
}

RANK_INLINE uint32_t rank_key(uint32_t key, struct sort_order o) {
    return (o.is_float ? rank_float(key) : key) ^ o.flips;
}

#endif
