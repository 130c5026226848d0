/* fused.h -- declarations shared by the files of the fused step: its sizes, its
 * arrays and the contract of each kernel.
 *
 * The step is a chain of a few kernels. Each kernel does as much work as
 * possible before a result of the whole batch is needed (batch norm's
 * statistics, the loss):
 *
 *     moments   sums over the images' 3x3 patches    -> moments
 *     conv1     conv1, BN1, ReLU, pool               -> p1, code1
 *     conv2     conv2, its sums, its raw pool        -> c2, m2, code2, sum2
 *     fc1       BN2 and ReLU on the way in, linear   -> hidden
 *     head      ReLU, linear, loss, and back again   -> h, dh, head
 *     fc1_back  both gradients of fc1                -> dp2, dfc1, sum4
 *     conv2_dx  gradient of p1, which conv1 needs    -> winners
 *     conv2_dw  gradient of conv2's weights          -> dw2
 *     update    adds up parts, SGD, next batch       -> params
 *
 * Nothing is added atomically. If many blocks add to a sum, each stores its
 * part in a separate slot, and the reader adds the slots in order. So the same
 * seed always gives the same bits.
 *
 * Intermediate gradients are those of the SUM of the losses. They are of order
 * one for any batch size, so 16-bit floats can represent them. update() divides
 * by the batch.
 *
 * Lesson:  notebooks/15b_mnist_gpu.ipynb, where the algebra is derived. */
#ifndef WEFT_FUSED_H
#define WEFT_FUSED_H
#include "../cnn.h"
#include "common/internal.cuh"

/* ---- sizes --------------------------------------------------------------- */

enum {
    SIDE1 = 28,
    PIXELS1 = SIDE1 * SIDE1, /* pixels of the image and of conv1's output */
    SIDE2 = 14,
    PIXELS2 = SIDE2 * SIDE2, /* pixels after pool 1 and of conv2's output */
    SIDE3 = 7,
    PIXELS3 = SIDE3 * SIDE3, /* pixels after pool 2 */
    C1 = 32,
    C2 = 64,
    TAPS = 9,
    FEATURES = PIXELS3 * C2,
    HIDDEN = 128,
    CLASSES = 10,
    MOMENTS = 45 + 25, /* exact sums over pixels; see moments.cuh */
};

/* The parameters are in one array of float, their gradients in another.
 * Layouts: conv1 (tap,channel), conv2 (tap,oc,ic), fc1 (out,pixel,channel), fc2
 * as in PyTorch; tap = 3 ky + kx. A convolution's bias is kept but has no
 * effect: batch norm removes it again, and its gradient is zero. fc1's weights
 * are last, since their gradient is complete first: workers send it as one
 * range and all others as a second one. They begin at a multiple of 128
 * bytes; the floats before that are padding, and zero. */
enum {
    CONV1_W = 0,
    CONV1_B = CONV1_W + TAPS * C1,
    BN1_W = CONV1_B + C1,
    BN1_B = BN1_W + C1,
    CONV2_W = BN1_B + C1,
    CONV2_B = CONV2_W + TAPS * C2 * C1,
    BN2_W = CONV2_B + C2,
    BN2_B = BN2_W + C2,
    FC1_B = BN2_B + C2,
    FC2_W = FC1_B + HIDDEN,
    FC2_B = FC2_W + CLASSES * HIDDEN,
    FC1_W = (FC2_B + CLASSES + 31) / 32 * 32,
    PARAMS = FC1_W + HIDDEN * FEATURES,
};

/* The number type of the products. T below is float for FP32 and TF32,
 * __nv_bfloat16 or __half. In TF32, the kernel that writes a number for a
 * tensor core rounds it to tf32. All sums and all parameters are float. */
enum precision { FP32, TF32, BF16, FP16 };

/* ---- arrays -------------------------------------------------------------- */

/* The inputs of a run of steps, on the target. update() advances them, so a
 * captured step needs no new arguments. */
struct fused_run {
    const uint8_t *images; /* (count,28,28) */
    const uint8_t *labels; /* (count) or NULL: forward only */
    const int32_t *order;  /* indices of the run's images */
    float *losses;         /* step i of the context writes losses[i % ring] */
    int64_t step;          /* number of this step */
    int first;             /* this step takes order[first .. first+batch) */
    int batch;
    int ring;
    float lr;
    int next; /* with f->ahead: the next `first`, known long before */
};

/* The parts of a sum: `count` slots, one after the other. */
struct slots {
    float *data;
    int count; /* slots written in this step, from 1 to the kernel's maximum */
};

struct fused {
    enum precision precision;
    int pdl;      /* launch with programmatic dependent launch */
    int winograd; /* conv2 in fp32 has Winograd's form */
    int ahead;    /* a step of the same batch size directly follows: head() sums
                     its patches, so it needs no moments() */
    int blocks;   /* multiprocessors of the device (8 on the CPU target) */
    int population; /* images that batch norm's statistics cover, in a step of
                     * several workers; 0: the batch */
    float eps, mean, std;
    struct fused_run *run; /* on the target */

    float *params, *grads; /* (PARAMS); gradients of the MEAN loss */
    /* Copies of conv2's and fc1's weights in T. The layouts are, for FP32,
     * conv2_f (ic,tap,oc) and conv2_b (oc,8-tap,ic); otherwise conv2_f
     * (tap,oc,ic), conv2_b (8-tap,ic,oc) and fc1_s (out,pixel,channel).
     * fused_shadows() and update() write them; fc1_back writes fc1_s, too. For
     * FP32 fc1_s is params + FC1_W itself. */
    void *conv2_f, *conv2_b, *fc1_s;

    struct slots moments; /* (slot,MOMENTS) integers of 64 bits */
    void *p1;             /* T (batch,196,32): relu(bn1(conv1)) pooled */
    uint8_t *code1;       /* (batch,196,32): the winner 0..3, or 4 without a
                           * gradient */
    void *c2;             /* (batch,196,64) conv2 without bias; an unrounded
                             float for FP32 and TF32, else T */
    void *m2;             /* like c2, (batch,49,64): the winning value of each
                             window, which is the largest where bn2's weight >
                             0, the smallest where it is < 0, and the first
                             where it is 0 */
    uint8_t *code2;       /* (batch,49,64): index of the winner, 0..3; the first
                           * of equal ones */
    struct slots sum2;    /* (slot,2,64): sums of c2 and of its squares */
    double *sum2_total;   /* (2,64): the totals of sum2's slots, by fc1 */
    struct slots hidden;  /* (slot,batch,128): parts of fc1's products; see
                             hidden_slots() */
    float *h;             /* (batch,128): relu(fc1), written by head() */
    float *logits;        /* (batch,10) */
    void *dh;             /* T (batch,128): gradient of fc1's output */
    struct slots head;    /* (slot,HEAD): parts of dfc2 (10,128), dfc2 bias
                             (10), dfc1 bias (128), loss (1) */
    void *dp2;            /* T (batch,49,64): gradient of m2's BN output, zero
                             where the ReLU's output is zero: m2 * scale + shift
                             <= 0 */
    struct slots sum4;    /* (slot,2,64): sums of dp2 and of dp2 * m2 */
    float *dy_numbers;    /* (3,64): numbers of dy.cuh, from conv2_dx() to
                             conv2_dw() */
    struct slots dfc1;    /* (slot,128,49,64); see dfc1_slots(); for one slot
                             see fc1_back */
    struct slots winners; /* (slot,10,32): per channel of conv1, the sums over
                             code1's winners of dp1 * patch[tap] and of dp1 */
    struct slots dw2;     /* (slot,9,64,32), with the layout of params */
    int dw2_made;         /* conv2_dx() has computed dw2 too, so there is no
                           * conv2_dw() */
};
enum { FUSED_DY_BYTES = 3 * C2 * 4 };
enum { HEAD = CLASSES * HIDDEN + CLASSES + HIDDEN + 1 };

/* The maximum number of slots of each array. */
enum {
    MOMENT_SLOTS = 256,
    SUM2_SLOTS = 264,
    HEAD_SLOTS = 128,
    SUM4_SLOTS = 512,
    WINNER_SLOTS = 264,
    DW2_SLOTS = 132,
};

/* The maximum number of slots of two arrays with large slots. A large batch
 * fills the GPU without splitting the sum over k, and one slot of dfc1 is 1.6
 * MB. */
static inline int hidden_slots(int batch) {
    const int most = 7168 / batch;
    return most > 28 ? 28 : most < 4 ? 4 : most;
}
static inline int dfc1_slots(int batch) {
    const int most = CEIL_DIV(batch, 256);
    return most > 16 ? 16 : most;
}

/* Return the number of images that batch norm's statistics cover. */
static inline int fused_population(const struct fused *f, int batch) {
    return f->population ? f->population : batch;
}

/* ---- the kernels --------------------------------------------------------- */
/* Each of these functions queues its kernel for the images order[first ..
 * first+batch), for any batch from 1 up, and records in `f` the number of slots
 * that it writes. The table above lists the outputs. The inputs are the outputs
 * of earlier kernels. All return a weft_status. */

/* The two kernels of moments: the sums, and conv1's batch norm from them. */
int fused_patches(struct fused *f, int batch, cudaStream_t stream);
int fused_bn1(struct fused *f, int batch, cudaStream_t stream);
static inline int fused_moments(struct fused *f, int batch,
                                cudaStream_t stream) {
    WEFT_TRY(fused_patches(f, batch, stream));
    return fused_bn1(f, batch, stream);
}
/* `ahead`: the previous step has summed this step's patches. */
int fused_conv1(struct fused *f, int batch, int ahead, cudaStream_t stream);
int fused_conv2(struct fused *f, int batch, cudaStream_t stream);
int fused_fc1(struct fused *f, int batch, cudaStream_t stream);
/* With `train`, do everything; without it, compute only the logits. */
int fused_head(struct fused *f, int batch, int train, cudaStream_t stream);
/* If fc1_back writes only one slot of dfc1, it also updates fc1's weights:
 * grads (of the mean loss), params and fc1_s. */
int fused_fc1_back(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_dx(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_dw(struct fused *f, int batch, cudaStream_t stream);
/* `batch`: the images whose mean loss the gradients are of. */
int fused_update(struct fused *f, int batch, cudaStream_t stream);
/* Compute conv2_f, conv2_b and fc1_s from params, after weft_cnn_set(). */
int fused_shadows(struct fused *f, cudaStream_t stream);

/* The versions for tensor cores, which the functions above call (back: dx and
 * dw). */
int fused_conv2_mma(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_back_mma(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_dx_mma(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_dw_mma(struct fused *f, int batch, cudaStream_t stream);

/* The versions in Winograd's form, which these functions also call. */
int fused_conv2_winograd(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_dx_winograd(struct fused *f, int batch, cudaStream_t stream);
int fused_conv2_dw_winograd(struct fused *f, int batch, cudaStream_t stream);

#endif
