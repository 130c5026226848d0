// The moving silk of the front page, and the three places of its kernel to click.
//
// shadeRow repeats the kernel's arithmetic in the browser; a test compares it with the
// kernel's own picture. The reports come from the lab, which ran each variant without
// its guard when the page was made. FACTS holds them, and the choices.

const weftSilk = {
  /* Paint a row of pixels: the body of the kernel, for one `row` and every `step`-th
   * column. `pixels` receives four bytes per column. */
  shadeRow(pixels, row, { width, height, step, t, a, green, blue }) {
    const shade = (v) => 255 * (0.5 + 0.5 * Math.sin(v));
    for (let col = 0, at = 0; col < width; col += step, at += 4) {
      let x = 4 * col / width - 2, y = 4 * row / height - 2;
      for (let i = 1; i < 8; i++) {
        x += a / i * Math.sin(1.5 * i * y + t);
        y += a / i * Math.cos(1.5 * i * x + t);
      }
      pixels[at] = shade(x);
      pixels[at + 1] = shade(x + green);
      pixels[at + 2] = shade(x + blue);
      pixels[at + 3] = 255;
    }
  },

  /* Return the picture as bytes, one pixel for each `step` in both directions. */
  frame(choice) {
    const across = Math.ceil(choice.width / choice.step);
    const down = Math.ceil(choice.height / choice.step);
    const bytes = new Uint8ClampedArray(4 * across * down);
    for (let line = 0; line < down; line++) {
      const part = bytes.subarray(4 * across * line, 4 * across * (line + 1));
      weftSilk.shadeRow(part, line * choice.step, choice);
    }
    return { bytes, across, down };
  },
};

function startSilk(root, facts) {
  const find = (selector) => root.querySelector(selector);
  const { width, height, block, constants, colours, faults } = facts;
  const canvas = find("canvas"), box = find(".box"), numbers = find(".numbers");
  const report = find(".report"), play = find(".play");
  const high = block * Math.ceil(height / block); // the rows of all threads
  const slow = 24; // milliseconds; a slower page paints fewer pixels
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  let constant = 0, colour = 0, guarded = true, playing = !calm;
  let t = facts.moment, step = 1, late = 0, last = performance.now(), seen = true;
  let pointed = "";

  function paint() {
    const [green, blue] = colours[colour].map(parseFloat);
    const a = parseFloat(constants[constant]);
    const start = performance.now();
    const picture = weftSilk.frame({ width, height, step, t, a, green, blue });
    [canvas.width, canvas.height] = [picture.across, picture.down];
    canvas.getContext("2d").putImageData(
      new ImageData(picture.bytes, picture.across, picture.down), 0, 0);
    late = performance.now() - start > slow ? late + 1 : 0;
    if (late > 3 && step < 4) [step, late] = [2 * step, 0];
  }

  function tick(now) {
    if (seen && playing && guarded && !document.hidden) {
      t = (t + Math.min(now - last, 100) / 1000) % (2 * Math.PI);
      paint();
    }
    last = now;
    requestAnimationFrame(tick);
  }

  /* Frame a block, which may be partly outside the picture. */
  function frame([x, y]) {
    box.hidden = false;
    box.style.left = `${100 * x * block / width}%`;
    box.style.top = `${100 * y * block / high}%`;
    box.style.width = `${100 * block / width}%`;
    box.style.height = `${100 * block / high}%`;
  }

  function show() {
    find(".spot.constant").textContent = `a = ${constants[constant]}`;
    const [green, blue] = colours[colour];
    find(".spot.colour").textContent =
      `shade(x), shade(x + ${green}), shade(x + ${blue})`;
    find("[data-change=constant] b").textContent = constants[constant];
    find("[data-change=colour] b").textContent = `${green}, ${blue}`;
    for (const guard of root.querySelectorAll("[data-change=guard]"))
      guard.setAttribute("aria-pressed", String(!guarded));
    find(".spot.guard").classList.toggle("removed", !guarded);
    find(".choices [data-change=guard]").textContent =
      guarded ? "Remove the guard" : "Put the guard back";
    root.classList.toggle("faulty", !guarded);
    report.hidden = guarded;
    play.disabled = !guarded;
    play.textContent = playing && guarded ? "Pause" : "Play";
    box.hidden = true;
    if (!guarded) {
      const fault = faults[constant][colour];
      find(".report .page").innerHTML = fault.page;
      frame(fault.block);
    }
    tell();
  }

  function tell() {
    const threads = Math.ceil(width / block) * block * high;
    const fault = faults[constant][colour];
    numbers.textContent = !guarded
      ? `Stopped: thread (${fault.thread.slice(0, 2)}) of block `
        + `(${fault.block.slice(0, 2)}) has no pixel.`
      : pointed || `${threads.toLocaleString("en-US")} threads, `
        + `${(width * height).toLocaleString("en-US")} pixels`;
  }

  const changes = {
    constant() { constant = (constant + 1) % constants.length; },
    colour() { colour = (colour + 1) % colours.length; },
    guard() { guarded = !guarded; },
  };
  for (const spot of root.querySelectorAll("[data-change]"))
    spot.addEventListener("click", () => {
      changes[spot.dataset.change]();
      paint();
      show();
    });
  play.addEventListener("click", () => { playing = !playing; show(); });
  canvas.addEventListener("pointermove", (event) => {
    if (!guarded) return;
    const at = canvas.getBoundingClientRect();
    const col = Math.floor((event.clientX - at.left) / at.width * width);
    const row = Math.floor((event.clientY - at.top) / at.height * height);
    const [x, y] = [Math.floor(col / block), Math.floor(row / block)];
    frame([x, y]);
    pointed = `col ${col}, row ${row}: blockIdx (${x},${y}), `
      + `threadIdx (${col % block},${row % block})`;
    tell();
  });
  canvas.addEventListener("pointerleave", () => {
    pointed = "";
    if (guarded) box.hidden = true;
    tell();
  });
  new IntersectionObserver(([entry]) => { seen = entry.isIntersecting; })
    .observe(canvas);
  root.classList.add("live");
  paint();
  show();
  requestAnimationFrame(tick);
}
