"""Pictures of the puzzles: the goal, drawn from the reference alone, and an answer."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import numpy as np
import pytest
from tiers import loop_over, only

from weft import cuda, load_cuda, numba_jit, puzzles
from weft.base.style import FAULT, WIDTH
from weft.puzzles.goal import arrange_arrays, draw_goal, launch_of, launch_words
from weft.puzzles.instance import COULD, NOW, find_dependences, make_instance

NAMES = [puzzle.name for puzzle in puzzles]
FIRST = [group[0].name for group in puzzles.groups.values()]


def find_marked(svg: str, kind: str) -> dict[str, list[int]]:
    """Return, by array, the elements that a picture marks as this kind."""
    matches = re.findall(
        rf'data-array="(\w+)" data-kind="{kind}" data-cells="([\d,]*)"', svg
    )
    return {name: [int(i) for i in cells.split(",")] for name, cells in matches}


def make_puzzle(spec, outputs, inputs, drawn, **checks) -> SimpleNamespace:
    """Return the part of a puzzle that a goal's picture uses."""
    checks |= {"outputs": outputs, "inputs": inputs}
    return SimpleNamespace(
        title="Scratch", spec=spec, checks=checks, drawn=drawn, launch=(2, 4)
    )


# ---- the goal ------------------------------------------------------------------------


@loop_over("name", NAMES)
def test_the_goal_of_every_puzzle_is_drawn(name):
    puzzle = puzzles[name]
    picture = draw_goal(puzzle)
    svg, case = picture.svg(), make_instance(puzzle)
    assert f"{puzzle.title}: the goal" in svg
    assert 0 < float(re.search(r'viewBox="0 0 (\S+)', svg)[1]) <= WIDTH
    assert min(float(s) for s in re.findall(r'font-size="([\d.]+)"', svg)) >= 11
    for array in (*case.inputs, *case.wants):
        assert f'<g data-values="{array}">' in svg
    if puzzle.launch is not None:
        counted = r"\d blocks? of \d.* threads?( \(x × y\))?: [\d\u202f]+ threads? for"
        assert re.search(counted, svg)
    # Each stop of the slider shows one element.
    stops = [len(s.stops) for s in picture.drawing.sliders]
    assert stops == [len(picture.drawing.frames)] and stops[0] >= 1
    for at in range(stops[0]):
        (target,) = find_marked(picture.svg(at), "wanted").values()
        assert len(target) == 1
    assert len(picture._repr_mimebundle_()["text/html"]) < 400_000


@loop_over("name", NAMES)
def test_the_marked_inputs_are_those_that_the_reference_reads(name):
    case = make_instance(puzzles[name])
    picture = draw_goal(puzzles[name])
    ask = case.asker()
    base = ask({})
    svg = picture.svg()
    ((array, (element,)),) = find_marked(svg, "wanted").items()
    at = element + sum(
        w.size for w in list(case.wants.values())[: list(case.wants).index(array)]
    )
    now, could = find_marked(svg, "depends"), find_marked(svg, "could")
    assert now, "the element depends on no input"

    def outcomes(name_: str, each: int) -> list[float]:
        """Return the output element for other values of an input element."""
        results = []
        values = case.inputs[name_]
        larger = (
            {values.max() + 1}
            if name_ not in case.bounded or not values.any()
            else set()
        )
        for other in {*np.unique(values).tolist(), *larger}:
            changed = (
                values.astype(float) if values.dtype.kind == "f" else values.copy()
            )
            changed.reshape(-1)[each] = other
            results_now = ask({name_: changed})
            results += [results_now[at]] if len(results_now) == len(base) else []
        return results

    for name_, elements in now.items():
        for each in elements[:3] if case.inputs[name_].size < 200 else ():
            assert any(value != base[at] for value in outcomes(name_, each))
    for name_, values in case.inputs.items():
        for each in range(0, values.size, max(1, values.size // 40)):
            changed = values.astype(float if values.dtype.kind == "f" else values.dtype)
            other = [v for v in np.unique(values) if v != values.reshape(-1)[each]]
            if not other:
                continue
            changed.reshape(-1)[each] = other[-1]
            results_now = ask({name_: changed})
            if len(results_now) == len(base) and results_now[at] != base[at]:
                assert each in now.get(name_, []) + could.get(name_, [])


def test_rows_and_columns_of_a_matmul_are_marked():
    svg = draw_goal(puzzles["matmul_nt"]).svg()
    assert find_marked(svg, "wanted") == {"c": [1]}
    assert find_marked(svg, "depends") == {"a": [0, 1], "b": [2, 3]}
    assert "it depends on row 0 of a and row 1 of b." in svg


def test_the_words_for_a_launch_name_x_and_y_if_they_differ():
    assert launch_words((2, 3, 1), (16, 8, 1)).endswith(" 16 × 8 threads (x × y)")
    assert launch_words((2, 3, 1), (4, 4, 1)).endswith("(x × y)")
    assert launch_words((2, 2, 1), (3, 3, 1)) == "2 × 2 blocks of 3 × 3 threads"
    assert launch_words((3, 1, 1), (4, 1, 1)) == "3 blocks of 4 threads"


HEATS = {  # images: their values are drawn as strengths
    *("image_filter", "transpose", "wide_loads")
}


@loop_over("name", [name for name in NAMES if name not in HEATS])
def test_the_values_of_a_goal_can_be_read(name):
    sheet = arrange_arrays(make_instance(puzzles[name]))
    assert all(one.is_worded for one in (*sheet.inputs, *sheet.outputs))


def test_a_position_depends_on_all_compared_elements():
    """All compared elements count, whichever is currently the largest."""
    case = make_instance(puzzles.argmax)
    rows, cols = case.inputs["a"].shape
    for row, links in enumerate(find_dependences(case, range(rows))):
        assert np.flatnonzero(links == NOW).tolist() == [
            row * cols + col for col in range(cols)
        ]
        assert not (links == COULD).any()
    svg = draw_goal(puzzles.argmax).svg()
    assert "it depends on row 1 of a." in svg


def test_a_convolution_shows_a_halo():
    """An element needs inputs beyond its block; each thread is below its element."""
    puzzle, case = puzzles.conv1d, make_instance(puzzles.conv1d)
    (blocks, *_), (threads, *_) = launch_of(puzzle, case)
    assert blocks > 1
    svg = draw_goal(puzzle).svg()
    (element,) = find_marked(svg, "wanted")["out"]
    assert element // threads < max(find_marked(svg, "depends")["a"]) // threads
    out = arrange_arrays(case).outputs[0].grid
    (row,) = re.findall(r"<g data-threads=.*?</g>", svg)
    circles = [float(x) for x in re.findall(r"M([\d.]+) ", row)]
    middles = [out.middle(n)[0] for n in range(out.count)]
    radius = 8
    assert len(circles) == blocks * threads > out.count
    for x, middle in zip(circles, middles):
        assert abs(x + radius - middle) <= 1


def test_a_transpose_shows_where_an_element_came_from():
    svg = draw_goal(puzzles["transpose"]).svg()
    ((target,),) = find_marked(svg, "wanted").values()
    row, col = divmod(target, 32)
    assert row != col
    assert find_marked(svg, "depends") == {"a": [col * 32 + row]}


def test_lines_join_a_window_to_its_element():
    svg = draw_goal(puzzles["pooling"]).svg(4)
    assert find_marked(svg, "depends") == {"a": [2, 3, 4]}
    assert svg.count('stroke-width="1.3"') == 3


def test_inputs_that_could_change_an_element_are_outlined():
    def largest(a):
        return a.max()

    puzzle = make_puzzle(largest, {"out": 1}, {"a": "n"}, {"n": 6})
    case = make_instance(puzzle)
    links = find_dependences(case, [0])
    assert (links[0] == NOW).nonzero()[0].tolist() == [int(case.inputs["a"].argmax())]
    assert (links[0] == COULD).sum() == 5
    svg = draw_goal(puzzle).svg()
    assert len(find_marked(svg, "could")["a"]) == 5
    assert "the outlined inputs could change it" in svg


def test_inputs_are_readable():
    case = make_instance(puzzles["softmax"])
    assert np.array_equal(case.inputs["a"], np.rint(case.inputs["a"]))
    assert (case.wants["out"] > 0.01).mean() > 0.5
    positive = make_instance(puzzles["pooling"]).inputs["a"]
    assert (positive >= 0).all(), "negative numbers show nothing about a sum"
    relu = make_puzzle(lambda a: np.maximum(a, 0), {"out": "n"}, {"a": "n"}, {"n": 8})
    assert (make_instance(relu).inputs["a"] < 0).any() and draw_goal(relu)


def test_an_input_with_its_own_maker_gets_its_numbers():
    def picked(a, where):
        return a[where]

    puzzle = make_puzzle(
        *(picked, {"out": "n"}, {"a": "n", "where": "int32[n]"}, {"n": 5}),
        data={"where": lambda rng, n: rng.permutation(n)},
    )
    case = make_instance(puzzle)
    assert sorted(case.inputs["where"]) == list(range(5))
    links = find_dependences(case, range(5))
    for row, where in zip(links, case.inputs["where"]):
        assert row[where] == NOW and (row[:5] == NOW).sum() == 1


def test_many_inputs_are_changed_in_groups():
    def turned(a):
        calls.append(1)
        return a.T

    calls: list[int] = []
    puzzle = make_puzzle(
        turned, {"out": ("n", "m")}, {"a": ("m", "n")}, {"m": 40, "n": 30}
    )
    case = make_instance(puzzle)
    calls.clear()
    links = find_dependences(case, [0, 41, 1199])
    assert [np.flatnonzero(row).tolist() for row in links] == [[0], [31], [1199]]
    assert len(calls) < 100


# ---- an answer -----------------------------------------------------------------------


@pytest.mark.parametrize("name", only(FIRST, NAMES))
def test_the_published_answer_is_shown_as_right(name):
    puzzle = puzzles[name]
    picture = puzzle.show(puzzle.answer)
    svg = picture.svg()
    assert 'data-outcome="right"' in svg and "✗" not in svg
    assert float(re.search(r'viewBox="0 0 (\S+)', svg)[1]) <= WIDTH
    if puzzle.is_kernel:
        assert "which thread touches which cell" in svg
        assert sum(a.size for a in picture.report.trace.arrays) <= 10_000
    assert len(picture._repr_mimebundle_()["text/html"]) < 800_000


def one_too_few(out, a, n):
    i = cuda.threadIdx.x
    if i < n - 1:
        out[i] = a[i] + 11


def unguarded(out, a, n):
    i = cuda.threadIdx.x
    out[i] = a[i] / 2


def endless(out, a, n):
    i = cuda.threadIdx.x
    while i < 100:
        out[0] = a[0]


def not_begun(out, a, n):
    raise NotImplementedError


def test_wrong_elements_are_marked_with_the_goal():
    picture = puzzles.guards.show(one_too_few)
    svg = picture.svg()
    assert find_marked(svg, "wrong") == {"out": [0, 1, 2, 3]}
    assert FAULT in svg and ">?<" in svg  # no thread wrote the last element
    assert (
        "4 of 4 elements of out differ from the goal: out[0] is 16, but should" in svg
    )
    assert "4 of 4 elements of out differ" in repr(picture)


def test_a_numba_kernel_is_shown_by_its_python_body():
    picture = puzzles.guards.show(numba_jit(one_too_few))
    assert find_marked(picture.svg(), "wrong") == {"out": [0, 1, 2, 3]}
    assert "which thread touches which cell" in picture.svg()


def test_a_fault_is_in_the_picture():
    svg = puzzles.guards.show(unguarded).svg()
    assert 'data-fault="a"' in svg and "✗" in svg
    assert "but see the faults below" in svg and "✓" not in svg


@pytest.mark.slow
def test_an_endless_loop_is_stopped_and_drawn():
    svg = puzzles.guards.show(endless).svg()
    assert "ran for longer than" in svg
    assert 'data-outcome="wrong"' in svg


def test_a_stub_gives_one_line_and_no_picture(capsys):
    in_c = load_cuda(puzzles.guards.cuda_c_stub)
    assert puzzles.guards.show(not_begun) is puzzles.guards.show(in_c) is None
    line = "guards: not solved yet, so there is nothing to draw\n"
    assert capsys.readouterr().out == 2 * line


def test_a_function_that_returns_is_shown_beside_the_goal():
    def blur_numpy(x):
        return x * 1.0

    picture = puzzles.image_filter_numpy.show(blur_numpy)
    wrong = find_marked(picture.svg(), "wrong")["result"]
    want = make_instance(puzzles.image_filter_numpy)
    equal = want.wants["result"] == want.inputs["x"]
    assert wrong == np.flatnonzero(~equal).tolist()


KERNEL_C = """__global__ void halve_guarded(float *out, const float *a, int n) {
    int i = threadIdx.x;
    if (i < %s) out[i] = a[i] / %s;
}"""


@pytest.mark.parametrize(
    "most, by, said",
    [
        ("n", 2, "out agrees with the goal"),
        ("n - 1", 2, "1 of 4 elements of out differs from the goal: out[3] was not"),
        ("n + 1", 2, "thread 4 reads a[4]: a has 4 elements"),
    ],
)
def test_cuda_c_is_shown_by_its_values(most, by, said):
    answer = load_cuda(KERNEL_C % (most, by), target="cpu")
    svg = puzzles.guards.show(answer).svg()
    assert said in svg and "drawn for Python kernels" in svg
    assert "✗" in svg or "✓" in svg
    assert bool(find_marked(svg, "wrong")) == (most == "n - 1")


def test_the_results_of_a_wrong_answer_are_beside_its_threads():
    """The picture fits on a screen, and the results avoid the sliders' drawings."""

    def local(out, a, height, width):
        col, row = cuda.threadIdx.x, cuda.threadIdx.y
        if row < height and col < width:
            out[row * width + col] = a[row * width + col] + 10

    right = puzzles.blocks2d.show(puzzles.blocks2d.answer)
    wrong = puzzles.blocks2d.show(local)
    assert wrong.drawing.height <= right.drawing.height < 720
    text = wrong.svg().replace('xmlns="http://www.w3.org/2000/svg" ', "")
    beside = ET.fromstring(text).find(".//g[@data-beside]")
    places = [(node.get("x"), node.get("y")) for node in beside.iter("text")]
    assert "the result" in "".join(beside.itertext()) and len(places) > 50
    x, y = np.array(places, float).T
    for left, top, end, bottom in wrong.drawing.taken:
        assert not ((left < x) & (x < end) & (top < y) & (y < bottom)).any()
