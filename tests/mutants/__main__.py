"""Every published answer with one slip each must be refused: `make mutants`.

    python tests/mutants [--only NAME ...] [--sample N] [--seed N] [--jobs N]

equivalent.txt lists the mutants that are right answers, each below the reason. The
run fails on one that passes and is not listed, on one that is listed and refused, and
on one that hangs, ends the process or raises what is no error of the lab's own.
--sample: so many mutants, drawn by --seed.
"""

import argparse
import os
import sys
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT), str(HERE.parent)]

from mutants.run import NAMES, run  # noqa: E402


def main():
    parser = argparse.ArgumentParser(prog="python tests/mutants")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    return bool(run(given.only, given.sample, Random(given.seed), given.jobs))


if __name__ == "__main__":
    sys.exit(main())
