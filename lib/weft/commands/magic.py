"""The magics %%cuda and %%cuda_header, for CUDA C in notebook cells.

    %%cuda --time
    __global__ void add(float *out, const float *a, const float *b, int n) { ... }

    add[grid, block](out, a, b, n)          in the next cell

Each kernel in the cell becomes a variable of the notebook. `from utils import *`,
`import weft` in IPython and `%load_ext weft` each register the magics.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..base import errors, store
from ..base.errors import BuildError, KernelError, explain
from ..base.paths import ROOT
from ..cells import ArgumentError, load_cuda
from ..cells import headers as headers_module
from ..cells import stored as flags_module
from ..cells.module import Cell, Module
from ..csource import diagnostics as diagnostics_module
from ..see import machine_code as machine
from ..see.machine_code.compilation import checked_arch
from ..toolchain import native

_OPTIONS = (
    "options: --gpu --cpu --fast --time --check --ptx --sass --arch sm_90 --save "
)
_OPTIONS += 'kernels/x.cu --flags "-DN=1" --timeout S --inplace --isolated'


class UsageError(ArgumentError):
    """The options after %%cuda are invalid."""

    entry = "options"


class _Parser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of ending the process."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"%%cuda: {message}; {_OPTIONS}")

    def exit(self, status: int = 0, message: str | None = None) -> None:  # type: ignore[override]
        raise UsageError((message or self.format_help()).strip())


def _make_parser() -> _Parser:
    parser = _Parser(prog="%%cuda", add_help=False, allow_abbrev=False)
    targets = parser.add_mutually_exclusive_group()
    targets.add_argument("--gpu", dest="target", action="store_const", const="cuda")
    targets.add_argument("--cpu", dest="target", action="store_const", const="cpu")
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
    """Show errors in red without a Python traceback, since the cell is CUDA C."""
    try:
        yield
    except (BuildError, KernelError) as error:
        text = "\n".join([str(error), *explain(error)])
        lines = diagnostics_module.colour_red(text).splitlines()
        error._render_traceback_ = lambda: lines  # type: ignore[union-attr]
        raise


@_short_errors()
def cuda(line: str, cell: str) -> None:
    """Compile the cell's CUDA C; each kernel becomes a variable of the notebook.

        %%cuda --time
        __global__ void add(float *out, const float *a, const float *b, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) out[i] = a[i] + b[i];
        }

    In the next cell, launch the kernels:

        add[cdiv(n, 256), 256](out, a, b, n)         grid, block
        add[grid, block, bytes, stream](...)         dynamic shared memory, stream
        fill["float", 16][grid, block](...)          template arguments first

    Arrays are contiguous torch tensors, NumPy arrays, or objects that support DLPack or
    __cuda_array_interface__. Numbers are converted to the parameter's type. Pass a
    float4 as a tuple, NULL as None, and a float ** as a list of arrays. Pass a struct
    as a tuple of its members, such as (x, y, n), or as one element of a structured
    NumPy array; either may refer to arrays. The %%cuda line is the first line of the
    cell and can have these options:

    --gpu, --cpu     the target to compile for; by default, a launch's arrays decide
    --fast           on the CPU, do not watch launches. By default, the watch build runs
                     them, about 20 times slower: it reports accesses out of bounds,
                     races, reads of unwritten memory and similar faults below the
                     cell, and kernel.report contains the cost of each line
    --time           after each launch, time the kernel on copies of its arrays; without
                     --check, the time is marked as an unchecked kernel's
    --check          before each launch, run the kernel under the watch build in three
                     thread orders, report the findings, and refuse the launch if the
                     result depends on the order
    --ptx, --sass    show the cell as PTX or as GPU instructions. Without a GPU, --gpu
                     with --ptx, --sass or --time only compiles the cell
    --arch SM        the GPU architecture for --ptx and --sass, such as sm_80
    --save PATH      after compiling, write the cell to a file in the checkout, such as
                     kernels/x.cu; only a file that a cell wrote is replaced
    --flags "..."    compiler flags: -DTILE=16, -I folder, --use_fast_math
    --timeout S      time limit in seconds for a launch on the CPU (default: 60, with
                     --fast 20; 0: no limit)
    --inplace        on the CPU, work on the arrays themselves, not on fenced copies:
                     faster for large arrays, but launches are not watched
    --isolated       launch in a separate process, which can be stopped: on a GPU, this
                     is the only cure for an endless loop. CPU launches are not watched.
                     It cannot be combined with --inplace
    --help           show this help

    A cell runs native code with your permissions. To share headers between cells, use
    %%cuda_header name.cuh. In Python, weft.cells.load_cuda() does the same as %%cuda.
    """
    from IPython.display import display  # only notebooks need IPython

    shell = errors.running_shell()
    options = _parse_arguments(line)
    if options.help:
        print(inspect.cleandoc(cuda.__doc__ or ""))
        return
    # Some versions of IPython increment execution_count before the cell runs.
    name = f"cell [{len(shell.history_manager.input_hist_parsed) - 1}]"
    only_compiled = _only_compiles(options)
    if only_compiled:
        sm, words = checked_arch(options.arch), flags_module.split(options.flags)
        how = dict(target="cuda", flags=words, name=name, compile_only=sm)
        result = Module(Cell(cell, **how))
    else:
        result = _load_cell(options, cell, name)
    module = result._cell  # a kernel may have the name of any public attribute
    shell.user_ns.update(module.kernels)
    print(module.report)
    if module.warnings:
        print(diagnostics_module.render(module.warnings, cell, name))
    if options.save:
        print(f"saved as {save(options.save, cell)}")
    for listing in ("ptx", "sass"):
        if getattr(options, listing):
            display(getattr(machine, listing)(result, arch=options.arch))
    if only_compiled and options.time:
        print(
            "--time: nothing is timed, since there is no GPU here; without --gpu, the "
            "cell runs on the CPU"
        )


def _load_cell(options: argparse.Namespace, cell: str, name: str) -> Module:
    shared = ("target", "flags", "timeout", "inplace", "isolated", "check", "time")
    choices = {option: getattr(options, option) for option in shared}
    watched = not (options.fast or options.inplace or options.isolated)
    return load_cuda(cell, **choices, watched=watched, name=name)


def _only_compiles(options: argparse.Namespace) -> bool:
    """Return whether --gpu comes with --ptx, --sass or --time, but there is no GPU."""
    is_shown = options.ptx or options.sass or options.time
    if options.target != "cuda" or not is_shown or native.explain_lost():
        return False
    return not torch.cuda.is_available()


@_short_errors()
def cuda_header(line: str, cell: str) -> None:
    """Store the cell as a header that later cells can include: #include "name.cuh".

        %%cuda_header tiles.cuh
        __device__ float twice(float x) { return 2 * x; }

    Run the cell again after an edit. Cells that include the header are recompiled at
    their next launch.
    """
    words = shlex.split(line)
    if len(words) != 1:
        raise UsageError("%%cuda_header takes one name, e.g. %%cuda_header tiles.cuh")
    headers_module.add(words[0], cell)


def save(where: str, cell: str) -> Path:
    """Write a cell's source under the checkout; return the path.

    Raises UsageError for a path outside the checkout, and for an existing file that no
    cell wrote, such as the kernels of the lab.
    """
    path = (ROOT / where).resolve()
    if ROOT not in path.parents or path.suffix not in (".cu", ".cuh"):
        raise UsageError(f"--save {where}: expected a .cu or .cuh within {ROOT}")
    if path.exists() and not path.read_text().startswith(store.SAVED):
        why = "the file exists and no cell wrote it; choose another name"
        raise UsageError(f"--save {where}: {why}")
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"{store.SAVED}edit it there, or remove this line\n{cell}"
    path.write_text(text)
    if os.environ.get(store.KEEP):
        parts = path.parent.relative_to(ROOT).parts
        store.write(store.kept_folder("kernels", *parts) / path.name, text)
    return path


def register(shell: Any = None) -> None:
    """Register the magics in an IPython session, if there is one."""
    shell = shell or errors.running_shell()
    if shell is None:
        return
    shell.register_magic_function(cuda, "cell", "cuda")
    shell.register_magic_function(cuda_header, "cell", "cuda_header")
    shell.events.register("post_run_cell", _tell_gpu_fault)


def _tell_gpu_fault(result: Any) -> None:
    """Report a kernel's fault on the GPU below the cell that launched it.

    Launches are only queued. Without this function, the fault would appear below a
    later cell, or torch would report it first, without the advice to restart.
    """
    gpu = sys.modules.get("weft.cells.gpu.loader")
    if gpu is None or native.explain_lost() or not gpu.is_used():
        return
    if fault := gpu.find_fault():
        print(f"\x1b[31m{fault}\x1b[0m", file=sys.stderr)


def _parse_arguments(line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%cuda {line}: {error}") from None
    return _make_parser().parse_args(words)
