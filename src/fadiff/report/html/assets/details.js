/* The panel of one layer: dims, mapping, tiles, traffic, time, what L2 holds, and its loop nest. */

const DIMS = "GNKCPQRS";
const FIELD_NAMES = {
  l0_weight_fill: "weights into registers",
  l1_update: "partial sums, read and written",
  l1_drain: "outputs read out",
  l1_reload: "spilled sums back",
  l1_addend: "addends written",
  l2_weight_fill: "weights written",
  l2_weight_read: "weights read",
  l2_input_fill: "inputs written",
  l2_input_read: "inputs read",
  l2_output_copy: "fused output written",
  l2_addend_read: "addends read",
  l3_weight: "weights",
  l3_input: "inputs",
  l3_output: "outputs",
  l3_spill: "spilled sums, out and back",
};
let opener = null;
let openLayer = null;

function openDetails(number, from) {
  const layer = data.layers[number];
  if (!layer) return;
  if (from && !byId("details").contains(from)) opener = from;
  openLayer = number;
  document.querySelectorAll(".node.open").forEach((node) => node.classList.remove("open"));
  document.querySelectorAll(`.node[data-layer="${number}"]`).forEach((node) => node.classList.add("open"));
  const panel = byId("details");
  panel.replaceChildren();
  make(panel, null, [detailsHead(layer, number), detailsBody(layer)]);
  panel.hidden = false;
  panel.scrollTop = 0;
  panel.focus();
}

function closeDetails() {
  if (byId("details").hidden) return;
  byId("details").hidden = true;
  document.querySelectorAll(".node.open").forEach((node) => node.classList.remove("open"));
  const node = document.querySelector(`.graph.shown .node[data-layer="${openLayer}"]`);
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
      h(
        "button",
        { type: "button", class: "tool", "aria-label": "Close", title: "Close (Esc)", onclick: closeDetails },
        "✕",
      ),
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
  const nest = data.nests[layer.group];
  const facts = [
    ["Energy", energy(layer.energy_pj)],
    ["Cycles", exact(layer.cycles)],
    ["Bound by", BOUND_NAME[layer.bound_by]],
    layer.macs && ["PEs in use", percent(layer.utilization)],
    layer.macs && ["MACs", exact(layer.macs)],
    [
      "Reads",
      layer.inputs
        .map((i) => (i.from === null ? "network input" : i.from) + (i.port === "weight" ? " (weight)" : ""))
        .join(", "),
    ],
    layer.epilogue.length && ["Then", layer.epilogue.join(", ")],
    ["Stores", `${layer.stored.join(" × ")} (${bytes(layer.stored_words)})`],
  ].filter(Boolean);
  return [
    h(
      "div",
      { class: "facts single" },
      h(
        "dl",
        null,
        facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
      ),
    ),
    layer.repeat > 1 && h("p", { class: "note" }, "Numbers here are of one execution."),
    layer.mapping && [h("h3", null, "Mapping"), scrolling(mappingTable(layer), "Mapping")],
    h("h3", null, "Time: what each resource would need"),
    termBars(layer),
    h("h3", null, `L2 while it runs: ${bytes(layer.l2_bytes)} of ${bytes(data.timeline.l2_capacity_bytes)}`),
    span.l2_parts.length
      ? table(
          [
            { title: "What", of: ([what]) => what, head: true },
            { title: "Size", of: ([, size]) => bytes(size), n: true },
          ],
          l2Rows(span),
          {},
        )
      : h("p", { class: "note" }, "Nothing: its operands stream through L1."),
    layer.tiles && [
      h("h3", null, "Tiles"),
      table(
        [
          { title: "Tile", of: (t) => t[0], head: true },
          { title: "Size", of: (t) => t[1], n: true },
          { title: "Fetched", of: (t) => t[2], n: true },
        ],
        [
          ["weights in L2", bytes(layer.tiles.weight2_words), "× " + exact(layer.tiles.weight_refills)],
          ["inputs in L2", bytes(layer.tiles.input2_words), "× " + exact(layer.tiles.input_refills)],
          ["sums in L1", bytes(layer.tiles.output1_bytes), ""],
        ],
        {},
      ),
    ],
    h("h3", null, "Traffic"),
    trafficTable(layer),
    h("h3", null, "Loop nest"),
    scrolling(nestTable(ofLayer(nest, layer.name)), `Loop nest of ${layer.name}`),
  ];
}

/* What L2 holds, kind by kind; of many layers together where they would make a long list. */
function l2Rows(span) {
  return L2_KINDS.flatMap(([kind]) => {
    const mine = span.l2_parts.filter((part) => part.kind === kind);
    if (mine.length <= 3) return mine.map((part) => [l2Part(part), part.bytes]);
    return [[`${L2_NAME[kind]} of ${mine.length} layers`, mine.reduce((sum, part) => sum + part.bytes, 0)]];
  });
}

function mappingTable(layer) {
  const used = [...DIMS].filter((dim) => (layer.dims[dim] || 1) > 1);
  const rows = [
    ["L3 (DRAM)", "L3"],
    ["L2", "L2"],
    ["L1", "L1"],
    ["L0", "L0"],
    ["array", "spatial"],
  ];
  return table(
    [
      { title: "Level", of: ([name]) => name, head: true },
      ...used.map((dim) => ({
        title: dim,
        of: ([, key]) => {
          const factor = layer.mapping[key][dim] || 1;
          return factor > 1 ? String(factor) : h("span", { class: "unit" }, "·");
        },
        n: true,
      })),
      {
        title: "Order",
        of: ([, key]) =>
          layer.mapping.order[key]
            ? h(
                "code",
                null,
                [...layer.mapping.order[key]].filter((dim) => (layer.mapping[key][dim] || 1) > 1).join(" ") || "",
              )
            : "",
      },
    ],
    rows,
    {},
  );
}

function termBars(layer) {
  const most = Math.max(...TERMS.map(([key]) => layer.cycles_by_term[key])) || 1;
  return table(
    [
      { title: "Resource", of: ([, name]) => name, head: true },
      {
        title: "",
        of: ([key, , fill]) =>
          s(
            "svg",
            { viewBox: "0 0 1000 16", preserveAspectRatio: "none", "aria-hidden": "true" },
            s("rect", { y: 3, width: (1000 * layer.cycles_by_term[key]) / most, height: 10, style: { fill } }),
          ),
        class: "bar",
      },
      { title: "Cycles", of: ([key]) => count(layer.cycles_by_term[key]), n: true },
    ],
    TERMS,
    { class: "bars" },
  );
}

function trafficTable(layer) {
  const rows = ["l3_", "l2_", "l1_", "l0_"].flatMap((prefix) =>
    Object.entries(layer.words)
      .filter(([field, n]) => field.startsWith(prefix) && n)
      .map(([field, n]) => [
        prefix === "l3_" ? "DRAM" : prefix.slice(0, 2).toUpperCase(),
        FIELD_NAMES[field] || field,
        n,
      ]),
  );
  return table(
    [
      { title: "Level", of: (r) => r[0], head: true },
      { title: "What", of: (r) => r[1] },
      { title: "Words", of: (r) => exact(r[2]), n: true },
    ],
    rows,
    {},
  );
}
