"""latency(): the model obeys Little's law, and the picture shows its steps."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from python_kernels import CASES
from tiers import only

from weft import ArgumentError, cuda, latency, sim
from weft.see.pictures.warp_steps import (
    ARITHMETIC,
    BARRIER,
    GLOBAL,
    SHARED,
    STORE,
    IssuedInstruction,
    programs,
)
from weft.see.pictures.warps import ISSUING, MEMORY, OTHERS, Model, replay

float32 = np.float32
TILE = 8


def sum_columns(out, x, n, m):
    i = cuda.grid(1)
    acc = float32(0)
    for k in range(n):
        acc += x[k * m + i]
    out[i] = acc


def add(out, x, y):
    i = cuda.grid(1)
    a = x[i]
    j = i + 1
    b = y[j - 1]
    out[i] = a + b


def follow(out, after, n):
    i = cuda.threadIdx.x
    j = after[i]
    for _ in range(n):
        j = after[j]
    out[i] = j


def twice(out, x, y):
    i = cuda.threadIdx.x
    out[i] = x[i]
    out[i + 32] = y[i]


def staged(out, x, y):
    s = cuda.shared.array((2, 64), float32)
    t = cuda.threadIdx.x
    s[0, t] = x[t]
    s[1, t] = y[t]
    cuda.syncthreads()
    out[t] = s[0, 63 - t] + s[1, t]


def halves(out, x):
    i = cuda.threadIdx.x
    if i < 16:
        out[i] = x[i] * float32(2)
    else:
        out[i] = x[i] + float32(1)


def zeros(*shape):
    return np.zeros(shape, float32)


def program(kernel, *args, threads=32, warp=0):
    report = sim(kernel, trace=True, quiet=True)[1, threads](*args)
    return programs(report.trace, report, 1000)[0][warp]


def kinds(instructions):
    return [one.kind for one in instructions]


def chain(turns):
    """Return loads, each followed by an addition that needs it."""
    out = []
    for turn in range(turns):
        inputs = (2 * turn - 1,) if turn else ()
        out.append(IssuedInstruction(GLOBAL, inputs))
        out.append(IssuedInstruction(ARITHMETIC, (2 * turn,)))
    return tuple(out)


@pytest.mark.parametrize("warps", only([4, 64], [4, 64, 512]))
@pytest.mark.parametrize("memory", [50, 400])
def test_a_chain_of_loads_obeys_littles_law(warps, memory):
    model = Model(memory=memory)
    run = replay([[chain(100)]], warps, 512, model)
    share = warps / model.schedulers * 2 / (memory + model.arithmetic)
    # At each end of a chain of a hundred turns, a warp may wait for one turn.
    assert run.utilisation == pytest.approx(min(1, share), rel=2 / 100)
    assert run.issued == 512 * 200


def test_loads_in_flight_are_loads_per_cycle_times_latency():
    program = tuple(
        IssuedInstruction(GLOBAL, (i - 1,) if i else ()) for i in range(200)
    )
    run = replay([[program]], 16, 16, Model())
    per_cycle = run.issued / run.cycles
    assert per_cycle * 400 == pytest.approx(16, rel=0.01)


def test_loads_of_one_warp_overlap_where_nothing_waits_between_them():
    together = (
        IssuedInstruction(GLOBAL),
        IssuedInstruction(GLOBAL),
        IssuedInstruction(STORE, (0, 1)),
    )
    dependent = (
        IssuedInstruction(GLOBAL),
        IssuedInstruction(GLOBAL, (0,)),
        IssuedInstruction(STORE, (1,)),
    )
    assert replay([[together]], 1, 1, Model()).cycles == 1 + 400 + 1
    assert replay([[dependent]], 1, 1, Model()).cycles == 2 * 400 + 1


def test_a_barrier_waits_for_the_last_warp_and_only_for_its_block():
    slow = (
        IssuedInstruction(GLOBAL),
        IssuedInstruction(BARRIER, (0,)),
        IssuedInstruction(STORE),
    )
    fast = (IssuedInstruction(BARRIER), IssuedInstruction(STORE))
    run = replay([[slow, fast], [fast, fast]], 2, 2, Model(), until=1000)
    waits = [[(a, b) for s, a, b in row if s == OTHERS] for row in run.spans]
    assert waits[1] == [(1, 401)] and waits[0] == []
    assert all(b < 10 for row in waits[2:] for _, b in row)


def test_a_warp_that_ends_does_not_hold_up_a_barrier():
    short, long = (
        (IssuedInstruction(STORE),),
        (IssuedInstruction(BARRIER), IssuedInstruction(STORE)),
    )
    run = replay([[long, short], [short, long]], 1, 2, Model())
    assert run.issued == 6


def test_a_scheduler_issues_one_instruction_in_a_cycle():
    work = tuple(IssuedInstruction(ARITHMETIC) for _ in range(50))
    run = replay([[work]], 64, 64, Model(), until=2000)
    assert run.utilisation == 1 and run.cycles == 64 * 50 / 4
    assert max(run.slots) == 4
    issued = sum(b - a for row in run.spans for s, a, b in row if s == ISSUING)
    assert issued == run.issued == sum(run.slots)


def test_blocks_follow_one_another_where_there_is_room():
    block = (IssuedInstruction(GLOBAL), IssuedInstruction(STORE, (0,)))
    run = replay([[block]], 2, 6, Model())
    assert run.warps == 2 and run.issued == 12 and run.cycles == 3 * 401


def test_instructions_are_those_of_the_source():
    sums = program(sum_columns, zeros(32), zeros(96), 3, 32)
    assert kinds(sums) == [GLOBAL, ARITHMETIC] * 3 + [STORE]
    assert [one.after for one in sums][:4] == [(), (0,), (), (1, 2)]
    assert kinds(program(staged, zeros(64), zeros(64), zeros(64), threads=64)) == (
        [GLOBAL, GLOBAL, STORE, STORE, BARRIER, SHARED, SHARED, ARITHMETIC, STORE]
    )


def test_an_instruction_waits_for_the_names_it_uses():
    code = program(add, zeros(32), zeros(32), zeros(32))
    assert kinds(code) == [GLOBAL, ARITHMETIC, GLOBAL, ARITHMETIC, STORE]
    assert code[2].after == (1,) and code[3].after == (0, 2)
    steps = program(follow, *[np.zeros(32, np.int32)] * 2, 3)
    assert kinds(steps) == [GLOBAL] * 4 + [STORE]
    assert [one.after for one in steps] == [(), (0,), (1,), (2,), (3,)]


def test_a_load_does_not_pass_a_store_to_the_same_kind_of_memory():
    code = program(twice, zeros(64), zeros(32), zeros(32))
    assert kinds(code) == [GLOBAL, STORE, GLOBAL, STORE] and 1 in code[2].after


def test_a_divergent_warp_issues_both_sides():
    assert kinds(program(halves, zeros(32), zeros(32))).count(GLOBAL) == 2


@pytest.fixture(scope="module")
def picture():
    return latency(sum_columns)[2, 64](zeros(128), zeros(128 * 6), 6, 128)


def test_the_picture_shows_what_the_model_did(picture):
    assert list(picture.utilisation) == [2, 4, 8, 16, 32, 64]
    slow = latency(sum_columns, memory=4000)[2, 64](
        zeros(128), zeros(128 * 6), 6, 128
    ).utilisation
    assert all(slow[n] < share / 5 for n, share in picture.utilisation.items())
    for at, (warps, run) in enumerate(picture.runs.items()):
        text = picture.svg(at)
        root = ET.fromstring(text.replace('xmlns="http://www.w3.org/2000/svg" ', ""))
        words = " ".join("".join(n.itertext()) for n in root.iter("text"))
        assert f"With {warps} warps the 4 schedulers issue in" in words
        assert f"{run.cycles:,}".replace(",", "\u202f") in words
        assert 'data-state="memory"' in text and 'data-state="issuing"' in text
    turns, by_turn = 6, 400 + 4
    share = 64 / 4 * (2 * turns + 1) / (turns * by_turn + 1)
    assert picture.utilisation[64] == pytest.approx(share, rel=0.03)
    assert f"64: {100 * run.utilisation:.2g} %" in repr(picture)
    assert sum(b - a for s, a, b in run.spans[0] if s == MEMORY) > 1000


@pytest.mark.parametrize("name", ["block_sum", "warps", "branches", "atomics"])
def test_every_instruction_of_every_block_is_issued_once(name):
    case = CASES[name]
    launch = latency(case.kernel)[case.grid, case.block, 0, case.shared]
    picture = launch(*case.arguments())
    blocks = programs(picture.report.trace, picture.report, 10_000)
    (total,) = {run.issued for run in picture.runs.values()}
    rounds, extra = divmod(max(picture.runs) // len(blocks[0]), len(blocks))
    work = blocks * rounds + blocks[:extra]
    assert total == sum(len(program) for block in work for program in block)
    cycles = [run.cycles for run in picture.runs.values()]
    assert cycles == sorted(cycles, reverse=True)


def test_warps_that_wait_together_are_reported():
    case = CASES["block_sum"]
    picture = latency(case.kernel)[case.grid, case.block](*case.arguments())
    assert "if they did not wait at the same time." in picture.svg()


def test_the_picture_notes_repeated_blocks_and_omitted_instructions(picture):
    assert "(the launch has 2: they are repeated)" in picture.svg()
    long = latency(sum_columns)[1, 32](zeros(32), zeros(32 * 900), 900, 32)
    most = int(re.search(r"the first (\d+) instructions", long.svg())[1])
    assert all(run.issued == 64 * most for run in long.runs.values())


def test_the_picture_stays_small():
    large = latency(staged)[16, 64](zeros(64), zeros(64), zeros(64))
    assert len(large.drawing.html()) < 1_500_000


def test_invalid_arguments_raise_errors():
    with pytest.raises(ArgumentError, match="memory=0: expected a whole number"):
        latency(add, memory=0)
    with pytest.raises(ArgumentError, match="64 threads has 2 warps.* room for 1"):
        latency(staged, resident=1)[1, 64](zeros(64), zeros(64), zeros(64))
    with pytest.raises(ArgumentError, match="a Python function.*the simulator"):
        latency(3)
