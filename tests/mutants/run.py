"""A run: which mutants pass, and whether they may."""

from pathlib import Path
from random import Random

from mutants.judges import answers, is_refused
from mutants.slips import mutants
from mutants.workers import REFUSED, SURVIVES, judged
from tqdm import tqdm

LISTED = Path(__file__).with_name("equivalent.txt")
NAMES = list(answers())


def run(names: list[str], sample: int | None, random: Random, jobs: int) -> list[str]:
    """Judge the mutants of these answers, or a sample; what is not as it must be."""
    every, listed = tasks(names), equivalents()
    chosen = sorted(random.sample(list(every), sample)) if sample else list(every)
    failures = unknown(every, listed, names)
    counts = {REFUSED: 0, SURVIVES: 0}
    with tqdm(total=len(chosen), unit=" mutants") as bar:
        for slip, came in judged({s: every[s] for s in chosen}, is_refused, jobs):
            bar.update()
            if came in counts:
                counts[came] += 1
            said = wrong(slip, came, listed)
            if said:
                failures.append(said)
                bar.write(said)
    print(
        f"{len(chosen)} mutants of {len(names)} answers: {counts[REFUSED]} refused, "
        f"{counts[SURVIVES]} pass, {len(failures)} of them not as they must"
    )
    return failures


def tasks(names: list[str]) -> dict[str, tuple[str, str]]:
    """The mutants of these answers: "name: slip" -> what is_refused() takes."""
    sources = answers()
    return {
        f"{name}: {mutant.slip}": (name, mutant.source)
        for name in names
        for mutant in mutants(sources[name])
    }


def equivalents() -> dict[str, str]:
    """The mutants that are right answers, and why: the line above that is not indented.

    Raises ValueError for one that is listed twice.
    """
    why, found = "", {}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        slip = line.strip()
        if line and line == slip:
            why = line
        elif slip in found:
            raise ValueError(f"{LISTED.name}: twice: {slip}")
        elif slip:
            found[slip] = why
    return found


def unknown(every: dict, listed: dict, names: list[str]) -> list[str]:
    """Return the listed names that no mutant of these answers has."""
    ours = (slip for slip in listed if slip.partition(":")[0] in names)
    return [f"no such mutant, but listed: {slip}" for slip in ours if slip not in every]


def wrong(slip: str, came: str, listed: dict[str, str]) -> str:
    """Return a complaint if a mutant's outcome is not the expected one; else ""."""
    if came == REFUSED:
        return f"listed, but refused: {slip}" if slip in listed else ""
    if came == SURVIVES:
        return "" if slip in listed else f"passes: {slip}"
    return f"{came.strip()}\n{slip}"
