"""Launch kernels once more, in a process that ncu profiles.

    ncu ... python -m weft.see.machine_code.replay launches.pt

The file is a list of records from record(), written by torch.save().
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ...base.errors import ArgumentError
from ...cells import stored
from ...cells.gpu import loader as gpu
from ...cells.module import Kernel
from ...csource import signature
from ...pykernel.numba import NumbaKernel
from ...toolchain import launch_config
from .compilation import complete, runner_of


def record(
    kernel: Any, key: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[str, dict[str, Any]]:
    """Return (the kernel's plain name, a record with everything to replay the launch).

    kernel: a kernel of load_cuda(), cuda_c(k), or a Python kernel. Arrays are copied in
    their current state. Raises ArgumentError for a Numba kernel.
    """
    if isinstance(kernel, NumbaKernel):
        name = kernel.name
        raise ArgumentError(f"profile takes {name} as CUDA C: profile({name})")
    if isinstance(kernel, Kernel):
        complete(kernel)
        cell, shape = kernel.module, launch_config.parse(kernel.expression, key)
        program = dict(source=cell.source, name=cell.name, flags=cell.flags)
        program |= dict(headers=cell.headers, expression=kernel.expression)
        params, name = kernel.params, kernel.__name__
    else:
        runner = runner_of(kernel)
        shape = runner.kernel.config(key)
        program, params, args = _translate_kernel(runner, args)
        name = program["expression"]
    launch = program | dict(grid=shape.grid, block=shape.block, shared=shape.shared)
    launch |= dict(params=params, args=copied(params, args))
    return name.rpartition("::")[2], launch


def copied(params: Any, args: tuple[Any, ...]) -> list[Any]:
    """Return the arguments for another process, with arrays as tensors on the host.

    An array that appears twice becomes one tensor that appears twice.
    """
    import torch

    tensors: dict[int, Any] = {}
    for value, param in zip(args, params):
        if not param.pointer or value is None or id(value) in tensors:
            continue
        if isinstance(value, np.ndarray):
            tensors[id(value)] = torch.from_numpy(value.copy())
        elif isinstance(value, torch.Tensor):
            tensors[id(value)] = value.detach().cpu().clone()
        else:
            tensors[id(value)] = torch.from_dlpack(value).cpu().clone()
    return [tensors.get(id(value), value) for value in args]


def main(path: str) -> None:
    """Launch everything in the file, and wait for each launch."""
    import torch

    for launch in torch.load(path, weights_only=False):
        source = launch["source"], launch["name"], launch["flags"]
        compiled = gpu.compile(*source, [launch["expression"]], launch["headers"])
        tensors = [v for v in launch["args"] if isinstance(v, torch.Tensor)]
        copies = {id(tensor): tensor.cuda() for tensor in tensors}
        args = tuple(copies.get(id(value), value) for value in launch["args"])
        launcher = compiled.launcher(launch["expression"], launch["params"])
        launcher(launch["grid"], launch["block"], launch["shared"], None, args)
        torch.cuda.synchronize()


def _translate_kernel(
    runner: Any, args: tuple[Any, ...]
) -> tuple[dict[str, Any], Any, tuple[Any, ...]]:
    form = runner._of(args)
    name = form.translation.name
    signatures = {s.name: s for s in signature.parse(form.translation.text)}
    if form.translation.extents:
        arguments = dict(zip(runner.kernel.parameters, args))
        args = (*args, *form.extents(arguments))
    program = dict(source=form.translation.text, name=name, headers={}, expression=name)
    program["flags"] = tuple(stored.split(runner.flags))
    return program, signatures[name].params, args


if __name__ == "__main__":
    main(sys.argv[1])
