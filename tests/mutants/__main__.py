"""Check that every published answer with one slip is refused: `make mutants`.

    python tests/mutants [--only NAME ...] [--sample N] [--seed N] [--jobs N]

equivalent.txt lists the mutants that are right answers, with their reasons. The run
fails on a mutant that passes and is not listed, or is listed and refused. It also fails
on a mutant that hangs, ends the process or raises an error that is not the lab's own.
--sample: number of mutants, drawn by --seed.
"""

import argparse
import sys
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "lib"), str(ROOT), str(HERE.parent)]

from mutants.run import NAMES, run  # noqa: E402

from weft.base.device import count_cores  # noqa: E402


def main():
    parser = argparse.ArgumentParser(prog="python tests/mutants")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=count_cores())
    options = parser.parse_args()
    return bool(run(options.only, options.sample, Random(options.seed), options.jobs))


if __name__ == "__main__":
    sys.exit(main())
