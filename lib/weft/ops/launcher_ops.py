"""The launchers of weft.h as ops of PyTorch's library: torch.ops.weft.relu, ...

`import weft.ops` registers them.

Everything is derived: the schema from the twin's parameters and from weft.h, the shapes
of the results (register_fake) from the Op's shapes, and the gradients from the launcher
of the backward pass, which is itself an op.

An op takes torch tensors on the CPU or on a GPU. It returns every array that the
launcher writes, in weft.h's order: layernorm returns y, total, mean and rstd. An array
that a call does not write has the shape (0). Gradients flow from the first result
alone. vmap calls an op once if the batch can be one more leading dimension, and
otherwise once per element of the batch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..base.errors import ArgumentError
from .bindings import ANY, LEADING, CallPlan, OpLauncher, refuse_shape, spread_values
from .calls import tensor_of, want_one_device, wants_gradients
from .library import WEFT, LibraryOp
from .op import Op

# Arguments of backward passes that weft.h lacks.
ANY_SHAPE = "shape"  # the shape of a result that no other argument determines
MASK = "output_mask"  # which gradients the backward pass computes

# Ops that vmap() refuses, and why it has no rule for them.
NOT_BATCHED = {
    "sgd": "it writes to its argument",
    "compact": "the elements of a batch would have results of different lengths",
}


class LauncherOp(LibraryOp):
    """A launcher of weft.h as an op of the library.

    parameters: type, name and possibly default of each argument, as in the schema.
    outputs: the names of the results.
    """

    def __init__(
        self,
        plan: CallPlan,
        launcher: OpLauncher,
        parameters: Sequence[str],
        outputs: Sequence[str],
    ):
        self.plan, self.op, self.launcher = plan, plan.op, launcher
        self.name = launcher.function.removeprefix("weft_")
        self.names = [text.partition("=")[0].split()[-1] for text in parameters]
        self.arrays = [name for name in self.names if name in launcher.dtypes]
        self.outputs = outputs
        results = ", ".join(["Tensor"] * len(outputs))
        results = results if len(outputs) == 1 else f"({results})"
        takes = ", ".join([*parameters, "*", "str? rung=None"])
        schema = f"{self.name}({takes}) -> {results}"
        super().__init__(WEFT, schema, gradient=plan.backward is not None)
        defaults = [
            argument.default_value for argument in self.overload._schema.arguments
        ]
        self.defaults = tuple(defaults[: len(self.names)])

    def name_args(self, args: Sequence[Any]) -> dict[str, Any]:
        """Return all arguments by name; PyTorch omits those that equal a default."""
        return dict(zip(self.names, (*args, *self.defaults[len(args) :])))

    def infer_shapes(self, *args: Any, rung: str | None = None) -> Any:
        given = self.name_args(args)
        numbers = self.measure(given)
        first = next(given[name] for name in self.arrays if given[name] is not None)
        return self.pack(
            first.new_empty(
                self.shape_of(name, numbers) if self.is_made(name, given) else (0,),
                dtype=self.dtype_of(name, given),
            )
            for name in self.outputs
        )

    def pack(self, results: Any) -> Any:
        """Return results as the schema requires: a tuple, one tensor, or None."""
        found = tuple(results)
        return found if len(found) > 1 else found[0] if found else None

    def is_made(self, output: str, given: Mapping[str, Any]) -> bool:
        """Return whether a call with these arguments writes the output."""
        raise NotImplementedError

    def dtype_of(self, name: str, given: Mapping[str, Any]) -> torch.dtype:
        words = given.get(self.op.words.get(name, ""))
        return self.launcher.dtypes[name] if words is None else words.dtype

    # ---- shapes ------------------------------------------------------------------

    def measure(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the sizes by name; refuse arrays that do not fit.

        Sizes may be symbolic. The keys LEADING and "..." contain dimensions.
        """
        tensors = {n: given[n] for n in self.arrays if given[n] is not None}
        for name, tensor in tensors.items():
            if not tensor.is_meta:
                dtypes = self.plan.dtypes_of(name, self.launcher.dtypes[name])
                tensor_of(self.name, name, tensor, *dtypes)
        want_one_device(self.name, tensors)
        numbers: dict[str, Any] = {}
        for name, value in given.items():
            if name == ANY_SHAPE:
                numbers[ANY[0]] = torch.Size(value)
            elif name not in self.launcher.dtypes:
                parts = self.op.shapes.get(name, (name,))
                numbers |= zip(parts, value if len(parts) > 1 else [value])
        for name, tensor in tensors.items():
            self._add_sizes(name, tensor.shape, numbers)
        for name, tensor in tensors.items():
            if (want := self.shape_of(name, numbers)) != tuple(tensor.shape):
                refuse_shape(self.name, name, tensor.shape, want, tensors)
        return numbers

    def _add_sizes(
        self, name: str, shape: Sequence[Any], numbers: dict[str, Any]
    ) -> None:
        dims = self.op.shapes[self.op.array(name)]
        if dims is ANY:
            numbers.setdefault(ANY[0], shape)
            return
        if self.is_many(name) and len(shape):
            numbers.setdefault(LEADING, shape[:-1])
            shape = (math.prod(shape[:-1]), shape[-1])
        if len(shape) != len(dims):
            refuse_shape(self.name, name, shape, dims, {})
        numbers |= {
            dim: size
            for dim, size in zip(dims, shape)
            if dim.isidentifier() and dim not in numbers
        }

    def shape_of(self, name: str, numbers: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the shape of an argument or a result for these sizes."""
        shape = self.op.extents[self.op.array(name)](self.name, numbers)
        if self.is_many(name):
            return *numbers[LEADING], *shape[1:]
        return tuple(shape)

    def is_many(self, name: str) -> bool:
        """Return whether all dimensions of an array but the last count as one."""
        return self.op.array(name) in self.op.many

    # ---- vmap --------------------------------------------------------------------

    def batch(self, info: Any, in_dims: Any, *args: Any, rung: Any = None) -> Any:
        if reason := NOT_BATCHED.get(self.name):
            raise NotImplementedError(f"{self.name}: vmap has no rule: {reason}")
        given, dims = self.name_args(args), dict(zip(self.names, in_dims))
        count = info.batch_size
        batched = {n for n in self.arrays if dims.get(n) is not None}
        for name in batched:
            given[name] = given[name].movedim(dims[name], 0)
        there = {n for n in self.arrays if given[n] is not None}
        if self._can_fold(batched, there):
            for name in there:
                array = given[name]
                if name not in batched and not self._is_shared(name):
                    array = array.expand(count, *array.shape)
                array = array.flatten(0, 1) if self._is_row(name) else array
                given[name] = array.contiguous()
            results = self.list_results(self.call({"rung": rung}, *given.values()))
            made = [self.is_made(name, given) for name in self.outputs]
            return self.pack(
                y.unflatten(0, (count, -1)) if self._is_row(name) else y
                for name, y in zip(self.outputs, results)
            ), self.pack(0 if is_made else None for is_made in made)
        return super().batch(info, in_dims, *args, rung=rung)

    def list_results(self, results: Any) -> Sequence[Any]:
        return [results] if len(self.outputs) == 1 else results

    def _can_fold(self, batched: set[str], there: set[str]) -> bool:
        """Return whether the batch can be one more leading dimension."""
        folded = {name for name in there if not self._is_shared(name)}
        results = all(not self._is_shared(name) for name in self.outputs)
        return batched <= folded and results and ANY_SHAPE not in self.names

    def _is_shared(self, name: str) -> bool:
        """Return whether all rows use the same array, such as a weight."""
        is_any = self.op.shapes[self.op.array(name)] is ANY
        return not (is_any or self.is_many(name) or self._is_row(name))

    def _is_row(self, name: str) -> bool:
        """Return whether an array has one number for each row, such as a mean."""
        dims = self.op.shapes[self.op.array(name)]
        return dims in [(self.op.shapes[many][0],) for many in self.op.many]


class ForwardOp(LauncherOp):
    """A forward pass. Its parameters are those of the twin."""

    def __init__(self, op: Op):
        plan = op.plan
        written = [i.name for i in plan.in_place]
        left = {*written, op.length}
        outputs = [name for name in plan.launcher.outputs if name not in left]
        parameters = [self._declare(op, plan, name) for name in op.parameters]
        super().__init__(plan, plan.launcher, parameters, outputs)
        self.written = self.names.index(written[0]) if written else None
        # For each result of the Python function, its position among the outputs, and
        # the position of the argument that it requires.
        extra = {name: self.names.index(given) for name, given in op.extra.items()}
        self.kept = [
            (outputs.index(name), extra.get(name))
            for name in op.results or (plan.result,) * (self.written is None)
        ]
        # The positions of parameters that represent several numbers, and their names.
        parts = {at: op.shapes.get(name, "") for at, name in enumerate(op.parameters)}
        self.pairs = {
            at: names
            for at, names in parts.items()
            if self.names[at] not in self.arrays and len(names) > 1
        }
        self.backward = BackwardOp(plan) if plan.backward else None

    @staticmethod
    def _declare(op: Op, plan: CallPlan, name: str) -> str:
        """Return a parameter of the twin in the schema's syntax."""
        default = op.parameters[name].default
        if name in plan.launcher.dtypes:
            alias = "(a!)" if name in plan.launcher.outputs else ""
            return (
                f"Tensor? {name}=None" if default is None else f"Tensor{alias} {name}"
            )
        parts = op.shapes.get(name, (name,))
        kind = _declare_number(plan.kinds[parts[0]])
        kind = "bool" if isinstance(default, bool) else kind
        kind += f"[{len(parts)}]" * (len(parts) > 1)
        is_required = default is op.parameters[name].empty
        return f"{kind} {name}" + ("" if is_required else f"={default}")

    def __call__(self, args: Sequence[Any], rung: str | None) -> Any:
        """Call the op like Op.run(), with tensors; PyTorch can trace the call."""
        args = [*args]
        for at in self.pairs:
            args[at] = spread_values(self.name, self.pairs[at], args[at])
        results = self.call({"rung": rung}, *args)
        if self.written is not None:
            return args[self.written]
        if len(self.outputs) == 1:
            return results
        kept = [results[i] for i, at in self.kept if at is None or args[at] is not None]
        return tuple(kept) if len(kept) > 1 else kept[0]

    def run(self, *args: Any, rung: str | None = None) -> Any:
        op, plan = self.op, self.op.plan
        args = (*self.name_args(args).values(),)
        tensors, numbers = plan.bind(args)
        if plan.in_place:
            plan.want_room(args, tensors)
        if plan.backward is None:
            self._refuse_gradients(tensors)
        if plan.is_empty(tensors, numbers):
            return self._run_empty(args, rung, tensors, numbers)
        first = plan.forward_whole(rung, tensors, numbers)
        for i in plan.in_place:
            torch.autograd.graph.increment_version(tensors[i.name])
        if op.length:
            return first[: tensors[op.length].item()]
        like = tensors[self.arrays[0]]
        return self.pack(
            like.new_empty(0, dtype=plan.launcher.dtypes[name])
            if tensors.get(name) is None
            else op.unfold(name, tensors[name], numbers)
            for name in self.outputs
        )

    def _run_empty(self, args: Any, rung: Any, tensors: Any, numbers: Any) -> Any:
        """Return the twin's results, and zeros for outputs that it does not return."""
        y = self.op.plan.of_nothing(rung, tensors, numbers)
        parts = y if isinstance(y, tuple) else (y,)
        found = dict(zip(self.op.results or (self.plan.result,), parts))
        # The twin may return its argument, which the results of an op must not be.
        return self.pack(
            self.op.unfold(name, found[name], numbers).clone()
            if name in found
            else torch.zeros_like(empty)
            for name, empty in zip(
                self.outputs, self.list_results(self.infer_shapes(*args))
            )
        )

    def infer_shapes(self, *args: Any, rung: str | None = None) -> Any:
        if self.plan.backward is None:
            self._refuse_gradients(self.name_args(args))
        if not self.op.length:
            return super().infer_shapes(*args)
        given = self.name_args(args)
        self.measure(given)
        size = torch.library.get_ctx().new_dynamic_size()
        return given[self.arrays[0]].new_empty(size)

    def is_made(self, output: str, given: Mapping[str, Any]) -> bool:
        source = self.op.extra.get(output)
        return source is None or given[source] is not None

    # ---- gradients ---------------------------------------------------------------

    def _refuse_gradients(self, given: Mapping[str, Any]) -> None:
        tensors = {name: given[name] for name in self.plan.names}
        if wants_gradients(*tensors.values()):
            self.plan.want_gradients(tensors)

    def remember(self, ctx: Any, inputs: Any, output: Any, rung: Any = None) -> None:
        given = self.name_args(inputs)
        self.plan.want_gradients({name: given[name] for name in self.plan.names})
        results = dict(zip(self.outputs, self.list_results(output)))
        ctx.mark_non_differentiable(*[results[name] for name in self.outputs[1:]])
        there = {n for n in self.outputs if self.is_made(n, given)}
        found = given | {name: results[name] for name in there}
        ctx.save_for_backward(*[found.get(name) for name in self.plan.saved])
        ctx.numbers = self.measure(given)
        ctx.rung = rung

    def differentiate(self, ctx: Any, needs: Any, *grads: Any) -> tuple[Any, ...]:
        plan, backward = self.plan, self.backward
        tensors = dict(zip(plan.saved, ctx.saved_tensors))
        tensors[plan.gradient] = grads[0].contiguous()
        needs = dict(zip((f"d{name}" for name in self.names), needs))
        given = {n: tensors[n] for n in backward.arrays}
        for name in backward.names[len(given) :]:
            if name == MASK:
                given[name] = [needs.get(output, False) for output in backward.outputs]
            else:
                given[name] = ctx.numbers[ANY[0] if name == ANY_SHAPE else name]
        results = backward.list_results(
            backward.call({"rung": ctx.rung}, *given.values())
        )
        found = dict(zip(backward.outputs, results))
        return tuple(found[name] if needs[name] else None for name in needs)


class BackwardOp(LauncherOp):
    """A backward pass. It takes the launcher's arrays, and sizes that they lack."""

    def __init__(self, plan: CallPlan):
        launcher, op = plan.backward, plan.op
        optional = {i.name for i in plan.inputs if i.optional} | op.extra.keys()
        known, shapes = set(), []
        for name in launcher.inputs:
            shapes.append(op.shapes[op.array(name)])
            known |= set() if name in optional else {*shapes[-1]}
        parameters = [
            f"Tensor{'?' * (name in optional)} {name}" for name in launcher.inputs
        ]
        for name, kind in (launcher.numbers | launcher.fields).items():
            if name not in known and name != plan.count:
                parameters.append(f"{_declare_number(kind)} {name}")
        made = [op.shapes[op.array(name)] for name in launcher.outputs]
        if ANY in made and ANY not in shapes:
            parameters.append(f"SymInt[] {ANY_SHAPE}")
        if op.skipped:
            parameters.append(f"bool[] {MASK}")
        super().__init__(plan, launcher, parameters, launcher.outputs)

    def run(self, *args: Any, rung: str | None = None) -> Any:
        given = self.name_args(args)
        numbers = self.measure(given)
        tensors = {name: self._fold(name, given[name]) for name in self.arrays}
        if ANY[0] in numbers:
            numbers[self.plan.count] = math.prod(numbers[ANY[0]])
        if any(t is not None and not t.numel() for t in tensors.values()):
            return self._run_empty(given, numbers)
        wanted = [
            name in self.outputs and self.is_made(name, given)
            for name in self.plan.gradients
        ]
        found = self.op.plan.backwards(rung, tensors, numbers, wanted)
        results = dict(zip(self.plan.gradients, found))
        first = tensors[self.plan.gradient]
        return self.pack(
            first.new_empty(0)
            if results[name] is None
            else self.op.unfold(self.op.array(name), results[name], numbers)
            for name in self.outputs
        )

    def _run_empty(self, given: Mapping[str, Any], numbers: Any) -> Any:
        """Return gradients without a launch: an empty array adds nothing to them.

        Only a term such as a bias may have a gradient other than 0: a sum of dy.
        """
        dy = given[self.plan.gradient]
        dims = self.op.shapes[self.plan.result]
        results = []
        for name in self.outputs:
            shape = self.shape_of(name, numbers) if self.is_made(name, given) else (0,)
            result = dy.new_zeros(shape)
            if result.numel() and dy.numel():
                own = self.op.shapes[self.op.array(name)]
                axes = [axis - len(dims) for axis, d in enumerate(dims) if d not in own]
                result = self._fold(self.plan.gradient, dy).sum(axes)
            results.append(result)
        return self.pack(results)

    def _fold(self, name: str, array: Any) -> Any:
        """Return an array as its launcher reads it, with one leading dimension."""
        if array is None or not self.is_many(name):
            return array
        return array.view(math.prod(array.shape[:-1]), array.shape[-1])

    def is_made(self, output: str, given: Mapping[str, Any]) -> bool:
        return MASK not in given or given[MASK][self.outputs.index(output)]


def _declare_number(kind: type) -> str:
    return "float" if kind is float else "SymInt"


def register(op: Op) -> None:
    """Register an op; if its declarations do not fit, leave the error to its call."""
    with contextlib.suppress(ArgumentError):
        op.library = ForwardOp(op)
