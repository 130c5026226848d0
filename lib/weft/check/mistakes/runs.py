"""Which runs of a kernel go wrong: only some sizes, or only some blocks?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...base.arrays import shorten_shape

Run = tuple[dict[str, int], tuple | None]  # its sizes and its block
FACTORS = (1, 2, 4)  # of a block's side, that a thread may have elements


def describe_pattern(
    runs: list[tuple[dict[str, int], tuple | None, bool]],
    along: dict[str, int] | None = None,
    given: bool = False,
) -> str:
    """Which runs go wrong, as a sentence; "" if there is no plain rule.

    runs: sizes, block, and whether it was right. along: the sizes that the block lies
    along, and which of its sides does (0 is x). given: whether the caller said which
    blocks, so that it is no advice to say that.
    """
    right = [(sizes, block) for sizes, block, ok in runs if ok]
    bad = [(sizes, block) for sizes, block, ok in runs if not ok]
    if not right or not bad:
        return ""
    good_blocks, bad_blocks = {b for _, b in right}, {b for _, b in bad}
    said = _by_ones(right, bad)
    if said:
        return said
    one = given and len(right) == 1  # then its sizes tell more than its block
    if (
        not one
        and len(runs) > 3
        and good_blocks.isdisjoint(bad_blocks)
        and len(good_blocks) == 1
    ):
        only = shorten_shape(*good_blocks)
        said = f"It is right with blocks of {only} only, as if it counted on that"
        return said + ("." if given else f": if it may, say block={only}.")
    said = _by_sizes(right, bad, along or {})
    if said:
        return said
    fitting = _one_block(runs)
    if given and fitting:
        return (
            f"It is right with blocks of {shorten_shape(fitting)}, and wrong "
            "with others, as "
            f"if it counted on that."
        )
    if len(right) == 1 and len(bad) > 2:
        return _only_at(right[0][0], len(runs))
    return ""


def _by_ones(right: list[Run], bad: list[Run]) -> str:
    """Whether it is all a matter of sizes that are 1."""
    wrong, only = [], []
    for name in right[0][0]:
        good, others = {s[name] for s, _ in right}, {s[name] for s, _ in bad}
        if others == {1} and 1 not in good:
            wrong.append(name)
        if good == {1} and len(others) > 1 and 1 not in others:
            only.append(name)
    for how, names in (("wrong", wrong), ("right", only)):
        if names:
            return f"It is {how} only where {_write_verb(names)} 1."
    return ""


def _write_verb(names: Sequence[str]) -> str:
    return f"{_join_names(names)} {'is' if len(names) == 1 else 'are'}"


def _join_names(names: Sequence[str], word: str = "and") -> str:
    """m; m and n; m, n and k"""
    *before, last = names
    return f"{', '.join(before)} {word} {last}" if before else last


def _one_block(runs: list[tuple[dict[str, int], tuple | None, bool]]) -> tuple | None:
    """The one block with which all is right, while each other is wrong mostly."""
    by: dict[tuple | None, list[bool]] = {}
    for _, block, ok in runs:
        by.setdefault(block, []).append(ok)
    right = [block for block, each in by.items() if all(each)]
    others = [each for each in by.values() if not all(each)]
    if len(right) != 1 or len(by[right[0]]) < 3 or len(by) > 4:
        return None
    return right[0] if all(2 * sum(each) < len(each) for each in others) else None


def _only_at(sizes: dict[str, int], runs: int) -> str:
    said = " ".join(f"{n}={v}" for n, v in sizes.items())
    return f"It is right only at {said}, of {runs} runs."


# ---- sizes, as compared with the sides of a block -------------------------------


@dataclass(frozen=True)
class _Rule:
    """What a size has to be: holds(size, block). said: that in words. covered: whether
    blocks lie along it, as along no sum."""

    name: str
    said: str
    covered: bool
    holds: Callable[[int, tuple], bool]

    def of(self, run: Run) -> bool:
        sizes, block = run
        return block is not None and self.holds(sizes[self.name], block)


def _by_sizes(right: list[Run], bad: list[Run], along: dict[str, int]) -> str:
    """Whether some sizes decide, as compared with the sides of the block."""
    for rules, say in ((_multiple_rules, _say_full), (_limit_rules, _say_within)):
        every = [
            list(rules(name, axes, not along or name in along))
            for name in right[0][0]
            if (axes := _find_axes(name, right, bad, along))
        ]
        found = _select_rules(every, right, bad)
        if found:
            return say(found)
        turned = _select_rules(every, bad, right) if rules is _multiple_rules else []
        if len(turned) == 1:
            return f"It is wrong only where {turned[0].name} is {turned[0].said}."
    return ""


def _find_axes(
    name: str, right: list[Run], bad: list[Run], along: dict[str, int]
) -> list[int]:
    """The sides of a block with which a size may be compared; none where chance could
    make a rule of it."""
    axes = [along[name]] if name in along else [0, 1, 2]
    values = [{s[name] for s, _ in side} for side in (right, bad)]
    few = len(values[0]) < 2 and len(right) < 3
    if few and (len(axes) > 1 or len(values[1]) < 3):
        return []
    blocks = [block for _, block in (*right, *bad)]
    if None in blocks:
        return []
    return [axis for axis in axes if min(block[axis] for block in blocks) > 1]  # type: ignore[index]


def _multiple_rules(name: str, axes: list[int], covered: bool) -> Iterator[_Rule]:
    for axis, factor in itertools.product(axes, FACTORS):

        def full(size: int, block: tuple, axis: int = axis, by: int = factor) -> bool:
            return size % (by * block[axis]) == 0

        times = f"{factor} times " if factor > 1 else ""
        side = f"a multiple of {times}the block's {'xyz'[axis]}"
        yield _Rule(name, side, covered, full)


def _limit_rules(name: str, axes: list[int], covered: bool) -> Iterator[_Rule]:
    for axis in axes:
        side = f"at most the block's {'xyz'[axis]}"
        yield _Rule(name, side, covered, lambda n, block, axis=axis: n <= block[axis])


def _select_rules(
    every: list[list[_Rule]], right: list[Run], bad: list[Run]
) -> list[_Rule]:
    """The fewest rules, one for a size, that all hold in the right runs alone.

    Each has to be the only one that is broken in some wrong run. Several sizes of
    which each would do: those are all, as the runs do not tell them apart.
    """
    for count in range(1, len(every) + 1):
        found = [
            rules
            for sizes in itertools.combinations(every, count)
            for rules in itertools.product(*sizes)
            if _decide(rules, right, bad)
        ]
        if found:
            alone = {rules[0].name: rules[0] for rules in reversed(found)}
            return list(found[0]) if count > 1 else list(alone.values())[::-1]
    return []


def _decide(rules: tuple[_Rule, ...], right: list[Run], bad: list[Run]) -> bool:
    if not all(rule.of(run) for run in right for rule in rules):
        return False
    broken = [[rule.name for rule in rules if not rule.of(run)] for run in bad]
    return all(broken) and all([rule.name] in broken for rule in rules)


def _say_full(rules: list[_Rule]) -> str:
    each = [f"{rule.name} is {rule.said}" for rule in rules]
    what = "block" if all(rule.covered for rule in rules) else "tile"
    return (
        f"It is right only where {_join_names(each)}: look at the last {what}, "
        "which is not "
        f"full."
    )


def _say_within(rules: list[_Rule]) -> str:
    if not all(rule.covered for rule in rules):
        each = [f"{rule.name} is {rule.said}" for rule in rules]
        return f"It is right only where {_join_names(each)}."
    return (
        f"It is right only as long as one block is enough for "
        f"{_join_names([rule.name for rule in rules])}: does threadIdx stand "
        "where the global "
        f"index is due?"
    )
