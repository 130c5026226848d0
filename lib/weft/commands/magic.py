"""%%cuda and %%cuda_header: CUDA C in a notebook's cell.

    %%cuda --time
    __global__ void add(float *out, const float *a, const float *b, int n) { ... }

    add[grid, block](out, a, b, n)          in the next cell

Each kernel of the cell becomes a name of the notebook. `from utils import *`,
`import weft` in IPython and `%load_ext weft` register the magics.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ..base import tracebacks
from ..base.errors import BuildError, KernelError
from ..base.paths import ROOT
from ..cells import ArgumentError, load_cuda
from ..cells import headers as headers_module
from ..cells import stored as flags_module
from ..cells.module import Cell, Module
from ..csource import diagnostics as diagnostics_module
from ..see import machine_code as machine
from ..see.machine_code.compilation import checked_arch
from ..toolchain import native

_MARK = "// Saved from a notebook's cell by %%cuda --save: "


class UsageError(ArgumentError):
    """The line after %%cuda makes no sense."""


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the process."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"%%cuda: {message}; {_describe_options()}")

    def exit(self, status: int = 0, message: str | None = None) -> None:  # type: ignore[override]
        raise UsageError((message or self.format_help()).strip())


def _describe_options() -> str:
    return (
        "options: --gpu --cpu --fast --time --check --ptx --sass --arch sm_90 "
        '--save kernels/x.cu --flags "-DN=1" --timeout S --inplace --isolated'
    )


def _make_parser() -> _Parser:
    parser = _Parser(prog="%%cuda", add_help=False, allow_abbrev=False)
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--gpu", dest="target", action="store_const", const="cuda")
    where.add_argument("--cpu", dest="target", action="store_const", const="cpu")
    flags = ("fast", "time", "check", "ptx", "sass", "inplace", "isolated", "help")
    for name in flags:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--save", metavar="PATH")
    parser.add_argument("--arch", metavar="SM")
    parser.add_argument("--flags", default="")
    parser.add_argument("--timeout", type=float)
    return parser


@contextlib.contextmanager
def _short_errors() -> Iterator[None]:
    """Errors from inside show in red and without a traceback: the cell is CUDA C."""
    try:
        yield
    except (BuildError, KernelError) as error:
        lines = diagnostics_module.colour_red(str(error)).splitlines()
        error._render_traceback_ = lambda: lines  # type: ignore[union-attr]
        raise


@_short_errors()
def cuda(line: str, cell: str) -> None:
    """Compile the cell, CUDA C; each of its kernels becomes a name of the notebook.

        %%cuda --time
        __global__ void add(float *out, const float *a, const float *b, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = a[i] + b[i];
        }

    and in the next cell

        add[cdiv(n, 256), 256](out, a, b, n)         grid, block
        add[grid, block, bytes, stream](...)         dynamic shared memory, stream
        fill["float", 16][grid, block](...)          a template's arguments first

    Arrays are contiguous torch tensors, NumPy arrays, or speak DLPack or
    __cuda_array_interface__; numbers are converted to the parameter's type, a
    float4 is a tuple, NULL is None. A struct is a tuple of its members, (x, y, n) with
    arrays among them, or one element of a structured NumPy array, which may hold
    arrays' addresses; a float ** is a list of arrays. Options, before which no line
    may stand in the cell:

    --gpu, --cpu     where to compile for; without them the arrays of a launch decide
    --fast           on the CPU, do not watch what launches do. Without it they run
                     under the watch build, about 20 times slower: accesses out of
                     bounds, races, reads of what nobody wrote and the like are told
                     below the cell, and kernel.report has what each line cost
    --time           after each launch, time it on copies of its arrays; without --check
                     the time is said to be of an unchecked kernel
    --check          before each launch, run it under the watch build in three orders
                     of its threads, say what was found, and refuse it if the result
                     depends on the order
    --ptx, --sass    show the cell as PTX, as the GPU's instructions. Where there is no
                     GPU, --gpu with one of them, or with --time, only compiles
    --arch SM        for which GPU these are, sm_80 for example
    --save PATH      write the cell to kernels/x.cu of the checkout, once it compiles;
                     over a file that no cell wrote it refuses to
    --flags "..."    for the compiler: -DTILE=16, -I folder, --use_fast_math
    --timeout S      seconds that a launch may take on the CPU (60, with --fast 20;
                     0: no limit)
    --inplace        on the CPU, work on the arrays themselves and not on fenced
                     copies: faster for large ones, and nothing is watched
    --isolated       launch in a process of its own, which can be ended: on a GPU the
                     only cure for an endless loop. Nothing is watched on the CPU. Not
                     together with --inplace
    --help           show this

    A cell runs native code with your rights. Headers that cells share:
    %%cuda_header name.cuh. The same as a function: weft.cells.load_cuda().
    """
    shell = tracebacks.running_shell()
    options = _parse_arguments(line)
    if options.help:
        print(inspect.cleandoc(cuda.__doc__ or ""))
        return
    # Not execution_count: some versions count before the cell runs, some after.
    name = f"cell [{len(shell.history_manager.input_hist_parsed) - 1}]"
    only = _compile_only(options)
    loaded = only(cell, name) if only else _load_cell(options, cell, name)
    module = loaded._cell  # whatever names its kernels have
    shell.user_ns.update(module.kernels)
    print(module.report)
    if module.warnings:
        print(diagnostics_module.render(module.warnings, cell, name))
    if options.save:
        print(f"saved as {save(options.save, cell)}")
    for listing in ("ptx", "sass"):
        if getattr(options, listing):
            _show(listing, loaded, options.arch)
    if only and options.time:
        print(
            "--time: nothing is timed, since there is no GPU here; without --gpu the "
            "cell runs on the CPU"
        )


def _load_cell(options: argparse.Namespace, cell: str, name: str) -> Module:
    return load_cuda(
        cell,
        target=options.target,
        flags=options.flags,
        timeout=options.timeout,
        inplace=options.inplace,
        isolated=options.isolated,
        check=options.check,
        time=options.time,
        watched=not (options.fast or options.inplace or options.isolated),
        name=name,
    )


def _compile_only(options: argparse.Namespace) -> Callable[[str, str], Module] | None:
    """How a cell for a GPU that is not here is made, if it is to be read or timed."""
    wanted = options.ptx or options.sass or options.time
    if options.target != "cuda" or not wanted or native.explain_lost():
        return None
    if torch.cuda.is_available():
        return None

    sm, words = checked_arch(options.arch), flags_module.split(options.flags)
    return lambda cell, name: Module(
        Cell(cell, target="cuda", flags=words, name=name, compile_only=sm)
    )


@_short_errors()
def cuda_header(line: str, cell: str) -> None:
    """Keep the cell as a header: later cells may say #include "name.cuh".

        %%cuda_header tiles.cuh
        __device__ float twice(float x) { return 2 * x; }

    Run it again after an edit: the cells that include it compile again at their next
    launch.
    """
    words = shlex.split(line)
    if len(words) != 1:
        raise UsageError("%%cuda_header wants one name, e.g. %%cuda_header tiles.cuh")
    headers_module.add(words[0], cell)


def save(where: str, cell: str) -> Path:
    """Write a cell's source under the checkout; returns the path.

    Refuses (UsageError) a path outside of it, and a file that no cell wrote: what
    lies in kernels/ is somebody's work.
    """
    path = (ROOT / where).resolve()
    if ROOT not in path.parents or path.suffix not in (".cu", ".cuh"):
        raise UsageError(f"--save {where}: want a .cu or .cuh within {ROOT}")
    if path.exists() and not path.read_text().startswith(_MARK):
        raise UsageError(
            f"--save {where}: the file exists and no cell wrote it; choose another name"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{_MARK}edit it there, or remove this line\n{cell}")
    return path


def _show(listing: str, loaded: Any, arch: str | None) -> None:
    """The cell as PTX or as the GPU's own instructions; needs NVRTC, but no GPU."""
    from IPython.display import display

    display(getattr(machine, listing)(loaded, arch=arch))


def register(shell: Any = None) -> None:
    """Give an IPython session the magics; without a session nothing happens."""
    shell = shell or tracebacks.running_shell()
    if shell is None:
        return
    shell.register_magic_function(cuda, "cell", "cuda")
    shell.register_magic_function(cuda_header, "cell", "cuda_header")
    shell.events.register("post_run_cell", _tell_gpu_fault)


def _tell_gpu_fault(result: Any) -> None:
    """A fault of a cell's kernel on the GPU is told below the cell that launched it.

    Launches are only queued: otherwise a later cell would be blamed, or torch would
    speak first, and not of restarting.
    """
    gpu = sys.modules.get("weft.cells.gpu.loader")
    if gpu is None or native.explain_lost() or not gpu.is_used():
        return
    if told := gpu.find_fault():
        print(f"\x1b[31m{told}\x1b[0m", file=sys.stderr)


def _parse_arguments(line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%cuda {line}: {error}") from None
    return _make_parser().parse_args(words)
