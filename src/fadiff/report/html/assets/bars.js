/* Where energy and time go, layer by layer: a table whose widest column is drawn. */

const spread = (fill, content) => `color-mix(in oklab, ${fill} ${CONTENTS.get(content).shade}%, var(--surface))`;
const computeLegend = () => computeParts(data.summary.totals).map(([fill, name]) => [fill, name]);
const memoryLegend = () => [...computeLegend(), ...inwards.map(({ name }) => [memoryFill.get(name), name])];
const contentLegend = () => contents.map((content) => [CONTENTS.get(content).fill, CONTENTS.get(content).name]);
const pjOnly = (_, pj) => pj;
const layerCompute = (l) => computeParts(l).map(([fill, name, pj]) => [fill, name, pj * l.repeat]);

/* The shades that tell tensors apart within a memory's colour; tensors of one shade share a name. */
function shadeLegend() {
  const shades = new Map();
  for (const content of contents) {
    const { shade, name } = CONTENTS.get(content);
    shades.set(shade, [...(shades.get(shade) || []), name]);
  }
  return [...shades].map(([shade, names]) => [
    `color-mix(in oklab, var(--soft) ${shade}%, var(--surface))`,
    names.join(", "),
  ]);
}

/* Views of a layer: its parts as [fill, name, value], and how a value is written. */
const VIEWS = {
  both: {
    button: "Energy",
    words: "energy by memory and tensor",
    show: energy,
    total: (l) => l.energy_pj * l.repeat,
    parts: (l) => [
      ...layerCompute(l),
      ...inwards.flatMap(({ name }) => {
        const sums = accessSums(l, (access) => (access.memory === name ? access.content : null), pjOnly);
        return contents
          .filter((content) => sums.has(content))
          .map((content) => [
            spread(memoryFill.get(name), content),
            `${name}, ${CONTENTS.get(content).name}`,
            sums.get(content),
          ]);
      }),
    ],
    legend: () => [...memoryLegend(), ...shadeLegend()],
  },
  memory: {
    button: "by memory",
    words: "energy by memory",
    show: energy,
    total: (l) => l.energy_pj * l.repeat,
    parts: (l) => {
      const sums = accessSums(l, (access) => access.memory, pjOnly);
      return [...layerCompute(l), ...inwards.map(({ name }) => [memoryFill.get(name), name, sums.get(name) || 0])];
    },
    legend: memoryLegend,
  },
  tensor: {
    button: "by tensor",
    words: "energy by tensor",
    show: energy,
    total: (l) => l.energy_pj * l.repeat,
    parts: (l) => [...contentParts(l, (access) => access.content, pjOnly), ...layerCompute(l)],
    legend: () => [...contentLegend(), ...computeLegend()],
  },
  cycles: {
    button: "Cycles",
    words: "cycles by resource",
    show: (v) => count(v) + " cycles",
    total: (l) => l.cycles * l.repeat,
    lanes: true,
    parts: (l) => TERMS.map(([term, fill]) => [fill, term, l.cycles_by_term[term] * l.repeat]),
    legend: () => TERMS.map(([term, fill]) => [fill, term]),
  },
  first: {
    button: first.name,
    words: `${first.name} traffic by tensor`,
    show: bytes,
    total: firstMemoryBytes,
    parts: (l) => contentParts(l, (access) => (access.memory === first.name ? access.content : null), firstBytes),
    legend: contentLegend,
  },
};
function contentParts(layer, key, of) {
  const sums = accessSums(layer, key, of);
  return contents.map((content) => {
    const { fill, name } = CONTENTS.get(content);
    return [fill, name, sums.get(content) || 0];
  });
}

const SHOWN_BARS = 24;
const BAR_NAME = 200;

function layerBars() {
  let view = "both";
  let order = "cost";
  let all = data.layers.length <= SHOWN_BARS + 6;
  const place = h("div");
  const key = h("div");
  const draw = () => {
    const { show, total, parts, lanes, words } = VIEWS[view];
    const sum = data.layers.reduce((a, l) => a + total(l), 0);
    const most = Math.max(...data.layers.map((l) => (lanes ? Math.max(...parts(l).map((p) => p[2])) : total(l)))) || 1;
    let rows = data.execution_order.map((i) => data.layers[i]);
    if (order === "cost") rows.sort((a, b) => b.cost_share - a.cost_share);
    if (order === "largest") rows.sort((a, b) => total(b) - total(a));
    const hidden = all ? 0 : rows.length - SHOWN_BARS;
    if (hidden > 0) rows = rows.slice(0, SHOWN_BARS);
    const made = table(
      [
        { title: "Layer", of: (l) => layerLink(l.name, fitted(l.name, BAR_NAME, "13.5px")), head: true, class: "name" },
        { title: "Group", of: (l) => groupBadge(l.group), class: "optional" },
        {
          title: words[0].toUpperCase() + words.slice(1),
          of: (l) => (lanes ? laneBar(l, parts(l), most) : stackedBar(l, parts(l), most, show)),
          class: "bar",
        },
        { title: "Total", of: (l) => show(total(l)).replace(" cycles", ""), n: true },
        { title: "Share", of: (l) => percent(sum ? total(l) / sum : 0), n: true, class: "optional" },
        { title: "Cost", of: (l) => percent(l.cost_share), n: true },
        { title: "PE use", of: peUse, n: true, class: "optional" },
        { title: "Bound by", of: (l) => bound(l.bound_by), class: "optional" },
      ],
      rows,
      { class: "bars" },
    );
    const more = () => {
      all = true;
      draw();
    };
    place.replaceChildren(
      scrolling(made, "Layers, " + words, "bars-view"),
      hidden > 0
        ? h("p", null, h("button", { type: "button", class: "link", onclick: more }, `Show the other ${hidden} layers`))
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
    note:
      "All repeats of a layer together. Cost: its share of the network's energy and time, the mean of both. PE use: the share of " +
      "multipliers that work while it computes. In the view by cycles, the longest bar of a layer is the one that sets its time.",
    controls: [
      segments(
        "What the bars show",
        Object.entries(VIEWS).map(([name, { button }]) => [name, button]),
        (chosen) => {
          view = chosen;
          draw();
        },
      ),
      segments("Order", { cost: "Costly first", largest: "Longest", execution: "In order" }, (chosen) => {
        order = chosen;
        draw();
      }),
    ],
    body: [key, place],
  });
}

/* The multipliers that work while a layer computes; a tooltip says what the others lack. */
const peUse = (l) =>
  l.macs ? h("span", { class: l.pe_use < 0.5 ? "worse" : null, tip: () => idleWords(l).join("\n") }, percent(l.pe_use)) : "";
const idleWords = (l) => [
  `${percent(l.pe_use)} of the multipliers work while ${cutName(l.name)} computes`,
  ...l.idle.map(([share, sentence]) => `${percent(share)} idle: ${sentence}`),
];

const barSvg = (marks, tip) =>
  s("svg", { viewBox: "0 0 1000 16", preserveAspectRatio: "none", "aria-hidden": "true", tip }, marks);

function stackedBar(layer, parts, most, show) {
  let at = 0;
  const marks = parts
    .filter(([, , value]) => value > 0)
    .map(([fill, , value]) => {
      const x = (1000 * at) / most;
      at += value;
      return s("rect", { x, y: 1, width: (1000 * value) / most, height: 14, style: { fill } });
    });
  const largest = [...parts].sort((a, b) => b[2] - a[2]).filter(([, , value]) => value > 0);
  const say = () =>
    [
      layer.name,
      ...largest.slice(0, 9).map(([, name, value]) => `${name}  ${show(value)}  (${percent(value / at)})`),
    ].join("\n");
  return barSvg(marks, say);
}
function laneBar(layer, parts, most) {
  const tall = 16 / parts.length;
  const marks = parts.map(([fill, , value], i) =>
    s("rect", { x: 0, y: tall * (i + 0.1), width: (1000 * value) / most, height: 0.8 * tall, style: { fill } }),
  );
  const say = () => [layer.name, ...parts.map(([, name, value]) => `${name}  ${count(value)} cycles`)].join("\n");
  return barSvg(marks, say);
}
