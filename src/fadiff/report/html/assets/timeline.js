/* The timeline: groups over cycles, and what fills L2 while each layer runs. */

const L2_KINDS = [
  ["pinned weights", "var(--weight)"],
  ["weight tile", "color-mix(in oklab, var(--weight) 50%, var(--surface))"],
  ["kept inputs", "var(--input)"],
  ["input tile", "color-mix(in oklab, var(--input) 50%, var(--surface))"],
  ["buffer", "var(--chip)"],
  ["halo", "url(#halo)"],
];
const L2_NAME = {
  "pinned weights": "pinned weights",
  "weight tile": "weight tile",
  "kept inputs": "kept inputs",
  "input tile": "input tile",
  buffer: "fused tensors",
  halo: "their halos",
};
const L2_ONE = { ...L2_NAME, buffer: "fused output", halo: "halo of the output" };
const l2Part = (part) => `${L2_ONE[part.kind]} of ${part.layer}`;

function showTimeline() {
  const { timeline } = data;
  let scale = "even";
  const { host, redraw } = responsive((width) => drawTimeline(timeline, width, scale));
  section(
    "timeline",
    "When each group runs, and what L2 holds meanwhile. A group ends where the next layer's tiles and buffers would " +
      "not fit, or would cost more than they save.",
    figure({
      title: "Groups over time, L2 against its capacity",
      note:
        `All turns of a layer laid end to end: ${count(timeline.cycles)} cycles in all. ` +
        "Layers of a group take turns within each shared iteration.",
      controls: segments(
        "Width of a layer",
        [
          ["even", "One step per layer"],
          ["cycles", "To scale"],
        ],
        scale,
        (chosen) => {
          scale = chosen;
          redraw();
        },
      ),
      body: host,
      legend: h(
        "ul",
        { class: "legend" },
        L2_KINDS.map(([kind, fill]) =>
          h(
            "li",
            null,
            s(
              "svg",
              {
                width: 12,
                height: 12,
                viewBox: "0 0 12 12",
                "aria-hidden": "true",
                style: { width: "12px", height: "12px" },
              },
              s("rect", { width: 12, height: 12, rx: 3, style: { fill } }),
            ),
            L2_NAME[kind],
          ),
        ),
        TERMS.map(([, name, fill]) =>
          h("li", null, h("span", { class: "swatch", style: { "--fill": fill } }), "bound by " + name),
        ),
      ),
      data: dataTable("Timeline", () =>
        table(
          [
            { title: "Layer", of: (r) => layerLink(r.layer), head: true },
            { title: "Group", of: (r) => String(r.group + 1), n: true },
            { title: "Starts at", of: (r) => count(r.start_cycles), n: true },
            { title: "Cycles", of: (r) => count(r.cycles), n: true },
            { title: "Bound by", of: (r) => bound(r.bound_by) },
            { title: "L2", of: (r) => bytes(r.l2_bytes), n: true },
            { title: "L1", of: (r) => bytes(r.l1_bytes), n: true },
            { title: "In L2", of: (r) => r.l2_parts.map((p) => `${l2Part(p)} ${bytes(p.bytes)}`).join(", ") },
          ],
          timeline.groups.flatMap((g) => g.spans.map((span) => ({ group: g.group, ...span }))),
          { class: "wide" },
        ),
      ),
    }),
  );
}

function drawTimeline(timeline, width, scale) {
  const [left, right, top] = [56, 10, 6];
  const [groupTall, boundTall, area] = [26, 9, 190];
  const areaTop = top + groupTall + boundTall + 22;
  const height = areaTop + area + 30;
  const spans = timeline.groups.flatMap((group) => group.spans);
  const total = scale === "even" ? spans.length : timeline.cycles || 1;
  const place = (amount) => left + ((width - left - right) * amount) / total;
  const capacity = timeline.l2_capacity_bytes;
  const peak = Math.max(...spans.map((span) => span.l2_bytes));
  const most = Math.max(capacity, peak) * 1.06;
  const y = (size) => areaTop + area * (1 - size / most);
  const parts = [];
  let at = 0;
  for (const group of timeline.groups) {
    const begin = at;
    const edges = group.spans.map((span) => {
      const from = place(at);
      at += scale === "even" ? 1 : span.cycles;
      return [span, from, place(at)];
    });
    const [x0, x1] = [place(begin), place(at)];
    const name = "Group " + (group.group + 1);
    const label = x1 - x0 > 62 ? name : x1 - x0 > 18 ? String(group.group + 1) : "";
    parts.push(
      s(
        "g",
        { class: tone(group.group) },
        s("rect", {
          class: "block",
          x: x0 + 0.6,
          y: top,
          width: Math.max(0.6, x1 - x0 - 1.2),
          height: groupTall,
          rx: 4,
          tip: () => groupTip(group),
        }),
        label &&
          text((x0 + x1) / 2, top + 17, label, { "text-anchor": "middle", class: "ink", "pointer-events": "none" }),
      ),
    );
    for (const [span, from, to] of edges) parts.push(...column(span, from, to, y, areaTop, boundTall));
    if (begin > 0)
      parts.push(
        s("line", {
          class: "base",
          x1: x0,
          x2: x0,
          y1: top + groupTall + 2,
          y2: areaTop + area,
          "stroke-dasharray": "2 3",
        }),
      );
  }
  const kilobytes = steps(most / 1024, 4, 2).map((k) => [
    s("line", { class: "grid", x1: left, x2: width - right, y1: y(k * 1024), y2: y(k * 1024) }),
    text(
      left - 7,
      y(k * 1024) + 4,
      byteParts(k * 1024)
        .map(bare)
        .join(" "),
      { "text-anchor": "end" },
    ),
  ]);
  const axis =
    scale === "even"
      ? text((left + width - right) / 2, height - 6, width < 360 ? "layers, in order" : "layers in execution order, one step each", {
          "text-anchor": "middle",
        })
      : steps(total, Math.max(2, Math.floor(width / 130))).map((c) =>
          text(place(c), height - 6, tick(c), { "text-anchor": c ? "middle" : "start" }),
        );
  return drawing(
    width,
    height,
    `${plural(timeline.groups.length, "group")} over time; L2 holds ${bytes(capacity)}, and at most ${bytes(peak)} of it are full.`,
    s(
      "defs",
      null,
      s(
        "pattern",
        { id: "halo", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        s("rect", { width: 5, height: 5, style: { fill: "color-mix(in oklab, var(--chip) 30%, var(--surface))" } }),
        s("rect", { width: 2, height: 5, style: { fill: "var(--chip)" } }),
      ),
    ),
    kilobytes,
    text(left - 7, top + 17, "runs", { "text-anchor": "end" }),
    text(left - 7, top + groupTall + 12, "bound", { "text-anchor": "end" }),
    parts,
    s("line", { class: "capacity", x1: left, x2: width - right, y1: y(capacity), y2: y(capacity) }),
    text(width - right, y(capacity) - 5, `L2 capacity ${bytes(capacity)}`, { "text-anchor": "end", class: "ink" }),
    s("line", { class: "base", x1: left, x2: width - right, y1: areaTop + area, y2: areaTop + area }),
    axis,
  );
}

/* One layer: what binds it, and its share of L2 by kind, from the bottom up. */
function column(span, from, to, y, areaTop, boundTall) {
  const wide = Math.max(0.4, to - from - (to - from > 4 ? 0.8 : 0));
  const marks = [
    s("rect", {
      x: from,
      y: areaTop - boundTall - 16,
      width: wide,
      height: boundTall,
      style: { fill: BOUND_FILL[span.bound_by] },
    }),
  ];
  let held = 0;
  for (const [kind, fill] of L2_KINDS) {
    const size = span.l2_parts.reduce((sum, part) => sum + (part.kind === kind ? part.bytes : 0), 0);
    if (!size) continue;
    marks.push(
      s("rect", {
        x: from,
        y: y(held + size),
        width: wide,
        height: Math.max(0.3, y(held) - y(held + size)),
        style: { fill },
      }),
    );
    held += size;
  }
  marks.push(
    s("rect", {
      class: "cover",
      x: from,
      y: areaTop - boundTall - 18,
      width: Math.max(wide, 0.4),
      height: y(0) - areaTop + boundTall + 18,
      onclick: (event) => openDetails(layerNumber.get(span.layer), event.currentTarget),
      tip: () => spanTip(span),
    }),
  );
  return marks;
}

const ofCapacity = (size) => `${bytes(size)} (${percent(size / data.timeline.l2_capacity_bytes)})`;

function spanTip(span) {
  const lines = [...span.l2_parts]
    .sort((a, b) => b.bytes - a.bytes)
    .slice(0, 8)
    .map((part) => `${bytes(part.bytes)}  ${l2Part(part)}`);
  return [
    span.layer,
    `${count(span.cycles)} cycles from ${count(span.start_cycles)}, bound by ${BOUND_NAME[span.bound_by]}`,
    `L2 ${ofCapacity(span.l2_bytes)}, L1 ${bytes(span.l1_bytes)}`,
    ...lines,
  ].join("\n");
}

function groupTip(group) {
  const reason = data.why_not.find(
    (entry) => group.layers.includes(entry.source) && !group.layers.includes(entry.target),
  );
  return [
    `Group ${group.group + 1}: ${plural(group.layers.length, "layer")}`,
    `${group.layers[0]}${group.layers.length > 1 ? " … " + group.layers[group.layers.length - 1] : ""}`,
    Object.keys(group.trips).length ? `shared loops ${trips(group.trips)}` : "",
    `${count(group.cycles)} cycles, L2 peak ${ofCapacity(group.peak_l2_bytes)}`,
    reason ? `Before ${reason.target}: ${stopped(reason.sentence)}` : "",
  ]
    .filter(Boolean)
    .join("\n");
}
