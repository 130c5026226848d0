/* parts.cu -- steps in parts for the fused rungs.
 *
 * The kernels of a step update the weights where they compute the gradients. In
 * a step in parts, the gradients of all workers must be added up before that.
 * So the kernels receive a copy of the weights and the learning rate 0. Their
 * gradients, of the mean loss of this worker's images, are then scaled to its
 * share. The kernels thus need no second version; the price is the copy.
 *
 * With sync_batchnorm, batch norm's statistics cover the images of all workers.
 * Every statistic is a sum over slots, which the next kernel adds up. Before
 * that kernel, this worker's slots are added up in double, the workers add
 * their totals, and the result replaces the slots. It becomes two slots, a
 * float and the rest of the double in a second float, since the variance is a
 * small difference of two sums. The kernels divide by f->population images.
 *
 * Conv1's gradients, and those of both batch norms' weights, follow from these
 * sums alone. So each worker has those of the whole batch, and scales them to
 * its share. */
#include "bn1.cuh"
#include "fused_state.cuh"
#include "update.cuh"
#include "winners.cuh"

enum { FC1 = HIDDEN * FEATURES };

/* ---- sums of batch norm -------------------------------------------------- */

/* Each block of add_slots() adds up this many columns. */
enum { ADD_EACH = 16 };

static __global__ void add_moments(double *sums, const struct bn1_from from) {
    __shared__ struct bn1_scratch scratch_s;
    const int i = threadIdx.x;
    bn1_add_slots(&scratch_s, &from, i);
    // Below 2^53, which is more than 10^8 white images, this is exact, too.
    if (i < MOMENTS) sums[i] = (double)scratch_s.sums[i];
}

static __global__ void put_moments(moment *slot, const double *sums) {
    if (threadIdx.x < MOMENTS) slot[threadIdx.x] = (moment)sums[threadIdx.x];
}

static __global__ void __launch_bounds__(THREADS)
    add_slots(double *sums, const struct slots from, int size) {
    __shared__ double parts_s[THREADS], sums_s[ADD_EACH];
    const int first = blockIdx.x * ADD_EACH;
    const struct columns columns = {first, ADD_EACH, 1, 0};
    column_sums(sums_s, parts_s, from, size, columns);
    if (threadIdx.x < ADD_EACH) sums[first + threadIdx.x] = sums_s[threadIdx.x];
}

static __global__ void put_slots(float *slots, const double *sums, int size) {
    const int i = blockIdx.x * ADD_EACH + threadIdx.x;
    const float high = (float)sums[i];
    slots[i] = high;
    slots[size + i] = (float)(sums[i] - high);
}

/* Store the totals of the `size` columns of a statistic in s->sums. */
static int give_sums(struct fused_state *s, const struct slots *slots, int size,
                     cudaStream_t stream) {
    struct fused *f = &s->last;
    static_assert(2 * C2 % ADD_EACH == 0 && WINNERS % ADD_EACH == 0, "");
    if (slots == &f->moments) {
        add_moments<<<1, 96, 0, stream>>>(s->sums, bn1_from(f, s->batch));
        WEFT_LAUNCHED(add_moments);
    } else {
        add_slots<<<size / ADD_EACH, THREADS, 0, stream>>>(s->sums, *slots,
                                                           size);
        WEFT_LAUNCHED(add_slots);
    }
    return WEFT_OK;
}

/* Replace the slots of a statistic by s->sums, the totals of all workers. */
static int take_sums(struct fused_state *s, struct slots *slots, int size,
                     cudaStream_t stream) {
    if (slots == &s->last.moments) {
        slots->count = 1;
        put_moments<<<1, 96, 0, stream>>>((moment *)slots->data, s->sums);
        WEFT_LAUNCHED(put_moments);
    } else {
        slots->count = 2;
        put_slots<<<size / ADD_EACH, ADD_EACH, 0, stream>>>(slots->data,
                                                            s->sums, size);
        WEFT_LAUNCHED(put_slots);
    }
    return WEFT_OK;
}

/* ---- gradients ----------------------------------------------------------- */

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

/* Scale all other gradients, and the loss of the step that update() has ended.
 * `own`: the factor of those that this worker's images determine, `common`:
 * that of gradients from batch norm's sums. */
static __global__ void finish_others(float *grads, const struct fused_run *run,
                                     float own, float common) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const bool from_sums = i < CONV2_W || (i >= BN2_W && i < FC1_B);
    if (i < FC1_W) grads[i] *= from_sums ? common : own;
    if (i == 0) run->losses[(run->step - 1) % run->ring] *= own;
}

static __global__ void descend(float *params, const float *grads,
                               const float lr) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < PARAMS) params[i] -= lr * grads[i];
}

/* ---- the stages of a step ------------------------------------------------ */

static int sum_patches(struct fused_state *s, const struct cnn_share *share,
                       cudaStream_t stream) {
    return fused_patches(&s->last, share->batch, stream);
}

static int convolve(struct fused_state *s, const struct cnn_share *share,
                    cudaStream_t stream) {
    struct fused *f = &s->last;
    WEFT_TRY(fused_bn1(f, share->batch, stream));
    WEFT_TRY(fused_conv1(f, share->batch, 0, stream));
    return fused_conv2(f, share->batch, stream);
}

static int classify(struct fused_state *s, const struct cnn_share *share,
                    cudaStream_t stream) {
    struct fused *f = &s->last;
    const int batch = share->batch;
    WEFT_TRY(fused_fc1(f, batch, stream));
    WEFT_TRY(fused_head(f, batch, 1, stream));
    WEFT_TRY(fused_fc1_back(f, batch, stream));
    finish_fc1<<<CEIL_DIV(FC1, THREADS), THREADS, 0, stream>>>(
        f->grads + FC1_W, f->dfc1, batch, (float)batch / share->total);
    WEFT_LAUNCHED(finish_fc1);
    f->dfc1.count = 1; // update() must not add up the slots again
    return WEFT_OK;
}

static int convolve_backward(struct fused_state *s,
                             const struct cnn_share *share,
                             cudaStream_t stream) {
    struct fused *f = &s->last;
    WEFT_TRY(fused_conv2_dx(f, share->batch, stream));
    return f->dw2_made ? WEFT_OK : fused_conv2_dw(f, share->batch, stream);
}

static int finish(struct fused_state *s, const struct cnn_share *share,
                  cudaStream_t stream) {
    struct fused *f = &s->last;
    const float part = (float)share->batch / share->total;
    // With sync_batchnorm, update() divides by the images of all workers.
    const float own = f->population ? 1.0f : part;
    WEFT_TRY(fused_update(f, fused_population(f, share->batch), stream));
    finish_others<<<CEIL_DIV(FC1_W, THREADS), THREADS, 0, stream>>>(
        f->grads, f->run, own, part);
    WEFT_LAUNCHED(finish_others);
    return WEFT_OK;
}

/* A stage, and what is ready after it: the sums of a statistic, or a range of
 * the gradients. The workers need sum4 at once, so it precedes fc1's gradient,
 * which is sent while the next stage computes. */
struct stage {
    int (*run)(struct fused_state *, const struct cnn_share *, cudaStream_t);
    struct slots *slots; /* NULL: a range */
    int first, count;    /* of the range; with slots, the number of sums */
};
enum { STAGES = 6 };

static struct stage stage_at(struct fused *f, int at) {
    const struct stage stages[STAGES] = {
        {sum_patches, &f->moments, 0, MOMENTS},
        {convolve, &f->sum2, 0, 2 * C2},
        {classify, &f->sum4, 0, 2 * C2},
        {NULL, NULL, FC1_W, FC1},
        {convolve_backward, &f->winners, 0, WINNERS},
        {finish, NULL, 0, FC1_W},
    };
    return stages[at];
}

/* The kernels find the step's images and its loss in *run, which update()
 * advances. So a captured step takes the next images in each launch. */
int fused_part_prepare(void *state, const struct cnn_run *run,
                       weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    if (!s->draft) {
        WEFT_TRY(cnn_take(&s->memory, &s->sums, WINNERS, sizeof(double),
                          "sums of batch norm", stream));
        WEFT_TRY(cnn_take(&s->memory, &s->draft, PARAMS, sizeof(float),
                          "a copy of the weights", stream));
    }
    s->batch = 0; // the arrays of the last pass are about to change
    return fused_queue(s, run, weft_cuda_stream(stream));
}

static int begin(struct fused_state *s, const struct cnn_share *share,
                 cudaStream_t stream) {
    const size_t bytes = PARAMS * sizeof(float);
    if (!share->batch) { // the gradients and the loss are 0
        WEFT_CUDA_TRY(cudaMemsetAsync(s->f.grads, 0, bytes, stream));
        WEFT_CUDA_TRY(cudaMemsetAsync(share->loss, 0, sizeof(float), stream));
        return WEFT_OK;
    }
    WEFT_CUDA_TRY(cudaMemcpyAsync(s->draft, s->f.params, bytes,
                                  cudaMemcpyDeviceToDevice, stream));
    s->last = s->f;
    s->last.params = s->draft;
    if (s->f.precision == FP32) s->last.fc1_s = s->draft + FC1_W;
    s->last.ahead = 0;
    s->last.population = share->sync_batchnorm ? share->total : 0;
    s->batch = share->batch;
    s->trained = 1;
    return WEFT_OK;
}

/* Run a stage. With sync_batchnorm, first take the sums that the stage before
 * has given, and in the end give this stage's sums. */
static int run_stage(struct fused_state *s, int at,
                     const struct cnn_share *share, cudaStream_t stream) {
    const struct stage now = stage_at(&s->last, at);
    if (share->sync_batchnorm && at) {
        const struct stage before = stage_at(&s->last, at - 1);
        if (before.slots && share->batch)
            WEFT_TRY(take_sums(s, before.slots, before.count, stream));
    }
    if (now.run && share->batch) WEFT_TRY(now.run(s, share, stream));
    if (!now.slots || !share->sync_batchnorm) return WEFT_OK;
    if (share->batch) return give_sums(s, now.slots, now.count, stream);
    WEFT_CUDA_TRY(
        cudaMemsetAsync(s->sums, 0, now.count * sizeof *s->sums, stream));
    return WEFT_OK;
}

/* The gradients become complete in two ranges: fc1's weights, then at the end
 * all others. */
int fused_part(void *state, int *at, const struct cnn_share *share,
               struct weft_cnn_ready *ready, weft_stream stream) {
    struct fused_state *s = (struct fused_state *)state;
    cudaStream_t on = weft_cuda_stream(stream);
    if (*at == 0) WEFT_TRY(begin(s, share, on));
    *ready = {WEFT_CNN_DONE, NULL, 0};
    while (*at < STAGES) {
        const struct stage stage = stage_at(&s->last, *at);
        WEFT_TRY(run_stage(s, *at, share, on));
        ++*at;
        if (!stage.slots)
            *ready = {WEFT_CNN_RANGE, s->f.grads + stage.first,
                      (size_t)stage.count};
        else if (share->sync_batchnorm)
            *ready = {WEFT_CNN_SUMS, s->sums, (size_t)stage.count};
        if (ready->kind != WEFT_CNN_DONE) break;
    }
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
