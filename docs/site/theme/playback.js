// Answers a widget's requests from recorded pictures, in place of its kernel.

/* A model with the interface of anywidget's. answer(message): called for each request. */
function makeModel(values, answer) {
  const listeners = {};
  const emit = (name, ...rest) =>
    (listeners[name] ?? []).forEach((listener) => listener(...rest));
  return {
    get: (name) => values[name],
    set: (name, value) => { values[name] = value; },
    save_changes() {},
    send: (message) => answer(message, emit),
    on: (name, listener) => { (listeners[name] ??= []).push(listener); },
    off: (name) => { delete listeners[name]; },
    emit,
  };
}

/* Return the pixels of an image that has loaded. */
function readImage(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  return context;
}

/* Play a painting. Between two recorded pictures, it shows their mixture. */
async function playPaint(widget, values, host) {
  const image = host.querySelector("img");
  await image.decode();
  const context = readImage(image);
  const { width, height, frames, columns, seconds } = values;
  const frame = (number) => context.getImageData((number % columns) * width,
    Math.floor(number / columns) * height, width, height).data;

  function at(t) {
    const place = Math.min((t / seconds) * (frames - 1), frames - 1);
    const [first, part] = [Math.floor(place), place % 1];
    const pixels = frame(first);
    if (!part) return pixels;
    const next = frame(first + 1);
    return pixels.map((value, i) => value + part * (next[i] - value));
  }
  const note = `: ${frames} recorded pictures`;
  const model = makeModel({ ...values, first: at(values.t) }, (message, emit) => {
    const { view, t } = message;
    setTimeout(() => emit("msg:custom", { kind: "frame", view, t, note }, [at(t)]));
  });
  image.remove();
  widget.render({ model, el: host });
}

/* Show the readings of recorded digits, one for each button. */
async function playCanvas(widget, values, host) {
  const image = host.querySelector("img");
  await image.decode();
  const context = readImage(image);
  const { layers, probabilities } = values;
  const height = image.naturalHeight / probabilities.length;
  const cut = (left, top, w, h) => {
    const rgba = context.getImageData(left, top, w, h).data;
    return Uint8Array.from({ length: w * h }, (_, i) => rgba[4 * i]);
  };

  function read(number) {
    const maps = [];
    let left = 28;
    for (const layer of layers) {
      const w = layer.columns * (layer.width + 1) - 1;
      const h = layer.rows * (layer.height + 1) - 1;
      maps.push({ ...layer, pixels: cut(left, number * height, w, h) });
      left += w;
    }
    const digit = cut(0, number * height, 28, 28);
    return { digit, probabilities: probabilities[number], layers: maps };
  }
  const model = makeModel({ ...values, reading: read(7) });
  const row = document.createElement("div");
  row.className = "digits";
  row.append("recorded digits ");
  probabilities.forEach((_, number) => {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: number });
    button.setAttribute("aria-label", `a digit ${number}`);
    button.addEventListener("click", () => {
      model.set("reading", read(number));
      model.emit("change:reading");
    });
    row.append(button);
  });
  image.replaceWith(row);
  widget.render({ model, el: host });
}
