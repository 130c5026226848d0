/* block.cpp -- one block on one CPU thread: promotion to fibers, the ends of
 * threads, meetings of warps, and threads that wait forever. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <exception>
#include <new>

#include "../watch/launch.h"
#include "signals.h"

namespace simt::SIMT_FIBERS {

enum {
    SHARED_BYTES = 512 << 10, // more than the limits of runtime.h, so that
                              // excess is detected
    SPINS_PER_YIELD = 8,      // spins before a thread yields: a
                              // compare-and-swap may fail a few times
    CHECK_EVERY = 64,         // unsuccessful turns between two checks for
                              // Ctrl-C
    SLOTS_BYTES = MAX_THREADS * SIMT_STACK,
    MAX_KNOWN = 2048 // maximum number of workers: twice the possible number
};

// All workers, for signal handlers, which must not access thread-local
// variables.
static std::atomic<Worker *> workers[MAX_KNOWN];
static std::atomic<int> workers_known;

Stacks fibers;

static Worker *worker_of(Block *block) { return static_cast<Worker *>(block); }

/* ---- a worker's memory -------------------------------------------------- */

static char *map(size_t bytes, int access = PROT_READ | PROT_WRITE) {
    // Only pages that are touched take up memory.
    void *memory = mmap(0, bytes, access,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? 0 : (char *)memory;
}

static char *aligned_slots(char *memory) {
    const uintptr_t mask = SIMT_STACK - 1;
    return memory ? (char *)(((uintptr_t)memory + mask) & ~mask) : 0;
}

/* Return the slots of worker number `i`. They are contiguous, so that the watch
 * build's hooks can distinguish a thread's stack from the host's with one
 * comparison. If addresses are limited (ulimit -v), some slots are elsewhere
 * and not checked. */
static char *slots_of(int i) {
    static std::once_flag once;
    std::call_once(once, [] {
        size_t bytes = (size_t)MAX_KNOWN * SLOTS_BYTES;
        for (; bytes > 8 * (size_t)SLOTS_BYTES && !fibers.bytes; bytes /= 4)
            if (char *memory = map(bytes + SIMT_STACK, PROT_NONE))
                fibers = {(uintptr_t)aligned_slots(memory), bytes};
    });
    if ((size_t)i < fibers.bytes / SLOTS_BYTES) {
        // The slots of workers that do not exist yet stay inaccessible, to
        // catch wild stores.
        char *slots = (char *)fibers.base + (size_t)i * SLOTS_BYTES;
        if (!mprotect(slots, SLOTS_BYTES, PROT_READ | PROT_WRITE)) return slots;
    }
    return aligned_slots(map((size_t)SLOTS_BYTES + SIMT_STACK));
}

Worker *create_worker() {
    void *memory = 0;
    if (posix_memalign(&memory, alignof(Worker), sizeof(Worker))) return 0;
    Worker *worker = new (memory) Worker();
    const int known = workers_known.fetch_add(1);
    worker->slots = slots_of(known);
    worker->shared = map(SHARED_BYTES);
    if (!worker->slots || !worker->shared) return 0; // leaks only addresses
    worker->identity_order = -1;                     // not filled yet
    create_contexts(worker);
    if (known < MAX_KNOWN) workers[known] = worker;
    return worker;
}

Worker *worker_number(int i) {
    return i < MAX_KNOWN && i < workers_known.load() ? workers[i].load() : 0;
}

Worker *worker_at(uintptr_t address) {
    for (int i = 0; Worker *worker = worker_number(i); i++)
        if (address - (uintptr_t)worker->slots < SLOTS_BYTES) return worker;
    return 0;
}

/* Give the first `count` slots their guard pages. Each guard splits a mapping
 * in two, and Linux allows a process 65530 mappings. If none is left, no new
 * system thread can start. Two runtimes in a process therefore use at most
 * 57344: with more than 14 workers, some slots have no guards. */
static void guard(Worker *worker, int count) {
    static std::atomic<int> guards;
    const long page = sysconf(_SC_PAGESIZE);
    for (; worker->guarded < count; worker->guarded++) {
        char *low = worker->slots + (size_t)worker->guarded * SIMT_STACK;
        const bool is_allowed = guards.fetch_add(1) < 14 * MAX_THREADS;
        if (page > SIMT_STACK / 4 || !is_allowed ||
            mprotect(low, page, PROT_NONE)) {
            worker->guarded = MAX_THREADS;
            return;
        }
    }
}

/* ---- leaving ------------------------------------------------------------ */

void abandon(Worker *worker) {
    switch_fiber(here(), &worker->main);
    __builtin_unreachable();
}

/* Run the threads that begin on this fiber. An exception that they throw ends
 * the launch. */
static void run_body(Worker *worker, Fiber *self) {
    try {
        worker->body(worker->closure);
        return;
    } catch (const std::exception &e) {
        note_fault(worker, self, SIMT_FAULT_EXCEPTION, cudaErrorLaunchFailure,
                   "uncaught exception: %s", e.what());
    } catch (...) {
        note_fault(worker, self, SIMT_FAULT_EXCEPTION, cudaErrorLaunchFailure,
                   "uncaught exception");
    }
    abandon(worker);
}

/* ---- the threads of a block --------------------------------------------- */

/* Remove `self`, whose thread has ended, from all structures of its block. */
static void finish(Worker *worker, Fiber *self) {
    Warp *warp = self->warp;
    self->pending = 0; // no thread will wait for its operations
    warp->live &= ~(1u << self->thread.linear % WARP);
    worker->live--;
    self->next->prev = self->prev;
    self->prev->next = self->next;
    if (worker->arrived && worker->arrived == worker->live) {
        if (worker->checker) check_at_barrier(worker);
        open_barrier(worker);
    }
    // Other lanes of its warp may have been waiting only for this thread.
    for (unsigned left = warp->waiting; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        const unsigned group = warp->mask[lane] & warp->live;
        if (warp->waiting >> lane & 1 && !(group & ~warp->waiting) &&
            (!worker->checker ||
             check_together(warp, group, warp->meeting[lane])))
            complete(warp, group | 1u << lane, warp->meeting[lane]);
    }
}

/* Replace `other` with `self` in the ring. */
static void take_place(Fiber *self, Fiber *other) {
    const bool alone = other->next == other;
    self->thread = other->thread;
    self->warp = other->warp;
    self->next = alone ? self : other->next;
    self->prev = alone ? self : other->prev;
    self->next->prev = self->prev->next = self;
}

/* The entry point of every fiber. */
static void fiber_main() {
    Fiber *self = here();
    Worker *worker = worker_of(self->block);
    worker->switching = false;
    announce_arrival();
    for (;;) {
        run_body(worker, self);
        if (!worker->promoted) abandon(worker); // the loop has run all threads
        finish(worker, self);
        if (!worker->live) abandon(worker);
        Fiber *next = self->next;
        if (next->resume) {
            switch_fiber(self, next);
            __builtin_unreachable();
        }
        take_place(self, next); // `next` has not begun: run it on this fiber,
                                // without a switch
    }
}

void start(Fiber *fiber) {
    fiber->pending = 0;
    announce_start(fiber);
    prepare_fiber(fiber, fiber_main);
}

void promote(Fiber *self) {
    Worker *worker = worker_of(self->block);
    if (worker->promoted) return; // this thread was preempted in the meantime
    const int first = worker->running, threads = worker->threads;
    guard(worker, threads);
    worker->promoted = true;
    worker->live = threads - first;
    worker->arrived = 0;
    worker->votes[worker->epoch & 1] = 0;
    worker->vain = 0;
    for (int i = 0; i * WARP < threads; i++) {
        Warp *warp = &worker->warps[i];
        warp->live = warp->waiting = warp->asking = 0;
    }
    Fiber *last = self;
    for (int i = first; i < threads; i++) {
        Fiber *fiber = i == first ? self : worker->fiber(i);
        const Thread thread = worker->order[i];
        fiber->thread = thread;
        fiber->block = worker;
        fiber->warp = &worker->warps[thread.linear / WARP];
        fiber->warp->live |= 1u << thread.linear % WARP;
        if (i != first) fiber->resume = 0;
        fiber->prev = last;
        last->next = fiber;
        last = fiber;
    }
    last->next = self;
    self->prev = last;
}

/* ---- waiting ------------------------------------------------------------ */

void complete(Warp *warp, unsigned group, Meeting meeting) {
    unsigned ballot = 0;
    if (meeting == BALLOT)
        for (unsigned left = group; left; left &= left - 1) {
            const int lane = __builtin_ctz(left);
            ballot |= (unsigned)(warp->in[lane] & 1) << lane;
        }
    for (unsigned left = group; left; left &= left - 1) {
        const int lane = __builtin_ctz(left), from = warp->source[lane];
        // A source lane outside the group provides no value, so the lane keeps
        // its value.
        const bool there = group >> from & 1;
        warp->out[lane] =
            meeting == BALLOT ? ballot : warp->in[there ? from : lane];
    }
    warp->waiting &= ~group;
    Worker *worker = worker_of(here()->block);
    worker->meetings++;
    if (worker->checker) check_at_meeting(worker, warp, group);
}

/* Return a number that changes whenever a thread of the block can continue. */
static uint64_t progress(const Worker *worker) {
    return (uint64_t)worker->epoch << 32 ^ (uint64_t)worker->meetings << 11 ^
           (uint64_t)worker->live;
}

void in_vain(Fiber *self) {
    Worker *worker = worker_of(self->block);
    if (worker->seen != progress(worker)) {
        worker->seen = progress(worker);
        worker->vain = 0;
    }
    if (++worker->vain % CHECK_EVERY == 0) leave_if_stopped(worker);
    // After two rounds in which all threads wait and nothing changes, nothing
    // will change.
    if (worker->vain < 2u * worker->live + 2) return;
    if (worker->checker) check_deadlock(worker);
    note_fault(worker, 0, SIMT_FAULT_DEADLOCK, cudaErrorLaunchTimeout,
               "deadlock in block (%u,%u,%u): of %d threads left, %d wait at a "
               "barrier and the others for lanes that never arrive",
               worker->index.x, worker->index.y, worker->index.z, worker->live,
               worker->arrived);
    abandon(worker);
}

void spin(Fiber *self) {
    Worker *worker = worker_of(self->block);
    if (++worker->spins % SPINS_PER_YIELD) return;
    leave_if_stopped(worker, self);
    if (worker->spins % (SPINS_PER_YIELD * CHECK_EVERY) == 0)
        sched_yield(); // another worker may have to end the wait
    yield(self);
}

void yield(Fiber *self) {
    Worker *worker = worker_of(self->block);
    go_inside(worker);
    promote(self);
    worker->vain = 0; // this thread does not sleep, since it may end the wait
                      // of other threads
    if (self->next != self) pass(self);
    go_outside(worker);
}

unsigned active_lanes(Fiber *self) {
    // The active lanes of the warp are those that reach this call before they
    // wait for anything else. After one round of the ring, all of them have
    // arrived.
    Warp *warp = self->warp;
    const unsigned lane = self->thread.linear % WARP, bit = 1u << lane;
    const uint64_t site = (uint64_t)__builtin_return_address(0);
    warp->in[lane] = site;
    warp->asking |= bit;
    go_inside(self->block);
    if (self->next != self) pass(self);
    go_outside(self->block);
    if (!(warp->asking & bit)) return (unsigned)warp->out[lane];
    unsigned group = 0;
    for (unsigned left = warp->asking; left; left &= left - 1) {
        const unsigned other = __builtin_ctz(left);
        if (warp->in[other] == site) group |= 1u << other;
    }
    for (unsigned left = group; left; left &= left - 1)
        warp->out[__builtin_ctz(left)] = group;
    warp->asking &= ~group;
    return group;
}

/* ---- shared memory ------------------------------------------------------ */

unsigned place_shared(Block *block, SharedSite *site, size_t size,
                      size_t align) {
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    Worker *worker = worker_of(block);
    Job *job = worker->job;
    while (busy.test_and_set(std::memory_order_acquire)) sched_yield();
    if (site->launch != job->number) { // no other worker has placed the arrays
                                       // yet
        align = align < 16 ? 16 : align;
        const unsigned end = job->shared_used;
        unsigned offset = (end + align - 1) / align * align;
        if (worker->checker) { // keep the arrays apart by whole rows of banks
            const unsigned step = align < 128 ? 128 : (unsigned)align;
            const unsigned apart = (end + 128 + step - 1) / step * step;
            job->shared_gaps += apart - offset;
            offset = apart;
        }
        site->offset = offset;
        job->shared_used = offset + (unsigned)size;
        const size_t before = (job->dynamic_shared + 127) / 128 * 128;
        const int placed = (int)(job->shared_used - before - job->shared_gaps);
        if (job->kernel->static_shared < placed)
            job->kernel->static_shared = placed;
        __atomic_store_n(&site->launch, job->number, __ATOMIC_RELEASE);
    }
    busy.clear(std::memory_order_release);
    const size_t used =
        job->shared_used - job->dynamic_shared - job->shared_gaps;
    if (used > STATIC_SHARED + 128) {
        note_fault(worker, 0, SIMT_FAULT_LAUNCH, cudaErrorLaunchOutOfResources,
                   "%zu bytes of static __shared__ arrays, at most %d", used,
                   STATIC_SHARED);
        abandon(worker);
    }
    return site->offset;
}

/* ---- running blocks ----------------------------------------------------- */

static uint64_t random_next(uint64_t *state) {
    // This is splitmix64 (Steele, Lea, Flood 2014), which accepts any seed.
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Fill identity[] with the threads of a block in forward or reverse order. */
static void fill_identity(Worker *worker, dim3 dim, int order) {
    const unsigned threads = dim.x * dim.y * dim.z;
    for (unsigned i = 0; i < threads; i++) {
        Thread *thread =
            &worker->identity[order == SIMT_REVERSE ? threads - 1 - i : i];
        thread->linear = i;
        thread->index = {i % dim.x, i / dim.x % dim.y, i / dim.x / dim.y};
    }
    worker->identity_dim = dim;
    worker->identity_order = order;
}

static void shuffle(Worker *worker, uint64_t seed) {
    const int threads = worker->threads;
    memcpy(worker->turns, worker->identity, threads * sizeof(Thread));
    for (int i = threads - 1; i > 0; i--) {
        const int j = (int)(random_next(&seed) % (uint64_t)(i + 1));
        const Thread thread = worker->turns[i];
        worker->turns[i] = worker->turns[j];
        worker->turns[j] = thread;
    }
}

/* Return the index of the k-th block to run, counted from 0. */
static uint64_t block_at(const Job *job, uint64_t k) {
    if (job->order == SIMT_FORWARD) return k;
    if (job->order == SIMT_REVERSE) return job->blocks - 1 - k;
    // Multiplying by a prime that does not divide the number of blocks permutes
    // them.
    const uint64_t primes[] = {2654435761u, 2147483647u, 1000000007u};
    int i = 0;
    while (i < 2 && job->blocks % primes[i] == 0) i++;
    const unsigned __int128 at = (unsigned __int128)k * primes[i];
    return (uint64_t)((at + (unsigned)job->order) % job->blocks);
}

static void run_block(Worker *worker, const Job *job, uint64_t k) {
    const uint64_t at = block_at(job, k);
    const uint64_t row = at / job->grid.x;
    worker->index = {(unsigned)(at % job->grid.x),
                     (unsigned)(row % job->grid.y),
                     (unsigned)(row / job->grid.y)};
    worker->order = worker->identity;
    // Data that the previous block left in shared memory may also hide a
    // missing barrier.
    if (job->order != SIMT_FORWARD)
        memset(worker->shared, 0xff, job->shared_used.load());
    if (job->order >= SIMT_SHUFFLED) {
        shuffle(worker, at * 1000003 + (uint64_t)job->order);
        worker->order = worker->turns;
    }
    if (worker->checker) check_begin_block(worker);
    worker->blocks++;
    worker->promoted = false;
    worker->inside = true;
    worker->running = 0;
    Fiber *first = worker->fiber(0);
    first->thread = worker->order[0];
    first->block = worker;
    start(first);
    switch_fiber(&worker->main, first);
    if (worker->asked) later_end_block(worker, !stopped(worker));
    if (worker->checker) check_end_block(worker);
}

static void begin_job(Worker *worker, Job *job) {
    const dim3 dim = job->block, had = worker->identity_dim;
    const int order = job->order == SIMT_REVERSE ? SIMT_REVERSE : SIMT_FORWARD;
    worker->job = job;
    worker->block_dim = dim;
    worker->grid_dim = job->grid;
    worker->threads = (int)(dim.x * dim.y * dim.z);
    worker->launch = job->number;
    worker->body = job->body;
    worker->closure = job->closure;
    worker->cooperative = job->cooperative;
    worker->checker = job->kernel->checked ? check_begin_worker(worker) : 0;
    worker->stopped_at = 0;
    worker->modes = processor_modes();
    if (!worker->guarded) guard(worker, 1);
    if (job->order != SIMT_FORWARD) // clear the future place of the static
                                    // arrays
        memset(worker->shared, 0xff, job->shared_used.load() + STATIC_SHARED);
    if (dim.x != had.x || dim.y != had.y || dim.z != had.z ||
        order != worker->identity_order)
        fill_identity(worker, dim, order);
}

/* Take a claimed block from another worker, which may wait for that very block
 * (watchdog.cpp). Block numbers only increase in a launch, so the exchange
 * fails if the owner has begun the block or claimed others since. */
static bool take_claimed(const Job *job, uint64_t *block) {
    for (int i = 0; Worker *owner = worker_number(i); i++) {
        if (owner->busy.load() != job->number) continue;
        uint64_t next = owner->next.load();
        while (next < owner->end.load())
            if (owner->next.compare_exchange_weak(next, next + 1)) {
                *block = next;
                return true;
            }
    }
    return false;
}

/* Find the worker's next block. Returns false if none is left. */
static bool take_block(Worker *worker, Job *job, uint64_t *block) {
    *block = worker->next.fetch_add(1);
    if (*block < worker->end.load()) return true;
    const bool shared = job->shared_claims.load();
    const uint64_t chunk = shared ? 1 : job->chunk;
    *block = job->next.fetch_add(chunk);
    if (*block >= job->blocks) return shared && take_claimed(job, block);
    const uint64_t end = *block + chunk;
    worker->next.store(*block + 1); // before `end`: see take_claimed()
    worker->end.store(end < job->blocks ? end : job->blocks);
    return true;
}

void run_blocks(Worker *worker, Job *job) {
    begin_job(worker, job);
    Launch *const launch = pending_launch();
    this_worker = worker;
    worker->thread = pthread_self();
    worker->busy.store(job->number);
    for (uint64_t k; !stopped(worker) && take_block(worker, job, &k);) {
        run_block(worker, job, k);
        if (job->cooperative) leave_grid(worker);
    }
    worker->end.store(0); // a stopped launch leaves claimed blocks
    worker->busy.store(0);
    while (worker->looked_at.load()) sched_yield(); // a signal is being sent
    // Restore the rounding mode, which a kernel may have changed and which
    // NumPy and other code rely on.
    if (modes_changed(worker->modes)) clean_processor(worker->modes);
    this_worker = 0;
    forget_launches(launch); // remove entries that abandoned threads left
}

} // namespace simt::SIMT_FIBERS
