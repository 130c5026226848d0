"""python -m weft run: run a whole CUDA program on the CPU, as if nvcc had built it.

    python -m weft run prog.cu [more.cu more.cpp more.c] [options] [-- arguments]

The program replaces this process, so exit status, signals, terminal and folder are the
program's. The command accepts nvcc's common options, and ignores options that affect
only a GPU.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ..base.progress import PATIENCE, Progress
from . import program as programs

USAGE = """\
usage: weft run PROG.cu [MORE.cu MORE.cpp MORE.c] [options] [-- ARGUMENTS]

Build a CUDA program for the CPU and run it. The first build takes about a second;
until a file changes, later runs start at once.

  -I DIR  -D X[=V]  -U X  -include FILE  -O0 ... -O3  -std=c++17  -L DIR  -l LIB
  -rdc=true  -x cu  -Xcompiler WORDS    as for nvcc; options that affect only a GPU
                                        (-arch=sm_80, -lineinfo, ...) are ignored
  -o NAME         name of the program in its argv[0]
  --build PATH    write the executable to PATH, and do not run it
  --timeout S     stop the program after S seconds, with exit status 124
  --threads N     run blocks on N threads (default: all cores)
  --order WHICH   order of threads and blocks: forward, reverse, or a seed > 1 for a
                  random order, which may reveal a missing barrier
"""
TIMED_OUT = 124  # the exit status that timeout(1) uses

# Options of nvcc and g++ that have no effect here; options with a value come first.
_IGNORED_WITH_VALUE = re.compile(
    r"-(?:arch|code|gencode|ccbin|Xptxas|Xlinker|Xnvlink|Xcudafe|Xarchive|odir|t|Werror"
    r"|rdc)|--(?:gpu-architecture|gpu-code|generate-code|compiler-bindir|ptxas-options"
    r"|linker-options|default-stream|relocatable-device-code|machine|split-compile)"
    r"|--?(?:maxrregcount|cudart|diag-suppress|ftz|prec-div|prec-sqrt|fmad)"
)
_IGNORED = re.compile(
    r"-(?:g|G|w|pthread|W\S*|pg|c|dc|dlink|m\S+|s|v|lineinfo|extra-device-vectorization|keep"
    r"|use_fast_math|res-usage|restrict|extended-lambda|expt-extended-lambda"
    r"|expt-relaxed-constexpr|dopt(?:=\S+)?|pedantic|static|no-pie|fPIC|pie|pipe"
    r"|rdynamic|cubin|time|Wno-deprecated-gpu-targets)"
    r"|--(?:debug|device-debug|generate-line-info|use_fast_math|resource-usage"
    r"|restrict|extended-lambda|expt-extended-lambda|expt-relaxed-constexpr"
    r"|device-c|keep|verbose|disable-warnings|source-in-ptx|extra-device-vectorization"
    r"|forward-unknown\S*|allow-unsupported-compiler|profile|optimize-line-info)"
)
_CUDA_LIBRARIES = re.compile(
    r"cuda|cudart(?:_static)?|cudadevrt|cublas\w*|curand\w*|cufft\w*|cusparse\w*|"
    r"cusolver\w*|cudnn\w*|nvrtc\w*|nccl|nvidia-ml|npp\w*|nvToolsExt|culibos|nvtx3"
)
# Options for the host compiler that may change the program's behaviour.
_HOST_FLAGS = re.compile(r"-(?:fopenmp|fexceptions|fno-\S+|fpermissive|ffast-math)")


@dataclass
class RunOptions:
    """The command-line options: the program, and how to run it."""

    program: programs.Program
    # The words of the whole command line.
    words: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    name: str = ""
    build: str = ""
    timeout: float = 0.0  # time limit in seconds; 0: none
    environment: dict[str, str] = field(default_factory=dict)


def parse(words: Sequence[str]) -> RunOptions:
    """Parse the command line; raise ValueError if it is invalid."""
    words = list(words)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="", file=sys.stdout if words else sys.stderr)
        raise SystemExit(0 if words else 2)
    options = RunOptions(programs.Program(), words=[*words])
    if "--" in words:
        separator = words.index("--")
        options.arguments = words[separator + 1 :]
        words = words[:separator]
    while words:
        _parse_option(words, options)
    sources = options.program.sources
    if not sources:
        raise ValueError("no program: expected a .cu file")
    for source in sources:
        if not os.path.isfile(source):
            hint = "a program's own arguments follow --"
            raise ValueError(f"there is no file '{source}' ({hint})")
    return options


def main(options: RunOptions) -> int:
    """Build the program if necessary, and replace this process with it."""
    path = build_program(options)
    if options.build:
        shutil.copy(path, options.build)
        return 0
    environment = {**os.environ, **options.environment}
    environment["WEFT_RUN_INSPECT"] = shlex.join(["weft", "inspect", *options.words])
    sys.stdout.flush()
    if options.timeout:
        status = run_child(path, program_words(options), environment, options.timeout)
        return end_like(status)
    os.execve(path, program_words(options), environment)


def build_program(options: RunOptions) -> Path:
    """Build the program if necessary, and report a long build."""
    names = " ".join(Path(s).name for s in options.program.sources)
    with Progress(f"building {names} for the CPU", delay=PATIENCE):
        return programs.build_executable(options.program)


def program_words(options: RunOptions) -> list[str]:
    """Return the command line that starts the program."""
    name = options.name or f"./{Path(options.program.sources[0]).stem}"
    return [name if "/" in name else f"./{name}", *options.arguments]


# ---- the command line ----------------------------------------------------------


def _parse_option(words: list[str], options: RunOptions) -> None:
    """Remove one option with its value, or one file, from `words`, and parse it."""
    word, program = words.pop(0), options.program
    option, equals, attached = word.partition("=")

    def value() -> str:
        if not equals and not words:
            raise ValueError(f"{option} needs a value")
        return attached if equals else words.pop(0)

    if not word.startswith("-"):
        _parse_file(word, program)
    elif option in ("-o", "--output-file"):
        options.name = value()
    elif option == "--build":
        options.build = value()
    elif option == "--timeout":
        options.timeout = _number(option, value(), float, "seconds")
    elif option == "--threads":
        threads = _number(option, value(), int, "threads")
        options.environment["WEFT_RUN_THREADS"] = str(threads)
    elif option == "--order":
        order = value()
        if order not in ("forward", "reverse"):
            _number(option, order, int, "forward, reverse or a seed")
        number = {"forward": "0", "reverse": "1"}.get(order, order)
        options.environment["WEFT_RUN_ORDER"] = number
    elif _IGNORED.fullmatch(option):
        pass  # -lineinfo must not become -l ineinfo
    elif match := re.fullmatch(r"-([IDULl])(.*)", word):
        _parse_short_option(match[1], match[2] or value(), program)
    elif option in ("-isystem", "-include", "--pre-include", "--include-path"):
        flag = {"--pre-include": "-include", "--include-path": "-I"}.get(option, option)
        program.preprocess += [flag, value()]
    elif option in ("-std", "--std"):
        program.std = value()
    elif option in ("-x", "--x"):
        program.all_cuda = value() == "cu"
    elif option in ("-O", "--optimize") or re.fullmatch(r"-O[0-3s]|-Ofast", word):
        level = word[2:] if word[2:] in ("0", "1", "2", "3", "s", "fast") else ""
        level = level or value()
        program.optimise = {"fast": "3"}.get(level, level)
    elif option in ("-Xcompiler", "--compiler-options"):
        _host_flags(value(), program)
    elif _HOST_FLAGS.fullmatch(word):
        program.compile.append(word)
    elif _IGNORED_WITH_VALUE.fullmatch(option):
        if match := re.search(r"(?:sm|compute)_(\d+)", value()):
            program.arch = int(match[1]) * 10
    else:
        raise ValueError(f"unknown option '{word}' (a program's options follow --)")


def _number(option: str, value: str, kind: type, description: str):
    with contextlib.suppress(ValueError):
        if kind(value) > 0:
            return kind(value)
    raise ValueError(f"{option} {value}: expected {description}, more than 0")


def _parse_file(word: str, program: programs.Program) -> None:
    if Path(word).suffix not in programs.SUFFIXES and not program.all_cuda:
        known = " ".join(sorted(programs.SUFFIXES))
        hint = "a program's own arguments follow --"
        raise ValueError(f"'{word}' is not a source ({known}); {hint}")
    program.sources.append(word)


def _parse_short_option(letter: str, value: str, program: programs.Program) -> None:
    if letter == "l":
        if not _CUDA_LIBRARIES.fullmatch(value):
            program.link.append(f"-l{value}")
    elif letter == "L":
        program.link.append(f"-L{value}")
    # Skip the toolkit's own headers, which would precede ours.
    elif letter != "I" or not os.path.isfile(f"{value}/crt/host_defines.h"):
        program.preprocess.append(f"-{letter}{value}")


def _host_flags(text: str, program: programs.Program) -> None:
    for word in shlex.split(text.replace(",", " ")):
        if _HOST_FLAGS.fullmatch(word):
            program.compile.append(word)
        elif re.match(r"-[DUI].", word):
            program.preprocess.append(word)


# ---- running -------------------------------------------------------------------


def run_child(path: Path, argv: list[str], environment: dict, seconds: float) -> int:
    """Run the program as a child process; stop it after `seconds` seconds (0: never).

    Returns its exit status, -n if signal n ended it, or TIMED_OUT if it was stopped.
    """
    # Only the child handles Ctrl-C.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        restore = partial(signal.signal, signal.SIGINT, handler)
        how = dict(executable=path, env=environment, preexec_fn=restore)
        child = subprocess.Popen(argv, **how)
        return child.wait(seconds or None)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        print(f"weft: stopped after {seconds:g} seconds (--timeout)", file=sys.stderr)
        return TIMED_OUT
    finally:
        signal.signal(signal.SIGINT, handler)


def end_like(status: int) -> int:
    """Return an exit status, or end this process with the child's signal."""
    if status < 0:  # the caller then reports the same signal
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status
