/* Summary: five numbers against its rivals, the schedule in words, and what it was made for and by. */

function showSummary() {
  const { summary } = data;
  const rivals = [["this one", summary.totals], ...summary.rivals];
  const numbers = () =>
    table(
      [
        { title: "Schedule", of: ([name]) => name, head: true },
        { title: "Energy", of: ([, t]) => energy(t.energy_pj), n: true },
        { title: "Latency", of: ([, t]) => exact(t.cycles) + " cycles", n: true },
        { title: "EDP, µJ·cycles", of: ([, t]) => edp(t.edp_uj_cycles), n: true },
        ...(summary.totals.at_clock ? CLOCKED : []),
        { title: `${first.name} traffic`, of: ([, t]) => bytes(t.first_memory_bytes), n: true },
        { title: "MAC utilization", of: ([, t]) => percent(t.utilization), n: true },
      ],
      rivals,
      { class: "wide" },
    );
  const cards = [
    ["Energy", (t) => t.energy_pj, energyParts],
    ["Latency", (t) => t.cycles, (v) => [...countParts(v).slice(0, 1), countParts(v)[1] + " cycles"]],
    ["EDP, µJ·cycles", (t) => t.edp_uj_cycles, (v) => [edp(v, 3), ""]],
    [`${first.name} traffic`, (t) => t.first_memory_bytes, byteParts],
    ["MAC utilization", (t) => t.utilization, (v) => [(100 * v).toFixed(1), "%"]],
  ].map(([title, of, parts]) => card(title, of, parts, rivals));
  const made = summary.made_by;
  section(
    "summary",
    null,
    summary.sentences.map((sentence) => h("p", { class: "short" }, sentence)),
    h("ul", { class: "cards" }, cards),
    h(
      "div",
      { class: "card-block" },
      h(
        "div",
        { class: "facts" },
        h("div", null, factList("Network", summary.facts.network), factList("Made by", summary.facts.maker)),
        h(
          "div",
          null,
          factList("Machine", summary.facts.machine),
          scrolling(machineTable(summary.nodes), "Nodes of the machine"),
        ),
      ),
      summary.asked && askedOf(summary.asked),
      made.command && h("p", { class: "command" }, made.command),
      dataTable("Against its rivals", numbers, "Table of totals"),
    ),
  );
}

/* The constraints under which the schedule was made, and what each costs where that was priced. */
const askedOf = ({ constraints, priced, more }) => [
  h("h3", null, "Asked of it"),
  scrolling(
    table(
      [
        { title: "Constraint", of: (one) => one.constraint, head: true },
        ...(priced ? [{ title: "Costs at least", of: (one) => percent(one.cost), n: true }] : []),
      ],
      constraints,
      { class: "wide" },
    ),
    "Constraints",
  ),
  more > 0 && h("p", null, `And ${exact(more)} more: fadiff evaluate lists them all.`),
];

/* Columns of a machine that states its clock. */
const CLOCKED = [
  { title: "ms", of: ([, t]) => significant(t.at_clock.latency_ms), n: true },
  { title: "Inferences/s", of: ([, t]) => significant(t.at_clock.inferences_per_second), n: true },
  { title: "W", of: ([, t]) => significant(t.at_clock.average_power_w), n: true },
  { title: "TOPS/W", of: ([, t]) => significant(t.at_clock.tops_per_w), n: true },
];

const factList = (title, facts) => [
  title && h("h3", null, title),
  h(
    "dl",
    null,
    facts.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  ),
];

/* The nodes from the outermost memory to the multipliers, in the colours that they have on the page. */
function machineTable(nodes) {
  const fill = { memory: (node) => memoryFill.get(node.name), macs: () => "var(--mac)" };
  const named = (node) =>
    node.kind === "axis" ? h("span", { class: "axis" }, node.name) : bound(node.name, fill[node.kind](node));
  return table(
    [
      { title: "Node", of: named, head: true },
      { title: "Instances", of: (node) => (node.kind === "axis" ? "" : exact(node.instances)), n: true },
      { title: "Keeps, or unrolls", of: (node) => node.holds },
      { title: "Capacity", of: (node) => node.capacity, n: true },
      { title: "Word", of: (node) => node.word, n: true, class: "optional" },
      { title: "Words a cycle", of: (node) => node.rate, n: true },
      { title: "pJ", of: (node) => node.energy, n: true },
    ],
    nodes,
    { class: "wide machine" },
  );
}

function card(title, of, parts, rivals) {
  const mine = of(rivals[0][1]);
  const most = Math.max(...rivals.map(([, totals]) => of(totals))) || 1;
  const share = title === "MAC utilization";
  const shown = (value) => parts(value).join(share ? "" : " ");
  return h(
    "li",
    { class: "card" },
    h("h3", null, title),
    h("p", { class: "figure" }, parts(mine)[0], h("span", { class: "unit" }, parts(mine)[1])),
    (rivals.length > 1 ? rivals : []).map(([name, totals], i) => {
      const value = of(totals);
      const ratio = i && mine && !share ? "×" + significant(value / mine, 3) : "";
      return h(
        "div",
        { class: i ? "rival" : "rival self", tip: () => `${name}\n${title}: ${shown(value)}` },
        h("div", { class: "words" }, h("span", null, name), h("span", null, ratio || shown(value))),
        h("div", { class: "track", "aria-hidden": "true" }, h("i", { style: { width: (100 * value) / most + "%" } })),
      );
    }),
  );
}

function showColophon() {
  const missing = [
    !data.search && "--trace FILE adds the search",
    !data.compare && "--compare FILE adds another schedule",
  ].filter(Boolean);
  const about = `All numbers follow from the schedule file and the cost model of FADiff ${data.version}`;
  make(byId("colophon"), null, [
    h("p", null, `${about}: 1 KB = 1024 bytes, EDP = energy in µJ × latency in cycles.`),
    missing.length > 0 && h("p", null, `fadiff report: ${missing.join(", ")}.`),
  ]);
}
