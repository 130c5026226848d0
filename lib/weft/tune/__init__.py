"""autotune(kernel, space, ...): find a kernel's fastest compile-time constants.

    best = autotune(tiles, space={"BM": (64, 128), "BN": (64, 128), "TM": (4, 8)},
                    where=lambda BM, BN, TM: BM * BN // TM**2 <= 512,
                    launch=lambda BM, BN, TM: ((cdiv(n, BN), cdiv(m, BM)),
                                               BM * BN // TM**2),
                    args=(c, a, b, m, n, k), check=lambda a, b: a @ b)
    best(c, a, b, m, n, k)

sources     kernels whose constants can be set: CUDA C, a Python kernel;
            c_function: C without a GPU
right       check against the reference, before any timing
session     all steps in sequence, and the results of earlier calls; compiles
            candidates, excludes those with too few warps, and times the others
tuned       the combinations that neither `where` nor a launch excludes; the
            winner; picture: drawings of both
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..base.errors import ArgumentError
from .session import Session
from .sources import SourceOptions, source_for
from .tuned import Tuned, checked_space, list_combinations, require_some, set_shape


def autotune(
    kernel: Any,
    space: Mapping[str, Any],
    *,
    args: Sequence[Any],
    check: Callable[..., Any],
    launch: Callable[..., Any] | None = None,
    where: Callable[..., Any] | None = None,
    outputs: Sequence[str] | None = None,
    inout: Sequence[str] = (),
    terms: float | None = None,
    occupancy: float = 0.1,
    timer: str = "",
    flags: str | Sequence[str] = "",
    name: str | None = None,
    retune: bool = False,
    progress: bool = True,
) -> Tuned:
    """Try every combination of constants; return the fastest, ready to launch.

    kernel: a kernel of %%cuda or load_cuda(), CUDA C as a string, or the path of a .cu
    file. Its enumerators, macros and const numbers with names in `space` are set to the
    values; names that it uses but does not define become -DNAME=value. It may also be
    plain C, as a string or a .c file. It may be a Python kernel, numba_jit(k) or
    cuda_c(k), whose module defines the names. Finally, it may be a function of the
    constants that returns a kernel, or any function to call. space: the values of each
    constant. where: a function of constants, by their names; False excludes a
    combination. launch: a function of constants that returns (grid, block), or (grid,
    block, bytes of dynamic shared memory); None for a plain function. args: the
    arguments of a launch; the result is tuned for their sizes, and the kernel writes to
    copies. check: the reference for a check before timing. It is a function of the
    inputs (floats as float64), by the kernel's names or in order, that returns the
    written arrays. outputs: names of the arrays that are only written, by default all
    pointers without const; inout: names of those that are also read. terms: the number
    of products summed into an element; by default derived from the arrays' shapes.
    occupancy: a candidate with less than this share of the best occupancy is not timed.
    The default is low, since fast kernels may have few warps that use many registers.
    timer: a timer of bench(); "graph" by default on a GPU. flags: compiler flags; name:
    the kernel's name, if a source has several. retune: ignore the cache and measure
    again. progress: whether to show progress bars.

    A CUDA kernel's time on a CPU is meaningless, so candidates are then only pruned
    (as for a GPU with sm_90) and checked. Ctrl-C during the timing returns the
    results so far. Raises ArgumentError for invalid arguments, or if no candidate is
    left; CompileError if none compiles; Mismatch if all are wrong.
    """
    constants, (device, target) = checked_space(space), _find_device(args)
    options = SourceOptions(flags, name, target)
    source = source_for(kernel, constants, args, options)
    candidates, excluded = list_combinations(constants, where)
    for candidate in candidates:
        set_shape(source.name, candidate, launch)
    require_some(candidates, excluded)
    session = Session(source, candidates, excluded, device, target, progress)
    session.inspect(args, outputs, inout)
    path = session.path((timer, occupancy))
    if path and not retune and (result := session.recall(path, check, terms)):
        return result
    session.compile(occupancy)
    session.check(check, terms)
    return session.race(timer, path)


def _find_device(args: Sequence[Any]) -> tuple[torch.device, str]:
    """Return the device of the arrays, and the target's name ("cpu" or "cuda")."""
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"args={args!r:.40}: expected a tuple of launch arguments")
    places = [torch.device(a.device) for a in args if isinstance(a, torch.Tensor)]
    if not places and any(hasattr(a, "__cuda_array_interface__") for a in args):
        places = [torch.device("cuda", torch.cuda.current_device())]
    if not places and not any(hasattr(a, "__array_interface__") for a in args):
        raise ArgumentError("args contains no array that the kernel could write to")
    for place in places:
        if place.type == "cuda":
            return place, "cuda"
    return torch.device("cpu"), "cpu"


__all__ = ["Tuned", "autotune"]
