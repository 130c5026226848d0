/* data.cu -- the inputs of a weft_cnn: memory, data sets, and the order of the
   images. */
#include <string.h>

#include "context.cuh"

/* ---- memory -------------------------------------------------------------- */

static int no_room(const char *what, size_t bytes) {
    size_t available = 0, total = 0;
    cudaGetLastError(); // clear the error, which is not sticky
    cudaMemGetInfo(&available, &total);
    return weft_fail(WEFT_ENOMEM,
                     "weft_cnn: out of memory for %s: %zu bytes needed, %zu of "
                     "%zu are free",
                     what, bytes, available, total);
}

int cnn_take(struct cnn_memory *memory, void *pointer, size_t count,
             size_t size, const char *what, weft_stream stream) {
    const size_t bytes = count * size;
    size_t available = 0, total = 0;
    WEFT_REQUIRE(memory->count < CNN_PIECES, "weft_cnn: more than %d pieces",
                 CNN_PIECES);
    // Check first, because Linux overcommits a CPU's memory and then kills the
    // process that writes to it.
    WEFT_CUDA_TRY(cudaMemGetInfo(&available, &total));
    if (bytes > available) return no_room(what, bytes);
    void *piece = NULL;
    cudaError_t error = cudaMalloc(&piece, bytes);
    if (error == cudaErrorMemoryAllocation) return no_room(what, bytes);
    if (error) return weft_cuda_fail(error, what);
    memory->pieces[memory->count++] = piece;
    memory->bytes += bytes;
    WEFT_CUDA_TRY(
        cudaMemsetAsync(piece, 0xff, bytes, weft_cuda_stream(stream)));
    memcpy(pointer, &piece, sizeof piece);
    return WEFT_OK;
}

void cnn_release(struct cnn_memory *memory) {
    for (int i = 0; i < memory->count; i++) cudaFree(memory->pieces[i]);
    memset(memory, 0, sizeof *memory);
}

/* ---- data ---------------------------------------------------------------- */

int cnn_check_set(const char *function, int set) {
    WEFT_REQUIRE(set == WEFT_CNN_TRAIN || set == WEFT_CNN_TEST,
                 "%s: data set %d, want 0 (train) or 1 (test)", function, set);
    return WEFT_OK;
}

static int check_labels(const uint8_t *labels, int count, int classes) {
    for (int i = 0; labels && i < count; i++)
        WEFT_REQUIRE(labels[i] < classes,
                     "weft_cnn_data: labels[%d] = %d, the model has %d classes",
                     i, labels[i], classes);
    return WEFT_OK;
}

static int copy_bytes(struct dataset *made, uint8_t **to, const uint8_t *from,
                      size_t bytes, const char *what, weft_stream stream) {
    WEFT_TRY(cnn_take(&made->memory, to, bytes, 1, what, stream));
    WEFT_CUDA_TRY(cudaMemcpyAsync(*to, from, bytes, cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    return WEFT_OK;
}

/* Fill the zeroed data set. */
static int copy_set(struct dataset *made, const uint8_t *images,
                    const uint8_t *labels, int count, size_t pixels,
                    weft_stream stream) {
    WEFT_TRY(copy_bytes(made, &made->images, images, count * pixels,
                        "the images of a data set", stream));
    if (labels)
        WEFT_TRY(copy_bytes(made, &made->labels, labels, count,
                            "the labels of a data set", stream));
    made->count = count;
    return weft_sync(stream); // the caller may now change its arrays
}

int weft_cnn_data(weft_cnn *cnn, int set, const uint8_t *images,
                  const uint8_t *labels, int count, weft_stream stream) {
    CNN_VISIT(cnn, stream);
    WEFT_TRY(cnn_check_idle(cnn, __func__));
    WEFT_TRY(cnn_check_set(__func__, set));
    WEFT_REQUIRE(count >= 1, "%s: %d images, want at least 1", __func__, count);
    WEFT_REQUIRE(images, "%s: the array of %d images is NULL", __func__, count);
    WEFT_TRY(check_labels(labels, count, cnn->config.classes));
    struct dataset made = {};
    const size_t pixels = (size_t)cnn->config.height * cnn->config.width;
    int status = copy_set(&made, images, labels, count, pixels, stream);
    // Free the old set only after the new one is complete, so that the old one
    // remains if there is no room for both.
    struct dataset *gone = status ? &made : &cnn->sets[set];
    cnn_release(&gone->memory);
    if (!status) cnn->sets[set] = made;
    return status;
}

/* ---- the order of the images --------------------------------------------- */

void cnn_release_order(struct order *order) {
    cnn_release(&order->memory);
    if (order->host) cudaFreeHost(order->host);
    order->device = order->host = NULL;
    order->capacity = 0;
}

int cnn_grow_order(struct order *order, int count, weft_stream stream) {
    if (count <= order->capacity) return WEFT_OK;
    cnn_release_order(order); // waits for the order's readers
    WEFT_TRY(cnn_take(&order->memory, &order->device, count,
                      sizeof *order->device, "the order of the images",
                      stream));
    const size_t bytes = count * sizeof *order->host;
    cudaError_t error = cudaMallocHost((void **)&order->host, bytes);
    if (error == cudaErrorMemoryAllocation)
        return no_room("the order of the images, on the host", bytes);
    if (error) return weft_cuda_fail(error, "cudaMallocHost");
    order->capacity = count;
    return WEFT_OK;
}

static const char *const set_names[] = {"training", "test"};

int cnn_check_given(const weft_cnn *cnn, const char *function, int set) {
    WEFT_REQUIRE(cnn->sets[set].count,
                 "%s: there is no %s set yet; call weft_cnn_data()", function,
                 set_names[set]);
    return WEFT_OK;
}

int cnn_check_order(const weft_cnn *cnn, const char *function, int set,
                    const int32_t *order, int count) {
    const int images = cnn->sets[set].count;
    WEFT_TRY(cnn_check_given(cnn, function, set));
    WEFT_REQUIRE(count >= 1, "%s: %d images, want at least 1", function, count);
    WEFT_REQUIRE(order, "%s: the order of %d images is NULL", function, count);
    for (int i = 0; i < count; i++)
        WEFT_REQUIRE(order[i] >= 0 && order[i] < images,
                     "%s: order[%d] = %d, the %s set has images 0 to %d",
                     function, i, order[i], set_names[set], images - 1);
    return WEFT_OK;
}

int cnn_send_order(struct order *to, const int32_t *order, int count,
                   weft_stream stream) {
    WEFT_TRY(cnn_grow_order(to, count, stream));
    WEFT_CUDA_TRY(cudaEventSynchronize(to->copied));
    memcpy(to->host, order, count * sizeof *order);
    WEFT_CUDA_TRY(cudaMemcpyAsync(to->device, to->host, count * sizeof *order,
                                  cudaMemcpyHostToDevice,
                                  weft_cuda_stream(stream)));
    WEFT_CUDA_TRY(cudaEventRecord(to->copied, weft_cuda_stream(stream)));
    return WEFT_OK;
}
