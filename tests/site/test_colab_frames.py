"""Outputs work in Colab: in a frame of another origin, on a dark page.

Colab sets html[theme=dark] on the frame's root and colors its body; the frame may run
scripts, but has a separate origin. The colors here are those of its two themes.
"""

import base64
import html
import json

import numpy as np
import pytest
from browser import open_page

from weft import cuda, show
from weft.lessons.widgets import paint

THEMES = {"dark": ("#e3e3e3", "#383838"), "light": ("#1f1f1f", "#ffffff")}
# This code replaces anywidget's model: it answers each request for a picture.
HOST = """<div id="widget"></div><script type="module">
const code = URL.createObjectURL(new Blob([CODE], {type: "text/javascript"}));
const widget = (await import(code)).default;
const pixels = Uint8Array.from(atob(PIXELS), c => c.charCodeAt(0));
const state = {width: 8, height: 8, seconds: 10, block: [8, 8], place: "cpu", t: 0,
               playing: false, first: new DataView(pixels.buffer)};
const hear = [];
const model = {
    get: name => state[name], set: (name, value) => { state[name] = value; },
    save_changes() {}, on: (event, f) => hear.push(f), off() {},
    send(message) {
        document.body.dataset.asked = message.t;
        const answer = {kind: "frame", view: message.view, t: message.t, ms: 1,
                        unwritten: 0};
        setTimeout(() => hear.forEach(f => f(answer, [new DataView(pixels.buffer)])));
    },
};
widget.render({model, el: document.getElementById("widget")});
</script>"""


def scale(y, x, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = 2 * x[i]


def make_player() -> str:
    picture = show(scale)[1, 8](np.zeros(8, np.float32), np.ones(8, np.float32), 8)
    return picture._repr_mimebundle_()["text/html"]


def make_painting() -> str:
    source = json.dumps(paint.Path(paint.__file__).with_suffix(".js").read_text())
    pixels = base64.b64encode(bytes([255, 0, 0, 255]) * 64).decode()
    code = HOST.replace("CODE", source.replace("</", "<\\/"))
    return code.replace("PIXELS", json.dumps(pixels))


def make_frame(theme: str) -> str:
    """Return a page with the outputs in a sandboxed frame, as Colab shows them."""
    ink, ground = THEMES[theme]
    look = f"color:{ink};background:{ground};font-family:sans-serif"
    inside = f'<html theme="{theme}"><body style="{look}">{make_player()}'
    inside += f"{make_painting()}</body></html>"
    return (
        f'<body><iframe sandbox="allow-scripts" style="width:900px;height:1500px" '
        f'srcdoc="{html.escape(inside, quote=True)}"></iframe></body>'
    )


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])  # the system's color scheme
@pytest.mark.parametrize("theme", THEMES)  # the theme in Colab
def test_a_player_and_a_painting_work_in_a_frame(theme, scheme):
    """The page's theme decides the colours, even if the system's theme differs."""
    size = {"width": 1000, "height": 1600}
    with open_page("", viewport=size, color_scheme=scheme) as page:
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_content(make_frame(theme))
        frame = page.frames[1]
        frame.wait_for_selector(".weft-paint canvas")
        slider = frame.locator('input[aria-label="thread"]')
        for thread in "thread 0", "thread 1":
            slider.focus()
            page.keyboard.press("ArrowRight")
            assert slider.get_attribute("aria-valuetext") == thread
        frame.locator('.weft-paint input[type="range"]').focus()
        page.keyboard.press("End")
        frame.wait_for_function("document.body.dataset.asked == 10")
        ink = tuple(int(THEMES[theme][0][at : at + 2], 16) for at in (1, 3, 5))
        for selector in "svg", ".weft-paint":
            color = frame.locator(selector).first.evaluate(
                "element => getComputedStyle(element).color"
            )
            assert color == f"rgb{ink}", selector
        assert not errors
