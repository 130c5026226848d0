/* watchdog.cpp -- ends or helps launches that take too long.
 *
 * One thread of the process checks the running launch every few milliseconds,
 * and sleeps when there is none. A launch costs one more store at its beginning
 * and one at its end. The thread sends SIGURG, which has no effect on code that
 * does not handle it, to two kinds of workers:
 *   - Workers of a launch that must end because of Ctrl-C, the time limit, or
 *     another worker's fault. The handler takes them out of their blocks.
 *   - Workers whose block has made no step since the last check. The thread may
 *     be waiting, in its own loop, for another thread of its block. The handler
 *     lets the others run (preempt.cpp).
 * Both happen only if a kernel's own code was interrupted, since a function of
 * the C library may hold a lock. A thread inside such a function leaves its
 * launch when the function returns. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "../watch/launch.h"
#include "signals.h"

namespace simt::SIMT_FIBERS {

enum {
    LOOK_US = 10000,      // microseconds between two checks of a launch
    SLICE_US = 200,       // the same while threads wait for each other
    STILL_MS = 50,        // milliseconds without a step of any block before
                          // more blocks run
    STOP_US = 1000,       // microseconds between two checks while a launch must
                          // end
    HOT_LOOKS = 100,      // checks at the SLICE_US rate after a block has made
                          // progress
    RELEASE_LOOKS = 2,    // checks without a launch before its handlers are
                          // removed
    IDLE_LOOKS = 50,      // checks without a launch before the watchdog sleeps
    STUCK_MS = 6000,      // milliseconds without progress after which a checked
                          // launch is ended
    STUCK_CPU_MS = 4000,  // least CPU time in that period, in
                          // milliseconds
    STUCK = 255,          // a reason in addition to enum simt_fault_kind
    GIVE_UP_LOOKS = 5000, // checks before a message about a launch that does
                          // not end
    LIFE_S = 3,           // seconds before a program's first sign of life
    LIFE_APART_S = 60,    // maximum number of seconds between two signs
};

struct Watch {
    std::mutex lock;
    std::condition_variable wake;
    bool started = false;
};

static Watch *watch = new Watch; // never destroyed, like its thread
static std::atomic<bool> awake;
static std::atomic<unsigned> current; // number of the running launch, or 0
static std::atomic<unsigned> latest;  // number of the latest launch, even if it
                                      // has ended
static Job *job;                      // the job of that launch
static std::atomic<int> timeout_ms;
/* The launch that must end, and the reason: its number << 8 | enum
 * simt_fault_kind. */
static std::atomic<uint64_t> request;

/* ---- ends --------------------------------------------------------------- */

static int requested(const Worker *worker) {
    const uint64_t it = request.load(std::memory_order_relaxed);
    return it >> 8 == worker->job->number ? (int)(it & 255) : 0;
}

/* The end of a sentence about a thread's wait. */
struct Wait {
    char text[260];
    Wait(const Worker *worker, const Fiber *self) {
        describe_wait(worker, self, text, sizeof text);
    }
};

static void note_stuck(Worker *worker, const Fiber *self) {
    const int waiting = worker->promoted ? worker->arrived : 0;
    if (waiting)
        note_fault(worker, self, SIMT_FAULT_DEADLOCK, cudaErrorLaunchTimeout,
                   "waits for ever: %d thread%s of its block wait at a "
                   "barrier, and for %d s no thread of the launch has stored "
                   "anything new or ended",
                   waiting, waiting == 1 ? "" : "s", STUCK_MS / 1000);
    else
        note_fault(worker, self, SIMT_FAULT_TIMEOUT, cudaErrorLaunchTimeout,
                   "does not end: for %d s no thread of the launch has stored "
                   "anything new, met others or ended%s",
                   STUCK_MS / 1000, Wait(worker, self).text);
}

static void note_end(Worker *worker, const Fiber *self, int kind) {
    if (kind == SIMT_FAULT_TIMEOUT)
        note_fault(worker, self, SIMT_FAULT_TIMEOUT, cudaErrorLaunchTimeout,
                   "ran longer than the limit of %d ms%s", timeout_ms.load(),
                   Wait(worker, self).text);
    else if (kind == STUCK)
        note_stuck(worker, self);
    else if (kind)
        note_fault(worker, self, SIMT_FAULT_INTERRUPT, cudaErrorLaunchTimeout,
                   "interrupted");
}

bool stopped(Worker *worker, const Fiber *self) {
    const bool interrupted = interrupt_seen.load(std::memory_order_relaxed);
    const int kind =
        interrupted ? (int)SIMT_FAULT_INTERRUPT : requested(worker);
    if (kind) note_end(worker, self, kind);
    return worker->job->failed.load(std::memory_order_relaxed);
}

void leave_if_stopped(Worker *worker, const Fiber *self) {
    if (stopped(worker, self)) abandon(worker);
}

#if SIMT_SIGNALS
/* End the block, if the launch must end. This runs on the thread's stack
 * instead of the interrupted code. */
void land_stopped() {
    Worker *worker = this_worker;
    clean_processor(worker->modes);
    note_end(worker, here(), requested(worker));
    abandon(worker);
}

/* ---- the worker's reaction to a poke ------------------------------------- */

static void on_poke(int, siginfo_t *info, void *raw);
static Hook poke_hook = {SIGURG, on_poke, {}, {}, false, false};

static bool holds(const Text *text, uintptr_t address) {
    return address - text->start < text->size;
}

static Text runtime_text, kernel_text; // the extents of the runtime's and the
                                       // kernel's code

/* Pass a signal that is not the watchdog's to the previous handler. */
static void pass_on(siginfo_t *info, void *raw) {
    // The watchdog itself has sent this signal.
    if (info->si_code == SI_TKILL && info->si_pid == getpid()) return;
    if (poke_hook.below.sa_flags & SA_SIGINFO ||
        (poke_hook.below.sa_handler != SIG_DFL &&
         poke_hook.below.sa_handler != SIG_IGN))
        chain(&poke_hook, info, raw);
}

static void answer_poke(siginfo_t *info, void *raw) {
    ucontext_t *context = (ucontext_t *)raw;
    const uintptr_t at = stack_pointer(context);
    const uintptr_t code = program_counter(context);
    Worker *worker = worker_at(at);
    if (!worker) return pass_on(info, raw);
    const bool stop = request.load() >> 8 == worker->job->number;
    if (holds(&kernel_text, code)) {
        if (stop) worker->stopped_at = code;
        if (stop)
            redirect(context, (uintptr_t)fiber_at(at), land_stopped);
        else if (worker->poked == worker->job->number && !worker->inside)
            preempt(context);
    } else if (stop && !worker->switching && !holds(&runtime_text, code)) {
        stop_at_return(&kernel_text);
    }
}

static void on_poke(int, siginfo_t *info, void *raw) {
    const int before = errno; // the interrupted code may still need errno
    answer_poke(info, raw);
    errno = before;
}

/* ---- the thread that checks ---------------------------------------------- */

/* Return a number that changes when the worker's block makes progress. */
__attribute__((no_sanitize("thread"))) static uint64_t
steps(const Worker *worker) {
    const unsigned parts[] = {
        worker->index.x,        worker->index.y,
        worker->index.z,        (unsigned)worker->running,
        worker->epoch,          worker->meetings,
        (unsigned)worker->live, (unsigned)worker->arrived};
    uint64_t sum = 0;
    // The worker may be writing these numbers; any mixture of old and new
    // values is acceptable.
    for (const unsigned &part : parts)
        sum = sum * 0x9e3779b97f4a7c15u + *(const volatile unsigned *)&part;
    return sum;
}

static void poke(Worker *worker, unsigned number) {
    // run_blocks() waits until `looked_at` is false, so the thread still
    // exists.
    worker->looked_at.store(true);
    if (worker->busy.load() == number) pthread_kill(worker->thread, SIGURG);
    worker->looked_at.store(false);
}

/* Check one worker, and return whether its block has made no progress since the
 * last check. If it has made none, let the block's other threads run. *wait is
 * lowered to the microseconds until this worker's next check. */
static bool stands_still(Worker *worker, unsigned number, int *wait) {
    int turn = LOOK_US;
    const uint64_t now = steps(worker);
    const bool still = worker->seen_steps == now;
    if (!still) {
        worker->seen_steps = now;
        worker->turns_given = 0;
        // A thread that has waited for another thread will soon wait again.
        if (worker->hot > 0 && worker->hot--) turn = SLICE_US;
    } else if (!worker->waiting) { // a wait at a grid barrier is normal
        worker->hot = HOT_LOOKS;
        worker->poked.store(number);
        poke(worker, number);
        // Start with short turns, since one thread may wait for many. If that
        // has not helped, take longer ones, since the threads are then working
        // and lose time with each turn.
        const int rounds = ++worker->turns_given / (4 * worker->threads) + 1;
        if (rounds < LOOK_US / SLICE_US) turn = rounds * SLICE_US;
    }
    if (turn < *wait) *wait = turn;
    return still;
}

/* Return whether the launch has blocks that have not begun. */
static bool blocks_are_left(unsigned number) {
    if (job->next < job->blocks) return true;
    for (int i = 0; Worker *worker = worker_number(i); i++)
        if (worker->busy.load() == number && worker->next < worker->end)
            return true;
    return false;
}

/* Run threads for which others of their block may wait. If all blocks that have
 * begun may wait for others, run more blocks, since a GPU would run many at the
 * same time. Return the microseconds until the next check. */
static int share(unsigned number, long long *moved) {
    const long long now = simt_nanoseconds();
    int wait = LOOK_US, at_work = 0;
    for (int i = 0; Worker *worker = worker_number(i); i++) {
        if (worker->busy.load() != number) continue;
        at_work++;
        if (!stands_still(worker, number, &wait)) *moved = now;
    }
    if (now - *moved < STILL_MS * 1000000ll || !blocks_are_left(number))
        return wait;
    job->shared_claims = true;
    if (at_work < cooperative_limit()) add_workers(job, at_work);
    *moved = now;
    return wait;
}

/* Return the reason why the launch must end now, or 0 if it need not. The
 * launch's first fault ends the blocks of the other workers. */
static int reason(unsigned number, long long since) {
    const int limit = timeout_ms.load();
    if (interrupt_seen.load()) return SIMT_FAULT_INTERRUPT;
    if (limit > 0 && simt_nanoseconds() - since > limit * 1000000ll)
        return SIMT_FAULT_TIMEOUT;
    if (job->failed.load() && current.load() == number)
        return SIMT_FAULT_INTERRUPT;
    return SIMT_FAULT_NONE;
}

static long long cpu_nanoseconds() {
    struct timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* The time of a checked launch's last action that could end a thread's wait. */
struct Progress {
    uint64_t seen = 0;
    long long since = simt_nanoseconds(), cpu_since = cpu_nanoseconds();

    bool is_stuck(unsigned number) {
        uint64_t now = job->next;
        for (int i = 0; Worker *worker = worker_number(i); i++)
            if (worker->busy.load() == number)
                now += steps(worker) + check_changes(worker);
        if (now != seen) {
            seen = now;
            since = simt_nanoseconds();
            cpu_since = cpu_nanoseconds();
        }
        return simt_nanoseconds() - since > STUCK_MS * 1000000ll &&
               cpu_nanoseconds() - cpu_since > STUCK_CPU_MS * 1000000ll;
    }
};

static void nap(int us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000l};
    nanosleep(&time, 0);
}

static void stop(unsigned number, int kind) {
    request.store((uint64_t)number << 8 | (uint64_t)kind);
    for (int looks = 0; current.load() == number; looks++) {
        for (int i = 0; Worker *worker = worker_number(i); i++)
            poke(worker, number);
        if (looks == GIVE_UP_LOOKS)
            dprintf(2,
                    "weft: the kernel %s does not end: it is in a library "
                    "function that does not return\n",
                    job->kernel->name);
        nap(looks < GIVE_UP_LOOKS ? STOP_US : 100 * STOP_US);
    }
}

/* ---- signs of life ------------------------------------------------------- */

static std::atomic<bool> life_shown;

/* Show a sign of life after 3 s, 6 s, 12 s, ..., and then every minute. */
static void show_life() {
    static const long long begin = simt_nanoseconds();
    static long long next = LIFE_S;
    const long long now = (simt_nanoseconds() - begin) / 1000000000;
    if (!life_shown.load() || now < next) return;
    next = now + (now < LIFE_APART_S ? now : (long long)LIFE_APART_S);
    dprintf(2, "weft: %lld s: the kernel %s, launch %u\n", now, latest_kernel(),
            launches_so_far());
}

/* Check launch `number` until it is over. */
static void look_after(unsigned number) {
    const long long since = simt_nanoseconds();
    long long moved = since; // when a block last made progress
    Progress progress;
    int wait = LOOK_US;
    bool first = true;
    for (;; first = false) {
        nap(wait);
        if (current.load() != number) return;
        if (first) {
            // Do this only for long launches, since it takes some microseconds.
            find_text(&kernel_text, (void *)job->body);
            hook(&poke_hook, false);
        }
        if (const int kind = reason(number, since)) return stop(number, kind);
        if (job->kernel->checked && progress.is_stuck(number))
            return stop(number, STUCK);
        wait = share(number, &moved);
        show_life();
    }
}

static void release_if_idle() {
    std::unique_lock<std::mutex> guard(launching(), std::try_to_lock);
    if (guard.owns_lock()) release_faults(); // else a launch has begun
}

static void keep_watch(Watch *mine) {
    find_text(&runtime_text, (void *)look_after);
    prepare_preemption();
    unsigned seen = 0;
    for (int idle = 0;;) {
        if (seen != latest.load()) idle = 0; // short launches count, too
        seen = latest.load();
        if (const unsigned number = current.load()) {
            look_after(number);
            idle = 0;
        } else if (++idle < IDLE_LOOKS) {
            nap(LOOK_US);
            if (idle == 1) show_life(); // a launch has just ended
            if (idle == RELEASE_LOOKS) release_if_idle();
        } else {
            std::unique_lock<std::mutex> guard(mine->lock);
            awake.store(false);
            if (seen != latest.load()) awake.store(true); // a launch began
            mine->wake.wait(guard, [] { return awake.load(); });
            idle = 0;
        }
    }
}

static void rouse() {
    std::lock_guard<std::mutex> guard(watch->lock);
    awake.store(true);
    if (watch->started) return watch->wake.notify_one();
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread(keep_watch, watch).detach();
        watch->started = true;
    } catch (const std::exception &) {
        awake.store(false); // from this point on, no thread checks
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
}

void watch_launch(Job *the_job) {
    job = the_job;
    current.store(the_job->number, std::memory_order_relaxed);
    latest.store(the_job->number);
    if (!awake.load()) rouse();
}

void unwatch_launch() {
    current.store(0, std::memory_order_release);
    if (!awake.load()) release_faults(); // no thread will release them later
}

void forget_watchdog() {
    watch = new Watch;
    awake = false;
    current = 0;
}
#else
void watch_launch(Job *) {}
void unwatch_launch() { release_faults(); }
void forget_watchdog() {}
#endif

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void simt_show_life(void) {
#if SIMT_SIGNALS
    simt::life_shown = true;
#endif
}

extern "C" void simt_set_timeout(int ms) { timeout_ms = ms < 0 ? 0 : ms; }
