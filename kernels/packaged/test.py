"""The test of a package that `python -m weft package` has built: python -m NAME.test.

This file is part of the package, as test.py. It needs NumPy. With PyTorch and with a
GPU, it tests more.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .packaged import ARRAYS, KernelError, Launcher, Package

SHAPE = (7, 143)  # 143 is not a multiple of a warp; 1001 elements in total


def make_sample(launcher: Launcher) -> list[Any]:
    """Return arguments for a launcher that returns arrays.

    Numbers of arrays have magnitudes from 0.25 to 1, so that no step of a numeric
    gradient crosses 0, where ReLU has a kink.
    """
    args: list[Any] = []
    for at, param in enumerate(launcher.shown):
        if param["role"] in ARRAYS:
            ramp = np.arange(1, math.prod(SHAPE) + 1, dtype=np.int64)
            dtype = param["dtypes"][0] if param["dtypes"] else "float32"
            if np.dtype(dtype).kind == "f":
                part = (ramp * (0.618 + 0.1 * at)) % 1
                values = np.where(ramp * (at + 3) % 5 < 2, -1, 1) * (0.25 + 0.75 * part)
            else:
                values = ramp % 7
            args.append(values.reshape(SHAPE).astype(dtype))
        else:
            args.append(1 if param["code"] not in "fd" else 0.75 / (at + 1))
    return args


def probe(package: Package) -> dict[str, Any]:
    """Run each launcher that may return arrays, on the CPU.

    Returns, for each, the numbers that it computes, or the reason why its caller must
    pass the outputs. Outputs begin with bytes 00, then with bytes FF. If the results
    differ, the kernel reads an output or leaves a part of it.
    """
    found: dict[str, Any] = {}
    for name, launcher in package.launchers.items():
        if not launcher.returns:
            continue
        try:
            args = make_sample(launcher)
            given = {p["name"]: arg for p, arg in zip(launcher.shown, args)}
            results = []
            for byte in (0x00, 0xFF):
                outputs = launcher.make_outputs(given)
                for array in outputs.values():
                    array.view(np.uint8)[...] = byte
                sizes = launcher.measure(args[0])
                launcher.launch(given | sizes | outputs)
                results.append(outputs)
        except (KernelError, TypeError, ValueError) as error:
            found[name] = str(error)
            continue
        first, second = results
        changed = [k for k in first if first[k].tobytes() != second[k].tobytes()]
        if changed:
            found[name] = f"{name} reads {changed[0]} or leaves a part of it"
        else:
            found[name] = [array.ravel()[::13].tolist() for array in first.values()]
    return found


def test(package: Package) -> int:
    """Test the package on this machine; print a line for each function.

    Functions that return arrays must compute the numbers that they computed when the
    package was built, to 1e-5 of the largest. Gradients are compared with central
    differences, to 1 %. With PyTorch, ops must pass opcheck() and give the bits that
    NumPy's arrays give. With a GPU, its results must agree to 1e-4.

    Returns the number of failures.
    """
    expected = json.loads((package.folder / "expected.json").read_text())
    failures = 0
    for name, launcher in package.launchers.items():
        if not launcher.returns:
            getattr(package.open_library("cpu"), f"weft_packed_{name}")
            print(f"loaded {name}, which is not run: it has no sample arguments")
            continue
        try:
            checks = [check() for check in make_checks(launcher, expected[name])]
            print(f"ok     {name}: {', '.join(filter(None, checks))}")
        except Exception as error:
            failures += 1
            print(f"FAILED {name}: {type(error).__name__}: {error}")
    return failures


def make_checks(
    launcher: Launcher, expected: list[list[float]]
) -> list[Callable[[], str]]:
    """Return the checks of one launcher; each returns its name, or "" if skipped."""
    package, args = launcher.package, make_sample(launcher)

    def list_results(args: Sequence[Any]) -> list[Any]:
        found = package.run(launcher.name, *args)
        return list(found) if isinstance(found, (tuple, list)) else [found]

    def check_numbers() -> str:
        compare(list_results(args), expected, 1e-5)
        return "the numbers of the build"

    def check_refusals() -> str:
        try:
            package.run(launcher.name, args[0].astype("complex64"), *args[1:])
        except TypeError:
            return ""
        raise AssertionError("an array of complex numbers was accepted")

    def check_torch() -> str:
        torch = import_torch()
        if torch is None:
            return "no PyTorch here"
        package.register_ops()
        op = getattr(getattr(torch.ops, package.name), launcher.name).default
        tensors = tuple(move(torch, arg, "cpu") for arg in args)
        found = op(*tensors)
        found = found if isinstance(found, (tuple, list)) else [found]
        for row in zip(list_results(args), list_results(tensors), found):
            if len({np.asarray(one).tobytes() for one in row}) > 1:
                raise AssertionError("NumPy's arrays and tensors give different bits")
        torch.library.opcheck(op, tensors)
        return "PyTorch's opcheck()"

    def check_gradient() -> str:
        torch = import_torch()
        if torch is None or launcher.backward is None:
            return ""
        compare_slopes(torch, package, launcher, args)
        return "gradient"

    def check_gpu() -> str:
        torch = import_torch()
        if torch is None or not torch.cuda.is_available():
            return "no GPU here"
        results = list_results([move(torch, arg, "cuda") for arg in args])
        compare([one.cpu().numpy() for one in results], expected, 1e-4)
        return torch.cuda.get_device_name()

    return [check_numbers, check_refusals, check_torch, check_gradient, check_gpu]


def import_torch() -> Any:
    """Return PyTorch, or None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def move(torch: Any, arg: Any, device: str) -> Any:
    return torch.tensor(arg, device=device) if isinstance(arg, np.ndarray) else arg


def compare(arrays: Sequence[Any], expected: list[list[float]], share: float) -> None:
    """Raise AssertionError if an array differs by more than a share of the largest."""
    for array, row in zip(arrays, expected):
        wanted, found = np.array(row, float), array.ravel()[::13].astype(float)
        allowed = share * max(np.abs(wanted).max(), 1e-30)
        worst = np.abs(found - wanted).max()
        if not worst <= allowed:
            text = f"a result differs by {worst:.3g}, at most {allowed:.3g} is allowed"
            raise AssertionError(text)


def compare_slopes(torch: Any, package: Package, launcher: Launcher, args: Any) -> None:
    """Compare the gradient of sum(w y) for each array x with a central difference."""
    floats = [i for i, arg in enumerate(args) if getattr(arg, "dtype", "") == "float32"]
    names = {p["name"] for p in launcher.backward.outputs}
    for i in floats:
        if f"d{launcher.shown[i]['name']}" not in names:
            continue
        tensors = [move(torch, arg, "cpu") for arg in args]
        x = tensors[i].requires_grad_()
        y = package.run(launcher.name, *tensors)
        weight = torch.linspace(-1, 1, y.numel()).reshape(y.shape)
        (y * weight).sum().backward()
        step = torch.linspace(1, 2, x.numel()).reshape(x.shape) / 64
        sides = []
        for sign in (1, -1):
            tensors[i] = x.detach() + sign * step
            sides.append(package.run(launcher.name, *tensors).double())
        numeric = (sides[0] - sides[1]) / 2 * weight
        wanted, found = numeric.sum().item(), (x.grad.double() * step).sum().item()
        allowed = 0.01 * numeric.abs().sum().item()
        if not abs(found - wanted) <= allowed:
            text = f"the gradient along one direction is {found:.6g}, central "
            text += f"differences give {wanted:.6g}, within {allowed:.2g}"
            raise AssertionError(text)


if __name__ == "__main__":
    package = Package(Path(__file__).parent)
    if sys.argv[1:] == ["--probe"]:  # `weft package` reads this output
        print(json.dumps(probe(package)))
    else:
        sys.exit(test(package) > 0)
