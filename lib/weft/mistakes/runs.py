"""Which runs of a kernel go wrong: only some sizes, or only some blocks?"""

from __future__ import annotations

from collections.abc import Callable

from ..guarded import brief


def pattern(
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
    for name in next(iter(runs))[0]:
        every = {s[name] for s, _ in right}, {s[name] for s, _ in bad}
        if every[1] == {1} and 1 not in every[0]:
            return f"It is wrong only where {name} is 1."
        if every[0] == {1} and len(every[1]) > 1 and 1 not in every[1]:
            return f"It is right only where {name} is 1."
    one = given and len(right) == 1  # then its sizes tell more than its block
    if (
        not one
        and len(runs) > 3
        and good_blocks.isdisjoint(bad_blocks)
        and len(good_blocks) == 1
    ):
        only = brief(*good_blocks)
        said = f"It is right with blocks of {only} only, as if it counted on that"
        return said + ("." if given else f": if it may, say block={only}.")
    for name in next(iter(runs))[0]:
        axes = [along[name]] if along and name in along else [0, 1, 2]
        covered = not along or name in along
        said = _by_multiples(name, axes, right, bad, covered)
        if said:
            return said
    fitting = _one_block(runs)
    if given and fitting:
        return (
            f"It is right with blocks of {brief(fitting)}, and wrong with others, as "
            f"if it counted on that."
        )
    if len(right) == 1 and len(bad) > 2:
        return _only_at(right[0][0], len(runs))
    return ""


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


def _by_multiples(
    name: str, axes: list[int], right: list, bad: list, covered: bool
) -> str:
    """Whether one size decides, as compared with a side of the block.

    covered: whether blocks may lie along this size; a sum's length is no such.
    """
    values = [{s[name] for s, _ in side} for side in (right, bad)]
    if len(values[0]) < 2 and (len(axes) > 1 or len(values[1]) < 3):
        return ""  # chance could do it
    for axis in axes:
        sides = [b[axis] for _, b in (*right, *bad) if b is not None]
        if len(sides) != len(right) + len(bad) or min(sides) < 2:
            continue

        def every(runs: list, holds: Callable[[int, int], bool], axis=axis) -> bool:
            return all(holds(s[name], b[axis]) for s, b in runs)

        if every(right, lambda n, b: n % b == 0) and every(bad, lambda n, b: n % b):
            return (
                f"It is right only where {name} is a multiple of the block's "
                f"{'xyz'[axis]}: look at the last block, which is not full."
            )
        if every(right, lambda n, b: n % b) and every(bad, lambda n, b: n % b == 0):
            return f"It is wrong only where {name} is a multiple of the block."
        if every(right, lambda n, b: n <= b) and every(bad, lambda n, b: n > b):
            if not covered:
                side = "xyz"[axis]
                return f"It is right only where {name} is at most the block's {side}."
            return (
                f"It is right only as long as one block is enough for {name}: does "
                f"threadIdx stand where the global index is due?"
            )
    return ""
