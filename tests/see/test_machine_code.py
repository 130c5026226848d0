"""ptx() and sass() show the reader's own lines, folded to the innermost loops."""

import re
from pathlib import Path

import numpy as np
import pytest
from tiers import only

from weft import cuda, cuda_c, load_cuda, numba_jit
from weft.base.errors import ArgumentError, BuildError, KernelError
from weft.cells.gpu import nvrtc
from weft.see.machine_code import instructions, ptx, sass
from weft.see.machine_code.instructions import told
from weft.toolchain import tools
from weft.toolchain.build import nvcc

pytestmark = pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")


def _disassembler() -> bool:
    try:
        return "cuobjdump" not in tools.find_disassembler()
    except BuildError:
        return False


with_sass = pytest.mark.skipif(not _disassembler(), reason="no nvdisasm")

TILED = """\
__device__ float twice(float x) { return 2 * x; }

__global__ void tiled(float *c, const float *a, const float *b, int n) {
    __shared__ float s[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    float acc = 0;
#pragma unroll 1
    for (int k = 0; k < n; k += 16) {
        s[ty][tx] = a[ty * n + k + tx];
        __syncthreads();
        acc = acc * s[tx][ty] + b[k];
        __syncthreads();
    }
    c[ty * n + tx] = twice(acc);
}
__global__ void copy(float *c, const float *a) { c[threadIdx.x] = a[threadIdx.x]; }
"""


@pytest.fixture(scope="module")
def module():
    return load_cuda(TILED, name="cell [3]", target="cpu")


@pytest.mark.parametrize("show", [ptx, pytest.param(sass, marks=with_sass)])
@pytest.mark.parametrize("arch", only(["sm_90a"], ["sm_75", "sm_90a", "sm_120"]))
def test_the_innermost_loop_is_open_and_counted(module, show, arch):
    (kernel,) = show(module.tiled, arch=arch).kernels
    (loop,) = kernel.loops
    want = {"global load": 2, "shared load": 1, "shared store": 1, "FMA": 1}
    assert want.items() <= loop.items()
    assert loop["barrier"] == 2 and loop["branch"] == 1
    opened = [part for part in kernel.parts() if part.opened]
    assert len(opened) == 1 and len(opened[0].indices) == sum(loop.values())
    assert kernel.code.lines(opened[0].indices)[-1] in (11, 12)
    assert "2 global loads" in kernel.title(opened[0])


@with_sass
def test_source_lines_are_above_their_instructions(module):
    text = repr(sass(module.tiled, arch="sm_80"))
    code_of: dict[str, str] = {}  # all instructions below each line of the source
    for line in text.splitlines():
        if match := re.match(r" {3,4}(\d+)  \S", line):
            number = match.group(1)
        elif line.startswith(" " * 9):
            code_of[number] = code_of.get(number, "") + line
    assert "LDG" in code_of["9"] and "STS" in code_of["9"] and "LDG" in code_of["11"]
    assert "FFMA" in code_of["11"] and "LDS" in code_of["11"] and "BAR" in code_of["10"]
    assert "   11  acc = acc * s[tx][ty] + b[k];" in text.splitlines()
    head = text.splitlines()[0]
    assert head.startswith("tiled · SASS · sm_80 · ")
    assert "1024 bytes shared · 0 bytes local · no spills" in head
    assert re.search(r"^\.\.\. \d+ instructions, lines? ", text, re.M)
    assert "NOP" not in text


@with_sass
def test_every_instruction_is_shown_or_folded_once(module):
    for view in (ptx(module), sass(module)):
        for kernel in view.kernels:
            indices = [i for part in kernel.parts() for i in part.indices]
            assert indices == list(range(len(kernel.code.instructions)))


def test_a_module_shows_all_its_kernels_and_html_folds(module):
    view = ptx(module, arch="sm_80")
    assert [kernel.name for kernel in view.kernels] == ["tiled", "copy"]
    page = view._repr_html_()
    assert page.count("<details open") == 2  # the loop, and a kernel without a loop
    assert page.count("<details") == page.count("</details>") > 2
    assert "ld.global" in view.text and ".entry" in view.text


@with_sass
def test_spills_and_local_bytes_are_reported():
    source = """__global__ void __launch_bounds__(1024, 2) k(float *y, int n) {
        float a[60];
        for (int i = 0; i < 60; i++) a[i] = y[i * n];
        __syncthreads();
        for (int i = 0; i < 60; i++) y[i] = a[i] * a[(i * n) % 60];
    }"""
    head = repr(sass(load_cuda(source, target="cpu").k, arch="sm_80")).splitlines()[0]
    local = int(re.search(r"(\d+) bytes local", head).group(1))
    assert local >= 240, head


def test_templates_require_their_arguments_and_show_one_instance():
    fill = load_cuda("template <class T> __global__ void fill(T *y, T v) { *y = v; }")
    with pytest.raises(ArgumentError, match=r"fill is a template: .*fill\['float'"):
        ptx(fill.fill)
    assert "f64" in ptx(fill.fill["double"]).text


def scaled(y, x, a):
    i = cuda.grid(1)
    for k in range(x.shape[0]):
        y[i] += a * x[k]


ARGS = np.ones(8, np.float32), np.ones(8, np.float32), 2.0


def _find_line(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("kernel", [scaled, cuda_c(scaled)])
def test_a_python_kernel_is_shown_at_its_own_lines(kernel):
    text = repr(ptx(kernel, *ARGS, arch="sm_80"))
    number = _find_line("y[i] += a * x[k]")
    assert f"{number:>5}  y[i] += a * x[k]" in text and "fma.rn.f32" in text


def test_numbas_code_is_shown_at_the_same_lines():
    try:
        text = repr(ptx(numba_jit(scaled), *ARGS, arch="sm_80"))
    except KernelError as error:
        pytest.skip(str(error))
    assert f"{_find_line('y[i] += a * x[k]'):>5}  y[i] += a * x[k]" in text


def test_a_python_kernel_requires_its_arguments():
    for kernel in (scaled, cuda_c(scaled), numba_jit(scaled)):
        with pytest.raises(ArgumentError, match="arguments.*: pass them too"):
            ptx(kernel)


def test_after_a_launch_a_runner_knows_its_types():
    run = cuda_c(scaled)
    run[1, 8](*ARGS)
    assert "fma" in ptx(run).text


@pytest.mark.skipif(not nvcc(), reason="no nvcc")
def test_a_file_with_host_code_is_shown_by_kernel():
    view = ptx("kernels/matmul/01_naive.cu", "matmul_naive", arch="sm_80")
    (kernel,) = view.kernels
    assert kernel.name == "matmul_naive" and "acc += a[row * k + i]" in repr(view)
    with pytest.raises(ArgumentError, match="has no kernel 'nix'; it has"):
        ptx("kernels/matmul/01_naive.cu", "nix", arch="sm_80")


def test_an_invalid_kernel_is_refused_in_one_sentence(module):
    with pytest.raises(ArgumentError, match="no such file"):
        ptx("nowhere.cu")
    with pytest.raises(ArgumentError, match="a kernel is a Python function"):
        ptx(3)
    with pytest.raises(ArgumentError, match="expected an architecture such as"):
        ptx(module, arch="hopper")
    with pytest.raises(BuildError, match="does not compile for sm_10"):
        ptx(module, arch="sm_10")


def test_without_a_disassembler_the_cure_is_named(module, monkeypatch):
    monkeypatch.setattr(tools, "TOOLS", ("no-such-tool",))
    tools.find_disassembler.cache_clear()
    try:
        with pytest.raises(BuildError, match="pip install nvidia-cuda-nvdisasm"):
            sass(module, arch="sm_80")
        assert ptx(module, arch="sm_80").kernels
    finally:
        tools.find_disassembler.cache_clear()


def test_a_cell_shows_ptx_as_the_function_does(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.run_cell("%load_ext weft").raise_error()
        shell.run_cell(f"%%cuda --cpu --ptx\n{TILED}").raise_error()
    finally:
        InteractiveShell.clear_instance()
    assert "tiled · PTX · sm_" in capsys.readouterr().out


# ---- parsing texts of NVIDIA's tools -------------------------------------------------

SASS = """
//--------------------- .text._Z1kv       --------------------------
\t.section\t.text._Z1kv,"ax",@progbits
_Z1kv:
.text._Z1kv:
\t//## File "/usr/include/vec.h", line 90 inlined at "/tmp/cell", line 3
\t//## File "/tmp/cell", line 3
        /*0000*/                   MOV R1, c[0x0][0x28] ;
.L_x_1:
\t//## File "/tmp/cell", line 2 inlined at "/tmp/cell", line 5
\t//## File "/tmp/cell", line 5
        /*0010*/                   LDG.E.128.CONSTANT R4, [R2.64] ;
\t//## File "/tmp/cell", line 6
.L_x_2:
        /*0020*/                   FFMA R0, R4, R5, R0 ;
        /*0030*/               @P1 BRA `(.L_x_2) ;
        /*0040*/                   BRA.U UP0, `(.L_x_1) ;
        /*0050*/                   HFMA2.MMA R5, -RZ, RZ, 0, 2.4e-07 ;
        /*0060*/              @!P0 BRA `(.L_x_9) ;
.L_x_3:
        /*0070*/                   EXIT ;
.L_x_9:
        /*0080*/                   CALL.REL.NOINC `($__internal_0_$__slow) ;
        /*0090*/                   BRA `(.L_x_3) ;
$__internal_0_$__slow:
        /*00a0*/                   RET.REL.NODEC R2 `(_Z1kv) ;
.L_x_4:
        /*00b0*/                   BRA `(.L_x_4);
        /*00c0*/                   NOP;
"""


def test_loops_are_those_of_the_control_flow_not_every_jump_back():
    """Neither the last branch nor a jump back from a slow path at the end is a loop."""
    code = instructions.read_sass(SASS, "_Z1kv")
    assert [one.opcode for one in code.instructions][-1] == "RET.REL.NODEC"
    outer, inner = code.loops
    assert (outer.depth, outer.hot, sorted(outer.body)) == (0, False, [1, 2, 3, 4])
    assert (inner.depth, inner.hot, sorted(inner.body)) == (1, True, [2, 3])
    assert told(code.counts(inner)) == "1 FMA, 1 branch"


def test_a_place_is_the_readers_own_line_even_for_an_inlined_header():
    code = instructions.read_sass(SASS, "_Z1kv").instructions
    assert [one.line for one in code[:3]] == [3, 2, 6]
    assert {one.file for one in code} == {"/tmp/cell"}
    assert code[1].bits == 128 and code[1].kind == "global load"
    assert code[5].kind == "other"  # the instruction loads a constant
    assert code[-1].function == "__slow" and code[-2].function == ""


PTX = """
.extern .func (.param .b32 r) vprintf ( .param .b64 a );
.visible .entry _Z1kPf(
\t.param .u64 _Z1kPf_param_0
)
{
\t.reg .b32 \t%r<4>;
\t.loc\t1 4 5
\tld.param.u64 \t%rd1, [_Z1kPf_param_0];
$L__BB0_1:
\t.loc\t2 70 1, function_name $L__info_string0, inlined_at 1 9 3
\tld.global.v4.f32 \t{%f1, %f2, %f3, %f4}, [%rd1]; // a comment; with marks
\t{ // callseq 0, 0
\tcall.uni (retval0),
\tvprintf,
\t(
\tparam0
\t);
\t}
\tts: .branchtargets $L__BB0_1, $L__BB0_2;
\tbrx.idx \t%r1, ts;
$L__BB0_2:
\tret;
}
\t.file\t1 "/tmp/cell"
\t.file\t2 "/usr/include/vec.h"
"""


def test_ptx_is_read_with_calls_tables_and_inlined_headers():
    assert instructions.list_ptx_kernels(PTX) == ["_Z1kPf"]
    code = instructions.read_ptx(PTX, "_Z1kPf")
    names = [one.opcode for one in code.instructions]
    want = ["ld.param.u64", "ld.global.v4.f32", "call.uni", "brx.idx", "ret"]
    assert names == want
    assert code.instructions[1].place == ("/tmp/cell", 9)
    assert code.instructions[1].bits == 128
    (loop,) = code.loops
    assert sorted(loop.body) == [1, 2, 3]


@pytest.mark.slow
@with_sass
@pytest.mark.skipif(not nvcc(), reason="no nvcc")
def test_a_files_own_flags_for_nvcc_count_here_too(tmp_path):
    text = "__global__ void k(float *y, float x) { y[threadIdx.x] = x / 3; }\n"
    needs = []
    for name, line in ("plain", ""), ("own", "/* nvcc: -Xptxas=-O0,-v -DX */\n"):
        (tmp_path / f"{name}.cu").write_text(line + text)
        (kernel,) = sass(str(tmp_path / f"{name}.cu"), "k", arch="sm_90").kernels
        needs.append(len(kernel.code.instructions))
    assert needs[1] > needs[0], needs  # -O0 optimises nothing
