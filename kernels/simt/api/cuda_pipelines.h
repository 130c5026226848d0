/* cuda_pipelines.h -- cuda::pipeline, as in <cuda/pipeline>.
 *
 * Copies are performed immediately, so the pipeline of a single thread never
 * waits. A pipeline that a group shares passes its stages from producers to
 * consumers, with two barriers for each stage. */
#ifndef SIMT_CUDA_PIPELINES_H
#define SIMT_CUDA_PIPELINES_H
#include "cuda_barrier.h"

namespace cuda {

enum class pipeline_role { producer, consumer };

template <thread_scope scope, unsigned stages> struct pipeline_shared_state {
    barrier<scope> full[stages], empty[stages];
    uint32_t producers; /* number of producers, while the pipeline is being
                         * made */
};

template <thread_scope scope> class pipeline {
    barrier<scope> *full, *empty; /* barriers of each stage; NULL for a single
                                   * thread's pipeline */
    unsigned stages;
    unsigned head = 0, tail = 0; /* number of stages filled and emptied so
                                  * far */

    pipeline(barrier<scope> *full, barrier<scope> *empty, unsigned stages)
        : full(full), empty(empty), stages(stages) {}
    friend pipeline<thread_scope_thread> make_pipeline();
    template <class G, thread_scope s, unsigned n, class Count>
    friend pipeline<s> simt_make_pipeline(const G &,
                                          pipeline_shared_state<s, n> *, Count);

  public:
    pipeline(pipeline &&) = default;
    pipeline(const pipeline &) = delete;

    void producer_acquire() {
        // A stage is empty at its first use.
        if (full && head >= stages)
            empty[head % stages].wait_parity((head / stages - 1) & 1);
    }
    void producer_commit() {
        if (full) (void)full[head % stages].arrive();
        head++;
    }
    void consumer_wait() {
        if (full) full[tail % stages].wait_parity(tail / stages & 1);
    }
    void consumer_release() {
        if (full) (void)empty[tail % stages].arrive();
        tail++;
    }
    bool quit() { return true; }
};

inline pipeline<thread_scope_thread> make_pipeline() { return {0, 0, 1}; }

/* Make a pipeline. Each thread calls count(), which may update the number of
 * producers. Then the group's first thread prepares the barriers. */
template <class G, thread_scope s, unsigned n, class Count>
pipeline<s> simt_make_pipeline(const G &group,
                               pipeline_shared_state<s, n> *state,
                               Count count) {
    if (group.thread_rank() == 0) state->producers = 0;
    group.sync();
    count(&state->producers);
    group.sync();
    if (group.thread_rank() == 0) {
        const unsigned all = (unsigned)group.size(), make = state->producers;
        for (unsigned i = 0; i < n; i++) {
            init(&state->full[i], make > all ? all : make);
            init(&state->empty[i], make > all ? all : all - make);
        }
    }
    group.sync();
    return {state->full, state->empty, n};
}

/* Make a pipeline in which all threads of the group produce and consume. */
template <class G, thread_scope s, unsigned n>
pipeline<s> make_pipeline(const G &group, pipeline_shared_state<s, n> *state) {
    return simt_make_pipeline(group, state,
                              [](uint32_t *producers) { *producers = ~0u; });
}
/* Make a pipeline in which each thread specifies its role. */
template <class G, thread_scope s, unsigned n>
pipeline<s> make_pipeline(const G &group, pipeline_shared_state<s, n> *state,
                          pipeline_role role) {
    return simt_make_pipeline(group, state, [role](uint32_t *producers) {
        if (role == pipeline_role::producer)
            __atomic_add_fetch(producers, 1, __ATOMIC_RELAXED);
    });
}
/* Make a pipeline in which the first `producers` threads of the group
 * produce. */
template <class G, thread_scope s, unsigned n>
pipeline<s> make_pipeline(const G &group, pipeline_shared_state<s, n> *state,
                          size_t producers) {
    const bool mine = group.thread_rank() < producers;
    return make_pipeline(
        group, state, mine ? pipeline_role::producer : pipeline_role::consumer);
}

template <unsigned stages>
void pipeline_consumer_wait_prior(pipeline<thread_scope_thread> &) {}

template <class Size, thread_scope scope>
void memcpy_async(void *to, const void *from, Size bytes, pipeline<scope> &) {
    memcpy(to, from, (size_t)bytes);
}
template <class Group, class Size, thread_scope scope>
void memcpy_async(const Group &group, void *to, const void *from, Size bytes,
                  pipeline<scope> &) {
    cooperative_groups::memcpy_async(group, (char *)to, (const char *)from,
                                     (size_t)bytes);
}

} // namespace cuda
#endif
