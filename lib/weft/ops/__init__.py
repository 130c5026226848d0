"""The ops of the lab as Python functions that torch can differentiate.

Every function takes torch tensors (CPU or CUDA; gradients flow), NumPy arrays,
or anything with __cuda_array_interface__ or DLPack (forward only). Arrays are
contiguous float32 on one device; the array decides the target, and torch's current
stream the stream. Where one is empty, the result is PyTorch's, without a launch. A
NumPy array in gives a NumPy array out, anything else a torch tensor. `rung` names the
implementation ("reference", "naive", ...; weft.rungs(op) lists them), by default the
fastest in fp32 that runs there. matmul (products.py) takes more: 16-bit floats,
transposed views, batches, vectors.

Bad input raises native.ArgumentError (a ValueError) with the numbers in it.

op, plan             a Python function with gradients, from what describes an op and
                     from the launchers that kernels/weft.h declares
cases/               a file per op: its twin in PyTorch, shapes, cases to check, and
                     how close to float64 is close enough
products             matmul()
calls                what all ops share: arrays in, calls of C, arrays out
check                every rung against float64, with poisoned outputs; a backward
                     pass against finite differences; nothing is timed before
"""

from .cases import OPS, cases_file
from .products import matmul as matmul

__all__ = [*OPS]  # each is a file in cases/

for _op in OPS:
    if _found := getattr(cases_file(_op), "OP", None):
        globals()[_op] = _found.function()
