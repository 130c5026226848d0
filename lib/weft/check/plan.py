"""The choice of sizes and launch shapes for a check."""

from __future__ import annotations

import itertools
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
    for values, place in first:
        (row,) = size_list(values, symbols)
        shape = _launch_shape(place, row, shared) if runner.kernel else None
        first_cases.append((row, shape))
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
        pairs = itertools.product(launches, rows)
        plan = [(row, _launch_shape(option, row, shared)) for option, row in pairs]
        return _join_cases(runner, first_cases, plan)
    if block is None and runner.few:
        block = {1: 32, 2: (8, 4), 3: (4, 4, 2)}[runner.dimensions]
    plan = []
    for number, option in enumerate(list_blocks(block, runner.dimensions)):
        full = number == 0 and not runner.few
        rows = own_rows or _default_sizes(problem, runner, option, full)
        options = {"block": option, "grid": grid, "shared": shared}
        make = partial(_make_shape, problem, runner, **options)
        like = make if grid is None or callable(grid) else None
        for row in _select_possible(problem, rows):
            plan.append((row, replace(make(row), like=like)))
    return _join_cases(runner, first_cases, plan)


def _join_cases(runner: Runner, first_cases: list, plan: list) -> list:
    """Return the first cases, then the cases of `plan` that are not among them.

    Raises ArgumentError for a case that no GPU could launch.
    """
    plan = first_cases + [case for case in plan if case not in first_cases]
    for _, shape in plan:
        launch_config.parse(runner.name, (shape.grid, shape.block, shape.shared))
    return plan


def _default_sizes(
    problem: Problem, runner: Runner, block: tuple[int, int, int], first: bool
) -> list[Sizes]:
    """Return the default sizes for one block."""
    spec, sides = problem.first_output, {}
    axes = [[d] if d else [] for d in spec.axes]
    if runner.dimensions > 1 or len(axes) == 1:
        for names, side in zip(reversed(axes), block):
            sides |= dict.fromkeys(names, side)
    tile_length = block[0] if len(problem.symbols) <= 2 else min(16, block[0])
    return default_sizes(problem.symbols, sides, runner.most, first, tile_length)


def _select_possible(problem: Problem, rows: list[Sizes]) -> list[Sizes]:
    """Return the sizes for which every array has at least one element."""
    specs = (problem.outputs | problem.inputs | problem.inout).values()
    valid_rows = [r for r in rows if all(min((*s.shape(r), 1)) >= 1 for s in specs)]
    if not valid_rows:
        names = ", ".join(problem.symbols)
        text = f"no default sizes fit these shapes (sizes {names}): give sizes="
        raise ArgumentError(text)
    return valid_rows


def _make_shape(
    problem: Problem,
    runner: Runner,
    sizes: Sizes,
    block: tuple[int, int, int],
    grid: Any,
    shared: Any,
) -> LaunchShape:
    plain_block = block[0] if block[1:] == (1, 1) else block
    pool = sizes | {"block": plain_block}
    shared_bytes = by_name(shared, pool) if callable(shared) else shared
    if grid is not None:
        grid = by_name(grid, pool) if callable(grid) else grid
        return LaunchShape(make_three(grid), block, shared_bytes)
    cover = cover_elements(problem.first_output.shape(sizes), block, runner.dimensions)
    return replace(cover, shared=shared_bytes)


def shape_for_sizes(
    problem: Problem, shape: LaunchShape | None, sizes: Sizes
) -> LaunchShape | None:
    """Return the launch shape of the same plan for other sizes.

    Raises ArgumentError if the shape does not follow from sizes, or if the sizes are
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
        expected = "(grid, block) or (grid, block, bytes)"
        raise ArgumentError(f"launch: expected {expected}, not {parts!r}")
    if len(parts) == 2:
        pool = sizes | {"block": parts[1]}
        parts = (*parts, by_name(shared, pool) if callable(shared) else shared)
    like = partial(_launch_shape, launch, shared=shared) if callable(launch) else None
    return LaunchShape(make_three(parts[0]), make_three(parts[1]), parts[2], like=like)
