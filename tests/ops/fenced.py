"""Run every CPU rung of some ops with each array next to an inaccessible page.

`python fenced.py OP ...`. A read or write beyond an array ends the process, and each op
has its own process. The guard zones of weft.ops.check detect only writes. In the cases
of CONV_SIZES, the padding is larger than the image, so most of a filter's window is
outside.
"""

import ctypes
import faulthandler
import functools
import mmap
import os
import sys

import torch

from weft.ops import cases
from weft.ops.cases import layers
from weft.toolchain import build, native

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
KEPT = []  # the mappings must outlive their pointers
CONV_SIZES = [  # (n, ic, h, w, oc, kh, kw, padding) of each case
    *[(3, 1, 1, 9, 1, 1, 1, 3), (5, 1, 2, 3, 1, 1, 1, 40), (3, 1, 28, 28, 1, 28, 28, 0)]
]


def fenced(tensor: torch.Tensor, at_end: bool):
    """Return a copy of `tensor` whose end (or start) is the edge of readable memory."""
    size = tensor.numel() * tensor.element_size()
    room = -(-size // PAGE) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (base, base + PAGE + room):
        assert LIBC.mprotect(ctypes.c_void_p(fence), PAGE, 0) == 0
    address = base + PAGE + (room - size if at_end else 0)
    ctypes.memmove(address, tensor.contiguous().data_ptr(), size)
    KEPT.append(memory)
    ctype = {torch.float32: "float *", torch.int32: "int32_t *"}
    ctype |= {torch.int64: "int64_t *"}
    return native.ffi.cast(ctype.get(tensor.dtype, "void *"), address)


def run(lib: native.Library, rung: int, case: cases.Case, at_end: bool) -> None:
    """Run one case, with each of its arrays fenced."""
    pointers = {
        name: native.NULL if tensor is None else fenced(tensor, at_end)
        for name, tensor in case.inputs.items()
    }
    for name, answer in case.answers.items():
        empty = torch.empty(answer.want.shape, dtype=answer.dtype)
        pointers[name] = fenced(case.initial.get(name, empty), at_end)
    pointers["workspace"] = lambda bytes_: fenced(
        torch.full((-(-bytes_ // 256) * 256,), 0xFF, dtype=torch.uint8), at_end
    )
    case.launch(lib, rung, pointers, native.NULL)


def run_rungs(op: str) -> None:
    """Run each case of an op by every rung that depends on WEFT_MARCH."""
    native.set_threads(1)  # such small cases end before a second thread starts
    lib = native.library(op, "cpu")
    march = build.Flavour.here("cpu").march
    cases_of = functools.cache(lambda precision: list(cases.cases(op, 0, precision)))
    for rung in lib.here():
        # Kernels are compiled for any machine, plain C for this machine or WEFT_MARCH.
        if march != "native" and rung.targets != ("cpu",):
            continue
        for case in cases_of(rung.precision):
            for at_end in (True, False) if case.every_order else (True,):
                run(lib, rung.index, case, at_end)
            KEPT.clear()
    print(f"{op} stays within its arrays", flush=True)


if __name__ == "__main__":
    layers.CONV_SIZES += CONV_SIZES
    torch.set_num_threads(1)  # threads do not survive a fork
    faulthandler.enable()
    for op in sys.argv[1:]:
        if not (child := os.fork()):  # the child has already imported torch
            run_rungs(op)
            os._exit(0)
        os.waitpid(child, 0)
