"""The choice of sizes and launch shapes for a check."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ..base.errors import ArgumentError
from ..toolchain import launch_config
from .cases import (
    Case,
    LaunchShape,
    Sizes,
    by_name,
    cover_elements,
    default_sizes,
    list_blocks,
    make_three,
    size_list,
)
from .problem import Problem
from .runners import Runner


def plan_cases(
    problem: Problem,
    runner: Runner,
    sizes: Any,
    block: Any,
    grid: Any,
    launch: Any,
    shared: Any,
    first: Any = (),
) -> list[Case]:
    """Return all cases (sizes and launch shape): `first`, then the plan's cases."""
    symbols = problem.symbols
    first_cases = []
    for values, launch_place in first:
        (row,) = size_list(values, symbols)
        first_cases.append(
            (row, _launch_shape(launch_place, row, shared) if runner.kernel else None)
        )
    own_rows = None if sizes is None else size_list(sizes, symbols)
    if not runner.kernel:
        if any(x is not None for x in (block, grid, launch)):
            raise ArgumentError(f"{runner.name} is a plain function: it has no launch")
        rows = own_rows or default_sizes(symbols, {}, runner.most)
        rows = _select_possible(problem, rows)
        return first_cases + [(row, None) for row in rows for _ in range(2)]
    if launch is not None:
        if block is not None or grid is not None:
            raise ArgumentError("give launch=, or block= and grid=, not both")
        launches = launch if isinstance(launch, list) else [launch]
        rows = own_rows or default_sizes(symbols, {}, runner.most, not runner.few)
        rows = _select_possible(problem, rows)
        plan = [
            (row, _launch_shape(option, row, shared))
            for option in launches
            for row in rows
        ]
        return _select_launchable(runner, _without_repeats(first_cases, plan))
    if block is None and runner.few:
        block = {1: 32, 2: (8, 4), 3: (4, 4, 2)}[runner.dimensions]
    plan = []
    for number, option in enumerate(list_blocks(block, runner.dimensions)):
        rows = own_rows or _default_sizes(
            problem, runner, option, number == 0 and not runner.few
        )
        make = partial(
            _make_shape, problem, runner, block=option, grid=grid, shared=shared
        )
        like = make if grid is None or callable(grid) else None
        for row in _select_possible(problem, rows):
            plan.append((row, replace(make(row), like=like)))
    return _select_launchable(runner, _without_repeats(first_cases, plan))


def _without_repeats(first_cases: list, plan: list) -> list:
    """Return the first cases, then the cases of `plan` that are not among them."""
    return first_cases + [case for case in plan if case not in first_cases]


def _select_launchable(runner: Runner, plan: list) -> list:
    """Return the plan if a GPU could launch all of it; else raise ArgumentError."""
    for _, shape in plan:
        launch_config.parse(runner.name, (shape.grid, shape.block, shape.shared))
    return plan


def _default_sizes(
    problem: Problem, runner: Runner, block: tuple[int, int, int], first: bool
) -> list[Sizes]:
    """Return the default sizes for one block."""
    spec = next(iter([*problem.outputs.values(), *problem.inout.values()]))
    axes, sides = [spec.symbols[:1] if d else [] for d in spec.axes], {}
    axes = [[d] if d else s for d, s in zip(spec.axes, axes)]
    if runner.dimensions > 1 or len(axes) == 1:
        for names, side in zip(reversed(axes), block):
            sides |= dict.fromkeys(names, side)
    tile_length = block[0] if len(problem.symbols) <= 2 else min(16, block[0])
    return default_sizes(problem.symbols, sides, runner.most, first, tile_length)


def _select_possible(problem: Problem, rows: list[Sizes]) -> list[Sizes]:
    """Return the sizes for which every array has at least one element."""
    specs = [*problem.outputs.values(), *problem.inputs.values()]
    specs += problem.inout.values()
    valid_rows = [r for r in rows if all(min((*s.shape(r), 1)) >= 1 for s in specs)]
    if not valid_rows:
        raise ArgumentError(
            f"no default sizes fit these shapes (sizes {', '.join(problem.symbols)}): "
            f"give sizes="
        )
    return valid_rows


def _make_shape(
    problem: Problem,
    runner: Runner,
    sizes: Sizes,
    block: tuple[int, int, int],
    grid: Any,
    shared: Any,
) -> LaunchShape:
    spec = next(iter([*problem.outputs.values(), *problem.inout.values()]))
    cover = cover_elements(spec.shape(sizes), block, runner.dimensions)
    plain_block = block[0] if block[1:] == (1, 1) else block
    pool = sizes | {"block": plain_block}
    shared_bytes = by_name(shared, pool) if callable(shared) else shared
    if grid is not None:
        grid = by_name(grid, pool) if callable(grid) else grid
        return LaunchShape(make_three(grid), block, shared_bytes)
    return LaunchShape(cover.grid, block, shared_bytes, plain=True)


def shape_for_sizes(
    problem: Problem, shape: LaunchShape | None, sizes: Sizes
) -> LaunchShape | None:
    """Return the launch shape of the same plan for other sizes.

    Raises ArgumentError if the shape does not follow from sizes, or the sizes are
    invalid.
    """
    _select_possible(problem, [sizes])
    if shape is None:
        return None
    if shape.like is None:
        raise ArgumentError(f"{shape} applies only to its own sizes")
    return shape.like(sizes)


def _launch_shape(launch: Any, sizes: Sizes, shared: Any) -> LaunchShape:
    parts = by_name(launch, sizes) if callable(launch) else launch
    if not isinstance(parts, tuple) or not 2 <= len(parts) <= 3:
        raise ArgumentError(
            f"launch: expected (grid, block) or (grid, block, bytes), not {parts!r}"
        )
    if len(parts) == 2:
        shared_bytes = (
            by_name(shared, sizes | {"block": parts[1]}) if callable(shared) else shared
        )
        parts = (*parts, shared_bytes)
    like = partial(_launch_shape, launch, shared=shared) if callable(launch) else None
    return LaunchShape(make_three(parts[0]), make_three(parts[1]), parts[2], like=like)
