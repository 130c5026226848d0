"""autotune(kernel, space, ...): the fastest of a kernel's compile-time constants.

    best = autotune(tiles, space={"BM": (64, 128), "BN": (64, 128), "TM": (4, 8)},
                    where=lambda BM, BN, TM: BM * BN // TM**2 <= 512,
                    launch=lambda BM, BN, TM: ((cdiv(n, BN), cdiv(m, BM)),
                                               BM * BN // TM**2),
                    args=(c, a, b, m, n, k), check=lambda a, b: a @ b)
    best(c, a, b, m, n, k)

space       every combination; what `where` and a launch forbid
sources     what can be tuned, with values for its constants: CUDA C, a Python kernel;
            plain_c: C without a GPU
fit         compiled, left out where too few warps fit, timed in turn
right       against the reference, before anything is timed
session     all of that in turn, and what an earlier call found
tuned       the winner and all rows; picture: drawn
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..base.errors import ArgumentError
from .session import Session
from .sources import SourceOptions, source_for
from .space import checked_space, list_combinations, require_some, set_shape
from .tuned import Tuned


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
    """Try every combination of constants, and give back the fastest, ready to launch.

    kernel: of %%cuda or load_cuda(), CUDA C as a string, or the path of a .cu file: its
        enumerators, macros and const numbers of these names get the values, and names
        that it only uses become -DNAME=value. Or plain C, as a string or a .c file. Or
        a Python kernel, numba_jit(k) or cuda_c(k), whose module has the names. Or a
        function of the constants that returns a kernel, or any function to call.
    space: the values of each constant. where: a function of constants, by their names:
        False leaves a combination out. launch: one that returns (grid, block), or
        (grid, block, bytes of dynamic shared memory); None for what is called.
    args: of a launch; their sizes are what is tuned for. What the kernel writes is
        written to copies.
    check: the reference, for a check before timing: a function of inputs (floats as
        float64), by the kernel's names or in order, that returns what is written.
        outputs: names of the arrays that are only written, by default all pointers
        without const; inout: of those that are read too. terms: how many products an
        element sums up; by default as the arrays' shapes tell.
    occupancy: a candidate with less than this share of the best one's occupancy is not
        timed. It is low: fast kernels have few warps with much in registers.
    timer: of bench(); "graph" on a GPU. flags, name: for the compiler; the kernel,
        where a source has several. retune: measure again what is in the cache.

    On a processor a CUDA kernel's time says nothing: candidates are pruned (as for the
    GPU of arch sm_90) and checked. Ctrl-C while they are timed gives what is known.
    Raises ArgumentError for what makes no sense, or if nothing is left to try;
    CompileError if nothing compiles; Mismatch if everything is wrong.
    """
    named, (device, target) = checked_space(space), _find_device(args)
    options = SourceOptions(flags, name, target)
    source = source_for(kernel, named, args, options)
    candidates, excluded = list_combinations(named, where)
    for one in candidates:
        set_shape(source.name, one, launch)
    require_some(candidates, excluded)
    session = Session(source, candidates, excluded, device, target, progress)
    session.inspect(args, outputs, inout)
    path = session.path((timer, occupancy))
    if path and not retune and (found := session.recall(path, check, terms)):
        return found
    session.compile(occupancy)
    session.check(check, terms)
    return session.race(timer, path)


def _find_device(args: Sequence[Any]) -> tuple[torch.device, str]:
    """The device on which the arrays lie, and the target's name."""
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(f"args={args!r:.40}: want a tuple of what a launch takes")
    places = [torch.device(a.device) for a in args if isinstance(a, torch.Tensor)]
    if not places and any(hasattr(a, "__cuda_array_interface__") for a in args):
        places = [torch.device("cuda", torch.cuda.current_device())]
    if not places and not any(hasattr(a, "__array_interface__") for a in args):
        raise ArgumentError("args has no array: there is nothing to write to")
    for place in places:
        if place.type == "cuda":
            return place, "cuda"
    return torch.device("cpu"), "cpu"


__all__ = ["Tuned", "autotune"]
