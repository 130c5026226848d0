"""The live pictures in a real JupyterLab: paint, predict, a player and the canvas.

All tests share one notebook, whose first cell has run; each uses separate cells.
"""

import math
import re

import pytest

# Check for playwright first, since the import of jupyterlab takes half a second.
api = pytest.importorskip("playwright.sync_api", reason="playwright not installed")
pytest.importorskip("jupyterlab", reason="jupyterlab not installed")

from browser import list_violations, needs_axe  # noqa: E402
from lab_server import open_notebook, open_server  # noqa: E402

pytestmark = pytest.mark.slow

IMPORTS = """\
from utils import *
from weft.lessons.widgets.canvas import Canvas
from weft.lessons.widgets.paint import paint"""
GUARD = "if (col < width && row < height)"
FADE = f"""\
%%cuda
__global__ void fade(float3 *image, int width, int height, float t) {{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    {GUARD}
        image[row * width + col] = make_float3(1, 0, t / 10);
}}"""
GUESS = "predict('How many?', None, 'GB/s').measured(500)"
PLAYER = """\
def scale(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]

show(scale)[1, 8](np.zeros(8, np.float32), np.ones(8, np.float32), 8)"""
CELLS = (IMPORTS, FADE, "paint(fade, 40, 30)", "Canvas()", GUESS, PLAYER)
AT_FADE, AT_PAINT, AT_CANVAS, AT_GUESS, AT_PLAYER = range(1, len(CELLS))

RED, GREEN, PURPLE = [255, 0, 0, 255], [0, 255, 0, 255], [255, 0, 255, 255]
IS_COLOUR = """([canvas, colour]) => {
  const { data } = canvas.getContext("2d").getImageData(39, 29, 1, 1);
  return colour.every((part, i) => part === data[i]);
}"""
DOWN = "ArrowDown"


@pytest.fixture(scope="module")
def notebook(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    with open_server(folder) as address:
        notebook = open_notebook(browser, address, folder, *CELLS)
        notebook.run(0)
        yield notebook
        assert not notebook.page.errors


@pytest.fixture
def painting(notebook):
    """Return the output with the painting, which is red at t = 0."""
    notebook.edit(AT_FADE, FADE)
    notebook.run(AT_FADE)
    notebook.run(AT_PAINT)
    painting = notebook.output(AT_PAINT)
    painting.locator("input").focus()
    notebook.page.keyboard.press("Home")  # A picture starts at the previous one's time.
    wait_for_colour(notebook, RED)
    return painting


@pytest.fixture
def canvas(notebook):
    notebook.run(AT_CANVAS)
    canvas = notebook.output(AT_CANVAS)
    canvas.locator(".sheet").scroll_into_view_if_needed()
    return canvas


def wait_for_colour(notebook, colour):
    """Wait until the last pixel of the painting has the colour."""
    canvas = notebook.output(AT_PAINT).locator("canvas").element_handle()
    notebook.page.wait_for_function(IS_COLOUR, arg=[canvas, colour], timeout=20_000)


def expect_text(place, text):
    """Wait until a place contains the text."""
    api.expect(place).to_contain_text(text, timeout=20_000)


def read_ink(output, part):
    """Return the red, green and blue of a part's text, which differ between themes."""
    text = output.locator(part).first.evaluate("one => getComputedStyle(one).color")
    return re.findall(r"\d+", text)[:3]


def test_an_edited_kernel_repaints_its_picture(notebook, painting):
    notebook.edit(AT_FADE, FADE.replace("(1, 0, t", "(0, 1, t"))
    notebook.run(AT_FADE)
    wait_for_colour(notebook, GREEN)


def test_the_slider_and_play_set_the_time(notebook, painting):
    painting.locator("input").focus()
    notebook.page.keyboard.press("End")
    wait_for_colour(notebook, PURPLE)
    expect_text(painting.locator("output"), "t = 10.00 s")
    painting.locator("button", has_text="Play").click()  # the time restarts at 0
    api.expect(painting.locator("output")).not_to_have_text("t = 10.00 s")
    painting.locator("button", has_text="Pause").click()


def test_a_fault_is_reported_below_the_picture_which_survives(notebook, painting):
    notebook.edit(AT_FADE, FADE.replace(GUARD, ""))
    notebook.run(AT_FADE)
    report = painting.locator("[role=alert]")
    expect_text(report, "thread (0,14) of block (0,1) writes image[1200]")
    expect_text(report, "image has 1200 elements")
    wait_for_colour(notebook, RED)
    notebook.edit(AT_FADE, FADE.replace("(1, 0, t", "(0, 1, t"))
    notebook.run(AT_FADE)
    wait_for_colour(notebook, GREEN)
    assert report.is_hidden()


def test_a_guess_is_drawn_beside_the_measurement(notebook):
    notebook.edit(AT_GUESS, GUESS)
    notebook.run(AT_GUESS)
    output = notebook.output(AT_GUESS)
    answer = output.get_by_text("It is 500 GB/s.")
    assert answer.is_hidden() and output.locator("rect").count() == 0
    output.locator("summary").click()
    assert answer.is_visible()
    notebook.edit(AT_GUESS, GUESS.replace("None", "250"))
    notebook.run(AT_GUESS)
    expect_text(output, "it is 500 GB/s: 2 times your guess")
    guess, measured = (bar.bounding_box() for bar in output.locator("rect").all())
    assert measured["width"] == pytest.approx(2 * guess["width"], rel=0.02)


def test_keys_move_the_slider_of_a_player_and_leave_its_cell(notebook):
    notebook.run(AT_PLAYER)
    player = notebook.output(AT_PLAYER).locator("[data-weft]")
    player.locator("input").focus()
    for thread in "thread 0", "thread 1":
        notebook.page.keyboard.press("ArrowRight")
        expect_text(player.locator("output"), thread)
    chosen = notebook.cell(AT_PLAYER).get_attribute("class")
    assert "jp-mod-active" in chosen


def test_the_model_reads_a_digit_drawn_by_mouse(notebook, canvas):
    box = canvas.locator(".sheet").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse = notebook.page.mouse
    mouse.move(x + 60, y)
    mouse.down()
    for step in range(1, 33):
        angle = step * math.pi / 16
        mouse.move(x + 60 * math.cos(angle), y + 90 * math.sin(angle))
    mouse.up()
    expect_text(canvas.locator(".told"), "read as 0")
    canvas.locator("button", has_text="Clear").click()
    api.expect(canvas.locator(".told")).to_have_text("")


def test_the_model_reads_a_digit_drawn_by_keys(notebook, canvas):
    canvas.locator(".sheet").focus()
    to_corner = ["ArrowUp"] * 9 + ["ArrowLeft"] * 6
    seven = ["ArrowRight"] * 12 + [DOWN, DOWN, "ArrowLeft"] * 8
    for key in [*to_corner, "Space", *seven, "Space"]:
        notebook.page.keyboard.press(key)
    expect_text(canvas.locator(".told"), "read as 7")
    assert canvas.locator(".bar.best span").first.inner_text() == "7"
    notebook.page.keyboard.press("c")
    api.expect(canvas.locator(".told")).not_to_contain_text("read as")


@needs_axe
@pytest.mark.parametrize("theme", ["JupyterLab Dark", "JupyterLab Light"])
def test_outputs_keep_axe_s_rules(notebook, painting, theme):
    notebook.run(AT_CANVAS)
    notebook.run(AT_GUESS)
    notebook.run(AT_PLAYER)
    notebook.choose_theme(theme)
    assert list_violations(notebook.page, ".jp-OutputArea-output") == []
    ink = read_ink(notebook.output(AT_GUESS), "b")
    for place, part in ((AT_PAINT, "canvas"), (AT_CANVAS, ".told"), (AT_PLAYER, "svg")):
        assert read_ink(notebook.output(place), part) == ink
