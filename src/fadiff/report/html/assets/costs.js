/* Where energy and time go: the whole network in two bars, then layer by layer, roofline and transfers. */

function showCosts() {
  section(
    "costs",
    "Which memory the energy goes to, and which resource sets the time of each layer.",
    h(
      "div",
      { class: "card-block" },
      totalBar("Energy", energyShares()),
      totalBar("Time, by what binds", timeShares()),
    ),
    layerBars(),
    h("div", { class: "pair" }, rooflineFigure(), transferFigure()),
  );
}

const energyShares = () => [
  ...computeParts(data.summary.totals).map((part) => [...part, energy]),
  ...inwards.map(({ name }) => [memoryFill.get(name), name, data.summary.totals.memory_energy_pj[name], energy]),
];
function timeShares() {
  return BINDING.map(([term, fill]) => [
    fill,
    term,
    data.layers.reduce((sum, l) => sum + (l.bound_by === term ? l.cycles * l.repeat : 0), 0),
    (v) => count(v) + " cycles",
  ]);
}

function totalBar(title, parts) {
  const sum = parts.reduce((total, [, , value]) => total + value, 0) || 1;
  return h(
    "div",
    { class: "total" },
    h("h3", null, title),
    h(
      "div",
      { class: "total-bar", "aria-hidden": "true" },
      parts
        .filter(([, , v]) => v > 0)
        .map(([fill, name, value, show]) =>
          h("i", {
            style: { width: (100 * value) / sum + "%", background: fill },
            tip: () => `${name}\n${show(value)}, ${percent(value / sum)}`,
          }),
        ),
    ),
    h(
      "ul",
      { class: "legend" },
      parts.map(([fill, name, value, show]) =>
        h(
          "li",
          { tip: () => `${name}\n${show(value)}` },
          h("span", { class: "swatch", style: { "--fill": fill } }),
          name,
          h("b", null, percent(value / sum)),
        ),
      ),
    ),
  );
}
