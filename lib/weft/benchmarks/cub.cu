/* cub.cu -- CUB's versions of our ops, for cub.py to time.
 *
 * Like CUB's functions, each one stores the size of its temporary memory in
 * *bytes if `temporary` is NULL, and otherwise runs. It returns a cudaError_t.
 */
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include <stdint.h>

/* The parameters of all functions. outputs, inputs: arrays on the device.
 * count: the number of elements of the first input. */
struct cub_call {
    void *temporary, *outputs[2];
    const void *inputs[2];
    int64_t count;
    float threshold;
    cudaStream_t stream;
};

struct is_above {
    float threshold;
    __device__ bool operator()(float x) const { return x > threshold; }
};

template <typename T> static const T *input(const cub_call *c, int i = 0) {
    return static_cast<const T *>(c->inputs[i]);
}

template <typename T> static T *output(const cub_call *c, int i = 0) {
    return static_cast<T *>(c->outputs[i]);
}

#define CUB_FUNCTION(NAME)                                                  \
    extern "C" __attribute__((visibility("default"))) int bench_cub_##NAME( \
        const cub_call *c, size_t *bytes)

CUB_FUNCTION(reduce) {
    return cub::DeviceReduce::Sum(c->temporary, *bytes, input<float>(c),
                                  output<float>(c), c->count, c->stream);
}

CUB_FUNCTION(scan) {
    return cub::DeviceScan::InclusiveSum(c->temporary, *bytes, input<float>(c),
                                         output<float>(c), c->count, c->stream);
}

CUB_FUNCTION(compact) {
    return cub::DeviceSelect::If(c->temporary, *bytes, input<float>(c),
                                 output<float>(c), output<int64_t>(c, 1),
                                 c->count, is_above{c->threshold}, c->stream);
}

CUB_FUNCTION(histogram) {
    return cub::DeviceHistogram::HistogramEven(
        c->temporary, *bytes, input<uint8_t>(c), output<int>(c), 257, 0, 256,
        c->count, c->stream);
}

template <typename T> static int sort_keys(const cub_call *c, size_t *bytes) {
    return cub::DeviceRadixSort::SortKeys(c->temporary, *bytes, input<T>(c),
                                          output<T>(c), c->count, 0, 32,
                                          c->stream);
}

CUB_FUNCTION(sort_float32) { return sort_keys<float>(c, bytes); }
CUB_FUNCTION(sort_int32) { return sort_keys<int32_t>(c, bytes); }
CUB_FUNCTION(sort_uint32) { return sort_keys<uint32_t>(c, bytes); }

CUB_FUNCTION(sort_pairs) {
    return cub::DeviceRadixSort::SortPairs(
        c->temporary, *bytes, input<uint32_t>(c), output<uint32_t>(c),
        input<uint32_t>(c, 1), output<uint32_t>(c, 1), c->count, 0, 32,
        c->stream);
}
