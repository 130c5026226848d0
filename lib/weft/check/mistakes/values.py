"""Guesses from the values of a wrong output and from the expected values."""

from __future__ import annotations

import itertools

import numpy as np

from ...base.arrays import find_wrong, widen_floats
from .scene import WrongOutput, is_summed, tolerance_of
from .where import describe_region


def guess_rounding(s: WrongOutput) -> str | None:
    """Guess a wrong rounding: signed integers, made from floats, that are off by 1."""
    integers = s.got.dtype.kind == s.want.dtype.kind == "i"
    floats = any(a.dtype.kind == "f" for a in s.inputs.values())
    if not integers or not floats or s.want.min() >= 0 or s.bad.sum() < 2:
        return None
    differences = (widen_floats(s.got) - widen_floats(s.want))[s.bad]
    # A constant difference is an added number, not a rounding error.
    everywhere = s.bad.all() and (differences == differences[0]).all()
    if everywhere or (np.abs(differences) != 1).any():
        return None
    hint = "Are numbers truncated, or are halves (x.5) rounded the other way?"
    return f"another rounding: the wrong elements are off by 1. {hint}"


def guess_counts(s: WrongOutput) -> str | None:
    """Guess that counts of an input's elements include too few or too many of them."""
    if s.got.dtype.kind not in "iu" or s.want.dtype.kind not in "iu":
        return None
    expected_total, total = int(s.want.sum()), int(widen_floats(s.got).sum())
    counts = s.want.min() >= 0 and s.want.size > 2
    sizes = {a.size for a in s.inputs.values() if a.dtype.kind in "iu"}
    if not counts or expected_total not in sizes or total == expected_total:
        return None
    side = "low" if total < expected_total else "high"
    return f"a count that is too {side}: {total} for {expected_total} elements"


# ---- unwritten elements, and plain fillings -------------------------------------


def never_written(s: WrongOutput) -> str | None:
    if s.unwritten is None or not s.unwritten.any():
        return None
    if s.unwritten.all():
        hint = "Is the guard ever true, and does the kernel write this array?"
        return f"no thread stores into it: its initial contents remain. {hint}"
    if (s.bad & ~s.unwritten).any():
        return None  # There is another mistake as well.
    region = describe_region(s, s.unwritten)
    return f"{region} never written" if region else None


def guess_undefined(s: WrongOutput) -> str | None:
    """Guess an undefined operation from NaNs that are not the output's poison."""
    if s.start is None or s.got.dtype.kind != "f" or s.start.dtype != s.got.dtype:
        return None
    nans = np.isnan(s.got) & ~np.isnan(widen_floats(s.want))
    floats = [widen_floats(a) for a in s.inputs.values() if a.dtype.kind == "f"]
    if not nans.any() or any(np.isnan(a).any() for a in floats):
        return None
    bits = f"u{s.got.dtype.itemsize}"
    # The mask excludes the quiet bit.
    mask = (1 << np.finfo(s.got.dtype).nmant - 1) - 1
    payload = int(np.asarray(s.start).view(bits)) & mask
    if ((s.got[nans].view(bits) & mask) == payload).any():
        return None
    hint = "does a number overflow its type, or is a divisor 0?"
    return f"an undefined operation (inf - inf, inf / inf or 0 / 0): {hint}"


def guess_filled(s: WrongOutput) -> str | None:
    got = s.got.ravel()
    if s.got.dtype.kind in "fc" and np.isnan(got).all():
        if s.start is not None and not is_summed(s):
            return (
                "a result that starts from the output's initial contents (NaN on "
                "purpose), or 0 / 0: an element must be written before it is read"
            )
        return (
            "a sum that starts from the output's initial contents (NaN on purpose), or "
            "0 / 0: sum in a local variable that starts at 0, and store it at the end"
        )
    if not np.any(got) and np.count_nonzero(s.want) > (s.want.size > 1):
        return "zeros only: the result is not stored, or its sum never runs"
    if got.size >= 3 and (got == got[0]).all() and s.tells:
        return "one value everywhere: every thread computes or stores the same number"
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
        start = "the initial contents (NaN, or an odd number, on purpose)"
        fault = "the kernel reads the output before it writes it"
        return f"{fault}: {start} enter the result"
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
            candidate = np.roll(s.want, step, axis)
            at = tuple(inner)
            mismatches = find_wrong(s.got[at], candidate[at], tolerance_of(s)[at])
            if mismatches.mean() <= 0.02 and s.bad[at].mean() > 0.5:
                way = "before" if step > 0 else "after"
                suffix = "" if s.want.ndim == 1 else f" along axis {axis}"
                effect = f"each element has the value of the one {way} it"
                return f"an index that is off by one{suffix}: {effect}"
    return None


def guess_flipped(s: WrongOutput) -> str | None:
    """Guess that the result, or one of its inputs, is reversed along some axes."""
    if not s.tells or s.want.ndim > 3:
        return None
    reverse = "in reverse order"
    for name, x in s.inputs.items():
        if x.shape == s.want.shape and x.ndim > 1:
            axes, expected_axes = _find_flips(s, x), _find_flips(s, x, s.want)
            if axes is not None and expected_axes:
                target = _named_axes(expected_axes, x.ndim)
                if not axes:
                    return f"{name} unchanged, where its {target} should be {reverse}"
                names = _named_axes(axes, x.ndim)
                return f"{name} with its {names} {reverse} instead of its {target}"
    axes = _find_flips(s, s.want)
    if not axes:
        return None
    if s.want.ndim == 2:
        return {
            (0,): f"the result upside down: its rows are {reverse}",
            (1,): f"the result mirrored: its columns are {reverse}",
            (0, 1): "the result rotated by 180 degrees: rows and columns are reversed",
        }[axes]
    suffix = "" if s.want.ndim == 1 else f" along {_named_axes(axes, s.want.ndim)}"
    return f"the result {reverse}{suffix}"


def _find_flips(
    s: WrongOutput, x: np.ndarray, result: np.ndarray | None = None
) -> tuple[int, ...] | None:
    """Return the axes along which x is reversed in `result` (by default in `got`); None
    if `result` is not a reversed x. Axes of length 1 are not included."""
    long_axes = [axis for axis, length in enumerate(x.shape) if length > 1]
    result = s.got if result is None else result
    for count in range(len(long_axes) + 1):
        for axes in itertools.combinations(long_axes, count):
            if not find_wrong(result, np.flip(x, axes), tolerance_of(s)).any():
                return axes
    return None


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
        effect = "every block gives the results of block 0"
        return f"threadIdx where the global index is needed: {effect}"
    if s.fits(s.want[index // threads * threads]):
        effect = "every thread gives the result of the first thread of its block"
        return f"blockIdx * blockDim without threadIdx: {effect}"
    if s.fits(s.want[index // threads]):
        return "blockIdx where the global index is needed"
    return None


def guess_permuted(s: WrongOutput) -> str | None:
    if s.want.size < 8 or not s.tells or s.got.dtype.kind not in "fiu":
        return None
    got, want = np.sort(s.got.ravel()), np.sort(s.want.ravel())
    if find_wrong(got, want, float(np.max(tolerance_of(s)))).any():
        return None
    return "the right values in the wrong places: check the indices of stores and loads"


# ---- other arithmetic ---------------------------------------------------------------


def guess_scaled(s: WrongOutput) -> str | None:
    got, want = widen_floats(s.got), widen_floats(s.want)
    bad = s.bad & (want != 0)
    if bad.sum() == 1:
        return _one_scaled(s, got[bad][0], want[bad][0])
    count = 2 if s.got.dtype.kind in "fc" else 4  # Small integers may fit by chance.
    if bad.sum() < count or (s.bad & (want == 0)).any():
        return None
    ratio = got[bad] / want[bad]
    factor = float(np.median(ratio))
    if not np.allclose(ratio, factor, rtol=1e-4) or not np.isfinite(factor):
        return None
    names = {
        2.0: "everything counted twice: two threads, or two loops, add the same terms",
        0.5: "half of the result: is every second term missing, or is it halved?",
        -1.0: "the wrong sign",
    }
    for value, text in names.items():
        if abs(factor - value) < 1e-3:
            return text
    if abs(factor - 1) > 1e-2 and bad.sum() >= 4 and s.bad.all():
        return f"a factor: every element is {factor:.6g} times what it should be"
    return None


def _one_scaled(s: WrongOutput, got: float, want: float) -> str | None:
    """Guess the factor of a single wrong element; only exact whole factors count."""
    high, low = max(abs(got), abs(want)), min(abs(got), abs(want))
    if "c" in s.got.dtype.kind + s.want.dtype.kind or not np.isfinite(high) or not low:
        return None
    factor = round(high / low)
    slack = 4 * float(np.max(s.bound)) * (factor if abs(got) < abs(want) else 1)
    if not 2 <= factor <= 64 or abs(high - factor * low) > slack + 1e-6 * high:
        return None
    subject = "it is" if s.want.size == 1 else "the one wrong element is"
    sign = "minus " if got * want < 0 else ""
    part = f"{factor} times" if abs(got) > abs(want) else f"1/{factor} of"
    return f"off by a factor of {factor}: {subject} {sign}{part} what it should be"


def byte_overflow(s: WrongOutput) -> str | None:
    """Guess that a sum of bytes lost multiples of 256 before division by 1 to 4."""
    bytes_in = any(a.dtype.itemsize == 1 for a in s.inputs.values())
    if not bytes_in or s.got.dtype.kind not in "iu" or s.bad.sum() < 4:
        return None
    gaps = np.round(widen_floats(s.want) - widen_floats(s.got))[s.bad].astype(np.int64)
    for divisor in (1, 2, 3, 4):
        remainders = (gaps * divisor + 128) % 256 - 128
        if (np.abs(remainders) < divisor).all():
            return "an overflow: a byte holds a sum of bytes (convert them first)"
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
        for name, convert in (("truncated", np.trunc), ("rounded", np.round)):
            if s.fits(convert(want)):
                return f"an int in between: the result is {name} to whole numbers"
    exact = want.dtype.kind in "iu" or bool((want == np.round(want)).all())
    if s.got.dtype.kind not in "iuf" or not exact or not np.isfinite(want).all():
        return None
    if np.abs(widen_floats(want)).max() >= 2**62:
        return None
    integers = want.astype(np.int64)
    for kind in ("int8", "uint8", "int16", "uint16", "int32"):
        narrow = integers.astype(kind)
        if (narrow != integers).any() and s.fits(narrow.astype(s.got.dtype)):
            return f"an overflow: the result went through {kind}, which is too small"
        limits = np.iinfo(kind)
        clipped = np.clip(integers, limits.min, limits.max).astype(s.got.dtype)
        if (clipped != integers).any() and s.fits(clipped):
            return f"a result clipped to the range of {kind}"
    return None
