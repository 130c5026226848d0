/* cnn_params.c -- the parameters: their layouts, and the update.
 *
 * PyTorch's layouts are converted to blocked ones, in which the output channel
 * runs along the vectors and everything is padded with zeros to whole blocks:
 *
 *     conv1  (blocks1, 9, BLOCK)
 *     conv2  (blocks2, blocks1, 9, BLOCK of channels1, BLOCK of channels2)
 *     fc1    (blocks_hidden, inputs, BLOCK)  inputs: (blocks2, h2, w2, BLOCK)
 *     fc2    (blocks_out, hidden, BLOCK)
 *
 * The padding of weights and gradients is zero and stays zero. A padded channel
 * has gamma 0, so its output and its gradients are zero. */
#include "cnn_model.h"

/* The parameters in the order in which the backward pass completes their
 * gradients: the linear layers, the second block, the first. */
const int cnn_order[WEFT_CNN_PARAMS] = {10, 11, 8, 9, 4, 5, 6, 7, 0, 1, 2, 3};

/* Compute the number of floats in each parameter, with padding. */
void cnn_param_sizes(struct cnn_model *m) {
    const size_t c1 = (size_t)m->blocks1 * BLOCK;
    const size_t c2 = (size_t)m->blocks2 * BLOCK;
    const size_t in = (size_t)m->blocks_in * BLOCK;
    const size_t hidden = (size_t)m->blocks_hidden * BLOCK;
    const size_t out = (size_t)m->blocks_out * BLOCK;
    const size_t size[WEFT_CNN_PARAMS] = {
        TAPS * c1,      c1,     c1,           c1,  // conv1, bn1
        TAPS * c1 * c2, c2,     c2,           c2,  // conv2, bn2
        in * hidden,    hidden, hidden * out, out, // fc1, fc2
    };
    m->parameters = 0;
    for (int i = 0; i < WEFT_CNN_PARAMS; i++) {
        m->size[i] = size[i];
        m->parameters += size[i];
    }
    m->linear = size[8] + size[9] + size[10] + size[11];
}

/* Return the position in this rung's layout of element `i` of PyTorch's
 * parameter `index`. */
size_t cnn_param_offset(const struct cnn_model *m, int index, size_t i) {
    const size_t c1 = m->config.channels1;
    const size_t in = m->blocks_in * (size_t)BLOCK;
    const size_t hidden = m->blocks_hidden * (size_t)BLOCK;
    const size_t pixels = (size_t)m->h2 * m->w2;
    size_t o, row; // the output of a weight, and the row of its block
    switch (index) {
    case 0: // (channels1, 1, 3, 3)
        o = i / TAPS;
        row = o / BLOCK * TAPS + i % TAPS;
        break;
    case 4: { // (channels2, channels1, 3, 3)
        const size_t c = i / TAPS % c1;
        o = i / TAPS / c1;
        row = ((o / BLOCK * m->blocks1 + c / BLOCK) * TAPS + i % TAPS) * BLOCK +
              c % BLOCK;
        break;
    }
    case 8: { // (hidden, channels2 * h2 * w2)
        const size_t inputs = m->config.channels2 * pixels;
        const size_t c = i % inputs / pixels;
        o = i / inputs;
        row = o / BLOCK * in + (c / BLOCK * pixels + i % pixels) * BLOCK +
              c % BLOCK;
        break;
    }
    case 10: // (classes, hidden)
        o = i / m->config.hidden;
        row = o / BLOCK * hidden + i % m->config.hidden;
        break;
    default: // biases and norms: one number per output
        return i;
    }
    return row * BLOCK + o % BLOCK;
}

/* Transform row `c` (one input channel) of one pair of blocks of conv2's weight
 * to Winograd's form. Store it in u2 (blocks2, positions, blocks1, BLOCK in,
 * BLOCK out) and in u2_t (blocks1, positions, blocks2, BLOCK out, BLOCK in). */
static void transform_row(struct cnn_model *m, int o, int b, int c) {
    const size_t size = (size_t)BLOCK * BLOCK;
    const float *from =
        m->weight[4] + (o * m->blocks1 + b) * TAPS * size + c * BLOCK;
    for (int v = 0; v < BLOCK; v += VLEN) {
        vfloat g[TAPS], u[POSITIONS];
        for (int t = 0; t < TAPS; t++) g[t] = vload(from + t * size + v);
        winograd_weight(u, g);
        for (int p = 0; p < POSITIONS; p++) {
            float *to = m->u2 + ((o * POSITIONS + p) * m->blocks1 + b) * size +
                        c * BLOCK + v;
            float *to_t = m->u2_t +
                          ((b * POSITIONS + p) * m->blocks2 + o) * size +
                          v * BLOCK + c;
            vstore(to, u[p]);
            for (int l = 0; l < VLEN; l++) to_t[l * BLOCK] = u[p][l];
        }
    }
}

/* Recompute the Winograd form of conv2's weight. */
void cnn_transform_weight2(struct cnn_model *m) {
    for (int o = 0; o < m->blocks2; o++)
        for (int b = 0; b < m->blocks1; b++)
            for (int c = 0; c < BLOCK; c++) transform_row(m, o, b, c);
}

/* Compute row `c` of one pair of blocks of conv2's gradient from the sum over
 * the workers. */
static void gradient_row(struct cnn_model *m, int o, int b, int c) {
    const size_t size = (size_t)BLOCK * BLOCK;
    float *to = m->gradient[4] + (o * m->blocks1 + b) * TAPS * size + c * BLOCK;
    for (int v = 0; v < BLOCK; v += VLEN) {
        vfloat g[TAPS], du[POSITIONS];
        for (int p = 0; p < POSITIONS; p++) {
            const size_t at =
                ((o * POSITIONS + p) * m->blocks1 + b) * size + c * BLOCK + v;
            du[p] = vload(m->worker[0].du2 + at);
            for (int t = 1; t < m->team; t++)
                du[p] += vload(m->worker[t].du2 + at);
        }
        winograd_weight_back(g, du);
        for (int t = 0; t < TAPS; t++) vstore(to + t * size + v, g[t]);
    }
}

void cnn_conv2_gradients(struct cnn_model *m) {
    const int rows = m->blocks2 * m->blocks1 * BLOCK;
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (int r = 0; r < rows; r++)
        gradient_row(m, r / BLOCK / m->blocks1, r / BLOCK % m->blocks1,
                     r % BLOCK);
}

/* Subtract lr * gradient from the parameters, beginning with float `first` of
 * their array. */
void cnn_update(struct cnn_model *m, size_t first, float lr) {
#pragma omp parallel for schedule(static) num_threads(m->team)
    for (size_t i = first; i < m->parameters; i++)
        m->weights[i] -= lr * m->gradients[i];
    cnn_transform_weight2(m);
}
