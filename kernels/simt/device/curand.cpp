/* curand.cpp -- skips many steps of XORWOW in one product.
 *
 * A step is linear over the bits of the state: it multiplies them by a 160 x
 * 160 matrix A of bits. n steps multiply by A^n, the product of those A^(2^i)
 * for which bit i of n is set. These powers are computed once, each as the
 * square of the previous one. */
#include "curand_kernel.h"

namespace {

enum {
    WORDS = 5,
    STATE_BITS = 32 * WORDS,
    SEQUENCE = 67, /* sequences are 2^67 steps apart */
    POWERS = SEQUENCE + 64
};

struct alignas(32) Column {
    unsigned word[8]; /* five words, and three more for speed */
};

struct Matrix {
    Column column[STATE_BITS]; /* column i is the image of the state's bit i */
};

Column times(const Matrix &m, const Column &x) {
    Column y = {};
    for (int i = 0; i < STATE_BITS; i++) {
        const unsigned all = -(x.word[i / 32] >> i % 32 & 1);
        for (int k = 0; k < 8; k++) y.word[k] ^= m.column[i].word[k] & all;
    }
    return y;
}

struct Powers {
    Matrix of_two[POWERS]; /* A, A^2, A^4, ... */

    Powers() {
        for (int i = 0; i < STATE_BITS; i++) {
            curandStateXORWOW_t state = {};
            state.v[i / 32] = 1u << i % 32;
            curand(&state);
            Column &column = of_two[0].column[i] = {};
            memcpy(column.word, state.v, sizeof state.v);
        }
        for (int p = 1; p < POWERS; p++)
            for (int i = 0; i < STATE_BITS; i++)
                of_two[p].column[i] =
                    times(of_two[p - 1], of_two[p - 1].column[i]);
    }
};

/* The last skip of this CPU thread. Neighbouring threads of a kernel request
 * neighbouring sequences, which are one product apart. */
struct Last {
    Column from, to;
    unsigned long long n;
    int first;
};

bool same(const Column &a, const Column &b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

void skip(unsigned v[5], unsigned long long n, int first) {
    if (n == 0) return;
    static const Powers powers;
    static thread_local Last last;
    Column from = {};
    memcpy(from.word, v, WORDS * sizeof *v);
    Column x = from;
    unsigned long long left = n;
    const unsigned long long further = n - last.n;
    if (last.first == first && last.n <= n && same(from, last.from) &&
        __builtin_popcountll(further) < __builtin_popcountll(n)) {
        x = last.to;
        left = further;
    }
    for (int p = first; left; p++, left >>= 1)
        if (left & 1) x = times(powers.of_two[p], x);
    last = {from, x, n, first};
    memcpy(v, x.word, WORDS * sizeof *v);
}

} // namespace

namespace simt {

void xorwow_skip(unsigned v[5], unsigned long long steps) { skip(v, steps, 0); }

void xorwow_skip_sequences(unsigned v[5], unsigned long long sequences) {
    skip(v, sequences, SEQUENCE);
}

} // namespace simt
