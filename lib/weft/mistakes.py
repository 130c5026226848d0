"""What kind of mistake a wrong answer looks like, guessed from the numbers alone.

Each guess is one sentence that begins with "looks like". It is made only where the
numbers fit it everywhere, and it stays a guess: two mistakes can look the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .guarded import wrong

Arrays = dict[str, np.ndarray]


@dataclass
class Scene:
    """One wrong output and all that is known about it.

    got, want: of one shape. bound: what an error may be, broadcast to it. block: the
    launch's (x, y, z), None for a plain function. unwritten: where the output still
    holds `start`, its poison; None if that cannot be told. again: the reference with
    other inputs, for this output. axes: for each input the name of its dimensions.
    output: the names of the output's.
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

    @property
    def bad(self) -> np.ndarray:
        """Which elements are wrong."""
        return wrong(self.got, self.want, self.bound)

    def fits(self, other: np.ndarray, slack: float = 4.0) -> bool:
        """Whether `got` is `other` everywhere, which is not what was wanted."""
        if other.shape != self.got.shape:
            return False
        room = slack * self.bound + 1e-6 * np.abs(_wide(other))
        room = 0.0 if self.got.dtype.kind in "biu" else room
        return not wrong(self.got, other, room).any()

    @property
    def tells(self) -> bool:
        """Whether there are enough different values that chance cannot fit."""
        return self.want.size >= 4 and np.unique(self.want).size >= 3


def guess(scene: Scene) -> str:
    """The first guess that fits, as a sentence; "" if none does."""
    if not scene.want.size or not scene.bad.any():
        return ""
    with np.errstate(all="ignore"):
        for look in _LOOKS:
            found = look(scene)
            if found:
                return f"looks like {found}"
    return ""


def pattern(runs: list[tuple[dict[str, int], tuple | None, bool]]) -> str:
    """Which runs go wrong, as a sentence; "" if there is no plain rule.

    runs: sizes, block, and whether it was right.
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
    if len(runs) > 3 and good_blocks.isdisjoint(bad_blocks) and len(good_blocks) == 1:
        only = _sides(*good_blocks)
        return (
            f"It is right with blocks of {only} only, as if it counted on that: if it "
            f"may, say block={only}."
        )
    for name in next(iter(runs))[0]:
        said = _by_multiples(name, right, bad)
        if said:
            return said
    if len(right) == 1 and len(bad) > 2:
        sizes = " ".join(f"{n}={v}" for n, v in right[0][0].items())
        return f"It is right only at {sizes}, of {len(runs)} runs."
    return ""


def _by_multiples(name: str, right: list, bad: list) -> str:
    """Whether one size decides, as compared with a side of the block."""
    for axis in range(3):
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
            return (
                f"It is right only as long as one block is enough for {name}: does "
                f"threadIdx stand where the global index is due?"
            )
    return ""


def _sides(block: tuple[int, ...] | None) -> str:
    if block is None:
        return "None"
    sides = list(block)
    while len(sides) > 1 and sides[-1] == 1:
        sides.pop()
    return str(sides[0]) if len(sides) == 1 else f"({', '.join(map(str, sides))})"


# ---- what was never written, and plain fillings ---------------------------------


def _never_written(s: Scene) -> str | None:
    if s.unwritten is None or not s.unwritten.any():
        return None
    if s.unwritten.all():
        return (
            "no thread stores into it: it holds what it held before. Is the guard "
            "ever true, and is it this array that the kernel writes?"
        )
    if (s.bad & ~s.unwritten).any():
        return None  # something else is wrong as well
    where = _region(s, s.unwritten)
    return f"{where} never written" if where else None


def _filled(s: Scene) -> str | None:
    got = s.got.ravel()
    if s.got.dtype.kind in "fc" and np.isnan(got).all():
        return (
            "a sum that begins with what the output held (NaN on purpose), or 0 / 0: "
            "let a local variable begin with 0 and store it at the end"
        )
    if not np.any(got) and np.any(s.want):
        return "zeros only: the result is not what is stored, or its sum never runs"
    if got.size >= 3 and (got == got[0]).all() and s.tells:
        return "one value everywhere: every thread computes, or stores, the same"
    return None


def _accumulated_on_start(s: Scene) -> str | None:
    """Integers: want plus what the output held."""
    if s.start is None:
        return None
    if s.got.dtype.kind in "iu":
        sums = s.want.astype(np.int64).astype(s.got.dtype) + s.start
        added = (s.got == sums) & s.bad
    else:
        added = np.isnan(s.got) & ~np.isnan(s.want)
        added &= ~s.unwritten if s.unwritten is not None else True
    if (added == s.bad).all():
        return (
            "it reads the output before it has written it: what lies there at the "
            "start (NaN, or an odd number, on purpose) comes into the result"
        )
    return None


# ---- right values, elsewhere ------------------------------------------------------


def _transposed(s: Scene) -> str | None:
    if s.want.ndim != 2 or min(s.want.shape) < 2 or not s.tells:
        return None
    flat = np.ascontiguousarray(s.want.T).reshape(s.want.shape)
    if s.fits(flat):
        return "the transposed result: row and column (or m and n) are swapped"
    return None


def _shifted(s: Scene) -> str | None:
    if not s.tells:
        return None
    for axis in range(s.want.ndim):
        length = s.want.shape[axis]
        if length < 4:
            continue
        for step in (1, -1):
            inner = [slice(None)] * s.want.ndim
            inner[axis] = slice(1, None) if step > 0 else slice(None, -1)
            moved = np.roll(s.want, step, axis)
            at = tuple(inner)
            near = wrong(s.got[at], moved[at], _room(s)[at])
            if near.mean() <= 0.02 and s.bad[at].mean() > 0.5:
                way = "before" if step > 0 else "after"
                along = "" if s.want.ndim == 1 else f" along axis {axis}"
                return (
                    f"an index that is off by one{along}: each element holds what "
                    f"belongs to the one {way} it"
                )
    flipped = s.want.ravel()[::-1].reshape(s.want.shape)
    return "the result in reverse order" if s.fits(flipped) else None


def _by_block(s: Scene) -> str | None:
    """What belongs to block 0 in every block, or to a block's first thread."""
    if s.block is None or s.want.ndim != 1 or not s.tells:
        return None
    threads = s.block[0]
    if not 1 < threads < s.want.size:
        return None
    index = np.arange(s.want.size)
    if s.fits(s.want[index % threads]):
        return (
            "threadIdx where the global index is due: every block gives what belongs "
            "to block 0"
        )
    if s.fits(s.want[index // threads * threads]):
        return (
            "blockIdx * blockDim without threadIdx: every thread gives what belongs to "
            "the first of its block"
        )
    if s.fits(s.want[index // threads]):
        return "blockIdx where the global index is due"
    return None


def _permuted(s: Scene) -> str | None:
    if s.want.size < 8 or not s.tells or s.got.dtype.kind not in "fiu":
        return None
    got, want = np.sort(s.got.ravel()), np.sort(s.want.ravel())
    if wrong(got, want, float(np.max(_room(s)))).any():
        return None
    return "the right values in the wrong places: the index of the store, or of a load"


# ---- other arithmetic ---------------------------------------------------------------


def _scaled(s: Scene) -> str | None:
    got, want = _wide(s.got), _wide(s.want)
    bad = s.bad & (want != 0)
    if bad.sum() < 2 or (s.bad & (want == 0)).any():
        return None
    ratio = got[bad] / want[bad]
    factor = float(np.median(ratio))
    if not np.allclose(ratio, factor, rtol=1e-4) or not np.isfinite(factor):
        return None
    names = {
        2.0: "everything counted twice: two threads add the same, or a loop runs "
        "over it again",
        0.5: "half of it: is every second term left out, or a 2 too much?",
        -1.0: "the sign turned round",
    }
    for value, text in names.items():
        if abs(factor - value) < 1e-3:
            return text
    if abs(factor - 1) > 1e-2 and bad.sum() >= 4 and s.bad.all():
        return f"a factor: everything is {factor:.6g} times what it should be"
    return None


def _offset(s: Scene) -> str | None:
    difference = (_wide(s.got) - _wide(s.want))[s.bad]
    if difference.size < 4 or not s.tells or not np.isfinite(difference).all():
        return None
    first = float(np.median(difference))
    if np.allclose(difference, first, rtol=1e-4, atol=0) and abs(first) > 1e-3:
        return f"the same number added to each: {first:.6g}"
    return None


def _whole_numbers(s: Scene) -> str | None:
    want = s.want
    if s.got.dtype.kind == "f" and want.dtype.kind == "f" and s.tells:
        for name, made in (("cut off", np.trunc), ("rounded", np.round)):
            if s.fits(made(want)):
                return f"an int in between: the result is {name} to whole numbers"
    exact = want.dtype.kind in "iu" or bool((want == np.round(want)).all())
    if s.got.dtype.kind not in "iuf" or not exact or not np.isfinite(want).all():
        return None
    if np.abs(_wide(want)).max() >= 2**62:
        return None
    whole = want.astype(np.int64)
    for kind in ("int8", "uint8", "int16", "uint16", "int32"):
        narrow = whole.astype(kind)
        if (narrow != whole).any() and s.fits(narrow.astype(s.got.dtype)):
            return f"an overflow: the result went through {kind}, which is too small"
        limits = np.iinfo(kind)
        clipped = np.clip(whole, limits.min, limits.max).astype(s.got.dtype)
        if (clipped != whole).any() and s.fits(clipped):
            return f"a result clipped to the range of {kind}"
    return None


def _precision(s: Scene) -> str | None:
    """Small errors everywhere: what rounding of the inputs explains them?"""
    if s.got.dtype.kind != "f" or not np.isfinite(_wide(s.got)).all():
        return None
    error = np.abs(_wide(s.got) - _wide(s.want))
    scale = float(np.abs(_wide(s.want)).max()) or 1.0
    relative = float(error.max()) / scale
    if not 0 < relative < 0.05:
        return None
    over = float((error[s.bad] / np.maximum(s.bound[s.bad], 1e-300)).max())
    if s.again is not None:
        for name, rounded in _ROUNDED.items():
            made = {
                key: rounded(value) if value.dtype.kind == "f" else value
                for key, value in s.inputs.items()
            }
            if not wrong(s.got, s.again(made), 8 * s.bound).any():
                return f"inputs rounded to {name}: are tensor cores or casts in use?"
    if relative > 2.0**-14:
        digits = int(-np.log2(relative))
        return (
            f"low precision inside: the result agrees to about {digits} bits, float32 "
            f"has 24 (TF32 and float16 have 11, bfloat16 8)"
        )
    if over < 64:
        return (
            f"more roundings than the bound allows ({over:.1f} times it): if the sum "
            f"does have more terms, say so with terms="
        )
    return None


def _bits(kept: int) -> Callable[[np.ndarray], np.ndarray]:
    """Rounds float32 values to `kept` bits of mantissa, towards zero or nearest."""

    def rounded(values: np.ndarray, nearest: bool = True) -> np.ndarray:
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        drop = np.uint64(24 - kept)
        half = (np.uint64(1) << drop) // np.uint64(2) if nearest else np.uint64(0)
        low = (bits + half) >> drop << drop
        return low.astype(np.uint32).view(np.float32).astype(values.dtype)

    return rounded


def _cut(kept: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: _bits(kept)(values, False)  # type: ignore[call-arg]


_ROUNDED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "TF32 or float16": _bits(11),
    "TF32, cut off": _cut(11),
    "bfloat16": _bits(8),
    "bfloat16, cut off": _cut(8),
}


# ---- the reference with other inputs ---------------------------------------------


def _other_inputs(s: Scene) -> str | None:
    """Does `got` fit a reference whose inputs lack or repeat something?"""
    if s.again is None or not s.inputs:
        return None
    for text, inputs in itertools.chain(
        _swapped(s), _turned(s), _terms_missing(s), _neighbours(s)
    ):
        try:
            other = s.again(inputs)
        except Exception:  # the reference does not take these: no guess
            continue
        if wrong(s.want, other, s.bound).any() and s.fits(other):
            return text
    return None


def _swapped(s: Scene) -> Iterator[tuple[str, Arrays]]:
    for a, b in itertools.combinations(s.inputs, 2):
        if s.inputs[a].shape == s.inputs[b].shape:
            yield (
                f"{a} and {b} swapped",
                s.inputs | {a: s.inputs[b], b: s.inputs[a]},
            )
    for a in s.inputs:
        for b in s.inputs:
            if a != b and s.inputs[a].shape == s.inputs[b].shape:
                yield f"{a} read where {b} is due", s.inputs | {b: s.inputs[a]}


def _turned(s: Scene) -> Iterator[tuple[str, Arrays]]:
    for name, value in s.inputs.items():
        if value.ndim == 2 and min(value.shape) > 1:
            turned = np.ascontiguousarray(value.T).reshape(value.shape)
            yield (
                f"{name} read along the wrong axis: rows for columns",
                s.inputs | {name: turned},
            )


def _terms_missing(s: Scene) -> Iterator[tuple[str, Arrays]]:
    """Along each dimension that the output has not: a sum runs there."""
    lengths: dict[str, int] = {}
    for name, dims in s.axes.items():
        lengths |= {d: n for d, n in zip(dims, s.inputs[name].shape)}
    for dim in [d for d in lengths if d and d not in s.output]:
        n = lengths[dim]

        def kept(start: int, stop: int, dim: str = dim) -> Arrays:
            return s.inputs | {
                name: _only(s.inputs[name], dims.index(dim), start, stop)
                for name, dims in s.axes.items()
                if dim in dims
            }

        if n > 1:
            yield (
                f"a sum over {dim} without its last term: < where <= is due, or {dim} "
                f"- 1 terms",
                kept(0, n - 1),
            )
            yield f"a sum over {dim} without its first term", kept(1, n)
            yield (
                f"only the last term of the sum over {dim}: = where += is due",
                kept(n - 1, n),
            )
            yield (
                f"only the first term of the sum over {dim}: it ends too early",
                kept(0, 1),
            )
        tiles = {64, 32, 16, 8, 4} | set(s.block or ())
        for tile in sorted((t for t in tiles if 1 < t < n), reverse=True):
            last = (n - 1) // tile * tile
            full = "" if n % tile == 0 else ", which is not full"
            yield (
                f"a sum over {dim} that lacks its last tile of {tile}{full}",
                kept(0, last),
            )
            yield (
                f"only the last tile of {tile} of the sum over {dim}: a missing +=",
                kept(last, n),
            )
            yield (
                f"only the first tile of {tile} of the sum over {dim}",
                kept(0, tile),
            )


def _neighbours(s: Scene) -> Iterator[tuple[str, Arrays]]:
    for name, value in s.inputs.items():
        if value.ndim and value.size > 3:
            for step, side in ((1, "before"), (-1, "after")):
                moved = np.roll(value, step, axis=-1)
                yield (
                    f"{name} read one element too far {side}",
                    s.inputs | {name: moved},
                )


def _only(value: np.ndarray, axis: int, start: int, stop: int) -> np.ndarray:
    """value with zeros outside of [start, stop) along an axis."""
    made = np.zeros_like(value)
    at = [slice(None)] * value.ndim
    at[axis] = slice(start, stop)
    made[tuple(at)] = value[tuple(at)]
    return made


# ---- where it is wrong --------------------------------------------------------------


def _place(s: Scene) -> str | None:
    where = _region(s, s.bad)
    return f"{where} wrong, the rest right" if where else None


def _region(s: Scene, mask: np.ndarray) -> str | None:
    """`mask` in words, if it is a plain region of the output and not all of it."""
    if mask.all() or not mask.any():
        return None
    for axis in range(mask.ndim):
        found = _along(s, mask, axis)
        if found:
            return found
    index = np.flatnonzero(mask)
    if s.block is not None and mask.ndim >= 1:
        threads = s.block[0] * s.block[1] * s.block[2]
        every = np.arange(mask.size)
        if threads > 1 and (mask.ravel() == (every % threads != 0)).all():
            return "only the first element of each block is there: the others are"
        if threads > 1 and (mask.ravel() == (every % threads == 0)).all():
            return "the first element of each block is"
    if index.size > 2 and mask.size > 4:
        for parity, name in ((0, "even"), (1, "odd")):
            if (mask.ravel() == (np.arange(mask.size) % 2 == parity)).all():
                return f"the elements with {name} numbers are"
    edge = np.ones(mask.shape, bool)
    if mask.ndim == 2 and min(mask.shape) > 2:
        edge[1:-1, 1:-1] = False
        if (mask == edge).all():
            return "the border is"
    return None


def _along(s: Scene, mask: np.ndarray, axis: int) -> str | None:
    """A run of rows (axis 0 of 2), columns or elements at one end of an axis."""
    lines = np.moveaxis(mask, axis, 0).reshape(mask.shape[axis], -1)
    hit = lines.any(axis=1)
    if (lines.all(axis=1) != hit).any() or hit.all():
        return None  # not whole lines
    length, at = len(hit), np.flatnonzero(hit)
    one, many = _line_names(mask.ndim, axis)
    if at[-1] - at[0] + 1 != at.size:
        return None
    if at[0] == 0:
        return (
            f"the first {at.size} {many} are" if at.size > 1 else f"the first {one} is"
        )
    if at[-1] != length - 1:
        return None
    if at.size == 1:
        return f"an end that comes one too early: the last {one} is"
    side = _side(s, mask.ndim, axis)
    if side and at[0] == side:
        return (
            f"blocks other than the first do nothing of use (threadIdx where the "
            f"global index is due?): {many} from {at[0]} on are"
        )
    if side and at[0] % side == 0 and length - at[0] <= side:
        return (
            f"a last block that is missing (n // block for a grid, where cdiv(n, "
            f"block) is due): the {many} from {at[0]} on are"
        )
    return f"the {many} from {at[0]} on are"


def _line_names(ndim: int, axis: int) -> tuple[str, str]:
    if ndim == 1:
        return "element", "elements"
    if ndim == 2:
        return ("row", "rows") if axis == 0 else ("column", "columns")
    return f"slice along axis {axis}", f"slices along axis {axis}"


def _side(s: Scene, ndim: int, axis: int) -> int:
    """How many of the lines along an axis one block covers; 0: not known."""
    if s.block is None or axis < ndim - 3:
        return 0
    return s.block[ndim - 1 - axis]


def _room(s: Scene) -> np.ndarray:
    return 4 * s.bound + 1e-6 * np.abs(_wide(s.want))


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind != "c" else array


_LOOKS: list[Callable[[Scene], str | None]] = [
    _never_written,
    _filled,
    _accumulated_on_start,
    _transposed,
    _by_block,
    _precision,
    _scaled,
    _whole_numbers,
    _other_inputs,
    _shifted,
    _offset,
    _place,
    _permuted,
]
