"""One wrong output with all known facts about it, and the pattern of failing runs.

guess_spacing() infers from the writes of several runs whether the spacing of blocks
equals their length. describe_pattern() finds the sizes or blocks for which a kernel
fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.arrays import find_wrong, name_element, shorten_shape, widen_floats

Arrays = dict[str, np.ndarray]


@dataclass
class WrongOutput:
    """One wrong output with all known facts about it.

    got, want: arrays of the same shape. bound: the largest allowed error, broadcast to
    that shape. block: the launch's (x, y, z); None for a plain function. unwritten: a
    mask of elements that still contain `start`, the output's poison; None if that is
    unknown. again: a function that returns this output of the reference for other
    inputs. axes: the names of each input's dimensions. output: the names of the
    output's dimensions. grid: the launch's grid if the caller gave it.
    """

    name: str
    got: np.ndarray
    want: np.ndarray
    bound: np.ndarray
    block: tuple[int, int, int] | None = None
    unwritten: np.ndarray | None = None
    start: np.generic | None = None
    inputs: Arrays = field(default_factory=dict)
    again: Callable[[Arrays], np.ndarray] | None = None
    axes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    grid: tuple[int, int, int] | None = None

    @property
    def bad(self) -> np.ndarray:
        """A mask of the wrong elements."""
        return find_wrong(self.got, self.want, self.bound)

    def fits(self, other: np.ndarray, slack: float = 4.0) -> bool:
        """Return whether `got` equals `other`, up to `slack` times the bound."""
        if other.shape != self.got.shape:
            return False
        room = slack * self.bound + 1e-6 * np.abs(widen_floats(other))
        room = 0.0 if self.got.dtype.kind in "biu" else room
        return not find_wrong(self.got, other, room).any()

    @property
    def tells(self) -> bool:
        """Whether the answer has enough different values to exclude a fit by chance."""
        return self.want.size >= 4 and np.unique(self.want).size >= 3


def tolerance_of(s: WrongOutput) -> np.ndarray:
    """Return the difference up to which two results count as equal."""
    return 4 * s.bound + 1e-6 * np.abs(widen_floats(s.want))


def is_summed(s: WrongOutput) -> bool:
    """Return whether an input has a dimension that is unnamed or not in the output."""
    return any(not d or d not in s.output for dims in s.axes.values() for d in dims)


@dataclass(frozen=True)
class Launched:
    """A run of blocks along x: the number of blocks, the threads of each, and a flat
    mask of the written output elements. A correct run has written all elements."""

    blocks: int
    threads: int
    written: np.ndarray


def guess_spacing(
    name: str, shape: Sequence[int], first: Launched, runs: Sequence[Launched]
) -> str:
    """Describe a number used instead of blockDim.x, as a sentence; "" if none fits.

    name, shape: the output's; first: the reported run, one of `runs`. One explanation
    must fit all runs: the blocks begin the same distance apart in each, regardless of
    the number of threads.
    """
    wrong_runs = [run for run in runs if not run.written.all()]
    if len({run.written.size for run in wrong_runs}) < 2:
        return ""  # A single size allows too many explanations.
    step = _step(max(wrong_runs, key=lambda run: run.written.size))
    overlap = step < first.threads  # a missing end can look like an overlap
    if overlap and not any(r.written.all() and r.blocks > 1 for r in runs):
        return ""
    is_right = step == first.threads  # the blocks are right, but there are too few
    if step and not is_right and _is_spaced(runs, [step] * len(runs)):
        return f"looks like {_describe_literal(name, tuple(shape), first, step)}"
    if _is_spaced(runs, [run.blocks for run in runs]) and not is_right:
        effect = "blocks begin as many elements apart as there are blocks"
        return f"looks like gridDim.x where blockDim.x is needed: {effect}"
    return ""


def _step(run: Launched) -> int:
    """Return the spacing of blocks that explains the gaps, or 0 if it is unknown."""
    missing = int(np.argmin(run.written))
    if missing == run.threads:  # each block leaves a gap after it
        behind = np.flatnonzero(run.written[missing:])
        return missing + int(behind[0]) if behind.size else 0
    step, remainder = divmod(missing - run.threads, max(1, run.blocks - 1))
    # The blocks overlap, so their end comes too early.
    return step if step > 0 and not remainder else 0


def _is_spaced(runs: Sequence[Launched], steps: Sequence[int]) -> bool:
    """Return whether each run wrote exactly the elements that its spacing implies."""
    for run, step in zip(runs, steps):
        index = np.add.outer(step * np.arange(run.blocks), np.arange(run.threads))
        reached = np.zeros(run.written.size, bool)
        reached[index[index < reached.size]] = True
        if not np.array_equal(run.written, reached):
            return False
    return True


def _describe_literal(name: str, shape: tuple, run: Launched, step: int) -> str:
    if step == 1:
        effect = "each block begins one element after the one before it"
        return f"blockIdx.x without blockDim.x: {effect}"

    def at(flat: int) -> str:
        return name_element(name, tuple(map(int, np.unravel_index(flat, shape))))

    missing = at(int(np.argmin(run.written)))
    effect = f"no thread writes {missing}"
    if step < run.threads:
        effect = f"two threads write {at(step)} and none {missing}"
    return (
        f"a literal {step} where blockDim.x is needed: with blocks of {run.threads}, "
        f"{effect}; it depends on blocks of {step}"
    )


Run = tuple[dict[str, int], tuple | None]  # sizes and block
# Sizes, block, whether the run was right.
Judged = tuple[dict[str, int], tuple | None, bool]
FACTORS = (1, 2, 4)  # possible numbers of elements per thread, along a block's side


def describe_pattern(
    runs: list[Judged], along: dict[str, int] | None = None, given: bool = False
) -> str:
    """Describe which runs fail, as a sentence; "" if there is no plain rule.

    runs: for each run its sizes, its block, and whether it was right. along: the sizes
    along which the block runs, with the index of the block's side (0 is x). given:
    whether the caller chose the blocks; the sentence then suggests no block.
    """
    right = [(sizes, block) for sizes, block, ok in runs if ok]
    bad = [(sizes, block) for sizes, block, ok in runs if not ok]
    if not right or not bad:
        return ""
    good_blocks, bad_blocks = {b for _, b in right}, {b for _, b in bad}
    if sentence := _by_ones(right, bad):
        return sentence
    # If only one run is right, its sizes are a better hint than its block.
    is_telling = len(runs) > 3 and not (given and len(right) == 1)
    if is_telling and len(good_blocks) == 1 and good_blocks.isdisjoint(bad_blocks):
        only = shorten_shape(*good_blocks)
        cure = "" if given else f": if that is intended, give block={only}"
        claim = f"It is right with blocks of {only} only"
        return f"{claim}, as if it depended on that{cure}."
    if sentence := _by_sizes(right, bad, along or {}):
        return sentence
    if given and (fitting := _one_block(runs)):
        claim = f"It is right with blocks of {shorten_shape(fitting)}"
        return f"{claim}, and wrong with others, as if it depended on that."
    if len(right) == 1 and len(bad) > 2:
        text = " ".join(f"{n}={v}" for n, v in right[0][0].items())
        return f"It is right only at {text}, one of {len(runs)} runs."
    return ""


def _by_ones(right: list[Run], bad: list[Run]) -> str:
    """Describe sizes that are 1 in exactly the wrong (or exactly the right) runs."""
    wrong, only = [], []
    for name in right[0][0]:
        right_sizes = {s[name] for s, _ in right}
        wrong_sizes = {s[name] for s, _ in bad}
        if wrong_sizes == {1} and 1 not in right_sizes:
            wrong.append(name)
        if right_sizes == {1} and len(wrong_sizes) > 1 and 1 not in wrong_sizes:
            only.append(name)
    for verdict, names in (("wrong", wrong), ("right", only)):
        if names:
            verb = "is" if len(names) == 1 else "are"
            return f"It is {verdict} only where {_join_names(names)} {verb} 1."
    return ""


def _join_names(names: Sequence[str]) -> str:
    """Join names: "m"; "m and n"; "m, n and k"."""
    *first_names, last_name = names
    return f"{', '.join(first_names)} and {last_name}" if first_names else last_name


def _one_block(runs: list[Judged]) -> tuple | None:
    """Return the only block with which all runs are right; None if there is none.

    Most runs with every other block must fail.
    """
    table: dict[tuple | None, list[bool]] = {}
    for _, block, ok in runs:
        table.setdefault(block, []).append(ok)
    right = [block for block, results in table.items() if all(results)]
    failing = [results for results in table.values() if not all(results)]
    if len(right) != 1 or len(table[right[0]]) < 3 or len(table) > 4:
        return None
    mostly_wrong = all(2 * sum(results) < len(results) for results in failing)
    return right[0] if mostly_wrong else None


# ---- sizes, as compared with the sides of a block -------------------------------


@dataclass(frozen=True)
class _Rule:
    """A condition on a size. holds: the test, called with the size and the block; text:
    its wording; covered: whether blocks run along the size (false for a summed size).
    """

    name: str
    text: str
    covered: bool
    holds: Callable[[int, tuple], bool]

    def of(self, run: Run) -> bool:
        sizes, block = run
        return block is not None and self.holds(sizes[self.name], block)


def _by_sizes(right: list[Run], bad: list[Run], along: dict[str, int]) -> str:
    """Describe the sizes that decide whether a run fails, relative to the block."""
    for rules, describe in (
        (_multiple_rules, _describe_full),
        (_limit_rules, _describe_within),
    ):
        choices = [
            list(rules(name, axes, not along or name in along))
            for name in right[0][0]
            if (axes := _find_axes(name, right, bad, along))
        ]
        matches = _select_rules(choices, right, bad)
        if matches:
            return describe(matches)
        inverse = _select_rules(choices, bad, right) if rules is _multiple_rules else []
        if len(inverse) == 1:
            return f"It is wrong only where {inverse[0].name} is {inverse[0].text}."
    return ""


def _find_axes(name: str, right: list[Run], bad: list[Run], along: dict) -> list[int]:
    """Return the sides of a block (0 is x) with which a size is compared.

    The list is empty if a rule could arise by chance.
    """
    axes = [along[name]] if name in along else [0, 1, 2]
    values = [{s[name] for s, _ in side} for side in (right, bad)]
    few_values = len(values[0]) < 2 and len(right) < 3
    if few_values and (len(axes) > 1 or len(values[1]) < 3):
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


def _select_rules(choices: list, right: list[Run], bad: list[Run]) -> list[_Rule]:
    """Return the fewest rules, one per size, that all hold only in the right runs.

    Each rule must be the only broken one in some wrong run. If any one of several sizes
    would do, return rules for all of them, since the runs do not distinguish them.
    """
    for count in range(1, len(choices) + 1):
        matches = [
            rules
            for sizes in itertools.combinations(choices, count)
            for rules in itertools.product(*sizes)
            if _decide(rules, right, bad)
        ]
        if matches:
            single_rules = {rules[0].name: rules[0] for rules in reversed(matches)}
            return list(matches[0]) if count > 1 else list(single_rules.values())[::-1]
    return []


def _decide(rules: tuple[_Rule, ...], right: list[Run], bad: list[Run]) -> bool:
    if not all(rule.of(run) for run in right for rule in rules):
        return False
    broken = [[rule.name for rule in rules if not rule.of(run)] for run in bad]
    return all(broken) and all([rule.name] in broken for rule in rules)


def _describe_full(rules: list[_Rule]) -> str:
    unit = "block" if all(rule.covered for rule in rules) else "tile"
    hint = f"look at the last {unit}, which is not full"
    return f"It is right only where {_join_conditions(rules)}: {hint}."


def _describe_within(rules: list[_Rule]) -> str:
    if not all(rule.covered for rule in rules):
        return f"It is right only where {_join_conditions(rules)}."
    names = _join_names([rule.name for rule in rules])
    hint = "is threadIdx used where the global index is needed?"
    return f"It is right only as long as one block is enough for {names}: {hint}"


def _join_conditions(rules: list[_Rule]) -> str:
    return _join_names([f"{rule.name} is {rule.text}" for rule in rules])
