"""The ops of the lab as Python functions that torch can differentiate.

Every function takes torch tensors (CPU or CUDA; gradients flow), NumPy arrays, or
anything with __cuda_array_interface__ or DLPack (forward only). Arrays are contiguous
float32 on one device, which determines the target; torch's current stream is used.
histogram takes uint8, bincount int32, and sort and argsort int32, uint32 and float32.
For an empty array, an op returns PyTorch's result without a launch. NumPy arrays give a
NumPy array. All others give a torch tensor. `rung` names the implementation, such as
"naive"; weft.rungs(op) lists them. By default it is the fastest fp32 rung for the
target. matmul (products.py) also takes 16-bit floats, transposed views, batches and
vectors.
In torch.compile, torch.export and torch.func, a call is an op of torch.ops.weft.
`import weft.ops` registers these ops; `import weft` alone does not.
Bad input raises weft.ArgumentError (a ValueError) whose message contains the numbers.

    op, bindings make a Python function with gradients from an op's description and
                 from the launchers that kernels/weft.h declares
    cases/       a section per op: its twin in PyTorch, shapes, cases to check, and
                 error bounds against float64
    products     matmul()
    library      an op's registration with PyTorch; register_op() for readers' kernels
    launcher_ops torch.ops.weft, derived from the declarations
    nn           layers for PyTorch: weft.nn
    tape         Tape: matrices and their gradients, recorded in C, without PyTorch
    in_triton    kernels in Triton, and three ways to run them
    calls        code shared by all ops: arrays in, calls to C, arrays out
    check        checks of every rung against float64, with poisoned outputs, and of
                 backward passes against finite differences; only checked rungs are
                 timed
"""

from .cases import OPS, find_op
from .cases.orders import argsort as argsort
from .launcher_ops import register
from .library import register_op as register_op
from .products import matmul as matmul

__all__ = [*OPS, "argsort", "register_op"]  # cases/ has a section for each op

for _op in OPS:
    if _found := find_op(_op):
        globals()[_op] = _found.function()
        register(_found)
