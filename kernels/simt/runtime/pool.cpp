/* pool.cpp -- the CPU threads that run a launch's blocks. */
#include <pthread.h>
#include <signal.h>

#include <condition_variable>
#include <initializer_list>
#include <thread>

#include "runtime.h"

namespace simt::SIMT_FIBERS {

/* The workers of this process. Worker 0 is the thread that launches; the other
 * workers are threads that sleep between launches. */
struct Pool {
    std::mutex launching;
    std::mutex lock; /* guards the following members */
    std::condition_variable wake, done;
    Job *job = 0;
    int seats = 0, busy = 0; /* workers that may still join; workers that have
                              * joined */
    int threads = 0;
    Worker *own = 0; /* the worker of the launching thread */
};

static Pool *pool; // never destroyed: its threads outlive the destructors

static void sleep_and_work(Pool *mine, Worker *worker) {
    provide_stack();
    std::unique_lock<std::mutex> guard(mine->lock);
    for (;;) {
        mine->wake.wait(guard, [&] { return mine->job && mine->seats > 0; });
        mine->seats--;
        mine->busy++;
        Job *job = mine->job;
        guard.unlock();
        run_blocks(worker, job);
        guard.lock();
        if (--mine->busy == 0) mine->done.notify_one();
    }
}

/* Start one more worker. Return false if the system refuses. */
static bool add_thread() {
    Worker *worker = create_worker();
    if (!worker) return false;
    // Only the program's threads may receive signals. Faults remain with the
    // thread that causes them.
    sigset_t all, before;
    sigfillset(&all);
    for (int mine : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGURG})
        sigdelset(&all, mine);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
        std::thread(sleep_and_work, pool, worker).detach();
        pool->threads++;
    } catch (const std::exception &) {
        started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, 0);
    return started;
}

static void after_fork() {
    // The child has only the thread that forked, so it starts workers again
    // when needed. The old pool is abandoned, since threads that no longer
    // exist may hold its locks.
    pool = new Pool;
    release_faults();
    forget_watches();
    forget_watchdog();
}

static void create_pool() {
    pool = new Pool;
    pthread_atfork(0, 0, after_fork);
}

std::mutex &launching() {
    static std::once_flag once;
    std::call_once(once, create_pool);
    return pool->launching;
}

Worker *own_worker() {
    if (!pool->own) pool->own = create_worker();
    return pool->own;
}

bool have_workers(int number) {
    while (pool->threads < number - 1)
        if (!add_thread()) return false;
    return true;
}

void run_job(Job *job, int workers) {
    have_workers(workers);
    const int helpers =
        pool->threads < workers - 1 ? pool->threads : workers - 1;
    pool->lock.lock();
    pool->job = job;
    pool->seats = helpers;
    pool->lock.unlock();
    for (int i = 0; i < helpers; i++) pool->wake.notify_one();
    run_blocks(pool->own, job);
    // The launch does not wait for a worker that has not woken up by now.
    std::unique_lock<std::mutex> guard(pool->lock);
    pool->job = 0;
    pool->done.wait(guard, [] { return pool->busy == 0; });
}

void add_workers(Job *job, int number) {
    std::lock_guard<std::mutex> guard(pool->lock);
    if (pool->job != job) return;
    // The launching thread adds no more workers, so `lock` guards `threads`.
    const int needed = pool->busy + pool->seats + number;
    while (pool->threads < needed && add_thread()) {
    }
    pool->seats += number;
    pool->wake.notify_all();
}

} // namespace simt::SIMT_FIBERS
