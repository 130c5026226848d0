"""python -m weft COMMAND: each command is a module with add_arguments() and main()."""

from __future__ import annotations

import argparse
import importlib
import sys

# Imported only when called: `doctor` must run where half of the rest cannot.
COMMANDS = {
    "mnist": ("weft.mnist.cli", "train the CNN, alone or against PyTorch"),
    "bench": ("weft.bench", "an op's rungs side by side with PyTorch's; the simulator"),
    "check": ("weft.check", "every rung against float64, with poisoned outputs"),
    "doctor": ("weft.doctor", "what this machine has and runs, and what is missing"),
    "build": ("weft.build", "compile every kernel for what is here"),
    "cache": ("weft.cache", "what is cached, and --clear"),
}


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns the exit status.

    What goes wrong on the user's side is one sentence on stderr, not a trace.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] not in COMMANDS:
        _overview().parse_args(arguments)  # ends here
    name = arguments[0]
    module = importlib.import_module(COMMANDS[name][0])
    parser = argparse.ArgumentParser(f"weft {name}", description=COMMANDS[name][1])
    module.add_arguments(parser)
    args = parser.parse_args(arguments[1:])
    try:
        return module.main(args) or 0
    except KeyboardInterrupt as stop:
        print(f"weft {name}: stopped. {stop}".rstrip(), file=sys.stderr)
        return 130
    except _expected() as error:
        print(f"weft {name}: {error}", file=sys.stderr)
        return 1


def _overview() -> argparse.ArgumentParser:
    lines = [f"  {name:<8} {text}" for name, (_, text) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        "weft",
        description="A GPU kernel lab. Commands:\n" + "\n".join(lines),
        epilog="weft COMMAND --help tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND")
    return parser


def _expected() -> tuple[type[BaseException], ...]:
    from .build import BuildError
    from .native import KernelError

    return BuildError, KernelError, ValueError, OSError


if __name__ == "__main__":
    sys.exit(main())
