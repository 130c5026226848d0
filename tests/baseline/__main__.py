"""Record results that a reorganisation must not change, and compare them.

    make baseline                                    record every section
    make baseline ARGS="sass puzzles"                ... these only
    make baseline ARGS="--compare OLD.json"          record again, report differences
    make baseline ARGS="--compare OLD.json --keep"   ... except in this commit

Sections of a record:

    losses     each rung of the CNN on the CPU: the losses, a hash of the weights
    losses_gpu the same on a GPU; skipped if there is none
    puzzles    the verdict and the message on each answer, right or wrong
    findings   the findings in each corpus of faulty and clean kernels
    counters   the costs of their accesses
    sass       every kernel's machine code for sm_90a, by nvcc, and its resources
    tests      every test's outcome and tier
    timings    medians and spread of edit, sim, simt, mnist and of the imports

No entry depends on the location of a file. A record is JSON of a few hundred kilobytes,
with hashes instead of texts. The texts are in build/baseline/SECTION.json: if a hash
differs, compare these files of the two commits. Each section is written when it ends,
with its commit, date and seconds. To continue a run that was stopped, name the missing
sections or use --keep.

A comparison exits with 1 if something differs. Two options allow for intended
differences. --reworded accepts messages in other words; kinds, places and counts must
be equal. --moved FILE maps old tests to new ones (outcomes.py). A timing may be slower
by 3 % or by the spread of either record, whichever is largest.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[0] = str(HERE.parent)
sys.path[:0] = [str(ROOT / "lib"), str(ROOT)]

from baseline import compare, record, sections  # noqa: E402

RECORD = HERE / "record.json"
AGAIN = ROOT / "build" / "baseline.json"


def main(words: list[str] | None = None) -> int:
    options = _parser().parse_args(words)
    old = record.read(options.compare) if options.compare else None
    out = options.out or (AGAIN if old else RECORD)
    names = options.sections or [n for n in sections.NAMES if sections.is_here(n)]
    current = record.of_this_commit(out) if options.keep else set()
    for name in names:
        if name not in current:
            record.add(out, name, options)
    print(f"baseline: {out}")
    if old is None:
        return 0
    report = compare.report(old, record.read(out), names, options)
    print(report.text())
    return 0 if report.ok else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "make baseline",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    # argparse also compares the empty list with the choices
    choices = [[], *sections.NAMES]
    add("sections", nargs="*", metavar="SECTION", choices=choices)
    add("--compare", type=Path, metavar="OLD", help="report differences from OLD")
    add("--out", type=Path, metavar="FILE", help=f"default: {RECORD.name} here")
    add("--keep", action="store_true", help="keep this commit's sections in FILE")
    add("--reworded", action="store_true", help="accept reworded messages")
    add("--moved", type=Path, metavar="FILE", help="JSON: old test -> new, or reason")
    add("--runs", type=int, default=5, help="runs of each timing (default: 5)")
    add("--pytest", default="", metavar="WORDS", help='e.g. "-k relu"')
    return parser


if __name__ == "__main__":
    sys.exit(main())
