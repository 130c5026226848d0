"""python -m weft puzzles: list the puzzles, show one, or check a solution.

weft puzzles                        list all puzzles by lesson, with marks and minutes
weft puzzles guards                 show a task and its stub; --cuda: its CUDA C stub
weft puzzles check mine.cu guards   check a .cu or .py file; exit status 1 if unsolved
                                    --json PATH writes the verdict and the counts
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..base import store
from ..base.errors import ArgumentError, Mismatch, link_entry
from ..cells import load_cuda
from ..check.cases import divide_up
from ..lessons.grading import SOLVED, UNSOLVED, WRONG
from ..puzzles.catalogue import load
from ..puzzles.notebooks import list_puzzles
from ..puzzles.progress import read_progress
from ..puzzles.puzzle import Puzzle


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `python -m weft puzzles`."""
    words = "a puzzle to show, or a .py or .cu file to check (default: list all)"
    metavar = "NAME | check FILE NAME"
    parser.add_argument("words", nargs="*", metavar=metavar, help=words)
    parser.add_argument("--cuda", action="store_true", help="show the stub in CUDA C")
    parser.add_argument("--json", metavar="PATH", help="write the verdict of a check")


def main(args: argparse.Namespace) -> int:
    """Run the requested action; return the exit status."""
    words = args.words
    if not words:
        print(list_puzzles(read_progress()))
        return 0
    if words[0] == "check" and len(words) == 3:
        return _check(Path(words[1]), _find_puzzle(words[2]), args.json)
    if args.json:
        raise ArgumentError("--json belongs to check FILE NAME")
    if len(words) > 1 or words[0] == "check":
        raise ArgumentError("expected nothing, a puzzle's name, or check FILE NAME")
    puzzle = _find_puzzle(words[0])
    stub = puzzle.cuda_c_stub if args.cuda and puzzle.is_kernel else puzzle.stub
    print(f"{puzzle.title}. {puzzle.plain_text}\n\n{puzzle.spec_text}\n\n{stub}")
    return 0


def _find_puzzle(name: str) -> Puzzle:
    try:
        return load(name)
    except KeyError as error:
        raise ArgumentError(error.args[0]) from None


def _check(path: Path, puzzle: Puzzle, json_path: str | None) -> int:
    answer = _load_answer(path, puzzle)
    try:
        solved = puzzle.check(answer)
        verdict, text = (SOLVED, str(solved)) if solved else (UNSOLVED, "")
        if solved:
            print(solved)
    except Mismatch as error:
        solved, verdict, text = None, WRONG, str(error)
        print(error, *link_entry(error), sep="\n")
    if json_path:
        counts = {row.what: row.yours for row in solved.score.rows} if solved else {}
        result = {"puzzle": puzzle.name, "file": path.name, "verdict": verdict}
        result |= {"text": text, "counts": counts}
        store.write(Path(json_path), json.dumps(result, indent=1) + "\n")
    return int(solved is None)


def _stub_names() -> dict[str, Any]:
    """Return the names that a notebook provides, and that a printed stub needs."""
    types = ("float32", "float64", "int8", "int16", "int32", "int64", "uint32")
    names = {"np": np, "math": math, "cuda": cuda, "cdiv": divide_up}
    return names | {name: getattr(np, name) for name in types}


def _load_answer(path: Path, puzzle: Puzzle) -> Any:
    """Return the kernel in a file; refuse a file without a kernel for this puzzle."""
    if path.suffix == ".cu":
        return load_cuda(path.read_text(), name=path.name)
    if path.suffix != ".py":
        raise ArgumentError(f"{path}: expected a .py or a .cu")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    vars(module).update(_stub_names())
    try:
        spec.loader.exec_module(module)
    except OSError:
        raise
    except SyntaxError as error:
        message = f"line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
        raise ArgumentError(f"{path}, {message}") from None
    except Exception as error:
        raise ArgumentError(f"{path}: {type(error).__name__}: {error}") from None
    functions = {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    if puzzle.kernel_name not in functions and len(functions) != 1:
        needs = f"{puzzle.name} needs {puzzle.kernel_name}"
        names = ", ".join(functions) or "no function"
        raise ArgumentError(f"{path}: {needs}, but this file has {names}")
    return functions.get(puzzle.kernel_name) or next(iter(functions.values()))
