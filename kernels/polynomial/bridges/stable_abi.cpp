/* stable_abi.cpp -- the polynomial as ops of PyTorch, through its stable ABI.
 *
 * This file includes only torch/csrc/stable and C. So its library needs neither
 * Python nor the version of PyTorch with which it was compiled. */
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

extern "C" {
#include "polynomial.c"
}

using torch::stable::Tensor;

static float *floats(const Tensor &x) {
    STD_TORCH_CHECK(x.scalar_type() == torch::headeronly::ScalarType::Float,
                    "polynomial: expected float32");
    STD_TORCH_CHECK(x.is_contiguous(), "polynomial: expected no gaps");
    return (float *)x.data_ptr();
}

Tensor forward(const Tensor &x) {
    Tensor y = torch::stable::empty_like(x);
    polynomial(floats(y), floats(x), x.numel());
    return y;
}

Tensor backward(const Tensor &dy, const Tensor &x) {
    Tensor dx = torch::stable::empty_like(x);
    STD_TORCH_CHECK(dy.numel() == x.numel(), "polynomial: dy differs from x");
    polynomial_backward(floats(dx), floats(dy), floats(x), x.numel());
    return dx;
}

STABLE_TORCH_LIBRARY(weft_stable, m) {
    m.def("polynomial(Tensor x) -> Tensor");
    m.def("polynomial_backward(Tensor dy, Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(weft_stable, CPU, m) {
    m.impl("polynomial", TORCH_BOX(&forward));
    m.impl("polynomial_backward", TORCH_BOX(&backward));
}
