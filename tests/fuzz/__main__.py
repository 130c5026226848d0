"""Run every fuzzer for long, in rounds, each in a separate process.

    python tests/fuzz [--only NAME ...] [--seed N] [--share S]

A round fails if it raises, crashes, grows beyond 6 GB or takes longer than ten minutes.
Then the command that repeats it is printed, the other rounds continue, and the exit
status is 1. --share: of the goals, e.g. 0.01. --seed: of the first round.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tqdm import tqdm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT), str(HERE.parent)]

from fuzz.fuzzers import FUZZERS  # noqa: E402

ROUND = 1000  # tries per round
SECONDS = 600  # time limit of a round
MEMORY = 6 << 30  # bytes that a round may allocate


def main():
    options = _parser().parse_args()
    if options.round:
        return one_round(options.round, options.seed, options.count)
    failures = 0
    for name in options.only:
        goal = max(1, round(FUZZERS[name].goal * options.share))
        with tqdm(total=goal, desc=name, unit=" tries") as bar:
            for first in range(0, goal, ROUND):
                count = min(ROUND, goal - first)
                failures += not passes(name, options.seed + first // ROUND, count, bar)
                bar.update(count)
    print(f"{failures} rounds failed" if failures else "all rounds passed")
    return failures > 0


def passes(name, seed, count, bar):
    """Run a round in a separate process; return whether it passes."""
    command = [sys.executable, str(HERE), "--round", name]
    command += ["--seed", str(seed), "--count", str(count)]
    try:
        process = subprocess.run(
            command, text=True, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        bar.write(f"{name}: longer than {SECONDS} s: {' '.join(command)}")
        return False
    if process.returncode:
        status = f"status {process.returncode}: {' '.join(command)}"
        bar.write(f"{process.stdout}{process.stderr}{status}")
    return process.returncode == 0


def one_round(name, seed, count):
    """Run the tries in this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    with tempfile.TemporaryDirectory() as folder:
        FUZZERS[name].run(count, seed, Path(folder))
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python tests/fuzz")
    parser.add_argument("--only", nargs="+", choices=FUZZERS, default=list(FUZZERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--round", choices=FUZZERS, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=ROUND, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
