// Definitions of terms: a card appears under the mouse, on focus, and on tap.
(() => {
  // The glossary's own headings link to themselves, and need no card.
  const links = document.querySelectorAll("article a[title]:not(.headerlink)");
  const terms = [...links].filter((link) => /glossary\.html#/.test(link.href));
  if (!terms.length) return;
  const card = document.createElement("div");
  Object.assign(card, { className: "definition", hidden: true, id: "definition" });
  card.setAttribute("role", "tooltip");
  document.body.append(card);
  let shown = null, timer = 0, touched = false;

  const place = (link) => {
    const box = link.getClientRects()[0], room = document.documentElement.clientWidth;
    const left = Math.max(12, Math.min(box.left, room - card.offsetWidth - 12));
    const below = box.bottom + card.offsetHeight + 16 < innerHeight;
    const top = below ? box.bottom + 6 : box.top - card.offsetHeight - 6;
    card.style.left = `${left + scrollX}px`;
    card.style.top = `${top + scrollY}px`;
  };
  const show = (link) => {
    clearTimeout(timer);
    shown = link;
    const name = document.createElement("b");
    name.textContent = decodeURIComponent(link.hash.slice(1)).replaceAll("-", " ");
    card.replaceChildren(name, link.dataset.definition);
    if (touched) {
      const more = document.createElement("a");
      Object.assign(more, { href: link.href, textContent: "To the glossary" });
      card.append(document.createElement("br"), more);
    }
    card.hidden = false;
    place(link);
  };
  const hide = () => { shown = null; card.hidden = true; };
  const later = () => { clearTimeout(timer); timer = setTimeout(hide, 150); };

  for (const link of terms) {
    link.classList.add("term");
    link.dataset.definition = link.title;
    // Otherwise the browser shows the title a second time.
    link.removeAttribute("title");
    link.setAttribute("aria-describedby", "definition");
    link.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") { touched = false; show(link); }
    });
    link.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") later();
    });
    link.addEventListener("focus", () => { if (!touched) show(link); });
    link.addEventListener("blur", later);
    link.addEventListener("pointerdown", (event) => {
      touched = event.pointerType !== "mouse";
    });
    link.addEventListener("click", (event) => {
      if (!touched || shown === link) return; // a second tap follows the link
      event.preventDefault();
      show(link);
    });
  }
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") later();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  document.addEventListener("pointerdown", (event) => {
    if (shown && !card.contains(event.target) && event.target !== shown) hide();
  });
})();

// Keys scroll what is wider than its place, also below a fold that opens later.
(() => {
  const wide = new ResizeObserver((entries) => {
    for (const { target } of entries)
      target.tabIndex = target.scrollWidth > target.clientWidth
        || target.scrollHeight > target.clientHeight ? 0 : -1;
  });
  const places = document.querySelectorAll(`.drawing, .formula, .weft-report, pre,
    .weft-sheet dt, .weft-sheet .scroll, .cell_output, .pst-scrollable-table-container,
    article [style*="overflow"]`);
  for (const place of places) wide.observe(place);
})();
