/* fusion.cu -- the same work in several kernels and in one, and numbers that
 * are stored or recomputed. Each thread handles four adjacent numbers, so it
 * reads a float4 or a uchar4 in one request.
 *
 * Lesson:  notebooks/14_fusion_and_graphs.ipynb, "Fusion" and
 * "Rematerialisation".
 */

static __device__ unsigned index_of(void) {
    return blockIdx.x * blockDim.x + threadIdx.x;
}

/* y (n) = x (n). */
__global__ void copy(float4 *y, const float4 *x, unsigned n) {
    const unsigned i = index_of();
    if (i < n) y[i] = x[i];
}

/* y (rows,n) = x + bias (n), for each row. */
__global__ void add_bias(float4 *y, const float4 *x, const float4 *bias,
                         unsigned count, unsigned n) {
    const unsigned i = index_of();
    if (i >= count) return;
    const float4 v = x[i], b = bias[i % n];
    y[i] = make_float4(v.x + b.x, v.y + b.y, v.z + b.z, v.w + b.w);
}

__global__ void relu(float4 *y, const float4 *x, unsigned count) {
    const unsigned i = index_of();
    if (i >= count) return;
    const float4 v = x[i];
    y[i] =
        make_float4(fmaxf(v.x, 0), fmaxf(v.y, 0), fmaxf(v.z, 0), fmaxf(v.w, 0));
}

__global__ void scale(float4 *y, const float4 *x, float by, unsigned count) {
    const unsigned i = index_of();
    if (i >= count) return;
    const float4 v = x[i];
    y[i] = make_float4(by * v.x, by * v.y, by * v.z, by * v.w);
}

/* All three operations in one kernel: intermediate results stay in
 * registers. */
__global__ void bias_relu_scale(float4 *y, const float4 *x, const float4 *bias,
                                float by, unsigned count, unsigned n) {
    const unsigned i = index_of();
    if (i >= count) return;
    const float4 v = x[i], b = bias[i % n];
    y[i] = make_float4(by * fmaxf(v.x + b.x, 0), by * fmaxf(v.y + b.y, 0),
                       by * fmaxf(v.z + b.z, 0), by * fmaxf(v.w + b.w, 0));
}

/* Return four pixels (0 to 255), normalised for the network. */
static __device__ float4 normal(uchar4 p, float by, float less) {
    return make_float4(by * p.x - less, by * p.y - less, by * p.z - less,
                       by * p.w - less);
}

static __device__ float largest(float4 v) {
    return fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w));
}

/* x = the normalised pixels, stored for the kernels that read them later. */
__global__ void normalise(float4 *x, const uchar4 *pixels, float by, float less,
                          unsigned count) {
    const unsigned i = index_of();
    if (i < count) x[i] = normal(pixels[i], by, less);
}

/* y = the largest of each group of four stored pixels. */
__global__ void pool_stored(float *y, const float4 *x, unsigned count) {
    const unsigned i = index_of();
    if (i < count) y[i] = largest(x[i]);
}

/* Like pool_stored(), but from raw pixels, which this kernel normalises
 * itself. */
__global__ void pool_again(float *y, const uchar4 *pixels, float by, float less,
                           unsigned count) {
    const unsigned i = index_of();
    if (i < count) y[i] = largest(normal(pixels[i], by, less));
}
