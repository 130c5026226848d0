"""The long run: every fuzzer in rounds, each in a process of its own.

    python tests/fuzz [--only NAME ...] [--seed N] [--share S]

A round that fails, crashes, grows beyond 6 GB or takes longer than ten minutes is
printed with the command that repeats it, and the others go on; the exit status is then
1. --share: of the goals, e.g. 0.01. --seed: of the first round.
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

ROUND = 1000  # tries
SECONDS = 600  # that a round may take
MEMORY = 6 << 30  # bytes of memory that a round may write to


def main():
    given = _parser().parse_args()
    if given.round:
        return one_round(given.round, given.seed, given.count)
    failed = 0
    for name in given.only:
        goal = max(1, round(FUZZERS[name].goal * given.share))
        with tqdm(total=goal, desc=name, unit=" tries") as bar:
            for at in range(0, goal, ROUND):
                count = min(ROUND, goal - at)
                failed += not passes(name, given.seed + at // ROUND, count, bar)
                bar.update(count)
    print(f"{failed} rounds failed" if failed else "all rounds passed")
    return failed > 0


def passes(name, seed, count, bar):
    """Whether a round ends well, in a process of its own."""
    run = [sys.executable, str(HERE), "--round", name]
    run += ["--seed", str(seed), "--count", str(count)]
    try:
        done = subprocess.run(run, text=True, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        bar.write(f"{name}: longer than {SECONDS} s: {' '.join(run)}")
        return False
    if done.returncode:
        bar.write(
            f"{done.stdout}{done.stderr}status {done.returncode}: {' '.join(run)}"
        )
    return done.returncode == 0


def one_round(name, seed, count):
    """Tries in this process."""
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
