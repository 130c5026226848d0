"""The safety net of a reorganisation: what must not change, recorded and compared.

    make baseline                                    record every section
    make baseline ARGS="sass puzzles"                ... these only
    make baseline ARGS="--compare OLD.json"          record again, report differences
    make baseline ARGS="--compare OLD.json --keep"   ... with what is recorded already

Sections, and what a record has of them:

    losses     each rung of the CNN on the CPU: the losses, a hash of the weights
    losses_gpu the same on a GPU; left out where there is none
    puzzles    the verdict and the message on each answer, right or wrong
    findings   what each corpus of faulty and clean kernels is told
    counters   what their accesses cost
    sass       every kernel's machine code for sm_90a, by nvcc, and its resources
    tests      every test's outcome and tier
    timings    medians and spread of edit, sim, simt, mnist and of the imports

Nothing in a record depends on where a file is. It is JSON of a few hundred kilobytes:
hashes of texts, not the texts. These are beside it, in build/baseline/SECTION.json: if
a hash differs, the two commits' files show what does. Each section is written as it
ends, with its commit, date and seconds, so a run that was stopped goes on by naming the
sections that are missing, or by --keep.

A comparison exits with 1 if something differs. Two differences may be meant:
--reworded accepts that messages say the same in other words (kinds, places and counts
must be equal), --moved FILE tells which test became which (outcomes.py). A timing
may be slower by 3 % or by the spread of either record, whichever is most.
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
    kept = record.of_this_commit(out) if options.keep else set()
    for name in names:
        if name not in kept:
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
    known = [[], *sections.NAMES]  # argparse holds that none of them is a choice, too
    add("sections", nargs="*", metavar="SECTION", choices=known)
    add("--compare", type=Path, metavar="OLD", help="report differences from OLD")
    add("--out", type=Path, metavar="FILE", help=f"default: {RECORD.name} here")
    add("--keep", action="store_true", help="sections of this commit in FILE stay")
    add("--reworded", action="store_true", help="messages may have other words")
    add("--moved", type=Path, metavar="FILE", help="JSON: old test -> new, or reason")
    add("--runs", type=int, default=5, help="of each timing (default: 5)")
    add("--pytest", default="", metavar="WORDS", help='for a try: "-k relu"')
    return parser


if __name__ == "__main__":
    sys.exit(main())
