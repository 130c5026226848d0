/* undefined.cpp -- the functions that code compiled with
 * -fsanitize=shift-exponent and float-cast-overflow calls. A GPU defines two
 * results that C++ leaves undefined: that of a shift by the width or more, and
 * that of converting a value that the type cannot represent. */
#include <stdio.h>

#include <string>

#include "../device/device_intrinsics.h"
#include "report.h"
#include "ubsan.h"

namespace simt::SIMT_FIBERS {

struct Shift {
    Spot spot;
    const Type *type, *count;
};
struct Conversion {
    Spot spot;
    const Type *from, *to;
};

/* Return the name without the quotes around it. */
static std::string name_of(const Type &type) {
    const std::string name = type.name;
    return name.size() < 2 ? name : name.substr(1, name.size() - 2);
}

/* A finding of the running thread that is being built. */
struct Told {
    const Checker *checker;
    const Fiber *self;
    Found found;

    Told(const Spot &spot, const void *pc)
        : checker(running_checker()), self(here()),
          found(found_at(checker, self, spot, "undefined", pc)) {}

    /* Return whether the finding's place was reported before; if so, count the
     * finding. */
    bool is_known() const { return count_known(checker->job, found); }

    void add(const std::string &does) {
        const Who who(checker->job, checker->worker->index, self->thread.index);
        const std::string text = who.text + (" " + does);
        found.text = text.c_str();
        add_finding(checker->job, found);
    }
};

/* Return a text such as "a GPU gives 0, a CPU may give 256". */
template <class T> static std::string both(T gpu, T cpu) {
    return "a GPU gives " + std::to_string(gpu) + ", a CPU may give " +
           (cpu == gpu ? "another number" : std::to_string(cpu));
}

/* ---- shifts ------------------------------------------------------------- */

/* Report a shift. PTX's shl and shr limit the count to the width, whereas a CPU
 * uses the count modulo the width. The operands are volatile, so that the CPU
 * computes the result. */
template <class T>
static void shifted(const Shift &data, T x, long long count, const void *pc) {
    if (!x) return; // the result is 0 in any case
    Told told(data.spot, pc);
    if (told.is_known()) return;
    // PTX uses only the low 32 bits of a 64-bit count.
    const unsigned width = 8 * sizeof(T), by = (unsigned)count;
    const volatile T value = x;
    const volatile unsigned rest = by % width;
    const T left = value << rest, right = value >> rest;
    const bool whole = by < width;
    using std::to_string;
    // The direction is unknown at this point; weft/report/places.py determines
    // it.
    told.add("shifts " + to_string(x) + " (" + name_of(*data.type) + ", " +
             to_string(width) + " bits) by " + to_string(count) +
             ": <<: " + both(whole ? left : 0, left) + "; >>: " +
             both(whole   ? right
                  : x < 0 ? (T)-1
                          : 0,
                  right));
}

static void shift(const Shift &data, uintptr_t x, uintptr_t count,
                  const void *pc) {
    const Type &type = *data.type;
    if (!running_checker() || data.count->bits() > 64) return;
    const long long by = value_of(*data.count, count);
    if (type.bits() == 32 && type.is_signed())
        shifted(data, (int)x, by, pc);
    else if (type.bits() == 32)
        shifted(data, (unsigned)x, by, pc);
    else if (type.bits() == 64 && type.is_signed())
        shifted(data, (long long)x, by, pc);
    else if (type.bits() == 64)
        shifted(data, (unsigned long long)x, by, pc);
}

/* ---- conversions -------------------------------------------------------- */

static std::string number(double x, int digits) {
    if (x != x) return "NaN";
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, x);
    return text;
}

/* Report a conversion. nvcc converts to at least 32 bits and uses the low bits
 * of the result. If x is a constant, a compiler gives the nearest number, and a
 * CPU at run time may give another. */
template <class To, class Wide, class From>
static void converted(const Conversion &data, From x, const void *pc) {
    const volatile From value = x;
    const To gpu = (To)saturate<Wide>(x), run = (To)value;
    const To known = x != x ? (To)0 : saturate<To>(x);
    if (run == gpu && known == gpu) return;
    Told told(data.spot, pc);
    if (told.is_known()) return;
    told.add("converts " + number(x, sizeof x == 8 ? 17 : 9) + " (" +
             name_of(*data.from) + ") to " + name_of(*data.to) + ": " +
             both(gpu, run == gpu ? known : run));
}

template <class From>
static void convert(const Conversion &data, From x, const void *pc) {
    const bool is_signed = data.to->is_signed();
    switch (data.to->bits()) {
    case 8:
        return is_signed ? converted<int8_t, int>(data, x, pc)
                         : converted<uint8_t, unsigned>(data, x, pc);
    case 16:
        return is_signed ? converted<int16_t, int>(data, x, pc)
                         : converted<uint16_t, unsigned>(data, x, pc);
    case 32:
        return is_signed ? converted<int, int>(data, x, pc)
                         : converted<unsigned, unsigned>(data, x, pc);
    case 64:
        return is_signed ? converted<int64_t, int64_t>(data, x, pc)
                         : converted<uint64_t, uint64_t>(data, x, pc);
    }
}

static void float_cast(const Conversion &data, uintptr_t handle,
                       const void *pc) {
    if (!running_checker() || data.to->kind) return;
    if (data.from->bits() == 32)
        convert(data, __int_as_float((int)handle), pc);
    else if (data.from->bits() == 64)
        convert(data, __longlong_as_double((long long)handle), pc);
}

} // namespace simt::SIMT_FIBERS

#pragma GCC visibility push(default)
extern "C" {
void __ubsan_handle_shift_out_of_bounds(void *data, void *x, void *count) {
    simt::shift(*(const simt::Shift *)data, (uintptr_t)x, (uintptr_t)count,
                __builtin_return_address(0));
}
void __ubsan_handle_float_cast_overflow(void *data, void *x) {
    simt::float_cast(*(const simt::Conversion *)data, (uintptr_t)x,
                     __builtin_return_address(0));
}
}
#pragma GCC visibility pop
