// Packs the blocks of a lesson into slides, then starts reveal.js.
//
// Blocks are measured, then cut into slides where the sum of penalties is least: for
// each slide, for empty space, for small pictures, and for cuts between what belongs
// together. Pictures grow or shrink to the room that is left.
(() => {
  const WIDTH = 1168, GAP = 14; // pixels: a slide's body, and the gap between blocks
  const SMALLEST = 0.75, LEGIBLE = 1.1, LARGEST = 1.5; // zoom of a picture, of a table
  const SPARSE = 0.45; // a slide filled less than this grows its text

  const element = (name, className = "") =>
    Object.assign(document.createElement(name), { className });

  const slides = document.querySelector(".slides");
  const stage = element("div", "reveal");
  stage.id = "stage";
  document.body.append(stage);

  const makePage = (header) => {
    const section = element("section"), page = element("div", "page");
    const body = element("div", "body");
    if (header) page.append(header.cloneNode(true));
    page.append(body);
    section.append(page);
    return { section, page, body };
  };

  // ---- measuring --------------------------------------------------------------------

  const isPicture = (block) => block.classList.contains("picture");

  const findLeast = (block) => {
    if (!isPicture(block) || block.classList.contains("guess")) return 1;
    return block.querySelector("svg, img, canvas, [data-weft]") ? SMALLEST : LEGIBLE;
  };

  const measure = (block) => {
    const box = block.getBoundingClientRect();
    const inner = isPicture(block) ? Math.max(box.width, block.scrollWidth) : box.width;
    const fit = Math.min(1, WIDTH / inner); // a wide picture shrinks
    return {
      block, width: inner, height: box.height * fit, fit,
      least: box.height * Math.min(fit * findLeast(block), WIDTH / inner),
      below: block.hasAttribute("data-below"), first: block.hasAttribute("data-first"),
      note: block.matches("aside"), code: block.classList.contains("code"),
      text: block.classList.contains("text"),
      colon: /:$/.test(block.textContent.trim()), file: block.querySelector(".file"),
    };
  };

  // The parts of a block that is too tall: list items, rows, or the children of a report.
  const divide = (block) => {
    const shells = [];
    let inner = block;
    while (inner.children.length === 1 && !/^(pre|svg|table)$/i.test(inner.tagName)) {
      inner = inner.children[0];
      shells.push(inner.cloneNode(false));
    }
    if (block.querySelector("script, [data-weft], button, input") ||
      /^(pre|svg)$/i.test(inner.tagName)) return [block];
    const table = inner.tagName === "TABLE";
    const rows = table ? [...inner.querySelectorAll("tr")] : [...inner.children];
    if (rows.length < 2) return [block];
    const wrap = (parts) => {
      const outer = block.cloneNode(false);
      let last = outer;
      for (const shell of shells) {
        const copy = shell.cloneNode(false);
        last.append(copy);
        last = copy;
      }
      last.append(...parts);
      return outer;
    };
    if (!table) return rows.map((row) => wrap([row]));
    const head = rows[0], some = Math.ceil(rows.length / 2);
    return [wrap(rows.slice(0, some)),
      wrap([head.cloneNode(true), ...rows.slice(some)])];
  };

  const measureAll = (blocks, room) => { // the stage contains all blocks
    const found = [];
    for (const block of blocks) {
      const one = measure(block);
      const parts = one.least > room && !one.note ? divide(block) : [block];
      if (parts.length > 1) {
        block.replaceWith(...parts);
        found.push(...measureAll(parts, room));
      } else { // a picture in one piece may shrink further
        if (isPicture(block)) one.least = Math.min(one.least, room);
        found.push(one);
      }
    }
    return found;
  };

  // ---- packing ----------------------------------------------------------------------

  const sum = (items, key) => {
    const seen = items.filter((one) => !one.note);
    return seen.reduce((total, one) => total + one[key], GAP * Math.max(0, seen.length - 1));
  };

  const rateCut = (last, next) => {
    if (!next || next.first) return 0;
    if (next.note) return 1000; // a note stays on the slide of its text,
    if (last.file) return 500; // and a file's name on that of its lines
    if (next.below) return 45;
    if (last.colon) return 45;
    return last.text && !next.text ? 22 : last.text ? 12 : 0;
  };

  const rateSlide = (items, room) => {
    const least = sum(items, "least"), whole = sum(items, "height");
    const seen = items.filter((one) => !one.note).length;
    if (least > room && seen > 1) return Infinity;
    const empty = Math.max(0, 1 - whole / room);
    return 60 + 50 * empty ** 2 + 60 * Math.max(0, whole / room - 1);
  };

  const pack = (items, room) => {
    const best = [{ cost: 0, from: -1 }];
    for (let end = 1; end <= items.length; end++) {
      best[end] = { cost: Infinity, from: end - 1 };
      for (let from = end - 1; from >= 0; from--) {
        if (items.slice(from + 1, end).some((one) => one.first)) break;
        const slide = rateSlide(items.slice(from, end), room);
        if (slide === Infinity) break;
        const cut = rateCut(items[end - 1], items[end]);
        const cost = best[from].cost + slide + cut;
        if (cost < best[end].cost) best[end] = { cost, from };
      }
    }
    const pages = [];
    for (let end = items.length; end > 0; end = best[end].from)
      pages.unshift(items.slice(best[end].from, end));
    return pages;
  };

  const fit = (items, room, page) => {
    const pictures = items.filter((one) => isPicture(one.block));
    const spare = room - sum(items, "height");
    const drawn = pictures.reduce((total, one) => total + one.height, 0);
    for (const one of pictures) {
      const share = (drawn + spare) / drawn;
      const zoom = Math.min(LARGEST, one.fit * share, WIDTH / one.width);
      if (Math.abs(zoom - 1) > 0.01) one.block.style.zoom = zoom.toFixed(3);
    }
    const texts = items.every((one) => one.text || one.note);
    if (texts && sum(items, "height") < SPARSE * room) page.classList.add("sparse");
    const [only, another] = items.filter((one) => !one.note);
    if (only && !another && only.height > room && !isPicture(only.block))
      only.block.classList.add("tall");
  };

  // A slide has one note, which collects those of its blocks.
  const moveNotes = (section, body) => {
    const notes = [...body.querySelectorAll("aside.notes")];
    if (!notes.length) return;
    const all = element("aside", "notes");
    for (const note of notes) { all.append(...note.childNodes); note.remove(); }
    section.append(all);
  };

  const buildFlow = (flow) => {
    const header = flow.querySelector(":scope > header");
    const blocks = [...flow.children].filter((one) => one !== header);
    const trial = makePage(header);
    stage.replaceChildren(trial.section);
    const room = trial.body.clientHeight;
    trial.body.append(...blocks);
    const items = measureAll(blocks, room);
    return pack(items, room).map((taken, number) => {
      const { section, page, body } = makePage(header);
      body.append(...taken.map((one) => one.block));
      fit(taken, room, page);
      moveNotes(section, body);
      section.id = number ? `${flow.id}-${number + 1}` : flow.id;
      return section;
    });
  };

  const buildPlain = (flow) => {
    const { section, body } = makePage();
    section.className = flow.className;
    body.append(...flow.childNodes);
    moveNotes(section, body);
    stage.replaceChildren(section);
    const fitting = body.clientHeight / body.scrollHeight;
    if (fitting < 1) body.style.zoom = (0.98 * fitting).toFixed(3);
    return [section];
  };

  const build = () => {
    const flows = [...slides.children];
    for (const flow of flows) flow.remove();
    let column = null;
    for (const flow of flows) {
      const made = flow.classList.contains("flow") ? buildFlow(flow) : buildPlain(flow);
      for (const section of made) section.dataset.kind = flow.dataset.kind;
      const name = `${flow.dataset.kind} ${flow.dataset.column}`;
      if (column?.dataset.name !== name) {
        column = element("section", "column");
        column.dataset.name = name;
        slides.append(column);
      }
      column.append(...made);
    }
    stage.remove();
  };

  // ---- the deck ---------------------------------------------------------------------

  const setDark = (dark) => document.documentElement.classList.toggle("dark", dark);

  const walk = () => {
    const now = Reveal.getCurrentSlide();
    for (const pre of now?.querySelectorAll("pre") ?? [])
      pre.classList.toggle("walking", Boolean(pre.querySelector(".walk.visible")));
  };

  const start = () => {
    build();
    const pages = [...slides.querySelectorAll("section > .page")];
    const core = pages.filter((page) => page.parentElement.dataset.kind === "core");
    const number = (slide) => {
      const at = pages.indexOf(slide?.querySelector(":scope > .page")) + 1;
      return at > core.length ? [`+${at - core.length}`] : [at, "/", core.length];
    };
    return Reveal.initialize({
      width: 1280, height: 720, margin: 0, minScale: 0.1, maxScale: 4, center: false,
      hash: true, transition: "none", backgroundTransition: "none",
      navigationMode: "linear", slideNumber: number, plugins: [RevealNotes],
      pdfSeparateFragments: false, scrollActivationWidth: 0,
      keyboard: { 68: () => setDark(!document.documentElement.classList.contains("dark")) },
    });
  };

  const prefers = matchMedia("(prefers-color-scheme: dark)");
  setDark(prefers.matches);
  prefers.addEventListener("change", (event) => setDark(event.matches));
  window.addEventListener("load", async () => {
    await document.fonts?.ready;
    await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
    await new Promise((done) => setTimeout(done)); // widgets draw decoded pictures only
    await start();
    Reveal.registerKeyboardShortcut("D", "Dark or light");
    for (const event of ["fragmentshown", "fragmenthidden", "slidechanged"])
      Reveal.on(event, walk);
    document.documentElement.dataset.ready = "true";
  });
})();
