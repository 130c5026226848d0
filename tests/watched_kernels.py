"""Launches of the ops' kernels under the watch build, and its findings."""

from __future__ import annotations

import numpy as np
import torch

from weft.ops.cases import Case
from weft.ops.check import compare
from weft.see.watched_runs import WatchedTensor, report_watched
from weft.toolchain import native

ORDERS = (0, 1, 2)  # forward, reverse, and one random order
LARGEST = 15_000  # maximum number of elements in a case's inputs


def findings() -> list:
    return report_watched("kernels").findings


def run(lib: native.Library, rung: native.Rung, case: Case) -> None:
    """Launch a case, and check its outputs."""
    arrays = {
        name: WatchedTensor(tensor, name, True)
        for name, tensor in (case.inputs | case.initial).items()
        if tensor is not None
    }
    for name, answer in case.answers.items():
        if name not in arrays:
            blank = torch.empty(tuple(np.shape(answer.want)), dtype=answer.dtype)
            arrays[name] = WatchedTensor(blank, name, False)
    pointers = dict.fromkeys(case.inputs, native.NULL)
    pointers |= {name: array.pointer for name, array in arrays.items()}

    def workspace(bytes_: int):
        blank = torch.empty(bytes_, dtype=torch.uint8)
        arrays["workspace"] = WatchedTensor(blank, "workspace", False)
        return arrays["workspace"].pointer

    pointers["workspace"] = workspace
    try:
        case.launch(lib, rung.index, pointers, native.NULL)
        lib.call("weft_sync", native.NULL)
        for name, answer in case.answers.items():
            compare(name, arrays[name].values(), answer)
    finally:
        for array in arrays.values():
            array.release()
