/* parts.cu -- steps in parts for the fused rungs.
 *
 * The kernels of a step update the weights where they compute the gradients. In
 * a step in parts, the gradients of all workers must be added up before that.
 * So the kernels receive a copy of the weights and the learning rate 0. Their
 * gradients, of the mean loss of this worker's images, are then scaled to its
 * share. The kernels thus need no second version; the price is the copy. */
#include "fused_state.cuh"

enum { THREADS = 256, FC1 = HIDDEN * FEATURES };

/* Scale fc1's gradient, which may still consist of several slots. */
static __global__ void finish_fc1(float *grads, const struct slots dfc1,
                                  float batch, float share) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= FC1) return;
    float sum = 0.0f;
    for (int slot = 0; slot < dfc1.count; slot++)
        sum += dfc1.data[(size_t)slot * FC1 + i];
    grads[i] = (dfc1.count > 1 ? sum / batch : grads[i]) * share;
}

/* Scale all other gradients and the loss of the step that update() has ended.
 */
static __global__ void finish_others(float *grads, const struct fused_run *run,
                                     float share) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < FC1_W) grads[i] *= share;
    if (i == 0) run->losses[(run->step - 1) % run->ring] *= share;
}

static __global__ void descend(float *params, const float *grads,
                               const float lr) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < PARAMS) params[i] -= lr * grads[i];
}

/* The kernels find the step's images and its loss in *run, which update()
 * advances. So a captured step takes the next images in each launch. */
int fused_part_prepare(void *state, const struct cnn_run *run,
                       weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    if (!s->draft)
        WEFT_TRY(cnn_take(&s->memory, &s->draft, PARAMS, sizeof(float),
                          "a copy of the weights", stream));
    s->batch = 0; // the arrays of the last pass are about to change
    return fused_queue(s, run, weft_cuda_stream(stream));
}

static int begin(struct fused_state *s, const struct cnn_share *share,
                 cudaStream_t stream) {
    const size_t bytes = PARAMS * sizeof(float);
    WEFT_CUDA_TRY(cudaMemcpyAsync(s->draft, s->f.params, bytes,
                                  cudaMemcpyDeviceToDevice, stream));
    s->last = s->f;
    s->last.params = s->draft;
    if (s->f.precision == FP32) s->last.fc1_s = s->draft + FC1_W;
    s->last.ahead = 0;
    s->batch = share->batch;
    s->trained = 1;
    return WEFT_OK;
}

static int run_to_fc1(struct fused_state *s, const struct cnn_share *share,
                      cudaStream_t stream) {
    struct fused *f = &s->last;
    const int batch = share->batch;
    WEFT_TRY(begin(s, share, stream));
    WEFT_TRY(fused_moments(f, batch, stream));
    WEFT_TRY(fused_conv1(f, batch, 0, stream));
    WEFT_TRY(fused_conv2(f, batch, stream));
    WEFT_TRY(fused_fc1(f, batch, stream));
    WEFT_TRY(fused_head(f, batch, 1, stream));
    WEFT_TRY(fused_fc1_back(f, batch, stream));
    finish_fc1<<<CEIL_DIV(FC1, THREADS), THREADS, 0, stream>>>(
        f->grads + FC1_W, f->dfc1, batch, (float)batch / share->total);
    WEFT_LAUNCHED(finish_fc1);
    f->dfc1.count = 1; // update() must not add up the slots again
    return WEFT_OK;
}

static int run_to_end(struct fused_state *s, const struct cnn_share *share,
                      cudaStream_t stream) {
    struct fused *f = &s->last;
    const int batch = share->batch;
    WEFT_TRY(fused_conv2_dx(f, batch, stream));
    if (!f->dw2_made) WEFT_TRY(fused_conv2_dw(f, batch, stream));
    WEFT_TRY(fused_update(f, batch, stream));
    finish_others<<<CEIL_DIV(FC1_W, THREADS), THREADS, 0, stream>>>(
        f->grads, f->run, (float)batch / share->total);
    WEFT_LAUNCHED(finish_others);
    return WEFT_OK;
}

/* Without images, the gradients and the loss are 0. */
static int clear(struct fused_state *s, const struct cnn_share *share,
                 cudaStream_t stream) {
    WEFT_CUDA_TRY(
        cudaMemsetAsync(s->f.grads, 0, PARAMS * sizeof(float), stream));
    WEFT_CUDA_TRY(cudaMemsetAsync(share->loss, 0, sizeof(float), stream));
    return WEFT_OK;
}

/* The gradients become complete in two ranges: fc1's weights, then at the end
 * all others. */
int fused_part(void *state, int *at, const struct cnn_share *share,
               struct weft_cnn_ready *ready, weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    cudaStream_t on = weft_cuda_stream(stream);
    float *grads = s->f.grads;
    const struct weft_cnn_ready ranges[] = {
        {WEFT_CNN_RANGE, grads + FC1_W, FC1},
        {WEFT_CNN_RANGE, grads, FC1_W},
        {WEFT_CNN_DONE, NULL, 0},
    };
    if (*at == 0)
        WEFT_TRY(share->batch ? run_to_fc1(s, share, on) : clear(s, share, on));
    else if (*at == 1 && share->batch)
        WEFT_TRY(run_to_end(s, share, on));
    *ready = ranges[*at];
    if (*at < COUNT_OF(ranges) - 1) ++*at;
    return WEFT_OK;
}

int fused_part_update(void *state, float lr, weft_stream stream) {
    struct fused *f = &((struct fused_state *)state)->f;
    cudaStream_t on = weft_cuda_stream(stream);
    descend<<<CEIL_DIV(PARAMS, THREADS), THREADS, 0, on>>>(f->params, f->grads,
                                                           lr);
    WEFT_LAUNCHED(descend);
    return fused_shadows(f, on);
}

/* The kernels have written copies of some weights, which are wrong if a
 * gradient was infinite: 0 times infinity is not 0. */
int fused_part_abandon(void *state, weft_stream stream) {
    return fused_shadows(&((struct fused_state *)state)->f,
                         weft_cuda_stream(stream));
}

struct cnn_buffer fused_gradients(const void *state) {
    const struct fused_state *s = (const struct fused_state *)state;
    return {s->f.grads, PARAMS, 1};
}
