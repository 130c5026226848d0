/* runtime.cpp -- launches: their checks, their order, and the state that
 * remains. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <mutex>
#include <new>
#include <thread>

#include "../watch/launch.h"
#include "runtime.h"

namespace simt::SIMT_FIBERS {

enum {
    MAX_WORKERS = 1024,
    CHUNKS_PER_WORKER = 16,
    COOPERATIVE_BLOCKS = 64 // each needs a system thread; many are slow
};

static std::atomic<int> wanted_threads, order_of_turns;
static std::atomic<unsigned> launches;
static std::atomic<const char *> latest;
static thread_local Launch *pending;
static thread_local Kernel **asking;
thread_local Worker *this_worker;
std::atomic<const Capture *> capture;

/* ---- the text between <<< and >>> ---------------------------------------- */

void launch_push(Launch *launch) {
    launch->outer = pending;
    pending = launch;
}

void launch_pop(Launch *launch) {
    pending = launch->outer;
    if (!launch->taken) set_error(cudaErrorInvalidDeviceFunction);
}

bool asked(Kernel *kernel) {
    if (!asking) return false;
    *asking = kernel;
    return true;
}

Kernel *kernel_of(const void *function) {
    // Every kernel calls asked() before it uses its parameters, so this code
    // may call the kernel without arguments.
    Kernel *kernel = 0;
    asking = &kernel;
    if (function) ((void (*)())(uintptr_t)function)();
    asking = 0;
    return kernel;
}

void forget_launches(Launch *but) { pending = but; }

Launch *pending_launch() { return pending; }

unsigned launches_so_far() { return launches.load(); }

const char *latest_kernel() { return latest.load(); }

/* ---- launches ----------------------------------------------------------- */

static bool within(dim3 dim, unsigned x, unsigned y, unsigned z) {
    return dim.x >= 1 && dim.y >= 1 && dim.z >= 1 && dim.x <= x && dim.y <= y &&
           dim.z <= z;
}

/* Return the error with which a GPU would reject such a launch. */
static cudaError_t check(const Kernel *kernel, const Launch *launch) {
    const dim3 block = launch->block;
    const size_t most = kernel->max_dynamic_shared ? kernel->max_dynamic_shared
                                                   : (int)STATIC_SHARED;
    if (!within(launch->grid, 0x7fffffff, 65535, 65535) ||
        !within(block, MAX_THREADS, MAX_THREADS, 64) ||
        (uint64_t)block.x * block.y * block.z > MAX_THREADS)
        return cudaErrorInvalidConfiguration;
    if (launch->shared > most) return cudaErrorInvalidValue;
    const dim3 grid = launch->grid;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    if (launch->cooperative && blocks > (uint64_t)cooperative_limit())
        return cudaErrorCooperativeLaunchTooLarge;
    return cudaSuccess;
}

static void refuse(const Kernel *kernel, Launch *launch, cudaError_t e) {
    const dim3 g = launch->grid, b = launch->block;
    simt_fault fault = {};
    fault.kind = SIMT_FAULT_LAUNCH;
    fault.error = launch->error = e;
    snprintf(fault.kernel, sizeof fault.kernel, "%s", kernel->name);
    const int length = snprintf(fault.text, sizeof fault.text,
                                "%.99s<<<(%u,%u,%u), (%u,%u,%u), %zu>>>: %s",
                                kernel->name, g.x, g.y, g.z, b.x, b.y, b.z,
                                launch->shared, cudaGetErrorString(e));
    if (e == cudaErrorCooperativeLaunchTooLarge)
        snprintf(fault.text + length, sizeof fault.text - length,
                 ": %llu blocks must run together; this CPU runs at most %d",
                 (unsigned long long)g.x * g.y * g.z, cooperative_limit());
    report_fault(&fault);
}

static void refuse_call(const Kernel *kernel) {
    simt_fault fault = {};
    fault.kind = SIMT_FAULT_LAUNCH;
    fault.error = cudaErrorNotSupported;
    snprintf(fault.kernel, sizeof fault.kernel, "%s", kernel->name);
    snprintf(fault.text, sizeof fault.text,
             "%.99s: called like a function; the host launches it with "
             "<<<...>>>",
             kernel->name);
    report_fault(&fault);
}

/* Return the number of workers to use: only those for which there is enough
 * work, since waking a worker takes about 10 us. */
static int workers_for(const Job *job) {
    if (job->cooperative) return (int)job->blocks;
    const uint64_t threads =
        job->blocks * (job->block.x * job->block.y * job->block.z);
    if (threads < 4096) return 1;
    const uint64_t wanted = (uint64_t)simt_threads();
    return (int)(wanted < job->blocks ? wanted : job->blocks);
}

static void fill(Job *job, Kernel *kernel, const Launch *launch) {
    job->grid = launch->grid;
    job->block = launch->block;
    job->dynamic_shared = launch->shared;
    job->kernel = kernel;
    job->cooperative = launch->cooperative;
    job->order = order_of_turns;
    job->blocks = (uint64_t)job->grid.x * job->grid.y * job->grid.z;
    const unsigned number = ++launches;
    job->number = number ? number : ++launches; // 0 means no launch
    latest = kernel->name;
    job->shared_used = (unsigned)(launch->shared + 127) / 128 * 128;
    job->shared_gaps = 0;
    job->printed = 0;
    job->fault_found = false;
    job->fault_pc = 0;
}

static void run_now(Kernel *kernel, const Closure *calls, void *closure,
                    Launch *launch) {
    std::lock_guard<std::mutex> guard(launching());
    if (!own_worker()) return refuse(kernel, launch, cudaErrorMemoryAllocation);
    static Job job; // only one launch runs at a time, and fill() sets it up
    fill(&job, kernel, launch);
    job.body = calls->run;
    job.closure = closure;
    job.next = 0;
    job.shared_claims = false;
    job.failed = false;
    const int workers = workers_for(&job);
    if (job.cooperative && !prepare_grid(&job))
        return refuse(kernel, launch, cudaErrorCooperativeLaunchTooLarge);
    const uint64_t chunk = job.blocks / (workers * CHUNKS_PER_WORKER);
    job.chunk = chunk < 1 ? 1 : chunk > 256 ? 256 : chunk;
    provide_stack();
    simt_watch_begin();
    catch_faults();
    watch_launch(&job);
    if (kernel->checked) check_begin_launch(&job);
    run_job(&job, workers);
    unwatch_launch(); // this also releases the fault handlers eventually
    simt_watch_end();
    if (kernel->checked) check_end_launch(&job);
    if (job.failed) report_fault(&job.fault);
}

/* Keep a copy of the launch for the graph into which its stream is being
 * captured. */
static void record(const Capture *to, Kernel *kernel, const Closure *calls,
                   const void *closure, Launch *launch) {
    Recorded *recorded = new (std::nothrow) Recorded();
    const size_t align = calls->align < 16 ? 16 : calls->align;
    if (!recorded || posix_memalign(&recorded->closure, align, calls->size)) {
        delete recorded;
        return refuse(kernel, launch, cudaErrorMemoryAllocation);
    }
    calls->copy(recorded->closure, closure);
    recorded->kernel = kernel;
    recorded->calls = calls;
    recorded->grid = launch->grid;
    recorded->block = launch->block;
    recorded->shared = launch->shared;
    recorded->stream = launch->stream;
    recorded->cooperative = launch->cooperative;
    to->keep(recorded);
}

static void launch_checked(Kernel *kernel, const Closure *calls, void *closure,
                           Launch *launch) {
    launch->taken = true;
    if (const cudaError_t error = sticky_error())
        launch->error = set_error(error);
    else if (const cudaError_t error = check(kernel, launch))
        refuse(kernel, launch, error);
    else
        run_now(kernel, calls, closure, launch);
}

void run(Kernel *kernel, const Closure *calls, void *closure) {
    if (Worker *worker = this_worker) {
        note_fault(worker, here(), SIMT_FAULT_LAUNCH, cudaErrorNotSupported,
                   "calls the kernel %s: kernels that launch kernels (dynamic "
                   "parallelism) are not supported",
                   kernel->name);
        abandon(worker);
    }
    Launch *launch = pending;
    if (!launch || launch->taken) return refuse_call(kernel);
    const Capture *to = capture.load();
    if (!to || !to->active(launch->stream))
        return launch_checked(kernel, calls, closure, launch);
    launch->taken = true;
    if (const cudaError_t error = check(kernel, launch))
        return refuse(kernel, launch, error);
    record(to, kernel, calls, closure, launch);
}

cudaError_t replay(const Recorded *recorded) {
    Launch launch(recorded->grid, recorded->block, recorded->shared,
                  recorded->stream, recorded->cooperative);
    launch_checked(recorded->kernel, recorded->calls, recorded->closure,
                   &launch);
    return (cudaError_t)launch.error;
}

void forget(Recorded *recorded) {
    recorded->calls->destroy(recorded->closure);
    free(recorded->closure);
    delete recorded;
}

int cooperative_limit() {
    const int threads = simt_threads();
    return threads < COOPERATIVE_BLOCKS ? (int)COOPERATIVE_BLOCKS : threads;
}

} // namespace simt::SIMT_FIBERS

using namespace simt;

extern "C" void simt_set_threads(int n) {
    wanted_threads = n < 0 ? 0 : n > MAX_WORKERS ? (int)MAX_WORKERS : n;
}

extern "C" int simt_threads(void) {
    if (wanted_threads > 0) return wanted_threads;
    // In a container with a quota of CPU time, `import weft` sets this variable
    // unless the user has set it; see lib/weft/base/device.py.
    const char *text = getenv("OMP_NUM_THREADS");
    const int chosen = text ? atoi(text) : 0;
    if (chosen > 0) return chosen > MAX_WORKERS ? (int)MAX_WORKERS : chosen;
#ifdef __linux__
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return CPU_COUNT(&cores);
#endif
    const int cores_here = (int)std::thread::hardware_concurrency();
    return cores_here > 0 ? cores_here : 1;
}

extern "C" void simt_set_order(int order) {
    order_of_turns = order < 0 ? (int)SIMT_FORWARD : order;
}
