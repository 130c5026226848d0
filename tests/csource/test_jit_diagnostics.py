"""The errors of a cell that does not compile have the right line, caret and hint."""

import pytest

from weft.cells import CompileError, load_cuda
from weft.csource import diagnostics
from weft.csource.diagnostics import Diagnostic


def error(source: str) -> CompileError:
    with pytest.raises(CompileError) as caught:
        load_cuda(source, target="cpu", name="cell [7]")
    return caught.value


# Cells with the expected caret (^) below its line, and a part of the message.
CASES = {
    "case": (
        "__global__ void k(int *x) {\n"
        "    x[0] = blockIdx.x * blockDim.x + threadidx.x;\n"
        "                                     ^\n}",
        "CUDA spells it threadIdx",
    ),
    "after a rewritten name": (
        "__global__ void k(int *x) {\n"
        "    x[threadIdx.x + blockIdx.y] = syncthreads();\n"
        "                                  ^\n}",
        "CUDA spells it __syncthreads",
    ),
    "near one's own": (
        "__global__ void k(float *out, int width) {\n"
        "    out[0] = widht;\n"
        "             ^\n}",
        "width",
    ),
    "semicolon": (
        "__global__ void k(int *x) {\n    x[0] = 1\n            ^\n}",
        "a statement ends with ;",
    ),
    "const": (
        "__global__ void k(const int *x) {\n    x[0] = 1;\n         ^\n}",
        "it is const",
    ),
    "power": (
        "__global__ void k(int *x, int n) {\n    x[0] = n ** 2;\n              ^\n}",
        "powf(x, y)",
    ),
    "None": (
        "__global__ void k(int *x) {\n\tx[0] = None;\n\t       ^\n}",
        "C has no None",
    ),
    "floor division": (
        "__global__ void k(int *x, int n) {\n    x[0] = n // 2;\n            ^\n}",
        "// begins a comment in C",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_error_points_at_the_token_and_has_a_hint(case):
    marked, hint = CASES[case]
    lines = marked.split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip() == "^")
    expected = [lines[at - 1].expandtabs(4), lines[at].expandtabs(4)]
    del lines[at]
    raised = str(error("\n".join(lines))).split("\n")
    assert raised[0].startswith(f"cell [7], line {at}: error: ")
    assert raised[1] == "    " + expected[0] and raised[2] == "    " + expected[1]
    assert hint in raised[0] + raised[-1]


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("int main() { return 0; }", 1, "a cell has no main"),
        ("\n__global__ void k() {}\nvoid f() { k<<<1, 2>>>(); }", 3, "Python launches"),
        ("#include <iostream>\n__global__ void k() {}", 1, "<iostream> is a host head"),
        ("__global__ void k(float *x) {\n std::vector<int> v; }", 2, "std::vector"),
        ("__global__ void k(int **x) {\n cudaMalloc(x, 4); }", 2, "is a host function"),
        ("__global__ int k() { }", 1, "a kernel returns nothing"),
        ("static __global__ k() { }", 1, "a kernel returns nothing"),
        ("__global__ void k(int n) {\n  if (n) return 3; }", 2, "into an array"),
        ("__global__ void k(int &n) { n = 1; }", 1, "cannot be a reference"),
        (
            "int f(int x) {\n return x;\n}\n__global__ void k(int *x) { *x = f(1); }",
            1,
            "write __device__ before it",
        ),
        ("float x = 3;", 1, "no kernel in this cell"),
        ("__global__ void k() {}\n__global__ void k(int n) {}", 2, "two kernels k"),
        ("__device__ float f(float);\n__global__ void k(float *x) { *x = f(1); }", 1,
         "has no definition"),
        ('__global__ void k() { asm("exit;"); }', 1, "inline PTX"),
        ("__global__ void k(int n) {\n  if (n) {\n}", 1, "never closed"),
    ],
)  # fmt: skip
def test_code_that_only_one_compiler_would_refuse_is_refused(source, line, words):
    first = error(source).diagnostics[0]
    assert first.line == line and words in first.message


@pytest.mark.parametrize(
    "source",
    [
        "struct V { float x; };\n__global__ void k(V v) { }",
        'extern "C" __global__ void __launch_bounds__((1 << 5) * 2, 1) k() { }\n'
        "template <int N> __launch_bounds__(N) __global__ void t() { }\n"
        "static void __global__ v() { }",
        "__device__ int f(int n);\n__global__ void k(int *x) { *x = f(1); }\n"
        "__device__ int f(int n) { return n; }",
        "constexpr int f(int n) { return 2 * n; }\n"
        "__global__ void k(int *x) { *x = f(2); }",
        "// int main() {} std::max <<< cudaMalloc(\n"
        '__global__ void k() { printf("<<<std::cout main() {"); }',
        "#define F 1\nnamespace n { __device__ int f() { return F; } }\n"
        "__global__ void k(int *x) {\n"
        "    auto g = [](int n) { return n; };\n    *x = g(n::f());\n}",
    ],
)
def test_code_that_both_compilers_accept_is_accepted(source):
    load_cuda(source, target="cpu")


def test_warnings_are_kept_with_the_cached_cell_and_have_a_hint():
    source = '__global__ void k(int n) {\n    printf("%f\\n", n);\n}'
    for _ in range(2):
        k = load_cuda(source, target="cpu", name="cell [3]")
        text = diagnostics.render(k.warnings, source, "cell [3]")
        assert text.startswith("cell [3], line 2: warning: format '%f' expects")
        assert "%d int" in text


def test_a_literal_of_double_is_noted_once_and_only_where_it_surprises():
    cell = "__global__ void k({0} *x) {{\n    x[0] = 0.5 * x[1] + 1e-3 + 2.f * 1.5;\n}}"
    (note,) = load_cuda(cell.format("float"), target="cpu").warnings
    assert (note.severity, note.line, note.column) == ("note", 2, 12)
    assert "write 0.5f" in note.message
    assert not load_cuda(cell.format("double"), target="cpu").warnings


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ("half h;", "#include <cuda_fp16.h> declares it"),
        ("extern __shared__ t[];\n t[0] = 1;", "the type is missing"),
        ("__shared__ float t[1 << 14];\n t[0] = 1;", "name[grid, block, bytes]"),
        ("x[0] = True;", "in C, write true"),
        ("x[0] = 1.5f % 2;", "fmodf"),
        ("float y;\n y[0] = 1;", "only an array or a pointer can be indexed"),
    ],
)
def test_hints(body, hint):
    assert hint in str(error(f"__global__ void k(float *x) {{\n{body}\n}}"))


def test_an_error_in_a_template_is_reported_when_it_is_instantiated():
    k = load_cuda(
        "template <class T> __global__ void k(T *x) {\n    x[0].y = 1;\n}", target="cpu"
    )
    with pytest.raises(CompileError, match="line 2: error: request for member 'y'"):
        k.k["float"]


def test_notebooks_show_an_error_in_red_without_our_frames():
    shown = error("__global__ void k() { x = 1; }")._render_traceback_()
    assert all(line.startswith("\x1b[31m") for line in shown)
    assert shown[0].startswith("\x1b[31mcell [7], line 1: error: ")


def test_nvrtcs_messages_are_parsed_to_the_same_form():
    log = (
        'cell(2): error: identifier "threadidx" is undefined\n'
        "      int i = threadidx.x;\n"
        "              ^\n\n"
        'cell(5): warning #177-D: variable "j" was declared but never referenced\n'
        "      int j;\n"
        "          ^\n\n"
        'tiles.cuh(1): catastrophic error: cannot open source file "no.h"\n'
    )
    assert diagnostics.parse_nvrtc(log) == [
        Diagnostic("", 2, 13, "error", 'identifier "threadidx" is undefined'),
        Diagnostic(
            *("", 5, 9, "warning"), 'variable "j" was declared but never referenced'
        ),
        Diagnostic("tiles.cuh", 1, 0, "error", 'cannot open source file "no.h"'),
    ]
    message = 'identifier "threadidx" is undefined'
    assert diagnostics.find_hint(message, "", "") == "CUDA spells it threadIdx"


def test_an_error_in_an_included_header_names_the_header():
    from weft.cells import headers

    headers.add("broken.cuh", "\n__device__ int f() { return nix; }\n")
    raised = error('#include "broken.cuh"\n__global__ void k(int *x) { *x = f(); }')
    assert str(raised).startswith("broken.cuh, line 2: error: 'nix' was not declared")


# ---- code that only one target accepts, and hints that mislead -------------------

K = "__global__ void k(float *o, int n) {\n%s\n}\n"


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        ("int N = 4;\n" + K % "o[0] = N;", 1, "N is a host variable"),
        (K % "try { o[0] = n; } catch (...) {}", 2, "no exceptions"),
        (K % "throw n;", 2, "no exceptions"),
        (K % "float t[n]; t[0] = 1; o[0] = t[0];", 2, "variable length array"),
        (K % "/* to be done\no[0] = n;", 2, "this comment /* is never closed"),
        (
            K % "extern __shared__ float s[]; o[0] = s[n];"
            + "__global__ void j(int *o) { extern __shared__ int s[]; o[0] = s[0]; }",
            4,
            "s is float on line 2 and int here",
        ),
        ("_global_ void k(float *o) { o[0] = 1; }", 1, "name(...), not _global_"),
        ("#define G __global__ void\nG k(int *o) { o[0] = 1; }", 1, "not in a macro"),
        ("#include <cuda_fp8.h>\n" + K % "o[0] = n;", 1, "8 bits are not simulated"),
    ],
)
def test_refused_on_its_line(source, line, words):
    with pytest.raises(CompileError) as caught:
        load_cuda(source, target="cpu")
    first = caught.value.diagnostics[0]
    assert (first.line, first.severity) == (line, "error")
    assert words in first.message


def test_globals_that_a_cell_may_have():
    source = (
        "const int N = 4; constexpr float W[2] = {1, 2}; __device__ int d = 3;\n"
        "__constant__ float c[2];\nstruct S { int x; };\nint twice(int);\n"
        "using real = float; enum Op : int { PLUS, MINUS };\n"
        + K
        % "o[0] = N + W[1] + d;"
    )
    assert load_cuda(source, target="cpu").signatures


@pytest.mark.parametrize(
    ("code", "hint", "not_said"),
    [
        ("o[0] = o[n] ** 2;", "C has no **", ""),
        ("for j in range(n):\n o[j] = 1;", "in C, write for", ""),
        ("if (n < 3 o[0] = 1;", "count the ( and )", "a statement ends with ;"),
        ("o[n = 1;", "count the [ and ]", ""),
        ("o[0] = 1; # one", "C comments begin with //", ""),
        ("int i = ThreadIdx.x; o[i] = 1;", "CUDA spells it threadIdx", "did you mean"),
        ("o[0] = max(o[1], 0);", "both need the same type", ""),
        ("atomicAdd(o[0], 1);", "atomicAdd(&x[0]", ""),
        ("tex1Dfetch<float>(0, n);", "textures are not simulated", ""),
    ],
)
def test_hints_that_were_missing_or_wrong(code, hint, not_said):
    with pytest.raises(CompileError) as caught:
        load_cuda(K % code, target="cpu")
    assert hint in str(caught.value)
    assert not not_said or not_said not in str(caught.value)


def test_a_templates_argument_that_does_not_exist_is_named():
    k = load_cuda(
        "template <class T> __global__ void t(T *o) { *o = 1; }", target="cpu"
    )
    with pytest.raises(CompileError, match=r"t's template arguments: 'flaot' was not"):
        k.t["flaot"]
    with pytest.raises(CompileError, match="#include <cuda_fp16.h> declares it"):
        k.t["half"]


def test_an_error_of_the_compiler_is_never_lost():
    raised = diagnostics.with_error([], "x: cannot find -lnothing")
    assert raised[0].severity == "error" and "-lnothing" in raised[0].message
