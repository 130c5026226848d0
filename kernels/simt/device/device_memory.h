/* device_memory.h -- loads and stores with hints, and the C library functions
 * that a kernel may call without any #include: printf(), malloc(), memcpy(). */
#ifndef SIMT_DEVICE_MEMORY_H
#define SIMT_DEVICE_MEMORY_H
#include "../runtime/engine.h"

/* These are declared word for word as in <stdio.h>, <stdlib.h> and <time.h>,
 * except that printf() is the function of device_print.cpp. Its output goes to
 * stdout. device_heap.h has the memory of `new` and malloc(). */
extern "C" {
int printf(const char *__restrict format, ...) __asm__("simt_printf")
    __attribute__((format(printf, 1, 2)));
void *malloc(size_t size) noexcept;
void free(void *memory) noexcept;
long clock(void) noexcept; /* CPU time of the process in microseconds */
}

/* Cache hints have no effect on a CPU. */
#define SIMT_LOAD(name) \
    template <class T> SIMT_INLINE T name(const T *address) { return *address; }
SIMT_LOAD(__ldg)
SIMT_LOAD(__ldca)
SIMT_LOAD(__ldcg)
SIMT_LOAD(__ldcs)
SIMT_LOAD(__ldlu)
SIMT_LOAD(__ldcv)
#undef SIMT_LOAD
#define SIMT_STORE(name)                                            \
    template <class T> SIMT_INLINE void name(T *address, T value) { \
        *address = value;                                           \
    }
SIMT_STORE(__stcg)
SIMT_STORE(__stcs)
SIMT_STORE(__stwb)
SIMT_STORE(__stwt)
#undef SIMT_STORE

/* Before version 13, g++ has no equivalent of this function. */
#define __builtin_assume(condition) \
    ((condition) ? (void)0 : __builtin_unreachable())
#define __assume(condition) __builtin_assume(condition)

#endif
