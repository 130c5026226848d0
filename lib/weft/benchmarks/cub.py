"""CUB's versions of our ops, as contenders on a GPU.

CUB is NVIDIA's library of such functions. nvcc compiles cub.cu with the headers of its
toolkit. Without nvcc, the benchmark of an op has no such contender.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch

from ..toolchain import build
from ..toolchain.tools import nvcc

SOURCE = Path(__file__).with_suffix(".cu")
# What each function writes for an input x: a function that allocates its outputs.
_OUTPUTS: Mapping[str, Callable[[torch.Tensor], Sequence[torch.Tensor]]] = {
    "reduce": lambda x: [x.new_empty(1)],
    "scan": lambda x: [torch.empty_like(x)],
    "compact": lambda x: [torch.empty_like(x), x.new_empty(1, dtype=torch.int64)],
    "histogram": lambda x: [x.new_empty(256, dtype=torch.int32)],
    "sort": lambda x: [torch.empty_like(x)],
}


class _Call(ctypes.Structure):
    """struct cub_call of cub.cu."""

    _fields_ = [
        *(("temporary", ctypes.c_void_p), ("outputs", ctypes.c_void_p * 2)),
        *(("inputs", ctypes.c_void_p * 2), ("count", ctypes.c_int64)),
        *(("threshold", ctypes.c_float), ("stream", ctypes.c_void_p)),
    ]


def make_call(
    op: str, inputs: Sequence[torch.Tensor], threshold: float = 0.0
) -> Callable[[], torch.Tensor] | None:
    """Return a function that runs CUB's version of `op` on these CUDA tensors.

    It returns the first output, which has the length of the input for "compact". All
    calls share their temporary memory. The result is None if CUB has no such function,
    or if there is no nvcc. Raises RuntimeError if CUB reports an error.
    """
    if op not in _OUTPUTS or nvcc() is None:
        return None
    kind = f"_{inputs[0].dtype}".replace("torch.", "") if op == "sort" else ""
    function = getattr(_open_library(), f"bench_cub_{op}{kind}")
    call = _Call(count=inputs[0].numel(), threshold=threshold)
    call.inputs[: len(inputs)] = [x.data_ptr() for x in inputs]
    size = ctypes.c_size_t()
    _run(function, call, size)
    temporary = inputs[0].new_empty(max(1, size.value), dtype=torch.uint8)
    call.temporary = temporary.data_ptr()

    def run() -> torch.Tensor:
        outputs = _OUTPUTS[op](inputs[0])
        call.outputs[: len(outputs)] = [y.data_ptr() for y in outputs]
        call.stream = torch.cuda.current_stream(temporary.device).cuda_stream
        _run(function, call, size)
        return outputs[0]

    return run


def _run(function: Callable[..., int], call: _Call, size: ctypes.c_size_t) -> None:
    if status := function(ctypes.byref(call), ctypes.byref(size)):
        raise RuntimeError(f"CUB: CUDA error {status}")


@functools.cache
def _open_library() -> ctypes.CDLL:
    flavour = build.Flavour.here("cuda")
    return ctypes.CDLL(str(build.library_of("bench_cub", [SOURCE], flavour)))
