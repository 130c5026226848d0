"""Each reason allows exactly its range of differences between ncu and our counters."""

from dataclasses import replace

import pytest

from weft import bench
from weft.base.paths import ROOT
from weft.benchmarks import counters as bench_counters
from weft.benchmarks.counters import Excuse, find_excuse
from weft.report.costs import CostPlace, Counters
from weft.see.machine_code import instructions, ncu
from weft.see.watched_runs import inspect


def test_a_difference_is_excused_only_within_the_range_of_its_reason():
    judge, excuse = bench_counters.judge_counts, Excuse("merged", 4, 8)
    count = ncu.Metric("n", ("n",), exact=True)
    assert judge(count, 8, 4, excuse) == judge(count, 8, 5, excuse)
    assert judge(count, 8, 4, excuse) == (True, "merged")
    for beyond in (3, 9):
        agrees, verdict = judge(count, 8, beyond, excuse)
        message = f"DIFFERS: merged; that explains 4 to 8, not {beyond}"
        assert (agrees, verdict) == (False, message)
    ratio = ncu.Metric("r", ("r",), tight=True)  # a ratio may exceed its range by 2 %
    assert judge(ratio, 6, 3.93, excuse)[0] and not judge(ratio, 6, 3.9, excuse)[0]


def _code(*lines: str, at: int = 0):
    """Return machine instructions on line `at` of k.cu."""
    rows = "\n".join(f"        /*{i:04x}*/  {t} ;" for i, t in enumerate(lines))
    code = instructions.read_sass(f"//--- .text.k ---\n{rows}\n", "k").instructions
    return [replace(one, file="k.cu", line=at) for one in code]


def _place(kind: str, space: str = "", line: int = 1, **counts: int) -> CostPlace:
    return CostPlace(
        kind=kind, space=space, file="k.cu", line=line, last=line, **counts
    )


BY_NAME = {m.name: m for m in [*ncu.COUNTS, *ncu.LANES]}
LDS128 = "LDS.128 R4, [R0]"


def _range(name: str, places: list[CostPlace], code) -> tuple[float, float] | None:
    excuse = find_excuse(BY_NAME[name], Counters(warps=8, places=places), code)
    return (excuse.least, excuse.most) if excuse else None


def test_merged_accesses_explain_the_missing_ones_of_their_line():
    """One load of 128 bits replaces four of 32; other lines are not affected."""
    line = _place("read", "shared", size=4, requests=80, wavefronts=80)
    other = _place("read", "shared", line=9, size=4, requests=1000, wavefronts=1000)
    merged = _code(LDS128, "LDG.E.128 R4, [R2.64]", at=1) + _code("LDS R4, [R0]", at=9)
    waves = "shared load wavefronts"
    assert _range(waves, [line, other], merged) == (1020, 1080)
    some = merged + _code("LDS R4, [R0]", at=1)  # the compiler merged four of five
    assert _range(waves, [line, other], some) == (1032, 1080)
    line.wavefronts, line.conflicts = 320, 240  # each request takes four turns
    assert _range(waves, [line], _code(LDS128, at=1)) == (80, 320)
    assert _range("shared load conflicts", [line], _code(LDS128, at=1)) == (0, 240)
    assert _range(waves, [line], _code("LDS R4, [R0]", at=1)) is None
    line.size = 16  # as wide as the accesses of the source
    assert _range(waves, [line], _code(LDS128, at=1)) is None
    why = find_excuse(BY_NAME[waves], Counters(places=[other]), merged).why
    assert why == "the compiler merged accesses of 32 bits: 1 LDS.128"


def test_the_remainder_of_a_loop_hides_no_merged_access():
    """The remainder contains the single loads but hardly runs, so it hides nothing."""
    loop = "LDS.128 R4, [R0]", "LDS R8, [R1]", "@P0 BRA `(.L_x_0)"
    remainder = _code(*["LDS R4, [R0]"] * 12, at=1)
    head, *tail = _code(*loop, at=1)
    code = [replace(head, labels=(".L_x_0",)), *tail, *remainder]
    place = _place("read", "shared", size=4, requests=100, wavefronts=100)
    least, most = _range("shared load wavefronts", [place], code)
    assert (round(least), most) == (40, 100)  # 5 accesses may become 2


def test_a_lane_that_acts_for_its_warp_explains_one_sector_per_request():
    sums = _place("atomic", "global", size=4, requests=64, sectors=2048)
    other = _place("atomic", "global", line=9, size=4, requests=64, sectors=500)
    redux = _code("REDUX.MAX.S32 UR4, R2", at=1)
    assert _range("global atomic sectors", [sums, other], redux) == (564, 2548)
    assert _range("global atomic requests", [sums], redux) is None
    assert _range("global atomic sectors", [other], redux) is None
    assert _range("global atomic sectors", [sums], _code(LDS128, at=1)) is None


def test_weights_explain_only_means_between_those_of_the_pieces():
    """On line 2, 16 of 32 threads are active; each line has its own weight."""
    threads = "active threads per instruction"
    pieces = [_place("step", line=1, accesses=256, requests=8)]
    pieces += [_place("step", line=2, accesses=128, requests=8)]
    assert _range(threads, pieces, []) == (16, 32)
    code = _code(*["FADD R0, R0, R0"] * 3, at=1) + _code("FADD R0, R0, R0", at=2)
    assert _range(threads, pieces, code) == (28, 28)
    # This instruction runs with all 32 threads, or with 16.
    masked = code + _code("@P0 FADD R0, R0, R0", at=2)
    assert _range(threads, pieces, masked) == (25.6, 28.8)
    alike = [_place("step", line=line, accesses=256, requests=8) for line in (1, 2)]
    assert _range(threads, alike, masked) == (32, 32)


COMMITTED = sorted((ROOT / "notebooks" / "results").glob("counters_*.json"))
CASES = [case.name for case in bench_counters.list_cases()]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_committed_verdicts_are_those_of_today(name):
    """A GPU's measurements are judged again, with this machine's counts and code."""
    case = next(c for c in bench_counters.list_cases() if c.name == name)
    kernel = bench_counters._find_kernel(case.kernel, case.template)
    counters = inspect(kernel, quiet=True)[case.shape](*case.args).counters
    code = bench_counters._read_instructions(case.kernel, case.template)
    if not code:
        pytest.skip("no machine code without nvcc")
    rows = [r for r in bench.read_json(COMMITTED[-1])["rows"] if r["rung"] == name]
    assert rows
    for row in rows:
        metric = BY_NAME[row["metric"]]
        ours = metric.ours(counters)
        assert row["cpu"] == (ours and pytest.approx(ours, rel=1e-5))
        exempt = metric.tight and case.lanes
        excuse = None if exempt else find_excuse(metric, counters, code)
        judgement = bench_counters.judge_counts(metric, ours, row["ncu"], excuse)
        assert judgement == (row["agrees"], row["verdict"]), row["metric"]
        if judgement[0] and judgement[1] == (excuse and excuse.why):
            beyond = 0.9 * excuse.least  # a larger difference must be refused
            assert not bench_counters.judge_counts(metric, ours, beyond, excuse)[0]
