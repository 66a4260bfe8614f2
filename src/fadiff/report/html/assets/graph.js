/* The network: which of its pictures is shown, zoom and pan, colours, and moving about by keyboard. */

const NARROW = 640;
const SMALL = 0.62;
const TINY = 0.34;

function startGraph() {
  const view = byId("graph-view");
  const pictures = Object.fromEntries(
    ["wide", "narrow", "whole"].map((kind) => [kind, view.querySelector(".graph." + kind)]),
  );
  let shown = null;
  let scale = 1;

  const size = (picture) => [Number(picture.dataset.width), Number(picture.dataset.height)];
  const room = () => [view.clientWidth - 14, view.clientHeight - 4];
  const setScale = (wanted) => {
    const [width, height] = size(shown);
    const middle = (view.scrollLeft + view.clientWidth / 2) / (width * scale);
    const centre = (view.scrollTop + view.clientHeight / 2) / (height * scale);
    scale = Math.min(3, Math.max(0.08, wanted));
    shown.style.width = width * scale + "px";
    shown.style.height = height * scale + "px";
    const small = shown.classList.contains("small");
    if (shown.classList.toggle("small", scale < SMALL) !== small) fitNames(shown);
    shown.classList.toggle("tiny", scale < TINY);
    view.scrollLeft = middle * width * scale - view.clientWidth / 2;
    view.scrollTop = centre * height * scale - view.clientHeight / 2;
  };
  const show = (picture) => {
    if (picture === shown) return;
    for (const other of Object.values(pictures)) if (other) other.classList.toggle("shown", other === picture);
    shown = picture;
    scale = 1;
    view.scrollTo(0, 0);
  };
  const onPhone = () => view.clientWidth < NARROW;
  const fitWidth = () => {
    show(onPhone() ? pictures.narrow : pictures.wide);
    setScale(Math.min(1.15, room()[0] / size(shown)[0]));
  };
  const fitAll = () => {
    show(onPhone() ? pictures.narrow : pictures.whole || pictures.wide);
    const [width, height] = size(shown);
    const most = Math.min(760, 0.78 * innerHeight) - 4;
    setScale(Math.min(1.15, room()[0] / width, most / height));
    view.scrollTo(0, 0);
  };
  for (const picture of Object.values(pictures)) if (picture) fitNames(picture);
  let fit = pictures.whole && !onPhone() ? fitAll : fitWidth;
  const choose = () => (fit || (onPhone() !== (shown === pictures.narrow) ? fitWidth : () => {}))();
  choose();
  let last = view.clientWidth;
  new ResizeObserver(() => {
    if (view.clientWidth && Math.abs(view.clientWidth - last) > 20) {
      last = view.clientWidth;
      choose();
    }
  }).observe(view);

  const zoom = (factor) => {
    fit = null;
    setScale(scale * factor);
  };
  const refit = (kind) => {
    fit = kind;
    fit();
  };
  const button = (words, label, act) =>
    h("button", { type: "button", "aria-label": label, title: label, onclick: act }, words);
  byId("graph-controls").append(
    h(
      "span",
      { class: "segments", role: "group", "aria-label": "Zoom" },
      button("−", "Zoom out", () => zoom(1 / 1.3)),
      button("+", "Zoom in", () => zoom(1.3)),
      button("Fit width", "Fit the width", () => refit(fitWidth)),
      button("Fit all", "Fit the whole graph", () => refit(fitAll)),
    ),
    selection(
      "Colour",
      [
        ["group", "fusion group"],
        ["energy", "energy"],
        ["cycles", "time"],
        ["first", `${first.name} traffic`],
        ["bound", "what binds"],
      ],
      paint,
    ),
  );
  make(byId("graph-legend"), null, [
    h("span", { class: "item" }, h("span", { class: "stroke", style: { "--fill": "var(--chip)" } }), "kept on chip"),
    h(
      "span",
      { class: "item" },
      h("span", { class: "stroke", style: { "--fill": "var(--away)" } }),
      `through ${first.name}`,
    ),
    h("span", { class: "item" }, "Wide lines are large tensors. Arrow keys move, Enter opens a layer."),
    data.nodes.length < data.layers.length &&
      h("span", { class: "item" }, "A box with another behind it stands for many layers: open it for their list."),
  ]);
  byId("graph-legend").after(dataTable("Layers", layerTable, "Table of layers"), edgeTable());
  for (const picture of Object.values(pictures)) if (picture) equip(picture);
  startPanning(view, zoom);
}

/* The box of each layer, and all boxes in execution order. */
const boxOf = new Map(data.nodes.flatMap((members, node) => members.map((n) => [n, node])));
const nodeOrder = [...new Set(data.execution_order.map((n) => boxOf.get(n)))];
const nodeOf = (layer) => `.node[data-node="${boxOf.get(layer)}"]`;

function equip(picture) {
  const nodes = [...picture.querySelectorAll(".node")];
  nodes.forEach((node) => {
    tips.set(node, () => nodeTip(data.nodes[node.dataset.node]));
  });
  picture.querySelectorAll(".edge").forEach((element) => {
    const edge = data.edges[element.dataset.edge];
    const where =
      (edge.fused ? "kept on chip" : `through ${first.name}`) + (edge.port === "input" ? "" : `, as ${edge.port}`);
    const more = element.dataset.more ? `, and ${plural(Number(element.dataset.more), "more tensor")}` : "";
    tips.set(element, () => `${cutName(edge.source)} → ${cutName(edge.target)}\n${bytes(edge.bytes)} ${where}${more}`);
  });
  const open = (node) => openNode(Number(node.dataset.node), node);
  picture.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (node && !picture.parentElement.classList.contains("dragged")) open(node);
  });
  picture.addEventListener("keydown", (event) => {
    const node = event.target.closest(".node");
    if (!node) return;
    if (event.key === "Enter" || event.key === " ") open(node);
    else {
      const next = neighbour(nodes, node, event.key);
      if (!next) return;
      node.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    }
    event.preventDefault();
  });
}

/* Left and right follow the execution order, up and down go to the nearest layer there. */
function neighbour(nodes, node, key) {
  const at = nodeOrder.indexOf(Number(node.dataset.node));
  const along = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: nodeOrder.length - 1 }[key];
  if (along !== undefined) return nodes[nodeOrder[along]];
  if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
  const [x, y] = middle(node);
  const ways = nodes
    .map((other) => [other, ...middle(other)])
    .filter(([, , otherY]) => (key === "ArrowDown" ? otherY > y + 8 : otherY < y - 8))
    .map(([other, otherX, otherY]) => [other, Math.abs(otherY - y) * 4 + Math.abs(otherX - x)]);
  return ways.length ? ways.reduce((best, way) => (way[1] < best[1] ? way : best))[0] : undefined;
}
function middle(node) {
  const box = node.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
}

function nodeTip(members) {
  const layer = data.layers[members[0]];
  if (members.length > 1)
    return `${plural(members.length, "layer")}\n${cutName(layer.name)} … ${cutName(data.layers[members.at(-1)].name)}`;
  const alone = data.groups[layer.group].layers.length === 1;
  return [
    layer.name,
    layer.kind === "mac" ? layer.shape : "sum, " + layer.shape,
    `${alone ? "on its own" : "group " + (layer.group + 1)}, bound by ${layer.bound_by}`,
    `${energy(layer.energy_pj * layer.repeat)}, ${count(layer.cycles * layer.repeat)} cycles, ${bytes(firstMemoryBytes(layer))} ${first.name}`,
  ].join("\n");
}

/* Colours the layers by a number of theirs, light to dark, or back by group. */
function paint(by) {
  const value = { energy: (l) => l.energy_pj * l.repeat, cycles: (l) => l.cycles * l.repeat, first: firstMemoryBytes }[
    by
  ];
  const most = value ? Math.max(...data.layers.map(value)) || 1 : 1;
  const mean = (layers) => layers.reduce((sum, layer) => sum + value(layer), 0) / layers.length;
  document.querySelectorAll(".graph .node").forEach((node) => {
    const layers = data.nodes[node.dataset.node].map((n) => data.layers[n]);
    node.style.removeProperty("--fill");
    node.style.setProperty("--text", by === "group" ? "" : "var(--ink)");
    if (value) {
      const share = Math.sqrt(mean(layers) / most);
      node.style.setProperty("--fill", `color-mix(in oklab, var(--away) ${Math.round(72 * share)}%, var(--surface))`);
    } else if (by === "bound")
      node.style.setProperty("--fill", `color-mix(in oklab, ${termFill.get(layers[0].bound_by)} 45%, var(--surface))`);
  });
}

function startPanning(view, zoom) {
  let from = null;
  view.addEventListener("pointerdown", (event) => {
    view.classList.remove("dragged");
    if (event.pointerType === "mouse" && event.button === 0)
      from = [event.clientX, event.clientY, view.scrollLeft, view.scrollTop];
  });
  addEventListener("pointermove", (event) => {
    if (!from) return;
    const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
    if (Math.hypot(dx, dy) > 4) view.classList.add("dragging", "dragged");
    view.scrollLeft = from[2] - dx;
    view.scrollTop = from[3] - dy;
  });
  addEventListener("pointerup", () => {
    from = null;
    view.classList.remove("dragging");
  });
  view.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.12 : 1 / 1.12);
    },
    { passive: false },
  );
}

const layerTable = () =>
  table(
    [
      { title: "Layer", of: (l) => layerLink(l.name), head: true },
      { title: "Group", of: (l) => String(l.group + 1), n: true },
      { title: "Shape", of: (l) => l.shape },
      {
        title: "Reads",
        of: readsOf,
      },
      { title: "MACs", of: (l) => count(l.macs * l.repeat), n: true },
      { title: "Energy", of: (l) => energy(l.energy_pj * l.repeat), n: true },
      { title: "Cycles", of: (l) => count(l.cycles * l.repeat), n: true },
      { title: "Cost", of: (l) => percent(l.cost_share), n: true },
      { title: "PE use", of: peUse, n: true },
      { title: "Bound by", of: (l) => bound(l.bound_by) },
    ],
    data.execution_order.map((i) => data.layers[i]),
    { class: "wide" },
  );
const edgeTable = () =>
  dataTable(
    "Tensors between layers",
    () =>
      table(
        [
          { title: "From", of: (e) => cutName(e.source), head: true },
          { title: "To", of: (e) => cutName(e.target) },
          { title: "Port", of: (e) => e.port },
          { title: "Size", of: (e) => bytes(e.bytes), n: true },
          { title: "Where", of: (e) => (e.fused ? "kept on chip" : `through ${first.name}`) },
        ],
        data.edges,
        { class: "wide" },
      ),
    "Table of tensors",
  );
