/* engine.h -- the engine that runs a block of CUDA threads on one CPU thread.
 *
 * A block begins as a plain loop: one fiber runs the kernel to its end for
 * thread 0, 1, 2, ..., at about 2 ns per thread. The first thread that reaches
 * a barrier, a warp primitive or a spin promotes the block. That thread keeps
 * its fiber, and every later thread gets a fiber of its own. The earlier
 * threads have finished, and finished threads no longer count at the barrier,
 * as on a GPU. From then on the unfinished threads form a ring, and a thread
 * waits by passing the CPU to the next thread in the ring.
 *
 * A launch calls the runtime once. The code for each thread and barrier is
 * inlined into the kernel from this header. */
#ifndef SIMT_ENGINE_H
#define SIMT_ENGINE_H
#include "fiber.h"

typedef struct CUstream_st *cudaStream_t;

namespace simt::SIMT_FIBERS {

enum { MAX_THREADS = 1024, WARP = 32 };

/* The kinds of meetings of a warp's lanes; see meet(). */
enum Meeting : unsigned char { SYNC, SHUFFLE, BALLOT };

/* The state of a warp's meeting. Lane i offers in[i], and receives out[i] when
 * the lanes that it waits for have arrived. */
struct Warp {
    unsigned live;    /* lanes whose threads have not finished */
    unsigned waiting; /* lanes that wait in meet() */
    unsigned asking;  /* lanes that wait in __activemask() */
    unsigned mask[WARP];
    Meeting meeting[WARP];
    unsigned char source[WARP];
    uint64_t in[WARP], out[WARP];
};

struct Checker; /* defined in watch/check.h */

/* The state that the threads of the running block share. Each worker has
 * one. */
struct Block {
    uint3 index;
    dim3 block_dim, grid_dim;
    bool promoted;
    bool cooperative; /* whether all blocks of the launch run at the same
                       * time */
    /* Whether the running fiber is in this file's code rather than the
     * kernel's. Then it may be stopped but not preempted (watchdog.cpp). The
     * flag is set whenever fibers are switched, so the fiber that continues
     * after a switch finds it set and clears it. */
    volatile bool inside;
    int threads, running; /* in the direct loop: number of threads, and the
                             current thread */
    const Thread *order;  /* the threads in the order of their turns */
    int live, arrived;    /* unfinished threads; threads at the barrier */
    unsigned epoch;       /* barriers passed by this block */
    int votes[2];         /* sums for __syncthreads_count() in even and odd
                           * epochs */
    char *shared;         /* dynamic shared memory, then the static arrays */
    unsigned launch;      /* number of the launch, never 0 */
    void (*body)(void *);
    void *closure;
    Checker *checker; /* NULL if the launch is not instrumented */
};

/* A parameter of a kernel, for the watch build. If it is a pointer, `value` is
 * its value, and `element` is the size in bytes of the element that it points
 * to (0: unknown). */
struct Parameter {
    const void *value;
    unsigned element;
    const char *name; /* `length` characters, not terminated */
    int length;
};

/* The inner dimensions of an array: 3 and 4 for x[2][3][4]; 0 past the last
 * one. */
struct Sides {
    unsigned inner[3];
};

/* An array in shared memory, as placed by a launch. */
struct SharedName {
    const char *name;
    unsigned launch, offset, element;
    Sides sides;
    size_t size;
    SharedName *next;
};

/* One array of a __shared__ declaration; `offset` is in bytes from the
 * declaration's start. */
struct SharedMember {
    const char *name;
    size_t offset, size;
    unsigned element;
    Sides sides;
};

/* A __global__ function. Each function has a separate object. */
struct Kernel {
    const char *name;
    int max_dynamic_shared; /* set by cudaFuncSetAttribute(); 0: the default */
    int static_shared;      /* bytes of __shared__ arrays that it placed */
    bool checked;           /* whether the kernel's code calls the hooks of
                             * kernels/simt/watch */
    Parameter *parameters;  /* the latest launch's; only for a checked
                             * kernel */
    int parameters_count;
    SharedName *shared_names;
};

/* The operations on a closure, which is the kernel's code with its
 * arguments. */
struct Closure {
    void (*run)(void *closure);
    size_t size, align;
    void (*copy)(void *to, const void *from);
    void (*destroy)(void *closure);
};

/* The position of a static __shared__ declaration, valid for one launch. */
struct SharedSite {
    unsigned launch, offset;
};

/* Read the engine's state. Code compiled with SIMT_CHECK calls a hook for each
 * access, except for the operands of an asm statement. */
#if defined(SIMT_CHECK) && defined(__x86_64__)
SIMT_INLINE unsigned peek(const unsigned &at) {
    unsigned value;
    asm("movl %1, %0" : "=r"(value) : "m"(at));
    return value;
}
SIMT_INLINE Block *peek(Block *const &at) {
    Block *value;
    asm("movq %1, %0" : "=r"(value) : "m"(at));
    return value;
}
#else
template <class T> SIMT_INLINE T peek(const T &at) { return at; }
#endif

/* The configuration between <<< and >>>. It stays on a stack of the host thread
 * until the next kernel call uses it. So the call itself is an ordinary one:
 * arguments are evaluated once and converted to the parameters' types. */
struct Launch {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    bool cooperative;
    Launch *outer;
    bool taken;
    int error; /* the cudaError_t of a launch that was rejected */
    Launch(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0,
           bool cooperative = false);
    Launch(const Launch &) = delete;
    ~Launch();
};

#pragma GCC visibility push(default)
void launch_push(Launch *launch);
void launch_pop(Launch *launch);
/* Return true if only the kernel's identity is requested. The kernel then
 * returns immediately. */
bool asked(Kernel *kernel);
/* Run the closure for every thread of the launch that is on top of the stack.
 * If its stream is being captured, keep a copy of the launch instead. */
void run(Kernel *kernel, const Closure *calls, void *closure);

void promote(Fiber *self);
void start(Fiber *fiber);
void complete(Warp *warp, unsigned group, Meeting meeting);
/* Handle a turn in which a waiting thread cannot continue. */
void in_vain(Fiber *self);
/* Handle a spin of a thread that may continue without help from other
 * threads. */
void spin(Fiber *self);
unsigned active_lanes(Fiber *self);
unsigned place_shared(Block *block, SharedSite *site, size_t size,
                      size_t align);
/* Wait for all threads of a cooperative launch. file, line: the call's place in
 * the source, for the watch build. */
void grid_barrier(const char *file = 0, unsigned line = 0);
/* Implement __trap(): end the launch. */
[[noreturn]] void trap();

/* Functions that are normally inlined into kernels. For kernels compiled with
 * SIMT_CHECK they are out of line, so that no hook records their accesses
 * (watch/engine.cpp). */
void checked_begin_thread(void *copy, const void *closure, size_t size);
bool checked_next_thread(); /* false: this was the last thread */
void checked_end();    /* the thread has reached the end of the kernel's body */
void checked_leaves(); /* the thread leaves a function before that function's
                        * end */
Fiber *checked_promoted();
int checked_barrier(int vote, const char *file, unsigned line);
uint64_t checked_meet(unsigned mask, Meeting meeting, uint64_t value,
                      unsigned source);
void *checked_shared(SharedSite *site, size_t size, size_t align,
                     const SharedMember *members, int count);
void *checked_dynamic_shared(const char *name, unsigned element);
void checked_parameters(Kernel *kernel, const char *names,
                        const Parameter *values, int count);
void checked_fence(bool device);
/* Set the names of a module's device variables. A module without this call has
 * none. */
void checked_device_names(const char *names);
/* Replace the `size` bytes at `address` with next(closure, old), and return
 * the old bytes. This counts as one access, regardless of the number of
 * attempts. */
uint64_t checked_update(void *address, unsigned size, int order,
                        uint64_t (*next)(const void *closure, uint64_t old),
                        const void *closure);
/* If `is` is true, mark the last atomic as one that changed nothing. */
void checked_fruitless(bool is);
#pragma GCC visibility pop

inline Launch::Launch(dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                      bool cooperative)
    : grid(grid), block(block), shared(shared), stream(stream),
      cooperative(cooperative), outer(0), taken(false), error(0) {
    launch_push(this);
}
inline Launch::~Launch() { launch_pop(this); }

/* ---- running threads ---------------------------------------------------- */

/* Call these functions before and after accesses to the engine's state. Neither
 * that state nor memory that other threads may write stays in registers across
 * the calls. */
SIMT_INLINE void go_inside(Block *block) {
    block->inside = true;
    asm volatile("" ::: "memory");
}
SIMT_INLINE void go_outside(Block *block) {
    asm volatile("" ::: "memory");
    block->inside = false;
}

template <class T> SIMT_INLINE T look(const T &at) {
    return *(const volatile T *)&at; // stays after the volatile stores
}

template <class Body, bool plain = __is_trivially_copyable(Body)>
struct OwnCopy {
    Body body;
    inline explicit OwnCopy(const Body &body) : body(body) {}
};
template <class Body> struct OwnCopy<Body, false> {
    union {
        Body body;
    };
    inline explicit OwnCopy(const Body &from) {
        __builtin_memcpy((void *)&body, (const void *)&from, sizeof body);
    }
    inline ~OwnCopy() {}
};

#ifdef SIMT_CHECK
/* Run the threads from copies of the closure on their stacks, since hooks
 * inspect each address and the closure is on the host's stack. A second copy
 * stays in registers, unless it is so large that the stack has no room for
 * two. */
template <class Body, bool large = (sizeof(Body) > 4096)> struct SecondCopy {
    typedef OwnCopy<Body> type;
};
template <class Body> struct SecondCopy<Body, true> {
    struct type {
        Body &body;
        inline explicit type(const Body &first) : body((Body &)first) {}
    };
};

template <class Body> void run_threads(void *closure) {
    alignas(Body) char bytes[sizeof(Body)];
    do {
        checked_begin_thread(bytes, closure, sizeof bytes);
        typename SecondCopy<Body>::type mine(*(const Body *)bytes);
        // This is always true, but the compiler cannot deduce that. So the body
        // begins a new basic block, and its first lines count as a step.
        bool goes_on = true;
        asm volatile("" : "+r"(goes_on));
        if (!goes_on) return;
        mine.body();
    } while (checked_next_thread());
}
#else
/* Run one thread on its fiber, or all threads of the block in a loop. */
template <class Body> void run_threads(void *closure) {
    const Body &body = *(const Body *)closure;
    Fiber *self = here();
    Block *block = self->block;
    for (;;) {
        // A thread may change its copies of the parameters. As on a GPU, they
        // are copied as bytes, so no thread runs a copy constructor or
        // destructor.
        OwnCopy<Body> mine(body);
        // go_outside() is not used, so the loop may keep everything in
        // registers, which saves a third of the time of a small kernel.
        block->inside = false;
        mine.body();
        block->inside = true;
        // If the block has been promoted, just now or earlier, other fibers run
        // the remaining threads.
        if (look(block->promoted)) return;
        const int running = look(block->running) + 1;
        block->running = running;
        if (running == block->threads) return;
        self->thread = block->order[running];
    }
}
#endif

struct Place {}; // avoids including <new>

} // namespace simt::SIMT_FIBERS

inline void *operator new(size_t, simt::Place, void *at) noexcept { return at; }
inline void operator delete(void *, simt::Place, void *) noexcept {}

namespace simt::SIMT_FIBERS {

template <class Body> struct ClosureOf {
    static void copy(void *to, const void *from) {
        new (Place(), to) Body(*(const Body *)from);
    }
    static void destroy(void *closure) { ((Body *)closure)->~Body(); }
    static constexpr Closure calls = {run_threads<Body>, sizeof(Body),
                                      alignof(Body), copy, destroy};
};

/* Wrap a kernel's body; see rewrite.py. */
template <class Body> SIMT_INLINE void launch(Kernel *kernel, Body body) {
    run(kernel, &ClosureOf<Body>::calls, &body);
}

template <size_t... I> struct Indices {}; // avoids including <utility>

/* Let the next thread in the ring run. Return when this thread's turn comes
 * again. */
SIMT_INLINE void pass(Fiber *self) {
    Fiber *next = self->next;
    if (SIMT_UNLIKELY(!next->resume)) start(next);
    switch_fiber(self, next);
}

#ifdef SIMT_CHECK
SIMT_INLINE Fiber *promoted() { return checked_promoted(); }
SIMT_INLINE int barrier(int vote = 0, const char *file = __builtin_FILE(),
                        unsigned line = __builtin_LINE()) {
    return checked_barrier(vote, file, line);
}
SIMT_INLINE uint64_t meet(unsigned mask, Meeting meeting, uint64_t value,
                          unsigned source) {
    return checked_meet(mask, meeting, value, source);
}
#else
/* Return the running thread, after promoting its block so that the thread may
 * wait. */
SIMT_INLINE Fiber *promoted() {
    Fiber *self = here();
    if (SIMT_UNLIKELY(!self->block->promoted)) promote(self);
    return self;
}

/* ---- meeting ------------------------------------------------------------ */

SIMT_INLINE void open_barrier(Block *block) {
    block->arrived = 0;
    block->epoch++;
    block->votes[block->epoch & 1] = 0; // no thread of this block still needs
                                        // the old value
}

/* Implement __syncthreads(). Return the sum of the threads' votes. */
SIMT_INLINE int barrier(int vote = 0) {
    Block *block = here()->block;
    go_inside(block);
    Fiber *self = promoted();
    const unsigned epoch = block->epoch;
    block->votes[epoch & 1] += vote;
    if (++block->arrived == block->live) {
        open_barrier(block);
    } else {
        for (;;) {
            pass(self);
            if (block->epoch != epoch) break;
            in_vain(self);
        }
    }
    const int votes = block->votes[epoch & 1];
    go_outside(block);
    return votes;
}

/* Wait for the lanes of `mask` that have not finished. Offer `value`, and
 * return the value that lane `source` offers (SHUFFLE) or the lowest bits of
 * all lanes (BALLOT). The last lane to arrive computes the results of all
 * lanes. So no lane can overwrite a value that a slower lane still needs. */
SIMT_INLINE uint64_t meet(unsigned mask, Meeting meeting, uint64_t value,
                          unsigned source) {
    Block *block = here()->block;
    go_inside(block);
    Fiber *self = promoted();
    Warp *warp = self->warp;
    const unsigned lane = self->thread.linear % WARP;
    warp->in[lane] = value;
    warp->source[lane] = source;
    warp->mask[lane] = mask;
    warp->meeting[lane] = meeting;
    warp->waiting |= 1u << lane;
    if (!(mask & warp->live & ~warp->waiting)) {
        complete(warp, (mask & warp->live) | 1u << lane, meeting);
    } else {
        for (;;) {
            pass(self);
            if (!(warp->waiting >> lane & 1)) break;
            in_vain(self);
        }
    }
    const uint64_t result = warp->out[lane];
    go_outside(block);
    return result;
}
#endif

/* ---- shared memory ------------------------------------------------------ */

#ifdef SIMT_CHECK
/* Call checked_leaves(), unless the compiler evaluates the code at compile
 * time. */
constexpr void leaves() {
    if (!__builtin_is_constant_evaluated()) checked_leaves();
}

template <class T> struct ElementOf {
    typedef T type;
};
template <class T, size_t n> struct ElementOf<T[n]> : ElementOf<T> {};
template <class T> struct ElementOf<T[]> : ElementOf<T> {};

/* The size of dimension `i` of an array, or 0 if the array has fewer
 * dimensions. */
template <class T, unsigned i> struct SideOf {
    static constexpr unsigned value = 0;
};
template <class T, size_t n> struct SideOf<T[n], 0> {
    static constexpr unsigned value = n;
};
template <class T, size_t n, unsigned i>
struct SideOf<T[n], i> : SideOf<T, i - 1> {};
template <class T> constexpr Sides sides_of() {
    return {{SideOf<T, 1>::value, SideOf<T, 2>::value, SideOf<T, 3>::value}};
}

template <class T, size_t count>
SIMT_INLINE T &shared(SharedSite *site, const SharedMember (&members)[count]) {
    static_assert(sizeof(T) <= 48 << 10,
                  "more than 48 KB of static __shared__ memory: use extern "
                  "__shared__ and cudaFuncSetAttribute()");
    return *(T *)checked_shared(site, sizeof(T), alignof(T), members, count);
}
SIMT_INLINE void *dynamic_shared(const char *name, size_t element) {
    return checked_dynamic_shared(name, (unsigned)element);
}

template <class T> SIMT_INLINE auto size_of(T *) -> decltype(sizeof(T)) {
    return sizeof(T);
}
SIMT_INLINE size_t size_of(...) { return 0; }
template <class T> SIMT_INLINE Parameter parameter(T *const &value) {
    return {(const void *)value, (unsigned)size_of(value), 0, 0};
}
template <class T> SIMT_INLINE Parameter parameter(const T &) { return {}; }
/* Record the kernel's parameters: their names, such as "a, b", and their
 * values. */
template <class... T>
void parameters(Kernel *kernel, const char *names, const T &...values) {
    const Parameter list[] = {parameter(values)..., {}};
    checked_parameters(kernel, names, list, sizeof...(T));
}
#else
/* Return the arrays of one __shared__ declaration, as members of T. As under
 * nvcc, no constructor runs. */
template <class T> SIMT_INLINE T &shared(SharedSite *site) {
    static_assert(sizeof(T) <= 48 << 10,
                  "more than 48 KB of static __shared__ memory: use extern "
                  "__shared__ and cudaFuncSetAttribute()");
    Block *block = here()->block;
    unsigned offset;
    if (__atomic_load_n(&site->launch, __ATOMIC_ACQUIRE) == block->launch)
        offset = site->offset;
    else
        offset = place_shared(block, site, sizeof(T), alignof(T));
    return *(T *)(block->shared + offset);
}

SIMT_INLINE void *dynamic_shared(const char *, size_t) {
    return here()->block->shared;
}
#endif

/* The array of `extern __shared__ T name[]` outside a function. */
template <class T> struct DynamicShared {
#ifdef SIMT_CHECK
    const char *name;
    operator T *() const { return (T *)dynamic_shared(name, sizeof(T)); }
#else
    operator T *() const { return (T *)dynamic_shared("", 0); }
#endif
};

} // namespace simt::SIMT_FIBERS
#endif
