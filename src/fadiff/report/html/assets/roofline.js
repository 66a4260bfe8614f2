/* The roofline: each layer by the MACs it does per word of DRAM, under what the machine allows. */

const SHAPES = {
  compute: (x, y, r) => s("circle", { cx: x, cy: y, r }),
  L1: (x, y, r) => s("rect", { x: x - r * 0.88, y: y - r * 0.88, width: r * 1.76, height: r * 1.76 }),
  L2: (x, y, r) => s("path", { d: `M${x} ${y - r * 1.2}L${x + r * 1.1} ${y + r * 0.8}H${x - r * 1.1}Z` }),
  L3: (x, y, r) =>
    s("path", { d: `M${x} ${y - r * 1.2}L${x + r * 1.2} ${y}L${x} ${y + r * 1.2}L${x - r * 1.2} ${y}Z` }),
};
const LABELLED = 6;

function rooflineFigure() {
  const roof = data.roofline;
  const { host } = responsive((width) => drawRoofline(roof, width));
  return figure({
    title: "Roofline",
    note:
      "MACs per cycle against MACs per word of DRAM. Layers on the roof are as fast as their DRAM traffic and the array " +
      "allow; those below it are held back on chip. Larger marks take more time.",
    body: host,
    legend: h(
      "ul",
      { class: "legend" },
      TERMS.map(([key, name]) => {
        const term = key === "compute" ? key : key.toUpperCase();
        return h(
          "li",
          null,
          s(
            "svg",
            {
              width: 14,
              height: 14,
              viewBox: "0 0 14 14",
              style: { width: "14px", height: "14px", fill: BOUND_FILL[term] },
              "aria-hidden": "true",
            },
            SHAPES[term](7, 7, 5),
          ),
          "bound by " + name,
        );
      }),
    ),
    data: dataTable("Roofline", () =>
      table(
        [
          { title: "Layer", of: (p) => p.layer, head: true },
          {
            title: "MACs per DRAM word",
            of: (p) => (p.macs_per_l3_word === null ? "no DRAM" : significant(p.macs_per_l3_word)),
            n: true,
          },
          { title: "MACs per cycle", of: (p) => significant(p.attained_macs_per_cycle), n: true },
          { title: "roof", of: (p) => significant(p.attainable_macs_per_cycle), n: true },
          { title: "PEs mapped", of: (p) => significant(p.mapped_macs_per_cycle), n: true },
          { title: "Bound by", of: (p) => bound(p.bound_by) },
        ],
        roof.points,
        { class: "wide" },
      ),
    ),
  });
}

function drawRoofline(roof, width) {
  const height = Math.max(280, Math.min(400, width * 0.62));
  const [left, right, top, bottom] = [46, 14, 12, 40];
  const peak = roof.peak_macs_per_cycle;
  const known = roof.points.filter((p) => p.macs_per_l3_word !== null).map((p) => p.macs_per_l3_word);
  const lowest = Math.min(roof.ridge_macs_per_word / 8, ...known) / 1.5;
  const highest = Math.max(roof.ridge_macs_per_word * 8, ...known) * 1.6;
  const onChip = roof.points.some((p) => p.macs_per_l3_word === null);
  const reach = width - right - (onChip ? 34 : 0);
  const floor = Math.min(peak / 16, ...roof.points.map((p) => p.attained_macs_per_cycle)) / 1.6;
  const x = (v) => left + ((reach - left) * Math.log(v / lowest)) / Math.log(highest / lowest);
  const y = (v) => top + ((height - top - bottom) * Math.log((peak * 1.5) / v)) / Math.log((peak * 1.5) / floor);
  const at = (p) => [
    p.macs_per_l3_word === null ? width - right - 14 : x(p.macs_per_l3_word),
    y(p.attained_macs_per_cycle),
  ];
  const grid = [
    ...decades(lowest, highest).map((v) => [
      s("line", { class: "grid", x1: x(v), x2: x(v), y1: top, y2: height - bottom }),
      text(x(v), height - bottom + 16, tick(v), { "text-anchor": "middle" }),
    ]),
    ...decades(floor, peak * 1.5).map((v) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      text(left - 7, y(v) + 4, tick(v), { "text-anchor": "end" }),
    ]),
  ];
  const knee = x(roof.ridge_macs_per_word);
  const start = Math.max(lowest, floor / roof.l3_words_per_cycle);
  const roofPath = `M${x(start)} ${y(start * roof.l3_words_per_cycle)}L${knee} ${y(peak)}H${width - right}`;
  const points = [...roof.points].sort((a, b) => b.share_of_cycles - a.share_of_cycles);
  const marks = points.map((p) => {
    const [px, py] = at(p);
    const mark = SHAPES[p.bound_by](px, py, 3.2 + 11 * Math.sqrt(p.share_of_cycles));
    return make(
      mark,
      {
        class: "point",
        style: { fill: BOUND_FILL[p.bound_by] },
        onclick: (event) => openDetails(layerNumber.get(p.layer), event.currentTarget),
        tip: () => pointTip(p),
      },
      [],
    );
  });
  return drawing(
    width,
    height,
    `Roofline of ${plural(roof.points.length, "layer")} under a peak of ${exact(peak)} MACs per cycle.`,
    grid,
    s("path", { class: "roof", d: roofPath }),
    text(width - right, y(peak) - 6, `${exact(peak)} PEs`, { "text-anchor": "end", class: "mark" }),
    onChip && [
      s("line", { class: "base", x1: reach + 4, x2: reach + 4, y1: top, y2: height - bottom }),
      text(width - right - 14, height - bottom + 16, "no DRAM", { "text-anchor": "middle" }),
    ],
    marks,
    roofLabels(points, at, width - right, y(peak) - 6),
    text((left + reach) / 2, height - 4, "MACs per word of DRAM", { "text-anchor": "middle" }),
    text(left, top - 1, "MACs per cycle", {}),
  );
}

function pointTip(p) {
  const intensity = p.macs_per_l3_word;
  return [
    p.layer,
    `${significant(p.attained_macs_per_cycle)} of ${significant(p.attainable_macs_per_cycle)} attainable MACs/cycle`,
    intensity === null ? "touches no DRAM" : `${significant(intensity)} MACs per word of DRAM`,
    `mapped to ${significant(p.mapped_macs_per_cycle)} PEs, bound by ${BOUND_NAME[p.bound_by]}`,
    `${percent(p.share_of_cycles)} of the time`,
  ].join("\n");
}

/* Names beside the layers that take most of the time, where there is room for them; layers at one place share a name. */
function roofLabels(points, at, right, top) {
  const places = [];
  for (const p of points) {
    const [x, y] = at(p);
    const near = places.find((place) => Math.hypot(place.x - x, place.y - y) < 9);
    if (near) near.more += 1;
    else places.push({ x, y, p, more: 0 });
  }
  const taken = [[right - 62, top, 70]];
  return places.slice(0, LABELLED).map(({ x: px, y: py, p, more }) => {
    const name =
      (p.layer.length > 18 ? p.layer.slice(0, 7) + "…" + p.layer.slice(-10) : p.layer) + (more ? ` +${more}` : "");
    const wide = 6.4 * name.length;
    const r = 6 + 11 * Math.sqrt(p.share_of_cycles);
    const spots = [
      [px - wide / 2, py + r + 8],
      [px + r, py + 4],
      [px - r - wide, py + 4],
      [px - wide / 2, py - r],
    ];
    const offMarks = (x, y) => places.every((m) => m.x < x - 5 || m.x > x + wide + 5 || m.y < y - 14 || m.y > y + 5);
    const offNames = (x, y) => taken.every(([a, b, w]) => x > a + w || x + wide < a || Math.abs(y - b) > 13);
    const free = spots.find(([x, y]) => x > 50 && x + wide < right && offMarks(x, y) && offNames(x, y));
    if (!free) return null;
    taken.push([...free, wide]);
    return text(free[0], free[1], name, { class: "over" });
  });
}

function decades(low, high) {
  const marks = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power += 1) marks.push(10 ** power);
  return marks;
}
