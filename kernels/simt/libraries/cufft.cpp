/* cufft.cpp -- cuFFT on the CPU; see cufft.h.
 *
 * A transform copies its input to an array of complex numbers without gaps,
 * transforms it along each axis (cufft_passes.c), and copies the result to the
 * output. Inverse transforms swap the real and the imaginary parts in both
 * copies. Real arrays become complex arrays, so they take no less time. */
#include "cufft.h"

#include <stdlib.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "api/cuda_library.h"
#include "cufft_passes.h"
#include "simt_runtime.h"

namespace {

enum : long long { CHUNK = 1 << 22 }; /* numbers that are transformed at once */

/* The places of an array's elements, as in cufftPlanMany(). */
struct Layout {
    long long embed[3], stride, distance;

    long long row(long long z, long long y) const {
        return (z * embed[1] + y) * embed[2] * stride;
    }
};

/* The work of a call. Dimensions that the plan lacks have length 1 and come
 * first. */
struct Transform {
    cufftType type;
    bool is_double, basic; /* basic: without gaps */
    long long n[3], batch;
    Layout in, out;
    std::shared_ptr<weft_fft> axes[3];

    long long size() const { return n[0] * n[1] * n[2]; }
    bool real_in() const { return type == CUFFT_R2C || type == CUFFT_D2Z; }
    bool real_out() const { return type == CUFFT_C2R || type == CUFFT_Z2D; }
};

struct Plan {
    std::shared_ptr<const Transform> transform; /* NULL: no plan yet */
    cudaStream_t stream = 0;
};

std::mutex &lock = *new std::mutex;
std::map<cufftHandle, Plan> &plans = *new std::map<cufftHandle, Plan>;

bool find(cufftHandle handle, Plan *plan) {
    std::lock_guard<std::mutex> guard(lock);
    const auto entry = plans.find(handle);
    if (entry == plans.end()) return false;
    *plan = entry->second;
    return true;
}

/* ---- planning ------------------------------------------------------------ */

/* Return the layout of an array without gaps whose rows have room for `row`
 * elements. */
Layout without_gaps(const long long n[3], long long row) {
    return {{n[0], n[1], row}, 1, n[0] * n[1] * row};
}

bool is_type(cufftType type) {
    return type == CUFFT_C2C || type == CUFFT_R2C || type == CUFFT_C2R ||
           type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D;
}

template <class Int>
cufftResult check(int rank, const Int *n, const Int *inembed, Int istride,
                  const Int *onembed, Int ostride, cufftType type, Int batch) {
    if (!is_type(type)) return CUFFT_INVALID_TYPE;
    if (rank < 1 || rank > 3 || !n) return CUFFT_INVALID_VALUE;
    for (int i = 0; i < rank; i++)
        if (n[i] < 1) return CUFFT_INVALID_SIZE;
    if (batch < 1) return CUFFT_INVALID_SIZE;
    if (inembed && onembed && (istride < 1 || ostride < 1))
        return CUFFT_INVALID_VALUE;
    return CUFFT_SUCCESS;
}

template <class Int>
cufftResult make(cufftHandle handle, int rank, const Int *n, const Int *inembed,
                 Int istride, Int idist, const Int *onembed, Int ostride,
                 Int odist, cufftType type, Int batch, size_t *work_size) {
    Plan plan;
    if (!find(handle, &plan)) return CUFFT_INVALID_PLAN;
    if (const cufftResult bad =
            check(rank, n, inembed, istride, onembed, ostride, type, batch))
        return bad;
    Transform t = {};
    t.type = type;
    t.is_double = type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D;
    t.basic = !inembed || !onembed;
    t.batch = batch;
    const int first = 3 - rank;
    for (int i = 0; i < 3; i++) t.n[i] = i < first ? 1 : n[i - first];
    const long long half = t.n[2] / 2 + 1;
    t.in = without_gaps(t.n, t.real_out() ? half : t.n[2]);
    t.out = without_gaps(t.n, t.real_in() ? half : t.n[2]);
    if (!t.basic) {
        t.in = {{1, 1, 1}, istride, idist};
        t.out = {{1, 1, 1}, ostride, odist};
        for (int i = first; i < 3; i++) {
            t.in.embed[i] = inembed[i - first];
            t.out.embed[i] = onembed[i - first];
        }
    }
    for (int i = 0; i < 3; i++) {
        if (t.n[i] == 1) continue;
        for (int j = 0; j < i; j++)
            if (t.n[j] == t.n[i]) t.axes[i] = t.axes[j];
        if (!t.axes[i])
            t.axes[i].reset(weft_fft_create(t.n[i], t.is_double),
                            weft_fft_destroy);
        if (!t.axes[i]) return CUFFT_ALLOC_FAILED;
    }
    if (work_size) *work_size = 0;
    std::lock_guard<std::mutex> guard(lock);
    plans[handle].transform = std::make_shared<const Transform>(t);
    return CUFFT_SUCCESS;
}

/* Create a handle and make its plan; destroy the handle after an error. */
template <class Make> cufftResult create(cufftHandle *plan, Make make) {
    if (const cufftResult bad = cufftCreate(plan)) return bad;
    const cufftResult status = make(*plan);
    if (status) cufftDestroy(*plan);
    return status;
}

/* ---- transforming -------------------------------------------------------- */

template <class Real> struct Number {
    Real re, im;
};

/* Copy transform b of the input to `to`, as complex numbers without gaps. */
template <class Real>
void load(const Transform &t, const Layout &in, const Real *from, long long b,
          bool swap, Number<Real> *to) {
    typedef Number<Real> Complex;
    const long long columns = t.n[2], half = columns / 2 + 1;
    const auto put = [&](Real re, Real im) {
        *to++ = swap ? Complex{im, re} : Complex{re, im};
    };
    const Complex *complex = (const Complex *)from + b * in.distance;
    const Real *real = from + b * in.distance;
    for (long long z = 0; z < t.n[0]; z++)
        for (long long y = 0; y < t.n[1]; y++) {
            const long long row = in.row(z, y);
            const long long end = t.real_out() ? half : columns;
            for (long long x = 0; x < end; x++) {
                const long long at = row + x * in.stride;
                if (t.real_in())
                    put(real[at], 0);
                else
                    put(complex[at].re, complex[at].im);
            }
            const long long mirror =
                in.row(z ? t.n[0] - z : 0, y ? t.n[1] - y : 0);
            for (long long x = end; x < columns; x++) {
                const Complex &c = complex[mirror + (columns - x) * in.stride];
                put(c.re, -c.im);
            }
        }
}

template <class Real>
void store(const Transform &t, const Layout &out, const Number<Real> *from,
           long long b, bool swap, Real *to) {
    typedef Number<Real> Complex;
    const long long columns = t.n[2];
    const long long end = t.real_in() ? columns / 2 + 1 : columns;
    Complex *complex = (Complex *)to + b * out.distance;
    Real *real = to + b * out.distance;
    for (long long z = 0; z < t.n[0]; z++)
        for (long long y = 0; y < t.n[1]; y++, from += columns)
            for (long long x = 0; x < end; x++) {
                const long long at = out.row(z, y) + x * out.stride;
                const Complex c =
                    swap ? Complex{from[x].im, from[x].re} : from[x];
                if (t.real_out())
                    real[at] = c.re;
                else
                    complex[at] = c;
            }
}

/* Return false if there is no memory. */
template <class Real>
bool run(const Transform &t, const Layout &in, const Layout &out,
         const Real *from, Real *to, bool inverse) {
    const long long size = t.size();
    const long long most = std::max(1ll, std::min(t.batch, CHUNK / size));
    const size_t bytes = (size_t)(most * size) * sizeof(Number<Real>);
    Number<Real> *x = (Number<Real> *)malloc(bytes);
    Number<Real> *y = (Number<Real> *)malloc(bytes);
    bool done = x && y;
    for (long long b = 0; done && b < t.batch; b += most) {
        const long long count = std::min(most, t.batch - b);
#pragma omp parallel for num_threads(simt_threads()) if (count * size > 65536)
        for (long long i = 0; i < count; i++)
            load(t, in, from, b + i, inverse, x + i * size);
        long long inner = 1;
        for (int axis = 2; axis >= 0; inner *= t.n[axis--]) {
            if (!t.axes[axis]) continue;
            void *result = weft_fft_run(t.axes[axis].get(), x, y,
                                        count * size / (inner * t.n[axis]),
                                        inner, simt_threads());
            if (result == y) std::swap(x, y);
            done &= result != 0;
        }
#pragma omp parallel for num_threads(simt_threads()) if (count * size > 65536)
        for (long long i = 0; i < count; i++)
            store(t, out, x + i * size, b + i, inverse, to);
    }
    free(x);
    free(y);
    return done;
}

/* Return the argument that covers an array. */
simt::Argument argument(const char *name, simt::Argument::Access access,
                        const void *at, const Transform &t, const Layout &l,
                        bool is_real, bool is_half) {
    const size_t real = t.is_double ? sizeof(double) : sizeof(float);
    const size_t element = is_real ? real : 2 * real;
    const long long columns = is_half ? t.n[2] / 2 + 1 : t.n[2];
    const long long last =
        l.row(t.n[0] - 1, t.n[1] - 1) + (columns - 1) * l.stride;
    return {name,
            access,
            at,
            (size_t)(last + 1) * element,
            (size_t)t.batch,
            (size_t)l.distance * element};
}

template <class Real>
cufftResult execute(const char *name, cufftHandle handle, cufftType type,
                    const void *from, void *to, int direction) {
    Plan plan;
    if (!find(handle, &plan) || !plan.transform) return CUFFT_INVALID_PLAN;
    const auto t = plan.transform;
    if (t->type != type) return CUFFT_INVALID_TYPE;
    if (!from || !to ||
        (direction != CUFFT_FORWARD && direction != CUFFT_INVERSE))
        return CUFFT_INVALID_VALUE;
    Layout in = t->in, out = t->out;
    if (t->basic && from == to) {
        const long long padded = t->n[2] / 2 * 2 + 2;
        if (t->real_in()) in = without_gaps(t->n, padded);
        if (t->real_out()) out = without_gaps(t->n, padded);
    }
    // A call in a graph runs later, so nobody receives its status.
    const auto done = std::make_shared<bool>(true);
    const auto work = [=] {
        *done = run(*t, in, out, (const Real *)from, (Real *)to,
                    direction == CUFFT_INVERSE);
    };
    const auto reads = argument("idata", simt::Argument::READ, from, *t, in,
                                t->real_in(), t->real_out());
    const auto writes = argument("odata", simt::Argument::WRITE, to, *t, out,
                                 t->real_out(), t->real_in());
    if (simt::submit(name, plan.stream, {reads, writes}, work))
        return CUFFT_EXEC_FAILED;
    return *done ? CUFFT_SUCCESS : CUFFT_ALLOC_FAILED;
}

} // namespace

cufftResult cufftCreate(cufftHandle *plan) {
    static cufftHandle last = 0;
    if (!plan) return CUFFT_INVALID_VALUE;
    std::lock_guard<std::mutex> guard(lock);
    *plan = ++last;
    plans[*plan] = Plan();
    return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle plan) {
    std::lock_guard<std::mutex> guard(lock);
    return plans.erase(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch,
                            size_t *workSize) {
    return make<int>(plan, 1, &nx, 0, 1, 0, 0, 1, 0, type, batch, workSize);
}

cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type,
                            size_t *workSize) {
    const int n[] = {nx, ny};
    return make<int>(plan, 2, n, 0, 1, 0, 0, 1, 0, type, 1, workSize);
}

cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz,
                            cufftType type, size_t *workSize) {
    const int n[] = {nx, ny, nz};
    return make<int>(plan, 3, n, 0, 1, 0, 0, 1, 0, type, 1, workSize);
}

cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int *n, int *inembed,
                              int istride, int idist, int *onembed, int ostride,
                              int odist, cufftType type, int batch,
                              size_t *workSize) {
    return make<int>(plan, rank, n, inembed, istride, idist, onembed, ostride,
                     odist, type, batch, workSize);
}

cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long *n,
                                long long *inembed, long long istride,
                                long long idist, long long *onembed,
                                long long ostride, long long odist,
                                cufftType type, long long batch,
                                size_t *workSize) {
    return make<long long>(plan, rank, n, inembed, istride, idist, onembed,
                           ostride, odist, type, batch, workSize);
}

cufftResult cufftPlan1d(cufftHandle *plan, int nx, cufftType type, int batch) {
    return create(plan, [=](cufftHandle handle) {
        return cufftMakePlan1d(handle, nx, type, batch, 0);
    });
}

cufftResult cufftPlan2d(cufftHandle *plan, int nx, int ny, cufftType type) {
    return create(plan, [=](cufftHandle handle) {
        return cufftMakePlan2d(handle, nx, ny, type, 0);
    });
}

cufftResult cufftPlan3d(cufftHandle *plan, int nx, int ny, int nz,
                        cufftType type) {
    return create(plan, [=](cufftHandle handle) {
        return cufftMakePlan3d(handle, nx, ny, nz, type, 0);
    });
}

cufftResult cufftPlanMany(cufftHandle *plan, int rank, int *n, int *inembed,
                          int istride, int idist, int *onembed, int ostride,
                          int odist, cufftType type, int batch) {
    return create(plan, [=](cufftHandle handle) {
        return cufftMakePlanMany(handle, rank, n, inembed, istride, idist,
                                 onembed, ostride, odist, type, batch, 0);
    });
}

static cufftResult no_work(size_t *size) {
    if (!size) return CUFFT_INVALID_VALUE;
    *size = 0;
    return CUFFT_SUCCESS;
}

cufftResult cufftEstimate1d(int nx, cufftType type, int batch,
                            size_t *workSize) {
    const cufftResult bad = check<int>(1, &nx, 0, 1, 0, 1, type, batch);
    return bad ? bad : no_work(workSize);
}

cufftResult cufftEstimate2d(int nx, int ny, cufftType type, size_t *workSize) {
    const int n[] = {nx, ny};
    const cufftResult bad = check<int>(2, n, 0, 1, 0, 1, type, 1);
    return bad ? bad : no_work(workSize);
}

cufftResult cufftEstimate3d(int nx, int ny, int nz, cufftType type,
                            size_t *workSize) {
    const int n[] = {nx, ny, nz};
    const cufftResult bad = check<int>(3, n, 0, 1, 0, 1, type, 1);
    return bad ? bad : no_work(workSize);
}

cufftResult cufftGetSize(cufftHandle plan, size_t *workSize) {
    Plan copy;
    return find(plan, &copy) ? no_work(workSize) : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetAutoAllocation(cufftHandle plan, int) {
    Plan copy;
    return find(plan, &copy) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetWorkArea(cufftHandle plan, void *) {
    Plan copy;
    return find(plan, &copy) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream) {
    std::lock_guard<std::mutex> guard(lock);
    const auto entry = plans.find(plan);
    if (entry == plans.end()) return CUFFT_INVALID_PLAN;
    entry->second.stream = stream;
    return CUFFT_SUCCESS;
}

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex *idata,
                         cufftComplex *odata, int direction) {
    return execute<float>(__func__, plan, CUFFT_C2C, idata, odata, direction);
}

cufftResult cufftExecR2C(cufftHandle plan, cufftReal *idata,
                         cufftComplex *odata) {
    return execute<float>(__func__, plan, CUFFT_R2C, idata, odata,
                          CUFFT_FORWARD);
}

cufftResult cufftExecC2R(cufftHandle plan, cufftComplex *idata,
                         cufftReal *odata) {
    return execute<float>(__func__, plan, CUFFT_C2R, idata, odata,
                          CUFFT_INVERSE);
}

cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex *idata,
                         cufftDoubleComplex *odata, int direction) {
    return execute<double>(__func__, plan, CUFFT_Z2Z, idata, odata, direction);
}

cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal *idata,
                         cufftDoubleComplex *odata) {
    return execute<double>(__func__, plan, CUFFT_D2Z, idata, odata,
                           CUFFT_FORWARD);
}

cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex *idata,
                         cufftDoubleReal *odata) {
    return execute<double>(__func__, plan, CUFFT_Z2D, idata, odata,
                           CUFFT_INVERSE);
}

cufftResult cufftGetVersion(int *version) {
    if (!version) return CUFFT_INVALID_VALUE;
    *version = CUFFT_VERSION;
    return CUFFT_SUCCESS;
}

cufftResult cufftGetProperty(libraryPropertyType type, int *value) {
    static const int version[] = {CUFFT_VER_MAJOR, CUFFT_VER_MINOR,
                                  CUFFT_VER_PATCH};
    if (!value || (unsigned)type > 2) return CUFFT_INVALID_VALUE;
    *value = version[type];
    return CUFFT_SUCCESS;
}
