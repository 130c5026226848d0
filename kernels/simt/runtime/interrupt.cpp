/* interrupt.cpp -- ends long launches on Ctrl-C; see simt_watch_begin(). */
#include <mutex>

#include "signals.h"

namespace simt::SIMT_FIBERS {

std::atomic<bool> interrupt_seen;

// The mutex is never destroyed, since threads outlive the destructors.
static std::mutex *watch_lock = new std::mutex;
static int watches;
static void on_sigint(int signal, siginfo_t *info, void *context);
static Hook sigint = {SIGINT, on_sigint, {}, {}, false, false};

static void on_sigint(int, siginfo_t *info, void *context) {
    interrupt_seen.store(true);
    chain(&sigint, info, context);
}

void forget_watches() {
    watch_lock = new std::mutex; // the old lock may be held forever
    unhook(&sigint);
    watches = 0;
    interrupt_seen = false;
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void simt_watch_begin(void) {
    std::lock_guard<std::mutex> guard(*watch_lock);
    if (watches++) return;
    interrupt_seen = false;
    hook(&sigint, true); // an ignored signal (of a background job) stays
                         // ignored
}

extern "C" int simt_interrupted(void) { return interrupt_seen.load(); }

extern "C" int simt_watch_end(void) {
    std::lock_guard<std::mutex> guard(*watch_lock);
    if (watches > 0 && --watches == 0) unhook(&sigint);
    return interrupt_seen.load();
}
