(() => {
  // Add sliders and a full-screen button to a still picture in an output.
  const story = STORY;
  const style = `
    :host { display: block; position: relative; max-width: 920px; color: inherit }
    .picture { overflow-x: auto }
    .row { display: flex; flex-wrap: wrap; align-items: center; gap: 8px;
           margin: 4px 0 0 20px; font: 13px ui-sans-serif, system-ui, sans-serif;
           position: sticky; left: 20px; max-width: calc(100vw - 52px) }
    .row > span { min-width: 64px }
    input { flex: 1 1 90px; min-width: 0; max-width: 300px; accent-color: #0072B2 }
    button { font: inherit; color: inherit; background: none; cursor: pointer;
             border: 1px solid currentColor; border-radius: 4px; width: 28px;
             height: 24px; opacity: .75; padding: 0 }
    button:focus-visible, input:focus-visible, .picture:focus-visible { outline: 2px solid #0072B2 }
    output { min-width: 160px }
    .full { position: absolute; top: 0; right: 0; opacity: 0 }
    :host(:hover) .full, .full:focus-visible { opacity: 1 }
    @media (hover: none) { .full { opacity: .75 } }
    :host(:fullscreen) { max-width: none; overflow: auto; padding: 12px;
                         box-sizing: border-box }
    :host(:fullscreen) .picture svg {
      display: block; width: 100% !important; height: auto !important;
      max-height: calc(100vh - ROWSpx) }
    @media (pointer: coarse) {
      button { width: 44px } button, input { height: 44px }
      .row > span { min-width: 0 }
      output { flex-basis: 100% }
    }`;

  const corners = '<svg viewBox="0 0 16 16" width="14" fill="none" ' +
    'stroke="currentColor" stroke-width="2"><path d="M2 6V2h4M10 2h4v4M14 10v4h-4' +
    'M6 14H2v-4"/></svg>';

  const element = (name, properties = {}) =>
    Object.assign(document.createElement(name), properties);

  const pictureIn = (image) => {
    const bytes = atob(image.src.split(",")[1]);
    const text = new TextDecoder().decode(
      Uint8Array.from(bytes, (letter) => letter.charCodeAt(0)));
    const holder = element("div", { innerHTML: text });
    // Remove the style of the picture's background; the page has its own.
    holder.querySelector("style").remove();
    holder.className = "picture";
    const svg = holder.querySelector("svg");
    svg.setAttribute("width", image.getAttribute("width"));
    svg.removeAttribute("height");
    svg.style.cssText = image.style.cssText;
    // Only a picture wider than the page takes the focus, since arrow keys scroll it.
    new ResizeObserver(() => {
      holder.tabIndex = holder.scrollWidth > holder.clientWidth ? 0 : -1;
    }).observe(holder);
    return holder;
  };

  const slider = ([name, stops], number, at, show) => {
    const row = element("div", { className: "row" });
    const range = element("input",
      { type: "range", min: 0, max: stops.length - 1, value: at[number] });
    const value = element("output");
    range.setAttribute("aria-label", name);
    value.setAttribute("aria-live", "off"); // only the slider announces its value
    const tell = () => {
      value.textContent = stops[at[number]];
      range.setAttribute("aria-valuetext", stops[at[number]]);
    };
    const go = (stop) => {
      at[number] = Math.max(0, Math.min(stops.length - 1, stop));
      range.value = at[number];
      tell();
      show();
    };
    const step = (text, by) => {
      const button = element("button", { textContent: text, type: "button" });
      button.setAttribute("aria-label", name + (by < 0 ? " back" : " forward"));
      button.onclick = () => go(at[number] + by);
      return button;
    };
    range.oninput = () => go(Number(range.value));
    row.append(element("span", { textContent: name }), step("‹", -1), range,
      step("›", 1), value);
    row.onkeydown = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by) { event.preventDefault(); event.stopPropagation(); go(at[number] + by); }
    };
    tell();
    return row;
  };

  // The page behind a full screen is hidden, so the picture takes over its colour.
  const groundOf = (node) => {
    for (; node; node = node.parentElement ?? node.getRootNode().host) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/^transparent$|, 0\)$/.test(colour)) return colour;
    }
    return "Canvas";
  };

  const fullScreen = (host) => {
    const button = element("button",
      { className: "full", innerHTML: corners, type: "button", title: "full screen" });
    button.setAttribute("aria-label", "full screen");
    button.onclick = () => {
      if (document.fullscreenElement) return document.exitFullscreen();
      host.style.backgroundColor = groundOf(host.parentElement);
      return host.requestFullscreen();
    };
    return button;
  };

  // The same output may appear on the page several times: each gets its own sliders.
  for (const host of document.querySelectorAll('[data-weft="MARK"]')) {
    if (host.shadowRoot || !host.querySelector("img")) continue;
    // With this attribute, arrow keys move the sliders.
    host.setAttribute("data-lm-suppress-shortcuts", "true");
    const picture = pictureIn(host.querySelector("img"));
    const root = host.attachShadow({ mode: "open" });
    const at = [...story.start];
    const now = picture.querySelector("g.now");
    const show = () => {
      const parts = story.frames[at.join(",")] ?? [];
      now.innerHTML = parts.map((part) => story.parts[part]).join("");
    };
    const moving = story.sliders.filter((one) => one[1].length > 1);
    // Pixels below a full-screen picture.
    const rows = String(40 + 32 * moving.length);
    root.append(element("style", { textContent: style.replace("ROWS", rows) }), picture);
    story.sliders.forEach((one, number) => {
      if (one[1].length > 1) root.append(slider(one, number, at, show));
    });
    if (document.fullscreenEnabled) root.append(fullScreen(host));
  }
})();
