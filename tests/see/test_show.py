"""show(): pictures show the accesses, are legible, and do not disturb a page."""

import base64
import importlib
import itertools
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from weft import ArgumentError, cuda, show
from weft.see.pictures import warp_steps
from weft.see.pictures.grid import fit, fit_line
from weft.see.pictures.touches import axis_names

draw = importlib.import_module("weft.see.pictures.show").draw
float32 = np.float32
TILE = 4
VIEWS = ["access", "heat", "lanes", "timeline"]


def double(y, x, n):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < n:
        y[i] = x[i] * float32(2)


def add_one(y, x, m, n):
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if row < m and col < n:
        y[row, col] = x[row, col] + float32(1)


def matmul_tiled(c, a, b, m, n, k):
    a_s = cuda.shared.array((TILE, TILE), float32)
    b_s = cuda.shared.array((TILE, TILE), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + ty
    col = cuda.blockIdx.x * TILE + tx
    acc = float32(0)
    for k0 in range(0, k, TILE):
        a_s[ty, tx] = a[row * k + k0 + tx]
        b_s[ty, tx] = b[(k0 + ty) * n + col]
        cuda.syncthreads()
        for i in range(TILE):
            acc += a_s[ty, i] * b_s[i, tx]
        cuda.syncthreads()
    c[row * n + col] = acc


def odd_even(y, x):
    i = cuda.threadIdx.x
    if i % 2 == 0:
        y[i] = x[i] * float32(2)
    else:
        y[i] = x[i] + float32(1)
    for j in range(i % 3):
        y[i] += float32(j)


def stencil(y, x):
    k = cuda.threadIdx.x + 1
    j = cuda.threadIdx.y + 1
    i = cuda.threadIdx.z + 1
    y[i, j, k] = x[i - 1, j, k] + x[i + 1, j, k]


def reduce(out, x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[0] = s[0]


def past_shared(out, x):
    s = cuda.shared.array(8, float32)
    i = cuda.threadIdx.x
    s[i] = x[i]
    cuda.syncthreads()
    out[i] = s[7 - i]


def shift(x):
    i = cuda.threadIdx.x
    if i > 0:
        x[i - 1] = x[i]


def unguarded(y, x, n):
    row, col = cuda.threadIdx.y, cuda.threadIdx.x
    if col < n:
        y[row * n + col] = x[row * n + col]


def past(y, x):
    i = cuda.threadIdx.x
    y[i] = x[i + 1]


def before(y, x):
    i = cuda.threadIdx.x
    y[i] = x[i - 1]


def zeros(*shape):
    return np.zeros(shape, np.float32)


def draw_tiled(**options):
    shapes = {"c": ("m", "n"), "a": ("m", "k"), "b": ("k", "n")}
    arrays = [zeros(64) for _ in range(3)]
    run = show(matmul_tiled, **{"shapes": shapes, **options})
    return run[(2, 2), (TILE, TILE)](*arrays, 8, 8, 8)


PICTURES = {
    "map": lambda **o: show(double, **o)[3, 4](zeros(10), zeros(10), 10),
    "two_dimensions": lambda **o: show(add_one, **o)[(2, 2), (3, 3)](
        zeros(5, 5), zeros(5, 5), 5, 5
    ),
    "tiled": draw_tiled,
    "branch": lambda **o: show(odd_even, **o)[1, 40](zeros(40), zeros(40)),
    "three_dimensions": lambda **o: show(stencil, **o)[1, (2, 2, 2)](
        zeros(4, 4, 4), zeros(4, 4, 4)
    ),
    "reduce": lambda **o: show(reduce, **o)[1, 64](zeros(1), zeros(64)),
    "past_shared": lambda **o: show(past_shared, **o)[1, 8](zeros(8), zeros(8)),
    "race": lambda **o: show(shift, **o)[1, 10](zeros(10)),
    "past": lambda **o: show(past, **o)[1, 8](zeros(8), zeros(8)),
    "beyond": lambda **o: show(
        unguarded, **{"shapes": {"x": ("n", "n"), "y": ("n", "n")}, **o}
    )[1, (3, 3)](zeros(4), zeros(4), 2),
    "before": lambda **o: show(before, **o)[1, 8](zeros(8), zeros(8)),
    "large": lambda **o: show(double, **o)[2, 64](zeros(120_000), zeros(120_000), 128),
}


@pytest.fixture(scope="module")
def picture():
    """picture(name, view) launches and draws each kernel once."""
    pictures = {}

    def get(name, view="access"):
        if (name, view) not in pictures:
            pictures[name, view] = PICTURES[name](view=view)
        return pictures[name, view]

    return get


def parse(text):
    return ET.fromstring(text.replace('xmlns="http://www.w3.org/2000/svg" ', ""))


def texts(root):
    return ["".join(node.itertext()) for node in root.iter("text")]


def numbers(ranges):
    """Parse ranges: "0-2,5" gives {0, 1, 2, 5}."""
    out = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        out |= set(range(int(first), int(last or first) + 1))
    return out


def cells(root, array, kinds=("read", "both")):
    paths = [n for n in root.iter("path") if n.get("data-array") == array]
    out = set()
    for node in paths:
        if node.get("data-kind") in kinds:
            out |= numbers(node.get("data-cells"))
    return out


WRITTEN = ("written", "both")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_well_formed_inside_its_frame_and_legible(picture, name, view):
    drawing = picture(name, view).drawing
    for at in list(drawing.frames)[::7]:
        root = parse(drawing.svg(at))
        left, top, width, height = map(float, root.get("viewBox").split())
        assert width <= 920 and height < 1400
        for node in root.iter("text"):
            size = float(node.get("font-size"))
            assert size >= 11, texts(root)
            x, y = float(node.get("x")), float(node.get("y"))
            mono = "mono" in node.get("font-family", "")
            wide = len("".join(node.itertext())) * size * (0.6 if mono else 0.42)
            start = {"middle": x - wide / 2, "end": x - wide}
            start = start.get(node.get("text-anchor"), x)
            assert start >= left - 1 and start + wide <= width + 1, texts(root)
            assert top + 8 <= y <= height
        for node in root.iter("rect"):
            x, y = float(node.get("x")), float(node.get("y"))
            assert left <= x and x + float(node.get("width")) <= width
            assert top <= y and y + float(node.get("height")) <= height
        ids = [n.get("id") for n in root.iter() if n.get("id")]
        assert len(ids) == len(set(ids))


def test_the_cells_of_a_map_are_coloured_and_the_idle_threads_are_not(picture):
    root = parse(picture("map").svg())
    assert cells(root, "x") == set(range(10)) and not cells(root, "x", WRITTEN)
    assert cells(root, "y", WRITTEN) == set(range(10)) and not cells(root, "y")
    active = {
        n.get("data-block"): n.get("data-threads")
        for n in root.iter("path")
        if n.get("data-threads")
    }
    assert active == {"0": "0,1,2,3", "1": "0,1,2,3", "2": "0,1"}
    assert "touched nothing" in texts(root)


def test_one_thread_of_a_tiled_matmul_reads_its_row_and_column(picture):
    drawn = draw_tiled(thread=(2, 1), block=(1, 0))
    root = parse(drawn.svg(0, 0))
    row, col = 1, 4 + 2
    assert cells(root, "c", WRITTEN) == {row * 8 + col}
    assert cells(root, "a") == {row * 8 + 2, row * 8 + 6}
    assert cells(root, "b") == {1 * 8 + col, 5 * 8 + col}
    assert cells(root, "a_s") == {4, 5, 6, 7} and cells(root, "b_s") == {2, 6, 10, 14}
    assert cells(root, "a_s", WRITTEN) == {6}


def test_the_readers_own_names_are_on_the_drawing(picture):
    captions = texts(parse(draw_tiled(thread=(2, 1)).svg(0, 0)))
    line = next(text for text in captions if "row = " in text)
    assert "tx = 2" in line and "ty = 1" in line
    assert (
        "k0 = " not in line and "i = " not in line
    )  # these locals change while the thread runs
    assert (
        "reads a[row * k + k0 + tx]" in captions
        and "writes c[row * n + col]" in captions
    )
    assert {"row", "col", "tx", "ty", "a_s", "b_s", "a", "c"} <= set(captions)


def test_a_single_thread_goes_access_by_access_in_its_own_order(picture):
    still = draw_tiled(thread=(2, 1))
    stops = still.drawing.sliders[0].stops
    assert stops[0] == "all accesses" and stops[1] == f"access 1 of {len(stops) - 1}"
    captions = [still.svg(i, 0) for i in (1, 2)]
    assert "reads a[row * k + k0 + tx], which is a[1, 2]" in captions[0]
    assert "writes a_s[ty, tx], which is a_s[1, 2]" in captions[1]


def test_an_interval_shows_the_accesses_between_two_barriers(picture):
    drawing = picture("tiled").drawing
    first, second = parse(drawing.svg((1, 0))), parse(drawing.svg((2, 0)))
    assert cells(first, "a_s", WRITTEN) == set(range(16)) and not cells(first, "a_s")
    assert cells(second, "a_s") == set(range(16)) and not cells(second, "a")
    assert drawing.sliders[0].stops[1] == "interval 1 of 5"


def test_blocks_of_a_tiled_matmul_touch_their_own_tile():
    root = parse(draw_tiled(block=(1, 1)).drawing.svg((0, 0)))
    tile = {r * 8 + c for r in range(4, 8) for c in range(4, 8)}
    assert cells(root, "c", WRITTEN) == tile


def points(d):
    """Return points (x, y) on a path of cubic curves."""
    out = []
    for piece in d.split("M")[1:]:
        numbers = [float(n) for n in re.findall(r"-?[\d.]+", piece)]
        p = np.reshape(numbers, (4, 2))
        t = np.linspace(0, 1, 60)[:, None]
        u = 1 - t
        curve = u**3 * p[0] + 3 * u**2 * t * p[1] + 3 * u * t**2 * p[2] + t**3 * p[3]
        out.append(curve)
    return np.concatenate(out)


@pytest.mark.parametrize("name", ["past_shared", "two_dimensions", "tiled", "beyond"])
def test_no_arrow_crosses_a_number_or_a_word(picture, name):
    shown = picture(name)
    stops = sorted(shown.drawing.frames)
    for at in stops[:: max(1, len(stops) // 12)]:
        root = parse(shown.svg(*at))
        arrows = [
            points(node.get("d"))
            for node in root.iter("path")
            if "C" in node.get("d") and node.get("data-behind") is None
        ]
        for node in root.iter("text"):
            text, size = "".join(node.itertext()), float(node.get("font-size"))
            x, y = float(node.get("x")), float(node.get("y"))
            wide = 0.5 * size * len(text)  # without the space around the text
            left = x - wide * {"middle": 0.5, "end": 1.0}.get(
                node.get("text-anchor"), 0
            )
            for xs, ys in (curve.T for curve in arrows):
                inside = (xs > left) & (xs < left + wide) & (ys > y - 7) & (ys < y - 1)
                assert not inside.any(), (name, at, text)


@pytest.mark.parametrize("name", ["two_dimensions", "tiled"])
def test_an_arrow_behind_words_is_faint_and_whole(picture, name):
    """Without the faint part, the visible pieces would look cut."""
    shown = picture(name)
    count = 0
    for at in sorted(shown.drawing.frames):
        paths = list(parse(shown.svg(*at)).iter("path"))
        for full, pieces in itertools.pairwise(paths):
            if full.get("data-behind") is not None:
                assert float(full.get("stroke-opacity")) <= 0.4  # words stay legible
                assert full.get("d").count("M") == 1
                away = points(full.get("d"))[:, None] - points(pieces.get("d"))
                assert (np.hypot(*away.T).min(1) < 12).all()  # pieces follow the arrow
                count += 1
    assert count


def test_hundreds_of_threads_are_aggregated(picture):
    drawing = picture("reduce").drawing
    assert len(drawing.sliders[1].stops) < 16
    assert {"warp 0", "warp 1"} <= set(texts(parse(drawing.svg())))
    large = picture("large", "heat")
    assert "data:image/png;base64," in large.svg()
    assert len(large.drawing.html()) < 200_000


def test_heat_counts_every_touch(picture):
    captions = texts(parse(picture("large", "heat").svg()))
    assert any(" cells read once" in text for text in captions)


def test_equal_counts_are_a_sentence_with_small_maps(picture):
    drawing = picture("tiled", "heat").drawing
    root = parse(drawing.svg())
    words = texts(root)
    assert "Every cell of a and b is read 2 times." in words  # by two blocks
    assert "Every cell of a_s and b_s is read 32 times." in words
    assert "Every cell of c is written once." in words
    assert not any("stronger colour" in text for text in words)
    assert drawing.width < 920 and "threads" not in words  # all threads are alike
    first, later = drawing.svg((1,)), drawing.svg((2,))  # the slider shows each block
    assert len({first, later, drawing.svg()}) == 3


def test_active_lanes_of_a_branch(picture):
    root = parse(picture("branch", "lanes").svg())
    rows = [
        (int(n.get("data-line")), numbers(n.get("data-lanes")))
        for n in root.iter("path")
        if n.get("data-lanes")
    ]
    first = odd_even.__code__.co_firstlineno
    lanes_of_warp, even = set(range(32)), set(range(0, 32, 2))
    loop = [lanes for line, lanes in rows if line == first + 7]
    assert (first + 3, even) in rows and (first + 5, lanes_of_warp - even) in rows
    assert loop == [
        {i for i in lanes_of_warp if i % 3 >= 1},
        {i for i in lanes_of_warp if i % 3 == 2},
    ]
    assert any("y[i] = x[i] * float32(2)" in text for text in texts(root))
    assert any("some lanes waiting" in text for text in texts(root))


def test_lanes_that_leave_a_loop_early_reconverge_after_it():
    record = importlib.import_module("weft.pykernel.sim.layout")
    sites = [record.Site("step", -1, "", "k", line, 0, line) for line in (1, 3, 5)]
    rows = [(0, 0), (0, 1), (0, 1), (0, 2), (1, 0), (1, 2)]
    thread, site = np.array(rows).T
    part = record.Interval(0, 0, thread, site, np.full(len(rows), -1))
    steps = warp_steps.steps_of([part], sites, [(2, 4)], 0)
    assert [(s.site, s.lanes.tolist()) for s in steps] == [
        (0, [0, 1]),
        (1, [0]),
        (1, [0]),
        (2, [0, 1]),
    ]


def test_the_timeline_counts_by_thread_and_interval(picture):
    root = parse(picture("tiled", "timeline").svg())
    bars = {
        (n.get("data-row"), n.get("data-interval"), n.get("data-kind")): n
        for n in root.iter("rect")
        if n.get("data-count")
    }
    assert bars["5", "0", "global-reads"].get("data-count") == "2"
    assert bars["5", "0", "shared"].get("data-count") == "2"
    assert bars["5", "1", "shared"].get("data-count") == "8"
    assert bars["5", "4", "global-writes"].get("data-count") == "1"
    assert "barrier" in texts(root)


@pytest.mark.parametrize("name, cell", [("past", "8"), ("before", "-1")])
def test_an_access_out_of_bounds_is_drawn_outside_and_reported(picture, name, cell):
    drawn = picture(name)
    assert not drawn.report.ok
    root = parse(drawn.svg())
    ghost = next(n for n in root.iter("g") if n.get("data-fault") == "x")
    assert ghost.find("rect").get("fill") == "none"
    assert "".join(ghost.itertext()) == cell
    assert f"x[{cell}]" in " ".join(texts(root))
    assert any(n.get("data-faulty") for n in root.iter("circle"))


def test_a_race_rings_both_threads(picture):
    root = parse(picture("race").svg())
    assert {n.get("data-faulty") for n in root.iter("circle")} >= {"1", "2"}
    assert any("barrier" in text for text in texts(root))


def test_the_page_gets_an_image_that_needs_no_script(picture):
    bundle = picture("tiled")._repr_mimebundle_()
    html = bundle["text/html"]
    still = re.sub(r"<script>.*</script>", "", html, flags=re.S)
    assert "<svg" not in still and "<style" not in still
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', still)[1]
    image = parse(base64.b64decode(data).decode())
    assert "matmul_tiled" in "".join(image.itertext())
    assert "prefers-color-scheme" in "".join(image.itertext())
    assert "<!DOCTYPE" not in html and "http://" not in still
    assert bundle["text/plain"].startswith("matmul_tiled, ")
    assert "a_s (4, 4)" in bundle["text/plain"]


def test_the_script_has_every_frame_and_outputs_do_not_clash(picture):
    drawing = picture("tiled").drawing
    one, two = drawing.html(), drawing.html()
    marks = [re.search(r'data-weft="(\w+)"', html)[1] for html in (one, two)]
    assert marks[0] != marks[1] and one.count(marks[0]) == 2
    story = json.loads(re.search(r"const story = (\{.*\});\n", one)[1])
    stops = [range(len(names)) for _, names in story["sliders"]]
    assert set(story["frames"]) == {f"{i},{j}" for i in stops[0] for j in stops[1]}
    assert "</script>" not in one[: one.rindex("</script>")]
    parts = story["frames"]["0,0"]
    now = "".join(story["parts"][part] for part in parts)
    assert now in drawing.svg((0, 0))


def test_a_still_and_a_page_can_be_saved(picture, tmp_path):
    saved = picture("map")
    saved.save(tmp_path / "a.svg")
    saved.save(tmp_path / "a.html")
    assert parse((tmp_path / "a.svg").read_text()).tag == "svg"
    assert "<script>" in (tmp_path / "a.html").read_text()
    with pytest.raises(ArgumentError, match=r"\.svg or \.html"):
        saved.save(tmp_path / "a.gif")
    with pytest.raises(ArgumentError, match="sliders go from 0 to 0 and 0 to 12"):
        saved.svg(7, 7)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(view="film"), "view='film': there are access, heat, lanes, timeline"),
        (dict(thread=(9, 9)), r"thread=\(9, 9\): the block is \(4, 4, 1\)"),
        (dict(thread=16), r"thread=16: the block is \(4, 4, 1\)"),
        (dict(thread="first"), "thread='first': expected an index"),
        (dict(thread=1.5), r"thread=1\.5: expected an index"),
        (dict(block=(2, 0)), r"block=\(2, 0\): the grid is \(2, 2, 1\)"),
        (dict(arrays="d"), "arrays: no array 'd', only c, a, b"),
        (dict(arrays=[]), "expected the names of arrays"),
        (dict(shapes=[8, 8]), r'expected \{"a": \(rows, columns\)\}'),
        (dict(shapes={"d": (8, 8)}), "shapes: no array 'd'"),
        (dict(shapes={"a": (8, 9)}), r"a has 64 elements, but \(8, 9\) has 72"),
        (dict(shapes={"a": ("m", "w")}), "'w' of a is neither a number nor"),
    ],
    ids=str,
)
def test_a_bad_option_gives_one_clear_error(options, message):
    with pytest.raises(ArgumentError, match=message) as raised:
        draw_tiled(**options)
    assert "\n" not in str(raised.value)


def test_a_kernel_that_touches_nothing_is_still_drawn():
    def idle(x):
        if cuda.threadIdx.x < 0:
            x[0] = float32(1)

    drawing = show(idle)[1, 4](zeros(4))
    assert "No thread touches an array" in "".join(texts(parse(drawing.svg())))
    for view in VIEWS:
        parse(show(idle, view=view)[1, 4](zeros(4)).svg())


def test_only_the_requested_arrays_are_drawn():
    root = parse(draw_tiled(arrays=["a", "a_s"]).svg())
    names = {n.get("data-base") for n in root.iter("path")} - {None}
    assert names == {"a", "a_s"}


@pytest.mark.parametrize(
    "text, dimensions, names",
    [
        ("c[row, col]", 2, ["row", "col"]),
        ("c[row * n + col]", 2, ["row", "col"]),
        ("a[row * k + k0 + tx]", 2, ["row", "k0 + tx"]),
        ("b[(k0 + ty) * n + col]", 2, ["k0 + ty", "col"]),
        ("x[i][j]", 2, ["i", "j"]),
        ("x[i]", 1, ["i"]),
        ("x[i + n]", 2, []),
    ],
)
def test_rows_and_columns_have_the_names_of_the_index(text, dimensions, names):
    assert axis_names(text, dimensions) == names


@pytest.mark.parametrize("count", [1, 7, 47, 48, 1000, 131_072, 10_000_000])
def test_any_number_of_cells_fits(count):
    grid = fit_line(count, 700.0, 150.0)
    assert 0 < grid.width <= 714 and 0 < grid.height <= 164
    ends = np.array([0, count - 1])
    x, y = grid.corners(ends)
    assert (x >= 0).all() and (x + grid.cell <= grid.width + 1).all()
    assert (y >= 0).all() and (y + grid.cell <= grid.height + 1).all()


def test_planes_of_three_dimensions_do_not_overlap():
    grid = fit(24, 2, 3, 4, 400.0, 200.0)
    x, y = grid.corners(np.arange(24))
    assert len(set(zip(x.tolist(), y.tolist()))) == 24


def test_a_kernel_that_hangs_is_drawn_up_to_its_time_limit():
    def endless(x):
        k = 0
        while True:
            k = (k + 1) % 4
            x[k] = k

    picture = show(endless, timeout=0.2)[1, 1](np.zeros(4))
    assert picture.report.findings[0].kind == "hang"
    assert "<svg" in picture.svg()
