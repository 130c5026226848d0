"""The functions of a package that `python -m weft package` has built.

This file is part of the package. It needs NumPy, and PyTorch only for
tensors. launchers.json describes the launchers, and one shared library for each target
contains them: cpu.so runs the kernels on the CPU, and cuda.so contains cubins.
"""

from __future__ import annotations

import contextlib
import ctypes
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
SIZES = ("count", "rows", "cols")


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
        self._ops: Any = None  # the torch.library.Library

    def run(self, name: str, *args: Any) -> Any:
        """Call a launcher with the arguments of its Python function."""
        launcher = self.launchers[name]
        if launcher.returns and any(map(is_tensor, args)):
            self.register_ops()
            torch = sys.modules["torch"]
            return getattr(getattr(torch.ops, self.name), name)(*args)
        return launcher.call(*args)

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
        capability = sys.modules["torch"].cuda.get_device_capability(index)
        if self.cubins and choose_cubin(capability, self.cubins) is None:
            text = describe_misfit(capability, self.cubins)
            raise KernelError(f"{self.name}: {text}")

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
        self._ready: set[str] = set()

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
        return (
            next(iter(results.values())) if len(results) == 1 else (*results.values(),)
        )

    def make_outputs(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return new arrays: dx has the shape of x if it is given, and others that of
        the first array."""
        results = {}
        for param in self.outputs:
            like = given.get(param["name"][1:], self._first(given))
            results[param["name"]] = make_like(like, param["dtypes"])
        return results

    def measure(self, first: Any) -> dict[str, int]:
        """Return the sizes that follow from the shape of the first array."""
        count = math.prod(first.shape)
        cols = first.shape[-1] if len(first.shape) else 1
        sizes = {"count": count, "cols": cols, "rows": count // cols}
        return {p["name"]: sizes[p["role"]] for p in self.params if p["role"] in SIZES}

    def launch(self, values: dict[str, Any]) -> None:
        """Call the C function with a value for each parameter except the stream."""
        arrays = [values[p["name"]] for p in self.arrays]
        target, index = self._find_device(arrays)
        words = [
            None if p["role"] == "stream" else self._convert(p, values[p["name"]])
            for p in self.params
        ]
        library = self.package.open_library(target)
        function = getattr(library, f"weft_packed_{self.name}")
        if target == "cpu":
            status = function(*words)
        else:
            self.package.want_cubin(index)
            torch = sys.modules["torch"]
            with torch.cuda.device(index):
                status = function(*self._add_stream(torch, words))
        if status:
            message = library.weft_packed_error(status).decode()
            raise KernelError(f"{self.name}: {message}")

    def _add_stream(self, torch: Any, words: list[Any]) -> list[Any]:
        """Return the words with PyTorch's stream, on which the kernels shall run."""
        stream = torch.cuda.current_stream()
        roles = [p["role"] for p in self.params]
        if "stream" not in roles and stream.cuda_stream:
            # Without the parameter, the kernels run on the default stream.
            raise KernelError(
                f"{self.name} has no parameter of type cudaStream_t, so that it runs "
                f"only on PyTorch's default stream"
            )
        handle = ctypes.c_void_p(stream.cuda_stream)
        return [handle if r == "stream" else w for r, w in zip(roles, words)]

    def _first(self, given: dict[str, Any]) -> Any:
        return next(given[p["name"]] for p in self.arrays if p["name"] in given)

    def _check_shapes(self, given: dict[str, Any]) -> Any:
        """Return the first array; raise ValueError if another does not fit to it."""
        first = self._first(given)
        for param in self.shown:
            if param["role"] in ARRAYS:
                self._find_device([given[param["name"]]])  # it must be an array
        count, roles = math.prod(first.shape), {p["role"] for p in self.params}
        sizes = {count} if "count" in roles else {count, *self.measure(first).values()}
        for param in self.shown:
            if param["role"] not in ARRAYS:
                continue
            array = given[param["name"]]
            if math.prod(array.shape) not in sizes:
                raise ValueError(
                    f"{self.name}: {param['name']} has the shape {(*array.shape,)}, "
                    f"but {self.shown[0]['name']} has {(*first.shape,)}"
                )
        return first

    def _find_device(self, arrays: Sequence[Any]) -> tuple[str, int]:
        """Return ("cpu", 0) or ("cuda", index), the device of all arrays."""
        devices = set()
        for param, array in zip(self.arrays, arrays):
            if array is None:
                continue
            if is_tensor(array):
                devices.add((array.device.type, array.device.index or 0))
            elif isinstance(array, np.ndarray):
                devices.add(("cpu", 0))
            else:
                kind = type(array).__name__
                text = f"expects a NumPy array or a torch tensor, not {kind}"
                raise TypeError(f"{self.name}: {param['name']} {text}")
        if len(devices) > 1:
            names = " and ".join(f"{name}:{index}" for name, index in sorted(devices))
            raise ValueError(f"{self.name}: the arrays are on two devices: {names}")
        target, index = devices.pop() if devices else ("cpu", 0)
        if target not in ("cpu", "cuda"):
            raise KernelError(f"{self.name} has no kernel for the device {target}")
        return target, index

    def _convert(self, param: dict[str, Any], value: Any) -> Any:
        """Return a value as ctypes passes it; raise an error if it does not fit."""
        what = f"{self.name}: {param['name']}"
        if param["role"] not in ARRAYS:
            return convert_number(what, param["code"], value)
        if value is None:
            return ctypes.c_void_p(None)
        tensor = is_tensor(value)
        dtype = str(value.dtype).removeprefix("torch.")
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
        return ctypes.c_void_p(value.data_ptr() if tensor else value.ctypes.data)

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


def make_like(array: Any, dtypes: Sequence[str]) -> Any:
    """Return a new array with the shape and the device of `array`.

    Its dtype is that of `array` if `dtypes` contains it, and otherwise their first.
    """
    dtype = str(array.dtype).removeprefix("torch.")
    if dtypes and dtype not in dtypes:
        dtype = dtypes[0]
    if not is_tensor(array):
        return np.empty(array.shape, dtype)
    torch = sys.modules["torch"]
    return array.new_empty(array.shape, dtype=getattr(torch, dtype))


def convert_number(what: str, code: str, value: Any) -> Any:
    """Return a number as ctypes passes it; raise ValueError if it does not fit."""
    if code in "fd?":
        with contextlib.suppress(TypeError):
            value = bool(value) if code == "?" else float(value)
    elif hasattr(value, "__index__"):
        value = value.__index__()
    try:
        struct.pack(f"={code}", value)
    except (struct.error, OverflowError) as error:
        raise ValueError(f"{what} = {value!r:.60}: {error}") from None
    return C_TYPES[code](value)
