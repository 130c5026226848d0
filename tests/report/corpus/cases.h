/* cases.h -- a program that consists of cases, each with its own kernels.
 *
 *     prog             runs every case, in the order of the source
 *     prog NAME...     runs the named cases
 *
 * A case launches its kernels and returns whether their results are right. The
 * program prints that, and its exit status is the number of wrong cases. In
 * faulty/, the line of a fault ends in `// FAULT: kind`, followed by the facts
 * that do not depend on the order of the threads:
 *
 *     x[i] = 1; // FAULT: bounds, block 3, thread 4, x[100]
 *
 * A line that a report may name as well, such as that of a race's other access,
 * ends in `// OTHER`. Marks belong to the first CASE below them. */
#pragma once
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct Case {
    const char *name;
    bool (*run)();
};

enum { MAX_CASES = 64 };
static Case all_cases[MAX_CASES];
static int case_count;

struct AddCase {
    AddCase(const char *name, bool (*run)()) {
        all_cases[case_count++] = {name, run};
    }
};

#define CASE(name)                                 \
    static bool case_##name();                     \
    static AddCase add_##name(#name, case_##name); \
    static bool case_##name()

/* Return n elements of the device that have never been written. */
template <class T> static T *unwritten(size_t n) {
    T *p = 0;
    cudaMalloc(&p, n * sizeof(T));
    return p;
}

/* Return n elements of the device, all bytes 0. */
template <class T> static T *zeros(size_t n) {
    T *p = unwritten<T>(n);
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}

/* Return element i of a test array: small, and unlike its neighbors. */
static inline int value_at(size_t i) { return (int)(i * 7 % 31) + 1; }

/* Return n elements of the device with those values. */
template <class T> static T *values(size_t n) {
    T *p = unwritten<T>(n), *host = (T *)malloc(n * sizeof(T));
    for (size_t i = 0; i < n; i++) host[i] = (T)value_at(i);
    cudaMemcpy(p, host, n * sizeof(T), cudaMemcpyHostToDevice);
    free(host);
    return p;
}

/* Return a copy of n elements of the device, which is valid until the next call
 * with this type. */
template <class T> static T *fetch(const T *p, size_t n) {
    static thread_local T *host;
    host = (T *)realloc((void *)host, n * sizeof(T));
    if (cudaMemcpy(host, p, n * sizeof(T), cudaMemcpyDeviceToHost) !=
        cudaSuccess)
        memset((void *)host, 0xff, n * sizeof(T));
    return host;
}

/* Return whether n elements of the device are want(i). */
template <class T, class F> static bool equal(const T *p, size_t n, F want) {
    const T *host = fetch(p, n);
    for (size_t i = 0; i < n; i++)
        if (!(host[i] == (T)want(i))) {
            printf("element %d is %g, want %g\n", (int)i, (double)host[i],
                   (double)want(i));
            return false;
        }
    return true;
}

/* Return a faulty case's status, since it has no right result. */
static inline bool launched() { return cudaDeviceSynchronize() == cudaSuccess; }

int main(int argc, char **argv) {
    int wrong = 0;
    for (int i = 0; i < case_count; i++) {
        const Case *it = &all_cases[i];
        bool wanted = argc == 1;
        for (int k = 1; k < argc; k++) wanted |= !strcmp(argv[k], it->name);
        if (!wanted) continue;
        const bool right = it->run() && cudaDeviceSynchronize() == cudaSuccess;
        printf("%s %s\n", it->name, right ? "right" : "wrong");
        fflush(stdout);
        wrong += !right;
    }
    return wrong;
}
