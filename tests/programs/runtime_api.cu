/* runtime_api.cu -- managed memory, streams, events, callbacks, a graph. */
#include <stdio.h>

__managed__ int managed = 7;
struct Node {
    int value;
    Node *next;
};

__global__ void push(Node **list, int value) {
    *list = new Node{value + managed, *list};
}
__global__ void pop(Node **list, int *sum) {
    for (Node *next; *list; *list = next) {
        *sum += (*list)->value;
        next = (*list)->next;
        delete *list;
    }
}
__global__ void add(float *x, float a) { x[threadIdx.x] += a; }
__global__ void times(float *x, float a) { x[threadIdx.x] *= a; }

static void CUDART_CB called(cudaStream_t, cudaError_t status, void *data) {
    printf("called %s %d\n", cudaGetErrorString(status), *(int *)data);
}

int main() {
    Node **list;
    int *sum;
    cudaMallocManaged(&list, sizeof *list);
    cudaMallocManaged(&sum, sizeof *sum);
    *list = nullptr;
    *sum = 0;
    for (int i = 0; i < 3; i++) push<<<1, 1>>>(list, i);
    pop<<<1, 1>>>(list, sum);
    cudaDeviceSynchronize();
    managed++;
    printf("%d %d\n", *sum, managed);

    float *x, *h;
    cudaMallocHost(&h, 4 * sizeof(float));
    cudaMalloc(&x, 4 * sizeof(float));
    for (int i = 0; i < 4; i++) h[i] = i;
    cudaStream_t one, two;
    cudaStreamCreate(&one);
    cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start, one);
    cudaMemcpyAsync(x, h, 4 * sizeof(float), cudaMemcpyHostToDevice, one);
    add<<<1, 4, 0, one>>>(x, 1);
    cudaEventRecord(stop, one);
    cudaStreamWaitEvent(two, stop, 0);
    times<<<1, 4, 0, two>>>(x, 2);
    int number = 5;
    cudaStreamAddCallback(two, called, &number, 0);
    cudaStreamSynchronize(two);
    float ms = -1;
    cudaEventElapsedTime(&ms, start, stop);

    cudaGraph_t graph;
    cudaGraphExec_t instance;
    cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
    add<<<1, 4, 0, one>>>(x, 1);
    times<<<1, 4, 0, one>>>(x, 2);
    cudaStreamEndCapture(one, &graph);
    cudaGraphInstantiate(&instance, graph, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(instance, one);
    cudaStreamSynchronize(one);
    cudaMemcpy(h, x, 4 * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%g %g %g %g %d\n", h[0], h[1], h[2], h[3], ms >= 0);
}
