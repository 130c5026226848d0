"""The rewriter from CUDA C to C++: changed text, unchanged text, and line numbers."""

import subprocess
import sys
from pathlib import Path

import pytest

from weft.csource.rewrite import RewriteError, rewrite
from weft.toolchain import build, tools

PRELUDE = 2  # the rewriter adds an #include and a #line before the source


def rewritten(source: str) -> str:
    """Return the source's own lines, rewritten."""
    return "\n".join(rewrite(source, "x.cu").split("\n")[PRELUDE:])


def compiles(source: str, *flags: str, only: str = "-fsyntax-only") -> str:
    """Return g++'s messages about the rewritten source; "" if there are none."""
    command = [tools.gxx(), "-x", "c++", "-std=c++17", only, "-Wall"]
    command += ["-Wextra", "-Werror", *(f"-I{folder}" for folder in build.SIMT)]
    command += [*flags, "-"]
    result = subprocess.run(
        command, input=rewrite(source, "x.cu"), text=True, capture_output=True
    )
    assert bool(result.returncode) == bool(result.stderr), result.stderr
    return result.stderr


# ---- launches ----------------------------------------------------------------


@pytest.mark.parametrize(
    "launch, expected",
    [
        ("k<<<g, b>>>(x);", "(simt::Launch(g, b), k(x));"),
        ("k<<<g, b, 4 * n, s>>>();", "(simt::Launch(g, b, 4 * n, s), k());"),
        ("k<2><<<1, 1>>>(x);", "(simt::Launch(1, 1), k<2>(x));"),
        ("k<(a > b), T<int>> <<<1, 1>>> (x);", None),
        ("ns::k<<<1, 1>>>(x);", "(simt::Launch(1, 1), ns::k(x));"),
        ("::k<<<1, 1>>>(x);", "(simt::Launch(1, 1), ::k(x));"),
        ("ns::T<3>::k<<<1, 1>>>(x);", "(simt::Launch(1, 1), ns::T<3>::k(x));"),
        ("t[i].k<<<1, 1>>>(x);", "(simt::Launch(1, 1), t[i].k(x));"),
        ("p->k[2]<<<1, 1>>>(x);", "(simt::Launch(1, 1), p->k[2](x));"),
        ("(*f)<<<1, 1>>>(x);", "(simt::Launch(1, 1), (*f)(x));"),
        ("k<<<dim3(f(1), 2), b>>>(g(h(x)));", None),
        ("k<<<ceil<4>(n), b>>>(x);", "(simt::Launch(ceil<4>(n), b), k(x));"),
        ("if (n) k<<<1, 2>>>(x); else j<<<3, 4>>>(y);", None),
    ],
)
def test_launch(launch, expected):
    result = rewritten(launch)
    assert "<<<" not in result and result.count("simt::Launch(") == launch.count("<<<")
    if expected:
        assert result == expected


def test_launch_over_several_lines_keeps_them():
    source = """\
    k<float,
      2>
        <<<grid, // as many
           block /* as a tile
                    has */>>>(a,
                              b);
    after();
"""
    result = rewritten(source)
    assert result.count("\n") == source.count("\n")
    lines = result.split("\n")
    config, name = lines[0].split(", k<float,")
    assert config.split() == ["(simt::Launch(grid,", "block", ")"] and not name
    assert "as many" not in result
    assert lines[5].strip() == "b));" and lines[6].strip() == "after();"


@pytest.mark.parametrize(
    "text",
    [
        "// k<<<1, 1>>>(x)\n",
        "// continued \\\n k<<<1, 1>>>(x)\n",
        "/* k<<<1,\n 1>>>(x) __shared__ int s[3]; */\n",
        'const char *s = "k<<<1, 1>>>(x); \\" threadIdx.x";\n',
        'const char *s = R"(k<<<1, 1>>>(x);\n__global__ void k() {})";\n',
        'const char *s = R"--(a )" k<<<1, 1>>>(x) )--";\n',
        "char c = '\"'; char d = '\\''; char e = '\"';\n",
        "int i = 1'000'000; // it's\nint j = 0x1'0; char k = 'x';\n",
        '#ifdef __CUDACC__\nk<<<1, 1>>>(x); asm("exit;");\n#endif\n',
        '#if defined(__CUDACC__)\nasm("exit;");\n#else\nint i;\n#endif\n',
        '#ifndef __CUDA_ARCH__\nint i;\n#else\nasm("exit;");\n#endif\n',
        '#if !defined(__CUDACC__)\nint i;\n#else\nasm("exit;");\n#endif\n',
        "int a = b << c >> d; bool e = f < g && h > i;\n",
        "cfg.blockDim.x = p->gridDim.y; int threadIdx_x, asm_volatile;\n",
        "__attribute__((__noinline__)) void f();\n",
    ],
)
def test_left_alone(text):
    assert rewritten(text) == text


def test_launches_in_macros():
    source = """\
#define LAUNCH(kernel, ...) \\
    kernel<<<1, \\
             32>>>(__VA_ARGS__)
#define KERNEL(name) \\
    static __global__ void name(int *p) { \\
        __shared__ int s[32]; \\
        s[threadIdx.x] = 1; \\
        *p = s[0]; \\
    }
KERNEL(one)
KERNEL(two)
void run(int *p) { LAUNCH(one, p); LAUNCH(two, p); }
"""
    assert rewritten(source).count("\n") == source.count("\n")
    assert compiles(source) == ""


# ---- kernels and shared memory -----------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        "__global__ void k(int *p)",
        "static __global__ void k(int *p)",
        'extern "C" __global__ void k(int *p)',
        "__global__ void __launch_bounds__(256, 2) k(int *p)",
        "__launch_bounds__(256) __global__ void k(int *p)",
        "template <int N = (3 > 2)> __global__ void k(int *p)",
        "namespace n { inline __global__ void k(int *p) { *p = 1; } }\n"
        "using n::k; __global__ void l(int *p)",
        "__global__ void k(int *p); __global__ void k(int *p)",
    ],
)
def test_kernel_heads(head):
    source = head + " { *p = (int)threadIdx.x; if (*p) return; }\n"
    source += "void run(int *p) { k<<<1, 1>>>(p); }\n"
    if "template" in head:
        source = source.replace("k<<<", "k<><<<")
    assert compiles(source, "-Wno-unused-function") == ""


@pytest.mark.parametrize(
    "declaration, uses",
    [
        ("__shared__ float a[4][5];", "a[3][4]"),
        ("__shared__ float a[4], b[5][6], c;", "a[0] + b[1][2] + c"),
        ("__shared__ float a[4],\n    b[5]; // and\n", "a[0] + b[1]"),
        ("__shared__ Pair<int, 3> a[4], b;", "a[0].x + b.x"),
        ("__shared__ alignas(16) float a[4];", "a[0]"),
        ("__shared__ __align__(16) float a[4];", "a[0]"),
        ("float __shared__ a[4];", "a[0]"),
        ("volatile __shared__ unsigned int a[4];", "a[0]"),
        ("const volatile int __shared__ a[4];", "a[0]"),
        ("alignas(16) static __shared__ float a[4];", "a[0]"),
        ("extern volatile __shared__ float a[];", "a[3]"),
        ("static __shared__ volatile int a[4];", "a[0]"),
        ("__shared__ struct { float x, y; } a[4], b;", "a[1].y + b.x"),
        ("__shared__ float4 a[N + 1];", "a[N].w"),
        ("struct One { int i = 1; }; __shared__ One a[2];", "a[1].i"),
        ("extern __shared__ float a[];", "a[3]"),
        ("extern __shared__ __align__(16) unsigned char a[];", "a[3]"),
        ("extern __shared__ alignas(16) float a[][N];", "a[3][2]"),
        ("__shared__ extern float4 a[];", "a[3].x"),
    ],
)
def test_shared(declaration, uses):
    source = f"""\
template <class T, int N> struct Pair {{ T x, y[N]; }};
template <int N> __global__ void k(float *p) {{
    {declaration}
    *p = {uses};
}}
void run(float *p) {{ k<3><<<1, 1>>>(p); }}
"""
    assert rewritten(source).count("\n") == source.count("\n")
    assert compiles(source) == ""


def test_shared_outside_of_functions():
    source = """\
extern "C" {
extern __shared__ float all[];
}
namespace n { extern __shared__ int ints[]; }
__global__ void k(float *p) { all[1] = 2; p[0] = *(all + 1) + n::ints[0]; }
void run(float *p) { k<<<1, 1, 64>>>(p); }
"""
    assert compiles(source) == ""


def test_a_name_of_cuda_may_be_used_for_something_else():
    source = """\
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
struct Shape { dim3 gridDim, blockDim; int warpSize; };
__global__ void k(float *p) {
    p[min(threadIdx.x, 3u)] = std::sqrt(abs(p[0])) + isnan(p[1]) + sqrt(p[2]);
}
int run(float *p) {
    dim3 blockDim(4);
    blockDim.y = 2;
    Shape shape = {dim3(3), blockDim, 32};
    k<<<shape.gridDim.x, blockDim>>>(p);
    return std::min(shape.warpSize, abs(-3));
}
"""
    assert compiles(source) == ""


# ---- lines -------------------------------------------------------------------


def test_messages_name_the_file_and_line_of_the_source():
    source = """\
__global__ void k(float *p) {
    __shared__ float a[4],
        b[5];
    a[0] = b[0];
    p[0] = undeclared;
}
void run(float *p) {
    k<<<1,
        32>>>(p);
    k<<<1, 1>>>(also_undeclared);
}
"""
    errors = [line for line in compiles(source).splitlines() if " error: " in line]
    assert [e.split(": error: ")[0].rsplit(":", 1)[0] for e in errors] == [
        "x.cu:5",
        "x.cu:10",
    ]


def test_every_kernel_of_the_lab_keeps_its_lines():
    sources = sorted(build.KERNELS.rglob("*.cu"))
    sources += sorted((Path(__file__).parents[1] / "kernels/simt").glob("*.cu"))
    assert sources
    for path in sources:
        text = path.read_text()
        result = rewrite(text, str(path)).split("\n")
        assert len(result) == len(text.split("\n")) + PRELUDE, path
        assert result[1] == f'#line 1 "{path}"'
        for before, after in zip(text.split("\n"), result[PRELUDE:], strict=True):
            # Directives and comments remain unchanged.
            if before.lstrip().startswith(("#include", "#if", "//")):
                assert after == before


def test_odd_ends_of_files():
    for source in ("", "\n", "int i;", "int i;\r\nint j;\r\n", "// no end"):
        assert rewritten(source) == source


# ---- refusals ----------------------------------------------------------------


@pytest.mark.parametrize(
    "source, line, words",
    [
        ('\nvoid f() {\n  asm volatile("mov;" ::);\n}', 3, "inline PTX"),
        ('__device__ void f() { asm("mov;"); }', 1, "__CUDACC__"),
        ('\n__asm__ __volatile__("mov;");', 2, "inline PTX"),
        ("\n\nk<<<1, 1>>>;", 3, "no arguments"),
        ("k<<<1, 1(x);", 1, ">>>"),
        ("k<<<1, 1>>>(x;", 1, "never closed"),
        ("; <<<1, 1>>>(x);", 1, "kernel before"),
        ("\n__global__ void k() {\n", 2, "never closed"),
        ("#define K __global__ void\nK k() {}\n", 1, "macro"),
        ("int i;\n__shared__ float a[3];\n", 2, "into the kernel"),
        ("__global__ void k() {\n extern __shared__ float *a;\n}", 2, "T name"),
    ],
)
def test_refused(source, line, words):
    with pytest.raises(RewriteError, match=rf"^x\.cu:{line}: .*{words}") as caught:
        rewrite(source, "x.cu")
    assert isinstance(caught.value, ValueError)


def test_shared_variables_cannot_be_initialised():
    with pytest.raises(RewriteError, match="cannot be initialised"):
        rewrite("__global__ void k() { __shared__ int a[2], b = 3; }", "x.cu")


def test_a_kernel_in_an_included_file_is_not_called_by_mistake(tmp_path):
    (tmp_path / "k.cuh").write_text("static __global__ void k(int *p) { *p = 1; }\n")
    source = '#include "k.cuh"\nvoid run(int *p) { k<<<1, 1>>>(p); }\n'
    # The attribute takes effect when the call is compiled, not when it is parsed.
    flags = [f"-iquote{tmp_path}", "-o", "/dev/null"]
    assert "included file" in compiles(source, *flags, only="-S")


def test_the_standard_library_is_all_it_needs():
    code = """if True:
        import sys, types
        weft = sys.modules["weft"] = types.ModuleType("weft")
        weft.__path__ = [sys.argv[1]]
        from weft.csource import rewrite"""
    folder = build.ROOT / "lib" / "weft"
    result = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code, str(folder)], capture_output=True
    )
    assert result.returncode == 0, result.stderr


def test_a_kernel_writes_through_its_references():
    source = """\
template <class T, int N>
__global__ void k(int &a, const T (&b)[N], int c = 3 & 1, float *d = nullptr) {
    a = b[0] + c + (d != nullptr);
}
template <class... T> __global__ void all(T &...t) { ((t = 1), ...); }
void run(int *p, float *q) {
    const int b[2] = {1, 2};
    k<int, 2><<<1, 1>>>(*p, b);
    all<<<1, 1>>>(*p, *q);
}
"""
    assert "[=, &a" in rewritten(source) and "&t..." in rewritten(source)
    assert "&c" not in rewritten(source) and "&d" not in rewritten(source)
    assert compiles(source) == ""


def test_the_clock_of_the_device_is_another_than_the_hosts():
    source = """\
#include <time.h>
struct Watch { long clock() { return 3; } };
__device__ long since(long start) { return clock() - start + Watch().clock(); }
__global__ void k(long *t) { *t = since(::clock ()); }
long run(long *t) { k<<<1, 1>>>(t); return clock(); }
"""
    assert rewritten(source).count("clock64") == 2
    assert "return clock64() - start + Watch().clock()" in rewritten(source)
    assert "return clock();" in rewritten(source) and compiles(source) == ""


@pytest.mark.parametrize(
    "cast, expected",
    [
        ("(void *)k", "(void *)simt::typed(k)"),
        ("(const void*)&k", "(const void*)simt::typed(&k)"),
        ("(void *)ns::t<int, (3 > 2)>", "(void *)simt::typed(ns::t<int, (3 > 2)>)"),
        ("reinterpret_cast<void *>(k)", "reinterpret_cast<void *>(simt::typed(k))"),
        ("(void *)other", "(void *)other"),
        ("(void **)&k", "(void **)&k"),
    ],
)
def test_a_kernel_as_void_pointer_keeps_its_type(cast, expected):
    source = f"""\
__global__ void __launch_bounds__(max(2, 3)) k(int) {{}}
namespace ns {{ template <class T, bool B> __global__ void t(T) {{}} }}
int *other;
const void *pointer() {{ return {cast}; }}
"""
    assert f"return {expected};" in rewritten(source)
    assert compiles(source) == ""


def test_launches_formatted_without_cuda_support():
    lines = rewrite("void f() { k << <1, n >> > (a, b); }", "x.cu").split("\n")[2]
    assert lines == "void f() { (simt::Launch(1, n ), k  (a, b)); }"
    plain = "ostream &operator<< <T>(ostream &, A<B<T> > (x));"
    assert rewrite(plain, "x.cu").split("\n")[2] == plain


def test_lanes_run_in_lockstep_if_the_pointer_is_volatile():
    lines = rewrite(
        """__device__ void add(volatile float *s, float *t, int i) {
    if (n > 32) s[i] += s[i + 32];
    s[i] = 1; t[i] += t[i + 1]; t[i] = s[i];
}""",
        "x.cu",
    ).split("\n")
    assert lines[3].strip() == (
        "if (n > 32) s[i] += simt::lockstep([&] { return s[i + 32]; });"
    )
    assert lines[4].strip() == "s[i] = 1; t[i] += t[i + 1]; t[i] = s[i];"


def test_lockstep_needs_no_space_after_the_equals_sign():
    for value in ("s[t + 2]", "max(s[t], s[t + 2])"):
        lines = rewrite(f"void add(volatile float *s, int t) {{ s[t] ={value}; }}", "x")
        assert f"simt::lockstep([&] {{ return {value}; }});" in lines


def test_lockstep_is_limited_to_the_scope_of_the_volatile_name():
    """Other functions of the file have their own s, whose races lockstep would hide."""
    step = "s[i] += s[i + 1];"
    unchanged = [
        f"template <class T> void plain(T *s, int i) {{ {step} }}",
        f"void local() {{ {{ volatile int *s = a; }} {step} }}",
        f"void declared(volatile int *s); void plain_too(int *s) {{ {step} }}",
    ]
    changed = [
        f"template <class T> __device__ void f(volatile T *s, int i) {{ {step} }}",
        f"__global__ void g() {{ volatile int *s = a; if (i) {{ {step} }} }}",
        f"struct S {{ volatile int *s; void f() {{ {step} }} }};",
    ]
    for last in changed:  # a member's scope extends to the end of the file
        lines = rewrite("\n".join([*unchanged, last]), "x.cu").split("\n")
        assert lines[2:5] == unchanged
        assert "simt::lockstep([&] { return s[i + 1]; });" in lines[5]
    member = "struct S { volatile int *s; void f(); };\nvoid S::f() { s[i] = s[j]; }"
    assert "lockstep" in rewrite(member, "x.cu")
    shared = "extern volatile __shared__ int s[];\nvoid f() { s[i] = s[j]; }"
    assert "lockstep" in rewrite(shared, "x.cu")
    unbalanced = "#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\nvolatile int *s = a;"
    assert "lockstep" in rewrite(unbalanced + "s[i] = s[j]; }", "x.cu")


@pytest.mark.parametrize("kind", ["struct", "union", "class"])
def test_a_type_may_be_declared_with_its_shared_variables(kind):
    text = "__global__ void k() { __shared__ %s { float f[2]; int i; } u, w[2]; }"
    lines = rewrite(text % kind, "a.cu")
    assert "auto &u = simt_0_arrays.u;" in lines and "auto &w = " in lines


def test_early_returns_of_device_functions_are_marked():
    text = "__device__ void f(int n) { if (n) return; g(); }\n"
    text += "__global__ void k(int n) { if (n) return; f(n); }\n"
    text += "void h(int n) { if (n) return; }"
    device, kernel, host = rewrite(text, "a.cu").splitlines()[2:]
    assert "if (n) {SIMT_LEAVES return;} g();" in device
    assert "SIMT_LEAVES" not in kernel + host
