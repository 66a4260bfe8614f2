/* Two schedules of one network: what differs, the most important first. */

const TOTAL_NAMES = {
  energy_pj: ["Energy", energy],
  cycles: ["Latency", (v) => count(v) + " cycles"],
  edp_uj_cycles: ["EDP", edp],
  first_memory_bytes: [`${first.name} traffic`, bytes],
  utilization: ["MAC utilization", percent],
  groups: ["Groups", exact],
  fused_edges: ["Tensors kept on chip", exact],
};
const HIGHER_IS_BETTER = new Set(["utilization", "fused_edges"]);

function showCompare() {
  const { compare } = data;
  if (!compare) return;
  const same = !compare.layers.length && !compare.groups.length && !compare.machine.length;
  section(
    "compare",
    stopped(compare.summary),
    h(
      "div",
      { class: "card-block" },
      h("h3", null, "Totals"),
      h("p", { class: "note" }, `Other: ${compare.before}. This one: ${compare.after}.`),
      scrolling(
        changes(compare.totals, (c) => (TOTAL_NAMES[c.name] ? TOTAL_NAMES[c.name][0] : c.name), compare),
        "Totals",
      ),
      compare.machine.length > 0 && [
        h("h3", { class: "later" }, "The machines differ"),
        scrolling(
          changes(compare.machine, (c) => c.name, compare),
          "Machines",
        ),
      ],
    ),
    !same && compare.layers.length > 0 && layerChanges(compare),
    !same && compare.groups.length > 0 && groupChanges(compare),
  );
}

function changes(list, name, compare) {
  const shown = (c, value) =>
    TOTAL_NAMES[c.name]
      ? TOTAL_NAMES[c.name][1](value)
      : typeof value === "number"
        ? significant(value, 4)
        : value === null
          ? "—"
          : String(value);
  const good = (c) => (HIGHER_IS_BETTER.has(c.name) ? c.ratio > 1 : c.ratio < 1);
  return table(
    [
      { title: "", of: name, head: true },
      { title: "Other", of: (c) => shown(c, c.before), n: true },
      { title: "This one", of: (c) => shown(c, c.after), n: true },
      {
        title: "Change",
        of: (c) =>
          c.ratio === null || c.ratio === 1
            ? ""
            : h(
                "span",
                { class: c.name === "groups" || !TOTAL_NAMES[c.name] ? null : good(c) ? "better" : "worse" },
                change(c.ratio - 1),
              ),
        n: true,
      },
    ],
    list,
    { class: "totals" },
  );
}

function layerChanges(compare) {
  const most = Math.max(...compare.layers.map((l) => Math.abs(l.edp_share))) || 1;
  const bar = (l) => {
    const wide = (240 * Math.abs(l.edp_share)) / most;
    return s(
      "svg",
      {
        viewBox: "0 0 500 18",
        preserveAspectRatio: "none",
        "aria-hidden": "true",
        tip: () => `${l.layer}\nadds ${change(l.edp_share)} to the EDP`,
      },
      s("rect", {
        x: l.edp_share < 0 ? 250 - wide : 250,
        y: 3,
        width: wide,
        height: 12,
        style: { fill: l.edp_share < 0 ? "var(--better)" : "var(--worse)" },
      }),
      s("rect", { x: 249.2, y: 0, width: 1.6, height: 18, style: { fill: "var(--strong-rule)" } }),
    );
  };
  const versus = (before, after, show) => (before === after ? show(after) : `${show(before)} → ${show(after)}`);
  return h(
    "div",
    { class: "card-block" },
    h("h3", null, "Layers that differ"),
    legend([
      ["var(--better)", "this schedule is better here"],
      ["var(--worse)", "worse"],
    ]),
    scrolling(
      table(
        [
          { title: "Layer", of: (l) => layerLink(l.layer), head: true, class: "label" },
          { title: "Share of the change of EDP", of: bar, class: "bar" },
          { title: "", of: (l) => change(l.edp_share), n: true },
          { title: "Energy", of: (l) => versus(l.energy_before_pj, l.energy_after_pj, energy), n: true },
          { title: "Cycles", of: (l) => versus(l.cycles_before, l.cycles_after, count), n: true },
          { title: first.name, of: (l) => versus(l.bytes_before, l.bytes_after, bytes), n: true },
          { title: "Differs in", of: (l) => l.what.join(", ") || "price only", class: "optional differs" },
        ],
        compare.layers,
        { class: "wide diverging" },
      ),
      "Layers that differ",
      "bars-view",
    ),
  );
}

const EDGES_LISTED = 40;
function groupChanges(compare) {
  const told = (shared) => (shared === null ? "—" : Object.keys(shared).length ? trips(shared) : "no shared loops");
  const edges = (list) =>
    list
      .slice(0, EDGES_LISTED)
      .map(([a, b]) => `${cutName(a)} → ${cutName(b)}`)
      .join(", ") + (list.length > EDGES_LISTED ? ` and ${exact(list.length - EDGES_LISTED)} more` : "") || "none";
  return h(
    "div",
    { class: "card-block" },
    h("h3", null, "Groups that differ"),
    scrolling(
      table(
        [
          { title: "Layers", of: (g) => nestTitle(g.layers), head: true },
          { title: "Other", of: (g) => told(g.trips_before), class: "differs" },
          { title: "This one", of: (g) => told(g.trips_after), class: "differs" },
        ],
        compare.groups,
        { class: "wide" },
      ),
      "Groups that differ",
      "bars-view",
    ),
    h("p", { class: "note" }, "Kept on chip only in the other: ", edges(compare.edges_fused_only_before), "."),
    h("p", { class: "note" }, "Kept on chip only in this one: ", edges(compare.edges_fused_only_after), "."),
  );
}
