"""torch_kernels() explains vendors' names correctly, and lists the kernels that ran."""

import importlib
import json
import types

import pytest
import torch

from weft import ArgumentError, torch_kernels
from weft.benchmarks.race import inside as bench
from weft.see.kernel_names import bare, explain

# The package has a function of this name.
module = importlib.import_module("weft.see.torch_kernels")
VECTORIZED = "void at::native::vectorized_elementwise_kernel<4, at::native::"
NAMES = {  # by name: short name, library, tile, layout, precision, made for
    "ampere_sgemm_128x64_tn": ("gemm", "cuBLAS", "128x64", "tn", "fp32, FMA", "8.0"),
    "volta_sgemm_32x128_nt": ("gemm", "cuBLAS", "32x128", "nt", "fp32, FMA", "7.0"),
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4>"
    "(cutlass_80_tensorop_s1688gemm_128x64_16x6_tn_align4::Params)": (
        *("gemm", "CUTLASS", "128x64", "tn", "tf32, tensor cores", "8.0"),
    ),
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(int)": (
        *("gemm", "CUTLASS", "256x128", "nn", "fp32, FMA", "8.0"),
    ),
    "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn": (
        *("gemm", "cuBLAS", "128x64", "tn", "bf16, tensor cores", "8.0"),
    ),
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x32_warpgroupsize1x1x1_"
    "execute_segment_k_off_kernel__5x_cublas": (
        *("gemm", "cuBLAS", "64x64x32", "tn", "tf32, tensor cores", "9.0"),
    ),
    "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw_"
    "tilesize128x64x32_stage3_warpsize2x2x1_g1_tensor16x8x8_kernel_cudnn": (
        *("convolution", "cuDNN", "128x64x32", "nhwc", "tf32, tensor cores", "8.0"),
    ),
    "void implicit_convolve_sgemm<float, float, 128, 5, 5, 3, 3, 3, 1, false, false,"
    " true>(int, int)": ("convolution", "cuDNN", "", "", "fp32, FMA", ""),
    "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 8, 3, 3, 5, true, 512>(int)": (
        *("convolution, dw", "cuDNN", "", "", "fp32, FMA", ""),
    ),
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)": (
        *("nchw → nhwc", "cuDNN", "", "", "", ""),
    ),
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true>(int)": (
        *("batch norm", "cuDNN", "", "", "", ""),
    ),
    VECTORIZED + "CUDAFunctor_add<float>, std::array<char*, 3ul> >(int)": (
        *("add", "ATen", "", "", "", ""),
    ),
    VECTORIZED + "(anonymous namespace)::threshold_kernel_impl<float>(x)>(int)": (
        *("relu backward", "ATen", "", "", "", ""),
    ),
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
    "at::native::exp_kernel_cuda(at::TensorIteratorBase&)>>(int)": (
        *("exp", "ATen", "", "", "", ""),
    ),
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 4>(x)": (
        *("softmax", "ATen", "", "", "", ""),
    ),
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
    "(anonymous namespace)::FusedSgdMathFunctor<float, 2>>(x)": (
        *("update, Sgd", "ATen", "", "", "", ""),
    ),
    "triton_poi_fused_add_relu_0": ("fused add_relu", "Triton", "", "", "", ""),
    "Memcpy HtoD (Pageable -> Device)": ("copy HtoD", "CUDA", "", "", "", ""),
    "matmul_tiled(float*, float const*, int)": ("matmul_tiled", "", "", "", "", ""),
}


@pytest.mark.parametrize("name", NAMES, ids=[bare(n) for n in NAMES])
def test_a_kernels_name_is_explained(name):
    explained = explain(name)
    got = (
        explained.short,
        explained.library,
        explained.tile,
        explained.layout,
        explained.precision,
    )
    assert (*got, explained.made_for) == NAMES[name]


def test_an_unknown_name_is_shown_without_its_parameters():
    assert bare("void a::b<int, 3>::c<float>(float*, (anonymous namespace)::d)") == "c"
    assert explain("?").short == "?"


def event(name, us, device="DeviceType.CUDA", **fields):
    span = types.SimpleNamespace(elapsed_us=lambda: us)
    return types.SimpleNamespace(
        name=name, device_type=device, time_range=span, **fields
    )


def test_kernels_of_a_profile_are_grouped_and_counted_for_one_run():
    events = [
        *(event("ampere_sgemm_128x64_tn", us) for us in (3.0, 5.0, 4.0, 4.0)),
        *(event("Memset (Device)", us) for us in (1.0, 1.0)),
        event("aten::mm", 90.0, "DeviceType.CPU"),
        event("ProfilerStep#1", 99.0),
        event("step", 99.0, is_user_annotation=True),
    ]
    rows = module._read_gpu_rows(events, 2)
    assert [(r.name.short, r.calls, r.us) for r in rows] == [
        ("gemm", 2, 8.0),
        ("set", 1, 1.0),
    ]


def test_the_operators_of_the_cpu_are_those_that_ran(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    runs = []

    def step(a, b):
        runs.append(1)
        torch.relu(a @ b)
        return a @ a

    result = torch_kernels(step, torch.ones(64, 64), torch.ones(64, 64), ghost=False)
    by_name = {row.name.short: row for row in result.rows}
    assert len(runs) == 1 + 3 and result.target == "cpu"
    assert by_name["mm"].calls == 2 and by_name["relu"].calls == 1
    assert by_name["mm"].us > 0 and sum(result.by_library.values()) == pytest.approx(1)
    assert repr(result).startswith("No GPU here: the same on the CPU: ")
    assert "matrix product" in result._repr_html_() and "BLAS" in repr(result)


def test_a_long_table_ends_with_a_row_for_the_others():
    rows = [
        module.KernelRow(explain(f"kernel_{i}(int)"), f"kernel_{i}(int)", 1, 100.0 - i)
        for i in range(30)
    ]
    text = repr(module.TorchKernels(rows, "a card", "cuda"))
    assert "15 others" in text and "kernel_14" in text and "kernel_15" not in text
    assert text.startswith("30 kernels (30 different), 2\u202f565 µs on a card")


def test_committed_kernels_are_shown_where_there_is_no_gpu(tmp_path):
    row = {"rung": "eager", "precision": "fp32", "device": "card", "batch": 64}
    row |= {"kernel": "ampere_sgemm_128x64_tn", "calls": 4, "us": 12.5}
    other = row | {"precision": "tf32"}
    path = tmp_path / "torch_kernels_card.json"
    machine = {"date": "2026-01-02"}
    path.write_text(json.dumps({"machine": machine, "rows": [row, other]}))
    ghost = module.committed(path)
    assert [r.name.tile for r in ghost.rows] == ["128x64"]
    assert repr(ghost).startswith(
        "A training step of the MNIST network in PyTorch, batch 64, eager, fp32, "
        "measured 2026-01-02: "
        "4 kernels (1 different), 12.5 µs on card: cuBLAS 100 %"
    )
    table = module.TorchKernels(ghost.rows, "cpu", "cpu", ghost=ghost)
    assert "<details>" in table._repr_html_() and "2026-01-02" in repr(table)


def test_the_benchmark_has_a_row_for_each_operator_of_a_step():
    rows = bench.rows("cpu", "fp32", batch=2)
    assert {"convolution_backward", "addmm", "_fused_sgd_"} <= {
        r["short"] for r in rows
    }
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert "one step at batch 2 on " in bench.note(rows)


def test_an_argument_that_is_not_a_function_is_refused():
    with pytest.raises(ArgumentError, match="expected a function"):
        torch_kernels(3)
    with pytest.raises(ArgumentError, match="repeat=0"):
        torch_kernels(int, repeat=0)
    with pytest.raises(ArgumentError, match="no operator of PyTorch"):
        torch_kernels(int)
