"""The functions with which lessons show sources, whole files or single functions."""

import html
import re
import subprocess
import sys

import pytest

import utils
from weft.report.html import highlight_text, with_code


def test_cdiv_rounds_up():
    assert [utils.cdiv(n, 4) for n in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]


def test_size_is_small_only_where_it_is_asked_for(monkeypatch):
    monkeypatch.delenv("WEFT_SMALL", raising=False)
    assert utils.size(5120, 64) == 5120
    monkeypatch.setenv("WEFT_SMALL", "1")
    assert utils.size(5120, 64) == 64


@pytest.mark.slow
def test_star_brings_what_a_kernel_needs_and_does_not_import_numba():
    program = "from utils import *; import sys; assert 'numba' not in sys.modules"
    program += "; float32(0), uint8(1), cuda.threadIdx, cdiv, size, exercise"
    subprocess.run([sys.executable, "-c", program], cwd=utils.ROOT, check=True)


def test_importing_weft_does_not_wait_for_what_draws_or_translates():
    late = ["torch", "numpy", "matplotlib", "numba"]
    late += [
        "weft.see.pictures.show",
        "weft.pykernel.sim.launch",
        "weft.pykernel.to_cuda.emit",
    ]
    program = f"import weft, sys; print([n for n in {late} if n in sys.modules])"
    run = [sys.executable, "-c", program]
    out = subprocess.run(
        run, cwd=utils.ROOT, check=True, capture_output=True, text=True
    )
    assert out.stdout == "[]\n"


@pytest.mark.slow
def test_a_name_of_weft_is_the_function_also_once_its_module_was_imported():
    program = (
        "import weft.see.pictures.show, weft.pykernel.sim.layout, weft.check.cases\n"
    )
    program += "import weft.report.raw\n"
    program += "import inspect, weft\n"
    program += "found = {name: getattr(weft, name) for name in weft.__all__}\n"
    program += (
        "modules = [n for n, v in found.items() if inspect.ismodule(v)]\n"
        "assert modules == ['bench', 'cuda', 'nn'], modules\n"
    )
    program += "assert set(weft.__all__) <= set(dir(weft))\n"
    program += "assert weft.check is weft.check and not hasattr(weft, 'no_such_name')"
    subprocess.run([sys.executable, "-c", program], cwd=utils.ROOT, check=True)


def test_source_gives_one_c_function_with_its_comment():
    text = utils.source("kernels/common/common.cu", "weft_fail")
    assert text.startswith("int weft_fail(")
    assert text.rstrip().endswith("}")
    assert text.count("\nint ") == 0
    kernel = utils.source("kernels/matmul/01_naive.cu", "matmul_naive")
    assert kernel.startswith(
        "/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */\nstatic __global__"
    )
    assert "matmul_naive_general" not in kernel


def test_source_gives_a_head_that_is_broken_before_the_name():
    text = utils.source("kernels/matmul/10_pipeline.cu", "matmul_pipeline")
    head = [
        "/* Compute c (m,n) = a (m,k) @ b (k,n), row-major. */",
        "template <class S>",
    ]
    assert text.splitlines()[:2] == head


def test_source_gives_a_c_function_of_one_line():
    text = utils.source("notebooks/programs/streams.cu", "report")
    assert text.endswith("static void report(void *data) { ++*(int *)data; }\n")


def test_source_gives_the_function_and_not_a_macro_that_calls_it():
    text = utils.source("kernels/mnist/fused/launch.cuh", "fused_launch")
    assert text.startswith("template") and "#define" not in text
    assert text.count("\n}\n") == 1


def test_source_gives_one_python_function():
    text = utils.source("utils.py", "cdiv")
    assert text.startswith("def cdiv(") and "return" in text
    assert "def source" not in text


def test_source_gives_the_method_and_not_a_call_of_it():
    text = utils.source("lib/weft/toolchain/native.py", "_fail")
    assert text.startswith("    def _fail(self") and "raise" in text


def test_source_gives_a_function_whose_signature_has_several_lines():
    text = utils.source("lib/weft/ops/check.py", "numeric_gradient")
    assert text.count("def ") == 1 and text.rstrip().endswith("return dx")


def test_an_unknown_function_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="no function 'nope'; it has .*weft_fail"):
        utils.source("kernels/common/common.cu", "nope")


def test_listing_prints_outside_a_notebook(capsys):
    utils.listing("utils.py", "cdiv")
    assert "def cdiv" in capsys.readouterr().out


def test_listing_prints_a_difference(capsys):
    utils.listing("utils.py", "cdiv", against="listing")
    out = capsys.readouterr().out
    assert "--- listing" in out and "+def cdiv" in out and "-def listing" in out


def test_a_listing_compares_with_a_function_of_another_file(capsys):
    folder = "kernels/transpose"
    other = f"{folder}/02_tiled.cu:transpose_tiled"
    utils.listing(f"{folder}/03_padded.cu", "transpose_padded", against=other)
    text = capsys.readouterr().out
    assert "-    __shared__ float tile[32][32];" in text
    assert "+    __shared__ float tile[32][33];" in text and "#include" not in text


def test_code_brings_its_own_font():
    """The style sheets of an exported page and of a preview may set another font."""
    for page in (highlight_text("x = 1", "python"), with_code("Let `x` be 1 < 2.")):
        (style,) = re.findall(r'<(?:pre|code) style="([^"]*)"', page)
        assert re.search(r"font-family:[^;]*\bmonospace(;|$)", style)
    assert re.sub(r"<[^>]*>", "", page) == "Let x be 1 &lt; 2."


def test_programs_and_differences_have_colours_and_keep_their_text():
    for language, text, marked in (
        ("python", "def f(x):  # <0", ("def", "# &lt;0")),
        ("cuda", "__global__ int n = 1;", ("__global__", "int", "1")),
        ("diff", "-x\n+y\n z", ("-x", "+y")),
    ):
        page = highlight_text(text, language)
        for word in marked:
            assert re.search(
                rf'<span style="color:#[^"]+">{re.escape(word)}\n?</span>', page
            )
        assert html.unescape(re.sub(r"<[^>]*>", "", page)).rstrip("\n") == text
