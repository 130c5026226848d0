/* streams.cu -- queues of work, and memory that both sides can reach.
 *
 *     python -m weft run streams.cu                       on the processor
 *     nvcc -arch=native streams.cu -o streams && ./streams  on a GPU
 *
 * Lesson: notebooks/06_cuda_c.ipynb, "Streams, events and memory". */
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

enum { COUNT = 1 << 20, PARTS = 4, PART = COUNT / PARTS, THREADS = 256 };

/* End the program with the place and the reason if a CUDA call failed. */
#define CHECK(call)                                                       \
    do {                                                                  \
        cudaError_t error_ = (call);                                      \
        if (error_ != cudaSuccess) {                                      \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
                    cudaGetErrorString(error_));                          \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

/* y = 2 x + 1, n elements. */
static __global__ void work(float *y, const float *x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i] + 1;
}

/* Count the elements of y that are not 2 x + 1. */
static int wrong(const float *y, const float *x) {
    int count = 0;
    for (int i = 0; i < COUNT; i++) count += y[i] != 2 * x[i] + 1;
    return count;
}

/* Copy the host's x to the device, compute y, and copy it back, in PARTS parts
 * that take turns on the streams. Queue it all and return before it is done. */
static void queue_all(float *y, const float *x, float *d_y, float *d_x,
                      const cudaStream_t *streams, int stream_count) {
    const size_t bytes = PART * sizeof(float);
    for (int part = 0; part < PARTS; part++) {
        const cudaStream_t stream = streams[part % stream_count];
        const int at = part * PART;
        CHECK(cudaMemcpyAsync(d_x + at, x + at, bytes, cudaMemcpyHostToDevice,
                              stream));
        work<<<PART / THREADS, THREADS, 0, stream>>>(d_y + at, d_x + at, PART);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpyAsync(y + at, d_y + at, bytes, cudaMemcpyDeviceToHost,
                              stream));
    }
}

/* Return the milliseconds of queue_all(), between events before and after. */
static float time_all(float *y, const float *x, float *d_y, float *d_x,
                      const cudaStream_t *streams, int stream_count) {
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventRecord(begin)); // on stream 0, which waits for all others
    queue_all(y, x, d_y, d_x, streams, stream_count);
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float ms = 0;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return ms;
}

/* A callback on the host, called by a stream. It may not make CUDA calls. */
static void report(void *data) { ++*(int *)data; }

/* Let each stream call the host when its queue is done. */
static void count_streams(const cudaStream_t *streams, int stream_count) {
    int *done = (int *)calloc(stream_count, sizeof(int));
    int sum = 0;
    for (int i = 0; i < stream_count; i++)
        CHECK(cudaLaunchHostFunc(streams[i], report, &done[i]));
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < stream_count; i++) sum += done[i];
    printf("callbacks: %d of %d streams have reported\n", sum, stream_count);
    free(done);
}

/* Time copies of pageable or pinned host memory, on one stream and on PARTS. */
static void with_copies(const char *kind, float *y, float *x) {
    cudaStream_t streams[PARTS];
    float *d_x, *d_y;
    for (int i = 0; i < PARTS; i++) CHECK(cudaStreamCreate(&streams[i]));
    CHECK(cudaMalloc(&d_x, COUNT * sizeof(float)));
    CHECK(cudaMalloc(&d_y, COUNT * sizeof(float)));
    for (int i = 0; i < COUNT; i++) x[i] = i % 1000, y[i] = -1;
    time_all(y, x, d_y, d_x, streams, 1); // warm up
    const float one = time_all(y, x, d_y, d_x, streams, 1);
    const float all = time_all(y, x, d_y, d_x, streams, PARTS);
    printf("%-8s  1 stream %7.3f ms, %d streams %7.3f ms, wrong %d\n", kind,
           one, PARTS, all, wrong(y, x));
    count_streams(streams, PARTS);
    CHECK(cudaFree(d_x));
    CHECK(cudaFree(d_y));
    for (int i = 0; i < PARTS; i++) CHECK(cudaStreamDestroy(streams[i]));
}

/* Use one address on both sides, so the program copies nothing. */
static void unified(void) {
    float *x, *y;
    CHECK(cudaMallocManaged(&x, COUNT * sizeof(float)));
    CHECK(cudaMallocManaged(&y, COUNT * sizeof(float)));
    for (int i = 0; i < COUNT; i++) x[i] = i % 1000;
    work<<<COUNT / THREADS, THREADS>>>(y, x, COUNT);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize()); // before the host reads y
    printf("unified   wrong %d\n", wrong(y, x));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
}

int main(void) {
    struct cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    printf("device: %s\n", prop.name);

    float *x = (float *)malloc(COUNT * sizeof(float));
    float *y = (float *)malloc(COUNT * sizeof(float));
    with_copies("pageable", y, x);
    free(x);
    free(y);

    CHECK(cudaMallocHost(&x, COUNT * sizeof(float)));
    CHECK(cudaMallocHost(&y, COUNT * sizeof(float)));
    with_copies("pinned", y, x);
    CHECK(cudaFreeHost(x));
    CHECK(cudaFreeHost(y));

    unified();
    return 0;
}
