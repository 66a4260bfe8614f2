/* Building the page: elements from plain values (text is always text, never markup), figures, tables, controls. */

const byId = (id) => document.getElementById(id);

function make(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "tip") tips.set(element, value);
    else if (name === "style" && typeof value === "object")
      for (const [key, set] of Object.entries(value)) element.style.setProperty(key, set);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}
const h = (tag, attributes, ...children) => make(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/* A drawing that fits its place; `about` is for those who cannot see it. */
const drawing = (width, height, about, ...children) =>
  s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": about }, ...children);
const text = (x, y, words, attributes) => s("text", { x, y, ...attributes }, words);

/* Columns: {title, of(row), n: numbers, head: names the row, told: say the title where rows are stacked}. */
function table(columns, rows, attributes) {
  const cell = (column, row) =>
    h(
      column.head ? "th" : "td",
      {
        "data-title": column.told && column.title,
        class: [column.n && "n", column.class].filter(Boolean).join(" ") || null,
        scope: column.head && "row",
      },
      column.of(row),
    );
  return h(
    "table",
    attributes,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        columns.map((c) =>
          h("th", { scope: "col", class: [c.n && "n", c.class].filter(Boolean).join(" ") || null }, c.title),
        ),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          { class: row.rowClass },
          columns.map((c) => cell(c, row)),
        ),
      ),
    ),
  );
}
/* A place that scrolls can be reached by keyboard. */
const scrolling = (inside, label, kind) =>
  h("div", { class: "scroll" + (kind ? " " + kind : ""), tabindex: 0, role: "region", "aria-label": label }, inside);

/* The numbers behind a chart, built when someone asks for them. */
function dataTable(label, build, words = "Data table") {
  const box = h("details", { class: "data" }, h("summary", null, words));
  box.addEventListener("toggle", () => {
    if (box.open && box.children.length === 1) box.append(scrolling(build(), label + ", as a table"));
  });
  return box;
}

function figure({ title, note, controls, body, legend, data }) {
  const head = h(
    "div",
    { class: "figure-head" },
    h("div", null, h("h3", null, title), note && h("p", null, note)),
    controls && h("div", { class: "controls" }, controls),
  );
  return h("figure", { class: "chart", "aria-label": title }, head, body, legend, data);
}

/* Draws anew when its place gets another width. */
function responsive(draw) {
  const host = h("div", { class: "host" });
  let last = 0;
  const go = () => {
    const width = Math.round(host.clientWidth);
    if (width && width !== last) {
      last = width;
      host.replaceChildren(draw(width));
    }
  };
  new ResizeObserver(go).observe(host);
  return {
    host,
    redraw: () => {
      last = 0;
      go();
    },
  };
}

/* Buttons of which one is pressed, at first the first; `pick` is told which. Choices are {key: words}, or pairs. */
function segments(label, choices, pick) {
  const pairs = Array.isArray(choices) ? choices : Object.entries(choices);
  const buttons = pairs.map(([key, words], first) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(first === 0),
        onclick: () => {
          buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(pairs[i][0] === key)));
          pick(key);
        },
      },
      words,
    ),
  );
  return h("span", { class: "segments", role: "group", "aria-label": label }, buttons);
}
function selection(label, choices, pick) {
  return h(
    "label",
    null,
    label,
    h(
      "select",
      { onchange: (event) => pick(event.target.value) },
      choices.map(([key, words]) => h("option", { value: key }, words)),
    ),
  );
}

/* Items are [fill, words], or [fill, words, mark of 14 by 14]. */
const legend = (items) =>
  h(
    "ul",
    { class: "legend" },
    items.map(([fill, words, mark]) =>
      h(
        "li",
        null,
        mark
          ? s("svg", { viewBox: "0 0 14 14", "aria-hidden": "true", style: { fill } }, mark)
          : h("span", { class: "swatch", style: { "--fill": fill } }),
        words,
      ),
    ),
  );

function section(id, lead, ...children) {
  const place = byId(id);
  place.hidden = false;
  make(place, null, [h("h2", null, place.dataset.title), lead && h("p", { class: "lead" }, lead), children]);
}
