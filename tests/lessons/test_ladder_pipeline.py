"""Counts and drawings of lessons 08a and 08b: tiles, register banks, orders, stages."""

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

import utils
from weft import inspect, load_cuda
from weft.base.errors import ArgumentError, BuildError
from weft.lessons.ladder import code, copy_rung, one_rung, results
from weft.lessons.ladder.code import order_drawn, stages_drawn, tile_order
from weft.lessons.ladder.results import COUNTED, RegisterWaits, counted, register_waits
from weft.see.machine_code.instructions import CodeLoop, Instruction, KernelCode
from weft.toolchain import tools
from weft.toolchain.build import nvcc

SVG = "{http://www.w3.org/2000/svg}"


def loop_of(*texts):
    code = [Instruction(t, t.split()[0], "FMA" if "FFMA" in t else "") for t in texts]
    body = frozenset(range(len(code)))
    return KernelCode("k", "sass", code, "", [CodeLoop(0, body)])


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("FFMA R0, R2, R3, R5;", 1),  # registers 3 and 5 are in one bank
        ("FFMA R0, R2, R4, R6;", 2),
        ("FFMA R0, R2, R2, R3;", 0),  # one register is read only once
        ("FFMA R1, R2, R3, RZ;", 0),  # RZ is zero, not a register
    ],
)
def test_a_multiply_add_waits_for_each_further_register_of_a_bank(text, waits):
    assert counted(loop_of(text)) == RegisterWaits(1, waits)


def test_what_is_kept_for_the_same_place_is_not_read_again():
    reused, next_fma = "FFMA R0, R2.reuse, R3, R0;", "FFMA R4, R2, R6, R5;"
    assert counted(loop_of(reused, next_fma)).waits == 1  # R2 and R0 share a bank
    unmarked = reused.replace(".reuse", "")
    assert counted(loop_of(unmarked, next_fma)).waits == 2  # then R2 and R6 do, too
    swapped = "FFMA R4, R6, R2, R5;"
    # .reuse keeps R2 for another position.
    assert counted(loop_of(reused, swapped)).waits == 2
    assert counted(loop_of(reused, next_fma)).ceiling == 2 / 3


def test_the_loop_may_hold_one_that_waits_for_a_barrier():
    add, conflicting = "FFMA R0, R2, R3, R0;", "FFMA R0, R2, R4, R6;"
    code = loop_of(conflicting, conflicting, conflicting, "BRA;", conflicting, add)
    body = code.loops[0].body
    loops = [  # loops over tiles and over k, at a barrier, and for stores
        *(CodeLoop(0, body, hot=False), CodeLoop(0, frozenset(range(4)), 1, hot=False)),
        *(CodeLoop(3, frozenset({3}), 2), CodeLoop(4, frozenset({4, 5}), 1)),
    ]
    code.loops[:] = loops
    assert counted(code) == RegisterWaits(3, 6)


def test_without_nvcc_the_counts_are_those_that_came_with_the_lab(monkeypatch):
    monkeypatch.setattr(results, "nvcc", lambda: None)
    fmas, waits = COUNTED["pipeline"]
    assert register_waits("10_pipeline") == RegisterWaits(
        fmas, waits, is_committed=True
    )
    with pytest.raises(BuildError):
        register_waits("naive")


@pytest.mark.slow
@pytest.mark.skipif(not nvcc(), reason="no nvcc")
@pytest.mark.parametrize("rung", COUNTED)
def test_the_counts_that_came_with_the_lab_are_right(rung):
    try:
        tools.find_disassembler()
    except BuildError:
        pytest.skip("no nvdisasm")
    count = register_waits(rung)
    fmas, waits = COUNTED[rung]
    assert count.fmas == fmas and not count.is_committed
    # Other versions of nvcc may differ.
    assert count.waits == pytest.approx(waits, abs=0.05 * fmas)


@pytest.mark.parametrize(("down", "across"), [(1, 1), (8, 3), (19, 5)])
def test_the_order_of_tiles_is_the_kernels(down, across):
    file = "kernels/matmul/10_pipeline.cu"
    source = "enum { GROUP = 8 };\nstruct order { int down, across, tiles; };\n"
    source += utils.source(file, "place_of")
    source += """__global__ void places(int *out, int down, int across, int count) {
        int i = blockIdx.x * blockDim.x + threadIdx.x, item;
        struct order o = {down, across, count};
        if (i < count) place_of(i, o, &item, &out[2 * i], &out[2 * i + 1]);
    }"""
    order = np.full((down * across, 2), -1, np.int32)
    kernel = load_cuda(source, name="places").places
    report = inspect(kernel, quiet=True)[4, 32](order, down, across, down * across)
    assert report.ok
    assert [*map(tuple, order.tolist())] == tile_order(down, across, 8)


def test_the_order_is_drawn_with_what_the_first_wave_reads():
    axes = Figure().subplots()
    order_drawn(axes, tile_order(6, 4, 2), 4, "pairs")
    texts = [text.get_text() for text in axes.texts]
    assert texts[:24] == [str(i) for i in range(24)]
    assert texts[-1] == "pairs: 2 rows of a, 2 columns of b"
    assert len(axes.patches) == 24 + 2 + 2


def test_stages_are_drawn_with_their_end_and_overlapping_loads_apart():
    axes = Figure().subplots()
    loads, works = [(0, 700), (0, 700), (900, 1600)], [(700, 900), (900, 1000)]
    stages_drawn(axes, {"two": (loads, works)})
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["0", "1", "2", "0", "1", "two", " 1,000"]
    heights = [patch.get_y() for patch in axes.patches]
    # Loads 0 and 1 overlap; load 2 follows load 0.
    assert heights[0] == heights[2] != heights[1]


# ---- the drawing of tiles ------------------------------------------------------------


@pytest.mark.parametrize("rung", ["tiled", "registers_1d", "registers_2d"])
def test_drawn_tiles_read_as_many_numbers_as_the_kernel(rung):
    """The picture's counts are those of the watch build."""
    tiles, (m, n, k) = code.Tiles.read(rung), (128, 128, 32)
    counters = one_rung(rung).inspect(m, n, k).kernels[0].counters
    each = sum(counters.reads[name] for name in ("a_s", "b_s")) / (m * n * k)
    assert each == pytest.approx((tiles.tm + tiles.tn) / (tiles.tm * tiles.tn))
    assert counters.reads["a"] == m * k * n // tiles.bn
    assert counters.threads == tiles.threads * (m // tiles.bm) * (n // tiles.bn)
    assert f": {each:.4g} numbers for each." in code._draw_registers(tiles).svg()


@pytest.mark.parametrize("rung", ["tiled", "registers_1d", "vectorised"])
def test_drawn_tiles_are_legible_inside_their_panels(rung):
    tiles = code.Tiles.read(rung)
    for draw in code._draw_block, code._draw_shared, code._draw_registers:
        root = ElementTree.fromstring(draw(tiles).svg())
        width, height = map(float, root.get("viewBox").split()[2:])
        assert width <= 300  # a page has room for three, a phone for one
        for node in root.iter(f"{SVG}text"):
            assert float(node.get("font-size")) >= 11
        for node in root.iter(f"{SVG}rect"):
            x, y, wide, high = (
                float(node.get(a)) for a in ("x", "y", "width", "height")
            )
            assert x >= 0 and x + wide <= width and y >= 0 and y + high <= height


def test_a_changed_constant_changes_the_drawing_and_a_missing_one_is_an_error(tmp_path):
    file = tmp_path / "mine.cu"
    copy_rung("registers_2d", file)
    file.write_text(file.read_text().replace("TN = 8,", "TN = 4,"))
    assert code.Tiles.read(file) == code.Tiles(128, 128, 8, 8, 4)
    with pytest.raises(ArgumentError, match="has no constants BM, BN and BK, or TILE"):
        code.draw_tiles("naive")
