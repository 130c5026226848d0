"""The C++ that is appended to a cell: one C entry per kernel, for cffi.

An entry gets what Python packed (arguments.Binder.pack): a block of memory and
where in it each argument lies. The parameters' types are the compiler's own, so
that a cell may use any type, and the sizes it finds are compared with what Python
packs before the first launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import rewrite as rewriter

FILE = "weft-launcher"  # its name in the compiler's messages
CDEF = """
int weft_sizes(unsigned kernel, unsigned *sizes, unsigned room);
int weft_launch(unsigned kernel, const unsigned *config, size_t shared,
                const char *arguments, const unsigned *offsets);
"""

_HEAD = """
#include "simt_runtime.h"
extern "C" __attribute__((visibility("hidden"), weak)) void *__dso_handle = 0;
namespace weft_launcher {
struct Any { /* becomes the parameter's type when the kernel is called */
    const char *at;
    template <class T> operator T() const { return *(const T *)at; }
};
/* Of all functions of its name (div() is one of C's) the one that is a kernel. */
template <class... P>
static auto only(void (*kernel)(P...)) { return kernel; }
template <class... P>
static int sizes(void (*)(P...), unsigned *out, unsigned room) {
    const unsigned all[] = {(unsigned)sizeof(P)..., 0};
    for (unsigned i = 0; i < sizeof...(P) && i < room; i++) out[i] = all[i];
    return sizeof...(P);
}
"""


def launcher(expressions: Sequence[tuple[str, int]], cooperative: bool = False) -> str:
    """C++ with weft_sizes() and weft_launch() for the kernels.

    expressions: a kernel's C++ name and how many parameters it has; their
    places in the list are the numbers that both functions take. cooperative: all
    blocks of a launch run at once, so that they may wait for each other.
    """
    more = ", (cudaStream_t)0, true" if cooperative else ""
    launches, sizes = [], []
    for number, (expression, count) in enumerate(expressions):
        # From the outermost scope: what is called c here must not hide a kernel c.
        kernel = f"&::{expression.removeprefix('::')}"
        args = ", ".join(f"Any{{a + o[{i}]}}" for i in range(count))
        launches.append(
            f"case {number}: {{ auto *weft_kernel = only({kernel});"
            f" if (shared > 48 << 10) cudaFuncSetAttribute(weft_kernel,"
            f" cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);"
            f" weft_kernel<<<dim3(c[0], c[1], c[2]), dim3(c[3], c[4], c[5]),"
            f" shared{more}>>>"
            f"({args}); break; }}"
        )
        sizes.append(f"case {number}: return sizes({kernel}, out, room);")
    text = f"""{_HEAD}
extern "C" __attribute__((visibility("default")))
int weft_sizes(unsigned n, unsigned *out, unsigned room) {{
    (void)out, (void)room;
    switch (n) {{ {" ".join(sizes)} }}
    return -1;
}}
extern "C" __attribute__((visibility("default")))
int weft_launch(unsigned n, const unsigned *c, size_t shared, const char *a,
                const unsigned *o) {{
    (void)c, (void)shared, (void)a, (void)o;
    cudaGetLastError();
    switch (n) {{ {" ".join(launches)} }}
    return (int)cudaGetLastError();
}}
}}
"""
    # Beginning on a line of its own, whatever the cell ends with.
    return f'\n#line 1 "{FILE}"\n' + rewriter.rewrite(text, FILE).split("\n", 2)[2]
