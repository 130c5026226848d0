/* fiber_x86.h -- fibers on x86-64: a switch takes a few instructions and is
 * inlined. */
#ifndef SIMT_FIBER_X86_H
#define SIMT_FIBER_X86_H

namespace simt::SIMT_FIBERS {

/* Return the running thread's Fiber. */
static inline __attribute__((always_inline, const)) Fiber *here() {
    uintptr_t sp;
    asm("movq %%rsp, %0" : "=r"(sp));
    return fiber_at(sp);
}

// With AVX-512, the compiler would keep values in these registers across the
// switch, since the ABI does not list the switch as a user of them.
#ifdef __AVX512F__
#define SIMT_AVX512_CLOBBERS                                                  \
    , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", \
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",        \
        "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7"
#else
#define SIMT_AVX512_CLOBBERS
#endif

/* Suspend `from` and continue `to`. Return when another fiber switches back.
 *
 * Every register is declared clobbered, so the compiler saves the few that it
 * still needs. This code saves the other registers: the stack pointer and rbp,
 * which may be the frame pointer. It also saves the address at which to
 * continue, which is on top of the stack of `to`. It uses jmp instead of ret,
 * because the CPU predicts a ret from the matching call. Since there is no such
 * call, each ret would cost a misprediction. */
SIMT_INLINE void switch_fiber(Fiber *from, Fiber *to) {
    announce_switch(to);
    void **save = &from->resume, *resume = to->resume;
    asm volatile("leaq -128(%%rsp), %%rsp\n\t" // step over the red zone
                 "pushq %%rbp\n\t"
                 "leaq 1f(%%rip), %%rax\n\t"
                 "pushq %%rax\n\t"
                 "movq %%rsp, (%0)\n\t"
                 "movq %1, %%rsp\n\t"
                 "popq %%rax\n\t"
                 "jmp *%%rax\n"
                 "1:\tpopq %%rbp\n\t"
                 "leaq 128(%%rsp), %%rsp"
                 : "+D"(save), "+S"(resume)
                 :
                 : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12",
                   "r13", "r14", "r15", "memory", "cc", "xmm0", "xmm1", "xmm2",
                   "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                   "xmm15" SIMT_AVX512_CLOBBERS);
    announce_arrival();
}

/* Make the next switch to `fiber` call entry() on its empty stack. */
static inline void prepare_fiber(Fiber *fiber, void (*entry)()) {
    // The stack begins directly below the Fiber. entry() expects the state
    // after a call: the return address on top, and a 16-byte aligned address
    // above it.
    void **top = (void **)fiber;
    *--top = 0;
    *--top = 0;
    top[0] = (void *)entry;
    fiber->resume = top;
}

} // namespace simt::SIMT_FIBERS
#endif
