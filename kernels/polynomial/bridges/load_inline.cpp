/* load_inline.cpp -- the polynomial as a Python module, for load_inline().
 *
 * load_inline() adds torch/extension.h and the module's definition. That header
 * takes most of the build's time. */
extern "C" {
#include "polynomial.c"
}

static float *floats(const at::Tensor &x) {
    TORCH_CHECK(x.is_cpu() && x.is_contiguous(),
                "polynomial: expected a contiguous array on the CPU");
    return x.data_ptr<float>(); // data_ptr() checks the dtype
}

at::Tensor forward(const at::Tensor &x) {
    at::Tensor y = at::empty_like(x);
    polynomial(floats(y), floats(x), x.numel());
    return y;
}

at::Tensor backward(const at::Tensor &dy, const at::Tensor &x) {
    at::Tensor dx = at::empty_like(x);
    TORCH_CHECK(dy.numel() == x.numel(), "polynomial: dy differs from x");
    polynomial_backward(floats(dx), floats(dy), floats(x), x.numel());
    return dx;
}
