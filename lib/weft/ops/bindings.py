"""Plan the calls of an op from weft.h's declarations and the shapes of its arrays.

OpLauncher describes a launcher that kernels/weft.h declares: the names, kinds and order
of its parameters. CallPlan calls an op's launchers.

weft.h declares weft_<op>() and, for ops with gradients, weft_<op>_backward(). Arrays
are matched by name: dx is the gradient of x, and the backward pass's other inputs are
inputs and outputs of the forward pass.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ..base.errors import ArgumentError
from ..toolchain import build, native
from ..toolchain.native import write_value
from .calls import (
    launch,
    make_empty,
    number_of,
    refuse_second_gradient,
    shape_of,
    tensor_of,
    want_no_overlap,
    want_one_device,
    want_rung,
    want_writable,
)

if TYPE_CHECKING:
    from .op import Op


# The order of parameters throughout weft.h.
ORDER = ("output", "input", "number", "options")
_DTYPES = {
    **{"float": torch.float32, "int32_t": torch.int32, "int64_t": torch.int64},
    "uint8_t": torch.uint8,
}
_CTYPES = {dtype: f"{name} *" for name, dtype in _DTYPES.items()}
# The dtypes of an Op's `words`. weft.h's parameter `kind` is an index into this tuple.
WORDS = torch.int32, torch.uint32, torch.float32
_KINDS = {
    "output": rf"({'|'.join(_DTYPES)}) \*(\w+)",
    "input": rf"const ({'|'.join(_DTYPES)}) \*(\w+)",
    "number": r"(int|size_t|float) (\w+)",
    "options": r"const struct (weft_\w+_options) \*(\w+)",
}


@dataclass(frozen=True)
class OpLauncher:
    """A function of weft.h that launches an op; rung and stream are left out."""

    function: str
    dtypes: Mapping[str, torch.dtype]  # the dtype of each array, outputs first
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    numbers: Mapping[str, type]  # int or float for each parameter
    options: str  # the struct of the options; "": the launcher has none
    fields: Mapping[str, type]  # the members of that struct, with their types
    # Each array's name and its pointer type for cffi.
    casts: tuple[tuple[str, Any], ...]

    def pointers(self, tensors: Mapping[str, torch.Tensor | None]) -> list[Any]:
        """Return the first arguments: the arrays' pointers, NULL for missing arrays."""
        return [native.pointer(tensors.get(n), ctype) for n, ctype in self.casts]

    def values(self, given: Mapping[str, Any]) -> list[Any]:
        """Return the next arguments: numbers, and options (NULL if all are 0).

        An option that is not given is 0.
        """
        found = [given[name] for name in self.numbers]
        if self.options:
            fields = [given.get(name, 0) for name in self.fields]
            struct = f"struct {self.options} *"
            found.append(native.ffi.new(struct, fields) if any(fields) else native.NULL)
        return found


def read_launcher(function: str) -> OpLauncher | None:
    """Return the launcher that weft.h declares as `function`, or None if there is none.

    Raises ArgumentError if the parameters are not in the order that weft.h prescribes.
    """
    found = _read_declarations((build.KERNELS / "weft.h").read_text()).get(function)
    if found is None:
        return None
    first, *rest, last = (" ".join(word.split()) for word in found.split(","))
    parameters = [_parse_parameter(function, text) for text in rest]
    kinds = [kind for kind, _, _ in parameters]
    ends = (first, last) == ("int rung", "weft_stream stream")
    in_order = kinds == sorted(kinds, key=ORDER.index)
    if not ends or not in_order or kinds.count("options") > 1:
        raise ArgumentError(
            f"weft.h: {function}() does not take rung, outputs, inputs, sizes, "
            f"options, stream in this order"
        )
    return _parse_launcher(function, parameters)


@functools.lru_cache(1)
def _read_declarations(header: str) -> dict[str, str]:
    """Return the parameters, as text, of each function that returns an int."""
    return dict(re.findall(r"^int (\w+)\(([^)]*)\);", header, re.M))


def _parse_launcher(function: str, parameters: list) -> OpLauncher:
    """Return a launcher. parameters: (kind, type, name) of each."""

    def names(kind: str) -> tuple[str, ...]:
        return tuple(name for k, _, name in parameters if k == kind)

    arrays = {n: _DTYPES[t] for kind, t, n in parameters if kind in ("output", "input")}
    numbers = {name: _number(t) for kind, t, name in parameters if kind == "number"}
    struct = next((t for kind, t, _ in parameters if kind == "options"), "")
    fields = native.ffi.typeof(f"struct {struct}").fields if struct else []
    return OpLauncher(
        *(function, arrays, names("output"), names("input"), numbers, struct),
        {name: _number(field.type.cname) for name, field in fields},
        tuple((n, native.ffi.typeof(_CTYPES[dtype])) for n, dtype in arrays.items()),
    )


def _parse_parameter(function: str, text: str) -> tuple[str, str, str]:
    """Return kind, type and name of one parameter of a launcher."""
    for kind, pattern in _KINDS.items():
        if found := re.fullmatch(pattern, text):
            return kind, found[1], found[2]
    raise ArgumentError(
        f"weft.h: {function}() takes '{text}': expected an array of "
        f"{', '.join(_DTYPES)}, an int, size_t or float, or a struct of options"
    )


def _number(ctype: str) -> type:
    return float if ctype == "float" else int


ANY = ("...",)  # the dimensions of an array of any shape
# Under this key, bind() returns the leading dimensions that it has folded into one. In
# an op's shapes, the key marks an array whose leading dimensions may be folded.
LEADING = "*"
Tensors = dict[str, torch.Tensor | None]
Extents = Callable[[str, Mapping[str, Any]], Sequence[int]]


@dataclass(frozen=True)
class OpInput:
    """An array among the arguments of an op."""

    name: str
    at: int  # position among the arguments
    dtypes: tuple[torch.dtype, ...]  # the dtypes that it may have
    optional: bool  # whether it may be None
    dims: tuple[str, ...]
    # (axis, size name) of dimensions shared with an earlier input
    known: tuple[tuple[int, str], ...]
    many: bool  # whether its first dimension may be several dimensions folded into one


@dataclass(frozen=True)
class OpOutput:
    """An array that a call must allocate, with an existing shape or new extents."""

    name: str
    dtype: torch.dtype
    like: str  # name of an array of the same shape, or ""
    extents: Extents


class CallPlan:
    """A plan for calling the launchers of an op."""

    def __init__(self, op: Op):
        self.op, self.name, parameters = op, op.name, list(op.parameters)
        found = read_launcher(f"weft_{op.name}")
        if found is None:
            raise ArgumentError(f"weft.h declares no weft_{op.name}()")
        if missing := found.dtypes.keys() - op.shapes.keys():
            raise ArgumentError(f"{op.name}: its Op has no shape of {missing}")
        self.launcher = found
        self.backward = read_launcher(f"weft_{op.name}_backward")
        self.inputs = self._read_inputs(parameters)
        self.names = [i.name for i in self.inputs]
        self.options = [
            (at, f"{op.name}: {name}", op.shapes.get(name, (name,)))
            for at, name in enumerate(parameters)
            if name not in found.dtypes
        ]
        self.kinds = found.numbers | found.fields
        self.count = self._name_of_count()
        self.in_place = [i for i in self.inputs if i.name in found.outputs]
        self.result = found.outputs[0]
        needed = [i.name for i in self.inputs if not i.optional]
        self.outputs = self._outputs(found, needed)
        if self.backward:
            self._read_backward(self.backward)
        made = self.backward.outputs if self.backward else ()
        self.constant = [name for name in self.names if f"d{name}" not in made]

    def _read_inputs(self, parameters: list[str]) -> list[OpInput]:
        found: list[OpInput] = []
        seen: set[str] = set()
        for at, name in enumerate(parameters):
            if dtype := self.launcher.dtypes.get(name):
                dims = self.op.shapes[name]
                known = tuple((axis, d) for axis, d in enumerate(dims) if d in seen)
                optional = self.op.parameters[name].default is None
                many = name in self.op.many
                dtypes = self.dtypes_of(name, dtype)
                found.append(OpInput(name, at, dtypes, optional, dims, known, many))
                seen.update(dims)
        return found

    def _name_of_count(self) -> str:
        """Return weft.h's name for the element count of an array of any shape."""
        given = {dim for i in self.inputs for dim in i.dims}
        given |= {name for *_, names in self.options for name in names}
        given |= {"kind"} if self.op.words else set()
        left = [name for name in self.kinds if name not in given]
        if len(left) > (ANY[0] in given):
            raise ArgumentError(
                f"weft.h: {self.launcher.function}() takes {left[-1]}, which neither "
                f"a shape nor a parameter of {self.name} determines"
            )
        return left[0] if left else ""

    def _outputs(self, launcher: OpLauncher, there: list[str]) -> list[OpOutput]:
        """Return the arrays that a call must allocate if the arrays `there` exist."""
        made: list[OpOutput] = []
        like = {self.op.array(name): name for name in reversed(there)}
        for name in launcher.outputs:
            if name not in self.names:
                array = self.op.array(name)
                extents, dtype = self.op.extents[array], launcher.dtypes[name]
                shape = self.op.shapes[array]
                twins = [n for a, n in like.items() if self.op.shapes[a] == shape]
                made.append(OpOutput(name, dtype, (twins or [""])[0], extents))
                like.setdefault(array, name)
        return made

    def _read_backward(self, launcher: OpLauncher) -> None:
        self.gradient = f"d{self.result}"  # name of the incoming gradient
        self.gradients = [f"d{name}" for name in self.names]
        forward = {*self.names, *self.launcher.outputs}
        self.saved = [name for name in launcher.inputs if name in forward]
        known = {*forward, *self.gradients, self.gradient}
        if unknown := launcher.dtypes.keys() - known:
            raise ArgumentError(
                f"weft.h: {launcher.function}() takes {unknown}, neither an array of "
                f"{self.launcher.function}() nor the gradient of one"
            )
        self.made = self._outputs(launcher, [*self.saved, self.gradient])

    # ---- arguments ---------------------------------------------------------------

    def bind(self, args: Sequence[Any]) -> tuple[Tensors, dict[str, Any]]:
        """Return the arrays among the arguments as tensors, and all numbers by name.

        Refuses arrays that are on different devices, or whose shapes do not fit.
        """
        tensors: Tensors = {}
        numbers: dict[str, Any] = {}
        device = leading = None
        for i in self.inputs:
            array = args[i.at]
            if array is None and i.optional:
                tensors[i.name] = None
                continue
            tensor = tensors[i.name] = tensor_of(self.name, i.name, array, *i.dtypes)
            where = tensor.get_device()
            if device is None:
                device = where
            elif where != device:
                want_one_device(self.name, tensors)
            shape = tensor.shape
            if i.many:
                leading = shape[:-1] if leading is None else leading
                if shape[:-1] != leading:
                    self._refuse(i, tensors, numbers)
            if i.many and len(shape) != 2 and len(shape):
                numbers[LEADING] = shape[:-1]
                shape = shape[:-1].numel(), shape[-1]
            if i.dims is ANY:
                numbers[self.count] = tensor.numel()
                shape = (shape,)
            if len(shape) != len(i.dims):
                self._refuse(i, tensors, numbers)
            for axis, dim in i.known:
                if shape[axis] != numbers[dim]:
                    self._refuse(i, tensors, numbers)
            if len(i.known) < len(i.dims):
                numbers.update(zip(i.dims, shape))
        if self.op.words:
            numbers["kind"] = WORDS.index(tensors[self.inputs[0].name].dtype)
        for at, what, names in self.options:
            for name, value in zip(names, spread_values(what, names, args[at])):
                numbers[name] = number_of(what, value, self.kinds[name])
        if LEADING in numbers:
            for i in self.inputs:
                if i.many and tensors[i.name] is not None:
                    sizes = [numbers[dim] for dim in i.dims]
                    tensors[i.name] = tensors[i.name].view(sizes)
        return tensors, numbers

    def dtypes_of(self, name: str, dtype: torch.dtype) -> tuple[torch.dtype, ...]:
        """Return the dtypes that an array of weft.h's type `dtype` may have."""
        return WORDS if name in self.op.words.values() else (dtype,)

    def _refuse(self, i: OpInput, tensors: Tensors, known: Mapping[str, Any]) -> None:
        """Raise ArgumentError for an array whose shape does not fit other shapes."""
        dims = known[ANY[0]] if i.dims is ANY else [known.get(d, d) for d in i.dims]
        refuse_shape(self.name, i.name, tensors[i.name].shape, dims, tensors)

    def want_room(self, args: Sequence[Any], tensors: Tensors) -> None:
        """Refuse an array that the op must write to but cannot."""
        for i in self.in_place:
            others = {name: t for name, t in tensors.items() if name != i.name}
            want_writable(self.name, i.name, args[i.at])
            want_no_overlap(self.name, i.name, tensors[i.name], others)

    def want_gradients(self, tensors: Tensors) -> None:
        """Refuse a call that would silently lose a gradient."""
        instead = f"{self.op.instead} has gradients; or " if self.op.instead else ""
        for name in self.constant:
            if tensors[name] is not None and tensors[name].requires_grad:
                raise ArgumentError(
                    f"{self.name}: no gradient flows to {name}: {instead}call it under "
                    f"torch.no_grad()"
                )

    def is_empty(self, tensors: Tensors, numbers: Mapping[str, Any]) -> bool:
        """Return whether an array is empty, so that there is nothing to launch."""
        return 0 in numbers.values() and any(
            t is not None and not t.numel() for t in tensors.values()
        )

    def want_values(self, tensors: Tensors, numbers: Mapping[str, Any]) -> None:
        """Refuse integers that must be below a size if that size is 0."""
        for name, size in self.op.below.items():
            if numbers[size] == 0 and tensors[name].numel():
                raise ArgumentError(
                    f"{self.name}: {describe_shapes(tensors)}: no {name} can be "
                    f"below {size} = 0"
                )

    # ---- calls -------------------------------------------------------------------

    def forward(
        self, rung: str | None, tensors: Tensors, numbers: Mapping[str, Any]
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Launch the op, add its outputs to `tensors`, and return the first output.

        If another output contains its length, the result is cut to it. An op with
        several results returns those that exist.
        """
        y = self.forward_whole(rung, tensors, numbers)
        if self.op.length:
            return y[: tensors[self.op.length].item()]
        results = [tensors.get(name) for name in self.op.results]
        there = tuple(array for array in results if array is not None)
        return there if len(there) > 1 else y

    def forward_whole(
        self, rung: str | None, tensors: Tensors, numbers: Mapping[str, Any]
    ) -> torch.Tensor:
        """Launch the op, add its outputs to `tensors`, and return the whole first one.

        The host therefore need not wait for a length.
        """
        first = tensors[self.inputs[0].name]
        for out in self.outputs:
            if tensors.get(self.op.extra.get(out.name, self.names[0])) is None:
                continue
            words = self.op.words.get(out.name)
            dtype = tensors[words].dtype if words else out.dtype
            if out.like:
                made = torch.empty_like(tensors[out.like], dtype=dtype)
            else:
                shape = out.extents(self.name, numbers)
                made = make_empty(self.name, first, *shape, dtype=dtype)
            tensors[out.name] = made
        args = self.launcher.pointers(tensors)
        args += self.launcher.values(numbers)
        launch(self.name, self.launcher.function, rung, first, args)
        return tensors[self.result]

    def of_nothing(
        self, rung: str | None, tensors: Tensors, numbers: Mapping[str, Any]
    ) -> torch.Tensor:
        """Return the result for an empty array without a launch.

        The twin computes the result and its gradients. Usually these are zeros, but the
        result may be a bias, or NaN for a mean.
        """
        want_rung(self.name, rung, tensors[self.inputs[0].name])
        self.want_values(tensors, numbers)
        given: dict[str, Any] = dict(tensors)
        for at, _, names in self.options:
            values = [numbers[name] for name in names]
            given[[*self.op.parameters][at]] = values if len(values) > 1 else values[0]
        try:
            return self.op.twin(**given)
        except (RuntimeError, ValueError, IndexError) as error:
            why = str(error).partition("\n")[0]
            raise ArgumentError(
                f"{self.name}: {describe_shapes(tensors)}: PyTorch refuses it, "
                f"too: {why}"
            ) from None

    def backwards(
        self,
        rung: str | None,
        tensors: Tensors,
        numbers: Mapping[str, Any],
        wanted: Sequence[bool],
    ) -> list[torch.Tensor | None]:
        """Launch the backward pass; return the gradient of each wanted input."""
        first, needs = tensors[self.gradient], dict(zip(self.gradients, wanted))
        for out in self.made:
            if needs[out.name] or out.name not in self.op.skipped:
                if out.like and tensors[out.like] is not None:
                    tensors[out.name] = torch.empty_like(tensors[out.like])
                else:
                    tensors[out.name] = first.new_empty(out.extents(self.name, numbers))
        args = self.backward.pointers(tensors)
        args += self.backward.values(numbers)
        launch(self.name, self.backward.function, rung, first, args)
        return [tensors.get(name) if need else None for name, need in needs.items()]


class Differentiable(torch.autograd.Function):
    """A call of an op, recorded by autograd."""

    @staticmethod
    def forward(ctx, given, *inputs):
        plan, rung, numbers = ctx.given = given
        ctx.op = plan.name
        tensors = dict(zip(plan.names, inputs))
        y = plan.forward(rung, tensors, numbers)
        ctx.save_for_backward(*map(tensors.get, plan.saved))
        # Gradients flow from the first output alone.
        ctx.mark_non_differentiable(*(y[1:] if isinstance(y, tuple) else ()))
        return y

    @staticmethod
    @refuse_second_gradient
    def backward(ctx, dy, *_):
        plan, rung, numbers = ctx.given
        tensors = dict(zip(plan.saved, ctx.saved_tensors))
        tensors[plan.gradient] = dy.contiguous()
        return None, *plan.backwards(rung, tensors, numbers, ctx.needs_input_grad[1:])


def refuse_shape(
    op: str, name: str, shape: Sequence[Any], want: Sequence[Any], tensors: Tensors
) -> NoReturn:
    """Raise ArgumentError for an array that does not fit the others in `tensors`.

    want: the expected dimensions, or the names of unknown ones.
    """
    wanted = f"({', '.join(map(str, want))}{',' * (len(want) == 1)})"
    others = describe_shapes({n: t for n, t in tensors.items() if n != name})
    since = f", since {others}" if others else ""
    raise ArgumentError(f"{op}: {name} is {tuple(shape)}, expected {wanted}{since}")


def describe_shapes(tensors: Tensors) -> str:
    """Format shapes: x is (2, 3), weight is (4, 3)."""
    there = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    return ", ".join(f"{name} is {shape_of(t)}" for name, t in there.items())


def spread_values(what: str, names: Sequence[str], value: Any) -> Sequence[Any]:
    """Return one value for each name; a single value applies to all names."""
    if len(names) == 1:
        return (value,)
    values = value if isinstance(value, Sequence) else (value,)
    if len(values) == 1:
        return [values[0]] * len(names)
    if len(values) == len(names):
        return values
    raise ArgumentError(f"{what}={write_value(value)}: expected one or {len(names)}")
