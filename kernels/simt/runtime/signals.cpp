/* signals.cpp -- turns the faults of a kernel's thread into its launch's fault.
 *
 * The runtime handles the signals of faults while a launch runs, and for some
 * milliseconds after it (watchdog.cpp). Installing and removing five handlers
 * for each launch would double the cost of a short one. If the stack pointer is
 * on a fiber, the handler records the fault. It makes the thread continue in
 * land(), at the top of its stack. The thread never returns to its old place.
 * All other signals go to the previously installed handler. */
#include "signals.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../api/cuda_heap.h"

namespace simt::SIMT_FIBERS {

enum { ALTERNATE_STACK = 64 << 10 };

/* ---- hooks -------------------------------------------------------------- */

static bool is_ours(const Hook *hook, const struct sigaction *action) {
    return action->sa_flags & SA_SIGINFO &&
           action->sa_sigaction == hook->handler;
}

static bool is_plain(const struct sigaction *action, void (*handler)(int)) {
    return !(action->sa_flags & SA_SIGINFO) && action->sa_handler == handler;
}

void hook(Hook *hook, bool polite) {
    struct sigaction ours = {}, old;
    ours.sa_sigaction = hook->handler;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    if (sigaction(hook->number, &ours, &old)) return;
    if (polite && is_plain(&old, SIG_IGN)) {
        sigaction(hook->number, &old, 0);
    } else if (!is_ours(hook, &old)) {
        hook->later = old;
        // If the hook is already installed, `old` was installed over it and
        // calls it. If `old` were also the hook's `below`, the two handlers
        // would call each other forever.
        if (!hook->hooked) hook->below = old;
        hook->hooked = true;
        hook->passed = false;
    }
}

void unhook(Hook *hook) {
    if (!hook->hooked) return;
    struct sigaction old;
    sigaction(hook->number, &hook->later, &old);
    if (!is_ours(hook, &old))
        sigaction(hook->number, &old, 0); // another handler is on top and must
                                          // not be removed
    else
        hook->hooked =
            memcmp(&hook->later, &hook->below, sizeof hook->later) != 0;
}

void chain(Hook *hook, siginfo_t *info, void *context) {
    const int number = hook->number;
    // A handler that was installed after the hook comes first, but only once,
    // since it may call the hook again.
    const struct sigaction *below = hook->passed ? &hook->below : &hook->later;
    hook->passed = true;
    if (below->sa_flags & SA_SIGINFO) {
        below->sa_sigaction(number, info, context);
    } else if (is_plain(below, SIG_DFL) || is_plain(below, SIG_IGN)) {
        // A fault happens again when the handler returns, and is then handled
        // as without the hook. A signal that was sent must be sent again.
        const bool sent = info->si_code <= 0 || number == SIGINT;
        if (sent && is_plain(below, SIG_IGN)) return;
        sigaction(number, below, 0);
        if (sent) raise(number);
    } else {
        below->sa_handler(number);
    }
}

#if SIMT_SIGNALS
/* ---- the code after a fault ---------------------------------------------- */

static bool in_guard(const Fiber *self, uintptr_t address) {
    const uintptr_t slot = (uintptr_t)self & ~(uintptr_t)(SIMT_STACK - 1);
    return address - slot < (uintptr_t)sysconf(_SC_PAGESIZE);
}

static void note_address(Worker *worker, Fiber *self) {
    const Signal *got = &worker->got;
    const uintptr_t address = got->address;
    static const char *const how[] = {"access to", "load from", "store to"};
    simt_fault *fault;
    if (in_guard(self, address) || in_guard(self, got->stack_pointer)) {
        fault =
            note_fault(worker, self, SIMT_FAULT_STACK, cudaErrorLaunchFailure,
                       "stack overflow: a thread has %d KB for its local "
                       "variables and calls",
                       (SIMT_STACK - 2 * SIMT_PAGE) >> 10);
    } else if (got->misaligned) {
        fault = note_fault(worker, self, SIMT_FAULT_ADDRESS,
                           cudaErrorMisalignedAddress,
                           "misaligned address: %s %#zx", how[got->write + 1],
                           (size_t)address);
    } else {
        const bool null = address < (uintptr_t)SIMT_PAGE && !got->unknown;
        char where[160];
        locate(address, where, sizeof where);
        fault = note_fault(worker, self, SIMT_FAULT_ADDRESS,
                           cudaErrorIllegalAddress,
                           "illegal address: %s %#zx%s%s", how[got->write + 1],
                           (size_t)address, null ? " (a null pointer)" : where,
                           got->unknown ? " (not a valid address)" : "");
    }
    if (!fault) return;
    fault->address = address;
    fault->write = got->write;
}

/* Record the fault and end the block. This runs on the thread's stack instead
 * of the code that the fault has interrupted. */
static void land() {
    announce_start(here()); // the frames below are no longer used
    Worker *worker = this_worker;
    Fiber *self = here();
    clean_processor(worker->modes);
    switch (worker->got.number) {
    case SIGFPE:
        note_fault(worker, self, SIMT_FAULT_ARITHMETIC, cudaErrorLaunchFailure,
                   "integer division by zero, or a quotient that is too large");
        break;
    case SIGILL:
        note_fault(worker, self, SIMT_FAULT_ILLEGAL,
                   cudaErrorIllegalInstruction,
                   "illegal instruction: __builtin_trap(), or code that the "
                   "compiler considers unreachable");
        break;
    case SIGABRT:
        note_fault(worker, self, SIMT_FAULT_EXCEPTION, cudaErrorLaunchFailure,
                   "abort() was called");
        break;
    default: note_address(worker, self);
    }
    abandon(worker);
}

/* ---- the handler -------------------------------------------------------- */

static void on_fault(int number, siginfo_t *info, void *context);

static Hook hooks[] = {{SIGSEGV, on_fault, {}, {}, false, false},
                       {SIGBUS, on_fault, {}, {}, false, false},
                       {SIGFPE, on_fault, {}, {}, false, false},
                       {SIGILL, on_fault, {}, {}, false, false},
                       {SIGABRT, on_fault, {}, {}, false, false}};

static Hook *hook_of(int number) {
    Hook *hook = hooks;
    while (hook->number != number) hook++;
    return hook;
}

static void write_down(Signal *got, int number, const siginfo_t *info,
                       const ucontext_t *context) {
    got->number = number;
    got->stack_pointer = stack_pointer(context);
    got->address = (uintptr_t)info->si_addr;
    got->write = was_write(context);
    got->misaligned = number == SIGBUS && info->si_code == BUS_ADRALN;
    got->unknown = false;
    if (number != SIGSEGV || !address_unknown(context)) return;
    const uintptr_t address = operand_address(context, &got->write);
    // This is 0 or 0x1ffff for a canonical address of 48 bits. Linux provides
    // longer addresses (57 bits) only on request.
    const uintptr_t high = address >> 47;
    got->address = address;
    got->misaligned = address % 16 && (high == 0 || high == 0x1ffff);
    got->unknown = !got->misaligned;
}

/* Return an address on the stack of the interrupted thread. Code that makes
 * room for a large array moves its stack pointer by a page and then touches
 * that page's upper end. When it hits the guard page, the pointer is already
 * below the page. */
static uintptr_t stack_of(const siginfo_t *info, const ucontext_t *context) {
    const uintptr_t at = stack_pointer(context);
    const uintptr_t touched = (uintptr_t)info->si_addr;
    if (touched - at >= (uintptr_t)SIMT_PAGE) return at;
    const Worker *worker = worker_at(touched);
    if (!worker || !in_guard(fiber_at(touched), touched)) return at;
    const uintptr_t first = (uintptr_t)worker->slots;
    return worker->promoted || touched - first < SIMT_STACK ? touched : at;
}

static void on_fault(int number, siginfo_t *info, void *raw) {
    ucontext_t *context = (ucontext_t *)raw;
    const uintptr_t at = stack_of(info, context);
    Worker *worker = worker_at(at);
    // If another process sent the signal, it is meant for the whole process.
    const bool mine = info->si_code > 0 ||
                      (info->si_code == SI_TKILL && info->si_pid == getpid());
    if (!worker || !mine) return chain(hook_of(number), info, raw);
    write_down(&worker->got, number, info, context);
    worker->stopped_at = program_counter(context);
    redirect(context, (uintptr_t)fiber_at(at), land);
}

/* ---- the alternate stack for handlers ------------------------------------ */

/* The alternate stack of a thread's handlers, since a fault may mean that the
 * thread's stack is full. */
struct AlternateStack {
    void *memory = 0;
    bool checked = false;
    void provide();
    ~AlternateStack();
};

void AlternateStack::provide() {
    stack_t now, ours = {};
    checked = true;
    // An existing alternate stack suffices; Python's faulthandler has one.
    if (sigaltstack(0, &now) || !(now.ss_flags & SS_DISABLE)) return;
    void *got = mmap(0, ALTERNATE_STACK, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return;
    ours.ss_sp = memory = got;
    ours.ss_size = ALTERNATE_STACK;
    sigaltstack(&ours, 0);
}

AlternateStack::~AlternateStack() {
    if (!memory) return;
    stack_t now, none = {};
    none.ss_flags = SS_DISABLE;
    if (!sigaltstack(0, &now) && now.ss_sp == memory) sigaltstack(&none, 0);
    munmap(memory, ALTERNATE_STACK);
}

void provide_stack() {
    static thread_local AlternateStack stack;
    if (!stack.checked) stack.provide();
}

/* ---- the host's own faults ----------------------------------------------- */

static void on_host_fault(int number, siginfo_t *info, void *context);
static Hook host_hook = {SIGSEGV, on_host_fault, {}, {}, false, false};

/* Handle a fault of the host, whose memory may have guard pages, too. Report
 * its place. */
static void on_host_fault(int, siginfo_t *info, void *context) {
    char where[160];
    locate((uintptr_t)info->si_addr, where, sizeof where);
    if (*where)
        warn("the host, not a kernel, touches %p%s", info->si_addr, where);
    chain(&host_hook, info, context);
}

static bool caught; // guarded by launching()

void catch_faults() {
    struct sigaction now;
    // The handlers are still installed from the last launch, unless another
    // handler has been installed over them.
    if (caught && !sigaction(SIGSEGV, 0, &now) && is_ours(&hooks[0], &now))
        return;
    for (Hook &each : hooks) hook(&each, false);
    caught = true;
}

void release_faults() {
    if (!caught) return;
    for (Hook &each : hooks) unhook(&each);
    caught = false;
}
#else
void provide_stack() {}
void catch_faults() {}
void release_faults() {}
#endif

} // namespace simt::SIMT_FIBERS

extern "C" void simt_tell_host_faults(void) {
#if SIMT_SIGNALS
    simt::provide_stack();
    simt::hook(&simt::host_hook, true);
#endif
}
