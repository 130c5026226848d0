"""Painting with threads: right pixels, tolerated errors, one request at a time.

node runs the front end's half, paint.js, if it is installed.
"""

import base64
import io
import json
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image

from weft.base.errors import ArgumentError, KernelError, KernelFault
from weft.cells import load_cuda
from weft.cells.module import Launch
from weft.lessons.widgets import paint as paint_module
from weft.lessons.widgets.paint import Painting, paint
from weft.timing import CoreWait


class Kernel:
    """A kernel with the launch of a compiled one; NumPy runs its body."""

    def __init__(self, body):
        self.body, self.launches = body, []

    def __getitem__(self, where):
        (grid, block) = where

        def launch(image, width, height, t):
            self.launches.append((grid, block, t))
            rows, cols = (min(s, g * b) for s, g, b in
                          zip((height, width), grid[::-1], block[::-1]))  # fmt: skip
            row, col = np.mgrid[:rows, :cols]
            for channel, shade in enumerate(self.body(col, row, width, height, t)):
                part = np.broadcast_to(np.float32(shade), row.shape).copy()
                image[:rows, :cols, channel] = torch.from_numpy(part)

        return launch


def gradient(col, row, width, height, t):
    return col / width, row / height, t / 10


def picture(body=gradient, *args, **options) -> Painting:
    return paint(Kernel(body), *args, device="cpu", **options)


# ---- pixels ------------------------------------------------------------------------


def test_every_pixel_has_the_colour_its_thread_gave_it():
    frame = picture(gradient, 40, 30).frame(2.0)
    assert frame.shape == (30, 40, 4) and frame.dtype == np.uint8
    row, col = np.mgrid[:30, :40]
    want = np.stack([col / 40, row / 30, np.full((30, 40), 0.2)], axis=-1)
    assert np.abs(frame[..., :3] / 255 - want).max() <= 0.5001 / 255
    assert (frame[..., 3] == 255).all()


def test_colours_end_at_black_and_at_full_strength():
    values = [-1e9, -0.1, 0.0, 0.5, 1.0, 1.1, np.inf]
    frame = picture(lambda col, *_: [np.choose(col, values)] * 3, 7, 1).frame(0)
    assert frame[0, :, 0].tolist() == [0, 0, 0, 128, 255, 255, 255]
    assert (frame[..., 3] == 255).all()


def test_what_is_not_written_or_no_number_is_transparent():
    def hole(col, row, *_):
        return np.where((col == 3) & (row == 2), np.nan, 0.5), 0.5, 0.5

    painting = picture(hole, 16, 16)
    frame = painting.frame(0)
    assert np.argwhere(frame[..., 3] == 0).tolist() == [[2, 3]]
    painting.grid = (1, 1)  # too few blocks for 16 x 4 threads
    painting.block = (16, 4)
    assert (painting.frame(0)[4:, :, 3] == 0).all()


@pytest.mark.parametrize("size, block, grid", [
    ((256, 256), (16, 16), (16, 16)),
    ((100, 7), (32, 8), (4, 1)),
    ((1, 1), (1, 1), (1, 1)),
])  # fmt: skip
def test_the_grid_covers_the_picture(size, block, grid):
    painting = picture(gradient, *size, block=block)
    assert painting.kernel.launches == [(grid, block, 0.0)]
    assert (painting.frame(0)[..., 3] == 255).all()


@pytest.mark.parametrize("wrong, message", [
    ({"width": 0}, "width=0, expected 1 to 4096"),
    ({"height": 2.5}, "height=2.5"),
    ({"seconds": 0}, "seconds=0"),
    ({"seconds": float("nan")}, "seconds=nan"),
    ({"block": (64, 64)}, r"\(64, 64\) is 4096 threads, expected 1 to 1024"),
    ({"block": (-16, -16)}, "expected 1 to 1024"),
    ({"block": 16}, r"two numbers: \(16, 16\)"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_numbers(wrong, message):
    with pytest.raises(ArgumentError, match=message):
        picture(gradient, **wrong)


def test_a_thing_that_is_no_kernel_is_refused():
    with pytest.raises(ArgumentError, match=r"cannot be launched.*__global__"):
        paint(lambda image: None)


def test_timing_is_that_of_whole_pictures():
    painting = picture(gradient, 8, 8)
    timing = painting.timing(samples=5)
    assert timing.samples == 5 and 0 < timing.low <= timing.median <= timing.high
    assert len({t for _, _, t in painting.kernel.launches}) >= 5  # the times differ


# ---- kernels in CUDA C -------------------------------------------------------------

SOURCE = """
__global__ void fade(float3 *image, int width, int height, float t) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= width || row >= height) return;
    image[row * width + col] =
        make_float3((float)col / width, (float)row / height, t / 10);
}
__global__ void astray(float3 *image, int width, int height, float t) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (t > 5) row += height;
    if (col < width) image[row * width + col] = make_float3(1, 0, 0);
}
"""


@pytest.fixture(scope="module")
def compiled():
    return load_cuda(SOURCE)


def test_a_cells_kernel_paints_as_the_same_body_in_numpy(compiled, target):
    painting = paint(compiled.fade, 50, 30, device=target)
    for t in 0.0, 7.25:
        frame, want = painting.frame(t), picture(gradient, 50, 30).frame(t)
        assert np.abs(frame.astype(int) - want).max() <= 1  # out of 255


def test_a_store_outside_of_the_picture_is_said_below_it(compiled):
    painting, log = paint(compiled.astray, 16, 16, device="cpu"), []
    painting.widget.send = lambda content, buffers=(): log.append((content, buffers))
    ask(painting, 6)
    assert log[0][0]["kind"] == "error"
    assert log[0][0]["text"].startswith("KernelFault: astray")
    assert "image" in log[0][0]["text"]
    ask(painting, 1)
    assert bytes(log[1][1][0]) == b"\xff\0\0\xff" * 256


def test_wrong_parameters_are_an_error_of_the_cell(compiled):
    incomplete = load_cuda("__global__ void one(float3 *image, int width) {}")
    with pytest.raises(ArgumentError, match="one takes 2 arguments, but 4 are given"):
        paint(incomplete.one, device="cpu")


# ---- without a front end -----------------------------------------------------------


def test_without_a_front_end_one_sees_moments_of_it(monkeypatch):
    """Every front end shows the richest form that it supports; all support pictures."""
    painting = picture(lambda *a: (a[-1] / 10, 0.0, 0.0), 8, 8)
    strip = painting.strip(4)
    assert [ax.get_title() for ax in strip.axes] == [
        f"t = {t}" for t in ("0", "2.5", "5", "7.5")
    ]
    reds = [ax.images[0].get_array()[0, 0, 0] for ax in strip.axes]
    assert reds == [0, 64, 128, 191]
    data, _ = painting._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "text/plain"} <= data.keys()
    image = Image.open(io.BytesIO(base64.b64decode(data["image/png"])))
    assert image.width > 5 * 80 and image.getextrema()[0][1] > 100
    monkeypatch.setattr(paint_module, "anywidget", None)
    data, _ = picture(gradient, 8, 8)._repr_mimebundle_()
    assert data.keys() == {"image/png", "text/plain"}


# ---- the widget --------------------------------------------------------------------


@pytest.fixture
def live():
    """Return live(body), which returns a painting and its widget's messages."""

    def make(body=gradient, width=8, height=8):
        painting, log = picture(body, width, height), []
        painting.widget.send = lambda content, buffers=(): log.append(
            (content, buffers)
        )
        return painting, log

    return make


def ask(painting: Painting, t: float, view: str = "a", playing: bool = False) -> None:
    """Request a picture by a message, like a front end."""
    content = {"kind": "frame", "view": view, "t": t, "playing": playing}
    painting.widget._handle_custom_msg(content, [])


def test_a_request_is_answered_with_its_picture(live):
    painting, log = live()
    ask(painting, 5.0, view="b")
    ((answer, (pixels,)),) = log
    assert answer["kind"] == "frame" and (answer["view"], answer["t"]) == ("b", 5.0)
    assert answer["ms"] > 0 and answer["unwritten"] == 0
    assert bytes(pixels) == painting.frame(5.0).tobytes()
    assert painting.widget.first == painting.frame(0.0).tobytes()


@pytest.mark.parametrize("option", ["", "draw"])
def test_a_live_picture_shows_no_time_of_a_shared_machine(live, monkeypatch, option):
    monkeypatch.setenv("WEFT_SHARED", option)
    monkeypatch.setattr(CoreWait, "share", lambda self: 0.38)
    monkeypatch.setattr(paint_module, "PERIOD", 0.0)
    painting, log = live()
    ask(painting, 1.0)
    answer = log[0][0]
    assert "a thread waited 38 % of its time" in answer["shared"]
    assert (answer["ms"] is None) == (option == "")


def test_pixels_without_a_colour_are_counted(live):
    painting, log = live(lambda col, *_: (np.where(col > 5, np.nan, 1.0), 0.0, 0.0))
    ask(painting, 0)
    assert log[0][0]["unwritten"] == 16


@pytest.mark.parametrize("error, text", [
    (KernelError("plasma: address 0x0"), "KernelError: plasma: address 0x0"),
    (TypeError("t is 'str'"), "TypeError: t is 'str'"),
    (KeyboardInterrupt(), "KeyboardInterrupt"),
])  # fmt: skip
def test_an_error_is_shown_and_the_next_picture_is_right(live, error, text):
    def fails_in_the_middle(*args):
        if args[-1] == 5:
            raise error
        return gradient(*args)

    painting, log = live(fails_in_the_middle)
    ask(painting, 5, playing=True)
    assert log == [({"kind": "error", "view": "a", "text": text}, ())]
    assert not painting.playing
    ask(painting, 6)
    assert bytes(log[1][1][0]) == painting.frame(6).tobytes()


def test_the_first_picture_raises_in_the_cell():
    def wrong(*_):
        raise KernelError("no such kernel")

    with pytest.raises(KernelError, match="no such kernel"):
        picture(wrong)


# ---- the notebook ------------------------------------------------------------------


@pytest.fixture
def shell(monkeypatch):
    """Start a notebook's IPython with Kernel and paint."""
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    shell.user_ns.update(Kernel=Kernel, paint=lambda k: paint(k, 8, 8, device="cpu"))
    monkeypatch.setattr(paint_module, "running_shell", lambda: shell)
    monkeypatch.setattr(paint_module, "_latest", {})
    return shell


def run_cell(shell: InteractiveShell, code: str) -> SimpleNamespace:
    result = shell.run_cell(code, silent=False)
    result.raise_error()
    return SimpleNamespace(**shell.user_ns)


def red(value: float) -> str:
    return f"fade = Kernel(lambda *a: ({value}, 0.0, 0.0))"


def test_an_edited_kernel_repaints_at_once_and_the_time_stays(shell):
    run_cell(shell, red(0.0))
    painting = run_cell(shell, "made = paint(fade)").made
    log = []
    painting.widget.send = lambda content, buffers=(): log.append((content, buffers))
    ask(painting, 7.5)
    run_cell(shell, "1 + 1")
    assert len(log) == 1
    run_cell(shell, red(1.0))  # this cell is not the picture's
    assert log[1][0] == {"kind": "changed"}
    ask(painting, painting.t)
    assert log[2][0]["t"] == 7.5 and bytes(log[2][1][0])[:4] == b"\xff\0\0\xff"
    run_cell(shell, "fade = 'no kernel any more'")
    assert len(log) == 3 and painting.kernel.launches[-1][-1] == 7.5


def test_painted_anew_it_goes_on_where_it_was(shell):
    run_cell(shell, red(0.5))
    painting = run_cell(shell, "made = paint(fade)").made
    ask(painting, 2.25, playing=True)
    second = run_cell(shell, "made = paint(fade)").made
    assert second is not painting and (second.t, second.playing) == (2.25, True)
    assert (second.widget.t, second.widget.playing) == (2.25, True)
    third = run_cell(shell, "other = Kernel(fade.body)\nmade = paint(other)").made
    assert (third.t, third.playing) == (0, False)


# A minimal page for paint.js, with a clock that pass(ms) advances.
PAGE = """
let now = 0, timers = [];
globalThis.performance = {now: () => now};
globalThis.setTimeout = (call, ms) => {
  timers.push({call, at: now + ms});
  return timers.at(-1);
};
globalThis.clearTimeout = (timer) => { timers = timers.filter((t) => t !== timer); };
const pass = (ms) => {
  for (const end = now + ms; ; ) {
    const next = timers.filter((t) => t.at <= end).sort((a, b) => a.at - b.at)[0];
    if (!next) { now = end; return; }
    timers = timers.filter((t) => t !== next);
    now = Math.max(now, next.at);
    next.call();
  }
};
class Element {
  constructor(tag) {
    Object.assign(this, {tag, children: [], style: {}, on: {}, attributes: {}});
  }
  append(child) { this.children.push(child); }
  setAttribute(name, value) { this.attributes[name] = value; }
  addEventListener(name, call) { this.on[name] = call; }
  getBoundingClientRect() { return {left: 10, top: 20, width: 64, height: 64}; }
  getContext() {
    return {putImageData: (image) => drawn.push([image.data[0], image.width])};
  }
}
const drawn = [], asked = [], page = {}, calls = {};
let eye = null, latest = null;
globalThis.document = {
  createElement: (tag) => new Element(tag), hidden: false,
  addEventListener: (name, call) => { page[name] = call; },
  removeEventListener: (name) => { delete page[name]; },
};
globalThis.ImageData = class {
  constructor(data, width) { Object.assign(this, {data, width}); }
};
globalThis.IntersectionObserver = class {
  constructor(call) { eye = (seen) => call([{isIntersecting: seen}]); }
  observe() {}
  disconnect() { eye = null; }
};
const view = (value) => new DataView(new Uint8Array(64 * 4).fill(value).buffer);
const state = {width: 8, height: 8, block: [4, 4], seconds: 10, place: "cpu", t: 0,
  playing: false, first: view(1)};
const model = {
  get: (name) => state[name], set: (name, value) => { state[name] = value; },
  on: (name, call) => { calls[name] = call; }, off: (name) => delete calls[name],
  send: (message) => { latest = message; asked.push(message.t); },
};
const message = (content, ...buffers) => calls["msg:custom"](content, buffers);
const answer = (value, more = {}) =>
  message(
    {...latest, kind: "frame", ms: 2, shared: "", unwritten: 0, ...more}, view(value));
const el = new Element("div");
const { default: widget } = await import(process.argv[1]);
const done = widget.render({model, el});
const find = (test, node = el) =>
  test(node) ? node : node.children.map((c) => find(test, c)).find(Boolean);
const tag = (name) => find((node) => node.tag === name);
const slide = (t) => { tag("input").value = t; tag("input").on.input(); pass(50); };
const times = () => asked.splice(0).map((t) => Math.round(1000 * t) / 1000);
const out = {first: [drawn.splice(0), times()]};

eye(true); pass(50); answer(2);
out.live = [drawn.splice(0), times()];
pass(1000);
out.idle = times();

slide(1); slide(2); slide(3); slide(4);
out.slow = times();
const said = () => el.children[0].children.at(-2).textContent;
const before = said();
pass(4000);
out.patience = [before, said()];
answer(3); pass(50);
out.answered = said();
out.then = times();
answer(4); pass(50);
out.rest = [times(), drawn.splice(0)];

tag("button").on.click();
for (let i = 0, answered = 0; i < 90; i++) {
  pass(11);
  if (asked.length > answered) { answered += 1; answer(5); }
}
const played = times();
out.playing = [played.length, played.at(-1) - played[0], tag("button").textContent];
const pause = () => { pass(50); answer(5); times(); pass(5000); return times(); };
document.hidden = true;
out.hidden = pause();
document.hidden = false; page.visibilitychange(); pass(50);
out.back = times()[0] - played.at(-1);
eye(false);
out.away = pause();
eye(true); pass(50); answer(5);
tag("button").on.click(); pass(50); answer(6); pass(50); times();

slide(5); times();
message({kind: "error", view: latest.view, text: "KernelFault: thread 3"});
pass(1000);
const pre = tag("pre");
out.error = [pre.hidden, pre.textContent, times()];
message({kind: "changed"}); pass(50);
out.again = times();
answer(7); pass(50);
out.healed = [pre.hidden, times(), drawn.at(-1)];
message({...latest, kind: "frame", view: "another"}, view(9)); pass(50);
out.others = drawn.at(-1);

const canvas = tag("canvas"), pointed = el.children[0].children.at(-1);
canvas.on.pointermove({clientX: 10 + 5.5 * 8, clientY: 20 + 2.5 * 8});
out.pointed = pointed.textContent;
const key = (key, shiftKey = false) => canvas.on.keydown(
  {key, shiftKey, preventDefault() {}, stopPropagation() {}});
key("ArrowRight"); key("ArrowDown", true);
out.keys = pointed.textContent;
canvas.on.pointerleave({pointerType: "touch"});
out.tapped = pointed.textContent;
canvas.on.pointerleave({pointerType: "mouse"});
out.left = pointed.textContent;
message({...latest, kind: "frame", ms: null, shared: "shared", unwritten: 0}, view(9));
out.shared = said();
out.announced = [tag("input").attributes, tag("output").attributes, pointed.attributes];
done();
out.after = [Object.keys(calls), Object.keys(page), eye, timers.length];
console.log(JSON.stringify(out));
"""


@pytest.fixture(scope="module")
def front() -> dict:
    """Return the actions of paint.js in PAGE, by the names there."""
    if not shutil.which("node"):
        pytest.skip("node runs paint.js here")
    script = ["node", "--input-type=module", "-e", PAGE]
    file = paint_module.__file__.replace(".py", ".js")
    proc = subprocess.run([*script, file], capture_output=True, text=True, timeout=60)
    assert proc.returncode == 0, proc.stderr
    return json.loads(proc.stdout)


def test_the_first_picture_needs_no_answer_the_next_is_asked_for_once(front):
    assert front["first"] == [[[1, 8]], []]
    assert front["live"] == [[[2, 8]], [0]]
    assert front["idle"] == []


def test_a_slow_kernel_is_asked_for_one_picture_and_then_for_the_last(front):
    assert front["slow"] == [1]  # meanwhile, the slider moved on to 2, 3 and 4
    assert front["then"] == [4]
    assert front["rest"] == [[], [[3, 8], [4, 8]]]


def test_the_numbers_stand_below_or_that_no_answer_comes(front):
    numbers = "8 x 8 = 64 pixels, a thread for each, on the CPU: 2.0 ms a picture"
    early, late = front["patience"]
    assert early == front["answered"] == numbers
    assert late.startswith("No answer yet")


def test_a_shared_machine_is_named_in_place_of_times(front):
    assert front["shared"] == "8 x 8 = 64 pixels, a thread for each, on the CPU; shared"


def test_playing_keeps_to_the_clock_and_to_30_pictures_a_second(front):
    pictures, seconds, button = front["playing"]
    assert 20 <= pictures <= 31 and button == "Pause"
    assert seconds == pytest.approx(0.99, abs=0.08)


def test_nothing_is_asked_for_out_of_sight_and_the_time_waits(front):
    assert front["hidden"] == front["away"] == []
    assert 0 <= front["back"] < 0.2  # although 5 seconds have passed


def test_an_error_stands_below_the_picture_until_the_kernel_is_another(front):
    assert front["error"] == [False, "KernelFault: thread 3", []]
    assert front["again"] == [5]
    assert front["healed"] == [True, [], [7, 8]]


def test_a_view_draws_no_picture_of_another_view(front):
    assert front["others"] == [7, 8]


def test_one_can_ask_a_pixel_for_its_thread(front):
    assert front["pointed"] == "col 5, row 2: blockIdx (1, 0), threadIdx (1, 2)"
    assert front["keys"] == "col 6, row 6: blockIdx (1, 1), threadIdx (2, 2)"
    assert front["tapped"] == front["keys"] and front["left"] == ""
    slider, output, pointed = front["announced"]
    assert slider["aria-label"] == "time t in seconds"
    assert slider["aria-valuetext"] == "5.00 seconds"
    assert (output["aria-live"], pointed["role"]) == ("off", "status")


def test_a_picture_that_is_gone_leaves_nothing_behind(front):
    assert front["after"] == [[], [], None, 0]


# ---- a GPU -------------------------------------------------------------------------

RED = """
__global__ void red(float3 *image, int width, int height, float t) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col < width && row < height) image[row * width + col] = make_float3(1, 0, 0);
}
"""


def test_a_changed_kernel_paints_watched_before_a_gpu_paints_it(monkeypatch):
    """The pretended GPU is the CPU's plain build; it counts its launches."""
    painting = paint(load_cuda(RED).red, 20, 20, device="cpu")
    painting.device = SimpleNamespace(type="cuda")
    full, launches = torch.full, []
    monkeypatch.setattr(torch, "full", lambda *a, device=None: full(*a))
    run = Launch.run
    monkeypatch.setattr(
        Launch, "run", lambda self, *a, **k: [launches.append(self), run(self, *a, **k)]
    )
    assert (painting.frame(0)[..., 0] == 255).all()
    painting.change(load_cuda(RED.replace("col < width && ", "")).red)
    for _ in range(2):
        with pytest.raises(KernelFault, match=r"image\[400\]"):
            painting.frame(0)
    assert len(launches) == 1, "no faulty kernel reached the GPU"
    painting.change(load_cuda(RED.replace("1, 0", "0, 1")).red)
    assert (painting.frame(0)[..., 1] == 255).all()


def test_colab_loads_the_widget_manager_of_a_painting(monkeypatch):
    """Without this call, Colab shows only ipywidgets' own widgets."""
    util = pytest.importorskip("anywidget._util")
    enabled = []
    output = SimpleNamespace(
        enable_custom_widget_manager=lambda: enabled.append(True),
        _widgets=SimpleNamespace(_installed_url="https://colab/manager.js"),
    )
    monkeypatch.setitem(sys.modules, "google.colab.output", output)
    util.enable_custom_widget_manager_once.cache_clear()
    try:
        data, metadata = picture()._repr_mimebundle_()
    finally:
        util.enable_custom_widget_manager_once.cache_clear()
    kind = "application/vnd.jupyter.widget-view+json"
    assert enabled == [True] and kind in data and "image/png" in data
    manager = metadata[kind]["colab"]["custom_widget_manager"]
    assert manager == {"url": "https://colab/manager.js"}


def test_the_timing_contains_how_long_others_had_the_cores(monkeypatch):
    monkeypatch.setattr(CoreWait, "share", lambda self: 0.38)
    timing = picture(gradient, 4, 4).timing(samples=1)
    assert timing.waited == 0.38 and "this machine is shared" in str(timing)
