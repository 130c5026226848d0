"""Guesses from a wrong output's own values and the expected ones.

The first functions concern integers: roundings and counts.
"""

from __future__ import annotations

import itertools

import numpy as np

from ...base.arrays import find_wrong, widen_floats
from .scene import WrongOutput, is_summed, tolerance_of
from .where import describe_region


def guess_rounding(s: WrongOutput) -> str | None:
    """Guess a wrong rounding: signed integers, made from floats, that are off by 1."""
    whole = s.got.dtype.kind == s.want.dtype.kind == "i"
    floats = any(a.dtype.kind == "f" for a in s.inputs.values())
    if not whole or not floats or s.want.min() >= 0 or s.bad.sum() < 2:
        return None
    off = (widen_floats(s.got) - widen_floats(s.want))[s.bad]
    # A constant difference is an added number, not a rounding error.
    everywhere = s.bad.all() and (off == off[0]).all()
    if everywhere or (np.abs(off) != 1).any():
        return None
    return (
        "another rounding: what is wrong is off by 1 only. Is it cut off, or are "
        "halves (x.5) sent to the other side?"
    )


def guess_counts(s: WrongOutput) -> str | None:
    """Guess that counts of an input's elements include too few or too many of them."""
    if s.got.dtype.kind not in "iu" or s.want.dtype.kind not in "iu":
        return None
    due, there = int(s.want.sum()), int(widen_floats(s.got).sum())
    counts = s.want.min() >= 0 and s.want.size > 2
    sizes = {a.size for a in s.inputs.values() if a.dtype.kind in "iu"}
    if not counts or due not in sizes or there == due:
        return None
    if there < due:
        return f"a count that leaves some out: {there} in all, for {due} elements"
    return f"a count of too many: {there} in all, for {due} elements"


# ---- unwritten elements, and plain fillings -------------------------------------


def never_written(s: WrongOutput) -> str | None:
    if s.unwritten is None or not s.unwritten.any():
        return None
    if s.unwritten.all():
        return (
            "no thread stores into it: it holds what it held before. Is the guard "
            "ever true, and is it this array that the kernel writes?"
        )
    if (s.bad & ~s.unwritten).any():
        return None  # there is another mistake as well
    where = describe_region(s, s.unwritten)
    return f"{where} never written" if where else None


def guess_undefined(s: WrongOutput) -> str | None:
    """Guess an undefined operation from NaNs that are not the output's poison."""
    if s.start is None or s.got.dtype.kind != "f" or s.start.dtype != s.got.dtype:
        return None
    made = np.isnan(s.got) & ~np.isnan(widen_floats(s.want))
    if not made.any() or not np.isfinite(_join_inputs(s)).all():
        return None
    bits = f"u{s.got.dtype.itemsize}"
    # The mask excludes the quiet bit.
    mask = (1 << np.finfo(s.got.dtype).nmant - 1) - 1
    payload = int(np.asarray(s.start).view(bits)) & mask
    if ((s.got[made].view(bits) & mask) == payload).any():
        return None
    return (
        "arithmetic without a result, inf - inf, inf / inf or 0 / 0: has a number on "
        "the way grown too large for its type, or has a divisor become 0?"
    )


def _join_inputs(s: WrongOutput) -> np.ndarray:
    """Concatenate the numbers of all float inputs."""
    every = [widen_floats(a).ravel() for a in s.inputs.values() if a.dtype.kind == "f"]
    return np.concatenate(every) if every else np.zeros(0)


def guess_filled(s: WrongOutput) -> str | None:
    got = s.got.ravel()
    if s.got.dtype.kind in "fc" and np.isnan(got).all():
        if s.start is not None and not is_summed(s):
            return (
                "a result that begins with what the output held (NaN on purpose), or "
                "0 / 0: an element must be written before it is read"
            )
        return (
            "a sum that begins with what the output held (NaN on purpose), or 0 / 0: "
            "let a local variable begin with 0 and store it at the end"
        )
    if not np.any(got) and np.count_nonzero(s.want) > (s.want.size > 1):
        return "zeros only: the result is not what is stored, or its sum never runs"
    if got.size >= 3 and (got == got[0]).all() and s.tells:
        return "one value everywhere: every thread computes, or stores, the same"
    return None


def accumulated_on_start(s: WrongOutput) -> str | None:
    """Guess that the output was read before it was written."""
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
            "it reads the output before it has written it: its initial contents "
            "(NaN, or an odd number, on purpose) enter the result"
        )
    return None


# ---- right values in wrong places -------------------------------------------------


def guess_transposed(s: WrongOutput) -> str | None:
    if s.want.ndim != 2 or min(s.want.shape) < 2 or not s.tells:
        return None
    flat = np.ascontiguousarray(s.want.T).reshape(s.want.shape)
    if s.fits(flat):
        return "the transposed result: row and column (or m and n) are swapped"
    return None


def guess_shifted(s: WrongOutput) -> str | None:
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
            near = find_wrong(s.got[at], moved[at], tolerance_of(s)[at])
            if near.mean() <= 0.02 and s.bad[at].mean() > 0.5:
                way = "before" if step > 0 else "after"
                along = "" if s.want.ndim == 1 else f" along axis {axis}"
                return (
                    f"an index that is off by one{along}: each element holds what "
                    f"belongs to the one {way} it"
                )
    return None


def guess_flipped(s: WrongOutput) -> str | None:
    """Guess that the result, or one of its inputs, is reversed along some axes."""
    if not s.tells or s.want.ndim > 3:
        return None
    for name, x in s.inputs.items():
        if x.shape == s.want.shape and x.ndim > 1:
            found, due = _find_flips(s, x), _find_flips(s, x, s.want)
            if found is not None and due:
                return _of_input(name, found, due, x.ndim)
    found = _find_flips(s, s.want)
    if not found:
        return None
    if s.want.ndim == 2:
        return {
            (0,): "the result upside down: its rows are in reverse order",
            (1,): "the result mirrored: its columns are in reverse order",
            (0, 1): "the result turned round: rows and columns are in reverse order",
        }[found]
    along = "" if s.want.ndim == 1 else f" along {_named_axes(found, s.want.ndim)}"
    return f"the result in reverse order{along}"


def _find_flips(
    s: WrongOutput, x: np.ndarray, result: np.ndarray | None = None
) -> tuple[int, ...] | None:
    """Return the axes along which x is reversed in `result` (by default in `got`); None
    if `result` is not a reversed x. Axes of length 1 are not included."""
    long = [axis for axis, length in enumerate(x.shape) if length > 1]
    result = s.got if result is None else result
    for count in range(len(long) + 1):
        for axes in itertools.combinations(long, count):
            if not find_wrong(result, np.flip(x, axes), tolerance_of(s)).any():
                return axes
    return None


def _of_input(
    name: str, found: tuple[int, ...], due: tuple[int, ...], ndim: int
) -> str:
    wanted = _named_axes(due, ndim)
    if not found:
        return f"{name} as it is, where its {wanted} are due in reverse order"
    there = _named_axes(found, ndim)
    return f"{name} with its {there} in reverse order instead of its {wanted}"


def _named_axes(axes: tuple[int, ...], ndim: int) -> str:
    names = ("rows", "columns") if ndim == 2 else tuple(f"axis {i}" for i in range(3))
    return " and ".join(names[axis] for axis in axes)


def by_block(s: WrongOutput) -> str | None:
    """Guess a wrong index: each block has the results of block 0, or of one thread."""
    if s.block is None or s.want.ndim != 1 or not s.tells:
        return None
    threads = s.block[0]
    if not 1 < threads < s.want.size:
        return None
    index = np.arange(s.want.size)
    if s.fits(s.want[index % threads]):
        return (
            "threadIdx where the global index is needed: every block gives what "
            "belongs to block 0"
        )
    if s.fits(s.want[index // threads * threads]):
        return (
            "blockIdx * blockDim without threadIdx: every thread gives what belongs to "
            "the first of its block"
        )
    if s.fits(s.want[index // threads]):
        return "blockIdx where the global index is needed"
    return None


def guess_permuted(s: WrongOutput) -> str | None:
    if s.want.size < 8 or not s.tells or s.got.dtype.kind not in "fiu":
        return None
    got, want = np.sort(s.got.ravel()), np.sort(s.want.ravel())
    if find_wrong(got, want, float(np.max(tolerance_of(s)))).any():
        return None
    return "the right values in the wrong places: the index of the store, or of a load"


# ---- other arithmetic ---------------------------------------------------------------


def guess_scaled(s: WrongOutput) -> str | None:
    got, want = widen_floats(s.got), widen_floats(s.want)
    bad = s.bad & (want != 0)
    if bad.sum() == 1:
        return _one_scaled(s, got[bad][0], want[bad][0])
    few = 2 if s.got.dtype.kind in "fc" else 4  # A few small integers fit by chance.
    if bad.sum() < few or (s.bad & (want == 0)).any():
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


def _one_scaled(s: WrongOutput, got: float, want: float) -> str | None:
    """Guess the factor of a single wrong element; only exact whole factors count."""
    many, few = max(abs(got), abs(want)), min(abs(got), abs(want))
    if "c" in s.got.dtype.kind + s.want.dtype.kind or not np.isfinite(many) or not few:
        return None
    factor = round(many / few)
    slack = 4 * float(np.max(s.bound)) * (factor if abs(got) < abs(want) else 1)
    if not 2 <= factor <= 64 or abs(many - factor * few) > slack + 1e-6 * many:
        return None
    what = "it is" if s.want.size == 1 else "the one wrong element is"
    sign = "minus " if got * want < 0 else ""
    part = f"{factor} times" if abs(got) > abs(want) else f"1/{factor} of"
    return f"off by a factor of {factor}: {what} {sign}{part} what it should be"


def byte_overflow(s: WrongOutput) -> str | None:
    """Guess that a sum of bytes lost multiples of 256 before division by 1 to 4."""
    bytes_in = any(a.dtype.itemsize == 1 for a in s.inputs.values())
    if not bytes_in or s.got.dtype.kind not in "iu" or s.bad.sum() < 4:
        return None
    lost = np.round(widen_floats(s.want) - widen_floats(s.got))[s.bad].astype(np.int64)
    for divisor in (1, 2, 3, 4):
        off = (lost * divisor + 128) % 256 - 128
        if (np.abs(off) < divisor).all():
            return "an overflow: a sum of bytes was kept in a byte (convert them first)"
    return None


def guess_offset(s: WrongOutput) -> str | None:
    difference = (widen_floats(s.got) - widen_floats(s.want))[s.bad]
    if difference.size < 4 or not s.tells or not np.isfinite(difference).all():
        return None
    first = float(np.median(difference))
    if np.allclose(difference, first, rtol=1e-4, atol=0) and abs(first) > 1e-3:
        return f"the same number added to each: {first:.6g}"
    return None


def whole_numbers(s: WrongOutput) -> str | None:
    want = s.want
    if s.got.dtype.kind == "f" and want.dtype.kind == "f" and s.tells:
        for name, made in (("cut off", np.trunc), ("rounded", np.round)):
            if s.fits(made(want)):
                return f"an int in between: the result is {name} to whole numbers"
    exact = want.dtype.kind in "iu" or bool((want == np.round(want)).all())
    if s.got.dtype.kind not in "iuf" or not exact or not np.isfinite(want).all():
        return None
    if np.abs(widen_floats(want)).max() >= 2**62:
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
