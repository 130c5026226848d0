/* signals.h -- signal handlers that are installed and removed, and the
 * registers of interrupted code. */
#ifndef SIMT_SIGNALS_H
#define SIMT_SIGNALS_H
#include <signal.h>
#include <ucontext.h>

#include "runtime.h"

/* Whether signals can be handled. If this is 0, a fault of a kernel ends the
 * process, and nothing ends a kernel that waits forever. */
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define SIMT_SIGNALS 1
#else
#define SIMT_SIGNALS 0
#endif

namespace simt::SIMT_FIBERS {

/* A signal handler of the runtime, on top of the previous one. */
struct Hook {
    int number;
    void (*handler)(int, siginfo_t *, void *);
    struct sigaction below; /* called by chain() */
    struct sigaction later; /* restored by unhook(); usually the same as
                             * `below` */
    bool hooked;
    bool passed; /* whether chain() has called `later` */
};

/* Install the handler. If `polite`, an ignored signal stays ignored. */
void hook(Hook *hook, bool polite);
void unhook(Hook *hook);
/* Handle the signal as if without the hook. This may end the process. */
void chain(Hook *hook, siginfo_t *info, void *context);

/* The code of one library or program in memory. */
struct Text {
    volatile uintptr_t start, size; /* size 0: unknown */
};

/* preempt.cpp */
void find_text(Text *text, const void *inside);
void prepare_preemption();
/* Make the interrupted thread yield to other threads, if its stack has room for
 * that. */
void preempt(ucontext_t *context);
/* Make the interrupted function, or one of its callers, continue in
 * land_stopped() when it returns to `text`. */
void stop_at_return(const Text *text);

/* watchdog.cpp */
void land_stopped();

/* Return the worker whose fibers' stacks contain `address`, or NULL if there is
 * none. */
Worker *worker_at(uintptr_t address);

#if SIMT_SIGNALS && defined(__x86_64__)
inline uintptr_t stack_pointer(const ucontext_t *context) {
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
}
inline uintptr_t program_counter(const ucontext_t *context) {
    return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
}
/* Make the interrupted thread continue with to(), which never returns, on the
 * stack that ends at `top`. */
inline void redirect(ucontext_t *context, uintptr_t top, void (*to)()) {
    greg_t *registers = context->uc_mcontext.gregs;
    registers[REG_RSP] = (greg_t)(top / 16 * 16 - 8); // the stack pointer must
                                                      // look as after a call
    registers[REG_RIP] = (greg_t)(uintptr_t)to;
    registers[REG_EFL] &= ~0x400; // string instructions move upwards
}
/* Return 1 if the faulting access was a store, 0 if a load, -1 if unknown. */
inline int was_write(const ucontext_t *context) {
    const greg_t *registers = context->uc_mcontext.gregs;
    const bool page_fault = registers[REG_TRAPNO] == 14;
    return page_fault ? (int)(registers[REG_ERR] >> 1 & 1) : -1;
}
/* Read the processor's modes, compare them, or restore them after an
 * interrupted computation. */
inline unsigned processor_modes() { return __builtin_ia32_stmxcsr(); }
inline bool modes_changed(unsigned since) {
    return (processor_modes() ^ since) & ~0x3fu; // except for the exception
                                                 // flags that it raises
}
inline void clean_processor(unsigned modes) {
    asm volatile("emms" ::: "memory");
    __builtin_ia32_ldmxcsr(modes);
}
/* Return the address that the interrupted instruction accesses, or 0 if it is
 * unknown; *write receives the value of was_write() (faulting_address.cpp). */
uintptr_t operand_address(const ucontext_t *context, int *write);
/* Return whether the processor rejected an access without reporting its
 * address. Such an access is to an invalid address, or by an instruction that
 * requires alignment. */
inline bool address_unknown(const ucontext_t *context) {
    return context->uc_mcontext.gregs[REG_TRAPNO] == 13;
}
#elif SIMT_SIGNALS
inline uintptr_t stack_pointer(const ucontext_t *context) {
    return (uintptr_t)context->uc_mcontext.sp;
}
inline uintptr_t program_counter(const ucontext_t *context) {
    return (uintptr_t)context->uc_mcontext.pc;
}
inline void redirect(ucontext_t *context, uintptr_t top, void (*to)()) {
    context->uc_mcontext.sp = top / 16 * 16;
    context->uc_mcontext.pc = (uintptr_t)to;
}
inline int was_write(const ucontext_t *) { return -1; }
inline unsigned processor_modes() { return 0; }
inline bool modes_changed(unsigned) { return false; }
inline void clean_processor(unsigned) {}
inline bool address_unknown(const ucontext_t *) { return false; }
inline uintptr_t operand_address(const ucontext_t *, int *) { return 0; }
#else
inline unsigned processor_modes() { return 0; }
inline bool modes_changed(unsigned) { return false; }
inline void clean_processor(unsigned) {}
#endif

} // namespace simt::SIMT_FIBERS
#endif
