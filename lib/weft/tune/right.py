"""Check a candidate: compare its outputs with a reference in float64.

Outputs start as NaN between guard zones, as everywhere in the lab. A float may differ
from the answer by 1.01 * terms * 2^-24 * reference(|inputs|). This is a bound for a sum
of `terms` products in any order (Higham, Accuracy and Stability of Numerical
Algorithms, 2nd ed., section 3.1). Everything is computed on the arrays' device.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ..base.arrays import GUARD, describe_mismatch, guard_value, poison
from ..base.errors import ArgumentError, Mismatch
from .tuned import parameters_in

UNIT = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float64: 2.0**-53}
MORE = 8  # terms for the roundings outside the sum

Call = Callable[..., object]


class Arguments:
    """The arguments of a launch: names, values, and the arrays that it writes.

    outputs: names of arrays that are only written; inout: names of arrays that are
    written and read.
    """

    def __init__(
        self,
        values: Sequence[Any],
        names: Sequence[str],
        outputs: Sequence[str],
        inout: Sequence[str],
    ) -> None:
        self.given = tuple(values)
        self.values = tuple(map(_convert_tensor, values))
        self.names = list(names) or [str(i) for i in range(len(values))]
        if len(self.names) != len(self.values):
            raise ArgumentError(
                f"args: got {len(self.values)} values, but the kernel takes "
                f"{len(self.names)}: {', '.join(self.names)}"
            )
        for name in (*outputs, *inout):
            if name not in self.names:
                raise ArgumentError(
                    f"{name} is not a parameter of the kernel; the parameters are "
                    f"{', '.join(self.names)}"
                )
        self.inout = list(inout)
        self.outputs = [n for n in outputs if n not in inout]
        for name in self.written:
            if not isinstance(self.at(name), torch.Tensor):
                raise ArgumentError(f"{name} must be an array to be written")

    def at(self, name: str) -> Any:
        """Return the value of a parameter."""
        return self.values[self.names.index(name)]

    @property
    def written(self) -> list[str]:
        """The outputs, then the inout arrays: the results of a reference."""
        return [*self.outputs, *self.inout]

    def with_arrays(self, arrays: dict[str, torch.Tensor]) -> tuple[Any, ...]:
        """Return the arguments with some arrays replaced."""
        return tuple(arrays.get(n, v) for n, v in zip(self.names, self.values))

    def own(self) -> tuple[Any, ...]:
        """Return the arguments with copies of the written arrays, for timing."""
        return self.with_arrays({n: self.at(n).clone() for n in self.written})


class ReferenceAnswer:
    """The expected outputs, and their error bounds.

    reference: a function that takes inputs (floats as float64), numbers and sizes by
    the kernel's names, or the inputs in order. It returns the outputs, then the inout
    arrays. terms: the number of products summed into an element; None: estimated.
    """

    def __init__(self, reference: Call, arguments: Arguments, terms: float | None):
        if not callable(reference):
            raise ArgumentError(
                f"check={reference!r:.40}: expected a function of the inputs that "
                f"returns the correct outputs"
            )
        self.arguments = arguments
        self.want = self._apply(reference, lambda x: x)
        sizes = self._apply(reference, torch.abs)
        self.bound = {}
        for name, want in self.want.items():
            kind = arguments.at(name).dtype
            if not kind.is_floating_point:
                self.bound[name] = torch.zeros_like(want, dtype=torch.float64)
                continue
            count = terms
            if terms is None:
                products = self._estimate_terms(name)
                if products <= 1:
                    products = self._estimate_fan_in(reference, name)
                count = MORE + products
            size = torch.maximum(sizes[name].abs(), want.abs())
            bound = 1.01 * count * 2.0**-24 * size + 1e-38
            bound += UNIT.get(kind, 0.0) * want.abs()
            self.bound[name] = bound.nan_to_num(0.0, 0.0, 0.0)

    def require(self, run: Call) -> float:
        """Launch once and return the largest error divided by its bound.

        Raises Mismatch if an output is wrong or a guard zone was written.
        """
        fenced = {name: Fenced(self.arguments, name) for name in self.arguments.written}
        run(*self.arguments.with_arrays({n: f.array for n, f in fenced.items()}))
        worst = 0.0
        for name, array in fenced.items():
            array.require_guards()
            worst = max(worst, self._compare(name, array.array))
        return worst

    def _compare(self, name: str, got: torch.Tensor) -> float:
        want, bound = self.want[name], self.bound[name]
        error = (got.to(want.dtype) - want).abs()
        # `<=` is false for a NaN, so an unexpected NaN in `got` is bad.
        good = (error <= bound) | (got == want) | (got.isnan() & want.isnan())
        if good.all():
            ratio = torch.where(error > 0, error / bound, 0.0).nan_to_num(0.0, 0.0, 0.0)
            return float(ratio.max()) if ratio.numel() else 0.0
        sides = [_convert_numpy(one) for one in (got, want, bound, ~good)]
        raise describe_mismatch(name, *sides)

    def _apply(
        self, reference: Call, how: Call | dict[str, Call]
    ) -> dict[str, torch.Tensor]:
        """Call the reference with the inputs as float64, changed by `how`.

        how: one function for all inputs, or a dict with functions for some of them.
        """
        args, inputs = self.arguments, {}
        for name, original, value in zip(args.names, args.given, args.values):
            if isinstance(value, torch.Tensor):
                real = value.is_floating_point()
                change = how.get(name) if isinstance(how, dict) else how
                value = value.double() if real else value.clone()
                value = change(value) if real and change else value
                value = value.numpy() if isinstance(original, np.ndarray) else value
            elif how is torch.abs and isinstance(value, float):
                value = abs(value)
            inputs[name] = value
        parameters = [p.name for p in parameters_in(reference)]
        if parameters and set(parameters) <= set(inputs):
            result = reference(**{name: inputs[name] for name in parameters})
        else:
            names = [n for n in args.names if n not in args.outputs]
            arrays = [inputs[n] for n in names if isinstance(args.at(n), torch.Tensor)]
            result = reference(*arrays)
        return self._match_outputs(result)

    def _match_outputs(self, result: Any) -> dict[str, torch.Tensor]:
        written = self.arguments.written
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(written):
            raise ArgumentError(
                f"check returned {len(results)} arrays, but the kernel writes "
                f"{len(written)}: {', '.join(written)}"
            )
        expected = {}
        for name, value in zip(written, results):
            out = self.arguments.at(name)
            try:
                want = torch.as_tensor(value, device=out.device)
                same_size = want.numel() == out.numel()
            except (TypeError, ValueError, RuntimeError):
                raise ArgumentError(
                    f"check returned {value!r:.40} for {name}: expected an array"
                ) from None
            if not same_size:
                raise ArgumentError(
                    f"check returned {name} with shape {tuple(want.shape)}, but the "
                    f"kernel's has {tuple(out.shape)}"
                )
            kind = torch.float64 if out.is_floating_point() else out.dtype
            expected[name] = want.reshape(out.shape).to(kind)
        return expected

    def _estimate_terms(self, name: str) -> float:
        """Estimate the largest number of products summed into an element.

        The estimate is the product of the sides that the inputs have and the output
        lacks. Each side counts once. The product is k for c (m,n) = a (m,k) @ b (k,n).
        The largest whole number among the arguments is an upper limit, which replaces
        the product for flat arrays.
        """
        args = self.arguments
        sides = Counter(
            side
            for n, value in zip(args.names, args.values)
            if isinstance(value, torch.Tensor) and n not in args.outputs
            for side in value.shape
        )
        sides -= Counter(args.at(name).shape)
        count = math.prod(sides)
        integers = [v for v in args.values if isinstance(v, int) and v > 0]
        return min(count, max(integers)) if integers else count

    def _estimate_fan_in(self, reference: Call, name: str) -> int:
        """Estimate the number of one input's elements that affect an output element.

        This estimate is used if the sides show no sum, as for a softmax. The method
        changes the middle element of an input and counts the output elements that then
        differ.
        """
        args, want, largest = self.arguments, self.want[name], 1
        for other, value in zip(args.names, args.values):
            is_input = isinstance(value, torch.Tensor) and other not in args.outputs
            if not is_input or not value.is_floating_point() or not value.numel():
                continue

            def perturb(one: torch.Tensor) -> torch.Tensor:
                one = one.clone(memory_format=torch.contiguous_format)
                one.view(-1)[one.numel() // 2] += 1 / 16
                return one

            try:
                error = (self._apply(reference, {other: perturb})[name] - want).abs()
            # The reference may reject the changed input; then the count is unknown.
            except Exception:
                continue
            changed = value.numel() * int((error > 1e-12 * want.abs()).sum())
            largest = max(largest, -(-changed // want.numel()))
        return largest


class Fenced:
    """A copy of an array between guard zones; an output's copy is poisoned."""

    def __init__(self, arguments: Arguments, name: str) -> None:
        array = arguments.at(name)
        self.name, count = name, array.numel()
        kind = torch.empty(0, dtype=array.dtype)
        plain = torch.float32 if array.dtype == torch.bfloat16 else array.dtype
        numpy = torch.empty(0, dtype=plain).numpy().dtype
        self._guard = kind.new_tensor(guard_value(numpy).item()).to(array.device)
        self._memory = self._guard.repeat(count + 2 * GUARD)
        self.array = self._memory[GUARD : GUARD + count].view(array.shape)
        if name in arguments.inout:
            self.array.copy_(array)
        else:
            self.array.fill_(poison(numpy).item())

    def require_guards(self) -> None:
        """Raise Mismatch if an element before or past the array was written."""
        count = self.array.numel()
        zones = {-GUARD: self._memory[:GUARD], count: self._memory[GUARD + count :]}
        for first, zone in zones.items():
            bad = (zone != self._guard).nonzero()
            if len(bad):
                index = first + int(bad[-1 if first < 0 else 0])
                side = "before its start" if first < 0 else "past its end"
                text = f"{self.name}[{index}] was written, which is {side}"
                raise Mismatch(text, array=self.name, index=(index,))


def _convert_tensor(value: Any) -> Any:
    """Return an array as a torch tensor on the same memory; return others unchanged."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if hasattr(value, "__cuda_array_interface__") or hasattr(value, "__dlpack__"):
        return torch.as_tensor(value)
    return value.item() if isinstance(value, np.generic) else value


def _convert_numpy(array: torch.Tensor) -> np.ndarray:
    array = array.cpu()
    return (array.float() if array.dtype == torch.bfloat16 else array).numpy()
