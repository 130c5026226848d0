/* Answers to the exercises in C of 05_c_and_cffi.ipynb; mistakes that must not
 * pass stand in 05_c_and_cffi.py, as changes of these. */
#include <stddef.h>
#include <stdlib.h>

void swap(float *a, float *b) {
    const float kept = *a;
    *a = *b;
    *b = kept;
}

int zeros(float **out, size_t n) {
    float *room = calloc(n, sizeof(float));
    if (room == NULL) return -1;
    *out = room;
    return 0;
}

long last_index(const float *x, size_t n, float value) {
    for (size_t i = n; i-- > 0;)
        if (x[i] == value) return (long)i;
    return -1;
}

void matmul_tn(float *c, const float *a, const float *b, int m, int n, int k) {
    for (int at = 0; at < m * n; at++) c[at] = 0;
    for (int i = 0; i < k; i++)
        for (int row = 0; row < m; row++)
            for (int col = 0; col < n; col++)
                c[row * n + col] += a[i * m + row] * b[i * n + col];
}
