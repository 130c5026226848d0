"""Compare the mutants that pass with the list of those that may pass."""

from pathlib import Path
from random import Random

from mutants.judges import answers, is_refused
from mutants.slips import mutants
from mutants.workers import REFUSED, SURVIVES, judged
from tqdm import tqdm

LISTED = Path(__file__).with_name("equivalent.txt")
NAMES = list(answers())


def run(names: list[str], sample: int | None, random: Random, jobs: int) -> list[str]:
    """Judge the mutants of these answers, or a sample; return the complaints."""
    candidates, listed = tasks(names), equivalents()
    selected = (
        sorted(random.sample(list(candidates), sample)) if sample else list(candidates)
    )
    failures = unknown(candidates, listed, names)
    counts = {REFUSED: 0, SURVIVES: 0}
    with tqdm(total=len(selected), unit=" mutants") as bar:
        for slip, outcome in judged(
            {s: candidates[s] for s in selected}, is_refused, jobs
        ):
            bar.update()
            if outcome in counts:
                counts[outcome] += 1
            complaint = wrong(slip, outcome, listed)
            if complaint:
                failures.append(complaint)
                bar.write(complaint)
    print(
        f"{len(selected)} mutants of {len(names)} answers: {counts[REFUSED]} refused, "
        f"{counts[SURVIVES]} pass, {len(failures)} of them not as they must"
    )
    return failures


def tasks(names: list[str]) -> dict[str, tuple[str, str]]:
    """Return the mutants of these answers: "name: slip" -> the arguments of
    is_refused()."""
    sources = answers()
    return {
        f"{name}: {mutant.slip}": (name, mutant.source)
        for name in names
        for mutant in mutants(sources[name])
    }


def equivalents() -> dict[str, str]:
    """Return the mutants that are right answers, with the last unindented line above
    each.

    Raises ValueError for a mutant that is listed twice.
    """
    reason, reasons = "", {}
    for line in LISTED.read_text(encoding="utf-8").splitlines():
        slip = line.strip()
        if line and line == slip:
            reason = line
        elif slip in reasons:
            raise ValueError(f"{LISTED.name}: twice: {slip}")
        elif slip:
            reasons[slip] = reason
    return reasons


def unknown(every: dict, listed: dict, names: list[str]) -> list[str]:
    """Return the listed names that no mutant of these answers has."""
    slips = (slip for slip in listed if slip.partition(":")[0] in names)
    return [f"no such mutant, but listed: {s}" for s in slips if s not in every]


def wrong(slip: str, outcome: str, listed: dict[str, str]) -> str:
    """Return a complaint if a mutant's outcome is not the expected one; else ""."""
    if outcome == REFUSED:
        return f"listed, but refused: {slip}" if slip in listed else ""
    if outcome == SURVIVES:
        return "" if slip in listed else f"passes: {slip}"
    return f"{outcome.strip()}\n{slip}"
