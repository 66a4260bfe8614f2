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
/* What binds, by time; where computing does, apart what multiplies and what lanes without work take. */
function timeShares() {
  const cycles = (v) => count(v) + " cycles";
  const sum = (term, of) => data.layers.reduce((all, l) => all + (l.bound_by === term ? of(l) * l.repeat : 0), 0);
  return BINDING.flatMap(([term, fill]) =>
    term === data.terms[0]
      ? [
          [fill, "multiplying", sum(term, (l) => l.cycles * l.utilization), cycles],
          [IDLE_FILL, "lanes without work", sum(term, (l) => l.cycles * (1 - l.utilization)), cycles],
        ]
      : [[fill, term, sum(term, (l) => l.cycles), cycles]],
  );
}
const IDLE_FILL = "color-mix(in oklab, var(--mac) 35%, var(--surface))";

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
