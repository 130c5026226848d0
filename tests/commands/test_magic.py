"""%%cuda in an IPython session."""

import re
import sys
import types

import pytest
import torch

IPython = pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402

from weft.base.errors import BuildError  # noqa: E402
from weft.base.paths import ROOT  # noqa: E402
from weft.cells import CompileError  # noqa: E402
from weft.cells.gpu import nvrtc  # noqa: E402
from weft.commands import magic  # noqa: E402
from weft.toolchain import native  # noqa: E402

ADD = """__global__ void add(float *out, const float *a, int n) {
    int i = threadIdx.x;
    if (i < n) out[i] = a[i] + 1;
}
"""
# A race that changes nothing if x contains ones.
RACE = """__global__ void ones(float *y, float *x) {
    x[threadIdx.x] = 1;
    y[threadIdx.x] = x[63 - threadIdx.x];
}
"""


@pytest.fixture
def shell(capsys):
    """Start an IPython session with the magics."""
    shell = InteractiveShell.instance()
    run(shell, "%load_ext weft\nimport numpy as np\nimport torch")
    capsys.readouterr()
    yield shell
    InteractiveShell.clear_instance()


def run(shell, cell: str):
    result = shell.run_cell(cell, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    if error:
        raise error
    return result


def test_a_cell_gives_its_kernels_to_the_notebook(shell, capsys):
    run(shell, f"%%cuda --cpu\n{ADD}")
    assert capsys.readouterr().out.startswith("add · CPU, ")
    run(shell, "o = torch.zeros(3); add[1, 4](o, torch.ones(3), 3); print(o.tolist())")
    assert capsys.readouterr().out == "[2.0, 2.0, 2.0]\n"
    run(shell, "%%cuda --cpu\n" + ADD.replace("+ 1", "+ 2"))
    capsys.readouterr()
    run(shell, "add[1, 4](o, torch.ones(3), 3); print(o.tolist())")
    assert capsys.readouterr().out == "[3.0, 3.0, 3.0]\n"


def test_an_error_is_red_raises_and_names_the_cell(shell, capsys):
    number = len(shell.user_ns["In"])
    with pytest.raises(
        Exception, match=rf"cell \[{number}\], line 2: error: 'x' was not"
    ):
        run(shell, "%%cuda --cpu\n__global__ void k(int n) {\n x = 1; }")
    output = capsys.readouterr().out
    assert "x = 1; }" in shell.user_ns["In"][number]
    assert "\x1b[31mcell [" in output and "Traceback" not in output


def test_printf_is_in_the_cell_in_order(shell, capsys):
    run(shell, '%%cuda --cpu\n__global__ void p() { printf("%d\\n", threadIdx.x); }')
    capsys.readouterr()
    run(shell, "print('a'); p[1, 2](); print('b')")
    assert capsys.readouterr().out == "a\n0\n1\nb\n"


def test_headers_are_shared_between_cells(shell, capsys):
    run(shell, "%%cuda_header twice.cuh\n__device__ int twice(int n) { return 2 * n; }")
    run(
        shell,
        '%%cuda --cpu\n#include "twice.cuh"\n'
        "__global__ void h(int *x) { *x = twice(4); }",
    )
    run(shell, "x = np.zeros(1, np.int32); h[1, 1](x); assert x[0] == 8")
    with pytest.raises(Exception, match="is not a header name"):
        run(shell, "%%cuda_header ../twice.cuh\nint x;")


def test_options_reach_the_launch(shell, capsys):
    run(shell, f"%%cuda --cpu --time --check --flags '-DN=2 -O1' --timeout 5\n{ADD}")
    run(shell, "o = torch.zeros(3); add[1, 4](o, o, 3)")
    out = capsys.readouterr().out
    assert "checked in 3 orders" in out and "not a prediction for a GPU" in out
    for line, words in {
        "--nix": "unrecognized arguments: --nix; options: --gpu",
        "--cpu --gpu": "not allowed with",
        "--timeout x": "invalid float value",
        '--flags "': "No closing quotation",
    }.items():
        with pytest.raises(magic.UsageError, match=words):
            run(shell, f"%%cuda {line}\n{ADD}")


def test_a_cell_is_watched_unless_it_is_fast(shell, capsys):
    launch = (
        "x, y = torch.ones(64), torch.zeros(64)\nones[1, 64](y, x)\nones[1, 64](y, x)"
    )
    run(shell, f"%%cuda --cpu\n{RACE}")
    for _ in range(2):  # the report appears once in each cell that launches the kernel
        capsys.readouterr()
        run(shell, launch)
        output = capsys.readouterr().err
        assert len(re.findall(r":\d+: race: ", output)) == 1
        assert "    y[threadIdx.x] = x[63 - threadIdx.x];" in output
    run(shell, "report = ones.report")
    assert not shell.user_ns["report"].ok
    for option in ("--fast", "--inplace"):
        run(shell, f"%%cuda --cpu {option}\n{RACE}")
        capsys.readouterr()
        run(shell, launch)
        assert capsys.readouterr().err == ""


def test_check_says_what_three_orders_showed(shell, capsys):
    run(shell, f"%%cuda --cpu --check\n{RACE}")
    capsys.readouterr()
    run(shell, "x, y = torch.ones(64), torch.zeros(64)\nones[1, 64](y, x)")
    output = capsys.readouterr()
    assert output.out == "ones: checked in 3 orders of threads: 1 finding\n"
    assert "race" in output.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_without_a_gpu_a_cell_for_one_is_compiled_to_be_read(shell, capsys):
    run(shell, f"%%cuda --gpu --ptx --time --arch sm_80\n{ADD}")
    output = capsys.readouterr().out
    assert re.match(r"add · \d+ registers · sm_80 · there is no GPU here", output)
    assert "add · PTX · sm_80" in output
    assert len(re.findall("^--time: .*no GPU", output, re.M)) == 1
    for launch in ("add[1, 4](torch.zeros(4), torch.ones(4), 4)", "add[1, 4](None)"):
        with pytest.raises(BuildError, match="no CUDA GPU here"):
            run(shell, launch)
    with pytest.raises(CompileError, match="line 1: error"):
        run(shell, "%%cuda --gpu --ptx\n__global__ void k(flaot *x) {}")
    with pytest.raises(BuildError, match="no CUDA GPU here"):
        run(shell, f"%%cuda --gpu\n{ADD}")


def test_inline_ptx_is_told_of_the_header_that_has_twins(shell, capsys):
    asm = """__global__ void fence() { asm volatile("membar.gl;"); }"""
    with pytest.raises(CompileError, match=r'#include "ptx.cuh"'):
        run(shell, f"%%cuda --cpu\n{asm}")
    run(shell, '%%cuda --cpu\n#include "ptx.cuh"\n' + ADD)
    run(shell, "o = torch.zeros(3); add[1, 4](o, torch.ones(3), 3)")


def test_save_writes_within_the_checkout_and_over_nobodys_file(tmp_path, monkeypatch):
    monkeypatch.setattr(magic, "ROOT", tmp_path)
    path = magic.save("kernels/mine.cu", ADD)
    assert path == tmp_path / "kernels" / "mine.cu" and path.read_text().endswith(ADD)
    magic.save("kernels/mine.cu", ADD.replace("+ 1", "+ 2"))
    assert "+ 2" in path.read_text()
    path.write_text("somebody's work")
    for target in ("kernels/mine.cu", "../out.cu", "/tmp/out.cu", "kernels/a.py"):
        with pytest.raises(magic.UsageError, match="--save"):
            magic.save(target, ADD)
    assert path.read_text() == "somebody's work"
    assert ROOT not in path.parents


def test_a_failed_launch_shows_the_readers_lines_and_none_of_ours(shell, capsys):
    run(shell, f"%%cuda --cpu\n{ADD}")
    for cell in (
        "def f():\n    add[1, 4](np.zeros(2), np.ones(2), 2)\nf()",
        "add[1, 4](torch.zeros(2))",
        "add[1, 4096](torch.zeros(2), torch.ones(2), 2)",
        "add[1, 4](torch.zeros(2), torch.ones(2), 4)",
    ):
        capsys.readouterr()
        with pytest.raises(magic.KernelError):
            run(shell, cell)
        output = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
        assert "add[1, 4" in output and "Traceback" in output
        assert "module.py" not in output and "hidden" not in output


def test_help_names_every_option(shell, capsys):
    run(shell, "%%cuda --help\n.")
    out = capsys.readouterr().out
    for action in magic._make_parser()._actions:
        assert action.option_strings[0] in out
        assert (
            action.option_strings[0]
            in shell.magics_manager.magics["cell"]["cuda"].__doc__
        )


def test_a_fault_of_the_gpu_is_told_below_the_cell_that_launched_it(
    shell, capsys, monkeypatch
):
    result = types.SimpleNamespace(
        is_used=lambda: True, find_fault=lambda: "restart the kernel"
    )
    monkeypatch.setitem(sys.modules, "weft.cells.gpu.loader", result)
    run(shell, "1")
    assert "restart the kernel" in capsys.readouterr().err
    monkeypatch.setattr(native, "_lost", "it was told")
    run(shell, "2")
    assert "restart" not in capsys.readouterr().err
