"""The watch build finds every fault at its line, and nothing else.

corpus/ has programs whose kernels each have one fault, with a mark at its line, and
programs whose kernels only seem to have one. Each runs in three orders of its threads.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from marked_cases import FOLDER, Case, cases, mark_of

from weft.programs import program
from weft.report.cures import KINDS
from weft.report.model import Finding
from weft.report.raw import Files, program_report

FAULTY = sorted(FOLDER.glob("faulty/*.cu"))
CLEAN = sorted(FOLDER.glob("clean/*.cu"))
ORDERS = {"forward": "0", "reverse": "1", "random": "7"}
each_order = pytest.mark.parametrize(
    "order",
    ["forward", *(pytest.param(o, marks=pytest.mark.slow) for o in list(ORDERS)[1:])],
)
QUICK = {"races_shared", "groups"}  # each of these takes 2 s to compile
SECONDS = 300  # time limit in seconds; a hang that is not found then fails its test


class Runs:
    """Runs of a program's cases under the watch build."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, folder
        built_program = program.Program([str(path)], optimise="1", check=True)
        self.executable = program.build_executable(built_program)

    def findings(self, names: list[str], order: str) -> tuple[list[Finding], str]:
        """Return the findings in these cases, and the program's output."""
        file = self.folder / f"{order}-{names[0] if names else 'all'}.json"
        environment = {
            **os.environ,
            "WEFT_CHECK_REPORT": str(file),
            "WEFT_RUN_ORDER": ORDERS[order],
        }
        process = subprocess.run(
            [self.executable, *names],
            env=environment,
            text=True,
            capture_output=True,
            timeout=SECONDS,
        )
        output = f"{process.stdout}{process.stderr}(exit status {process.returncode})\n"
        if not file.exists():
            return [], f"{output}(no report)"
        report = program_report(file.read_text(), Files(str(FOLDER)), self.path.name)
        return report.findings, output


@pytest.fixture
def runs(request, tmp_path) -> Runs:
    return Runs(request.param, tmp_path)


def programs(paths):
    return pytest.mark.parametrize(
        "runs", [*map(_parameter, paths)], ids=lambda path: path.stem, indirect=True
    )


def _parameter(path):
    return (
        pytest.param(path, marks=pytest.mark.slow) if path.stem not in QUICK else path
    )


def complaints(runs: Runs, order: str) -> list[str]:
    """Return complaints about the findings in each case, run in one order."""
    all_cases = cases(runs.path)
    together = [case for case in all_cases if case.goes_on]
    singles = [[case] for case in all_cases if not case.goes_on]

    def of(group: list[Case]) -> list[str]:
        findings, output = runs.findings([case.name for case in group], order)
        errors: list[str] = []
        for case in group:
            own = [f for f in findings if _is_about(f, case, group)]
            errors += case.complaints(own)
        return [f"{order}: {error}" for error in errors] + [output] * bool(errors)

    groups = [*singles, together] if together else singles
    with ThreadPoolExecutor(2) as pool:
        return [text for texts in pool.map(of, groups) for text in texts]


def _is_about(finding: Finding, case: Case, group: list[Case]) -> bool:
    """Return whether a finding is this case's: by its line, or as the only case."""
    lines = {finding.line, finding.other_line} - {0}
    owners = [one for one in group if lines & one.lines]
    return case in owners or (not owners and case is group[0])


@each_order
@programs(FAULTY)
def test_every_fault_is_found_at_its_line_and_nothing_else(runs, order):
    errors = complaints(runs, order)
    assert not errors, "\n" + "\n".join(errors)


@pytest.mark.slow
def test_a_kernel_that_makes_no_progress_is_ended_in_seconds(tmp_path):
    path = FOLDER / "faulty/endless.cu"
    case = next(c for c in cases(path) if c.name == "a_flag_that_nobody_raises")
    findings, output = Runs(path, tmp_path).findings([case.name], "forward")
    assert not case.complaints(findings), output


@pytest.mark.slow
def test_findings_in_a_template_function_have_their_lines(tmp_path):
    """The function has its own section, which begins with the table's first file."""
    text = (FOLDER / "clean/warps.cu").read_text()
    text = text.replace('"../cases.h"', f'"{FOLDER}/cases.h"')
    path = tmp_path / "plain.cu"
    path.write_text(text.replace("warp_reduce(volatile int *s", "warp_reduce(int *s"))
    name = "volatile_warp_synchronous_in_a_template"
    findings, output = Runs(path, tmp_path).findings([name], "forward")
    lines = path.read_text().splitlines()
    assert findings and all("s[t] += s[t + " in lines[f.line - 1] for f in findings), (
        output
    )


@each_order
@programs(CLEAN)
def test_clean_kernels_are_right_and_nothing_is_found(runs, order):
    findings, output = runs.findings([], order)
    lines = [f"{f.kind} at line {f.line}, {f.other_line}: {f}" for f in findings]
    assert not findings, "\n".join([*lines, output])
    verdicts = [f"{case.name} right" for case in cases(runs.path)]
    assert [line for line in output.splitlines() if line in verdicts] == verdicts, (
        output
    )


def test_the_corpus_is_large_and_has_every_kind_of_fault():
    faulty = [case for path in FAULTY for case in cases(path)]
    clean = [case for path in CLEAN for case in cases(path)]
    assert len(faulty) >= 100 and all(case.marks for case in faulty)
    assert len(clean) >= 80 and not any(case.marks for case in clean)
    kinds = frozenset().union(*(case.kinds for case in faulty))
    assert kinds == KINDS.keys() - {"exception"}  # only Python has "exception"


def test_marks_are_read_and_wrong_ones_refused():
    mark = mark_of(7, "bounds|race", ", block (1,2), threads 3 and (40,0,1), x[-5]")
    assert mark.blocks == {(1, 2, 0)} and mark.threads == {(3, 0, 0), (40, 0, 1)}
    assert (mark.array, mark.index, mark.line) == ("x", -5, 7)
    assert mark.kinds == {"bounds", "race"}
    finding = Finding("race", "", line=2, other_line=7, block=(1, 2, 0))
    assert not mark.tells(finding)
    details = {"thread": (40, 0, 1), "other": (3, 0, 0), "array": "x", "index": (-5,)}
    detailed = Finding("race", "", line=2, other_line=7, block=(1, 2, 0), **details)
    assert mark.tells(detailed)
    for kinds, suffix in [("bound", ""), ("race", ", somewhere else")]:
        with pytest.raises(ValueError, match="line 7"):
            mark_of(7, kinds, suffix)


def test_a_missed_fault_and_a_false_alarm_are_complaints():
    case = next(c for c in cases(FOLDER / "faulty/races_shared.cu") if c.marks)
    line, other = case.marks[0].line, max(case.lines - {case.marks[0].line})
    swapped = Finding("race", "", line=other, other_line=line)
    assert not case.complaints([swapped])
    assert "not found" in case.complaints([])[0]
    for finding in (
        Finding("race", "", line=line, other_line=line + 50),
        Finding("bounds", "", line=line),
        Finding("race", ""),
    ):
        assert "false alarm" in case.complaints([swapped, finding])[-1]
