"""Explain the name of a vendor's kernel: explain("ampere_sgemm_128x64_tn").

Libraries encode a kernel's work in its name: the tile of the result that a block
computes, which matrices are transposed, the instruction, and the target GPU. Names
change from release to release, so a name that no rule covers is shown unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Name:
    """The parts of a kernel's name; a part that the name lacks is "".

    short: a short name. what: its work. library: its origin. tile: the tile of the
    result that one block computes, rows x columns (x depth). layout: a layout such as
    "tn" or "nhwc". precision: the types that are multiplied, and the unit that
    multiplies them. made_for: a compute capability.
    """

    short: str
    what: str
    library: str
    tile: str = ""
    layout: str = ""
    precision: str = ""
    made_for: str = ""


# The meaning of the marks in names.
MARKS = {
    "tn": "t, n: the first matrix is transposed, the second is not, as BLAS counts, "
    "which keeps columns together: a row-major matrix is a transposed one to it",
    "tile": "128x64: a block makes so large a tile of the result",
    "nhwc": "nchw, nhwc: images with channels outermost, or innermost (as tensor cores "
    "want them)",
    "tensor cores": "tensor cores: tensorop, s1688, s16816, xmma or wgmma in the name; "
    "the digits are the shape of one instruction, 16 x 8 x 8",
    "FMA": "FMA: plain multiply-adds of float32: sgemm, simt, scudnn in the name",
}

# Pattern in the name -> (short name, work, library); the first match counts.
RULES: tuple[tuple[str, str, str, str], ...] = (
    (r"^Memcpy (\w+)", r"copy \1", "a copy between memories", "CUDA"),
    (r"^Memset", "set", "fill memory with a byte", "CUDA"),
    (
        r"triton_(poi|per|red|tem|mm)\w*?_fused_(\w+?)_(\d+)$",
        r"fused \2",
        "elementwise work that torch.compile fused",
        "Triton",
    ),
    (r"^triton_\w+", r"\g<0>", "made by torch.compile", "Triton"),
    (
        r"flash_(fwd|bwd)\w*",
        r"flash attention \1",
        "attention, tile by tile",
        "FlashAttention",
    ),
    (r"fmha_\w+", r"attention", "attention, tile by tile", "CUTLASS"),
    (r"nchwToNhwc", "nchw → nhwc", "images: channels innermost", "cuDNN"),
    (r"nhwcToNchw", "nhwc → nchw", "images: channels outermost", "cuDNN"),
    (
        r"fft2d_(r2c|c2r)|fft1d_|regular_fft|vector_fft",
        "fft",
        "a Fourier transform, for a convolution",
        "cuDNN",
    ),
    (r"winograd\w*", "winograd", "3x3 convolution with fewer products", "cuDNN"),
    (
        r"bn_fw_tr|bnFwdTr|batchnorm_fwtr|bn_fw_\w*",
        "batch norm",
        "batch norm, forward",
        "cuDNN",
    ),
    (
        r"bn_bw|bnBwd|batchnorm_bwtr",
        "batch norm backward",
        "batch norm, backward",
        "cuDNN",
    ),
    (r"wgrad", "convolution, dw", "convolution: the filters' gradient", "cuDNN"),
    (r"dgrad", "convolution, dx", "convolution: the input's gradient", "cuDNN"),
    (
        r"implicit_convolve_sgemm|fprop|scudnn|implicit_gemm|conv2d_grouped|"
        r"convolve_common|explicit_convolve|conv_depthwise",
        "convolution",
        "convolution as a matrix product",
        "cuDNN",
    ),
    (
        r"computeOffsets|flip_filter|computeBOffsets|kern_precompute_indices",
        "prepare",
        "prepares a convolution",
        "cuDNN",
    ),
    (r"cudnn.*(pool\w*)", r"\1", "pooling", "cuDNN"),
    (
        r"splitK\w*reduce",
        "add split sums",
        "adds the parts of a product whose sum was split",
        "cuBLAS",
    ),
    (r"nvjet_\w+", "gemm", "matrix product (Hopper and later)", "cuBLAS"),
    (r"cutlass\w*gemm", "gemm", "matrix product", "CUTLASS"),
    (r"gemm", "gemm", "matrix product", "cuBLAS"),
    (r"gemv\w*|gemvx", "gemv", "matrix times vector", "cuBLAS"),
    (r"\bdot_kernel|reduce_1Block", "dot", "scalar product", "cuBLAS"),
    (
        r"multi_tensor_apply_kernel.*?(Sgd|Adam\w?)",
        r"update, \1",
        "the optimizer's step, many tensors in one launch",
        "ATen",
    ),
    (
        r"multi_tensor_apply_kernel",
        "many tensors",
        "one operation on many tensors in one launch",
        "ATen",
    ),
    (
        r"softmax_warp_forward|cunn_SoftMaxForward\w*|SoftMaxForward",
        "softmax",
        "(log-)softmax; a warp or a block for each row",
        "ATen",
    ),
    (
        r"softmax_warp_backward|cunn_SoftMaxBackward\w*",
        "softmax backward",
        "gradient of (log-)softmax",
        "ATen",
    ),
    (
        r"nll_loss_backward\w*",
        "nll_loss backward",
        "gradient of the loss of the right class",
        "ATen",
    ),
    (r"nll_loss_forward\w*", "nll_loss", "the loss of the right class", "ATen"),
    (
        r"max_pool_backward\w*",
        "max pool backward",
        "sends gradients to where the maximum was",
        "ATen",
    ),
    (r"max_pool_forward\w*", "max pool", "the largest of each window", "ATen"),
    (
        r"batch_norm_collect_statistics\w*",
        "batch norm statistics",
        "mean and variance of each channel",
        "ATen",
    ),
    (r"batch_norm_transform_input\w*", "batch norm", "normalises and scales", "ATen"),
    (
        r"batch_norm_backward_reduce\w*",
        "batch norm sums",
        "sums that its gradient needs",
        "ATen",
    ),
    (
        r"batch_norm_backward\w*|batch_norm_elementwise_backward\w*",
        "batch norm backward",
        "batch norm, backward",
        "ATen",
    ),
    (r"layer_norm\w*", r"\g<0>", "layer norm", "ATen"),
    (
        r"index_elementwise_kernel|vectorized_gather|index_select|indexSelect",
        "gather",
        "takes rows by their numbers",
        "ATen",
    ),
    (
        r"indexing_backward|index_put|scatter\w*",
        "scatter",
        "puts or adds rows by their numbers",
        "ATen",
    ),
    (
        r"reduce_kernel.*?(sum|mean|Max|Min|max|min|Prod|And|Or|norm|Welford)\w*",
        r"\1",
        "a reduction",
        "ATen",
    ),
    (r"reduce_kernel", "reduce", "a reduction", "ATen"),
    (r"cat_?array\w*|CatArray\w*", "cat", "puts tensors side by side", "ATen"),
    (r"distribution_elementwise\w*", "random", "random numbers", "ATen"),
    (r"elementwise_kernel", "elementwise", "one operation on each element", "ATen"),
    (r"at::native|at_cuda_detail", "", "", "ATen"),
    (r"cudnn", "", "", "cuDNN"),
    (r"cublas", "", "", "cuBLAS"),
    (r"cutlass", "", "", "CUTLASS"),
)

# Pattern in an elementwise kernel's template arguments -> the operation.
OPERATIONS = (
    (r"launch_clamp_scalar", "relu", "max(x, 0), as clamp"),
    (r"threshold_kernel", "relu backward", "the gradient where x > 0"),
    (r"direct_copy_kernel|CopyFunctor", "copy", "copies, or changes the type"),
    (r"FillFunctor", "fill", "the same value everywhere"),
    (r"CUDAFunctor_add|AddFunctor|CUDAFunctorOnSelf_add", "add", "a + b"),
    (r"MulFunctor", "mul", "a * b"),
    (r"DivFunctor", "div", "a / b"),
    (r"\b(?!gpu_)(\w+?)_kernel_(?:cuda|impl)", r"\1", "one operation on each element"),
    (r"(\w+?)Functor", r"\1", "one operation on each element"),
)

CARDS = {"ampere": "8.0", "volta": "7.0", "turing": "7.5", "maxwell": "5.0"}
CARDS |= {"pascal": "6.0", "hopper": "9.0"}


def explain(name: str) -> Name:
    """Explain a kernel's name, given demangled as profilers report it."""
    for pattern, short, what, library in RULES:
        found = re.search(pattern, name)
        if not found:
            continue
        short = found.expand(short).strip("_ ") or bare(name)
        if short == "elementwise":
            short, what = _find_operation(name)
        product = bool(re.search("product|convolution:|convolution with", what))
        return Name(
            short,
            what or "(its name says no more)",
            library,
            _find_tile(name) if product else "",
            _find_layout(name, library) if product else "",
            _find_precision(name) if product else "",
            _find_capability(name),
        )
    return Name(bare(name), "", "", made_for=_find_capability(name))


def bare(name: str) -> str:
    """Return the function's unqualified name, without result type and templates."""
    text = name.replace("(anonymous namespace)", "anonymous")
    previous = ""
    while previous != text:  # Remove the innermost brackets first.
        previous, text = text, re.sub(r"<[^<>]*>|\([^()]*\)", "", text)
    text = text.split("<")[0].split("(")[0].strip()
    return text.split(" ")[-1].split("::")[-1] or name[:60]


def _find_operation(name: str) -> tuple[str, str]:
    inside = name.partition("elementwise_kernel")[2]
    for pattern, short, what in OPERATIONS:
        found = re.search(pattern, inside)
        if found:
            return found.expand(short).strip("_"), what
    return "elementwise", "one operation on each element"


def _find_tile(name: str) -> str:
    found = re.search(r"tilesize(\d+x\d+(?:x\d+)?)", name)
    found = found or re.search(r"(?<![\dx])(\d{2,3}x\d{2,3})(?=_|\b)", name)
    return found[1] if found else ""


def _find_layout(name: str, library: str) -> str:
    if library == "cuDNN":
        found = re.search(r"nhwc|nchw", name.lower())
        if found and "To" not in name:
            return found[0]
    found = re.search(r"_(tn|nt|nn|tt)(?=_|\b)", name)
    found = found or re.search(r"_([TN]{2})[TN](?=_|\b)", name)
    return found[1].lower() if found else ""


def _find_precision(name: str) -> str:
    low = name.lower()
    types = ("bf16", "tf32", "fp8", "e4m3", "int8", "i8")
    found = next((t for t in types if t in low), "")
    if not found and re.search(r"fp16|f16|hgemm|h\d{4}|half", low):
        found = "fp16"
    tensor = re.search(
        r"tensorop|s1688|s16816|h1688|h16816|i16832|xmma|wgmma|nvjet", low
    )
    if not found and "s1688" in low:
        found = "tf32"
    if not found and re.search(r"sgemm|simt|scudnn|<float|f32f32", low):
        found = "fp32"
    if tensor and found != "fp32":
        return f"{found}, tensor cores".lstrip(", ")
    return f"{found}, FMA" if found == "fp32" else found


def _find_capability(name: str) -> str:
    found = re.search(r"sm_?(\d+)(\d)|cutlass_(\d+)(\d)_", name)
    if found:
        major, minor = [g for g in found.groups() if g is not None]
        return f"{major}.{minor}"
    return next((v for word, v in CARDS.items() if word in name), "")
