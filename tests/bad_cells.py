"""More than a hundred cells that a session must survive.

Each cell is CUDA C with a kernel `k(int *x, int n)`, which the session compiles and
launches as k[2, 32](x, 64) with 64 zeros. `says` is a pattern for the one sentence that
reports the failure. The cells of MODES harm only later computations. Some of CELLS are
marked `may_pass`: only a watch build reports their faults. The cells of LOST end the
session unless they run with --isolated.
"""

from __future__ import annotations

from dataclasses import dataclass

KERNEL = "__global__ void k(int *x, int n) {{ {} }}\n"


@dataclass(frozen=True)
class Cell:
    """One bad cell. quick: whether the quick tier includes it."""

    name: str
    source: str
    says: str
    quick: bool = False
    may_pass: bool = False


CELLS: list[Cell] = []
MODES: list[Cell] = []
LOST: list[Cell] = []


def bad(name: str, says: str, body: str, before: str = "", **more: bool) -> None:
    """Add a cell whose kernel has this body to CELLS."""
    CELLS.append(Cell(name, before + KERNEL.format(body), says, **more))


def host(function: str, body: str, declared: str, quick: bool = False) -> None:
    """Add a cell to CELLS whose kernel calls a function of the host's system."""
    says = rf"\w+\(\) calls {function}\(\), which only the host has"
    bad(function, says, body, f'extern "C" {{ {declared} }}\n', quick=quick)


def modes(name: str, body: str, quick: bool = False) -> None:
    """Add a cell to MODES whose kernel changes the processor's modes."""
    MODES.append(Cell(name, KERNEL.format(body), "", quick))


def lost(name: str, body: str, before: str = "") -> None:
    """Add a cell to LOST."""
    LOST.append(Cell(name, before + KERNEL.format(body), ""))


T = "int t = threadIdx.x + blockIdx.x * blockDim.x;"

# ---- wild stores and loads -----------------------------------------------------------

WROTE = "k: (a )?thread .*(wrote|writes|updates|touched|store to|uses the index)"
READ = "k: thread .*(reads?|touched|load from) "
bad("store to null", WROTE, "*(int *)0 = n;", quick=True)
bad("load from null", READ, "x[0] = *(volatile int *)0;")
bad("store past the end", WROTE, f"{T} x[n + t] = 1;")
bad("store far past the end", WROTE, "x[1 << 28] = 1;")
bad("store before the start", WROTE, f"{T} x[-1 - t] = 1;")
bad("store far before the start", WROTE, "x[-(1 << 28)] = 1;")
bad("store of a whole gigabyte", WROTE, "memset(x, 0, 1ul << 30);")
bad("load past the end", READ, f"{T} x[t] = x[n + t];")
bad("copy from far away", READ, "memcpy(x, x + (1 << 28), 64);")
bad("store to no address", WROTE, "*(int *)(~0ul << 60) = n;")
bad("store to low memory", WROTE, "*(int *)70000 = n;")
bad("store to the kernel's space", WROTE, "*(int *)(-4096ul) = n;")
bad("store to a string", WROTE, '*(char *)"text" = (char)n;')
bad("store to code", WROTE, "*(int *)(void *)f = n;", "__device__ void f() {}\n")
bad("store through a wild pointer", WROTE, "int **p = (int **)x; *p[3] = 1;")
bad("atomic on null", WROTE, "atomicAdd((int *)0, 1);")
bad("atomic past the end", WROTE, "atomicAdd(x + (1 << 28), 1);")
# The address is 16 TiB below s, between the heap and the mapped memory, where no store
# can succeed. Closer to s, an earlier watched cell or a library may have mapped memory.
bad(
    "shared memory far before its start",
    WROTE,
    "__shared__ int s[32]; s[-((long long)n << 36)] = 1;",
)
bad("a variable far past its end", WROTE, "v[n << 24] = 1;", "__device__ int v[4];\n")
bad(
    "a misaligned vector",
    "k: thread .* writes x.1. with an access of 16 bytes",
    "*(float4 *)(x + 1) = make_float4(1, 2, 3, n);",
    may_pass=True,
)
bad(
    "strlen of a null string",
    "k: thread",
    "x[0] = (int)strlen((char *)(size_t)(n - 64));",
)
bad("printf of a wild string", READ, 'printf("%d %s\\n", n, (char *)(size_t)n);')
bad(
    "call of a null function",
    "k: thread",
    "((void (*)())(size_t)(n - 64))();",
)
bad("call of a wild function", "k: thread", "((void (*)())(n * 123456789ul))();")
bad("call of data", "k: thread", "((void (*)())x)();")
bad(
    "a virtual call of nothing",
    "k: thread",
    "((B *)x)->f();",
    "struct B { virtual __device__ void f() {} };\n",
)
STACK = "k: thread .*(stack|wrote|touched|writes|uses the index)"
bad("a local array far past its end", STACK, "volatile int a[4]; a[n << 20] = 1;")
bad(
    "a local array written over and over",
    STACK,
    "volatile int a[4]; for (int i = 0; i < n * 100000; i++) a[i] = 1;",
)
bad(
    "a local array before its start",
    STACK,
    "volatile int a[4], *volatile p = a; for (int i = 0; i < 1 << 20; i++) p[-i] = 1;",
)

# ---- device memory -------------------------------------------------------------------

FREED = r"k: (thread|block) .*(wr\w+|abort|frees|read|touched)"
bad("free of a wild pointer", FREED, "free((void *)(size_t)(n * 1001));")
bad("free of what was not allocated", FREED, "free(x);")
bad("free of a local variable", FREED, "int a[8]; a[n & 7] = 1; free(a);")
MALLOC = "void *volatile p = malloc({}); free(p); free(p);"
bad("free twice", FREED, MALLOC.format(64))
bad("free twice of a large piece", FREED, MALLOC.format(1 << 20))
bad("delete twice", FREED, "int *volatile p = new int[n]; delete[] p; delete[] p;")
bad(
    "allocation until none is left",
    WROTE,
    "for (;;) { volatile char *p = (char *)malloc(1 << 16); *p = 1; }",
)
bad(
    "allocation of small pieces until none is left",
    WROTE,
    "for (;;) { volatile char *p = (char *)malloc(16); *p = 1; }",
)
bad(
    "new until none is left",
    "k: ",
    "for (;;) { volatile int *p = new int[1 << 14]; *p = 1; }",
)
bad(
    "an allocation that no machine has",
    WROTE,
    "*(volatile char *)malloc(1ul << 60) = 1;",
)

# ---- endless kernels -----------------------------------------------------------------

LONG = "k: .*(does not end|ran longer than|waits for|deadlock|never come)"
bad("an empty endless loop", LONG, "for (;;) ;", quick=True)
bad("a loop on a flag", LONG, "volatile int *f = x; while (*f == 0) ;")
bad("a loop by goto", LONG, "again: n++; goto again;")
bad("a loop whose counter wraps", LONG, "for (unsigned i = 9; i >= 0; i--) x[0] = i;")
bad("a loop that stores", LONG, "for (;;) x[threadIdx.x]++;")
bad("a loop of atomics", LONG, "for (;;) atomicAdd(x, 1);")
bad("a lock that nobody opens", LONG, "while (atomicCAS(x, 0, 1) != 7) ;")
bad("a loop that sleeps", LONG, "for (;;) __nanosleep(100);")
bad("a loop in one thread alone", LONG, "if (threadIdx.x == 5) for (;;) ;")
bad(
    "a loop while others wait",
    LONG,
    "if (threadIdx.x == 5) for (;;) ; __syncthreads();",
)
bad("a loop of barriers", LONG, "for (;;) __syncthreads();")
bad("a loop of warp barriers", LONG, "for (;;) __syncwarp();")
bad("a loop of shuffles", LONG, "for (;;) n = __shfl_xor_sync(~0u, n, 1);")
bad("a loop of allocations", LONG, "for (;;) free(malloc(100));")
bad("a loop of divisions", LONG, "for (;;) x[0] += n / (x[1] + 3);")
bad("a loop of sines", LONG, "float f = n; for (;;) x[0] += (int)(f = sinf(f) + 2);")
bad("a loop of copies", LONG, "for (;;) memcpy(x, x + 8, 32);")
bad(
    "a loop in a function",
    LONG,
    "f(x);",
    "__device__ void f(volatile int *x) { while (!*x) ; }\n",
)
bad(
    "a barrier that one thread misses",
    LONG,
    "if (threadIdx.x) __syncthreads(); else for (;;) ;",
)
bad(
    "a lane that never comes",
    LONG,
    "if (threadIdx.x % 2) __shfl_sync(~0u, n, 0); else __syncthreads();",
)
bad(
    "two blocks that wait for each other",
    LONG,
    "volatile int *f = x + blockIdx.x; while (!*f) ;",
)
bad("endless printing", "k: ", 'for (;;) printf("%d\\n", n);')
bad("endless printing of one text", "k: ", 'for (;;) printf("more and more\\n");')
bad("endless printing of one character", "k: ", 'for (;;) printf("%c", n);')
bad("a very long text", "", 'if (!threadIdx.x) printf("%99999999d\\n", n);')

# ---- the stack -----------------------------------------------------------------------

bad(
    "deep recursion",
    STACK,
    "x[0] = f(n, x);",
    "__device__ int f(int n, volatile int *x) { return f(n + *x + 1, x) + *x; }\n",
    quick=True,
)
bad(
    "deep recursion of two functions",
    STACK,
    "x[0] = f(n, x);",
    "__device__ int g(int n, volatile int *x);\n"
    "__device__ int f(int n, volatile int *x) { return g(n + 1, x) + *x; }\n"
    "__device__ int g(int n, volatile int *x) { return f(n + 2, x) - *x; }\n",
)
bad(
    "deep recursion with large frames",
    STACK,
    "x[0] = f(n, x);",
    "__device__ int f(int n, volatile int *x) {\n"
    "    volatile char a[5000]; a[n & 4095] = 1; return f(n + 1, x) + a[*x]; }\n",
)
bad(
    "deep recursion through a pointer",
    STACK,
    "x[0] = f(n, x);",
    "__device__ int f(int n, volatile int *x) {\n"
    "    int (*volatile p)(int, volatile int *) = f; return p(n, x) + *x; }\n",
)
ALLOCA = "volatile char *a = (char *)__builtin_alloca({}); a[n] = 1; x[0] = a[n + 1];"
bad("a huge alloca", STACK, ALLOCA.format("(size_t)n << 24"))
bad("a negative alloca", STACK, ALLOCA.format("(size_t)-(long)n * 1000000"))
bad("an alloca of all addresses", STACK, ALLOCA.format("~0ul >> 1"))
bad(
    "alloca in a loop",
    STACK,
    "for (;;) { volatile char *a = (char *)__builtin_alloca(n); *a = 1; }",
)
bad(
    "a local array of a megabyte",
    "stack|local|k",
    "volatile char a[1 << 20]; a[n] = 1; x[0] = a[n + 1];",
)
bad(
    "a local array of a gigabyte",
    "stack|local|k",
    "volatile char a[1 << 30]; a[n] = 1; x[0] = a[n + 1];",
)

# ---- ends ----------------------------------------------------------------------------

ASSERT = "k: .*assertion"
bad("assert in every thread", ASSERT, "assert(n < 0);")
bad("assert in one thread", ASSERT, f"{T} assert(t != 37);")
bad("trap", "k: thread .* called __trap", "__trap();")
bad("a compiler's trap", "k: thread .* reached code", "__builtin_trap();")
bad(
    "unreachable code",
    "k: thread .* reached code|k: ",
    "if (n) __builtin_trap(); __builtin_unreachable();",
)
bad(
    "integer division by zero",
    "k: thread .* divided",
    "x[0] = n / (n - 64);",
)
bad("integer remainder by zero", "k: thread .* divided", "x[0] = n % (n - 64);")
bad(
    "a quotient too large", "k: thread .* divided", "x[0] = (int)0x80000000 / (n - 65);"
)
bad("long division by zero", "k: thread .* divided", "x[0] = (int)(5l / (n - 64));")
NOEXCEPT = "__device__ void f(int n) noexcept {{ {} }}\n"
bad("an exception out of a kernel", "exceptions", "throw n;", quick=True)
bad("an exception out of noexcept", "exceptions", "f(n);", NOEXCEPT.format("throw 1;"))
bad("new of too much", "k: ", "x[0] = *new int[(size_t)n << 50];")
bad(
    "new of too much in noexcept",
    "k: ",
    "f(n);",
    NOEXCEPT.format("*(volatile int *)new int[(size_t)n << 50] = 1;"),
)

# ---- functions of the host -----------------------------------------------------------

host("abort", "abort();", "void abort();")
host("exit", "exit(0);", "void exit(int);", quick=True)
host("_exit", "_exit(3);", "void _exit(int);")
host("quick_exit", "quick_exit(0);", "void quick_exit(int);")
host("raise", "raise(9);", "int raise(int);")
host("kill", "kill(getpid(), 9);", "int kill(int, int); int getpid();")
host("alarm", "alarm(1);", "unsigned alarm(unsigned);")
host("signal", "signal(11, 0);", "void *signal(int, void *);")
host("longjmp", "longjmp((long *)x, 1);", "void longjmp(long *, int);")
host("fesetround", "fesetround(0x800);", "int fesetround(int);")
host("feenableexcept", "feenableexcept(31);", "int feenableexcept(int);")
host("close", "for (int i = 0; i < 99; i++) close(i);", "int close(int);")
host("dup2", "dup2(0, 1);", "int dup2(int, int);")
host("fclose", "fclose(stdout);", "int fclose(void *); extern void *stdout;")
host("fork", "while (n) fork();", "int fork();")
host("system", 'system("true");', "int system(const char *);")
host("execl", 'execl("/bin/true", "", 0);', "int execl(const char *, ...);")
THREAD = "int pthread_create(void *, void *, void *(*)(void *), void *);"
host("pthread_create", "pthread_create(x, 0, 0, x);", THREAD)
host("pthread_exit", "pthread_exit(0);", "void pthread_exit(void *);")
LOCK = "pthread_mutex_lock(x);"
host("pthread_mutex_lock", LOCK + LOCK, "int pthread_mutex_lock(void *);")
host("sleep", "sleep(1000);", "unsigned sleep(unsigned);")
host("read", "read(0, x, 4);", "long read(int, void *, size_t);")
host("munmap", "munmap(x, 4096);", "int munmap(void *, size_t);")
host("syscall", "syscall(231, 0);", "long syscall(long, ...);")
bad(
    "exit in a function",
    r"f\(\) calls exit\(\), which only the host has",
    "f();",
    'extern "C" void exit(int);\n__device__ void f() { exit(1); }\n',
)
bad(
    "terminate",
    "calls std::terminate.., which only the host has",
    "terminate();",
    "namespace std { void terminate() noexcept; }\nusing namespace std;\n",
)

# ---- the processor's modes, which NumPy must not inherit -----------------------------

modes("rounding towards zero", "__builtin_ia32_ldmxcsr(0x7f80);", quick=True)
modes("rounding upwards", "__builtin_ia32_ldmxcsr(0x5f80);")
modes("flush to zero", "__builtin_ia32_ldmxcsr(0x9fc0);")
modes("exceptions of floats", "__builtin_ia32_ldmxcsr(0);")
modes("modes in one thread", "if (threadIdx.x == 7) __builtin_ia32_ldmxcsr(0xffc0);")
MODE = "__builtin_ia32_ldmxcsr(0xffc0); "
bad("rounding, and then a fault", WROTE, MODE + "*(int *)0 = 1;")
bad("rounding, and then a loop", LONG, MODE + "for (;;) ;")

# ---- faults that only --isolated contains --------------------------------------------

NONE = 'extern "C" char _Py_NoneStruct[];\n'
lost("a store to the session's memory", "memset(_Py_NoneStruct, n, 16);", NONE)
lost("the flag of alignment", "__builtin_ia32_writeeflags_u64(1ul << 18);")
