"""What a launch looks like before it runs: orders, shared memory, kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...toolchain.config import Config
from ..language.kernel import PythonKernel
from .kinds import ANY, POSITIVE, WHOLE
from .places import Entity


def bind_arguments(
    kernel: PythonKernel, args: Sequence[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """(a key that says which program fits, what its parameters are bound to)."""
    key, bound, number = [], [], 0
    for name, value in zip(kernel.parameters, args):
        if isinstance(value, np.ndarray):
            key.append((value.ndim, value.dtype))
            bound.append(Entity(number, name, "parameter", value.ndim, value.dtype))
            number += 1
            continue
        kind = ANY
        if type(value) is int:
            kind = POSITIVE if value >= 0 else WHOLE
        key.append(kind)
        bound.append(kind)
    return tuple(key), tuple(bound)


def order_threads(config: Config, order: str | int) -> Iterator[tuple[int, list[Any]]]:
    """(block, its threads as (x, y, z, number)) in the order in which they run."""
    (nx, ny, nz), (gx, gy, gz) = config.block, config.grid
    threads = [
        (x, y, z, (z * ny + y) * nx + x)
        for z in range(nz)
        for y in range(ny)
        for x in range(nx)
    ]
    count = gx * gy * gz
    if order == "forward":
        for block in range(count):
            yield block, threads
    elif order == "reverse":
        threads.reverse()
        for block in reversed(range(count)):
            yield block, threads
    else:
        rng = np.random.default_rng(0 if order == "shuffled" else int(order))
        for block in rng.permutation(count).tolist():
            yield block, [threads[i] for i in rng.permutation(len(threads)).tolist()]


def number_memories(arrays: Sequence[np.ndarray]) -> dict[int, tuple[int, int]]:
    """For each array by id(): the number of the memory it shares, and its offset.

    (-1, 0) for a memory of its own.
    """
    bounds = sorted(
        (
            (*np.lib.array_utils.byte_bounds(a), i)
            for i, a in enumerate(arrays)
            if a.size
        ),
    )
    found = {id(a): (-1, 0) for a in arrays}
    groups: list[list[tuple[int, int, int]]] = []
    end = -1
    for low, high, index in bounds:
        if low < end:
            groups[-1].append((low, high, index))
        else:
            groups.append([(low, high, index)])
        end = max(end, high)
    for number, group in enumerate(groups):
        if len(group) > 1:
            for low, _, index in group:
                found[id(arrays[index])] = (number, low - group[0][0])
    return found


def linear_number(index: tuple[int, int, int], shape: tuple[int, int, int]) -> int:
    """The number of a block or thread: x runs fastest."""
    return (index[2] * shape[1] + index[1]) * shape[0] + index[0]
