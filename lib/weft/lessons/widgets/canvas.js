// The drawing canvas of canvas.py: it sends strokes, and receives readings.
//
//   strokes   (side * side) bytes, 0 to 255: the ink, row by row
//   reading   {digit (28 * 28 bytes), probabilities (10 numbers), layers: [{name,
//             rows, columns, height, width, pixels (bytes)}]}; {} for a blank sheet
//
// Pictures are painted in the text's color on a transparent background, so that they
// suit light and dark pages.

const PEN = 0.085; // pen width over the sheet's width: about 2 of MNIST's 28 pixels
const PAUSE = 150; // ms between two readings while a stroke is drawn

const STYLE = `
.weft-canvas { display: flex; flex-wrap: wrap; gap: 20px; align-items: flex-start;
  font: 13px system-ui, sans-serif; }
.weft-canvas canvas { border: 1px solid #8888; border-radius: 4px; display: block; }
.weft-canvas .sheet { width: 252px; height: 252px; touch-action: none;
  cursor: crosshair; }
.weft-canvas .picture { image-rendering: pixelated; }
.weft-canvas figure { margin: 0; }
.weft-canvas figcaption { margin: 0 0 4px; }
.weft-canvas .layers { display: flex; flex-wrap: wrap; gap: 14px; }
.weft-canvas .bar { display: grid; grid-template-columns: 1em 140px max-content; gap: 8px;
  align-items: center; height: 24px; white-space: nowrap; }
.weft-canvas .bar i { display: block; height: 14px; background: #0072B240;
  outline: 1.5px solid #0072B2; width: 0; }
.weft-canvas .bar.best { font-weight: bold; }
.weft-canvas button { margin-top: 8px; font: inherit; }`;

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

/* Let a pen, finger or mouse draw on the sheet; call changed() after every move. */
function draws(sheet, changed) {
  const context = sheet.getContext("2d");
  let from = null;
  const at = (event) => {
    const box = sheet.getBoundingClientRect();
    const scale = sheet.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };
  sheet.addEventListener("pointerdown", (event) => {
    sheet.setPointerCapture(event.pointerId);
    from = at(event);
    line(event); // a mere tap leaves a dot
  });
  sheet.addEventListener("pointermove", line);
  for (const end of ["pointerup", "pointercancel"])
    sheet.addEventListener(end, () => { from = null; });

  function line(event) {
    if (!from) return;
    const to = at(event);
    // Opaque, since a translucent stroke would be darker where its pieces meet.
    context.strokeStyle = `rgb(${inkColour(sheet)})`;
    context.lineWidth = PEN * sheet.width;
    context.lineCap = context.lineJoin = "round";
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(...to);
    context.stroke();
    from = to;
    changed();
  }
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
  const left = figure(root, "draw a digit here");
  const sheet = make(left, "canvas", "sheet");
  sheet.width = sheet.height = 504;
  const clear = make(left, "button", "", "Clear");
  const seen = make(root, "figure");
  const chances = make(root, "figure");
  const layers = make(root, "div", "layers");

  const send = throttled(() => {
    const ink = inkOf(sheet, model.get("side"));
    model.set("strokes", new DataView(ink.buffer));
    model.save_changes();
  }, PAUSE);
  draws(sheet, send);
  clear.addEventListener("click", () => {
    sheet.getContext("2d").clearRect(0, 0, sheet.width, sheet.height);
    send();
  });

  const show = () => {
    const { digit, probabilities, layers: maps } = model.get("reading");
    seen.replaceChildren();
    layers.replaceChildren();
    showProbabilities(chances, probabilities ?? Array(10).fill(0));
    if (!digit) return;
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
