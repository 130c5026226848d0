/* cnn_params.c -- the parameters: their layouts, and the update.
 *
 * PyTorch's layouts are turned into blocked ones, in which the output channel
 * runs along the vectors and everything is padded with zeros to whole blocks:
 *
 *     conv1  (blocks1, 9, BLOCK)
 *     conv2  (blocks2, blocks1, 9, BLOCK of channels1, BLOCK of channels2)
 *     fc1    (blocks_hidden, inputs, BLOCK)  inputs: (blocks2, h2, w2, BLOCK)
 *     fc2    (blocks_out, hidden, BLOCK)
 *
 * The padding of weights and gradients is zero and stays so: a padded channel
 * has gamma 0, so nothing leaves it, and nothing comes back.
 */
#include "cnn_model.h"

/* Floats in each parameter, with padding. */
void cnn_param_sizes(struct cnn_model *m) {
    const size_t c1 = (size_t)m->blocks1 * BLOCK;
    const size_t c2 = (size_t)m->blocks2 * BLOCK;
    const size_t in = (size_t)m->blocks_in * BLOCK;
    const size_t hidden = (size_t)m->blocks_hidden * BLOCK;
    const size_t out = (size_t)m->blocks_out * BLOCK;
    const size_t size[WEFT_CNN_PARAMS] = {
        TAPS * c1,      c1, c1,          c1,     // conv1, bn1
        TAPS * c1 * c2, c2, c2,          c2,     // conv2, bn2
        in * hidden,    hidden, hidden * out, out, // fc1, fc2
    };
    for (int i = 0; i < WEFT_CNN_PARAMS; i++) m->size[i] = size[i];
}

/* Where element `i` of PyTorch's parameter `index` lies in ours. */
size_t cnn_param_offset(const struct cnn_model *m, int index, size_t i) {
    const size_t c1 = m->config.channels1;
    const size_t in = m->blocks_in * (size_t)BLOCK;
    const size_t hidden = m->blocks_hidden * (size_t)BLOCK;
    const size_t pixels = (size_t)m->h2 * m->w2;
    size_t o, row; // of weights: the output, the row of its block
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
    default: // one number per output
        return i;
    }
    return row * BLOCK + o % BLOCK;
}

/* One tap of one pair of blocks of conv2's weight, (in, out), to where the
 * data gradient wants it: (out, in), and the taps from last to first, since
 * going back a pixel meets them the other way round. */
static void flip_tap(struct cnn_model *m, int o, int b, int tap) {
    const size_t pair = (size_t)o * m->blocks1 + b;
    const size_t flipped = (size_t)b * m->blocks2 + o;
    const float *from = m->weight[4] + (pair * TAPS + tap) * BLOCK * BLOCK;
    float *to =
        m->flipped2 + (flipped * TAPS + TAPS - 1 - tap) * BLOCK * BLOCK;
    for (int j = 0; j < BLOCK; j++)
        for (int i = 0; i < BLOCK; i++) to[j * BLOCK + i] = from[i * BLOCK + j];
}

/* Bring flipped2 up to date with conv2's weight. */
void cnn_flip_weight2(struct cnn_model *m) {
    for (int o = 0; o < m->blocks2; o++)
        for (int b = 0; b < m->blocks1; b++)
            for (int tap = 0; tap < TAPS; tap++) flip_tap(m, o, b, tap);
}

/* Add up the workers' gradients of conv2's weight and update it, tap by tap. */
static void update_weight2(struct cnn_model *m, float lr) {
#pragma omp parallel for collapse(2) schedule(static) num_threads(m->team)
    for (int pair = 0; pair < m->blocks2 * m->blocks1; pair++)
        for (int tap = 0; tap < TAPS; tap++) {
            const size_t size = (size_t)BLOCK * BLOCK;
            const size_t at = ((size_t)pair * TAPS + tap) * size;
            float *weight = m->weight[4] + at, *gradient = m->gradient[4] + at;
            for (size_t i = 0; i < size; i++)
                gradient[i] = m->worker[0].dweight2[at + i];
            for (int t = 1; t < m->team; t++)
                for (size_t i = 0; i < size; i++)
                    gradient[i] += m->worker[t].dweight2[at + i];
            for (size_t i = 0; i < size; i++) weight[i] -= lr * gradient[i];
            flip_tap(m, pair / m->blocks1, pair % m->blocks1, tap);
        }
}

/* Parameters of the convolutions and norms -= lr * gradient. The linear layers
 * were updated where their gradients arose. */
void cnn_update(struct cnn_model *m, float lr) {
    update_weight2(m, lr);
    for (int p = 0; p < 8; p++)
        if (p != 4)
            for (size_t i = 0; i < m->size[p]; i++)
                m->weight[p][i] -= lr * m->gradient[p][i];
}
