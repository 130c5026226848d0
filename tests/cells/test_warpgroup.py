"""Lesson 08c's kernel of one warpgroup: its result, and the effects of omissions."""

import subprocess

import nbformat
import pytest
import torch
from tiers import only

from weft import inspect, load_cuda
from weft.cells.gpu import loader as gpu
from weft.cells.gpu import nvrtc
from weft.puzzles.notebooks import SOLUTIONS
from weft.toolchain import build

LESSON = SOLUTIONS / "08c_matmul_tensor_cores.ipynb"
CALLS = ("wgmma_wait<0>();", "wgmma_commit();", "__syncthreads();")
FENCES = ("wgmma_fence();", "fence_proxy_async();")


def text_without(call: str = "") -> str:
    """Return the lesson's cell without one of its calls."""
    cells = nbformat.read(LESSON, as_version=4).cells
    (text,) = [c.source for c in cells if "__global__ void one_group(" in c.source]
    assert not call or text.count(call) == 1
    return text.removeprefix("%%cuda\n").replace(call, "")


def run(text: str):
    """Return the watch build's report and whether the product is right."""
    a, b = torch.randn(2, 64, 64).bfloat16()
    c = torch.full((64, 64), torch.nan)
    kernel = load_cuda(text, target="cpu").one_group
    report = inspect(kernel, quiet=True)[1, 128](c, a, b)
    return report, bool((c.double() - a.double() @ b.double().T).abs().max() < 1e-4)


def test_the_product_is_right():
    report, is_right = run(text_without())
    assert report.ok and is_right


@pytest.mark.parametrize("call", only(CALLS[:1], CALLS))
def test_an_omission_is_found(call):
    report, is_right = run(text_without(call))
    kinds = {finding.kind for finding in report.findings}
    assert ("race" if "sync" in call else "unwaited") in kinds and not is_right


@pytest.mark.parametrize("fence", only(FENCES[:1], FENCES))
def test_a_missing_fence_is_not_found(fence):
    report, is_right = run(text_without(fence))
    assert report.ok and is_right


@pytest.mark.slow
@pytest.mark.parametrize(
    "old, new", [("swizzled(2 * i) / 2", "i"), ("wgmma_step(a_d, 2 * k)", "a_d")]
)
def test_a_descriptor_that_does_not_fit_reads_other_numbers(old, new):
    report, is_right = run(text_without().replace(old, new))
    assert report.ok and not is_right


def test_a_longer_k_takes_one_more_barrier():
    """The lesson's folded answer describes this kernel."""
    text = text_without().replace("const bf16 *b)", "const bf16 *b, int k_all)")
    begin, end = (
        text.index("    for (int i = threadIdx"),
        text.index("    const int warp"),
    )
    body = text[begin:end].replace("a[i]", "a[i / 64 * k_all + k0 + i % 64]")
    body = body.replace("b[i]", "b[i / 64 * k_all + k0 + i % 64]")
    body = body.replace("    float sums[32];\n", "").replace("k > 0", "k0 + k > 0")
    loop = f"for (int k0 = 0; k0 < k_all; k0 += 64) {{ {body} __syncthreads(); }}\n"
    text = text[:begin] + "float sums[32];\n" + loop + text[end:]
    a, b = torch.randn(2, 64, 192).bfloat16()
    c = torch.full((64, 64), torch.nan)
    inspect(load_cuda(text, target="cpu"), quiet=True)[1, 128](c, a, b, 192).verify()
    assert (c.double() - a.double() @ b.double().T).abs().max() < 1e-4


@pytest.mark.skipif(bool(nvrtc.explain_missing()), reason="no NVRTC")
def test_a_gpu_gets_the_instructions():
    text = gpu.compile_only(text_without(), "sm_90a", ["one_group"]).program.ptx
    for instruction in ("fence", "commit_group", "wait_group", "mma_async"):
        assert f"wgmma.{instruction}" in text, instruction
    assert text.count("wgmma.mma_async") == 4 and "fence.proxy.async" in text


@pytest.mark.slow
@pytest.mark.skipif(not build.nvcc(), reason="no nvcc")
@pytest.mark.parametrize(
    "call, message", [("", ""), ("wgmma_fence();", "warpgroup.arrive is injected")]
)
def test_ptxas_puts_in_a_missing_fence_of_registers(call, message, tmp_path):
    source = tmp_path / "one.cu"
    source.write_text(text_without(call))
    command = [str(build.nvcc()), "-arch=sm_90a", "-std=c++17", "-cubin"]
    command += [
        "-I",
        str(build.KERNELS),
        "-o",
        str(tmp_path / "one.cubin"),
        str(source),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert message in result.stderr + result.stdout
    assert bool(message) == ("injected" in result.stderr + result.stdout)
