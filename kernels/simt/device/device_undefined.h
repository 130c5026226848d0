/* device_undefined.h -- the watch build's reports of undefined behaviour. g++
 * inserts calls to the functions in this header, which are inlined and call
 * watch/undefined.cpp. */
#ifndef SIMT_DEVICE_UNDEFINED_H
#define SIMT_DEVICE_UNDEFINED_H
#if defined(SIMT_CHECK) && defined(__x86_64__) && !defined(__clang__)

#ifdef __AVX512F__
#define SIMT_WIDE                                                             \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",        \
        "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define SIMT_WIDE
#endif

/* Make a call that changes no memory of the kernel. After a plain call, g++
 * would reload values that it has in registers, and the counters would count
 * those loads. The call preserves the 128 bytes that a function may use below
 * its stack pointer. */
#define SIMT_TELL(function, ...)                                               \
    __asm__ volatile("movq %%rsp, %%rbx\n\t"                                   \
                     "leaq -128(%%rsp), %%rsp\n\t"                             \
                     "andq $-16, %%rsp\n\t"                                    \
                     "call " #function "@PLT\n\t"                              \
                     "movq %%rbx, %%rsp"                                       \
                     : __VA_ARGS__                                             \
                     :                                                         \
                     : "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "xmm0",  \
                       "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", \
                       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",     \
                       "xmm14", "xmm15" SIMT_WIDE)
#define SIMT_TELLS __attribute__((always_inline, gnu_inline)) extern inline void

extern "C" {
SIMT_TELLS __builtin___ubsan_handle_shift_out_of_bounds(void *data, void *x,
                                                        void *count) {
    SIMT_TELL(__ubsan_handle_shift_out_of_bounds, "+D"(data), "+S"(x),
              "+d"(count));
}
SIMT_TELLS __builtin___ubsan_handle_float_cast_overflow(void *data, void *x) {
    void *none;
    SIMT_TELL(__ubsan_handle_float_cast_overflow, "+D"(data), "+S"(x),
              "=d"(none));
}
}
#undef SIMT_TELLS
#undef SIMT_TELL
#undef SIMT_WIDE
#endif
#endif
