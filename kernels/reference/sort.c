#include "reference.h"
#include "../sort/order.h"
int sort_reference(int32_t *y, int32_t *sorted_values, const int32_t *x,
                   const int32_t *values, size_t count,
                   const struct weft_sort_options *options) {
    (void)y; (void)sorted_values; (void)x; (void)values; (void)count; (void)options;
    return weft_fail(WEFT_EINVAL, "todo");
}
