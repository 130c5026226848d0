// The drawing canvas of canvas.py: it sends strokes, and receives readings.
//
//   strokes   (side * side) bytes, 0 to 255: the ink, row by row
//   reading   {digit (28 * 28 bytes), probabilities (10 numbers), layers: [{name,
//             rows, columns, height, width, pixels (bytes)}]}; {} for a blank sheet
//
// Pictures are painted in the text's color on a transparent background, so that they
// suit light and dark pages.

const PEN = 0.085; // pen width relative to the sheet: about 2 of MNIST's 28 pixels
const PAUSE = 150; // ms between two readings while a stroke is drawn
const CELLS = 28, FAR = 4; // steps of a key across the sheet; steps with Shift
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1],
  ArrowDown: [0, 1] };
const HELP = "Sheet to draw a digit. The arrow keys move the pen, with Shift by four steps."
  + " Space puts it down or lifts it. C clears the sheet.";

const STYLE = `
.weft-canvas { display: flex; flex-wrap: wrap; gap: 20px; align-items: flex-start;
  font: 13px system-ui, sans-serif; }
.weft-canvas canvas { border: 1px solid #888; border-radius: 4px; display: block; }
.weft-canvas .sheet { width: 252px; height: 252px; touch-action: none;
  cursor: crosshair; }
.weft-canvas .sheet:focus-visible { outline: 2px solid #0072B2; outline-offset: 1px; }
.weft-canvas .paper { position: relative; width: max-content; }
.weft-canvas .mark { position: absolute; width: 18px; height: 18px; margin: -9px;
  box-sizing: border-box; border: 2px dashed #0072B2; border-radius: 50%; box-shadow: 0 0 0 1.5px #fff;
  pointer-events: none; }
.weft-canvas .mark.down { border-style: solid; background: #0072B240; }
.weft-canvas [hidden] { display: none; }
.weft-canvas .told { min-height: 1.5em; max-width: 254px; margin-top: 4px; }
.weft-canvas .picture { image-rendering: pixelated; }
.weft-canvas figure { margin: 0; }
.weft-canvas figcaption { margin: 0 0 4px; }
.weft-canvas .layers { display: flex; flex-wrap: wrap; gap: 14px; }
.weft-canvas .bar { display: grid; grid-template-columns: 1em 140px max-content; gap: 8px;
  align-items: center; height: 24px; white-space: nowrap; }
.weft-canvas .bar i { display: block; height: 14px; background: #0072B240;
  outline: 1.5px solid #0072B2; width: 0; }
.weft-canvas .bar.best { font-weight: bold; }
.weft-canvas button { margin-top: 8px; font: inherit; }
@media (pointer: coarse) {
  .weft-canvas button { min-width: 88px; min-height: 44px; } }`;

function make(parent, tag, className = "", text = "") {
  const element = document.createElement(tag);
  element.className = className;
  element.textContent = text;
  parent.append(element);
  return element;
}

function figure(parent, caption) {
  const element = make(parent, "figure");
  make(element, "figcaption", "", caption);
  return element;
}

/* Return the ink (opacity) of a square canvas, shrunk to side x side. */
function inkOf(sheet, side) {
  const small = document.createElement("canvas");
  small.width = small.height = side;
  const context = small.getContext("2d");
  context.drawImage(sheet, 0, 0, side, side);
  const rgba = context.getImageData(0, 0, side, side).data;
  return Uint8Array.from({ length: side * side }, (_, i) => rgba[4 * i + 3]);
}

/* Return the color of the element's text: red, green and blue, without opacity. */
function inkColour(element) {
  return getComputedStyle(element).color.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/* Paint bytes as opacities of the text's color, each `scale` pixels wide. */
function paint(parent, pixels, width, height, scale) {
  const canvas = make(parent, "canvas", "picture");
  canvas.width = width;
  canvas.height = height;
  canvas.style.width = `${width * scale}px`;
  const colour = inkColour(parent);
  const image = new ImageData(width, height);
  pixels.forEach((value, i) => image.data.set([...colour, value], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/* Return a pen that draws on the sheet, and calls changed() after every move. */
function makePen(sheet, changed) {
  const context = sheet.getContext("2d");
  let from = null; // the pen's last place while it is down
  const to = (x, y) => {
    if (!from) return;
    // The ink is opaque: a translucent stroke would be darker where its pieces meet.
    context.strokeStyle = `rgb(${inkColour(sheet)})`;
    context.lineWidth = PEN * sheet.width;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(x, y);
    context.stroke();
    from = [x, y];
    changed();
  };
  // A tap without a move leaves a dot.
  const down = (x, y) => { from = [x, y]; to(x, y); };
  return { down, to, up() { from = null; }, isDown: () => from !== null };
}

/* Let a finger or mouse move the pen; other fingers do nothing. */
function followPointer(sheet, pen) {
  const at = (event) => {
    const box = sheet.getBoundingClientRect();
    const scale = sheet.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  sheet.addEventListener("pointerdown", (event) => {
    if (event.isPrimary === false) return;
    sheet.setPointerCapture(event.pointerId);
    pen.down(...at(event));
  });
  sheet.addEventListener("pointermove", (event) => {
    if (event.isPrimary !== false && event.buttons !== 0) pen.to(...at(event));
  });
  for (const end of ["pointerup", "pointercancel"])
    sheet.addEventListener(end, (event) => { if (event.isPrimary !== false) pen.up(); });
}

/* Let keys move the pen, mark its place, and describe it with tell(text). */
function followKeys(sheet, pen, mark, { clear, tell }) {
  const place = [CELLS / 2, CELLS / 2]; // column and row of the pen, from 0
  const centre = () => place.map((n) => ((n + 0.5) / CELLS) * sheet.width);
  const show = () => {
    mark.hidden = false;
    mark.className = pen.isDown() ? "mark down" : "mark";
    [mark.style.left, mark.style.top] = place.map((n) => `${(100 * (n + 0.5)) / CELLS}%`);
    tell(`pen ${pen.isDown() ? "down" : "up"}, column ${place[0] + 1}, row ${place[1] + 1}`);
  };
  sheet.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const known = step || event.key === " " || event.key === "c";
    if (!known || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault(); // the page must not scroll
    event.stopPropagation(); // notebooks change cells with these keys
    if (event.key === "c") { pen.up(); clear(); }
    else if (step) {
      const far = event.shiftKey ? FAR : 1;
      for (const axis of [0, 1])
        place[axis] = Math.min(Math.max(place[axis] + far * step[axis], 0), CELLS - 1);
      pen.to(...centre());
    }
    else if (!event.repeat) pen.isDown() ? pen.up() : pen.down(...centre());
    show();
  });
  sheet.addEventListener("blur", () => { pen.up(); mark.hidden = true; });
  sheet.addEventListener("pointerdown", () => { mark.hidden = true; });
}

/* Return a function that calls `work` at most once per `pause` ms, and at the end. */
function throttled(work, pause) {
  let timer = null;
  return () => { timer ??= setTimeout(() => { timer = null; work(); }, pause); };
}

function showProbabilities(parent, probabilities) {
  const best = probabilities.indexOf(Math.max(...probabilities));
  parent.replaceChildren();
  make(parent, "figcaption", "", "probability of each class");
  probabilities.forEach((p, digit) => {
    const bar = make(parent, "div", digit === best && p > 0 ? "bar best" : "bar");
    make(bar, "span", "", digit);
    make(bar, "i").style.width = `${140 * p}px`;
    make(bar, "span", "", `${(100 * p).toFixed(1)} %`);
  });
}

const bytes = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

function render({ model, el }) {
  const root = make(el, "div", "weft-canvas");
  make(root, "style", "", STYLE);
  // Without this attribute, JupyterLab's shortcuts receive the keys.
  root.setAttribute("data-lm-suppress-shortcuts", "true");
  const left = figure(root, "draw a digit here");
  const paper = make(left, "div", "paper");
  const sheet = make(paper, "canvas", "sheet");
  [sheet.width, sheet.height, sheet.tabIndex] = [504, 504, 0];
  sheet.setAttribute("role", "application"); // makes screen readers pass on all keys
  sheet.setAttribute("aria-label", HELP);
  const mark = make(paper, "div", "mark");
  mark.hidden = true;
  const button = make(left, "button", "", "Clear");
  button.type = "button";
  const told = make(left, "div", "told");
  told.setAttribute("role", "status");
  const seen = make(root, "figure");
  const chances = make(root, "figure");
  const layers = make(root, "div", "layers");

  const send = throttled(() => {
    const ink = inkOf(sheet, model.get("side"));
    model.set("strokes", new DataView(ink.buffer));
    model.save_changes();
  }, PAUSE);
  const clear = () => {
    sheet.getContext("2d").clearRect(0, 0, sheet.width, sheet.height);
    send();
  };
  const pen = makePen(sheet, send);
  followPointer(sheet, pen);
  followKeys(sheet, pen, mark, { clear, tell: (text) => { told.textContent = text; } });
  button.addEventListener("click", clear);

  const show = () => {
    const { digit, probabilities, layers: maps } = model.get("reading");
    seen.replaceChildren();
    layers.replaceChildren();
    showProbabilities(chances, probabilities ?? Array(10).fill(0));
    if (!digit) { told.textContent = ""; return; }
    const most = Math.max(...probabilities);
    told.textContent = `read as ${probabilities.indexOf(most)}, `
      + `probability ${(100 * most).toFixed(0)} %`;
    make(seen, "figcaption", "", "the input of the model");
    paint(seen, bytes(digit), 28, 28, 4);
    for (const { name, rows, columns, height, width, pixels } of maps) {
      const caption = `${name}: ${rows * columns} maps of ${height}x${width}`;
      const [w, h] = [columns * (width + 1) - 1, rows * (height + 1) - 1];
      paint(figure(layers, caption), bytes(pixels), w, h, 224 / w);
    }
  };
  model.on("change:reading", show);
  show();
  return () => model.off("change:reading", show);
}

export default { render };
