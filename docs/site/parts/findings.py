"""The kinds of findings: an example of each, its cause and its cure."""

from __future__ import annotations

from parts.examples import Entry

FINDINGS = [
    Entry(
        "bounds",
        "an access outside of an array",
        "The index of an element is below 0, or at least the number of elements. The "
        "last block usually has more threads than there are elements left, so a "
        "missing or wrong guard is the usual cause. A GPU does not report such an "
        "access: it reads or destroys whatever has that address.",
        "Let only threads with an element access the array: `if (i < n)`. In a "
        "matrix, guard the row and the column separately, since a column past the end "
        "of its row is an element of the next row. For neighbours (`x[i - 1]`), "
        "guard the low end, too.",
        cell="""\
__global__ void scale(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = a * x[i];
}
""",
        code="""\
x, y = np.ones(100, float32), np.zeros(100, float32)
scale[4, 32](y, x, 2.0, 100)
""",
    ),
    Entry(
        "race",
        "a read and a write of one element that nothing orders",
        "One thread writes an element, another one reads or writes it, and no barrier "
        "is in between. The result depends on which thread is first. On a GPU, "
        "such a kernel is often right for years, and then wrong on another GPU.",
        "Between two threads of a block, put a barrier that all of them reach: "
        "`__syncthreads()`, or `cuda.syncthreads()` in Python. In a loop, a second "
        "barrier at its end is often needed. Between blocks no barrier helps: give "
        "each block its own elements, use atomics, or launch a second kernel. For "
        "`x[i] += ...` on a shared element, use `atomicAdd()`.",
        cell="""\
__global__ void reverse(float *y, const float *x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    y[t] = s[63 - t];
}
""",
        code="""\
x, y = np.ones(64, float32), np.zeros(64, float32)
reverse[1, 64](y, x)
""",
    ),
    Entry(
        "unwaited",
        "an access to memory that a copy still reads or writes",
        "An asynchronous copy (`cp.async`, TMA, `wgmma`) continues while the kernel "
        "goes on. Here, the kernel uses the copied data before it has waited for the "
        "copy. A barrier orders threads only, not copies.",
        "Wait for the copy's group first: `__pipeline_wait_prior(0)`, "
        "`mbarrier_wait()` or the like. If other threads use the data, add a barrier "
        "after the wait.",
        cell="""\
#include <cuda_pipeline.h>

__global__ void fetch(int *out, const int *x) {
    __shared__ __align__(16) int s[4 * 64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], &x[4 * t], 16);
    __pipeline_commit();
    __syncthreads();
    out[t] = s[4 * 64 - 1 - t];
}
""",
        code="""\
x, out = np.arange(256, dtype=int32), np.zeros(64, int32)
fetch[1, 64](out, x)
""",
    ),
    Entry(
        "conflict",
        "different values written to one element by several threads",
        "Several threads write different values to the same element, and nothing "
        "orders them. The final value depends on chance. Usually, the index does not "
        "depend on the thread as intended.",
        "Let one thread write the element, or add up with `atomicAdd()`. If each "
        "thread should have an element of its own, correct the index.",
        cell="""\
__global__ void pairs(float *y, const float *x) {
    int t = threadIdx.x;
    y[t / 2] = x[t];
}
""",
        code="""\
x, y = np.arange(64, dtype=float32), np.zeros(32, float32)
pairs[1, 64](y, x)
""",
    ),
    Entry(
        "uninitialised",
        "a read of an element that has never been written",
        "New memory is not zero. Shared memory contains what an earlier block left "
        "there, and `cudaMalloc()` returns memory with old contents. The kernel reads "
        "an element before any thread has written it.",
        "Write every element that is read. If a guard skips some, write a neutral "
        "value into those, too: 0 for a sum. If another thread writes the element, "
        "wait for it at a barrier. Set global memory before the launch: "
        "`cudaMemset()`.",
        cell="""\
__global__ void reverse(float *y, const float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < n) s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t];
}
""",
        code="""\
x, y = np.ones(60, float32), np.zeros(64, float32)
reverse[1, 64](y, x, 60)
""",
    ),
    Entry(
        "barrier",
        "a barrier that some threads of a block reach and others do not",
        "A barrier is below an `if`, or in a loop whose number of turns differs "
        "between threads. CUDA guarantees nothing then: the kernel may wait forever, "
        "or continue too early.",
        "Take the barrier out of the branch, so that every thread of the block "
        "reaches it. Guard only the loads and stores. A `return` before a barrier is "
        "the same mistake.",
        cell="""\
__global__ void halves(float *y, const float *x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    if (t < 32) {
        __syncthreads();
        s[t] += s[t + 32];
    }
    y[t] = s[t];
}
""",
        code="""\
x, y = np.ones(64, float32), np.zeros(64, float32)
halves[1, 64](y, x)
""",
    ),
    Entry(
        "absent-lane",
        "a lane that a warp's call names or reads, but that does not call",
        "The mask of a shuffle or vote names lanes that do not make the call, since "
        "they are past the end or in another branch. Or a lane reads the value of "
        "such a lane, which is undefined.",
        "Let all lanes of the mask make the call. Move it out of the branch, and give "
        "a neutral value to the lanes past the end (0 for a sum).",
        cell="""\
__global__ void sum(float *out, const float *x, int n) {
    int t = threadIdx.x;
    if (t < n) {
        float value = x[t];
        for (int step = 16; step > 0; step /= 2)
            value += __shfl_down_sync(0xffffffff, value, step);
        if (t == 0) *out = value;
    }
}
""",
        code="""\
x, out = np.ones(20, float32), np.zeros(1, float32)
sum[1, 32](out, x, 20)
""",
    ),
    Entry(
        "deadlock",
        "threads that wait for one another forever",
        "Each of the threads waits for an action that only another waiting thread "
        "could perform. Some wait at one barrier and others at a different one, or a "
        "thread holds a lock that its own warp needs.",
        "Let every thread reach the same barriers in the same order. Do not wait in a "
        "loop for another block, unless the launch is cooperative.",
        cell="""\
__global__ void odd_and_even(int *x) {
    int t = threadIdx.x;
    if (t % 2)
        x[t] = __shfl_sync(0xffffffff, t, 0);
    else
        __syncthreads();
}
""",
        code="odd_and_even[1, 32](np.zeros(32, int32))\n",
    ),
    Entry(
        "hang",
        "a launch that does not end",
        "A loop has run for longer than the time limit, without anything that could "
        "end it: its counter does not advance, or it waits for a flag that no thread "
        "sets. If a thread reads an element by atomics or `volatile`, again and again, "
        "and the value does not change, the report names the element and the value.",
        "Look for a loop whose condition no thread changes. If the kernel is only "
        "slow, allow more time: `%%cuda --timeout 60`, or `load_cuda(..., "
        "timeout=60)`.",
        cell="""\
__global__ void total(float *out, const float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n;) sum += x[i];
    *out = sum;
}
""",
        code="""\
x, out = np.ones(8, float32), np.zeros(1, float32)
total[1, 1](out, x, 8)
""",
        options={"timeout": 1},
    ),
    Entry(
        "misaligned",
        "an access whose address is not a multiple of its size",
        "A `float4` is read or written in one access of 16 bytes, so its address must "
        "be a multiple of 16. A GPU stops the kernel at any other address.",
        "Begin vectors at elements whose number is a multiple of the vector's length, "
        "and make the length of a row such a multiple. Otherwise, access single "
        "elements.",
        cell="""\
__global__ void clear(float *x) {
    float4 *vectors = (float4 *)(x + 1);
    vectors[threadIdx.x] = make_float4(0, 0, 0, 0);
}
""",
        code="clear[1, 8](np.ones(36, float32))\n",
    ),
    Entry(
        "use-after-free",
        "an access to memory that has been freed",
        "The memory of the array was freed before the kernel used it: by `cudaFree()` "
        "on the host, or by `free()` or `delete` on the device. Its place may "
        "already belong to another array.",
        "Free memory after the last kernel that uses it. A launch only queues the "
        "kernel, so `cudaFreeAsync()` on another stream needs an event or a "
        "synchronization first.",
        program="""\
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }

int main() {
    float *x;
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMemset(x, 0, 64 * sizeof(float));
    cudaFree(x);
    twice<<<1, 64>>>(x);
    cudaDeviceSynchronize();
}
""",
        shell="python -m weft inspect prog.cu",
    ),
    Entry(
        "host-pointer",
        "an access to the host's memory from a kernel",
        "The kernel follows a pointer to memory of the host: a variable of `main()`, "
        "memory from `malloc()` or `new`, or a pointer inside a copied struct. A GPU "
        "cannot reach this memory.",
        "Pass memory of the device: `cudaMalloc()`, then `cudaMemcpy()`. Pass small "
        "values as parameters. For a struct with pointers, copy the arrays first, and "
        "set the pointers to the copies.",
        program="""\
#include <cstdlib>

__global__ void twice(float *x) { x[threadIdx.x] *= 2; }

int main() {
    float *x = (float *)calloc(64, sizeof(float));
    twice<<<1, 64>>>(x);
    cudaDeviceSynchronize();
}
""",
        shell="python -m weft inspect prog.cu",
    ),
    Entry(
        "stack",
        "more local memory than a thread has",
        "Local arrays and calls of functions take memory for each thread. A recursion "
        "without an end, or a large local array, exceeds this memory.",
        "Make local arrays smaller, or put them into shared or global memory. End the "
        "recursion, or replace it with a loop.",
        cell="""\
__device__ int depth(int n, volatile int *x) { return depth(n + *x + 1, x) + *x; }

__global__ void fall(int *x) { x[0] = depth(0, x); }
""",
        code="fall[1, 1](np.zeros(1, int32))\n",
    ),
    Entry(
        "undefined",
        "a shift or conversion that is defined on a GPU, but not in C++",
        "C++ leaves the result undefined: a shift by the width of the number or more, "
        "or a conversion of a float outside of the integer's range. A GPU has a rule "
        "for both, but the compiler may assume that neither happens.",
        "Shift by less than the width: `k < 32 ? x << k : 0`, or use a number of 64 "
        "bits. Clamp a float before its conversion, or use `__float2int_rz()` and the "
        "like, which give a GPU's result everywhere.",
        cell="""\
__global__ void powers(int *x, int k) { x[threadIdx.x] = 1 << (k + threadIdx.x); }
""",
        code="powers[1, 8](np.zeros(8, int32), 28)\n",
    ),
    Entry(
        "exception",
        "an error that a thread raised",
        "A thread cannot continue. In Python, a NaN becomes an integer, or operands do "
        "not support an operation. In CUDA C, the cause is [an assertion that "
        "failed](#error-assert), [an integer division by zero](#error-division) or [a "
        "call of `__trap()`](#error-trap). On a GPU, some of these operations produce "
        "an arbitrary number instead.",
        "The finding names the thread and the line. Run the line by hand with this "
        "thread's values, or print them: `if i == 2: print(x[i])`.",
        code="""\
def count(bins, x, n):
    i = cuda.grid(1)
    if i < n:
        cuda.atomic.add(bins, int(x[i]) % 4, 1)

bins, x = np.zeros(4, int32), np.array([1, 2, np.nan], float32)
sim(count)[1, 4](bins, x, 3)
""",
    ),
]
