"""The order of threads and blocks, and the output of a launch."""

import numpy as np
import pytest

from weft import cuda, sim


def visits(order, ticket):
    order[cuda.atomic.add(ticket, 0, 1)] = cuda.grid(1)


def visited(order) -> list[int]:
    sequence, ticket = np.zeros(12, np.int32), np.zeros(1, np.int32)
    sim(visits, order=order, quiet=True)[3, 4](sequence, ticket)
    return sequence.tolist()


def test_forward_and_reverse():
    assert visited("forward") == list(range(12))
    assert visited("reverse") == list(range(12))[::-1]


def test_a_shuffle_keeps_blocks_together_and_can_be_repeated():
    for order in ("shuffled", 1, np.int64(2)):
        sequence = visited(order)
        assert sorted(sequence) == list(range(12)) and sequence == visited(order)
        assert all(len({i // 4 for i in sequence[b : b + 4]}) == 1 for b in (0, 4, 8))
    assert visited(1) != visited(2)


def shift(y, x):
    s = cuda.shared.array(8, np.float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    y[t] = s[(t + 7) % 8]  # a barrier is missing


@pytest.mark.parametrize("order", ["forward", "reverse", "shuffled"])
def test_a_race_is_found_in_any_order(order, capsys):
    y, x = np.zeros(8), np.arange(8, dtype=np.float32)
    report = sim(shift, order=order)[1, 8](y, x)
    assert "race" in {f.kind for f in report.findings}
    output = capsys.readouterr()
    assert "race" in output.err and "y[t] = s[(t + 7) % 8]" in output.err
    assert not output.out
    sim(shift, order=order, quiet=True)[1, 8](y, x)
    assert not capsys.readouterr().err


def test_without_checks_nothing_is_told_and_the_order_decides(capsys):
    y, x = np.zeros(8), np.arange(8, dtype=np.float32)
    report = sim(shift, checks=False)[1, 8](y, x)
    assert report.ok and report.counters is None and not capsys.readouterr().err
    assert np.isnan(y[0]) and (y[1:] == x[:-1]).all()
    sim(shift, checks=False, order="reverse")[1, 8](y, x)
    assert np.isnan(y[1:]).all() and y[0] == 7
