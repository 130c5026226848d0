"""The functions of a package that `python -m weft package` has built.

This file is part of the package. It needs NumPy, and PyTorch only for tensors.
launchers.json describes the launchers, and one shared library for each target contains
them: cpu.so runs the kernels on the CPU, and cuda.so contains cubins.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import math
import struct
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

C_TYPES = {
    **{"?": ctypes.c_bool, "b": ctypes.c_int8, "B": ctypes.c_uint8},
    **{"h": ctypes.c_int16, "H": ctypes.c_uint16, "i": ctypes.c_int32},
    **{"I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64},
    **{"f": ctypes.c_float, "d": ctypes.c_double},
}
ARRAYS = ("output", "input")
POINTERS = (*ARRAYS, "stream")
SIZES = ("count", "rows", "cols")
CPU = ("cpu", 0)


class KernelError(RuntimeError):
    """A launch failed, or the package has no kernel for this device."""


def choose_cubin(capability: tuple[int, int], cubins: Iterable[str]) -> str | None:
    """Return the name of the cubin that a GPU loads; None if it can load none.

    capability: the GPU's compute capability. cubins: names such as "80" or "90a".

    A cubin runs on GPUs of its major version whose minor version is not lower. One with
    an "a" uses features of a single capability, and runs only there. Source: CUDA C++
    Programming Guide, section Compute Capability and Binary Compatibility.
    """
    fitting = []
    for name in cubins:
        major, minor = split_capability(name)
        is_exact = (major, minor) == capability
        if is_exact or (
            not name.endswith("a") and major == capability[0] and minor < capability[1]
        ):
            fitting.append((minor, name))
    return max(fitting)[1] if fitting else None


def split_capability(cubin: str) -> tuple[int, int]:
    """Return (9, 0) for "90a", the name of a cubin."""
    return divmod(int(cubin.rstrip("a")), 10)


def describe_misfit(capability: tuple[int, int], cubins: Iterable[str]) -> str:
    """Return a sentence on a GPU that can load none of the cubins."""
    names = [
        "{}.{}".format(*split_capability(name)) + "a" * name.endswith("a")
        for name in cubins
    ]
    return (
        f"this GPU has compute capability {capability[0]}.{capability[1]}, and the "
        f"package has cubins for {', '.join(names)}"
    )


class Package:
    """The launchers of one package.

    folder: the package's folder, with launchers.json and the libraries
    """

    def __init__(self, folder: Path):
        self.folder, self.name = folder, folder.name
        facts = json.loads((folder / "launchers.json").read_text())
        self.cubins: dict[str, int] = facts["cubins"]  # sizes in bytes
        self.launchers = {
            row["name"]: Launcher(self, row) for row in facts["launchers"]
        }
        self._libraries: dict[str, Any] = {}
        self._fitting: set[int] = set()  # GPUs that can load a cubin
        self._ops: Any = None  # the torch.library.Library
        # torch.compile() cannot trace the registration, so it precedes the first call.
        if hasattr(sys.modules.get("torch.library"), "register_autograd"):
            self.register_ops()

    def run(self, name: str, *args: Any) -> Any:
        """Call a launcher with the arguments of its Python function."""
        launcher = self.launchers[name]
        if launcher.returns and self._ops is None and any(map(is_tensor, args)):
            self.register_ops()
        if not launcher.returns or is_direct(args):
            return launcher.call(*args)
        return getattr(getattr(sys.modules["torch"].ops, self.name), name)(*args)

    def open_library(self, target: str) -> Any:
        """Return the library for "cpu" or "cuda"; raise KernelError without one."""
        if target not in self._libraries:
            path = self.folder / f"{target}.so"
            if not path.exists():
                there = "only the CPU build" if target == "cuda" else "no CPU build"
                raise KernelError(f"{self.name} has {there}")
            library = ctypes.CDLL(str(path))
            library.weft_packed_error.restype = ctypes.c_char_p
            self._libraries[target] = library
        return self._libraries[target]

    def want_cubin(self, index: int) -> None:
        """Raise KernelError if the GPU cannot load any cubin of the package."""
        if index in self._fitting:
            return
        capability = sys.modules["torch"].cuda.get_device_capability(index)
        if choose_cubin(capability, self.cubins) is None:
            text = describe_misfit(capability, self.cubins)
            raise KernelError(f"{self.name}: {text}")
        self._fitting.add(index)

    def register_ops(self) -> None:
        """Register torch.ops.NAME.LAUNCHER for each launcher that returns arrays."""
        if self._ops is not None:
            return
        import torch

        self._ops = torch.library.Library(self.name, "FRAGMENT")
        for launcher in self.launchers.values():
            if launcher.returns:
                launcher.register_op(torch, self._ops)


class Launcher:
    """One launcher of a package.

    returns: whether its Python function creates and returns the outputs. Otherwise it
    has the parameters of C, except for the stream.
    """

    def __init__(self, package: Package, row: dict[str, Any]):
        self.package = package
        self.name: str = row["name"]
        self.returns: bool = row["returns"]
        self.params: list[dict[str, Any]] = row["params"]
        self.outputs = [p for p in self.params if p["role"] == "output"]
        self.arrays = [p for p in self.params if p["role"] in ARRAYS]
        hidden = {"stream"} | ({"output", *SIZES} if self.returns else set())
        self.shown = [p for p in self.params if p["role"] not in hidden]
        self._functions: dict[str, Any] = {}  # by target

    @property
    def backward(self) -> Launcher | None:
        found = self.package.launchers.get(f"{self.name}_backward")
        return found if found and found.returns else None

    def call(self, *args: Any) -> Any:
        """Run the kernels; return the outputs if self.returns."""
        if len(args) != len(self.shown):
            names = ", ".join(p["name"] for p in self.shown)
            raise TypeError(
                f"{self.name}({names}) takes {len(self.shown)} arguments, but "
                f"{len(args)} are given"
            )
        given = {p["name"]: arg for p, arg in zip(self.shown, args)}
        if not self.returns:
            self.launch(given)
            return None
        first = self._check_shapes(given)
        results = self.make_outputs(given)
        if math.prod(first.shape):
            self.launch(given | self.measure(first) | results)
        found = (*results.values(),)
        return found if len(found) > 1 else found[0]

    def make_outputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return new arrays: dx has the shape of x if x is given; every other output
        has the shape of the first array."""
        results = {}
        for param in self.outputs:
            like = given.get(param["name"][1:], self._first(given))
            results[param["name"]] = make_like(like, param["dtypes"])
        return results

    def measure(self, first: Any) -> dict[str, int]:
        """Return the sizes that follow from the shape of the first array."""
        count = math.prod(first.shape)
        cols = first.shape[-1] if len(first.shape) else 1
        sizes = {"count": count, "cols": cols, "rows": count // max(cols, 1)}
        return {p["name"]: sizes[p["role"]] for p in self.params if p["role"] in SIZES}

    def launch(self, values: dict[str, Any]) -> None:
        """Call the C function with a value for each parameter except the stream."""
        words: list[Any] = []
        devices: set[tuple[str, int]] = set()
        for param in self.params:
            name = param["name"]
            if param["role"] == "stream":
                words.append(None)
            elif param["role"] not in ARRAYS:
                what = f"{self.name}: {name}"
                words.append(convert_number(what, param["code"], values[name]))
            else:
                address, device = self._locate(param, values[name])
                words.append(address)
                if device:
                    devices.add(device)
        if len(devices) > 1:
            names = " and ".join(f"{d[0]}:{d[1]}" for d in sorted(devices))
            raise ValueError(f"{self.name}: the arrays are on two devices: {names}")
        target, index = next(iter(devices), CPU)
        if target not in ("cpu", "cuda"):
            raise KernelError(f"{self.name} has no kernel for the device {target}")
        function = self._functions.get(target) or self._find_function(target)
        if target == "cpu":
            status = function(*words)
        else:
            self.package.want_cubin(index)
            torch = sys.modules["torch"]
            with torch.cuda.device(index):
                status = function(*self._add_stream(torch, words))
        if status:
            library = self.package.open_library(target)
            message = library.weft_packed_error(status).decode()
            raise KernelError(f"{self.name}: {message}")

    def _find_function(self, target: str) -> Any:
        """Return the C function for a target, with its types."""
        library = self.package.open_library(target)
        function = getattr(library, f"weft_packed_{self.name}")
        function.argtypes = [
            C_TYPES[p["code"]] if p["role"] not in POINTERS else ctypes.c_void_p
            for p in self.params
        ]
        self._functions[target] = function
        return function

    def _add_stream(self, torch: Any, words: list[Any]) -> list[Any]:
        """Return the arguments with PyTorch's stream, on which the kernels run."""
        stream = torch.cuda.current_stream()
        roles = [p["role"] for p in self.params]
        if "stream" not in roles and stream.cuda_stream:
            # Without the parameter, the kernels run on the default stream.
            raise KernelError(
                f"{self.name} has no parameter of type cudaStream_t, so that it runs "
                f"only on PyTorch's default stream"
            )
        handle = stream.cuda_stream
        return [handle if r == "stream" else w for r, w in zip(roles, words)]

    def _first(self, given: dict[str, Any]) -> Any:
        return next(given[p["name"]] for p in self.arrays if p["name"] in given)

    def _check_shapes(self, given: dict[str, Any]) -> Any:
        """Return the first array; raise an error if another does not fit it."""
        shown = [p["name"] for p in self.shown if p["role"] in ARRAYS]
        for name in shown:
            self._want_array(name, given[name])
        first = given[shown[0]]
        allowed = {math.prod(first.shape), *self.measure(first).values()}
        for name in shown[1:]:
            shape = given[name].shape
            if math.prod(shape) not in allowed:
                raise ValueError(
                    f"{self.name}: {name} has the shape {(*shape,)}, but {shown[0]} "
                    f"has {(*first.shape,)}"
                )
        return first

    def _want_array(self, name: str, value: Any) -> None:
        if not (isinstance(value, np.ndarray) or is_tensor(value)):
            kind = type(value).__name__
            text = f"expects a NumPy array or a torch tensor, not {kind}"
            raise TypeError(f"{self.name}: {name} {text}")

    def _locate(self, param: dict[str, Any], value: Any) -> Any:
        """Return the address and the device of an array, or raise an error.

        The device is ("cpu", 0) or ("cuda", index). None becomes the address None.
        """
        if value is None:
            return None, None
        self._want_array(param["name"], value)
        what, tensor = f"{self.name}: {param['name']}", is_tensor(value)
        dtype = name_dtype(value.dtype)
        if param["dtypes"] and dtype not in param["dtypes"]:
            raise TypeError(f"{what} is {dtype}, expected {param['dtypes'][0]}")
        is_dense = value.is_contiguous() if tensor else value.flags.c_contiguous
        if not is_dense:
            advice = ".contiguous()" if tensor else "numpy.ascontiguousarray()"
            raise ValueError(f"{what} is not contiguous: pass a copy, with {advice}")
        if param["role"] == "output":
            if tensor and value.requires_grad:
                text = "requires a gradient, but the kernel writes to it"
                raise ValueError(f"{what} {text}: pass .detach()")
            if not tensor and not value.flags.writeable:
                raise ValueError(f"{what} is read-only, but the kernel writes to it")
        if not tensor:
            return value.ctypes.data, CPU
        if value.is_cpu:
            return value.data_ptr(), CPU
        return value.data_ptr(), (value.device.type, value.device.index or 0)

    # ---- PyTorch ----

    def register_op(self, torch: Any, library: Any) -> None:
        """Register torch.ops.PACKAGE.NAME with its shapes and its gradient."""
        kinds = {"?": "bool", "f": "float", "d": "float"}
        words = [
            f"{'Tensor' if p['role'] in ARRAYS else kinds.get(p['code'], 'int')} "
            f"{p['name']}"
            for p in self.shown
        ]
        results = ", ".join(["Tensor"] * len(self.outputs))
        results = f"({results})" if len(self.outputs) > 1 else results
        full = f"{self.package.name}::{self.name}"
        define = torch.library
        define.define(full, f"({', '.join(words)}) -> {results}", lib=library)
        define.impl(full, ("cpu", "cuda"), self.call, lib=library)
        define.register_fake(full, self._infer, lib=library)
        setup = self._remember
        define.register_autograd(
            full, self._differentiate, setup_context=setup, lib=library
        )

    def _infer(self, *args: Any) -> Any:
        """Return empty outputs; torch.compile calls this with fake tensors."""
        given = {p["name"]: arg for p, arg in zip(self.shown, args)}
        results = (*self.make_outputs(given).values(),)
        return results[0] if len(results) == 1 else results

    def _remember(self, ctx: Any, inputs: Any, output: Any) -> None:
        results = output if isinstance(output, tuple) else (output,)
        values = {p["name"]: arg for p, arg in zip(self.shown, inputs)}
        values |= {p["name"]: result for p, result in zip(self.outputs, results)}
        if self.backward is None:
            return
        names = [p["name"] for p in self.backward.shown if p["name"] in values]
        ctx.saved = [name for name in names if is_tensor(values[name])]
        ctx.numbers = {name: values[name] for name in names if name not in ctx.saved}
        ctx.save_for_backward(*(values[name] for name in ctx.saved))

    def _differentiate(self, ctx: Any, *grads: Any) -> Any:
        backward, torch = self.backward, sys.modules["torch"]
        if backward is None:
            text = f"has no gradient: the package has no {self.name}_backward"
            raise NotImplementedError(f"{self.name} {text}")
        values = ctx.numbers | dict(zip(ctx.saved, ctx.saved_tensors))
        for param, grad in zip(self.outputs, grads):
            values[f"d{param['name']}"] = grad.contiguous()
        op = getattr(getattr(torch.ops, self.package.name), backward.name)
        found = op(*(values[p["name"]] for p in backward.shown))
        found = found if isinstance(found, (tuple, list)) else (found,)
        slopes = {p["name"]: one for p, one in zip(backward.outputs, found)}
        return tuple(slopes.get(f"d{p['name']}") for p in self.shown)


def is_tensor(value: Any) -> bool:
    """Return whether `value` is a torch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_direct(args: Sequence[Any]) -> bool:
    """Return whether a call may bypass PyTorch's library of ops, which takes time.

    The library is necessary for gradients, in torch.compile and other transforms, and
    for tensors without data.
    """
    tensors = [arg for arg in args if is_tensor(arg)]
    if not tensors:
        return True
    torch = sys.modules["torch"]
    transformed = getattr(torch._C, "_are_functorch_transforms_active", None)
    modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
    return (
        not torch.compiler.is_compiling()
        and all(type(one) is torch.Tensor and not one.requires_grad for one in tensors)
        and (transformed is not None and not transformed())
        and (modes is not None and not modes())
    )


@functools.cache
def name_dtype(dtype: Any) -> str:
    """Return "float32" for NumPy's dtype or PyTorch's."""
    return str(dtype).removeprefix("torch.")


def make_like(array: Any, dtypes: Sequence[str]) -> Any:
    """Return a new array with the shape and the device of `array`.

    Its dtype is that of `array` if `dtypes` contains it, and otherwise their first.
    """
    dtype = name_dtype(array.dtype)
    if dtypes and dtype not in dtypes:
        dtype = dtypes[0]
    if not is_tensor(array):
        return np.empty(array.shape, dtype)
    torch = sys.modules["torch"]
    return array.new_empty(array.shape, dtype=getattr(torch, dtype))


def convert_number(what: str, code: str, value: Any) -> Any:
    """Return a number of the type `code`; raise ValueError if it does not fit."""
    if code in "fd?":
        with contextlib.suppress(TypeError, ValueError):
            value = bool(value) if code == "?" else float(value)
    elif hasattr(value, "__index__"):
        value = value.__index__()
    try:
        struct.pack(f"={code}", value)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{what} = {value!r:.60}: {error}") from None
    return value
