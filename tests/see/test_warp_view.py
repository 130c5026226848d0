"""The pictures of a warp's request and the simulator agree on the counts."""

import numpy as np
import pytest

from weft import cuda, sim
from weft.base.style import write_svg
from weft.see import sketches as warp_view
from weft.see import view
from weft.see.sketches import sectors_of, turns_of

T = np.arange(32)
RANDOM = np.random.default_rng(0).integers(0, 400, 32)
PATTERNS = {
    **{f"{stride} * t": stride * T for stride in (1, 2, 3, 4, 8, 31, 32, 33)},
    **{"t + 1": T + 1, "31 - t": 31 - T, "0": 0 * T, "t // 2": T // 2},
    **{"random": RANDOM, "random pairs": np.repeat(RANDOM[:16], 2)},
}


def fetch(y, x, chosen):
    y[cuda.threadIdx.x] = x[chosen[cuda.threadIdx.x]]


def fetch_shared(y, chosen):
    s = cuda.shared.array(1200, np.float32)
    for i in range(cuda.threadIdx.x, 1200, 32):
        s[i] = np.float32(i)
    cuda.syncthreads()
    y[cuda.threadIdx.x] = s[chosen[cuda.threadIdx.x]]


@pytest.mark.parametrize("elements", PATTERNS.values(), ids=PATTERNS.keys())
def test_counts_are_those_of_the_simulator(elements):
    y, x = np.zeros(32, np.float32), np.zeros(1200, np.float32)
    counters = sim(fetch)[1, 32](y, x, elements).counters
    assert len(sectors_of(elements)) == counters.sectors["x"]
    counters = sim(fetch_shared)[1, 32](y, elements).counters
    (read,) = [p for p in counters.places if p.array == "s" and p.kind == "read"]
    assert turns_of(elements).max() + 1 == read.wavefronts
    assert np.array_equal(y, elements.astype(np.float32))


def draw_text(draw, requests, monkeypatch):
    figures = []
    monkeypatch.setattr(view, "show_figure", figures.append)
    draw(requests)
    (figure,) = figures
    return write_svg(figure)


def test_the_pictures_note_counts_and_omissions(monkeypatch):
    text = draw_text(warp_view.sectors, {"x[i]": T, "x[4 * i]": 4 * T}, monkeypatch)
    assert "4 sectors, 128 bytes, 128 of them requested<" in text and "x[4 * i]" in text
    assert "16 sectors, 512 bytes, 128 of them requested; 11 of the sectors" in text
    text = draw_text(warp_view.sectors, {"x[0]": 0 * T}, monkeypatch)
    assert "1 sector, 32 bytes, 4 of them requested<" in text
    text = draw_text(warp_view.banks, {"s[t]": T, "s[8 * t]": 8 * T}, monkeypatch)
    assert "1 turn<" in text and "8 turns, 4 of them shown<" in text
