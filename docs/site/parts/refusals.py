"""The lab's refusals: an example of each kind, its cause and its cure."""

from __future__ import annotations

from parts.examples import Entry

ADD = """\

check(add, lambda a, b: a + b, outputs={"c": "n"}, inputs={"a": "n", "b": "n"})
"""
WRONG = [
    Entry(
        "mismatch",
        "a wrong result",
        "`check()` compares each element with a float64 reference, at sizes that are "
        "not multiples of the block. The message has the first wrong element, both "
        "values, the thread, and the sizes at which the kernel is wrong. *looks like* "
        "is a guess that fits all numbers, but two mistakes can look the same.",
        "Begin with the sizes: if the kernel is right at some of them, its guard or "
        "its last tile is wrong. If it is wrong everywhere, its formula or its index "
        "is.",
        code="""\
def add(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] = a[i] + a[i]
"""
        + ADD,
        error="Mismatch",
    ),
    Entry(
        "unwritten",
        "a result that no thread stores",
        "Before each run, the lab fills the outputs with NaN. Here, they are still "
        "NaN: no thread has stored a result. The result remains in a local variable, "
        "or the condition of the guard is never true.",
        "Look for the line that stores, and compare its guard with the index. If only "
        "the last elements are missing, the guard ends one too early.",
        code="""\
def add(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        total = a[i] + b[i]
"""
        + ADD,
        error="Mismatch",
    ),
    Entry(
        "index",
        "an index within the block instead of the grid",
        "The kernel uses `threadIdx` where it needs the number of the thread in the "
        "grid. With one block it is right. With several, all blocks work on the first "
        "elements.",
        "`i = blockIdx.x * blockDim.x + threadIdx.x`, or `cuda.grid(1)` in Python.",
        code="""\
def add(c, a, b, n):
    i = cuda.threadIdx.x
    if i < n:
        c[i] = a[i] + b[i]
"""
        + ADD,
        error="Mismatch",
    ),
    Entry(
        "input",
        "an input that the kernel changes",
        "The kernel stores into an array that it should only read. The next kernel "
        "would get other numbers.",
        "Store into the output, or declare the array as `inout` if the kernel should "
        "change it. In CUDA C, a `const` parameter prevents this mistake.",
        code="""\
def add(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        a[i] += b[i]
        c[i] = a[i]
"""
        + ADD,
        error="Mismatch",
    ),
    Entry(
        "start",
        "a sum that starts from the output's old contents",
        "The kernel adds to its output, but the output was never set to zero.",
        "Add up in a local variable that starts at zero, and store the sum once.",
        code="""\
def add(c, a, b, n):
    i = cuda.grid(1)
    if i < n:
        c[i] += a[i] + b[i]
"""
        + ADD,
        error="Mismatch",
    ),
    Entry(
        "order",
        "a result that depends on the order of the threads",
        "`%%cuda --check` runs a launch in three orders of threads. This kernel gives "
        "another result in another order, so its result on a GPU depends on chance.",
        "Look for the race: a read and a write of one element, or several writes of "
        "it. The finding above the message names the line.",
        cell="""\
__global__ void shift(float *x, int n) {
    int i = threadIdx.x;
    if (i < n - 1) x[i] = x[i + 1];
}
""",
        code="shift[1, 64](np.arange(64, dtype=float32), 64)\n",
        options={"watched": False, "check": True},
        error="OrderDependence",
    ),
]
CALLS = [
    Entry(
        "argument-count",
        "too few or too many arguments",
        "A launch needs one argument for each parameter of the kernel. An array does "
        "not carry its length into CUDA C, so the length is a parameter, too.",
        "The message lists the parameters in their order.",
        cell="""\
__global__ void scale(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
""",
        code="""\
x, y = np.ones(100, float32), np.zeros(100, float32)
scale[4, 32](y, x, 2.0)
""",
        error="ArgumentError",
    ),
    Entry(
        "argument-type",
        "an array whose type is not the parameter's",
        "CUDA C receives an address and trusts the parameter's type. An array of "
        "float64 would be read as float32 numbers without any meaning. NumPy makes "
        "float64 by default.",
        "Make the array in the parameter's type: `np.ones(100, float32)`, "
        "`x.astype(float32)`. Or change the parameter: `const double *x`.",
        cell="""\
__global__ void scale(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
""",
        code="""\
x, y = np.ones(100), np.zeros(100, float32)
scale[4, 32](y, x, 2.0, 100)
""",
        error="ArgumentError",
    ),
    Entry(
        "launch-shape",
        "a grid or a block that no GPU accepts",
        "A block has at most 1024 threads, and its z side at most 64. A grid has at "
        "most 65535 blocks along y and z. A side is at least 1.",
        "Use more blocks instead of larger ones: `k[cdiv(n, 256), 256](...)`.",
        cell="__global__ void fill(float *x) { x[threadIdx.x] = 1; }\n",
        code="fill[1, 2048](np.zeros(2048, float32))\n",
        error="ArgumentError",
    ),
    Entry(
        "read-only",
        "a read-only array for a parameter that the kernel writes",
        "The kernel may write to this parameter, since it is no `const` pointer. The "
        "array does not permit writing.",
        "Declare the parameter as `const float *x` if the kernel only reads it. "
        "Otherwise, pass a copy: `x.copy()`.",
        cell="__global__ void fill(float *x) { x[threadIdx.x] = 1; }\n",
        code="""\
x = np.zeros(32, float32)
x.flags.writeable = False
fill[1, 32](x)
""",
        error="ArgumentError",
    ),
    Entry(
        "not-contiguous",
        "an array with gaps between its elements",
        "A kernel gets the address of the first element, and expects the others "
        "directly after it. A slice with a step, or a transposed matrix, has another "
        "order in memory.",
        "Pass a copy without gaps: `np.ascontiguousarray(x)`, `x.contiguous()` in "
        "PyTorch.",
        cell="__global__ void fill(float *x) { x[threadIdx.x] = 1; }\n",
        code="fill[1, 32](np.zeros(64, float32)[::2])\n",
        error="ArgumentError",
    ),
    Entry(
        "options",
        "an option that `%%cuda` does not have",
        "The first line of the cell has an option that does not exist, or two options "
        "that exclude each other.",
        "The message lists the options. `%%cuda?` explains them.",
        code="""\
from weft.commands import magic

magic.cuda("--tiem", "__global__ void k() {}")  # %%cuda --tiem
""",
        error="UsageError",
    ),
]
STOPPED = [
    Entry(
        "assert",
        "an assertion that failed",
        "The kernel contains `assert(...)`, and its condition was false in a thread. "
        "On a GPU, this ends the launch and makes the process unusable.",
        "The message names the line, the block and the thread. Run the launch "
        "watched, and print the values of this thread: `if (i == 37) printf(...)`.",
        cell="""\
#include <assert.h>

__global__ void root(float *x, int n) {
    int i = threadIdx.x;
    assert(x[i] >= 0);
    x[i] = sqrtf(x[i]);
}
""",
        code="root[1, 4](np.array([4, 1, -1, 9], float32), 4)\n",
        error="KernelFault",
    ),
    Entry(
        "division",
        "a division of integers by zero",
        "A processor stops at an integer division by zero, and at the smallest "
        "integer divided by -1. A GPU continues with an arbitrary number, which is "
        "worse.",
        "Check the divisor. For floats, the result is infinite or NaN, and nothing "
        "stops.",
        cell="""\
__global__ void ratio(int *x, int n) { x[threadIdx.x] = 100 / (n - threadIdx.x); }
""",
        code="ratio[1, 8](np.zeros(8, int32), 5)\n",
        error="KernelFault",
    ),
    Entry(
        "null",
        "a null pointer",
        "The kernel reads or writes through a pointer that is null: `None` was "
        "passed, or an allocation failed and its result was not checked.",
        "Pass an array, or let the kernel compare the pointer with `nullptr` first.",
        cell="""\
__global__ void scale(float *y, const float *x, const float *bias) {
    int t = threadIdx.x;
    y[t] = 2 * x[t] + bias[t];
}
""",
        code="scale[1, 32](np.zeros(32, float32), np.ones(32, float32), None)\n",
        error="KernelFault",
    ),
    Entry(
        "trap",
        "a call of `__trap()`",
        "`__trap()` ends a kernel. Programs call it after an error from which they "
        "cannot recover.",
        "Read the condition above the call: it describes the case that the author did "
        "not expect.",
        cell="""\
__global__ void half(int *x) {
    if (x[threadIdx.x] % 2) __trap();
    x[threadIdx.x] /= 2;
}
""",
        code="half[1, 4](np.array([2, 4, 5, 8], int32))\n",
        error="KernelFault",
    ),
]
COMPILERS = [
    Entry(
        "compile",
        "a cell that does not compile",
        "The compiler does not understand a line. The message shows the line as you "
        "wrote it, with a mark below the place, and often the name or the sign that "
        "was meant.",
        "Correct the first error, and run the cell again: later errors often follow "
        "from the first.",
        cell="""\
__global__ void scale(float *y, const float *x, int n) {
    int i = blockidx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
""",
        error="CompileError",
    ),
    Entry(
        "python-in-c",
        "Python in a cell of CUDA C",
        "The cell contains a word or an operator of Python. C has other words for most "
        "of them: `&&` for `and`, `for (int i = 0; i < n; i++)` for `range`, `x * x` "
        "for `x**2`.",
        "The message names the words of C. To write the kernel in Python instead, use "
        "`sim`, `numba_jit` or `cuda_c`.",
        cell="""\
__global__ void square(float *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = x[i]**2;
}
""",
        error="CompileError",
    ),
    Entry(
        "host-code",
        "code for the host in a cell",
        "The cell calls functions of CUDA's runtime, such as `cudaMalloc()`. A cell "
        "contains only code for the device. Python does the rest.",
        "Pass arrays to the kernel: `k[grid, block](x, n)`. For a program with "
        "`main()`, use `python -m weft run program.cu`.",
        cell="""\
void start(float *x, int n) {
    cudaMalloc(&x, n * sizeof(float));
}
""",
        error="CompileError",
    ),
    Entry(
        "host-function",
        "a function that only the host has",
        "The kernel calls a function of the operating system, such as `exit()`. No "
        "GPU has it, and on the CPU it would end the notebook.",
        "End a kernel with `return`. Report a mistake with `printf()`, `assert()` or "
        "`__trap()`.",
        cell="""\
extern "C" void exit(int status);

__global__ void stop(int *x) {
    if (x[threadIdx.x] < 0) exit(1);
}
""",
        code="stop[1, 32](np.zeros(32, int32))\n",
        error="CompileError",
    ),
    Entry(
        "ptx",
        "inline PTX on the CPU",
        "The kernel contains instructions of a GPU, `asm(...)`, which a processor "
        "does not have.",
        '`#include "ptx.cuh"` provides tensor cores, asynchronous copies and more, '
        "each with a twin for the CPU. With `%%cuda --gpu`, the cell runs on a GPU "
        "only.",
        cell="""\
__global__ void lanes(unsigned *x) {
    asm("mov.u32 %0, %%laneid;" : "=r"(x[threadIdx.x]));
}
""",
        code="lanes[1, 32](np.zeros(32, np.uint32))\n",
        error="CompileError",
    ),
    Entry(
        "texture",
        "textures and surfaces on the CPU",
        "Textures are read by units that only a GPU has, and the lab does not "
        "simulate them.",
        "Read the array itself, or run the cell on a GPU: `%%cuda --gpu`.",
        program="""\
__global__ void fetch(float *y, cudaTextureObject_t x) {
    y[threadIdx.x] = tex1Dfetch<float>(x, threadIdx.x);
}

int main() {}
""",
        shell="python -m weft run prog.cu",
    ),
    Entry(
        "kernel-in-kernel",
        "a kernel that launches kernels, on the CPU",
        "Dynamic parallelism does not run on the CPU: a kernel cannot launch another "
        "one.",
        "Launch both kernels from the host, or make the second one a `__device__` "
        "function.",
        program="""\
__global__ void child(int *x) { x[threadIdx.x] = 1; }
__global__ void parent(int *x) { child<<<1, 32>>>(x); }

int main() {}
""",
        shell="python -m weft run prog.cu",
    ),
    Entry(
        "library",
        "a library that needs a GPU",
        "The program includes the header of a library such as cuSPARSE, which exists "
        "only for GPUs. Of some libraries, such as cuBLAS, a part runs on the CPU. If "
        "a program calls another function of theirs, the error has its name.",
        "Write the function yourself, or compare with NumPy or PyTorch in the "
        "notebook.",
        program="""\
#include <cusparse.h>

int main() {}
""",
        shell="python -m weft run prog.cu",
    ),
    Entry(
        "translation",
        "Python without a translation to CUDA C",
        "`to_cuda()` and `cuda_c()` translate the part of Python that Numba's kernels "
        "use: numbers, arrays, `if`, `for` and `while`. Lists, dictionaries, strings "
        "and exceptions have no translation.",
        "Use an array of fixed length instead of a list: `cuda.local.array(4, "
        "float32)`. The message names the line.",
        code="""\
def largest(y, x, n):
    i = cuda.grid(1)
    values = [x[i + k] for k in range(4)]
    y[i] = max(values)

print(to_cuda(largest, ("float32[:]", "float32[:]", "int")))
""",
        error="TranslationError",
    ),
    Entry(
        "compiler-missing",
        "a compiler that is missing",
        "The lab needs `g++` to compile for the processor, but does not find it.",
        "Install it with the command in the message. `python -m weft doctor` lists "
        "every missing part, and its cure.",
        program="int main() {}\n",
        shell="CXX=no-such-compiler python -m weft run prog.cu",
    ),
]
SECTIONS = {  # by title: the anchor and the entries
    "Wrong results": ("wrong", WRONG),
    "Refused calls": ("refused", CALLS),
    "Stopped launches": ("stopped", STOPPED),
    "Sources that do not compile": ("sources", COMPILERS),
}
# These errors require a GPU, so the machine that builds the site cannot reproduce them.
ON_A_GPU = [
    Entry(
        "device-lost",
        "a GPU that the process has lost",
        "A kernel made an illegal access on the GPU. CUDA then refuses every further "
        "call of this process, and all arrays on the GPU are lost.",
        "Restart the notebook's kernel: Kernel > Restart Kernel, or Runtime > Restart "
        "session in Colab. Then repeat the cells above: Run > Run All Above Selected "
        "Cell, or Runtime > Run before. Run the launch on the CPU first, with the "
        "arrays in host memory: the report names the line. `%%cuda --isolated` "
        "launches in a process of its own, so the notebook survives.",
    ),
    Entry(
        "out-of-memory",
        "too little memory on the GPU",
        "The arrays, or a kernel's workspace, need more memory than is free. The "
        "message has the number of bytes. Other programs and PyTorch's cache take "
        "memory, too.",
        "Use a smaller batch or size. `torch.cuda.empty_cache()` returns what PyTorch "
        "keeps, and `nvidia-smi` lists the programs on the GPU.",
    ),
]


def all_entries() -> list[Entry]:
    """Return the entries of all sections."""
    return [entry for _, entries in SECTIONS.values() for entry in entries]
