"""The C++ that is appended to a cell: one C entry per kernel, for cffi.

An entry gets what Python packed (arguments.Binder.pack): a block of memory and
where in it each argument lies. The parameters' types are the compiler's own, so
that a cell may use any type, and the sizes it finds are compared with what Python
packs before the first launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...csource.rewriter import rewrite as rewriter

FILE = "weft-launcher"  # its name in the compiler's messages
CDEF = """
int weft_sizes(unsigned kernel, unsigned *sizes, unsigned room);
int weft_launch(unsigned kernel, const unsigned *config, size_t shared,
                const char *arguments, const unsigned *offsets);
char *weft_variable(unsigned variable, size_t *size);
"""

# A cell may define macros of any name: what stands here begins with weft_.
# The watch build reads the library's symbols while its file is there: what has
# variables is opened from a copy that goes at once.
_HEAD = """
#include "simt_runtime.h"
SIMT_DEVICE_NAMES("")
extern "C" {
__attribute__((visibility("hidden"), weak)) void *__dso_handle = 0;
}
namespace weft_launcher {
struct weft_any { /* becomes the parameter's type when the kernel is called */
    const char *weft_at;
    template <class weft_t> operator weft_t() const {
        return *(const weft_t *)weft_at;
    }
};
/* Of all functions of its name (div() is one of C's) the one that is a kernel. */
template <class... weft_p>
static auto weft_only(void (*weft_k)(weft_p...)) { return weft_k; }
template <class... weft_p>
static int weft_measure(void (*)(weft_p...), unsigned *weft_out,
                        unsigned weft_room) {
    const unsigned weft_all[] = {(unsigned)sizeof(weft_p)..., 0};
    for (unsigned weft_i = 0; weft_i < sizeof...(weft_p) && weft_i < weft_room;
         weft_i++)
        weft_out[weft_i] = weft_all[weft_i];
    return sizeof...(weft_p);
}
"""


def write_launcher(
    expressions: Sequence[tuple[str, int]],
    cooperative: bool = False,
    variables: Sequence[str] = (),
) -> str:
    """C++ with weft_sizes() and weft_launch() for the kernels, and weft_variable().

    expressions: a kernel's C++ name and how many parameters it has; their
    places in the list are the numbers that both functions take. cooperative: all
    blocks of a launch run at once, so that they may wait for each other. variables:
    the C++ names of those in device memory; weft_variable() gives the address and the
    size of one by its place in that list.
    """
    more = ", (cudaStream_t)0, true" if cooperative else ""
    launches, sizes = [], []
    for number, (expression, count) in enumerate(expressions):
        # From the outermost scope: what is called c here must not hide a kernel c.
        kernel = f"&::{expression.removeprefix('::')}"
        args = ", ".join(f"weft_any{{weft_a + weft_o[{i}]}}" for i in range(count))
        launches.append(
            f"case {number}: {{ auto *weft_k = weft_only({kernel});"
            f" if (weft_shared > 48 << 10) cudaFuncSetAttribute(weft_k,"
            f" cudaFuncAttributeMaxDynamicSharedMemorySize, (int)weft_shared);"
            f" weft_k<<<dim3(weft_c[0], weft_c[1], weft_c[2]),"
            f" dim3(weft_c[3], weft_c[4], weft_c[5]), weft_shared{more}>>>"
            f"({args}); break; }}"
        )
        call = f"weft_measure({kernel}, weft_out, weft_room)"
        sizes.append(f"case {number}: return {call};")
    found = " ".join(
        f"case {number}: *weft_size = sizeof(::{name}); return (char *)&::{name};"
        for number, name in enumerate(variables)
    )
    text = f"""{_HEAD}
extern "C" __attribute__((visibility("default")))
int weft_sizes(unsigned weft_n, unsigned *weft_out, unsigned weft_room) {{
    (void)weft_out, (void)weft_room;
    switch (weft_n) {{ {" ".join(sizes)} }}
    return -1;
}}
extern "C" __attribute__((visibility("default")))
int weft_launch(unsigned weft_n, const unsigned *weft_c, size_t weft_shared,
                const char *weft_a, const unsigned *weft_o) {{
    (void)weft_c, (void)weft_shared, (void)weft_a, (void)weft_o;
    cudaGetLastError();
    switch (weft_n) {{ {" ".join(launches)} }}
    return (int)cudaGetLastError();
}}
extern "C" __attribute__((visibility("default")))
char *weft_variable(unsigned weft_n, size_t *weft_size) {{
    *weft_size = 0;
    switch (weft_n) {{ {found} }}
    return 0;
}}
}}
"""
    # Beginning on a line of its own, whatever the cell ends with.
    return f'\n#line 1 "{FILE}"\n' + rewriter.rewrite(text, FILE).split("\n", 2)[2]
