/* The panel of one layer: dims, mapping, tiles, traffic, time, what memories hold, and its loop nest. */

const DIMS = "GNKCPQRS";
let opener = null;
let openLayer = null;

function openDetails(number, from) {
  const layer = data.layers[number];
  if (!layer) return;
  if (from && !byId("details").contains(from)) opener = from;
  openLayer = number;
  document.querySelectorAll(".node.open").forEach((node) => node.classList.remove("open"));
  document.querySelectorAll(nodeOf(number)).forEach((node) => node.classList.add("open"));
  showPanel([detailsHead(layer, number), detailsBody(layer)]);
}

/* A box of the graph: the layer that it stands for, or a list of its layers. */
const LISTED = 300;
function openNode(number, from) {
  const members = data.nodes[number];
  if (members.length === 1) return openDetails(members[0], from);
  opener = from;
  openLayer = members[0];
  const layers = members.map((n) => data.layers[n]);
  const sum = (of) => layers.reduce((total, layer) => total + of(layer) * layer.repeat, 0);
  const facts = [
    ["Energy", energy(sum((l) => l.energy_pj))],
    ["Cycles", exact(sum((l) => l.cycles))],
    ["Kinds", plural(new Set(layers.map((l) => l.alike)).size, "different layer")],
  ];
  const more = layers.length - LISTED;
  showPanel([
    h("header", null, h("div", { class: "nav" }, closeButton()), h("h2", { id: "details-title" }, plural(layers.length, "layer"))),
    h("div", { class: "facts single" }, h("div", null, factList(null, facts))),
    table(
      [
        { title: "Layer", of: (l) => layerLink(l.name), head: true },
        { title: "Shape", of: (l) => l.shape },
        { title: "Energy", of: (l) => energy(l.energy_pj * l.repeat), n: true },
        { title: "Cycles", of: (l) => count(l.cycles * l.repeat), n: true },
      ],
      layers.slice(0, LISTED),
      {},
    ),
    more > 0 && h("p", { class: "note" }, `And ${exact(more)} more: the table of layers has all of them.`),
  ]);
}

function showPanel(content) {
  const panel = byId("details");
  panel.replaceChildren();
  make(panel, null, content);
  panel.hidden = false;
  panel.scrollTop = 0;
  panel.focus();
}
const closeButton = () =>
  h("button", { type: "button", class: "tool", "aria-label": "Close", title: "Close (Esc)", onclick: closeDetails }, "✕");

function closeDetails() {
  if (byId("details").hidden) return;
  byId("details").hidden = true;
  document.querySelectorAll(".node.open").forEach((node) => node.classList.remove("open"));
  const node = document.querySelector(".graph.shown " + nodeOf(openLayer));
  const back = opener && opener.isConnected ? opener : node;
  if (back && back.closest(".graph")) {
    document
      .querySelectorAll(".graph.shown .node[tabindex='0']")
      .forEach((other) => other.setAttribute("tabindex", -1));
    node.setAttribute("tabindex", 0);
    node.focus();
  } else if (back) back.focus();
  opener = null;
}

function detailsHead(layer, number) {
  const at = data.execution_order.indexOf(number);
  const go = (label, sign, place) =>
    h(
      "button",
      {
        type: "button",
        class: "tool",
        "aria-label": label,
        title: label,
        disabled: data.execution_order[place] === undefined,
        onclick: (event) => openDetails(data.execution_order[place], event.currentTarget),
      },
      sign,
    );
  return h(
    "header",
    null,
    h(
      "div",
      { class: "nav" },
      go("Previous layer", "←", at - 1),
      go("Next layer", "→", at + 1),
      closeButton(),
    ),
    h("h2", { id: "details-title" }, layer.name),
    h(
      "div",
      { class: "row" },
      groupBadge(layer.group),
      layer.kind === "mac" ? layer.shape : "sum, " + layer.shape,
      layer.repeat > 1 && `runs ${layer.repeat} times`,
    ),
  );
}

function detailsBody(layer) {
  const span = data.timeline.groups[layer.group].spans.find((one) => one.layer === layer.name);
  const { lines, like } = nestOf(layer);
  const tiles = lines.filter((line) => line.layer && line.tile_bytes !== null);
  const facts = [
    ["Energy", energy(layer.energy_pj)],
    ["Cycles", exact(layer.cycles)],
    ["Bound by", layer.bound_by],
    ["Cost", `${percent(layer.cost_share)} of the network's energy and time`],
    layer.macs && ["MACs in use", percent(layer.utilization)],
    layer.macs && ["While computing", `${percent(layer.pe_use)} of the multipliers work`],
    ...layer.idle.map(([share, sentence], i) => [i ? "" : "Idle", `${percent(share)}: ${sentence}`]),
    layer.macs && ["MACs", exact(layer.macs)],
    ["Reads", readsOf(layer)],
    layer.epilogue.length && ["Then", layer.epilogue.join(", ")],
    ["Stores", `${layer.stored.join(" × ")} (${bytes(layer.stored_bytes)})`],
  ].filter(Boolean);
  return [
    h("div", { class: "facts single" }, h("div", null, factList(null, facts))),
    layer.repeat > 1 && h("p", { class: "note" }, "Numbers here are of one execution."),
    layer.mapping && [h("h3", null, "Mapping"), scrolling(mappingTable(layer), "Mapping")],
    h("h3", null, "Time: what each resource would need"),
    termBars(layer),
    h("h3", null, "Memories while it runs"),
    scrolling(heldTable(span), "Memories while it runs"),
    tiles.length > 0 && [
      h("h3", null, "Tiles"),
      table(
        [
          { title: "Tile", of: (line) => `${line.tensor} in ${line.node}`, head: true },
          { title: "Size", of: (line) => bytes(line.tile_bytes), n: true },
          { title: "Instances", of: (line) => exact(line.instances), n: true },
          { title: "Moved", of: (line) => "× " + exact(line.times), n: true },
        ],
        tiles,
        {},
      ),
    ],
    h("h3", null, "Traffic"),
    trafficTable(layer),
    h("h3", null, "Loop nest"),
    like && h("p", { class: "note" }, "That of ", layerLink(like), ", which differs in names alone."),
    lines.length ? scrolling(nestTable(lines), `Loop nest of ${layer.name}`) : h("p", { class: "note" }, NEST_LEFT_OUT),
  ];
}

/* What each memory holds, kind by kind; of many layers together where they would make a long list. */
function heldTable(span) {
  const rows = onChip.flatMap((memory) => {
    const whole = [memory, "", `${bytes(span.bytes[memory])} of ${bytes(data.timeline.capacity_bytes[memory])}`];
    const parts = HELD.flatMap((what) => {
      const mine = span.held[memory].filter(isHeld(what));
      if (mine.length <= 3) return mine.map((part) => ["", heldPart(part), bytes(part.bytes)]);
      return [["", `${what.many} of ${mine.length} layers`, bytes(mine.reduce((sum, part) => sum + part.bytes, 0))]];
    });
    return [whole, ...parts];
  });
  return table(
    [
      { title: "Memory", of: ([memory]) => memory, head: true },
      { title: "What", of: ([, what]) => what },
      { title: "Size", of: ([, , size]) => size, n: true },
    ],
    rows,
    {},
  );
}

function mappingTable(layer) {
  const used = [...DIMS].filter((dim) => (layer.dims[dim] || 1) > 1);
  const rows = data.machine.nodes.map(({ name, memory }, i) => ({
    name: memory ? name : `${name} (lanes)`,
    factors: layer.mapping.factors[i],
    order: memory ? layer.mapping.orders[memoryNumber.get(name)] : "",
  }));
  return table(
    [
      { title: "Node", of: (row) => row.name, head: true },
      ...used.map((dim) => ({
        title: dim,
        of: ({ factors }) => (factors[dim] > 1 ? String(factors[dim]) : h("span", { class: "unit" }, "·")),
        n: true,
      })),
      {
        title: "Order",
        of: ({ order, factors }) => h("code", null, [...order].filter((dim) => factors[dim] > 1).join(" ")),
      },
    ],
    rows,
    {},
  );
}

function termBars(layer) {
  const most = Math.max(...TERMS.map(([term]) => layer.cycles_by_term[term])) || 1;
  return table(
    [
      { title: "Resource", of: ([term]) => term, head: true, class: "resource" },
      {
        title: "",
        of: ([term, fill]) =>
          barSvg(s("rect", { y: 3, width: (1000 * layer.cycles_by_term[term]) / most, height: 10, style: { fill } })),
        class: "bar",
      },
      { title: "Cycles", of: ([term]) => count(layer.cycles_by_term[term]), n: true },
    ],
    TERMS,
    { class: "bars" },
  );
}

function trafficTable(layer) {
  const end = ({ action, other }) => `${action === "read" ? "to" : "from"} ${other === null ? "the MACs" : other}`;
  const rows = memories.flatMap(({ name }) =>
    layer.accesses
      .map(([i, words]) => ({ ...data.accesses[i], words }))
      .filter((access) => access.memory === name)
      .map((access, i) => ({ ...access, head: i ? "" : name })),
  );
  return table(
    [
      { title: "Memory", of: (a) => a.head, head: true },
      { title: "What", of: (a) => `${a.action}s ${CONTENTS.get(a.content).name} ${end(a)}` },
      { title: "Words", of: (a) => exact(a.words), n: true },
    ],
    rows,
    {},
  );
}
