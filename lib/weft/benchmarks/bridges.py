"""Compare bridges from PyTorch to a kernel: `python -m weft bench bridges`.

Each bridge leads to the same loops in C, kernels/polynomial/bridges/polynomial.c, and
connect_NAME() builds it:

    cffi         a call to C, without a gradient
    function     the same, inside a torch.autograd.Function
    library      the same, as an op of torch.library with a fake and a gradient
    stable_abi   an op in C++ that includes only PyTorch's stable headers
    load_inline  a Python module in C++ that load_inline() builds, inside a Function
    triton       the loops in Triton instead of C, inside a Function; only on a GPU

A row has these keys besides the time of a call: lines (the bridge's code without
comments), build_s (processor seconds of the compilers), and the features that work:
gradient, compile (with fullgraph=True), export, vmap. Values that cannot be measured
are null.
The row "kernel" contains the time of the C loop alone, in us for `count` elements.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import resource
import subprocess
import tempfile
import tokenize
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from cffi import FFI

from ..base.device import parse_device
from ..base.errors import ArgumentError
from ..base.paths import KERNELS
from ..csource.scanner import blank_comments
from ..ops.in_triton import load_programs
from ..timing import device_name
from ..timing.race import Contender, race
from ..timing.results import Row
from . import say

SOURCES = KERNELS / "polynomial" / "bridges"
CALLED = 16  # elements of the timed calls: the kernel itself takes nanoseconds
LONG = 2**16  # elements of a call whose time is that of the kernel
SAMPLES, SECONDS = 100, 1.0  # maxima for each bridge
CALLS = 50  # calls per sample: other programs rarely interrupt such a short sample
WORKS = ("gradient", "compile", "export", "vmap")
SHOWN = ["rung", "lines", "build_s", "us", "us_low", "us_high", "spread", *WORKS]

Call = Callable[[torch.Tensor], torch.Tensor]
Pair = tuple[Call, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]


# ---- the bridges ---------------------------------------------------------------------


def connect_cffi(folder: Path) -> Pair:
    """Return the C functions as functions of tensors: forward(x), backward(dy, x)."""
    ffi, path = FFI(), folder / "libpolynomial.so"
    ffi.cdef("void polynomial(float *y, float *x, size_t n);")
    ffi.cdef("void polynomial_backward(float *dx, float *dy, float *x, size_t n);")
    command = ["gcc", "-O3", "-shared", "-fPIC", SOURCES / "polynomial.c", "-o", path]
    subprocess.run(command, check=True)
    library = ffi.dlopen(str(path))

    def point_to(x: torch.Tensor) -> Any:
        return ffi.cast("float *", x.data_ptr())

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        y = torch.empty_like(x)
        library.polynomial(point_to(y), point_to(x), x.numel())
        return y

    def backward(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        dy, x = dy.contiguous(), x.contiguous()
        dx = torch.empty_like(x)
        library.polynomial_backward(*map(point_to, (dx, dy, x)), x.numel())
        return dx

    return forward, backward


def connect_function(pair: Pair) -> Call:
    """Return forward(x) with the gradient backward(dy, x)."""
    forward_c, backward_c = pair

    class Polynomial(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward_c(x)

        @staticmethod
        def backward(ctx, dy):
            return backward_c(dy.contiguous(), *ctx.saved_tensors)

    return Polynomial.apply


def connect_library(pair: Pair) -> Call:
    """Define forward(x) and backward(dy, x) as ops, and return the first."""
    library = torch.library
    for name, takes, run in (
        ("polynomial", "Tensor x", pair[0]),
        ("polynomial_backward", "Tensor dy, Tensor x", pair[1]),
    ):
        library.define(f"weft_bridges::{name}", f"({takes}) -> Tensor")
        library.impl(f"weft_bridges::{name}", "cpu", run)
    return add_python_half(torch.ops.weft_bridges)


def add_python_half(ops: Any) -> Call:
    """Register fakes, a gradient and a vmap rule for the ops of a namespace."""

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    def differentiate(ctx, dy):
        return ops.polynomial_backward(dy.contiguous(), *ctx.saved_tensors)

    def infer(*inputs):
        return torch.empty_like(inputs[0], memory_format=torch.contiguous_format)

    def batch(info, in_dims, x):
        return ops.polynomial(x.contiguous()), in_dims[0]

    name = f"{ops.name}::polynomial"
    torch.library.register_fake(name, infer)
    torch.library.register_fake(f"{name}_backward", infer)
    torch.library.register_autograd(name, differentiate, setup_context=keep)
    torch.library.register_vmap(name, batch)
    return ops.polynomial.default


def connect_stable_abi(folder: Path) -> Call:
    """Compile the ops against PyTorch's stable headers, load them, and return one."""
    home, path = Path(torch.__file__).parent, folder / "stable_abi.so"
    command = ["g++", "-O3", "-std=c++20", "-shared", "-fPIC", f"-I{home / 'include'}"]
    command += [SOURCES / "stable_abi.cpp", "-o", path]
    command += [f"-L{home / 'lib'}", "-ltorch_cpu"]
    subprocess.run(command, check=True)
    torch.ops.load_library(path)
    return add_python_half(torch.ops.weft_stable)


def connect_load_inline(folder: Path) -> Pair:
    """Compile a Python module with load_inline(), and return its two functions."""
    # Imported lazily: this module takes a second to import.
    from torch.utils.cpp_extension import load_inline

    module = load_inline(
        *("weft_inline", (SOURCES / "load_inline.cpp").read_text()),
        functions=["forward", "backward"],
        extra_include_paths=[str(SOURCES)],
        extra_cflags=["-O3"],
        build_directory=str(folder),
    )
    return module.forward, module.backward


def connect_triton() -> Pair:
    """Return the programs in Triton as functions of tensors: forward, backward."""
    programs, a = load_programs("polynomial", "gpu"), (0.0, 1.0, 0.5, 0.0)

    def forward(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        programs.polynomial(y, x, x.numel(), *a)
        return y

    def backward(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        dx = torch.empty_like(x)
        programs.polynomial_backward(dx, dy, x, x.numel(), *a[1:])
        return dx

    return forward, backward


# For each bridge: the functions and the files that it consists of.
PARTS: dict[str, tuple[Sequence[Callable], Sequence[str]]] = {
    "cffi": ((connect_cffi,), ()),
    "function": ((connect_cffi, connect_function), ()),
    "library": ((connect_cffi, connect_library, add_python_half), ()),
    "stable_abi": ((connect_stable_abi, add_python_half), ("stable_abi.cpp",)),
    "load_inline": ((connect_load_inline, connect_function), ("load_inline.cpp",)),
    "triton": ((connect_triton, connect_function), ("../in_triton.py",)),
}


@functools.cache
def connect(name: str) -> tuple[Call, float | None]:
    """Build a bridge once per process; return its function and the build's seconds.

    The function takes a contiguous float32 tensor. The seconds are processor time of
    the compilers, which does not depend on other programs; None for Triton, whose
    compiler runs inside this process. Raises KeyError for an unknown name.
    """
    with tempfile.TemporaryDirectory(prefix="weft_") as temporary:
        folder, before = Path(temporary), _read_seconds()
        call = {
            "cffi": lambda: connect_cffi(folder)[0],
            "function": lambda: connect_function(connect_cffi(folder)),
            "library": lambda: connect_library(connect_cffi(folder)),
            "stable_abi": lambda: connect_stable_abi(folder),
            "load_inline": lambda: connect_function(connect_load_inline(folder)),
            "triton": lambda: connect_function(connect_triton()),
        }[name]()
        return call, None if name == "triton" else _read_seconds() - before


def _read_seconds() -> float:
    """Return the processor time of the child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


# ---- the costs of a bridge, and its features -----------------------------------------


def count_lines(name: str) -> int:
    """Count the lines of a bridge's code, without comments, docstrings and blanks."""
    functions, files = PARTS[name]
    texts = [_strip_python(inspect.getsource(function)) for function in functions]
    return sum(map(_count_filled, texts)) + sum(count_code(SOURCES / f) for f in files)


def count_code(path: Path) -> int:
    """Count the lines of a file in C or Python, without comments and blanks."""
    strip = _strip_python if path.suffix == ".py" else blank_comments
    return _count_filled(strip(path.read_text()))


def _count_filled(text: str) -> int:
    return sum(bool(line.strip()) for line in text.splitlines())


def _strip_python(text: str) -> str:
    """Remove comments, and strings that are statements."""
    lines, starts = text.splitlines(), True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        (first, column), (last, _) = token.start, token.end
        if token.type == tokenize.COMMENT:
            lines[first - 1] = lines[first - 1][:column]
        elif token.type == tokenize.STRING and starts:
            lines[first - 1 : last] = [""] * (last - first + 1)
        starts = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.NL)
    return "\n".join(lines)


def find_support(call: Call, device: str = "cpu") -> dict[str, bool]:
    """Try the features in WORKS with a bridge; return whether each result is right.

    compile requires a single graph for the forward pass, and a right gradient.
    """
    x = torch.linspace(-2, 2, CALLED, device=device)
    trials = {
        "gradient": lambda: _differentiate(call, x),
        "compile": lambda: _differentiate(_compile(call), x),
        "export": lambda: torch.export.export(_Layer(call), (x,)).module()(x),
        "vmap": lambda: torch.vmap(call)(x.view(2, -1)).flatten(),
    }
    want = dict.fromkeys(trials, x + x * x / 2)
    want |= {"gradient": 1 + x, "compile": 1 + x}
    return {name: _is_right(trial, want[name]) for name, trial in trials.items()}


def _is_right(trial: Callable[[], torch.Tensor], want: torch.Tensor) -> bool:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            return bool(torch.allclose(trial(), want))
        except Exception:  # PyTorch raises many types of errors for untraceable code
            return False


def _differentiate(call: Call, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(call(x).sum(), x)[0]


def _compile(call: Call) -> Call:
    """Compile only the graphs of a function that uses the bridge, not its kernels."""
    # Graphs depend on neither the backend nor the compiled kernels.
    return torch.compile(lambda x: call(x * 1.0), fullgraph=True, backend="aot_eager")


class _Layer(torch.nn.Module):
    def __init__(self, call: Call):
        super().__init__()
        self.call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.call(x)


def rows_of(args: Any) -> list[Row]:
    """Return the rows of `python -m weft bench bridges`."""
    names = [name.strip() for name in args.rungs.split(",") if name.strip()]
    return rows(names or [*PARTS], args.device)


def rows(
    names: Sequence[str] = tuple(PARTS), device: str = "cpu", supported: bool = True
) -> list[Row]:
    """Build bridges, try their features, and time their calls in turn.

    supported: whether to try the features, which takes seconds. On a CPU, Triton's row
    has lines, but no times. On a GPU, it is the only bridge. The last rows are
    PyTorch's own x + x * x / 2 and, on a CPU, the C loop alone. Raises ArgumentError
    for an unknown name, and RuntimeError if a bridge computes a wrong result.
    """
    if unknown := [name for name in names if name not in PARTS]:
        raise ArgumentError(f"no bridge {unknown[0]!r}; there are {', '.join(PARTS)}")
    place = parse_device(device)
    on_gpu = place.type == "cuda"
    x = torch.linspace(-2, 2, CALLED, device=str(place))
    contenders, found = {}, {}
    for name in names:
        found[name] = {"lines": count_lines(name), "build_s": None}
        if (name == "triton") != on_gpu:
            continue
        say(f"building {name}")
        call, seconds = connect(name)
        if not torch.allclose(call(x), x + x * x / 2):
            raise RuntimeError(f"bridge {name} computed a wrong result: {call(x)}")
        found[name]["build_s"] = seconds
        if supported:
            found[name] |= find_support(call, str(place))
        contenders[name] = _time(functools.partial(call, x))
    found["torch"] = {"lines": 1, "build_s": 0.0, **dict.fromkeys(WORKS, True)}
    contenders["torch"] = _time(lambda: x + x * x / 2)
    if "cffi" in contenders:
        found["kernel"] = {"count": LONG}
        call, long = connect("cffi")[0], torch.linspace(-2, 2, LONG)
        contenders["kernel"] = _time(lambda: call(long))
    say("timing the calls")
    with torch.no_grad():
        timed = race(contenders, place, seconds=SECONDS, samples=SAMPLES)
    return [
        {
            **{"op": "bridges", "impl": "torch" if name == "torch" else "weft"},
            **{"rung": name, "precision": "fp32", "target": place.type},
            **{"device": device_name(place) if name in timed else None},
            **(timed[name].row() if name in timed else {"us": None}),
            **{"count": CALLED, **dict.fromkeys(WORKS), **facts},
        }
        for name, facts in found.items()
        if not on_gpu or name in timed
    ]


def _time(call: Callable[[], torch.Tensor]) -> Contender:
    return Contender(call=call, calls=CALLS, checked=True)


def note(rows: Sequence[Row]) -> str:
    """Return the text below the table."""
    return (
        f"A call computes {CALLED} elements, without recording a gradient. build_s is "
        "processor time. lines are those of the bridge, without the kernel in C."
    )
