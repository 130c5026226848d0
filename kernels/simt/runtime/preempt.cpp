/* preempt.cpp -- makes a running thread yield to other threads, or leave.
 *
 * A signal handler cannot switch fibers, since it must return first. So it
 * makes the thread continue in this file's code, as if the thread had called
 * that code between two of its instructions. The code saves every register,
 * lets the other fibers run, restores the registers, and jumps back. */
#include "signals.h"

#if SIMT_SIGNALS
#include <link.h>
#include <sched.h>
#include <unistd.h>
#include <unwind.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace simt::SIMT_FIBERS {

/* ---- the extent of code -------------------------------------------------- */

struct Search {
    uintptr_t address;
    Text *found;
};

static int look_at_object(struct dl_phdr_info *info, size_t, void *raw) {
    Search *search = (Search *)raw;
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
        const uintptr_t start = info->dlpi_addr + part->p_vaddr;
        const uintptr_t end = start + part->p_memsz;
        if (start < low) low = start;
        if (end > high) high = end;
    }
    if (search->address < low || search->address >= high) return 0;
    search->found->size = 0; // a handler may be reading `found`: its size must
                             // never be too large
    search->found->start = low;
    search->found->size = high - low;
    return 1;
}

void find_text(Text *text, const void *inside) {
    Search search = {(uintptr_t)inside, text};
    if (!dl_iterate_phdr(look_at_object, &search)) text->size = 0;
}

#ifdef __x86_64__
/* ---- letting others run ------------------------------------------------- */

} // namespace simt::SIMT_FIBERS

extern "C" {
__attribute__((visibility("hidden"))) uint64_t simt_saved_size;
__attribute__((visibility("hidden"))) unsigned simt_saved_parts;
__attribute__((visibility("hidden"))) void simt_let_others_run() {
    simt::Fiber *self = simt::here();
    simt::yield(self);
    // This is the last thread of its block, so another worker must end its
    // wait.
    if (self->next == self) sched_yield();
}
__attribute__((visibility("hidden"))) void simt_preempted();
__attribute__((visibility("hidden"))) void simt_returned();
__attribute__((visibility("hidden"), noreturn)) void simt_leave() {
    simt::land_stopped();
    __builtin_unreachable();
}
}

// The top of the stack holds the address at which to continue. The stack of the
// interrupted code is 128 bytes above it, since that code may be using those
// bytes (the red zone).
asm(R"(
    .text
    .p2align 4
    .hidden simt_preempted
    .type simt_preempted, @function
simt_preempted:
    pushfq
    cld
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rbx
    pushq %rbp
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, %rbp
    subq simt_saved_size(%rip), %rsp
    andq $-64, %rsp
    xorl %edx, %edx
    movq %rdx, 512(%rsp)    # the header of the area: all 64 bytes
    movq %rdx, 520(%rsp)
    movq %rdx, 528(%rsp)
    movq %rdx, 536(%rsp)
    movq %rdx, 544(%rsp)
    movq %rdx, 552(%rsp)
    movq %rdx, 560(%rsp)
    movq %rdx, 568(%rsp)
    movl simt_saved_parts(%rip), %eax
    xsave64 (%rsp)
    testl $4, %eax
    jz 1f
    vzeroupper
1:  emms
    call simt_let_others_run
    movl simt_saved_parts(%rip), %eax
    xorl %edx, %edx
    xrstor64 (%rsp)
    movq %rbp, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rbp
    popq %rbx
    popq %rdx
    popq %rcx
    popq %rax
    popfq
    ret $128
    .size simt_preempted, . - simt_preempted

    .p2align 4
    .hidden simt_returned
    .type simt_returned, @function
simt_returned:
    andq $-16, %rsp
    call simt_leave
    .size simt_returned, . - simt_returned
)");

namespace simt::SIMT_FIBERS {

/* Determine which registers to save: the x87, SSE, AVX and AVX-512
 * registers. */
void prepare_preemption() {
    enum { WANTED = 0xe7 };
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
    asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    const unsigned parts = a & WANTED;
    uint64_t size = 512 + 64; // x87, SSE, and the header
    for (unsigned part = 2; part < 8; part++) {
        if (!(parts >> part & 1)) continue;
        if (!__get_cpuid_count(13, part, &a, &b, &c, &d)) return;
        if (size < (uint64_t)a + b) size = (uint64_t)a + b;
    }
    simt_saved_size = size;
    __atomic_store_n(&simt_saved_parts, parts, __ATOMIC_RELEASE);
}

void preempt(ucontext_t *context) {
    enum { RED_ZONE = 128, ROOM = 16 << 10 };
    const uintptr_t at = stack_pointer(context);
    const uintptr_t used = (at & ~(uintptr_t)(SIMT_STACK - 1)) + SIMT_PAGE;
    if (!simt_saved_parts || at < used + ROOM) return;
    uintptr_t *top = (uintptr_t *)(at - RED_ZONE) - 1;
    *top = program_counter(context);
    context->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)top;
    context->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)simt_preempted;
}

/* ---- leaving at the next return ----------------------------------------- */

static _Unwind_Reason_Code change_return(struct _Unwind_Context *frame,
                                         void *raw) {
    const Text *text = (const Text *)raw;
    const uintptr_t code = _Unwind_GetIP(frame);
    // This frame's code is outside `text`; continue with the next frame.
    if (code - text->start >= text->size) return _URC_NO_REASON;
    uintptr_t *slot = (uintptr_t *)_Unwind_GetCFA(frame) - 1;
    if (worker_at((uintptr_t)slot) && *slot == code)
        *slot = (uintptr_t)simt_returned;
    return _URC_NORMAL_STOP;
}

void stop_at_return(const Text *text) {
    // The frames below, those of the handler and of the library, have exception
    // tables. Reading these allocates nothing and takes no lock.
    _Unwind_Backtrace(change_return, (void *)text);
}
#else
void prepare_preemption() {}
void preempt(ucontext_t *) {}
void stop_at_return(const Text *) {} // retried until the thread has left that
                                     // code
#endif

} // namespace simt::SIMT_FIBERS
#endif
