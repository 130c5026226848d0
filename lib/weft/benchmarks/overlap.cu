/* overlap.cu -- copies that overlap kernels: each part of an array is copied to
 * the device, changed and copied back, on one or more streams.
 *
 * Lesson:  notebooks/14_fusion_and_graphs.ipynb, "Copies beside kernels". */
#include "graphs.cuh"

enum { THREADS = 256, PARTS = 8, MOST_STREAMS = 4 };

/* y = halved(x), n elements. */
static __global__ void halve(float *y, const float *x, int n, int turns) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = halved(x[i], turns);
}

/* ---- copies that overlap kernels ----------------------------------------- */

/* Copy the host's x to the device, compute y = halved(x), and copy y back, in
 * PARTS parts that alternate between the streams. Returns before completion. */
static void queue_parts(float *y, const float *x, float *d_y, float *d_x,
                        int part, int turns, const cudaStream_t *streams,
                        int stream_count) {
    const size_t bytes = part * sizeof(float);
    for (int i = 0; i < PARTS; i++) {
        const cudaStream_t stream = streams[i % stream_count];
        const size_t at = (size_t)i * part;
        CHECK(cudaMemcpyAsync(d_x + at, x + at, bytes, cudaMemcpyHostToDevice,
                              stream));
        halve<<<(part + THREADS - 1) / THREADS, THREADS, 0, stream>>>(
            d_y + at, d_x + at, part, turns);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(y + at, d_y + at, bytes, cudaMemcpyDeviceToHost,
                              stream));
    }
}

/* Time the parts on the host's clock, from pinned or pageable memory. */
static void time_parts(const char *memory, int part, int turns,
                       int stream_count) {
    const size_t count = (size_t)PARTS * part, bytes = count * sizeof(float);
    const int pinned = memory[1] == 'i';
    cudaStream_t streams[MOST_STREAMS];
    float *x, *y, *d_x, *d_y;
    for (int i = 0; i < stream_count; i++)
        CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CHECK(cudaMalloc(&d_x, bytes));
    CHECK(cudaMalloc(&d_y, bytes));
    if (pinned) {
        CHECK(cudaMallocHost(&x, bytes));
        CHECK(cudaMallocHost(&y, bytes));
    } else {
        x = (float *)malloc(bytes);
        y = (float *)malloc(bytes);
    }
    for (size_t i = 0; i < count; i++) x[i] = i % 1000, y[i] = -1;
    printf("overlap\t%s, %d\t%zu", memory, stream_count, bytes);
    for (int sample = -1; sample < samples; sample++) {
        const double begin = now_us();
        queue_parts(y, x, d_y, d_x, part, turns, streams, stream_count);
        CHECK(cudaDeviceSynchronize());
        if (sample >= 0) printf("\t%.2f", now_us() - begin);
    }
    printf("\n");
    for (size_t i = 0; i < count; i += 997)
        if (y[i] != halved(x[i], turns)) {
            fprintf(stderr, "overlap: y[%zu] is %g\n", i, y[i]);
            exit(1);
        }
    for (int i = 0; i < stream_count; i++) CHECK(cudaStreamDestroy(streams[i]));
    CHECK(cudaFree(d_x));
    CHECK(cudaFree(d_y));
    if (pinned) {
        CHECK(cudaFreeHost(x));
        CHECK(cudaFreeHost(y));
    } else {
        free(x);
        free(y);
    }
}

void time_overlaps(int part, int turns) {
    const int counts[] = {1, 2, MOST_STREAMS};
    for (int count : counts) time_parts("pinned", part, turns, count);
    time_parts("pageable", part, turns, 1);
    time_parts("pageable", part, turns, MOST_STREAMS);
}
