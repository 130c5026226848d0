"""List every combination of the constants' values, and track the state of each."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.errors import ArgumentError
from ..toolchain import launch_config

MOST = 200_000  # a space of more combinations, before `where`, is probably a mistake
TRIED = f"at most {MOST} are tried"
Constants = dict[str, Any]


@dataclass
class Candidate:
    """One combination of values.

    shape: grid, block and bytes of dynamic shared memory; None: called as a function.
    state: "ready", then "pruned", "wrong", "dropped" (slow, so timed only roughly),
    "timed", or "right" (checked but not timed). reason: the cause of removal in a word
    or two; why: the cause in a sentence. registers (per thread), shared (bytes) and
    occupancy (0 to 1) are None if unknown.
    """

    constants: Constants
    shape: launch_config.LaunchConfig | None = None
    state: str = "ready"
    reason: str = ""
    why: str = ""
    kernel: Any = None
    run: Callable[..., Any] | None = None
    registers: int | None = None
    shared: int | None = None
    occupancy: float | None = None
    timed: Any = None
    more: dict[str, Any] = field(default_factory=dict)

    def out(self, state: str, reason: str, why: str) -> None:
        """Remove the candidate from the race."""
        self.state, self.reason, self.why = state, reason, why

    @property
    def threads(self) -> int | None:
        """The number of threads in a block; None without a launch shape."""
        return None if self.shape is None else math.prod(self.shape.block)

    def __str__(self) -> str:
        return spell_candidate(self.constants)


def spell_candidate(constants: Mapping[str, Any]) -> str:
    """Format constants, such as "BM=64 BN=128"."""
    return " ".join(f"{name}={value}" for name, value in constants.items())


def checked_space(space: Any) -> dict[str, tuple[Any, ...]]:
    """Return the space with a tuple of values for each name, or raise ArgumentError."""
    if not isinstance(space, Mapping) or not space:
        raise ArgumentError(
            f'space={space!r:.60}: expected names and values, e.g. {{"TILE": (16, 32)}}'
        )
    values_by_name: dict[str, tuple[Any, ...]] = {}
    for name, values in space.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ArgumentError(f"space: {name!r} is not a valid name of a constant")
        is_single = isinstance(values, str) or not isinstance(values, Iterable)
        # Expanding such a range could exhaust the memory.
        if isinstance(values, range) and len(values) > MOST:
            raise ArgumentError(f"space: {name} has {len(values)} values, {TRIED}")
        values_by_name[name] = tuple(dict.fromkeys([values] if is_single else values))
        if not values_by_name[name]:
            raise ArgumentError(f"space: {name} has no values")
        for value in values_by_name[name]:
            if not isinstance(value, (int, float, str)):
                text = f"space: {name} = {value!r}"
                raise ArgumentError(f"{text}: expected numbers, or strings of C")
    count = math.prod(len(values) for values in values_by_name.values())
    if count > MOST:
        raise ArgumentError(f"space: {count} combinations, {TRIED}")
    return values_by_name


def list_combinations(
    space: Mapping[str, Sequence[Any]], where: Callable[..., Any] | None
) -> tuple[list[Candidate], int]:
    """Return the candidates that `where` allows, and the number of excluded ones."""
    combos = [dict(zip(space, values)) for values in itertools.product(*space.values())]
    if where is None:
        return [Candidate(one) for one in combos], 0
    allowed = [Candidate(one) for one in combos if by_name("where", where, one)]
    return allowed, len(combos) - len(allowed)


def set_shape(name: str, one: Candidate, launch: Callable[..., Any] | None) -> None:
    """Set a candidate's grid and block from `launch`; prune those that CUDA refuses."""
    if launch is None:
        return
    key = by_name("launch", launch, one.constants)
    if not isinstance(key, tuple) or not 2 <= len(key) <= 3:
        raise ArgumentError(
            f"launch returned {key!r} for {one}: expected (grid, block), or (grid, "
            f"block, bytes of shared memory)"
        )
    try:
        one.shape = launch_config.parse(name, key)
    except ArgumentError as error:
        one.out("pruned", "not launchable", str(error).removeprefix(f"{name}: "))


def by_name(what: str, function: Callable[..., Any], constants: Constants) -> Any:
    """Call function(...) with the constants that its parameters name.

    what: the function's name in messages. Raises ArgumentError if a parameter is not a
    constant.
    """
    if not callable(function):
        text = f"{what}={function!r:.40}"
        raise ArgumentError(f"{text}: expected a function of the constants")
    parameters = inspect.signature(function).parameters.values()
    kwargs = {p.name: constants[p.name] for p in parameters if p.name in constants}
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        kwargs = constants
    missing = [
        p.name
        for p in parameters
        if p.name not in constants
        and p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    if missing:
        raise ArgumentError(
            f"{what} has the parameters {', '.join(missing)}; the constants of the "
            f"space are {', '.join(constants)}"
        )
    return function(**kwargs)


def parameters_in(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return a function's parameters; [] if Python cannot read its signature."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def require_some(candidates: Sequence[Candidate], excluded: int) -> None:
    """Raise ArgumentError, with a count for each reason, if no candidate is ready."""
    if any(one.state == "ready" for one in candidates):
        return
    counts = counts_of(candidates, excluded)
    reasons = ", ".join(f"{reason} {count}" for reason, count in counts.items())
    first = next((one for one in candidates if one.why), None)
    example = f"; e.g. {first}: {first.why}" if first else ""
    total = len(candidates) + excluded
    raise ArgumentError(f"none of {total} candidates is left ({reasons}){example}")


def counts_of(candidates: Sequence[Candidate], excluded: int) -> dict[str, int]:
    """Count the pruned, wrong and excluded candidates by reason."""
    counts = {"where": excluded} if excluded else {}
    for one in candidates:
        if one.state in ("pruned", "wrong"):
            counts[one.reason] = counts.get(one.reason, 0) + 1
    return counts
