/* hooks.cpp -- the functions that instrumented code calls before its loads and
 * stores. */
#include "hooks.h"
#include "plain.h"

namespace simt::SIMT_FIBERS {

void hook_range(const void *start, size_t size, const void *pc, Mark mark) {
    const uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    if (stack - fibers.base >= fibers.bytes) return;
    Fiber *self = fiber_at(stack);
    Checker *checker = self->block->checker;
    uintptr_t at = (uintptr_t)start;
    if (!checker || at - fibers.base < fibers.bytes) return;
    mark.aligned = false; // the type is unknown
    const uintptr_t both = at | size;
    const unsigned piece = both % 16 == 0  ? 16
                           : both % 8 == 0 ? 8
                           : both % 4 == 0 ? 4
                           : both % 2 == 0 ? 2
                                           : 1;
    for (size_t i = 0; i < size; i += piece, at += piece) switch (piece) {
        case 16: access<16>(checker, self, at, pc, mark); break;
        case 8: access<8>(checker, self, at, pc, mark); break;
        case 4: access<4>(checker, self, at, pc, mark); break;
        case 2: access<2>(checker, self, at, pc, mark); break;
        default: access<1>(checker, self, at, pc, mark);
        }
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

static constexpr Mark READING = {READ, EFFECT_READS, false, true};
static constexpr Mark WRITING = {WRITE, EFFECT_WRITES, false, true};
static constexpr Mark LOOSE_READ = {READ, EFFECT_READS, false, false};
static constexpr Mark LOOSE_WRITE = {WRITE, EFFECT_WRITES, false, false};
static constexpr Mark VOLATILE_READ = {READ, EFFECT_READS, true, true};
static constexpr Mark VOLATILE_WRITE = {WRITE, EFFECT_WRITES, true, true};

/* Continue with an access that failed the quick check. */
template <unsigned size, Kind kind>
__attribute__((noinline)) static void go_on(const void *address, const void *pc,
                                            Mark mark) {
    if (!passes<size, kind, PLAIN>((uintptr_t)address, pc))
        hook<size>(address, pc, mark);
}

#define SIMT_PC __builtin_return_address(0)
#define SIMT_HOOK(name, size, mark) \
    void __tsan_##name(void *address) { hook<size>(address, SIMT_PC, mark); }
#define SIMT_PLAIN_HOOK(name, size, mark)                            \
    void __tsan_##name(void *address) {                              \
        const void *pc = SIMT_PC;                                    \
        if (!passes<size, mark.kind, QUICK>((uintptr_t)address, pc)) \
            go_on<size, mark.kind>(address, pc, mark);               \
    }
#define SIMT_HOOKS(size)                                          \
    SIMT_PLAIN_HOOK(read##size, size, READING)                    \
    SIMT_PLAIN_HOOK(write##size, size, WRITING)                   \
    SIMT_PLAIN_HOOK(unaligned_read##size, size, LOOSE_READ)       \
    SIMT_PLAIN_HOOK(unaligned_write##size, size, LOOSE_WRITE)     \
    SIMT_HOOK(volatile_read##size, size, VOLATILE_READ)           \
    SIMT_HOOK(volatile_write##size, size, VOLATILE_WRITE)         \
    SIMT_HOOK(unaligned_volatile_read##size, size, VOLATILE_READ) \
    SIMT_HOOK(unaligned_volatile_write##size, size, VOLATILE_WRITE)

#pragma GCC visibility push(default)
extern "C" {

SIMT_HOOKS(1)
SIMT_HOOKS(2)
SIMT_HOOKS(4)
SIMT_HOOKS(8)
SIMT_HOOKS(16)

void __tsan_read_range(void *address, size_t size) {
    hook_range(address, size, SIMT_PC, LOOSE_READ);
}
void __tsan_write_range(void *address, size_t size) {
    hook_range(address, size, SIMT_PC, LOOSE_WRITE);
}

/* Start when an instrumented library is loaded, before any of its code runs. */
void __tsan_init() { start_checking(); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
/* Record a constructor's store of the pointer to an object's virtual
 * functions. */
void __tsan_vptr_update(void **address, void *) {
    hook<sizeof(void *)>(address, SIMT_PC, WRITING);
}
void __tsan_vptr_read(void **address) {
    hook<sizeof(void *)>(address, SIMT_PC, READING);
}

/* Record the start of a basic block, where g++ inserts this call. */
void __sanitizer_cov_trace_pc() {
    const uintptr_t stack = on_stack();
    if (stack - fibers.base >= fibers.bytes) return;
    Fiber *self = fiber_at(stack);
    Checker *checker = self->block->checker;
    if (!checker || self->block->inside) return; // steps of run_threads()
    checker->step = SIMT_PC;
    if (checker->log_on) log_step(checker, self, checker->step);
}

} // extern "C"
#pragma GCC visibility pop
