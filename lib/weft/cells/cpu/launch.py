"""Launch a kernel of a compiled cell on the CPU: bind, fence, call, copy back.

write_launcher() writes the C++ that is appended to a cell: one C entry per kernel, for
cffi.

An entry receives the block of memory that Python has packed (arguments.Binder.pack),
and the offset of each argument in it. The compiler derives the parameters' types, so a
cell may use any type. Python compares the sizes with its own before the first launch.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cffi import FFI

from ...base.errors import ArgumentError
from ...csource import rewrite as rewriter
from ...csource.signature import Param
from ...toolchain import build
from .. import output
from ..arguments import Array, Binder, common_device, list_held_arrays
from . import faults
from .arena import (
    Arena,
    Reached,
    list_alignments,
    reach_arrays,
    take_back,
    translate,
)

FILE = "weft-launcher"  # name of the appended code in the compiler's messages
CDEF = """
int weft_sizes(unsigned kernel, unsigned *sizes, unsigned room);
int weft_launch(unsigned kernel, const unsigned *config, size_t shared,
                const char *arguments, const unsigned *offsets);
char *weft_variable(unsigned variable, size_t *size);
"""

# A cell may define macros of any name, so all names in this code begin with weft_.
# SIMT_DEVICE_NAMES makes the watch build read a library's symbols when it is opened. A
# library with variables is opened from a copy, which is then deleted.
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
/* Selects the kernel among all functions of its name (div() is also one of C's). */
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
    """Return C++ with the functions weft_sizes, weft_launch and weft_variable.

    expressions: each kernel's C++ name and number of parameters. weft_sizes() and
        weft_launch() take an index into this list.
    cooperative: run all blocks of a launch concurrently, so that they may wait for each
        other.
    variables: C++ names of the variables in device memory. weft_variable() takes an
        index into this list, and returns the variable's address and size.
    """
    extra_config = ", (cudaStream_t)0, true" if cooperative else ""
    launches, sizes = [], []
    for number, (expression, count) in enumerate(expressions):
        # Name the kernel from the outermost scope, since a local name, such as c, must
        # not hide a kernel c.
        kernel = f"&::{expression.removeprefix('::')}"
        args = ", ".join(f"weft_any{{weft_a + weft_o[{i}]}}" for i in range(count))
        launches.append(
            f"case {number}: {{ auto *weft_k = weft_only({kernel});"
            f" if (weft_shared > 48 << 10) cudaFuncSetAttribute(weft_k,"
            f" cudaFuncAttributeMaxDynamicSharedMemorySize, (int)weft_shared);"
            f" weft_k<<<dim3(weft_c[0], weft_c[1], weft_c[2]),"
            f" dim3(weft_c[3], weft_c[4], weft_c[5]), weft_shared{extra_config}>>>"
            f"({args}); break; }}"
        )
        call = f"weft_measure({kernel}, weft_out, weft_room)"
        sizes.append(f"case {number}: return {call};")
    cases = " ".join(
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
    switch (weft_n) {{ {cases} }}
    return 0;
}}
}}
"""
    # The leading newline is needed if the cell's last line has none.
    return f'\n#line 1 "{FILE}"\n' + rewriter.rewrite(text, FILE).split("\n", 2)[2]


TIMEOUT = 20.0  # default time limit of a launch, in seconds

ffi = FFI()
ffi.cdef(CDEF)
ffi.cdef("""
struct simt_fault {
    int kind, error; uintptr_t address; int write; unsigned block[3], thread[3];
    char kernel[100]; char text[256];
};
const struct simt_fault *simt_last_launch_fault(void);
void simt_clear_fault(void);
void simt_set_timeout(int ms);
void simt_set_order(int order);
int simt_threads(void);
void simt_set_most_printed(size_t bytes);
""")


@functools.cache
def runtime_path() -> Path:
    """Return the path of the SIMT runtime's library; build it if necessary."""
    return build.simt_runtime(build.Flavour.here("cpu"))


@functools.cache
def open_runtime() -> Any:
    """Return the opened library of the SIMT runtime."""
    simt = ffi.dlopen(str(runtime_path()))
    simt.simt_set_most_printed(output.MOST_PRINTED)
    return simt


@contextlib.contextmanager
def thread_order(order: int) -> Iterator[None]:
    """Run the launches in the block with threads in this order (enum simt_order)."""
    open_runtime().simt_set_order(order)
    try:
        yield
    finally:
        open_runtime().simt_set_order(0)


@dataclass
class Prepared:
    """A launch in progress, with its arguments packed for the kernel."""

    scene: faults.FaultScene
    arrays: list[Array | None]
    written: list[bool]
    packed: bytes
    offsets: tuple[int, ...]
    config: list[int]
    shared: int


class CpuLauncher:
    """The callable launcher(grid, block, shared, stream, args) of one kernel.

    grid and block: three ints each, within CUDA's limits. The stream is ignored, since
    the kernel has finished when the call returns. Raises ArgumentError, KernelFault or
    KeyboardInterrupt; the arrays are then unchanged, unless `inplace`.

    C: the cell's library; number: index of the kernel in it.
    timeout: time limit in seconds; 0: no limit.
    """

    def __init__(
        self,
        C: Any,
        number: int,
        expression: str,
        params: tuple[Param, ...],
        source: str,
        *,
        timeout: float | None = None,
        inplace: bool = False,
    ) -> None:
        self.C, self.number, self.params = C, number, params
        self.name = re.sub(r"^(?:\w+::)*", "", expression)
        self.binder = Binder(self.name, params, source)
        sizes = ffi.new("unsigned[]", len(params) + 1)
        count = C.weft_sizes(number, sizes, len(params))
        self.binder.check_sizes(list(sizes), count)
        self.timeout = TIMEOUT if timeout is None else timeout
        self.inplace, self.reached = inplace, None
        self.source, self.prints = source, "printf" in source
        pointers = [(p, t) for p, t in zip(params, self.binder.types) if p.pointer]
        self.align = list_alignments(source, [t for _, t in pointers])
        self.written = [not p.const for p, _ in pointers]

    def __call__(
        self, grid: Any, block: Any, shared: int, stream: Any, args: Sequence[Any]
    ) -> None:
        with self._prepared(grid, block, shared, args) as launch:
            with output.capture_output(self.prints):
                self._run(launch)
            arena = launch.scene.arena
            if arena is not None:
                self._take_back(launch)
                arena.copy_back(self._find_written(launch, arena))

    def results(
        self, grid: Any, block: Any, shared: int, args: Sequence[Any], order: int
    ) -> list[bytes | None]:
        """Return the written arrays' content after a launch; None for other arrays.

        The launch runs the threads in `order` (enum simt_order), leaves the arrays
        unchanged, and shows no printed output. Arrays that structs point to come last
        in the result, and are in self.reached.
        """
        with self._prepared(grid, block, shared, args) as launch:
            with thread_order(order), output.capture_output(self.prints, shown=False):
                self._run(launch)
            assert launch.scene.arena is not None
            self._take_back(launch)
            self.reached = launch.scene.reached
            return launch.scene.arena.contents(launch.written)

    @contextlib.contextmanager
    def _prepared(
        self, grid: Any, block: Any, shared: int, args: Sequence[Any]
    ) -> Iterator[Prepared]:
        bound = self.binder.bind(args)
        arrays = [v for p, v in zip(self.params, bound) if p.pointer]
        where = common_device(self.name, arrays + list_held_arrays(bound))
        kind = where[0] if where else "cpu"
        if kind != "cpu":
            raise ArgumentError(f"{self.name}: its arrays are on {kind}, not the CPU")
        reached, written = None, self.written
        if self.binder.holds_addresses:
            reached = reach_arrays(self.binder, bound)
            arrays, written = arrays + reached.arrays, written + reached.written
        arena = None if self.inplace else self._fence(arrays, reached)
        try:
            addresses = [array.address if array else 0 for array in arrays]
            addresses = addresses if arena is None else arena.addresses()
            if reached is not None and arena is not None:
                bound = translate(self.binder, bound, reached, arena)
            packed, offsets = self.binder.pack(bound, addresses)
            kernel = self.name, self.params, self.binder.types
            places = bound, addresses, arena, self.timeout, reached
            scene = faults.FaultScene(*kernel, *places)
            config = [*grid, *block]
            yield Prepared(scene, arrays, written, packed, offsets, config, shared)
        finally:
            if arena is not None:
                arena.release()

    def _fence(self, arrays: Sequence[Array | None], reached: Reached | None) -> Arena:
        return Arena(arrays, self._alignments(reached))

    def _alignments(self, reached: Reached | None) -> list[int]:
        if reached is None:
            return self.align
        return self.align + list_alignments(self.source, reached.types)

    def _take_back(self, launch: Prepared) -> None:
        """Restore the original addresses in the copies."""
        if launch.scene.reached is not None:
            take_back(self.binder, launch.scene.reached, launch.scene.arena)

    def _find_written(self, launch: Prepared, arena: Arena) -> list[bool]:
        """Return, for each array, whether to copy it back.

        Arrays that are not const are always copied. A const array is copied if the
        kernel has written to it through a cast, because a GPU allows that write, too.
        """
        changed = arena.changed(launch.written)
        for (param, _, array, _), differs in zip(launch.scene.pointers(), changed):
            if differs and array is not None and not array.writable:
                raise faults.read_only(self.name, param)
        return [a or b for a, b in zip(launch.written, changed)]

    def _run(self, launch: Prepared) -> None:
        simt = open_runtime()
        simt.simt_set_timeout(int(self.timeout * 1000))
        try:
            error = self.C.weft_launch(
                *(self.number, launch.config, launch.shared),
                *(ffi.from_buffer(launch.packed), list(launch.offsets)),
            )
        finally:
            simt.simt_set_timeout(0)
        if error:
            raise _make_failure(launch.scene)
        arena = launch.scene.arena
        address = arena.find_overwritten() if arena is not None else None
        if address is not None:
            raise faults.make_stray_fault(address, launch.scene)


def _make_failure(scene: faults.FaultScene) -> BaseException:
    """Return the exception for this thread's last launch, which failed."""
    c_fault = open_runtime().simt_last_launch_fault()
    fault = faults.Fault(
        *(c_fault.kind, c_fault.error, c_fault.address, c_fault.write),
        tuple(c_fault.block),
        tuple(c_fault.thread),
        ffi.string(c_fault.text).decode(errors="replace"),
    )
    open_runtime().simt_clear_fault()
    if fault.kind == faults.INTERRUPT:
        return faults.Stopped(f"{scene.kernel} was stopped")
    return faults.explain(fault, scene)
