/* interrupt.cpp -- Ctrl-C ends a long launch: see simt_watch_begin(). */
#include <signal.h>

#include <mutex>

#include "runtime.h"

namespace simt {
#ifdef SIMT_UCONTEXT
inline namespace ucontext_fibers {
#else
inline namespace asm_fibers {
#endif

std::atomic<bool> interrupt_seen;

static std::mutex *watch_lock = new std::mutex; // never destroyed: threads
static int watches;                             // outlive the destructors
static bool installed;
static struct sigaction previous;

static void on_sigint(int signal, siginfo_t *info, void *context) {
    interrupt_seen.store(true);
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler == SIG_DFL) {
        // Nobody handles it, so it must end the process as it would have done.
        sigaction(SIGINT, &previous, 0);
        raise(SIGINT);
    } else if (previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    }
}

static bool ours(const struct sigaction *action) {
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == on_sigint;
}

static void install() {
    struct sigaction now;
    sigaction(SIGINT, 0, &now);
    // Ignored (a job in the background) stays ignored. `installed` without
    // being on top: somebody else's handler, put in meanwhile, calls ours.
    const bool ignored =
        !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN;
    if (ignored || ours(&now) || installed) return;
    previous = now;
    now.sa_sigaction = on_sigint;
    now.sa_flags |= SA_SIGINFO | SA_ONSTACK;
    now.sa_flags &= ~SA_RESETHAND;
    installed = sigaction(SIGINT, &now, 0) == 0;
}

static void restore() {
    struct sigaction now;
    sigaction(SIGINT, 0, &now);
    if (!installed || !ours(&now)) return; // not ours to remove
    sigaction(SIGINT, &previous, 0);
    installed = false;
}

void forget_watches() {
    watch_lock = new std::mutex; // the old one may be locked for ever
    restore();
    watches = 0;
    interrupt_seen = false;
}

} // namespace
} // namespace simt

using namespace simt;

extern "C" void simt_watch_begin(void) {
    std::lock_guard<std::mutex> guard(*watch_lock);
    if (watches++) return;
    interrupt_seen = false;
    install();
}

extern "C" int simt_interrupted(void) { return interrupt_seen.load(); }

extern "C" int simt_watch_end(void) {
    std::lock_guard<std::mutex> guard(*watch_lock);
    if (watches > 0 && --watches == 0) restore();
    return interrupt_seen.load();
}
