"""The canvas of lesson 15 turns strokes into a digit, which the kernels recognise.

node runs the front end's half, canvas.js, if it is installed.
"""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest
import torch

from weft.base.errors import ArgumentError
from weft.lessons.widgets import canvas
from weft.lessons.widgets.canvas import (
    COMPANIONS,
    LAYERS,
    SHEET,
    Canvas,
    Reader,
    centre,
)
from weft.mnist import Twin, initial_weights
from weft.mnist.data import Split, load
from weft.mnist.trainer import Cnn
from weft.see.view import mosaic

WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


def some_model(device: str = "cpu") -> Cnn:
    cnn = Cnn(device=device, max_batch=COMPANIONS + 1)
    cnn.set_weights(initial_weights(0))
    return cnn


def stroke(top: int, left: int, height: int, width: int) -> np.ndarray:
    sheet = np.zeros((SHEET, SHEET), np.uint8)
    sheet[top : top + height, left : left + width] = 255
    return sheet


# ---- centre() ----------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 3, 5])
def test_mnists_own_digits_stay_as_they_are(scale):
    """A test digit, drawn larger and at any place, is recovered pixel by pixel."""
    for image in load("test").images[:100]:
        large = np.kron(image, np.ones((scale, scale), np.uint8))
        padded = np.pad(large, ((7, 0), (3, 11)))
        np.testing.assert_array_equal(centre(padded), image)


def test_a_stroke_is_scaled_to_a_box_of_20_and_put_in_the_middle():
    digit = centre(stroke(60, 10, 10, 100))  # the stroke is long and flat
    rows, columns = np.nonzero(digit)
    assert np.ptp(columns) + 1 == 20 and np.ptp(rows) + 1 == 2
    assert abs(rows.mean() - 14) <= 0.5 and abs(columns.mean() - 14) <= 0.5
    assert digit.dtype == np.uint8 and digit.max() == 255


def test_the_mass_counts_and_not_the_box():
    heavy_on_top = np.maximum(stroke(0, 0, 40, 100), stroke(0, 45, 100, 10))
    rows, _ = np.nonzero(centre(heavy_on_top))
    assert rows.min() > 28 - 1 - rows.max()


def test_no_ink_is_no_digit_and_a_dot_is_one():
    assert centre(stroke(0, 0, 0, 0)) is None
    dot = centre(stroke(SHEET - 1, 0, 1, 1))
    assert dot.shape == (28, 28) and (dot > 0).sum() == 400


# ---- Reader ------------------------------------------------------------------------


def test_the_layers_are_those_of_the_same_model_in_torch(target):
    cnn, images = some_model(target), load("test").images[: COMPANIONS + 1]
    reading = Reader(cnn, images[1:]).read(images[0])
    shapes = {name: maps.shape for name, maps in reading.layers.items()}
    assert shapes == {
        **{"conv1": (32, 28, 28), "pool1": (32, 14, 14)},
        **{"conv2": (64, 14, 14), "pool2": (64, 7, 7)},
    }
    twin = Twin().double()
    for name, parameter in twin.named_parameters():
        parameter.data = torch.from_numpy(cnn.weights[name]).double()
    x = (torch.from_numpy(images.astype(np.float64))[:, None] / 255 - 0.1307) / 0.3081
    for layer in ["conv1", "bn1", "relu1", "pool1", "conv2", "bn2", "relu2", "pool2"]:
        x = twin.layer(layer, x)
        if layer in LAYERS:
            want = x[0].detach().numpy()
            error = np.abs(reading.layers[layer] - want).max()
            # The outputs are sums of at most 288 products, scaled up by batch norms.
            assert error <= 1e-4 * np.abs(want).max(), layer


def test_it_reads_as_the_trainer_does(target):
    """The ops, layer by layer, agree with the fused rung on the same batch."""
    cnn, images = some_model(target), load("test").images[: COMPANIONS + 1]
    reading = Reader(cnn, images[1:]).read(images[0], truth=7)
    cnn.data(test=Split(images, None))
    logits = cnn.forward("test", np.arange(len(images)))[0]
    want = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(reading.probabilities, want, atol=1e-4)
    assert reading.digit == want.argmax() and reading.truth == 7


def test_other_arrays_are_refused_with_their_shape():
    reader = Reader(some_model())
    with pytest.raises(ArgumentError, match=r"uint8 \(27, 28\)"):
        reader.read(np.zeros((27, 28), np.uint8))
    with pytest.raises(ArgumentError, match="float32"):
        reader.read(np.zeros((28, 28), np.float32))


def test_a_mosaic_has_every_map_on_its_own_scale():
    maps = np.arange(3, dtype=np.float32)[:, None, None] * np.ones((3, 2, 2))
    maps[1:, 0, 0] = [-7, 9]
    picture = mosaic(maps)
    assert picture.shape == (2, 8)
    tiles = [picture[:, 3 * i : 3 * i + 2] for i in range(3)]
    assert (tiles[0] == 0).all()  # a blank map has no scale
    assert tiles[1].tolist() == [[0, 1], [1, 1]]
    assert tiles[2].tolist() == [[1, 0], [0, 0]]
    assert np.isnan(picture[:, [2, 5]]).all()


def test_a_contact_sheet_has_a_title_for_every_image():
    images = np.full((5, 28, 28), 255, np.uint8)
    figure = canvas.contact_sheet(images, columns=3, titles=list("abcde"))
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.texts] == list("abcde")
    sheet = ax.images[0].get_array()
    assert sheet.shape == (2 * (28 + 11), 3 * (28 + 2) - 2)
    assert (sheet == 1).sum() == images.size and sheet.mask[:11].all()


# ---- the sheet -----------------------------------------------------------------------


def strokes_of(image: np.ndarray) -> bytes:
    return np.kron(image, np.ones((5, 5), np.uint8)).tobytes()  # 140 x 140 pixels


def test_strokes_from_the_front_end_are_read():
    sheet = Canvas(some_model()).widget
    image = load("test").images[3]
    # A front end sends a message whose buffer becomes a memoryview.
    sheet.set_state({"strokes": memoryview(strokes_of(image))})
    assert sheet.reading["digit"] == image.tobytes()
    assert sum(sheet.reading["probabilities"]) == pytest.approx(1, abs=1e-5)
    for layer in sheet.reading["layers"]:
        height = layer["rows"] * (layer["height"] + 1) - 1
        width = layer["columns"] * (layer["width"] + 1) - 1
        assert len(layer["pixels"]) == height * width
    assert [layer["name"] for layer in sheet.reading["layers"]] == list(LAYERS)
    sheet.set_state({"strokes": memoryview(bytes(SHEET**2))})
    assert sheet.reading == {}


@pytest.mark.slow
def test_without_a_front_end_one_sees_a_picture(monkeypatch):
    """Every front end shows the richest form that it supports; all support pictures."""
    data, _ = Canvas(some_model())._repr_mimebundle_()
    assert {WIDGET_MIME, "image/png", "text/plain"} <= data.keys()
    monkeypatch.setattr(canvas, "anywidget", None)
    data, _ = Canvas(some_model())._repr_mimebundle_()
    assert WIDGET_MIME not in data and len(data["image/png"]) > 10_000


def test_the_picture_has_a_row_per_digit():
    figure = Canvas(some_model(), examples=(4, 5)).figure()
    assert len(figure.axes) == 2 * (2 + len(LAYERS))
    titles = [ax.get_title() for ax in figure.axes]
    labels = load("test").labels
    assert re.fullmatch(rf"read as \d, it is {labels[4]}", titles[0])
    assert re.fullmatch(rf"read as \d, it is {labels[5]}", titles[6])


# A minimal page for canvas.js, a stroke, and a reading.
PAGE = """
const log = [];
class Element {
  constructor(tag) {
    Object.assign(this, {tag, children: [], style: {}, on: {}, attributes: {}});
  }
  setAttribute(name, value) { this.attributes[name] = value; }
  append(child) { this.children.push(child); }
  replaceChildren() { this.children = []; }
  addEventListener(name, call) {
    const others = this.on[name];
    this.on[name] = (event) => { others?.(event); call(event); };
  }
  setPointerCapture() {}
  getBoundingClientRect() { return {left: 0, top: 0, width: 252}; }
  getContext() {
    const nothing = () => {};
    return {
      beginPath: nothing, moveTo: nothing, stroke: nothing, drawImage: nothing,
      lineTo: (x, y) => log.push([x, y]), clearRect: () => log.push("cleared"),
      putImageData: (image) => log.push(["image", image.width, image.height]),
      getImageData: (x, y, w, h) => ({data: new Uint8Array(4 * w * h).fill(9)}),
    };
  }
}
globalThis.document = {createElement: (tag) => new Element(tag)};
globalThis.getComputedStyle = () => ({color: "rgb(10, 20, 30)"});
globalThis.ImageData = class {
  constructor(w, h) {
    Object.assign(this, {width: w, height: h, data: new Uint8Array(4 * w * h)});
  }
};
const view = (n) => new DataView(new ArrayBuffer(n));
const state = {side: 140, reading: {}}, calls = {};
const model = {
  get: (name) => state[name], set: (name, value) => { state[name] = value; },
  on: (name, call) => { calls[name] = call; }, off: (name) => delete calls[name],
  save_changes: () => log.push(["sent", state.strokes.byteLength]),
};
const el = new Element("div");
const { default: widget } = await import(process.argv[1]);
const done = widget.render({model, el});
const find = (node, test) =>
  test(node) ? node : node.children.map((c) => find(c, test)).find(Boolean);
const sheet = find(el, (node) => node.className === "sheet");
const told = find(el, (node) => node.className === "told");
const mark = find(el, (node) => node.className === "mark");
sheet.on.pointerdown({pointerId: 1, clientX: 10, clientY: 20});
sheet.on.pointermove({clientX: 30, clientY: 40});
sheet.on.pointerup({});
sheet.on.pointermove({clientX: 50, clientY: 60});
sheet.on.pointerdown({pointerId: 2, clientX: 1, clientY: 1, isPrimary: false});
await new Promise((resolve) => setTimeout(resolve, 400));
const layer = {name: "conv1", rows: 4, columns: 8, height: 28, width: 28};
const probabilities = Array(10).fill(0).with(3, 1);
const layers = [{...layer, pixels: view(115 * 231)}];
state.reading = {digit: view(784), probabilities, layers};
calls["change:reading"]();
const best = find(el, (node) => node.className === "bar best");
log.push(best.children.map((child) => `${child.textContent}`));
log.push(told.textContent);
const key = (key, more = {}) => sheet.on.keydown(
  {key, preventDefault() {}, stopPropagation() {}, ...more});
key("ArrowUp");
log.push(told.textContent, mark.hidden);
key(" "); key("ArrowRight"); key("ArrowRight", {shiftKey: true});
log.push(told.textContent);
key(" "); key("ArrowLeft"); key("v");
key("c");
log.push(told.textContent);
sheet.on.blur();
log.push(mark.hidden, sheet.tabIndex, sheet.attributes["aria-label"]);
done();
log.push(Object.keys(calls));
console.log(JSON.stringify(log));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="node runs canvas.js here")
def test_the_front_end_draws_by_pointer_and_by_key_and_shows_readings():
    script = ["node", "--input-type=module", "-e", PAGE]
    file = canvas.__file__.replace(".py", ".js")
    proc = subprocess.run([*script, file], capture_output=True, text=True, timeout=60)
    assert proc.returncode == 0, proc.stderr
    log = json.loads(proc.stdout)
    label = log.pop(-2)
    assert all(word in label for word in ("arrow keys", "Space", "C clears"))
    assert log == [
        *[[20, 40], [60, 80]],  # the sheet has two pixels for each pixel of the page
        ["sent", 140 * 140],
        *[["image", 28, 28], ["image", 231, 115]],
        *[["3", "", "100.0 %"], "read as 3, probability 100 %"],
        *["pen up, column 15, row 14", False],
        *[[261, 243], [279, 243], [351, 243], "pen down, column 20, row 14"],
        *["cleared", "pen up, column 19, row 14"],
        *[True, 0],  # the mark is hidden, and Tab reaches the sheet
        [],  # no listener remains
    ]
