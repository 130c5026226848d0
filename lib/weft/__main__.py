"""python -m weft COMMAND: each command is a module with add_arguments() and main()."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from .base.errors import BuildError, explain

# Modules are imported on demand, since `doctor` must run where other commands cannot.
COMMANDS = {
    "mnist": ("weft.commands.mnist", "train the CNN, alone or against PyTorch"),
    "bench": (
        "weft.commands.bench",
        "time the rungs of an op and PyTorch's, or run a benchmark",
    ),
    "check": (
        "weft.commands.check",
        "compare every rung with float64; the outputs are poisoned first",
    ),
    "doctor": (
        "weft.commands.doctor",
        "list this machine's hardware and tools, and fixes for missing ones",
    ),
    "run": (
        "weft.programs.run",
        "run a whole CUDA program on the CPU, as if nvcc had built it",
    ),
    "inspect": (
        "weft.programs.inspect",
        "run a CUDA program and report its faults and the cost of each line",
    ),
    "package": (
        "weft.commands.package",
        "pack kernels into a wheel that works without Weft and a compiler",
    ),
    "puzzles": ("weft.commands.puzzles", "list puzzles, show one, check a solution"),
    "grade": ("weft.commands.grade", "grade a submitted notebook"),
    "class": ("weft.commands.class_grades", "show the grades of a class"),
    "build": ("weft.toolchain.build", "compile every kernel for this machine"),
    "cache": ("weft.base.store", "list or clear the cache"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit status.

    A user's error is reported as one sentence on stderr, without a traceback. The
    address of its explanation follows if there is one.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        make_overview().print_help(sys.stderr)
        return 2
    if arguments[0] not in COMMANDS:
        make_overview().parse_args(arguments)  # this call prints an error and exits
    name = arguments[0]
    try:
        module = importlib.import_module(COMMANDS[name][0])
        parser = argparse.ArgumentParser(f"weft {name}", description=COMMANDS[name][1])
        args = parse_arguments(module, parser, arguments[1:])
        _check_output_paths(args)
        return module.main(args) or 0
    except KeyboardInterrupt as stop:
        print(f"weft {name}: stopped. {stop}".rstrip(), file=sys.stderr)
        return 130
    except list_expected_errors() as error:
        lines = [f"weft {name}: {error}", *explain(error)]
        print(*lines, sep="\n", file=sys.stderr)
        return 1


def parse_arguments(module, parser: argparse.ArgumentParser, words: list[str]):
    """Parse the words after the command's name.

    `run` and `inspect` have a parse(), since argparse cannot parse nvcc's options.
    """
    if hasattr(module, "parse"):
        return module.parse(words)
    module.add_arguments(parser)
    return parser.parse_args(words)


def make_overview() -> argparse.ArgumentParser:
    lines = [f"  {name:<8} {text}" for name, (_, text) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        "weft",
        description="A GPU kernel lab. Commands:\n" + "\n".join(lines),
        epilog="weft COMMAND --help lists the options of a command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    return parser


def _check_output_paths(args: argparse.Namespace) -> None:
    """Refuse output paths that are not writable, before any measurement."""
    for option in ("json", "plot", "save"):
        if not (text := getattr(args, option, None)):
            continue
        path = Path(text).absolute()
        if not path.parent.is_dir():
            raise ValueError(f"--{option} {text}: there is no folder {path.parent}")
        if path.is_dir():
            raise ValueError(
                f"--{option} {text}: expected a file, but this is a folder"
            )
        if not os.access(path.parent, os.W_OK):
            raise ValueError(f"--{option} {text}: you cannot write in {path.parent}")
        if option == "plot":
            from matplotlib.backend_bases import FigureCanvasBase

            kinds = FigureCanvasBase.get_supported_filetypes()
            if path.suffix[1:].lower() not in kinds:
                raise ValueError(
                    f"--plot {text}: cannot draw a '{path.suffix}'; use .svg, .png "
                    "or .pdf"
                )


def list_expected_errors() -> tuple[type[BaseException], ...]:
    # Imported late: importing native parses weft.h, which `run` does not need.
    native_module = sys.modules.get("weft.toolchain.native")
    kernel_errors = (native_module.KernelError,) if native_module else ()
    return BuildError, ValueError, OSError, *kernel_errors


if __name__ == "__main__":
    sys.exit(main())
