/* cas.cu -- the CUDA guide's method for an atomic operation that a GPU lacks:
 * the first read is not atomic, and compare-and-swap corrects it. */
#include "../cases.h"

__device__ double add(double *address, double value) {
    unsigned long long *word = (unsigned long long *)address, seen = *word, old;
    do {
        old = seen;
        seen = atomicCAS(
            word, old, __double_as_longlong(value + __longlong_as_double(old)));
    } while (seen != old);
    return __longlong_as_double(seen);
}
__global__ void add_doubles(double *sum, const double *x) {
    add(sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
}
CASE(atomic_cas_on_a_double) {
    double *sum = zeros<double>(1);
    add_doubles<<<3, 32>>>(sum, values<double>(96));
    int want = 0;
    for (int i = 0; i < 96; i++) want += value_at(i);
    return equal(sum, 1, [=](int) { return want; });
}

// Work in shared memory, with a plain read in every round of the loop, and with
// words that contain halves of the data.
__global__ void largest(const float *x, float *out) {
    __shared__ float most;
    if (threadIdx.x == 0) most = 0;
    __syncthreads();
    const float mine = x[blockIdx.x * blockDim.x + threadIdx.x];
    int old;
    do {
        old = __float_as_int(most);
        if (__int_as_float(old) >= mine) old = __float_as_int(mine);
    } while (atomicCAS((int *)&most, old, __float_as_int(mine)) != old &&
             __int_as_float(atomicAdd((int *)&most, 0)) < mine);
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = most;
}
CASE(atomic_cas_in_shared_memory) {
    float *most = zeros<float>(4);
    largest<<<4, 64>>>(values<float>(256), most);
    return equal(most, 4, [](int block) {
        int want = 0;
        for (int i = 0; i < 64; i++)
            if (value_at(block * 64 + i) > want)
                want = value_at(block * 64 + i);
        return want;
    });
}

// Insert into an open hash table, which skips occupied slots.
__global__ void insert(int *table, const int *keys, int size) {
    const int key = keys[blockIdx.x * blockDim.x + threadIdx.x];
    for (int slot = key % size; table[slot] != key; slot = (slot + 1) % size) {
        const int old = atomicCAS(&table[slot], 0, key);
        if (old == 0 || old == key) break;
    }
}
CASE(hash_table) {
    int *table = zeros<int>(64);
    insert<<<4, 64>>>(table, values<int>(256), 64);
    const int *host = fetch(table, 64);
    int taken = 0;
    for (int i = 0; i < 64; i++) taken += host[i] != 0;
    return taken == 31;
}

// A stack without a lock: a late thread retries with the current head.
struct Node {
    int key;
    Node *next;
};
__global__ void push(Node **head, Node *pool) {
    typedef unsigned long long Word;
    Node *mine = &pool[blockIdx.x * blockDim.x + threadIdx.x], *old = *head;
    mine->key = threadIdx.x;
    for (;;) {
        mine->next = old;
        __threadfence();
        Node *seen = (Node *)atomicCAS((Word *)head, (Word)old, (Word)mine);
        if (seen == old) break;
        old = seen;
    }
}
CASE(a_stack_without_a_lock) {
    Node **head = zeros<Node *>(1), *pool = unwritten<Node>(128);
    push<<<4, 32>>>(head, pool);
    const Node *all = fetch(pool, 128);
    int count = 0;
    for (Node *at = *fetch(head, 1); at; at = all[at - pool].next) count++;
    return count == 128;
}

__device__ float add_by_exchanging(float *sum, float value) {
    return atomicExch(sum, atomicExch(sum, 0.0f) + value);
}
__global__ void add_floats(float *sum) {
    float value = 1;
    while ((value = add_by_exchanging(sum, value)) != 0.0f);
}
CASE(a_sum_by_exchanging) {
    float *sum = zeros<float>(1);
    add_floats<<<2, 32>>>(sum);
    return equal(sum, 1, [](int) { return 64; });
}
