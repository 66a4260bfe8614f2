/* Why not: every tensor that leaves the chip, with its reason and its price. */

function showWhyNot() {
  const { entries, left_out: leftOut } = data.why_not;
  if (!entries.length) return;
  const rows = together(entries);
  const tensors = (some) => some.reduce((sum, entry) => sum + entry.edges.length, 0);
  const causes = [...new Set(entries.map((entry) => entry.cause))];
  const place = h("div");
  const draw = (cause) => {
    const shown = rows.filter((entry) => !cause || entry.cause === cause);
    place.replaceChildren(scrolling(whyNotTable(shown), "Tensors that are not fused", "bars-view"));
  };
  draw("");
  const number = (cause) => tensors(entries.filter((entry) => entry.cause === cause));
  section(
    "why-not",
    "Tensors that leave the chip between two layers, largest first: what keeps the layers apart, and what it would " +
      "cost or need to fuse them." +
      (rows.length < tensors(entries) ? " Tensors that differ in the names of their layers alone share a row." : ""),
    h(
      "div",
      { class: "card-block" },
      causes.length > 1 &&
        h(
          "div",
          { class: "filters" },
          segments(
            "Show causes",
            [["", `All ${exact(tensors(entries))}`], ...causes.map((cause) => [cause, `${cause} ${exact(number(cause))}`])],
            draw,
          ),
        ),
      place,
      leftOut > 0 && h("p", { class: "notice" }, `Left out to keep this page small: ${plural(leftOut, "smaller tensor")}.`),
    ),
  );
}

/* Readers of one tensor that are kept apart from it for the same reason share a row; large tensors come first. */
function together(entries) {
  const rows = new Map();
  for (const entry of entries) {
    const [[source, target], ...more] = entry.edges;
    const key = [source, more.length, entry.cause, entry.sentence].join("\n");
    if (rows.has(key)) rows.get(key).targets.push(target);
    else rows.set(key, { ...entry, source, targets: [target], more: more.length });
  }
  return [...rows.values()].sort((a, b) => b.bytes - a.bytes);
}

/* The reason that a group does not go on: of the first tensor that leaves it. */
const reasonFor = new Map();
data.why_not.entries.forEach((entry) =>
  entry.edges.forEach(([source, target]) => {
    const { group } = data.layers[source];
    if (!reasonFor.has(group)) reasonFor.set(group, { target: data.layers[target].name, sentence: entry.sentence });
  }),
);

function whyNotTable(entries) {
  const fusing = memories.find((memory) => memory.fuses);
  const priced = entries.some((entry) => entry.edp_change !== null);
  return table(
    [
      {
        title: "Tensor",
        of: (e) => [
          layerLink(data.layers[e.source].name),
          " → ",
          e.targets.map((n, i) => [i ? ", " : "", layerLink(data.layers[n].name)]),
          e.more > 0 && h("span", { class: "more" }, ` and ${exact(e.more)} more like it`),
        ],
        head: true,
        class: "edge-name",
      },
      { title: "Size", told: true, of: (e) => bytes(e.bytes), n: true },
      { title: "Cause", told: true, of: (e) => h("span", { class: "badge plain" }, e.cause), class: "cause" },
      { title: "Reason", of: (e) => stopped(e.sentence), class: "sentence" },
      ...(priced
        ? [
            {
              title: "EDP if fused",
              told: true,
              of: (e) =>
                e.edp_change === null
                  ? ""
                  : h("span", { class: e.edp_change > 0 ? "worse" : "better" }, change(e.edp_change)),
              n: true,
            },
          ]
        : []),
      {
        title: `${fusing ? fusing.name : "Memory"} missing`,
        told: true,
        of: (e) => (e.missing_bytes ? bytes(e.missing_bytes) : ""),
        n: true,
      },
    ],
    entries,
    { class: "wide stacked" },
  );
}
