/* cnn_model.h -- declarations shared by the files of the trainer's plain C
 * rung: the sizes, the memory and the passes of one step. cnn.c describes how
 * they work together. */
#ifndef WEFT_CNN_MODEL_H
#define WEFT_CNN_MODEL_H
#include "cnn_winograd.h"
#include "mnist/cnn.h"
#include "reference/simd.h"

/* Channels, features and images are handled in blocks of two vectors, the width
 * of the register tile of tile_fma(). An array "[blocks][pixel][BLOCK]" has its
 * channels padded with zeros to whole blocks. So every stride of an inner loop
 * is BLOCK or 1, known to the compiler, and no loop over channels has a
 * remainder. */
enum { BLOCK = 2 * VLEN, TAPS = 9, MOMENTS = TAPS + 1 };

/* The rows of the register tiles, which have 2 * rows sums each. Those of the
 * linear layers must divide BLOCK; those of conv2 are chosen for 49 Winograd
 * tiles per image. */
enum { LINEAR_ROWS = VREGS == 32 ? 8 : 4, CNN_TILES = VREGS == 32 ? 10 : 5 };

/* The sums of one thread. All threads' sums are added in the threads' order, so
 * that the same number of threads gives the same bits. */
struct cnn_worker {
    double *moments; /* see cnn_patch_moments() */
    double *sums1;   /* [TAPS + 1][blocks1 * BLOCK]; see cnn_conv1_backward() */
    double *sums2;   /* [2][blocks2 * BLOCK]: y and y^2, or dbeta and dgamma */
    float *du2;      /* like u2: the gradient of conv2's weight */
    /* The arrays of the image being processed: */
    float *v2;        /* [blocks1][POSITIONS][room][BLOCK]: x1's tiles */
    float *products2; /* [blocks2][POSITIONS][room][BLOCK]: y2's tiles */
    float *dx1;       /* the gradient of x1, laid out like one image of x1 */
};

struct cnn_model {
    struct weft_cnn_config config;
    int h0, w0, h1, w1, h2, w2; /* sizes of the input and of pooled outputs */
    int tiles_h, tiles_w;       /* Winograd tiles of y2, with 2x2 outputs
                                 * each */
    int room;                   /* tiles per image, rounded up to CNN_TILES */
    int hp, wp;                 /* size of x1 with its border, as far as tiles
                                   reach */
    int blocks1, blocks2;       /* blocks of the channels of conv1 and conv2 */
    int blocks_in;              /* blocks of fc1's inputs: blocks2 * h2 * w2 */
    int blocks_hidden, blocks_out;
    int images;  /* room for images: more than max_batch, see cnn.c */
    int threads; /* number of workers; `team` of them run this step */
    int team;
    int total; /* the images whose mean loss the gradients are of: the batch,
                * or in a step in parts the batch of all workers */
    int population; /* the images that batch norm's statistics cover */

    /* Parameters and gradients in this rung's layouts (cnn_params.c). The
     * parameters are one array, and so are the gradients, in the order in which
     * the backward pass completes them (cnn_order). */
    float *weight[WEFT_CNN_PARAMS], *gradient[WEFT_CNN_PARAMS];
    float *weights, *gradients; /* the starts of the two arrays */
    size_t size[WEFT_CNN_PARAMS];
    size_t parameters, linear; /* their floats: all, and fc2's and fc1's */

    float *x0;     /* [n][h0 + 2][w0 + 2]: pixels with a border of zeros */
    float *x1;     /* [n][blocks1][hp][wp][BLOCK], with a border of zeros */
    uint8_t *arg1; /* [n][blocks1][h1][w1][BLOCK]: winner 0 to 3, or DEAD */
    float *y2;     /* [n][blocks2][tile][4][BLOCK]: conv2 without its bias */
    float *top2;   /* [n][blocks2][h2][w2][BLOCK]: y2 at the pool's winners,
                      then the gradient there */
    uint8_t *arg2; /* the same shape: the index of the winner */
    float *x2;     /* [blocks_in][images][BLOCK]: input of fc1 */
    float *dx2;    /* the same shape */
    float *hidden, *dhidden;   /* [blocks_hidden][images][BLOCK] */
    float *logits;             /* [blocks_out][images][BLOCK], later their
                                * gradient */
    float *dhidden_t;          /* [images / BLOCK][hidden][BLOCK images] */
    float *dlogits_t;          /* [images / BLOCK][classes][BLOCK images] */
    float *loss;               /* [images] */
    float *u2, *u2_t;          /* conv2's weight in Winograd's form */
    float *folded1;            /* [blocks1][TAPS + 1][BLOCK] */
    float *scale1, *scale2;    /* gamma / sqrt(var + eps) */
    float *shift2;             /* beta - mean * scale */
    double *moments;           /* statistics of this batch's patches */
    double *mean1, *rstd1;     /* statistics of conv1's output without its
                                * bias */
    double *sum1;              /* [TAPS + 1][blocks1 * BLOCK]: totals of the
                                * workers' sums1 */
    double *sum2;              /* [2][blocks2 * BLOCK]: totals of y and y^2 */
    double *dnorm2;            /* [2][blocks2 * BLOCK]: dbeta and dgamma */
    double *mean2, *rstd2;     /* statistics of y2 */
    struct cnn_worker *worker; /* [threads] */
    struct cnn_memory memory;  /* all of the above in one piece */
    size_t bytes;
};

enum { DEAD = 4 }; /* value of arg1 if ReLU passed nothing */

/* cnn_params.c: the padded sizes, the order of the parameters in memory, and
 * the position of element `i` of PyTorch's parameter. */
extern const int cnn_order[WEFT_CNN_PARAMS];
void cnn_param_sizes(struct cnn_model *m);
size_t cnn_param_offset(const struct cnn_model *m, int index, size_t i);
void cnn_transform_weight2(struct cnn_model *m);
void cnn_conv2_gradients(struct cnn_model *m);
void cnn_update(struct cnn_model *m, size_t first, float lr);

/* cnn_batch.c: the batch and the statistics of its patches. */
void cnn_gather(struct cnn_model *m, const uint8_t *images,
                const int32_t *order, int n);
void cnn_patch_moments(struct cnn_model *m, int n);

/* cnn_conv1.c, cnn_conv2.c: the convolutions with the layers after them. */
void cnn_conv1_forward(struct cnn_model *m, int n);
void cnn_conv1_backward(struct cnn_model *m, struct cnn_worker *worker, int i);
void cnn_conv1_sums(struct cnn_model *m);
void cnn_conv1_gradients(struct cnn_model *m, int n);
void cnn_conv2_forward(struct cnn_model *m, int n);
void cnn_conv2_backward(struct cnn_model *m, int n);

/* cnn_norm2.c: batch norm 2 and ReLU 2. */
void cnn_norm2_forward(struct cnn_model *m, int n);
void cnn_norm2_backward(struct cnn_model *m, int n);

/* cnn_linear.c: the linear layers and the loss. The backward passes also update
 * the weights, unless lr is NULL. */
void cnn_fc1_forward(struct cnn_model *m, int n);
void cnn_fc2_forward(struct cnn_model *m, int n);
float cnn_loss(struct cnn_model *m, const uint8_t *labels, const int32_t *order,
               int n);
void cnn_fc2_backward(struct cnn_model *m, int n, const float *lr);
void cnn_fc1_backward(struct cnn_model *m, int n, const float *lr);

/* Return the number of floats in one image of x1, or of y2. */
static inline size_t cnn_x1_size(const struct cnn_model *m) {
    return (size_t)m->blocks1 * m->hp * m->wp * BLOCK;
}
static inline size_t cnn_y2_size(const struct cnn_model *m) {
    return (size_t)m->blocks2 * m->tiles_h * m->tiles_w * 4 * BLOCK;
}

/* Store the largest of the four vectors of a pooling window in *top, and return
 * its index. The first of equal values wins, as in PyTorch. */
SIMD_INLINE vint cnn_winner(vfloat *top, const vfloat z[4]) {
    vint winner = {0};
    *top = z[0];
    for (int i = 1; i < 4; i++) {
        const vint better = z[i] > *top;
        *top = vselect(better, z[i], *top);
        winner = vselect_int(better, (vint){0} + i, winner);
    }
    return winner;
}

/* Return max(x, 0). A NaN stays a NaN, so that a diverged training is
 * visible. */
SIMD_INLINE vfloat cnn_relu(vfloat x) {
    return vselect(x <= 0.0f, (vfloat){0}, x);
}

#endif
