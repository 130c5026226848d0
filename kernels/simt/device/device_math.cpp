/* device_math.cpp -- CUDA's mathematical functions that the C library lacks.
 * The functions for float are computed in double and rounded once. */
#include "device_math.h"

#include <cmath>

namespace {

const double PI = 3.14159265358979323846;
const double TWO_OVER_SQRT_PI = 1.12837916709551257390;
const double SQRT_2 = 1.41421356237309504880;

/* Return erfc(x) exp(x^2) for x > 9, from its asymptotic series. */
double erfcx_tail(double x) {
    const double u = 1 / (2 * x * x);
    double term = 1, sum = 1;
    for (int n = 1; n < 20; n++) {
        term *= -(2 * n - 1) * u;
        sum += term;
    }
    return sum / (x * std::sqrt(PI));
}

/* Return the x for which erfc(x) = y, 0 < y <= 1. The initial value is from
 * Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.22. Steps of
 * Halley's method refine it. */
double erfcinv_small(double y) {
    const double t = std::sqrt(-2 * std::log(y / 2));
    double x = t - (2.30753 + t * 0.27061) / (1 + t * (0.99229 + t * 0.04481));
    x /= SQRT_2;
    for (int i = 0; i < 4; i++) {
        // This equals (erfc(x) - y) / |erfc'(x)|, but does not underflow for a
        // tiny y.
        const double step = (erfcx(x) - y * std::exp(x * x)) / TWO_OVER_SQRT_PI;
        x += step / (1 - x * step);
    }
    return x;
}

double norm_of(int n, const double *v) {
    double most = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        const double a = std::fabs(v[i]);
        if (std::isinf(a)) return a;
        if (!(a <= most)) most = a;
    }
    if (most == 0 || most != most) return most;
    const double scale = std::ldexp(1.0, -std::ilogb(most));
    for (int i = 0; i < n; i++) sum += (v[i] * scale) * (v[i] * scale);
    return std::sqrt(sum) / scale;
}

} // namespace

double erfcx(double x) noexcept {
    if (x > 9) return erfcx_tail(x);
    // exp(x * x) would magnify the rounding error of x * x.
    const double high = x * x, low = std::fma(x, x, -high);
    return std::exp(high) * (1 + low) * std::erfc(x);
}

double erfcinv(double y) noexcept {
    if (!(y >= 0 && y <= 2)) return NAN;
    if (y == 0 || y == 2) return y ? -INFINITY : INFINITY;
    if (y < 0.5) return erfcinv_small(y);
    return y > 1.5 ? -erfcinv_small(2 - y) : erfinv(1 - y);
}

double erfinv(double x) noexcept {
    if (!(x >= -1 && x <= 1)) return NAN;
    if (x == 0) return x;
    if (x == 1 || x == -1) return x * INFINITY;
    const double a = std::fabs(x);
    double z = erfcinv_small(1 - a);
    if (a < 0.5) // 1 - a lost digits, so Newton's method uses a itself
        for (int i = 0; i < 4; i++)
            z -= (std::erf(z) - a) / (TWO_OVER_SQRT_PI * std::exp(-z * z));
    return std::copysign(z, x);
}

double normcdf(double x) noexcept { return std::erfc(-x / SQRT_2) / 2; }
double normcdfinv(double p) noexcept { return -SQRT_2 * erfcinv(2 * p); }

double sinpi(double x) noexcept {
    double r = std::remainder(x, 2.0); // exact, in -1 ... 1
    if (std::fabs(r) > 0.5) r = std::copysign(1.0, r) - r;
    return r == 0 ? std::copysign(0.0, x) : std::sin(PI * r);
}
double cospi(double x) noexcept {
    const double r = std::fabs(std::remainder(x, 2.0));
    if (r == 0.5) return 0.0;
    if (r <= 0.25) return std::cos(PI * r);
    return r < 0.75 ? std::sin(PI * (0.5 - r)) : -std::cos(PI * (1 - r));
}

double cyl_bessel_i0(double x) noexcept {
    return std::cyl_bessel_i(0.0, std::fabs(x));
}
double cyl_bessel_i1(double x) noexcept {
    return std::copysign(std::cyl_bessel_i(1.0, std::fabs(x)), x);
}

double norm(int n, const double *v) noexcept { return norm_of(n, v); }
float normf(int n, const float *v) noexcept {
    double sum = 0; // the squares of floats do not overflow
    for (int i = 0; i < n; i++) {
        if (std::isinf(v[i])) return INFINITY;
        sum += (double)v[i] * v[i];
    }
    return (float)std::sqrt(sum);
}
double norm3d(double x, double y, double z) noexcept {
    const double v[] = {x, y, z};
    return norm_of(3, v);
}
double norm4d(double x, double y, double z, double w) noexcept {
    const double v[] = {x, y, z, w};
    return norm_of(4, v);
}
float norm3df(float x, float y, float z) noexcept {
    return (float)norm3d(x, y, z);
}
float norm4df(float x, float y, float z, float w) noexcept {
    return (float)norm4d(x, y, z, w);
}

double rnorm(int n, const double *v) noexcept { return 1 / norm_of(n, v); }
float rnormf(int n, const float *v) noexcept { return 1 / normf(n, v); }
double rnorm3d(double x, double y, double z) noexcept {
    return 1 / norm3d(x, y, z);
}
double rnorm4d(double x, double y, double z, double w) noexcept {
    return 1 / norm4d(x, y, z, w);
}
float rnorm3df(float x, float y, float z) noexcept {
    return (float)rnorm3d(x, y, z);
}
float rnorm4df(float x, float y, float z, float w) noexcept {
    return (float)rnorm4d(x, y, z, w);
}
double rhypot(double x, double y) noexcept { return 1 / std::hypot(x, y); }
float rhypotf(float x, float y) noexcept {
    return (float)rhypot((double)x, (double)y);
}

#define SIMT_ROUNDED(name) \
    float name##f(float x) noexcept { return (float)name((double)x); }
SIMT_ROUNDED(erfcx)
SIMT_ROUNDED(erfcinv)
SIMT_ROUNDED(erfinv)
SIMT_ROUNDED(normcdf)
SIMT_ROUNDED(normcdfinv)
SIMT_ROUNDED(sinpi)
SIMT_ROUNDED(cospi)
SIMT_ROUNDED(cyl_bessel_i0)
SIMT_ROUNDED(cyl_bessel_i1)
