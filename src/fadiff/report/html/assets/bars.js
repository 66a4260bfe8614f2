/* Where energy and time go, layer by layer: a table whose widest column is drawn. */

const LEVELS = [
  ["mac", "MACs", "var(--mac)"],
  ["l0", "L0 registers", "var(--l0)"],
  ["l1", "L1 accumulator", "var(--l1)"],
  ["l2", "L2 scratchpad", "var(--l2)"],
  ["l3", "DRAM", "var(--l3)"],
];
const TENSORS = [
  ["weight", "weights", "var(--weight)"],
  ["input", "inputs", "var(--input)"],
  ["output", "outputs", "var(--output)"],
  ["sums", "partial sums", "var(--sums)"],
  ["mac", "MACs", "var(--mac)"],
];
const TENSOR_NAME = Object.fromEntries(TENSORS.map(([key, name]) => [key, name]));
const SHADES = { weight: 100, input: 78, output: 56, sums: 38, mac: 100 };
const shade = (level, tensor) => `color-mix(in oklab, var(--${level}) ${SHADES[tensor]}%, var(--surface))`;
const TERMS = [
  ["compute", "compute", "var(--mac)"],
  ["l1", "L1", "var(--l1)"],
  ["l2", "L2", "var(--l2)"],
  ["l3", "DRAM", "var(--l3)"],
];

/* Views of a layer: its parts as [fill, name, value], and how a value is written. */
const VIEWS = {
  both: {
    words: "energy by level and tensor",
    show: energy,
    total: (l) => l.energy_pj * l.repeat,
    parts: (l) =>
      l.energy_parts.map(([level, tensor, pj]) => [
        shade(level, tensor),
        level === "mac" ? "MACs" : `${levelName(level)}, ${TENSOR_NAME[tensor]}`,
        pj * l.repeat,
      ]),
    legend: () => [
      ...LEVELS.map(([, name, fill]) => [fill, name]),
      ...TENSORS.slice(0, 4).map(([key, name]) => [
        `color-mix(in oklab, var(--soft) ${SHADES[key]}%, var(--surface))`,
        name,
      ]),
    ],
  },
  level: {
    words: "energy by level",
    show: energy,
    total: (l) => l.energy_pj * l.repeat,
    parts: (l) => summed(l, 0, LEVELS),
    legend: () => LEVELS.map(([, name, fill]) => [fill, name]),
  },
  tensor: {
    words: "energy by tensor",
    show: energy,
    total: (l) => l.energy_pj * l.repeat,
    parts: (l) => summed(l, 1, TENSORS),
    legend: () => TENSORS.map(([, name, fill]) => [fill, name]),
  },
  cycles: {
    words: "cycles by resource",
    show: (v) => count(v) + " cycles",
    total: (l) => l.cycles * l.repeat,
    lanes: true,
    parts: (l) => TERMS.map(([key, name, fill]) => [fill, name, l.cycles_by_term[key] * l.repeat]),
    legend: () => TERMS.map(([, name, fill]) => [fill, name]),
  },
  dram: {
    words: "DRAM traffic by tensor",
    show: bytes,
    total: l3Words,
    parts: (l) =>
      [
        ["l3_weight", "weight"],
        ["l3_input", "input"],
        ["l3_output", "output"],
        ["l3_spill", "sums"],
      ].map(([field, tensor]) => [`var(--${tensor})`, TENSOR_NAME[tensor], (l.words[field] || 0) * l.repeat]),
    legend: () => TENSORS.slice(0, 4).map(([, name, fill]) => [fill, name]),
  },
};
const levelName = (level) => LEVELS.find(([key]) => key === level)[1];
function summed(layer, at, kinds) {
  return kinds.map(([key, name, fill]) => [
    fill,
    name,
    layer.repeat * layer.energy_parts.reduce((sum, part) => sum + (part[at] === key ? part[2] : 0), 0),
  ]);
}

const SHOWN_BARS = 24;
const BAR_NAME = 200;

function layerBars() {
  let view = "both";
  let order = "largest";
  let all = data.layers.length <= SHOWN_BARS + 6;
  const place = h("div");
  const key = h("div");
  const { fontWeight, fontFamily } = getComputedStyle(document.body);
  const font = { fontWeight, fontFamily, fontSize: "13.5px" };
  const draw = () => {
    const { show, total, parts, lanes, words } = VIEWS[view];
    const sum = data.layers.reduce((a, l) => a + total(l), 0);
    const most = Math.max(...data.layers.map((l) => (lanes ? Math.max(...parts(l).map((p) => p[2])) : total(l)))) || 1;
    let rows = data.execution_order.map((i) => data.layers[i]);
    if (order === "largest") rows = [...rows].sort((a, b) => total(b) - total(a));
    const hidden = all ? 0 : rows.length - SHOWN_BARS;
    if (hidden > 0) rows = rows.slice(0, SHOWN_BARS);
    const made = table(
      [
        { title: "Layer", of: (l) => layerLink(l.name, shortened(l.name, BAR_NAME, font)), head: true, class: "name" },
        { title: "Group", of: (l) => groupBadge(l.group), class: "optional" },
        {
          title: words[0].toUpperCase() + words.slice(1),
          of: (l) => (lanes ? laneBar(l, parts(l), most) : stackedBar(l, parts(l), most, show)),
          class: "bar",
        },
        { title: "Total", of: (l) => show(total(l)).replace(" cycles", ""), n: true },
        { title: "Share", of: (l) => percent(sum ? total(l) / sum : 0), n: true, class: "optional" },
        { title: "Bound by", of: (l) => bound(l.bound_by), class: "optional" },
      ],
      rows,
      { class: "bars" },
    );
    place.replaceChildren(
      scrolling(made, "Layers, " + words, "bars-view"),
      hidden > 0
        ? h(
            "p",
            null,
            h(
              "button",
              {
                type: "button",
                class: "link",
                onclick: () => {
                  all = true;
                  draw();
                },
              },
              `Show the other ${hidden} layers`,
            ),
          )
        : "",
    );
    key.replaceChildren(legend(VIEWS[view].legend()));
  };
  addEventListener("beforeprint", () => {
    all = true;
    draw();
  });
  draw();
  return figure({
    title: "Layer by layer",
    note: "All repeats of a layer together. In the view by cycles, the longest bar of a layer is the one that sets its time.",
    controls: [
      segments(
        "What the bars show",
        [
          ["both", "Energy"],
          ["level", "by level"],
          ["tensor", "by tensor"],
          ["cycles", "Cycles"],
          ["dram", "DRAM"],
        ],
        view,
        (chosen) => {
          view = chosen;
          draw();
        },
      ),
      segments(
        "Order",
        [
          ["largest", "Largest first"],
          ["execution", "In order"],
        ],
        order,
        (chosen) => {
          order = chosen;
          draw();
        },
      ),
    ],
    body: [key, place],
  });
}

function stackedBar(layer, parts, most, show) {
  let at = 0;
  const marks = parts
    .filter(([, , value]) => value > 0)
    .map(([fill, , value]) => {
      const mark = s("rect", {
        x: (1000 * at) / most,
        y: 1,
        width: (1000 * value) / most,
        height: 14,
        style: { fill },
      });
      at += value;
      return mark;
    });
  const largest = [...parts].sort((a, b) => b[2] - a[2]).filter(([, , value]) => value > 0);
  const say = () =>
    [
      layer.name,
      ...largest.slice(0, 9).map(([, name, value]) => `${name}  ${show(value)}  (${percent(value / at)})`),
    ].join("\n");
  return s("svg", { viewBox: "0 0 1000 16", preserveAspectRatio: "none", "aria-hidden": "true", tip: say }, marks);
}
function laneBar(layer, parts, most) {
  const marks = parts.map(([fill, , value], i) =>
    s("rect", { x: 0, y: 4 * i + 0.4, width: (1000 * value) / most, height: 3.2, style: { fill } }),
  );
  const say = () => [layer.name, ...parts.map(([, name, value]) => `${name}  ${count(value)} cycles`)].join("\n");
  return s("svg", { viewBox: "0 0 1000 16", preserveAspectRatio: "none", "aria-hidden": "true", tip: say }, marks);
}
