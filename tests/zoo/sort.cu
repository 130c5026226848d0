/* The zoo: a radix sort by one thread with one fault in each rung; "right" has
 * none. */
#include "sort/sort.cuh"

enum fault {
    RIGHT,
    UNSTABLE_LAST_PASS,
    UNSTABLE_FIRST_PASS,
    MISSING_PASS,
    BITS_OF_FLOATS,
    REVERSED_FOR_DESCENDING
};

WEFT_RUNGS({"sort", "right", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"sort", "unstable_last_pass", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"sort", "unstable_first_pass", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"sort", "missing_pass", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"sort", "bits_of_floats", "", "fp32", WEFT_CPU | WEFT_CUDA, 0},
           {"sort", "reversed_for_descending", "", "fp32", WEFT_CPU | WEFT_CUDA,
            0})

/* Move the keys and values with digit d to `to` and after it, in their order or
 * from the last to the first; return the next place. */
static __device__ unsigned move_digit(const sort_pass &p, unsigned d,
                                      bool backwards, unsigned to) {
    for (unsigned j = 0; j < p.count; j++) {
        const unsigned i = backwards ? p.count - 1 - j : j;
        if (p.find_digit<4>(rank_key(p.x[i], p.order)) != d) continue;
        if (p.sorted_values) p.sorted_values[to] = p.load_value(i);
        p.y[to++] = p.x[i];
    }
    return to;
}

static __global__ void sort_digit(sort_pass p, bool backwards) {
    unsigned to = 0;
    for (unsigned d = 0; d < 16; d++) to = move_digit(p, d, backwards, to);
}

static __global__ void reverse(sorting s) {
    for (unsigned i = 0, j = s.count - 1; i < j; i++, j--) {
        const unsigned key = s.y[i];
        s.y[i] = s.y[j];
        s.y[j] = key;
        if (!s.sorted_values) continue;
        const unsigned value = s.sorted_values[i];
        s.sorted_values[i] = s.sorted_values[j];
        s.sorted_values[j] = value;
    }
}

static int sort_faulty(int fault, struct sorting s, int kind, int descending) {
    const bool reverses = fault == REVERSED_FOR_DESCENDING && descending;
    if (reverses) s.order = make_order(kind, 0);
    if (fault == BITS_OF_FLOATS && kind == WEFT_SORT_FLOAT)
        s.order = make_order(WEFT_SORT_INT, descending);
    sort_memory m(&s);
    WEFT_TRY(m.claim(&s, 0));
    for (unsigned p = 0; p < 8; p++) {
        sort_pass pass = find_pass(&s, m, p, 4);
        if (fault == MISSING_PASS && p == 5) pass.shift = 0;
        sort_digit<<<1, 1, 0, s.stream>>>(
            pass, (fault == UNSTABLE_LAST_PASS && p == 7) ||
                      (fault == UNSTABLE_FIRST_PASS && p == 0));
        WEFT_LAUNCHED(sort_digit);
    }
    if (reverses) reverse<<<1, 1, 0, s.stream>>>(s);
    WEFT_LAUNCHED(reverse);
    return WEFT_OK;
}

int weft_sort(int rung, int32_t *y, int32_t *sorted_values, const int32_t *x,
              const int32_t *values, size_t count,
              const struct weft_sort_options *options, weft_stream stream) {
    WEFT_CHECK_RUNG(rung);
    const int kind = options ? options->kind : WEFT_SORT_INT;
    const int descending = options && options->descending;
    const struct sorting s = {
        (unsigned *)y,           (unsigned *)sorted_values,
        (const unsigned *)x,     (const unsigned *)values,
        (unsigned)count,         make_order(kind, descending),
        weft_cuda_stream(stream)};
    return sort_faulty(rung, s, kind, descending);
}
