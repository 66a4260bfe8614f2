/* Why not: every tensor that leaves the chip, with its reason and its price. */

function showWhyNot() {
  if (!data.why_not.length) return;
  const causes = [...new Set(data.why_not.map((entry) => entry.cause))];
  const place = h("div");
  const rows = [...data.why_not].sort((a, b) => b.bytes - a.bytes);
  const draw = (cause) => {
    const shown = rows.filter((entry) => !cause || entry.cause === cause);
    place.replaceChildren(scrolling(whyNotTable(together(shown)), "Tensors that are not fused", "bars-view"));
  };
  draw("");
  const number = (cause) => data.why_not.filter((entry) => entry.cause === cause).length;
  section(
    "why-not",
    "Tensors that leave the chip between two layers, largest first: what keeps the layers apart, and what it would " +
      "cost or need to fuse them.",
    h(
      "div",
      { class: "card-block" },
      causes.length > 1 &&
        h(
          "div",
          { class: "filters" },
          segments(
            "Show causes",
            [["", `All ${data.why_not.length}`], ...causes.map((cause) => [cause, `${cause} ${number(cause)}`])],
            draw,
          ),
        ),
      place,
    ),
  );
}

/* Readers of one tensor that are kept apart from it for the same reason share a row. */
function together(entries) {
  const rows = new Map();
  for (const entry of entries) {
    const key = [entry.source, entry.cause, entry.sentence].join("\n");
    if (rows.has(key)) rows.get(key).targets.push(entry.target);
    else rows.set(key, { ...entry, targets: [entry.target] });
  }
  return [...rows.values()];
}

function whyNotTable(entries) {
  const fusing = memories.find((memory) => memory.fuses);
  const priced = entries.some((entry) => entry.edp_change !== null);
  return table(
    [
      {
        title: "Tensor",
        of: (e) => [layerLink(e.source), " → ", e.targets.map((name, i) => [i ? ", " : "", layerLink(name)])],
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
