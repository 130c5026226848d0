"""The judge finds races and reads of unwritten memory, and counts as ncu does."""

import sys

import numpy as np
import pytest

from weft.pykernel.sim.judge import Judge
from weft.pykernel.sim.layout import (
    ATOMIC,
    FENCE,
    GLOBAL,
    LOCAL,
    READ,
    SHARED,
    STEP,
    WRITE,
    Interval,
    Site,
    TracedArray,
)


class Launch:
    """A launch by hand: do() records one access of a thread."""

    def __init__(self, grid=(1, 1, 1), block=(64, 1, 1), **arrays):
        self.arrays = [
            TracedArray(n, *r[:3], r[3] if len(r) > 3 else r[0] == GLOBAL, *r[4:])
            for n, r in arrays.items()
        ]
        self.names = list(arrays)
        self.sites: list[Site] = []
        self.judge = Judge(self.arrays, self.sites, grid, block)
        self.rows: list[tuple] = []
        self.values: list[object] = []
        self.numbers: dict[int, int] = {}

    def do(self, thread, kind, name, element, line, value=None, phase=0):
        array = self.names.index(name) if name else -1
        site = Site(kind, array, f"{name}[...]", "k.py", line, 8)
        if site not in self.sites:
            self.sites.append(site)
        self.rows.append((thread, self.sites.index(site), element, phase))
        if kind == WRITE:
            self.values.append(value)

    def end(self, block=0, phases=False):
        """End the interval, at a barrier or with the block."""
        columns = np.array(self.rows, np.int64).reshape(-1, 4).T
        number = self.numbers.get(block, 0)
        self.judge.interval(
            Interval(
                block,
                number,
                columns[0].astype(np.int32),
                columns[1].astype(np.int32),
                columns[2],
                columns[3].astype(np.int32) if phases else None,
                self.values,
            )
        )
        self.numbers[block] = number + 1
        self.rows, self.values = [], []

    def findings(self):
        return self.judge.finish()[0]

    def place(self, name, kind=READ):
        counters = self.judge.finish()[1]
        return next(p for p in counters.places if (p.array, p.kind) == (name, kind))


F4 = np.dtype(np.float32)
S = (SHARED, (64,), F4)
X = (GLOBAL, (4096,), F4)


def test_a_missing_barrier_is_told_with_both_threads_and_lines():
    launch = Launch(s=S)
    for t in range(8):
        launch.do(t, WRITE, "s", t, 8, 1.0)
        launch.do(t, READ, "s", (t + 1) % 8, 9)
    launch.end()
    (fault,) = launch.findings()
    assert fault.text == (
        "thread 7 reads s[0] at line 9 while thread 0 writes it at line 8: no barrier "
        "between the write and the read that follows it (both are in one warp: running "
        "in step may hide it, but nothing promises that order)"
    )
    assert (fault.kind, fault.line, fault.other_line, fault.count) == ("race", 9, 8, 8)
    assert (fault.thread, fault.other, fault.index) == ((7, 0, 0), (0, 0, 0), (0,))


def test_a_barrier_between_them_ends_the_race():
    launch = Launch(s=S)
    for t in range(8):
        launch.do(t, WRITE, "s", t, 8, 1.0)
    launch.end()
    for t in range(8):
        launch.do(t, READ, "s", (t + 1) % 8, 9)
    launch.end()
    assert launch.findings() == []


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_threads_does_not_change_a_finding(order):
    launch = Launch(s=S)
    for t in range(64)[::order]:
        launch.do(t, WRITE, "s", t, 8, t)
        launch.do(t, READ, "s", t ^ 32, 9)
    launch.end()
    (fault,) = launch.findings()
    assert fault.text == (
        "thread 32 reads s[0] at line 9 while thread 0 writes it at line 8: no barrier "
        "between the write and the read that follows it"
    )
    assert fault.count == 64


def test_the_read_comes_first_where_the_next_turn_overwrites():
    launch = Launch(s=S)
    for t in range(8):
        launch.do(t, READ, "s", (t + 1) % 8, 9)
        launch.do(t, WRITE, "s", t, 8, 1.0)
    launch.end()
    fault = next(f for f in launch.findings() if f.kind == "race")
    assert "no barrier between the read and the write that follows it" in fault.text


def test_no_order_is_told_of_accesses_that_come_in_turns():
    launch = Launch(s=S)
    for t in range(8):
        for _ in range(2):
            launch.do(t, WRITE, "s", t, 8, 1.0)
            launch.do(t, READ, "s", (t + 1) % 8, 9)
    launch.end()
    assert "no barrier between them" in launch.findings()[0].text


def test_of_several_readers_one_in_another_warp_is_told():
    launch = Launch(s=S)
    for t in range(64):
        launch.do(t, WRITE, "s", t, 8, 1.0)
        launch.do(t, READ, "s", 0, 9)
    launch.end()
    fault = launch.findings()[0]
    assert (fault.thread, fault.other) == ((32, 0, 0), (0, 0, 0))
    assert "in one warp" not in fault.text


def test_the_same_value_by_all_is_no_conflict_but_another_is():
    launch = Launch(s=S)
    for t in range(40):
        launch.do(t, WRITE, "s", 0, 4, float("nan"))
        launch.do(t, WRITE, "s", 1, 5, np.float32(t == 37))
    launch.end()
    (fault,) = launch.findings()
    assert fault.text == (
        "thread 0 writes 0.0 to s[1] at line 5 and thread 37 writes 1.0 to it at line "
        "5: which of them stays is chance"
    )
    assert fault.kind == "conflict"


def test_what_is_one_float32_is_one_value():
    launch = Launch((2, 1, 1), s=S, x=X)
    for block, value in enumerate((0.1, float(np.float32(0.1)))):
        launch.do(0, WRITE, "s", 0, 4, 0.1)
        launch.do(1, WRITE, "s", 0, 4, float(np.float32(0.1)))
        launch.do(0, WRITE, "x", 0, 5, value)
        launch.do(0, WRITE, "x", 1, 6, float("nan"))
        launch.end(block)
    assert launch.findings() == []


def test_a_meeting_of_the_warp_orders_it_but_no_other_warp():
    launch = Launch(s=S)
    for t in range(32):
        launch.do(t, WRITE, "s", t, 8, 1.0, phase=0)
        launch.do(t, READ, "s", t ^ 1, 9, phase=1)
    launch.end(phases=True)
    for t in (0, 40):
        launch.do(t, WRITE, "s", 3, 11, t, phase=t // 32)
    launch.end(phases=True)
    (fault,) = launch.findings()
    assert (fault.line, fault.kind, fault.other) == (11, "conflict", (40, 0, 0))


def test_same_phase_of_one_warp_still_races():
    launch = Launch(s=S)
    launch.do(0, WRITE, "s", 5, 8, 1.0, phase=2)
    launch.do(1, READ, "s", 5, 9, phase=2)
    launch.do(2, READ, "s", 5, 10, phase=3)
    launch.end(phases=True)
    assert [f.line for f in launch.findings() if f.kind == "race"] == [9]


def test_atomics_race_with_plain_accesses_only():
    launch = Launch(x=X)
    for t in range(64):
        launch.do(t, ATOMIC, "x", 0, 4)
    launch.end()
    launch.do(1, ATOMIC, "x", 1, 5)
    launch.do(2, READ, "x", 1, 6)
    launch.do(3, ATOMIC, "x", 2, 7)
    launch.do(4, WRITE, "x", 2, 8, 0)
    launch.end()
    faults = launch.findings()
    assert sorted({f.line, f.other_line} for f in faults) == [{5, 6}, {7, 8}]


def test_a_read_of_what_nobody_wrote():
    launch = Launch(s=S, r=(LOCAL, (4,), F4), y=(GLOBAL, (8,), F4, False), x=X)
    launch.do(0, READ, "s", 3, 4)
    launch.do(1, WRITE, "r", 0, 5, 1.0)
    launch.do(1, READ, "r", 0, 6)
    launch.do(2, READ, "r", 0, 7)
    launch.do(2, READ, "y", 7, 8)
    launch.do(2, READ, "x", 7, 9)
    launch.end()
    faults = launch.findings()
    assert {f.line: f.text.partition(" at line")[0] for f in faults} == {
        4: "thread 0 reads s[3]",
        7: "thread 2 reads r[0]",
        8: "thread 2 reads y[7]",
    }
    assert {f.kind for f in faults} == {"uninitialised"}


def test_shared_memory_is_blank_again_in_the_next_block():
    launch = Launch((2, 1, 1), s=S)
    launch.do(0, WRITE, "s", 3, 4, 0)
    launch.end(0)
    launch.do(0, READ, "s", 3, 5)
    launch.end(0)
    launch.do(0, READ, "s", 3, 5)
    launch.end(1)
    (fault,) = launch.findings()
    assert fault.block == (1, 0, 0)


@pytest.mark.parametrize("rows", [1, 3, 1 << 14])
def test_findings_do_not_depend_on_what_is_looked_at_together(rows, monkeypatch):
    monkeypatch.setattr(sys.modules[Judge.__module__], "ROWS", rows)
    launch = Launch((3, 1, 1), s=S, x=X)
    for block in range(3):
        launch.do(0, WRITE, "s", 3, 4, 0)
        launch.end(block)
        launch.do(0, READ, "s", 3, 5)
        launch.do(1, READ, "s", 2, 6)
        launch.do(1, WRITE, "x", 2, 7, block)
        launch.end(block)
    faults = launch.findings()
    assert [(f.kind, f.line, f.count) for f in faults if f.line == 6] == [
        ("uninitialised", 6, 3)
    ]
    assert [(f.kind, f.line, f.count) for f in faults if f.line == 7] == [
        ("race", 7, 2)
    ]


def test_atomics_on_shared_memory_need_it_written_before():
    launch = Launch(s=S)
    for t in range(4):
        launch.do(t, ATOMIC, "s", 0, 4)
    launch.end()
    (fault,) = launch.findings()
    assert fault.text == (
        "thread 0 updates s[0] at line 4, which no thread of its block has written "
        "before"
    )


@pytest.mark.parametrize("rows", [1, 1 << 14])
def test_a_write_after_many_blocks_have_read_races(rows, monkeypatch):
    monkeypatch.setattr(sys.modules[Judge.__module__], "ROWS", rows)
    launch = Launch((9, 1, 1), x=X)
    for block in range(8):
        launch.do(0, READ, "x", 64, 4)
        launch.do(0, WRITE, "x", block, 5, 0)
        launch.end(block)
    launch.judge._examine()
    launch.do(0, WRITE, "x", 64, 6, 0)
    launch.end(8)
    (fault,) = launch.findings()
    assert (fault.line, fault.other_line, fault.other) == (4, 6, (8, 0, 0))


def test_blocks_race_on_global_memory():
    launch = Launch((4, 1, 1), x=X)
    launch.do(5, WRITE, "x", 64, 3, 1.0)
    launch.end(0)
    launch.do(0, READ, "x", 64, 4)
    launch.end(1)
    (fault,) = launch.findings()
    assert fault.text == (
        "block 1 reads x[64] at line 4 and block 0 writes it at line 3: blocks run in "
        "any order, and nothing orders these two"
    )
    assert (fault.kind, fault.block, fault.other) == ("race", (1, 0, 0), (0, 0, 0))


def test_blocks_race_whichever_comes_first():
    launch = Launch((4, 1, 1), x=X)
    for block in (0, 1):
        launch.do(0, READ, "x", 64, 4)
        launch.end(block)
    launch.do(5, WRITE, "x", 64, 3, 1.0)
    launch.end(2)
    (fault,) = launch.findings()
    assert (fault.line, fault.other_line, fault.other) == (4, 3, (2, 0, 0))
    assert fault.text.startswith(
        "several blocks read x[64] at line 4 and block 2 writes it at line 3"
    )


def test_blocks_may_add_atomically_and_write_apart():
    launch = Launch((4, 1, 1), x=X)
    for block in range(4):
        launch.do(0, ATOMIC, "x", 64, 4)
        launch.do(0, WRITE, "x", block, 5, 1.0)
        launch.do(0, READ, "x", block, 5)
        launch.end(block)
    assert launch.findings() == []


def last_block(fence, barrier=True, reverse=False, everyone=False):
    """Return the findings of a reduction whose last block sums all blocks' results."""
    launch = Launch((3, 1, 1), x=X, count=(GLOBAL, (1,), np.dtype(np.int32)))
    blocks = [2, 1, 0] if reverse else [0, 1, 2]
    for block in blocks:
        for t in range(4 if everyone else 1):
            launch.do(t, WRITE, "x", 4 * block + t, 3, 1.0)
            if fence == "before":
                launch.do(t, FENCE, "", -1, 4)
        if barrier and everyone:
            launch.end(block)
        if fence == "one":
            launch.do(0, FENCE, "", -1, 4)
        launch.do(0, ATOMIC, "count", 0, 5)
        if fence == "after":
            launch.do(0, FENCE, "", -1, 6)
        launch.end(block)
        if block == blocks[-1]:
            for t in range(12 if everyone else 3):
                launch.do(t, READ, "x", t if everyone else 4 * t, 8)
            launch.do(0, WRITE, "count", 0, 9, 0)
        launch.end(block)
    return launch.findings()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("fence", ["before", "one"])
def test_the_last_block_may_read_what_a_fence_and_an_atomic_released(
    fence, everyone, reverse
):
    assert last_block(fence, everyone=everyone, reverse=reverse) == []


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("fence", ["none", "after"])
def test_without_a_fence_before_the_atomic_the_last_block_races(fence, everyone):
    faults = last_block(fence, everyone=everyone)
    assert any((f.kind, f.line, f.other_line) == ("race", 8, 3) for f in faults)


def test_another_threads_atomic_releases_nothing_without_a_barrier():
    faults = last_block("before", barrier=False, everyone=True)
    assert any((f.kind, f.line, f.other_line) == ("race", 8, 3) for f in faults)


def test_two_names_of_one_memory_race():
    i1 = np.dtype(np.uint8)
    launch = Launch(
        x=(GLOBAL, (16,), F4, True, 0, 0), y=(GLOBAL, (32,), i1, True, 0, 32)
    )
    launch.do(0, WRITE, "x", 9, 3, 1.0)  # touches bytes 36 to 39
    launch.do(1, READ, "y", 7, 4)  # touches byte 39
    launch.do(2, READ, "y", 8, 5)
    launch.end()
    (fault,) = launch.findings()
    assert (fault.line, fault.array, fault.index) == (4, "y", (7,))


@pytest.mark.parametrize("stride, sectors", [(1, 4), (2, 8), (4, 16), (8, 32)])
def test_strided_loads_take_more_sectors(stride, sectors):
    launch = Launch(x=X)
    for t in range(64):
        launch.do(t, READ, "x", t * stride, 4)
    launch.end()
    place = launch.place("x")
    assert (place.accesses, place.requests) == (64, 2)
    assert place.sectors == 2 * sectors


@pytest.mark.parametrize(
    "dtype, sectors", [("f8", 8), ("f4", 4), ("f2", 2), ("u1", 1), ("c16", 16)]
)
def test_sectors_go_by_the_size_of_an_element(dtype, sectors):
    launch = Launch(block=(32, 1, 1), x=(GLOBAL, (64,), np.dtype(dtype)))
    for t in range(32)[::-1]:
        launch.do(t, READ, "x", t, 4)
    launch.end()
    assert launch.place("x").sectors == sectors


def test_the_tiled_loads_of_matmul_take_two_sectors_for_each_half_row():
    launch = Launch(block=(16, 16, 1), x=(GLOBAL, (64, 64), F4))
    for t in range(256):
        launch.do(t, READ, "x", t // 16 * 64 + t % 16, 4)
    launch.end()
    place = launch.place("x")
    assert (place.requests, place.sectors) == (8, 8 * 2 * 2)


def banks(pattern, dtype="f4", size=2048, lanes=32):
    launch = Launch(block=(lanes, 1, 1), s=(SHARED, (size,), np.dtype(dtype)))
    for t in range(lanes):
        launch.do(t, READ, "s", pattern(t), 4)
    launch.end()
    place = launch.place("s")
    return place.wavefronts, place.conflicts


@pytest.mark.parametrize(
    "pattern, wavefronts, conflicts",
    [
        (lambda t: t, 1, 0),
        (lambda t: t * 32, 32, 31),
        (lambda t: t * 33, 1, 0),
        (lambda t: t * 2, 2, 1),
        (lambda t: 7, 1, 0),
        (lambda t: 32 * (t % 2), 2, 1),
        (lambda t: (t + 5) % 32, 1, 0),
        (lambda t: 31 - t, 1, 0),
    ],
)
def test_banks(pattern, wavefronts, conflicts):
    assert banks(pattern) == (wavefronts, conflicts)


@pytest.mark.parametrize(
    "dtype, pattern, wavefronts, conflicts",
    [
        ("f8", lambda t: t, 2, 0),
        ("f8", lambda t: 2 * t, 4, 2),
        ("f8", lambda t: 16 * t, 32, 30),
        ("f8", lambda t: 17 * t, 2, 0),
        ("c16", lambda t: t, 4, 0),
        ("c16", lambda t: 8 * t, 32, 28),
        ("u1", lambda t: t, 1, 0),
        ("u1", lambda t: 4 * t, 1, 0),
        ("u1", lambda t: 128 * (t % 16), 16, 15),
    ],
)
def test_banks_of_wide_and_narrow_elements(dtype, pattern, wavefronts, conflicts):
    assert banks(pattern, dtype) == (wavefronts, conflicts)


def test_loops_of_differing_length_are_matched_by_occurrence():
    launch = Launch(block=(32, 1, 1), x=X)
    for t in range(32):
        for i in range(t % 4 + 1):
            launch.do(t, READ, "x", i * 32 + t, 4)
    launch.end()
    place = launch.place("x")
    assert (place.accesses, place.requests) == (80, 4)


def test_active_lanes_of_a_branch_on_odd_and_even():
    launch = Launch(block=(64, 1, 1))
    for t in range(64):
        launch.do(t, STEP, "", -1, 3)
        launch.do(t, STEP, "", -1, 5 if t % 2 else 7)
    launch.end()
    counters = launch.judge.finish()[1]
    assert counters.active_lanes == pytest.approx(128 / 6)


def test_counters_by_name():
    launch = Launch((2, 1, 1), (64, 1, 1), x=X, s=S)
    for block in range(2):
        for t in range(64):
            launch.do(t, READ, "x", block * 64 + t, 4)
            launch.do(t, WRITE, "s", t, 4, 0)
        launch.end(block)
        for t in range(64):
            launch.do(t, READ, "s", 63 - t, 6)
        launch.end(block)
    counters = launch.judge.finish()[1]
    assert (counters.blocks, counters.threads, counters.warps) == (2, 128, 4)
    assert counters.barriers == 2
    assert counters.reads == {"x": 128, "s": 128}
    assert counters.writes == {"s": 128}
    assert counters.reads_per_thread == {"x": 1, "s": 1}
    assert counters.sectors_per_request == {"x": 4}
    assert counters.bank_conflicts == {"s": 0}
    assert counters.wavefronts == {"s": 8}
    assert counters.bytes == {"x": 512}
    assert counters.lines_of("k.py")[4].sectors == 16
    assert counters.lines_of("k.py")[4].writes == 128
