// The picture of paint.py: request a frame, draw it, and request the next.
//
// paint.py documents the messages. At most one request is pending. If the slider moves
// while Python paints, the next request is for its last position only. A picture that
// is out of sight (another tab, scrolled away) requests nothing. On a page without Python,
// recorded pictures answer, and their note replaces the time.

const SIDE = 512; // maximum width of a picture, in pixels of the page
const PERIOD = 1000 / 30; // minimum ms between two requests
const PATIENCE = 3000; // ms without an answer before a message
const TELL = 500; // minimum ms between changes of the numbers shown below the picture

const STYLE = `
.weft-paint { font: 13px system-ui, sans-serif; max-width: 100%; margin: 4px; }
.weft-paint .picture { position: relative; line-height: 0;
  background: repeating-conic-gradient(#8886 0 25%, #8882 0 50%) 0 0 / 16px 16px; }
.weft-paint canvas { image-rendering: pixelated; width: 100%; cursor: crosshair; }
.weft-paint canvas:focus-visible { outline: 2px solid #0072B2; outline-offset: 1px; }
.weft-paint .block { position: absolute; box-sizing: border-box; pointer-events: none;
  border: 1px solid #fff; outline: 1px solid #000; }
.weft-paint .controls { display: flex; gap: 10px; align-items: center;
  margin: 8px 0 4px; }
.weft-paint input { flex: 1; min-width: 0; accent-color: #0072B2; }
.weft-paint button { font: inherit; color: inherit; background: #8882; width: 5em;
  border: 1px solid #888; border-radius: 4px; padding: 3px 0; cursor: pointer; }
.weft-paint output, .weft-paint .numbers { font-variant-numeric: tabular-nums; }
.weft-paint output { min-width: 6em; }
.weft-paint .numbers { min-height: 1.5em; line-height: 1.5; }
.weft-paint pre { margin: 6px 0; padding: 6px 10px; border-left: 4px solid #D55E00;
  background: #D55E0022; color: inherit;
  white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere;
  font: 12px ui-monospace, monospace; max-height: 20em; overflow: auto; }
.weft-paint [hidden] { display: none; }
@media (pointer: coarse) {
  .weft-paint button, .weft-paint input { min-height: 44px; } }`;

function make(parent, tag, className = "", text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

const clamp = (n, most) => Math.min(Math.max(n, 0), most);
const count = (n) => n.toLocaleString("en-US");
const bytes = (view) =>
  new Uint8ClampedArray(view.buffer ?? view, view.byteOffset ?? 0, view.byteLength);

/* Make the picture, and a frame around the block of the pointed thread. */
function makePicture(parent, model) {
  const [width, height] = [model.get("width"), model.get("height")];
  const [across, down] = model.get("block");
  const frame = make(parent, "div", "picture");
  parent.style.width = `${width * Math.max(1, Math.floor(SIDE / width))}px`;
  const canvas = make(frame, "canvas");
  [canvas.width, canvas.height, canvas.tabIndex] = [width, height, 0];
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `A picture, ${width} by ${height} pixels, painted `
    + "by one thread for each. The arrow keys go from thread to thread.");
  const box = make(frame, "div", "block");
  box.hidden = true;

  const draw = (pixels) => canvas.getContext("2d")
    .putImageData(new ImageData(pixels, width, height), 0, 0);

  /* Frame the block of the thread at (col, row); return the indices of both. */
  function point(col, row) {
    const [x, y] = [Math.floor(col / across), Math.floor(row / down)];
    const percent = (part, whole) => `${(100 * part) / whole}%`;
    box.hidden = false;
    box.style.left = percent(x * across, width);
    box.style.top = percent(y * down, height);
    box.style.width = percent(Math.min(across, width - x * across), width);
    box.style.height = percent(Math.min(down, height - y * down), height);
    return `col ${col}, row ${row}: blockIdx (${x}, ${y}), `
      + `threadIdx (${col - x * across}, ${row - y * down})`;
  }

  /* Call tell(text) when the mouse or keys point at another thread; text is "" if
   * they point at none. */
  function onPoint(tell) {
    let at = null;
    const go = (col, row) => {
      at = [clamp(col, width - 1), clamp(row, height - 1)];
      tell(point(...at));
    };
    const leave = () => { at = null; box.hidden = true; tell(""); };
    const follow = (event) => {
      const seen = canvas.getBoundingClientRect();
      go(Math.floor(((event.clientX - seen.left) / seen.width) * width),
        Math.floor(((event.clientY - seen.top) / seen.height) * height));
    };
    canvas.addEventListener("pointermove", follow);
    canvas.addEventListener("pointerdown", follow); // a tap selects a thread
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType !== "touch") leave(); // a lifted finger keeps the selection
    });
    canvas.addEventListener("blur", leave);
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1],
        ArrowDown: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation(); // notebooks change cells with these keys
      const [col, row] = at ?? [width >> 1, height >> 1];
      const far = event.shiftKey; // Shift moves from block to block
      go(col + step[0] * (far ? across : 1), row + step[1] * (far ? down : 1));
    });
  }
  return { canvas, draw, onPoint };
}

/* Make the button, the slider and the time; they call hooks.play(), hooks.slide(t). */
function makeControls(parent, seconds, hooks) {
  const row = make(parent, "div", "controls");
  const button = make(row, "button");
  button.type = "button";
  const slider = make(row, "input");
  Object.assign(slider, { type: "range", min: 0, max: seconds, step: seconds / 1000 });
  slider.setAttribute("aria-label", "time t in seconds");
  const output = make(row, "output");
  output.setAttribute("aria-live", "off"); // only the slider announces its value
  button.addEventListener("click", hooks.play);
  slider.addEventListener("input", () => hooks.slide(Number(slider.value)));
  slider.addEventListener("keydown", (event) => event.stopPropagation());
  return (t, playing) => {
    button.textContent = playing ? "Pause" : "Play";
    slider.value = t;
    output.textContent = `t = ${t.toFixed(2)} s`;
    slider.setAttribute("aria-valuetext", `${t.toFixed(2)} seconds`);
  };
}

/* Return text such as "256 x 256 = 65,536 pixels, a thread for each, on the CPU". */
function sizeOf(model) {
  const [width, height] = [model.get("width"), model.get("height")];
  const place = { cpu: "CPU", cuda: "GPU" }[model.get("place")];
  return `${width} x ${height} = ${count(width * height)} pixels, a thread for each, `
    + `on the ${place}`;
}

function render({ model, el }) {
  const root = make(el, "div", "weft-paint");
  make(root, "style", "", STYLE);
  // Without this attribute, JupyterLab's shortcuts receive the arrow keys.
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const picture = makePicture(root, model);
  const show = makeControls(root, model.get("seconds"), {
    play() { playing = !playing; last = performance.now(); update(); },
    slide(value) { t = value; update(); },
  });
  const problem = make(root, "pre");
  problem.setAttribute("role", "alert");
  problem.hidden = true;
  const numbers = make(root, "div", "numbers");
  const pointed = make(root, "div", "numbers");
  pointed.setAttribute("role", "status");

  // This name identifies the view, since a model may have several.
  const view = Math.random().toString(36).slice(2);
  const seconds = model.get("seconds");
  let t = model.get("t"), playing = model.get("playing");
  let drawn = NaN; // the time of the visible picture; NaN if it is out of date
  let waiting = false, seen = true, gone = false;
  let last = performance.now(), asked = -Infinity, timer = null, late = null;
  let told = -Infinity, pictures = 0; // pictures drawn since `told`

  /* Request the picture at t, unless a request is pending or none is needed. */
  function ask() {
    timer = null;
    if (waiting || gone || !seen || document.hidden) return;
    const now = performance.now();
    if (playing) t = (t + (now - last) / 1000) % seconds;
    [last, asked] = [now, now];
    if (t === drawn) {
      if (playing) soon(); // the clock has not advanced yet
      return;
    }
    waiting = true;
    show(t, playing);
    late = setTimeout(() => {
      numbers.textContent = "No answer yet: Python is busy, or does not run.";
    }, PATIENCE);
    model.send({ kind: "frame", view, t, playing });
  }

  function soon() {
    timer ??= setTimeout(ask, Math.max(0, asked + PERIOD - performance.now()));
  }

  function update() {
    show(t, playing);
    model.set("t", t);
    soon();
  }

  function tell({ ms, shared, unwritten, note }) {
    if (note) { numbers.textContent = sizeOf(model) + note; return; }
    const now = performance.now();
    pictures += 1;
    if (playing && now - told < TELL) return;
    const rate = (1000 * pictures) / (now - told);
    const calm = !playing || now - told > 4 * TELL;
    const times = ms === null ? "" : `: ${ms.toFixed(1)} ms a picture`
      + (calm ? "" : `, ${rate.toFixed(0)} pictures a second`);
    numbers.textContent = sizeOf(model) + times + (shared ? `; ${shared}` : "")
      + (unwritten ? `; ${count(unwritten)} pixels have no colour` : "");
    [told, pictures] = [now, 0];
  }

  function answer(message, buffers) {
    if (message.kind === "changed") { drawn = NaN; soon(); return; }
    if (message.view !== view) return;
    waiting = false;
    clearTimeout(late);
    problem.hidden = message.kind !== "error";
    if (message.kind === "error") {
      problem.textContent = message.text;
      [playing, drawn] = [false, t]; // request this picture again only after a change
    } else {
      picture.draw(bytes(buffers[0]));
      drawn = message.t;
      tell(message);
    }
    show(t, playing);
    if (playing || t !== drawn) soon();
  }

  /* Continue at the time of the last picture. Time out of sight does not count. */
  function back() { last = performance.now(); soon(); }

  picture.onPoint((text) => { pointed.textContent = text; });
  const eye = new IntersectionObserver(([entry]) => {
    seen = entry.isIntersecting;
    if (seen) back();
  });
  eye.observe(picture.canvas);
  document.addEventListener("visibilitychange", back);
  model.on("msg:custom", answer);
  picture.draw(bytes(model.get("first")));
  numbers.textContent = sizeOf(model);
  show(t, playing);
  return () => {
    gone = true;
    clearTimeout(timer);
    clearTimeout(late);
    eye.disconnect();
    document.removeEventListener("visibilitychange", back);
    model.off("msg:custom", answer);
  };
}

export default { render };
