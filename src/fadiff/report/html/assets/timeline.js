/* The timeline: groups over cycles, and what fills a memory while each layer runs. */

/* What a memory may hold, from the bottom up: kind and tensor, colour, and how many and one of them are called. */
const pale = (fill) => `color-mix(in oklab, ${fill} 50%, var(--surface))`;
const HELD = [
  ["kept", "W", "var(--weight)", "pinned weights", "pinned weights"],
  ["tile", "W", pale("var(--weight)"), "weight tile", "weight tile"],
  ["kept", "I", "var(--input)", "kept inputs", "kept inputs"],
  ["tile", "I", pale("var(--input)"), "input tile", "input tile"],
  ["tile", "O", pale("var(--output)"), "output tile", "output tile"],
  ["waiting", "O", "var(--sums)", "waiting sums", "waiting sums"],
  ["buffer", "O", "var(--chip)", "fused tensors", "fused output"],
  ["halo", "O", "url(#halo)", "their halos", "halo of the output"],
].map(([kind, tensor, fill, many, one]) => ({ kind, tensor, fill, many, one }));
const isHeld = (what) => (part) => part.kind === what.kind && part.tensor === what.tensor;
const heldPart = (part) => `${HELD.find((what) => isHeld(what)(part)).one} of ${part.layer}`;
const onChip = memories.slice(1).map((memory) => memory.name);

function showTimeline() {
  const { timeline } = data;
  let scale = "even";
  let memory = timeline.shown;
  const key = h("div");
  const { host, redraw } = responsive((width) => drawTimeline(timeline, memory, width, scale));
  const tell = () => key.replaceChildren(timelineLegend(memory));
  tell();
  section(
    "timeline",
    "When each group runs, and what is in the memories meanwhile. A group ends where the next layer's tiles and " +
      "buffers would not fit, or would cost more than they save.",
    figure({
      title: "Groups over time, and a memory against its capacity",
      note:
        `All turns of a layer laid end to end: ${count(timeline.cycles)} cycles in all. ` +
        "Layers of a group take turns within each shared iteration.",
      controls: [
        onChip.length > 1 &&
          selection(
            "Memory",
            [memory, ...onChip.filter((name) => name !== memory)].map((name) => [name, name]),
            (chosen) => {
              memory = chosen;
              tell();
              redraw();
            },
          ),
        segments("Width of a layer", { even: "One step per layer", cycles: "To scale" }, (chosen) => {
          scale = chosen;
          redraw();
        }),
      ],
      body: [host, key],
      data: dataTable("Timeline", () =>
        table(
          [
            { title: "Layer", of: (r) => layerLink(r.layer), head: true },
            { title: "Group", of: (r) => String(r.group + 1), n: true },
            { title: "Starts at", of: (r) => count(r.start_cycles), n: true },
            { title: "Cycles", of: (r) => count(r.cycles), n: true },
            { title: "Bound by", of: (r) => bound(r.bound_by) },
            ...onChip.map((name) => ({ title: name, of: (r) => bytes(r.bytes[name]), n: true })),
            {
              title: `In ${timeline.shown}`,
              of: (r) => r.held[timeline.shown].map((p) => `${heldPart(p)} ${bytes(p.bytes)}`).join(", "),
            },
          ],
          timeline.groups.flatMap((g) => g.spans.map((span) => ({ group: g.group, ...span }))),
          { class: "wide" },
        ),
      ),
    }),
  );
}

function timelineLegend(memory) {
  const parts = data.timeline.groups.flatMap((group) => group.spans.flatMap((span) => span.held[memory]));
  const square = () => s("rect", { x: 1, y: 1, width: 12, height: 12, rx: 3 });
  return legend([
    ...HELD.filter((what) => parts.some(isHeld(what))).map(({ fill, many }) => [fill, many, square()]),
    ...BINDING.map(([term, fill]) => [fill, "bound by " + term]),
  ]);
}

function drawTimeline(timeline, memory, width, scale) {
  const [left, right, top] = [56, 10, 6];
  const [groupTall, boundTall, area] = [26, 9, 190];
  const areaTop = top + groupTall + boundTall + 22;
  const height = areaTop + area + 30;
  const spans = timeline.groups.flatMap((group) => group.spans);
  const total = scale === "even" ? spans.length : timeline.cycles || 1;
  const place = (amount) => left + ((width - left - right) * amount) / total;
  const capacity = timeline.capacity_bytes[memory];
  const peak = Math.max(...spans.map((span) => span.bytes[memory]));
  // A memory that is nearly empty is drawn without its capacity, so that what is there can be seen.
  const roomy = peak > 0 && peak < capacity / 3;
  const most = roomy ? 1.25 * peak : Math.max(capacity, peak) * 1.06;
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
          tip: () => groupTip(group, memory),
        }),
        label &&
          text((x0 + x1) / 2, top + 17, label, { "text-anchor": "middle", class: "ink", "pointer-events": "none" }),
      ),
    );
    for (const [span, from, to] of edges) parts.push(...column(span, memory, from, to, y, areaTop, boundTall));
    if (begin > 0 && x1 - x0 > 5)
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
  const sizes = steps(most, 4, 2).map((size) => [
    s("line", { class: "grid", x1: left, x2: width - right, y1: y(size), y2: y(size) }),
    text(left - 7, y(size) + 4, byteParts(size).map(bare).join(" "), { "text-anchor": "end" }),
  ]);
  const axis =
    scale === "even"
      ? text(
          (left + width - right) / 2,
          height - 6,
          width < 360 ? "layers, in order" : "layers in execution order, one step each",
          {
            "text-anchor": "middle",
          },
        )
      : steps(total, Math.max(2, Math.floor(width / 130))).map((c) =>
          text(place(c), height - 6, tick(c), { "text-anchor": c ? "middle" : "start" }),
        );
  return drawing(
    width,
    height,
    `${plural(timeline.groups.length, "group")} over time; ${memory} holds ${bytes(capacity)}, and at most ${bytes(peak)} of it are full.`,
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
    sizes,
    text(left - 7, top + 17, "runs", { "text-anchor": "end" }),
    text(left - 7, top + groupTall + 12, "bound", { "text-anchor": "end" }),
    parts,
    !roomy && s("line", { class: "capacity", x1: left, x2: width - right, y1: y(capacity), y2: y(capacity) }),
    text(
      width - right,
      roomy ? areaTop + 10 : y(capacity) - 5,
      roomy
        ? `at most ${percent(peak / capacity)} of ${bytes(capacity)} is full`
        : `${fitted(memory, width / 3)} capacity ${bytes(capacity)}`,
      { "text-anchor": "end", class: "ink" },
    ),
    s("line", { class: "base", x1: left, x2: width - right, y1: areaTop + area, y2: areaTop + area }),
    axis,
  );
}

/* One layer: what binds it, and its share of the memory by kind, from the bottom up. */
function column(span, memory, from, to, y, areaTop, boundTall) {
  const wide = Math.max(0.4, to - from - (to - from > 4 ? 0.8 : 0));
  const marks = [
    s("rect", {
      x: from,
      y: areaTop - boundTall - 16,
      width: wide,
      height: boundTall,
      style: { fill: termFill.get(span.bound_by) },
    }),
  ];
  let held = 0;
  for (const what of HELD) {
    const { fill } = what;
    const size = span.held[memory].filter(isHeld(what)).reduce((sum, part) => sum + part.bytes, 0);
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
      tip: () => spanTip(span, memory),
    }),
  );
  return marks;
}

const ofCapacity = (name, size) => `${name} ${bytes(size)} (${percent(size / data.timeline.capacity_bytes[name])})`;

function spanTip(span, memory) {
  const lines = [...span.held[memory]]
    .sort((a, b) => b.bytes - a.bytes)
    .slice(0, 8)
    .map((part) => `${bytes(part.bytes)}  ${heldPart(part)}`);
  return [
    span.layer,
    `${count(span.cycles)} cycles from ${count(span.start_cycles)}, bound by ${span.bound_by}`,
    ofCapacity(memory, span.bytes[memory]),
    ...lines,
  ].join("\n");
}

function groupTip(group, memory) {
  const reason = reasonFor.get(group.group);
  return [
    `Group ${group.group + 1}: ${plural(group.layers.length, "layer")}`,
    `${group.layers[0]}${group.layers.length > 1 ? " … " + group.layers[group.layers.length - 1] : ""}`,
    Object.keys(group.trips).length ? `shared loops ${trips(group.trips)}` : "",
    `${count(group.cycles)} cycles, at most ${ofCapacity(memory, group.peak_bytes[memory])}`,
    reason ? `Before ${reason.target}: ${stopped(reason.sentence)}` : "",
  ]
    .filter(Boolean)
    .join("\n");
}
